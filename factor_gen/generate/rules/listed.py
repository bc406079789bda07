"""Rules for languages other than English, without a tagger: words of a list, each for another of
its line, numbers, dates, and denials where the list says how. The head of a list says what its
lines look like."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from factor_gen.generate.rules.edits import Replacement, apply, described
from factor_gen.generate.rules.words import DATA
from factor_gen.records import Candidate, Example
from factor_gen.text.lists import rows
from lm_factuality.ground.sentences import SIGNS

LANGUAGES = DATA / "languages"
_QUOTED = re.compile(
    r"[„“][^“”]{1,200}[“”]|«[^»]{1,200}»|»[^«]{1,200}«|\"[^\"]{1,200}\"|[「《『][^」》』]{1,200}[」》』]"
)


@dataclass(frozen=True)
class Line:
    """A line of a list. ``way`` says what its ``members`` are: words of which each may stand for
    any other (``swap``), the least and the most that a number may become (``step``), or what the
    expression's group ``edit`` becomes (``edit``)."""

    operator: str
    type: str
    way: str
    pattern: re.Pattern[str]
    members: tuple[str, ...]


def contradictions(
    example: Example, language: str, per_type: int, seed: int
) -> tuple[Candidate, ...]:
    """Up to ``per_type`` contradictions of each type, of as many places as can be; no two with the
    same text."""
    rng = random.Random(f"{seed}/rules/{example.doc_id}")
    found = list(candidates(example.completion, language, rng))
    rng.shuffle(found)
    kept: dict[str, Candidate] = {}
    for error_type in example.types:
        of_type = [each for each in found if each.type == error_type]
        by_edit = {
            each.edit.partition(" -> ")[0]: each for each in of_type
        }  # other places before other words for one
        for each in [*by_edit.values(), *of_type][:per_type]:
            kept.setdefault(each.text, each)
    return tuple(kept.values())


def candidates(text: str, language: str, rng: random.Random) -> Iterator[Candidate]:
    """Every contradiction that the lists of ``language`` make of a sentence; what it quotes is left
    alone."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for line in lines(language):
        for match in line.pattern.finditer(text):
            start, end = match.span("edit") if "edit" in match.groupdict() else match.span()
            if any(first < end and start < last for first, last in quoted):
                continue
            for new in _others(line, match, text[start:end], rng):
                if line.way != "swap" or new not in text:
                    edit = (Replacement(start, end, new),)
                    yield Candidate(
                        apply(text, edit),
                        line.type,
                        described(text, edit),
                        f"rules/{language}/{line.operator}",
                    )


def _others(line: Line, match: re.Match[str], old: str, rng: random.Random) -> list[str]:
    """What may stand for ``old``: two members of a swap at most, one number, or the edit."""
    if line.way == "edit":
        return [match.expand(line.members[0])]
    if line.way == "step":  # with as many digits; a year by up to four, others by up to half
        number, (least, most) = int(old), map(int, line.members)
        reach = 4 if number >= 1000 else max(2, number // 2)
        near = range(max(least, number - reach), min(most, number + reach) + 1)
        return (
            [str(rng.choice(fit))]
            if (fit := [each for each in near if each != number and len(str(each)) == len(old)])
            else []
        )
    ending = match.groupdict().get("ending") or ""
    stem = old.removesuffix(ending)
    others = [each for each in line.members if each.lower() != stem.lower()]
    capital = old[0].isupper() and stem not in line.members  # as it begins a sentence
    if capital and match.start():  # a name, or Ihr
        return []
    return [
        (f"{each[0].upper()}{each[1:]}" if capital else each) + ending
        for each in rng.sample(others, min(2, len(others)))
    ]


@cache
def lines(language: str) -> tuple[Line, ...]:
    """The list of a language."""
    found = []
    for operator, error_type, way, *rest in rows(LANGUAGES / f"{language}.tsv", 5):
        pattern, *members = (_alternatives(*rest), *rest[2:]) if way == "swap" else rest
        found.append(
            Line(
                operator,
                error_type,
                way,
                re.compile(pattern),
                tuple(each.removesuffix("~") for each in members),
            )
        )
    return tuple(found)


def _alternatives(before: str, after: str, *members: str) -> str:
    """Any of the members as a whole word, or in a script without spaces anywhere; ``~`` stands for
    an adjective's ending."""
    longest = sorted(members, key=len, reverse=True)
    ways = "|".join(
        f"(?i:{re.escape(each[0])}){re.escape(each[1:-1] if each.endswith('~') else each[1:])}"
        for each in longest
    )
    # an adjective has its ending before a noun, which German writes with a capital
    ending = (
        r"(?P<ending>e[mnrs]?)(?=\s(?:[a-zäöüß-]+e[mnrs]?\s)?[A-ZÄÖÜ](?!isten|ie\b|hr))"
        if members[0].endswith("~")
        else ""
    )
    edges = ("", "") if re.match(f"[{SIGNS}]", members[0]) else (r"(?<![\w-])", r"(?![\w-])")
    behind = "".join(f"(?<!{each})" for each in before.split(";") if each != "-")
    ahead = "".join(f"(?!{each})" for each in after.split(";") if each != "-")
    return f"{edges[0]}{behind}(?:{ways}){ending}{ahead}{edges[1]}"
