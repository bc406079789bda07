"""The operator that changes quantities: numbers, money, percentages and durations.

A new number has as many digits and decimals as the old one and is as round.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.sentence import Span, TaggedSentence
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import (
    CARDINALS,
    DURATION,
    MONEY,
    NUMBER,
    NUMERAL_VALUES,
    PERCENT,
    TENS,
    Entity,
)

_QUANTITIES = (NUMBER, MONEY, PERCENT, DURATION)
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_ALL_OF = re.compile(r"\ball (?:of the |the )?\Z", re.IGNORECASE)
_MOST_LISTED = 12  # things that a sentence may count and list as well
_LARGEST_PERCENT = 100
_MOST_DIGITS = 12
_TRIES = 6  # draws of a number until one has the right shape
_PAIRS_PER_EXTRA_VALUE = 3  # of draws, since some draws give no number or a number for the 2nd time
_NUMERALS = CARDINALS[:12]  # in words that are replaced; larger numbers are mostly in digits
# The factor between a number and a larger new one, or between a smaller new one and the number.
_LEAST_FACTOR = 1.25
_MOST_FACTOR = 2.0


def change_quantities(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Change the number of each quantity: *It sold 36 boats* becomes *It sold 52 boats*.

    A quantity says how much or how long an event was. It is thus a circumstance, and no subject or
    object of the event (section 3.1 of the paper).

    Args:
        sentence: The sentence to edit.
        rng: The random numbers that decide on the new numbers.

    Yields:
        Edits of one number.
    """
    for entity in sentence.entities:
        if entity.kind not in _QUANTITIES or not _is_changeable(sentence, entity):
            continue
        number = _written_number(entity.text)
        # "1,200" becomes a number in digits, and "two" one in words.
        draw_numbers = _draw_digits if number[:1].isdigit() else _draw_number_words
        # Only the number is replaced, and not the "$" or "weeks" of the quantity.
        start = entity.start + entity.text.lower().index(number)
        for new_number in draw_numbers(sentence, entity, number, rng):
            replacement = Replacement(start, start + len(number), new_number)
            yield make_edit("number", CIRCUMSTANCE, replacement)


def _is_changeable(sentence: TaggedSentence, quantity: Entity) -> bool:
    """Whether another number would make a sentence false, but neither absurd nor easy to spot.

    Example:
        The number in *It sold 36 boats* is changeable. Those in *see page 12* and in *her novel
        "1984"* are not.
    """
    span = Span(quantity.start, quantity.end)
    is_in_name_or_title = not sentence.is_editable(span)
    if is_in_name_or_title:
        return False

    # A sentence may name the things that it counts if there are few, as in "two boats, the Ada and
    # the Bee". The table rules such numbers out.
    value = _value_of(quantity.text)
    is_few = value is None or value <= _MOST_LISTED
    # Table "no quantity" of conditions.yaml lists the contexts in which numbers count nothing.
    context = sentence.context_of_characters(
        *span, {"quantity": [quantity.text], "kind": [quantity.kind], "few": [is_few]}
    )
    if context.matches("no quantity"):
        return False
    return not _is_repeated(sentence, quantity.text)


def _is_repeated(sentence: TaggedSentence, quantity: str) -> bool:
    """Whether a sentence has a number twice, or the text before it has the number too.

    If only one of them was changed, a reader would see that it is wrong.

    Example:
        The number of *three groups of three bits*.
    """
    any_spelling = "|".join(map(re.escape, _spellings_of_number(quantity)))
    # "5" is not repeated in "5.2", "1,500" or "15".
    pattern = re.compile(rf"(?<![\d.,])\b(?:{any_spelling})\b(?![.,]?\d)", re.IGNORECASE)
    if len(pattern.findall(sentence.text)) > 1:
        return True
    return pattern.search(sentence.prefix_end) is not None


def _spellings_of_number(quantity: str) -> set[str]:
    """Return the ways to write the number of a quantity.

    Example:
        *Two*, *2* for *two weeks*, and *1200*, *1,200* for *$1,200*.
    """
    spellings = {_written_number(quantity)}
    value = _value_of(quantity)
    if value is None or not value.is_integer():
        return spellings

    number = int(value)
    numerals = {word for word, numeral_value in NUMERAL_VALUES.items() if numeral_value == value}
    return spellings | numerals | {f"{number}", f"{number:,}"}


def _value_of(quantity: str) -> float | None:
    """Read the value of a quantity: 1200 for *$1,200*, and 2 for *two weeks*.

    Returns:
        The value; None if there are no digits, and the first word is none of *one* to *twenty*
        and no whole ten, such as *thirty*.
    """
    digits = _DIGITS.search(quantity)
    if digits:
        # A comma groups the digits.
        return float(digits.group().replace(",", ""))
    first_word = re.split(r"[ -]", quantity)[0].lower()
    # "Thirty-five" is another number than "thirty". "Two-week" has the number "two".
    is_compound = first_word not in CARDINALS and quantity.lower().startswith(f"{first_word}-")
    return None if is_compound else NUMERAL_VALUES.get(first_word)


def _written_number(quantity: str) -> str:
    """Return the number of a quantity as it is written: ``1,200`` of *$1,200*.

    A number in words is returned in lower case: ``two`` of *Two weeks*.
    """
    digits = _DIGITS.search(quantity)
    return digits.group() if digits else re.split(r"\W", quantity)[0].lower()


def _draw_digits(sentence: TaggedSentence, entity: Entity, number: str, rng: Random) -> list[str]:
    """Draw numbers in digits, one larger and one smaller than the number of a quantity.

    Args:
        sentence: The sentence to edit. Its `extra_values` is how many further numbers are drawn.
        entity: The quantity.
        number: The number of the quantity, such as ``1,200``.
        rng: The random numbers to draw with.

    Returns:
        Different numbers, larger and smaller ones in turn. Chance decides which comes first. There
        may be fewer than asked for, because a draw may find no number.
    """
    amounts = _comparable_amounts(sentence, entity)
    # A pair of draws is one of a larger and one of a smaller number.
    pair_of_draws = rng.sample([True, False], 2)
    num_pairs = 1 + _PAIRS_PER_EXTRA_VALUE * sentence.extra_values
    new_numbers = []
    for is_larger in pair_of_draws * num_pairs:
        new_number = nearby_number(number, is_larger, rng, amounts)
        if new_number and new_number not in new_numbers:
            new_numbers.append(new_number)
    return new_numbers[: 2 + sentence.extra_values]


def _comparable_amounts(sentence: TaggedSentence, entity: Entity) -> list[float]:
    """Collect the amounts with which a sentence may compare a quantity: 10 for *5* in *5 to 10*.

    Args:
        sentence: The sentence.
        entity: The quantity.

    Returns:
        The values of all other quantities of its kind. A percentage has 100 too, because *60%* of
        something would be absurd as *110%*.
    """
    # Money is often written as a number: "$5 more than the 20 of last year".
    kinds = [NUMBER, MONEY] if entity.kind in (NUMBER, MONEY) else [entity.kind]
    amounts: list[float] = [_LARGEST_PERCENT] if entity.kind == PERCENT else []
    for quantity in sentence.entities:
        if quantity is entity or quantity.kind not in kinds:
            continue
        value = _value_of(quantity.text)
        if value is not None:
            amounts.append(value)
    return amounts


def _draw_number_words(
    sentence: TaggedSentence, entity: Entity, number: str, rng: Random
) -> list[str]:
    """Draw numbers in words near the number of a quantity, such as *three* for *four*.

    Args:
        sentence: The sentence to edit. Its `extra_values` is how many further numbers are drawn.
        entity: The quantity.
        number: The number of the quantity in lower case.
        rng: The random numbers to draw with.

    Returns:
        The numbers. There are none for *one*, which often is a pronoun, and for numbers above
        twelve, except *twenty*, *thirty* and so on.
    """
    value = _value_of(number)
    if number == "one" or value is None:
        return []

    excluded_numerals = _excluded_numerals(sentence, entity, number)
    amounts = _comparable_amounts(sentence, entity)
    allowed_numerals = []
    for numeral in _nearby_numerals(number):
        new_value = _value_of(numeral)
        if numeral in excluded_numerals or new_value is None:
            continue
        # In "from six boats to four", four stays the smaller number.
        if keeps_order(value, new_value, amounts):
            allowed_numerals.append(numeral)
    usual_count = 1 if number in TENS else 2
    return sample_up_to(rng, allowed_numerals, usual_count + sentence.extra_values)


def _excluded_numerals(sentence: TaggedSentence, entity: Entity, number: str) -> set[str]:
    """Return the words that must not replace the number of a quantity.

    Args:
        sentence: The sentence to edit.
        entity: The quantity.
        number: The number of the quantity in lower case.
    """
    excluded_numerals = {"one", number}
    # Another quantity of the sentence may have the new number already.
    for quantity in sentence.entities:
        if quantity.kind == entity.kind:
            excluded_numerals.add(quantity.text.lower().split()[0])
    # Nobody says "all two".
    if _ALL_OF.search(sentence.text[: entity.start]):
        excluded_numerals.add("two")
    return excluded_numerals


def _nearby_numerals(number: str) -> Sequence[str]:
    """List the numbers in words that are at most three, or two tens, away from a number.

    Example:
        *One* to *seven* for *four*, *twenty* to *sixty* for *forty*, and nothing for *fifteen*.
    """
    for numerals, most_places_away in ((TENS, 2), (_NUMERALS, 3)):
        if number in numerals:
            index = numerals.index(number)
            return numerals[max(0, index - most_places_away) : index + most_places_away + 1]
    return []


def nearby_number(
    number: str, is_larger: bool, rng: Random, amounts: Sequence[float]
) -> str | None:
    """Draw another number of the same shape: ``12,500`` may become ``17,000``, but not ``9,800``.

    Args:
        number: The number in digits.
        is_larger: Whether the new number is larger, up to twice the old one. Otherwise it is
            smaller, down to half of it.
        rng: The random numbers to draw with.
        amounts: Other amounts of the sentence. The new number is on the same side of each as the
            old one, so that *from 5 to 10* stays a rise.

    Returns:
        The new number; None if `_TRIES` draws gave none of the right shape.
    """
    value = float(number.replace(",", ""))
    whole, _, fraction = number.partition(".")
    digits = whole.replace(",", "")
    # No smaller number fits for 0 and 1, and a number with many digits is an identifier.
    least = 0 if fraction else 2
    if value < least or len(digits) > _MOST_DIGITS:
        return None

    grouping = "," if "," in whole else ""
    for _ in range(_TRIES):
        new_value = _draw_value(digits, fraction, is_larger, rng)
        if new_value < least or new_value == value:
            continue
        # As many decimals as in the old number, and commas if it has them.
        new_number = f"{new_value:{grouping}.{len(fraction)}f}"
        if _have_same_shape(new_number, number) and keeps_order(value, new_value, amounts):
            return new_number
    return None


def keeps_order(value: float, new_value: float, amounts: Iterable[float]) -> bool:
    """Whether a new value is larger and smaller than the same amounts as the old one.

    Example:
        Beside the amount 10, the value 5 may become 7, but neither 10 nor 12.
    """
    for amount in amounts:
        if new_value == amount or (new_value > amount) != (value > amount):
            return False
    return True


def _have_same_shape(number: str, second_number: str) -> bool:
    """Whether two numbers in digits are as long, and both or neither begin with a zero.

    Example:
        *950* has the shape of *700*, but not of *1,200*, and *0.4* not that of *1.1*.
    """
    return len(number) == len(second_number) and (
        number.startswith("0") == second_number.startswith("0")
    )


def _draw_value(digits: str, fraction: str, is_larger: bool, rng: Random) -> float:
    """Draw a value that is larger or smaller than a number, and as round as it.

    Args:
        digits: The digits of the number before the decimal point, such as ``12500``.
        fraction: The digits after the decimal point; empty for a whole number.
        is_larger: Whether the new value is larger.
        rng: The random numbers to draw with.

    Example:
        17000 for the number 12,500, 7.1 for 5.6, and 51 for 36.
    """
    value = float(f"{digits}.{fraction}")
    # The factor is drawn in any case, so that later draws do not depend on the number.
    factor = rng.uniform(_LEAST_FACTOR, _MOST_FACTOR)
    multiple = value * factor if is_larger else value / factor
    if fraction:
        return _round_decimal(multiple, fraction, rng)
    direction = 1 if is_larger else -1
    # A multiple of a single digit would often be rounded to the digit itself.
    if value <= 9:
        return value + direction * rng.choice((1, 2, 3))

    new_value = _round_like(multiple, digits)
    # A number that is not round stays so: for 36, a draw of 50 is changed to 51.
    if not digits.endswith("0") and new_value % 10 == 0:
        return new_value + direction
    return new_value


def _round_decimal(value: float, fraction: str, rng: Random) -> float:
    """Round a value to as many decimals as a number has, and avoid a zero at the end.

    Args:
        value: The value.
        fraction: The decimals of the number, such as ``6`` for 5.6.
        rng: The random numbers to draw with.
    """
    decimals = len(fraction)
    rounded = round(value, decimals)
    ends_in_zero = f"{rounded:.{decimals}f}".endswith("0")
    # For 5.6, a draw of 7.0 is changed to 7.1, 7.2 or 7.3, because people seldom write 7.0.
    if ends_in_zero and not fraction.endswith("0"):
        rounded += 10**-decimals * rng.choice((1, 2, 3))
    return rounded


def _round_like(value: float, digits: str) -> float:
    """Round a value in the same way as another whole number, whose digits are given.

    Example:
        To hundreds for the digits ``300``, to fifties for ``350``, and to units for ``36``.
    """
    leading_digits = digits.rstrip("0")
    num_zeros = len(digits) - len(leading_digits)
    step = 10**num_zeros
    # A single 5, as in 500, says nothing about fifties.
    if leading_digits.endswith("5") and len(leading_digits) > 1:
        step *= 5
    return float(round(value / step) * step)


def ordinal_suffix(value: int) -> str:
    """Return the ending of an ordinal in digits: ``st`` for 21, ``th`` for 11."""
    # 11th, 12th and 13th are exceptions.
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
