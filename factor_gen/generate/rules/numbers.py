"""Another quantity of the same shape.

It has as many digits and decimals, ends in zeros if the old one does, and is more or less by
chance.
"""

import random
import re
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.conditions import Place
from factor_gen.generate.rules.edits import Edit, Replacement, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import LISTS
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import (
    CARDINALS,
    DURATION,
    FINITE,
    MONEY,
    NUMBER,
    PERCENT,
    TENS,
    Entity,
)

_QUANTITIES = (NUMBER, MONEY, PERCENT, DURATION)
_UNITS = LISTS["units of time"]
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_MOST_DECADES = 9  # more than people count in decades
_MOST_LISTED = 12  # things that a sentence counts and lists
_LARGEST_PERCENT = 100
_MOST_DIGITS = 12
_TRIES = 6
_BEFORE_LISTS = frozenset([":", "–", "—", "--", "(", "called", "named", "namely", "i.e.", "viz."])


def numbers(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Change quantities, money, percentages and durations.

    They are circumstances, how much or how long an event was, and no subject or object of it
    (section 3.1). The paper's prompt for entities leaves quantities alone (table 7).
    """
    for entity in sentence.entities:
        if entity.kind not in _QUANTITIES or not sentence.is_free(entity.start, entity.end):
            continue
        place = _place(sentence, entity)
        if place.meets("no quantity"):
            continue
        if entity.kind == DURATION and not place.meets("no unit"):
            for unit in _other_units(sentence, entity, rng):
                start = entity.start + entity.text.rindex(" ") + 1
                yield edit("unit", CIRCUMSTANCE, (start, entity.end, unit))
        for change in _changes(sentence, entity, rng):
            yield edit("number", CIRCUMSTANCE, change)


def suffix(value: int) -> str:
    """The ending of an ordinal in digits: ``st``, ``nd``, ``rd`` or ``th``."""
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


def _place(sentence: Sentence, entity: Entity) -> Place:
    value, last = _value(entity.text), sentence.ends.get(entity.end, 0)
    return Place.of_characters(
        sentence,
        entity.start,
        entity.end,
        quantity=entity.text,
        kind=[entity.kind],
        few=value is None or value <= _MOST_LISTED,
        lists_follow=_lists_follow(sentence, last + 1),
    )


def _lists_follow(sentence: Sentence, end: int) -> bool:
    """Whether the sentence goes on to list things: *three towns: Tarn, Vale and Moor*."""
    since_comma = -1  # tokens since a comma that no verb follows
    for i in range(end, len(sentence.tokens)):
        word = sentence.small[i]
        if word in _BEFORE_LISTS:
            return True
        if word == "-" and sentence.text[sentence.tokens[i].start - 1] == " ":
            return True
        if word in (".", ";"):
            return False
        if word in ("and", "or"):
            # "two integers i and j" has no comma
            is_pair = sentence.tag(i - 2) in ("NNS", "NNPS") and sentence.tag(i - 1)[:2] == "NN"
            if since_comma > 0 or is_pair:
                return True
        if word == ",":
            since_comma = max(since_comma, 0)
        elif since_comma >= 0:
            since_comma = -1 if sentence.tag(i) in FINITE else since_comma + 1
    return False


def _other_units(sentence: Sentence, entity: Entity, rng: random.Random) -> list[str]:
    """The next units, shorter and longer: *three weeks* for *three months*."""
    unit = entity.text.split(" ")[-1]
    if unit not in _UNITS or unit == entity.text:
        return []
    value = _value(entity.text)
    near = [_UNITS[i] for i in _around(_UNITS.index(unit), len(_UNITS), 1)]
    near = [unit for unit in near if unit not in sentence.words]
    if value is None or value > _MOST_DECADES:
        near = [unit for unit in near if unit != "decades"]
    return rng.sample(near, len(near))


def _around(i: int, size: int, reach: int) -> list[int]:
    """The indices of a list next to one of them."""
    return [near for near in range(max(0, i - reach), min(size, i + reach + 1)) if near != i]


def _changes(sentence: Sentence, entity: Entity, rng: random.Random) -> Iterator[Replacement]:
    """Other values of a quantity, in digits or in a word as the old one."""
    digits = _DIGITS.search(entity.text)
    first_word = re.match(r"\w*", entity.text)
    written = digits or first_word
    if written is None:
        return
    value = written.group().lower()
    in_digits = str(CARDINALS.index(value) + 1) if value in CARDINALS else value
    if sentence.small.count(value) > 1 or (in_digits != value and in_digits in sentence.words):
        return  # three groups of three bits
    start, end = entity.start + written.start(), entity.start + written.end()
    if digits:
        new_values = _other_numbers(sentence, entity, value, rng)
    else:
        new_values = _other_words(sentence, entity, value, rng)
    for new in new_values:
        yield Replacement(start, end, new)


def _other_numbers(sentence: Sentence, entity: Entity, value: str, rng: random.Random) -> list[str]:
    kinds = (NUMBER, MONEY) if entity.kind in (NUMBER, MONEY) else (entity.kind,)
    alike = [near for near in sentence.entities if near.kind in kinds and near is not entity]
    values = [_value(near.text) for near in alike]
    others = [other for other in values if other is not None]
    most = _LARGEST_PERCENT if entity.kind == PERCENT else None
    ways = rng.sample((True, False), 2) * (1 + sentence.more_values)
    new_values = [other_number(value, more, rng, others, most) for more in ways]
    return list(dict.fromkeys(filter(None, new_values)))[: 2 + sentence.more_values]


def _other_words(sentence: Sentence, entity: Entity, value: str, rng: random.Random) -> list[str]:
    """Other numbers in words; not for *one*, which is a pronoun too often."""
    names, reach, wanted = (TENS, 2, 1) if value in TENS else (CARDINALS[:12], 3, 2)
    if value not in names or value == CARDINALS[0]:
        return []
    alike = [near.text.lower() for near in sentence.entities if near.kind == entity.kind]
    used = {text.split()[0] for text in alike}
    if sentence.text[: entity.start].lower().endswith(("all ", "all of the ", "all the ")):
        used.add(CARDINALS[1])  # not: all two
    if names is not TENS:
        used.add(CARDINALS[0])
    near = [names[i] for i in _around(names.index(value), len(names), reach)]
    return sentence.some(rng, [new for new in near if new not in used], wanted)


def _value(text: str) -> float | None:
    digits = _DIGITS.search(text)
    if digits:
        return float(digits.group().replace(",", ""))
    word = re.split(r"[ -]", text)[0].lower()
    return CARDINALS.index(word) + 1.0 if word in CARDINALS else None


def other_number(
    old: str, more: bool, rng: random.Random, others: Sequence[float], most: float | None = None
) -> str | None:
    """Write another number the same way.

    It is a quarter up to double as much, or that much less.

    Args:
        others: Numbers to which the new one stands as the old one does, so that what the sentence
            says of them (from, to, compared with) holds.
        most: What the number does not exceed if the old one did not.

    Returns:
        The number; None if none will do.
    """
    value = float(old.replace(",", ""))
    whole, _, fraction = old.partition(".")
    digits = whole.replace(",", "")
    is_code = len(digits) > 1 and digits.startswith("0")
    if (value < 2 and not fraction) or value == most or is_code or len(digits) > _MOST_DIGITS:
        return None
    for _ in range(_TRIES):
        new = _moved(value, digits, fraction, more, rng)
        written = f"{new:.{len(fraction)}f}"
        size, is_small = len(written.partition(".")[0]), written.startswith("0")
        if new <= 0 or (new < 2 and not fraction) or new == value:
            continue
        if size != len(digits) or is_small != (digits == "0"):
            continue
        if fraction and (written[-1] == "0") and fraction[-1] != "0":
            continue
        if most is not None and value <= most <= new:
            continue
        if all((new > other) == (value > other) and new != other for other in others):
            return f"{new:{',' if ',' in whole else ''}.{len(fraction)}f}"
    return None


def _moved(value: float, digits: str, fraction: str, more: bool, rng: random.Random) -> float:
    """A number near the value, as round as it."""
    factor = rng.uniform(1.25, 2.0)
    moved = value * factor if more else value / factor
    if fraction:
        step = 10 ** -len(fraction)
        moved = round(moved / step) * step
        is_round = f"{moved:.{len(fraction)}f}"[-1] == "0"
        if is_round and fraction[-1] != "0":
            moved += step * rng.choice((1, 2, 3))
        return float(round(moved, len(fraction)))
    if value <= 9:
        moved = value + rng.choice((1, 2, 3)) * (1 if more else -1)
    leading = digits.rstrip("0")
    step = 10 ** (len(digits) - len(leading))
    if leading.endswith("5") and len(leading) > 1:
        step *= 5
    moved = round(moved / step) * step
    if digits == leading and int(moved) % 10 == 0:
        moved += 1 if more else -1
    return float(moved)
