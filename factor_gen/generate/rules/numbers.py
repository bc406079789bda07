"""Another quantity of the same shape.

It has as many digits and decimals, ends in zeros if the old one does, and is more or less by
chance.
"""

import random
import re
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.edits import SentenceEdit, edit
from factor_gen.generate.rules.sentence import TaggedSentence
from factor_gen.records import CIRCUMSTANCE
from factor_gen.text.analysis import CARDINALS, DURATION, MONEY, NUMBER, PERCENT, TENS, Entity

_QUANTITIES = (NUMBER, MONEY, PERCENT, DURATION)
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_WORD = re.compile(r"\w*")
_ALL = re.compile(r"\ball (?:of the |the )?\Z", re.IGNORECASE)
_MOST_LISTED = 12  # things that a sentence counts and lists
_LARGEST_PERCENT = 100
_MOST_DIGITS = 12
_TRIES = 6


def numbers(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Change quantities, money, percentages and durations.

    They are circumstances, how much or how long an event was, and no subject or object of it
    (section 3.1). The paper's prompt for entities leaves quantities alone (table 7).
    """
    for entity in sentence.entities:
        if entity.kind not in _QUANTITIES or not sentence.is_free(entity.start, entity.end):
            continue
        value = _value(entity.text)
        place = sentence.place_of(
            entity.start,
            entity.end,
            quantity=[entity.text],
            kind=[entity.kind],
            few=[value is None or value <= _MOST_LISTED],
        )
        if place.matches("no quantity"):
            continue
        written = _DIGITS.search(entity.text) or _WORD.match(entity.text)
        old = written.group().lower() if written else ""
        spellings = {old, str(value).removesuffix(".0")}
        if sum(sentence.small.count(spelling) for spelling in spellings) > 1:
            continue  # three groups of three bits
        others = _other_numbers if old[:1].isdigit() else _other_words
        for new in others(sentence, entity, old, rng):
            start = entity.start + entity.text.lower().index(old)
            yield edit("number", CIRCUMSTANCE, (start, start + len(old), new))


def suffix(value: int) -> str:
    """The ending of an ordinal in digits: ``st``, ``nd``, ``rd`` or ``th``."""
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


def _other_numbers(
    sentence: TaggedSentence, entity: Entity, old: str, rng: random.Random
) -> list[str]:
    kinds = (NUMBER, MONEY) if entity.kind in (NUMBER, MONEY) else (entity.kind,)
    alike = [near for near in sentence.entities if near.kind in kinds and near is not entity]
    values = [_value(near.text) for near in alike]
    others = [other for other in values if other is not None]
    if entity.kind == PERCENT:
        others.append(_LARGEST_PERCENT)
    ways = rng.sample((True, False), 2) * (1 + sentence.spare)
    new_values = [other_number(old, more, rng, others) for more in ways]
    return list(dict.fromkeys(filter(None, new_values)))[: 2 + sentence.spare]


def _other_words(
    sentence: TaggedSentence, entity: Entity, old: str, rng: random.Random
) -> list[str]:
    """Other numbers in words; not for *one*, which is a pronoun too often."""
    names, reach, wanted = (TENS, 2, 1) if old in TENS else (CARDINALS[:12], 3, 2)
    if old not in names or old == CARDINALS[0]:
        return []
    alike = [near.text.lower() for near in sentence.entities if near.kind == entity.kind]
    used = {CARDINALS[0], *(text.split()[0] for text in alike)}
    if _ALL.search(sentence.text[: entity.start]):
        used.add(CARDINALS[1])  # not: all two
    i = names.index(old)
    near = [new for new in names[max(0, i - reach) : i + reach + 1] if new not in {old, *used}]
    return sentence.some(rng, near, wanted)


def _value(text: str) -> float | None:
    digits = _DIGITS.search(text)
    if digits:
        return float(digits.group().replace(",", ""))
    word = re.split(r"[ -]", text)[0].lower()
    return CARDINALS.index(word) + 1.0 if word in CARDINALS else None


def other_number(old: str, more: bool, rng: random.Random, others: Sequence[float]) -> str | None:
    """Write another number the same way.

    It is a quarter up to double as much, or that much less.

    Args:
        others: Numbers to which the new one stands as the old one does, so that what the sentence
            says of them (from, to, compared with) holds.

    Returns:
        The number; None if none will do.
    """
    value = float(old.replace(",", ""))
    whole, _, fraction = old.partition(".")
    digits = whole.replace(",", "")
    least = 0 if fraction else 2
    if value < least or len(digits) > _MOST_DIGITS:
        return None
    for _ in range(_TRIES):
        new = _moved(value, digits, fraction, more, rng)
        written = f"{new:{',' if ',' in whole else ''}.{len(fraction)}f}"
        is_alike = len(written) == len(old) and written.startswith("0") == old.startswith("0")
        is_in_order = all((new > other) == (value > other) and new != other for other in others)
        if is_alike and is_in_order and least <= new != value:
            return written
    return None


def _moved(value: float, digits: str, fraction: str, more: bool, rng: random.Random) -> float:
    """A number near the value, as round as it."""
    factor = rng.uniform(1.25, 2.0)
    moved = value * factor if more else value / factor
    if fraction:
        moved = round(moved, len(fraction))
        if f"{moved:.{len(fraction)}f}".endswith("0") and not fraction.endswith("0"):
            moved += 10 ** -len(fraction) * rng.choice((1, 2, 3))
        return moved
    if value <= 9:
        return value + rng.choice((1, 2, 3)) * (1 if more else -1)
    leading = digits.rstrip("0")
    step = 10 ** (len(digits) - len(leading))
    if leading.endswith("5") and len(leading) > 1:
        step *= 5
    moved = round(moved / step) * step
    if digits == leading and moved % 10 == 0:
        moved += 1 if more else -1
    return float(moved)
