"""Step 2: the facts of a response split into the individuals that a reader without prior knowledge sees (section 4.1).

A judge repeats the facts, with a line of ``====`` between individuals, as in table 8 of the paper; other rules (``---``) and
headers ("Individual 2:") are read as well, and a line between facts that is none of these leaves the grouping unscored. The
groups hold exactly the facts that were given, each once: what the judge wrote is laid beside them. The published code loses
the first fact of every response here, because the prompt ends with its hyphen.
"""

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from judges.answers import Answer
from lm_factuality.benchmarks.biographies.types import Fact
from lm_factuality.ground.thinking import without_thinking

PROMPT = "biographies/group"
MAX_TOKENS = 2048  # that a judge may write: all facts again
CLOSE_ENOUGH = 0.85  # difflib's ratio from which a line is a fact with small edits
_AHEAD = 0.02  # by which the best match has to be better than the second
_MISSING = 0.2  # the share of facts that may be restored from their neighbours
_BULLET = re.compile(r"^\s*(?:[-*+\u2022\u2013]+(?:\s+|(?=\w))|\d{1,3}[.)]\s+)")
_SEPARATOR = re.compile(r"^\W*?(?:[-*_=\u2013\u2014]{2,}|[-*_](?: [-*_]){2,})[\W_]*$")
_ORDINAL = "first|second|third|fourth|fifth|sixth|1st|2nd|3rd|[4-9]th"
_NUMBER = "\\d{1,2}|[a-h]|one|two|three|four|five|six"
_HEADER = re.compile(
    rf"^[\W_]*(?P<label>(?:individual|biography|bio|person|group)\s*(?:no\.?|number)?\W{{0,2}}(?:{_NUMBER})(?![^\W_])|"
    rf"(?:the )?(?:{_ORDINAL}) (?:individual|biography|bio|person|group)\b)[\W_]*(?:$|(?<=[:.()\u2013\u2014-]).*$)",
    re.IGNORECASE,
)

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Grouping:
    """The numbers of the facts of each individual, none empty, together each fact once; or the ``problem`` why there are none."""

    groups: Groups
    problem: str | None = None


@dataclass(frozen=True)
class _Line:
    text: str
    key: str
    group: int
    has_bullet: bool


def group_subject(name: str, paragraph: str, facts: Sequence[Fact], sentences: Sequence[str]) -> dict[str, Any]:
    """What the prompt is about; ``sentences`` and ``owners`` are for a judge that reads no prose."""
    return {
        "kind": "group",
        "name": name,
        "paragraph": paragraph,
        "facts": [fact.text for fact in facts],
        "owners": [fact.sentence for fact in facts],
        "sentences": list(sentences),
    }


def parse_groups(answer: Answer, facts: Sequence[str]) -> Grouping:
    """The groups in a judge's answer.

    Order, white space, bullets, letter case, end marks and small edits may differ; blank lines, and what is said before the first
    fact and behind the last, mean nothing. A fact that is missing is restored if there is one group only, or if the facts before
    and after it are in one group, up to a fifth of all. Nothing else is guessed: a fact in two groups, a line between facts or
    with a bullet that is neither a fact nor a border, a header that comes twice, an answer that was cut off are problems.
    """
    if answer.text is None or answer.error is not None:
        return Grouping((), f"judge error: {answer.error or 'no text'}")
    text = without_thinking(answer.text)
    if text is None:
        return Grouping((), "thinking without an end")
    if answer.is_cut_off:
        return Grouping((), "cut off")
    if not text.strip():
        return Grouping((), "empty answer")
    lines = _lines(text, {_key(fact) for fact in facts})
    found = lines if isinstance(lines, str) else _match(lines, facts)
    if isinstance(found, str):
        return Grouping((), found)
    missing = [number for number in range(len(facts)) if number not in found]
    if len(missing) > _MISSING * len(facts):
        return Grouping((), f"{len(missing)} of {len(facts)} facts are missing")
    for number in missing:
        restored = _between_neighbours(number, found, len(facts))
        if restored is None:
            return Grouping((), f"fact {number + 1} of {len(facts)} is missing, and its group is not clear")
        found[number] = restored
    order = sorted(set(found.values()))
    groups = tuple(tuple(sorted(n for n, group in found.items() if group == wanted)) for wanted in order)
    return Grouping(groups)


def _lines(text: str, known: Collection[str]) -> list[_Line] | str:
    """The lines that hold words, with the group that each is in; or what is wrong. A fact of ``known`` is no border, whatever it
    looks like."""
    lines: list[_Line] = []
    labels: set[str] = set()
    group = 0
    for line in text.splitlines():
        bare = _BULLET.sub("", line)
        key = _key(bare)
        if key in known:
            lines.append(_Line(" ".join(bare.split()), key, group, bare != line))
        elif _SEPARATOR.match(line) or _SEPARATOR.match(bare):
            group += 1
        elif header := _HEADER.match(bare):
            label = _key(header["label"])
            if label in labels:
                return f"a header that comes twice: {_short(label)}"
            labels.add(label)
            group += 1
        elif key:
            lines.append(_Line(" ".join(bare.split()), key, group, bare != line))
    return lines


def _match(lines: Sequence[_Line], facts: Sequence[str]) -> dict[int, int] | str:
    """The group of each fact that a line repeats; or what is wrong."""
    group_of: dict[int, int] = {}
    left: list[int] = []
    numbers: dict[str, list[int]] = {}
    for number, fact in enumerate(facts):
        numbers.setdefault(_key(fact), []).append(number)
    waiting = {key: list(same) for key, same in numbers.items()}
    for place, line in enumerate(lines):
        if waiting.get(line.key):
            group_of[waiting[line.key].pop(0)] = line.group
        elif line.key in numbers:
            if line.group not in {group_of[number] for number in numbers[line.key]}:
                return f"a fact in two groups: {_short(line.text)}"
        else:
            left.append(place)
    unmatched = []
    for place in left:
        line = lines[place]
        closest = _closest(line.key, [n for n in range(len(facts)) if n not in group_of], facts)
        if closest is not None:
            group_of[closest] = line.group
        else:
            unmatched.append(place)
    matched = [place for place in range(len(lines)) if place not in unmatched]
    for place in unmatched:
        if lines[place].has_bullet or (matched and matched[0] < place < matched[-1]):
            return f"a line that is none of the facts: {_short(lines[place].text)}"
    return group_of


def _closest(key: str, numbers: Sequence[int], facts: Sequence[str]) -> int | None:
    """Of ``numbers`` the fact that ``key`` is a small edit of; None if there is none, or two are as close."""
    ratios = sorted(
        ((difflib.SequenceMatcher(None, key, _key(facts[number])).ratio(), -number) for number in numbers), reverse=True
    )
    if not ratios or ratios[0][0] < CLOSE_ENOUGH or (len(ratios) > 1 and ratios[0][0] - ratios[1][0] < _AHEAD):
        return None
    return -ratios[0][1]


def _between_neighbours(number: int, group_of: dict[int, int], count: int) -> int | None:
    if len(set(group_of.values())) == 1:
        return next(iter(group_of.values()))
    before = next((group_of[n] for n in range(number - 1, -1, -1) if n in group_of), None)
    after = next((group_of[n] for n in range(number + 1, count) if n in group_of), None)
    return before if before is not None and before == after else None


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]} ..."
