"""Another quantity of the same shape: as many digits and decimals, ending in zeros if the old one
did, more or less by chance."""

import random
import re
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import LISTS, WORDS
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

_UNITS = LISTS["units of time"]
_LEAST = re.compile(r"\b(?:least|most|over|than|under|to|within|about|almost|nearly)\s$")
# 4, 8; 2 + 3; six and a half; 431 to 404 BC
_NO_QUANTITY = re.compile(
    r",\s\d|\s?[*^+=]|\sand (?:a|an|one|three) (?:half|quarters?)\b|\s(?:to|and|or|until) \d[\d,]*"
    r" (?:BC|CE|AD|B\.C)"
)
_BOUND = re.compile(
    r"\bprior to $|\b(?!more |less |fewer |greater )\w+ than $", re.IGNORECASE
)  # another may be one as well
_LABEL = re.compile(r"\(1?\d\)")  # (1) ..., or (2) ...
_ALL = re.compile(r"\ball (?:of )?(?:the )?$", re.IGNORECASE)
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_LARGEST_PERCENT = 100
_MOST_DECADES = 9
_MOST_LISTED = 12
_BEFORE_LISTS = frozenset([":", "–", "—", "--", "(", "called", "named", "namely", "i.e.", "viz."])


def numbers(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Quantities, money, percentages and durations: circumstances, how much or how long an event
    was, and no subject or object of it (section 3.1); the paper's prompt for entities leaves
    quantities alone (table 7)."""
    if not WORDS["enough"].isdisjoint(sentence.words):
        return  # where two are enough, so are three
    for entity in sentence.entities:
        if (
            entity.kind not in (NUMBER, MONEY, PERCENT, DURATION)
            or _BOUND.search(sentence.text[: entity.start])
            or _LABEL.fullmatch(sentence.text, max(0, entity.start - 1), entity.end + 1)
            or not sentence.is_free(entity.start, entity.end)
            or _is_converted(sentence, entity)
            or re.search(r"\d(?:[-–/]|,\s)$", sentence.text[: entity.start])
            or _NO_QUANTITY.match(sentence.text, entity.end)
            or (
                entity.kind == NUMBER
                and (not _counts(sentence, entity) or _is_listed(sentence, entity))
            )
        ):
            continue
        if entity.kind == DURATION:
            yield from _other_unit(sentence, entity, rng)
        for start, end, new in _changed(sentence, entity, rng):
            yield edit("number", CIRCUMSTANCE, (start, end, new))


def _other_unit(sentence: Sentence, entity: Entity, rng: random.Random) -> Iterator[Edit]:
    """*Three weeks* for *three months*: the next unit, shorter or longer."""
    unit = entity.text.split(" ")[-1]
    if _LEAST.search(sentence.text[: entity.start]):
        return  # at least fifty years
    if (
        unit in _UNITS
        and " " in entity.text
        and not sentence.text[entity.end :].lstrip(" ").startswith("old")
    ):
        value = _value(entity.text)
        near = [_UNITS[each] for each in _around(_UNITS.index(unit), len(_UNITS), 1)]
        near = [each for each in near if each not in sentence.words]
        if value is None or value > _MOST_DECADES:  # more than people count in decades
            near = [each for each in near if each != "decades"]
        for new in rng.sample(near, len(near)):
            yield edit("unit", CIRCUMSTANCE, (entity.end - len(unit), entity.end, new))


def suffix(value: int) -> str:
    """``st``, ``nd``, ``rd`` or ``th``."""
    return (
        "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    )


def _around(index: int, size: int, reach: int) -> list[int]:
    return [
        each for each in range(max(0, index - reach), min(size, index + reach + 1)) if each != index
    ]


def _counts(sentence: Sentence, entity: Entity) -> bool:
    """Whether a bare number says how many; the number in a name, an address, a score or a table
    does not."""
    i, end = sentence.starts.get(entity.start), sentence.ends.get(entity.end)
    if i is None:
        return False
    following = sentence.word(end + 1) if end is not None else ""
    is_named = (
        following != ""
        and end is not None
        and sentence.tokens[end + 1].text[:1].isupper()
        and "$" not in following
    )
    before = sentence.tokens[i - 1].text if i else ""
    follows_name = (
        i > 1
        and before[:1].isupper()
        and not sentence.text[sentence.tokens[i - 1].end : entity.start].strip(" ")
    )
    looks_like_a_year = (
        entity.text.isdigit() and len(entity.text) == 4 and 1400 < int(entity.text) < 2100
    )
    return not (
        before[-1:].isdigit()  # 80 737 MAX
        or is_named
        or follows_name
        or before.lower() in WORDS["numbered"]
        or before.lower() in ("per", "§", "§§")
        or (before.lower() in WORDS["pointing back"] and entity.text.isalpha())
        or (
            before.lower() == "between" and following != "and" and entity.text.isalpha()
        )  # two points
        or following in ("-", "–", "/", "am", "pm", "gmt", "o'clock", "of", "one", '"', "“", "``")
        or looks_like_a_year
    )


_CONVERTED = re.compile(r"[^.;,()]{0,25}\((?:about |around |or |nearly |over )?[$€£¥]?\d")
_SAID = "|".join((*CARDINALS, *TENS, "hundred", "thousand"))  # fifty dollars ($50)
_CONVERSION = re.compile(
    rf"(?:\d|\b(?:{_SAID})\b)[^.;,()]{{0,25}}\((?:about |around |or |nearly |over )?[$€£¥]?$",
    re.IGNORECASE,
)


def _is_converted(sentence: Sentence, entity: Entity) -> bool:
    """Whether the amount is given in another unit too: *40 miles (64 km)*."""
    if _CONVERTED.match(sentence.text, entity.end):
        return True
    return _CONVERSION.search(sentence.text, max(0, entity.start - 45), entity.start) is not None


def _is_listed(sentence: Sentence, entity: Entity) -> bool:
    """Whether the number marks an item of a list, or counts what the sentence lists: *three towns:
    Tarn, Vale and Moor*."""
    before, after = (
        sentence.text[: entity.start].rstrip(" \n"),
        sentence.text[entity.end :].strip(" \n"),
    )
    is_last = after in ("", ".", ")", ".)") and (not before or before[-1] in '.!?:;)]”"')
    if is_last or (not before and after[:1] in (".", ")")):
        return True
    i, end = sentence.starts.get(entity.start), sentence.ends.get(entity.end)
    value = _value(entity.text)
    if i is None or end is None or (value is not None and value > _MOST_LISTED):
        return False
    rest = sentence.small[end + 1 :]
    if sentence.word(i - 1) == "the" and not sentence.tag(end + 1).startswith(
        ("NN", "JJ", "VB", "CD")
    ):
        return True  # the two
    if not WORDS["counted"].isdisjoint(rest) or (
        WORDS["be"] & {*sentence.small[i - 2 : i]} and "and" in sentence.small[:i]
    ):
        return True  # two towns, both; Tarn and Vale are two towns
    item = -1  # tokens since the first comma without a verb after it, which may be items of a list
    for at, word in enumerate(rest, start=end + 1):
        if word in _BEFORE_LISTS or (
            word == "-" and sentence.text[sentence.tokens[at].start - 1] == " "
        ):
            return True
        is_pair = sentence.tag(at - 2) in ("NNS", "NNPS") and sentence.tag(at - 1).startswith(
            "NN"
        )  # two integers i and j
        if word in (".", ";") or (word in ("and", "or") and (item > 0 or is_pair)):
            return word not in (".", ";")
        item = (
            max(item, 0)
            if word == ","
            else -1
            if item < 0 or sentence.tag(at) in FINITE
            else item + 1
        )
    return False


def _changed(
    sentence: Sentence, entity: Entity, rng: random.Random
) -> Iterator[tuple[int, int, str]]:
    match = _DIGITS.search(entity.text)
    amounts = (NUMBER, MONEY) if entity.kind in (NUMBER, MONEY) else (entity.kind,)
    same = [each for each in sentence.entities if each.kind in amounts and each is not entity]
    others = [value for each in same if (value := _value(each.text)) is not None]
    said = (match or re.match(r"\w+|", entity.text)).group().lower()  # type: ignore[union-attr]
    digits = str(CARDINALS.index(said) + 1) if said in CARDINALS else said
    if sentence.small.count(said) > 1 or (digits != said and digits in sentence.words):
        return  # three groups of three bits
    if match:
        most = _LARGEST_PERCENT if entity.kind == PERCENT else None
        ways = rng.sample((True, False), 2) * (1 + sentence.more_values)
        found = [
            new for more in ways if (new := other_number(match.group(), more, rng, others, most))
        ]
        for new in list(dict.fromkeys(found))[: 2 + sentence.more_values]:
            yield entity.start + match.start(), entity.start + match.end(), new
        return
    first = re.match(r"\w+", entity.text)
    if not first:
        return
    small = first.group().lower()
    words = {each.text.lower().split()[0] for each in sentence.entities if each.kind == entity.kind}
    if small in CARDINALS[1:]:  # "one" is a pronoun too often, and wants the singular
        least = 1 + bool(_ALL.search(sentence.text[: entity.start]))  # not all two
        near = [
            each
            for each in _around(CARDINALS.index(small), 12, 3)
            if each >= least and CARDINALS[each] not in words
        ]
        for each in sentence.some(rng, near, 2) if CARDINALS.index(small) < 12 else ():
            yield entity.start, entity.start + len(small), CARDINALS[each]
    elif small in TENS:
        near = [
            each for each in _around(TENS.index(small), len(TENS), 2) if TENS[each] not in words
        ]
        for each in sentence.some(rng, near):
            yield entity.start, entity.start + len(small), TENS[each]


def _value(text: str) -> float | None:
    match, word = _DIGITS.search(text), text.split(" ")[0].split("-")[0].lower()
    if match is None:
        return CARDINALS.index(word) + 1.0 if word in CARDINALS else None
    return float(match.group().replace(",", ""))


def other_number(
    old: str, more: bool, rng: random.Random, others: list[float], most: float | None = None
) -> str | None:
    """Another number written the same way, or None if none will do.

    A quarter up to double as much, or that much less; in the same order with the ``others`` as the
    old one, so that what the sentence says of them (from, to, compared with) holds; not above
    ``most`` if the old one wasn't."""
    value = float(old.replace(",", ""))
    whole, _, fraction = old.partition(".")
    digits = whole.replace(",", "")
    if (
        (value < 2 and not fraction)
        or value == most
        or (len(digits) > 1 and digits[0] == "0")
        or len(digits) > 12
    ):
        return None
    for _ in range(6):
        new = _moved(value, digits, fraction, more, rng)
        if new is None or new == value or (most is not None and value <= most <= new):
            continue
        if any((new > other) != (value > other) or new == other for other in others):
            continue
        return f"{new:{',' if ',' in whole else ''}.{len(fraction)}f}"
    return None


def _moved(
    value: float, digits: str, fraction: str, more: bool, rng: random.Random
) -> float | None:
    factor = rng.uniform(1.25, 2.0)
    moved = value * factor if more else value / factor
    if fraction:
        step = 10 ** -len(fraction)
        moved = round(moved / step) * step
        tail = f"{moved:.{len(fraction)}f}"
        if (tail[-1] == "0") != (fraction[-1] == "0"):
            moved += step * rng.choice((1, 2, 3)) if fraction[-1] != "0" else 0
        moved = round(moved, len(fraction))
        if f"{moved:.{len(fraction)}f}"[-1] == "0" and fraction[-1] != "0":
            return None
    else:
        zeros = len(digits) - len(digits.rstrip("0"))
        step = 10**zeros
        if digits.rstrip("0").endswith("5") and len(digits.rstrip("0")) > 1:
            step *= 5
        if value <= 9:
            moved = value + rng.choice((1, 2, 3)) * (1 if more else -1)
        moved = round(moved / step) * step
        if zeros == 0 and int(moved) % 10 == 0:
            moved += 1 if more else -1
        if moved < 2:
            return None
    shown = f"{moved:.{len(fraction)}f}" if fraction else str(int(moved))
    same_size = len(shown.split(".")[0]) == len(digits)
    return (
        moved
        if same_size and moved > 0 and (digits != "0") == (shown.split(".")[0] != "0")
        else None
    )
