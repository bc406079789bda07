"""The operator that changes quantities: numbers, money, percentages and durations.

A new number has as many digits and decimals as the old one and is as round.
"""

import random
import re
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.sentence import Span, TaggedSentence
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import CARDINALS, DURATION, MONEY, NUMBER, PERCENT, TENS, Entity

_QUANTITIES = (NUMBER, MONEY, PERCENT, DURATION)
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_ALL_OF = re.compile(r"\ball (?:of the |the )?\Z", re.IGNORECASE)
_MOST_LISTED = 12  # things that a sentence may count and list as well
_LARGEST_PERCENT = 100
_MOST_DIGITS = 12
_TRIES = 6  # draws of a number until one has the right shape


def change_quantities(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
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
        is_editable = sentence.is_editable(Span(entity.start, entity.end))
        if entity.kind not in _QUANTITIES or not is_editable:
            continue
        value = _value_of(entity.text)
        context = sentence.context_of_characters(
            entity.start,
            entity.end,
            quantity=[entity.text],
            kind=[entity.kind],
            few=[value is None or value <= _MOST_LISTED],
        )
        # Table "no quantity" of conditions.yaml: numbers that count nothing, as in "page 12".
        if context.matches("no quantity"):
            continue

        number = _written_number(entity.text)
        spellings = {number, str(value).removesuffix(".0")}
        # In "three groups of three bits" the same number is used twice.
        if sum(sentence.lowercase_words.count(spelling) for spelling in spellings) > 1:
            continue

        find_numbers = _other_digits if number[:1].isdigit() else _other_words
        start = entity.start + entity.text.lower().index(number)
        for new_number in find_numbers(sentence, entity, number, rng):
            replacement = Replacement(start, start + len(number), new_number)
            yield make_edit("number", CIRCUMSTANCE, replacement)


def _value_of(quantity: str) -> float | None:
    """Read the value of a quantity: 1200 for *$1,200*, and 2 for *two weeks*.

    Returns:
        The value; None if the number is in words and above twelve.
    """
    digits = _DIGITS.search(quantity)
    # A comma groups the digits.
    if digits:
        return float(digits.group().replace(",", ""))
    first_word = re.split(r"[ -]", quantity)[0].lower()
    return CARDINALS.index(first_word) + 1.0 if first_word in CARDINALS else None


def _written_number(quantity: str) -> str:
    """Return the number of a quantity as it is written: ``1,200`` of *$1,200*.

    A number in words is returned in lower case: ``two`` of *Two weeks*.
    """
    digits = _DIGITS.search(quantity)
    return digits.group() if digits else re.split(r"\W", quantity)[0].lower()


def _other_digits(
    sentence: TaggedSentence, entity: Entity, number: str, rng: random.Random
) -> list[str]:
    """Draw numbers in digits, one larger and one smaller than the number of a quantity.

    Args:
        sentence: The sentence to edit. Its `extra_values` ask for more numbers.
        entity: The quantity.
        number: The number of the quantity, such as ``1,200``.
        rng: The random numbers to draw with.
    """
    # Money is often written as a number: "$5 more than the 20 of last year".
    kinds = (NUMBER, MONEY) if entity.kind in (NUMBER, MONEY) else (entity.kind,)
    amounts = []
    for quantity in sentence.entities:
        value = _value_of(quantity.text)
        if quantity.kind in kinds and quantity is not entity and value is not None:
            amounts.append(value)
    if entity.kind == PERCENT:
        amounts.append(_LARGEST_PERCENT)

    # The new numbers are larger and smaller in turn, the first by chance.
    directions = rng.sample((True, False), 2) * (1 + sentence.extra_values)
    drawn = [nearby_number(number, is_larger, rng, amounts) for is_larger in directions]
    # Some draws find no number, and some find one twice.
    new_numbers = [new_number for new_number in drawn if new_number]
    return list(dict.fromkeys(new_numbers))[: 2 + sentence.extra_values]


def _other_words(
    sentence: TaggedSentence, entity: Entity, number: str, rng: random.Random
) -> list[str]:
    """Draw numbers in words near the number of a quantity, such as *three* for *four*.

    Args:
        sentence: The sentence to edit. Its `extra_values` ask for more numbers.
        entity: The quantity.
        number: The number of the quantity in lower case.
        rng: The random numbers to draw with.

    Returns:
        The numbers; none for *one*, which is a pronoun too often, and for numbers above twelve
        that are no tens.
    """
    is_tens = number in TENS
    numerals = TENS if is_tens else CARDINALS[:12]
    reach = 2 if is_tens else 3
    usual_count = 1 if is_tens else 2
    if number not in numerals or number == "one":
        return []

    excluded = {"one", number}
    for quantity in sentence.entities:
        if quantity.kind == entity.kind:
            excluded.add(quantity.text.lower().split()[0])
    # Nobody says "all two".
    if _ALL_OF.search(sentence.text[: entity.start]):
        excluded.add("two")

    # Numbers that are up to three away, or up to two tens.
    index = numerals.index(number)
    near = numerals[max(0, index - reach) : index + reach + 1]
    allowed = [numeral for numeral in near if numeral not in excluded]
    return sample_up_to(rng, allowed, usual_count + sentence.extra_values)


def nearby_number(
    number: str, is_larger: bool, rng: random.Random, amounts: Sequence[float]
) -> str | None:
    """Draw another number of the same shape: ``12,500`` may become ``17,000``, but not ``9,800``.

    Args:
        number: The number in digits.
        is_larger: Whether the new number is a quarter up to double as much. Otherwise it is
            smaller by the same factor.
        rng: The random numbers to draw with.
        amounts: Other amounts of the sentence. The new number is on the same side of each as the
            old one, so that *from 5 to 10* stays a rise.

    Returns:
        The new number; None if six draws gave none of the right shape.
    """
    value = float(number.replace(",", ""))
    whole, _, fraction = number.partition(".")
    digits = whole.replace(",", "")
    # 0 and 1 are too close to nothing, and identifiers have many digits.
    least = 0 if fraction else 2
    if value < least or len(digits) > _MOST_DIGITS:
        return None

    grouping = "," if "," in whole else ""
    for _ in range(_TRIES):
        new_value = _draw_value(digits, fraction, is_larger, rng)
        new_number = f"{new_value:{grouping}.{len(fraction)}f}"
        # 950 does not become 1,200, and 0.4 does not become 1.1.
        has_same_length = len(new_number) == len(number)
        has_same_zero = new_number.startswith("0") == number.startswith("0")
        is_in_order = all(
            (new_value > amount) == (value > amount) and new_value != amount for amount in amounts
        )
        is_other = least <= new_value != value
        if has_same_length and has_same_zero and is_in_order and is_other:
            return new_number
    return None


def _draw_value(digits: str, fraction: str, is_larger: bool, rng: random.Random) -> float:
    """Draw a value near that of a number, and as round as it.

    Args:
        digits: The digits before the decimal point, such as ``12500``.
        fraction: The digits after it; empty for a whole number.
        is_larger: Whether the new value is larger.
        rng: The random numbers to draw with.
    """
    value = float(f"{digits}.{fraction}")
    factor = rng.uniform(1.25, 2.0)
    new_value = value * factor if is_larger else value / factor
    if fraction:
        decimals = len(fraction)
        new_value = round(new_value, decimals)
        # 5.6 does not become 7.0, because formatted numbers seldom end in a zero.
        ends_in_zero = f"{new_value:.{decimals}f}".endswith("0")
        if ends_in_zero and not fraction.endswith("0"):
            new_value += 10**-decimals * rng.choice((1, 2, 3))
        return new_value

    sign = 1 if is_larger else -1
    if value <= 9:
        return value + rng.choice((1, 2, 3)) * sign
    # A round number stays as round: 300 has the step 100.
    leading_digits = digits.rstrip("0")
    step = 10 ** (len(digits) - len(leading_digits))
    # 350 is rounded to fifties, and 300 to hundreds.
    if leading_digits.endswith("5") and len(leading_digits) > 1:
        step *= 5
    new_value = round(new_value / step) * step
    # 36 does not become 50, which would be rounder.
    if digits == leading_digits and new_value % 10 == 0:
        new_value += sign
    return float(new_value)


def ordinal_suffix(value: int) -> str:
    """Return the ending of an ordinal in digits: ``st`` for 21, ``th`` for 11."""
    # 11th, 12th and 13th are exceptions.
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
