"""Rules for languages other than English, without a tagger.

They replace words of a list by others of their line, change numbers and dates, and deny where the
list says how. The head of a list says what its lines look like.
"""

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
_MOST_OTHERS = 2  # words of a line that replace one
_QUOTED = re.compile(
    r"[„“][^“”]{1,200}[“”]|«[^»]{1,200}»|»[^«]{1,200}«|\"[^\"]{1,200}\"|[「《『][^」》』]{1,200}[」》』]"
)
# An adjective has its ending before a noun, which German writes with a capital.
_ADJECTIVE_ENDING = r"(?P<ending>e[mnrs]?)(?=\s(?:[a-zäöüß-]+e[mnrs]?\s)?[A-ZÄÖÜ](?!isten|ie\b|hr))"


@dataclass(frozen=True)
class Line:
    """A line of a list."""

    operator: str
    type: str
    way: str
    """What the members are.

    Words of which each may stand for any other (``swap``), the least and the most that a number may
    become (``step``), or what the expression's group ``edit`` becomes (``edit``).
    """
    pattern: re.Pattern[str]
    members: tuple[str, ...]


def contradictions(
    example: Example, language: str, per_type: int, seed: int
) -> tuple[Candidate, ...]:
    """Up to ``per_type`` contradictions of each type, of as many places as can be.

    No two have the same text.
    """
    rng = random.Random(f"{seed}/rules/{example.doc_id}")
    possible = list(candidates(example.completion, language, rng))
    rng.shuffle(possible)
    kept: dict[str, Candidate] = {}
    for error_type in example.types:
        of_type = [candidate for candidate in possible if candidate.type == error_type]
        # Other places come before other words for one place.
        one_of_place = {candidate.edit.partition(" -> ")[0]: candidate for candidate in of_type}
        for candidate in [*one_of_place.values(), *of_type][:per_type]:
            kept.setdefault(candidate.text, candidate)
    return tuple(kept.values())


def candidates(text: str, language: str, rng: random.Random) -> Iterator[Candidate]:
    """Every contradiction that the lists make of a sentence; what it quotes is left alone."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for line in lines(language):
        made_by = f"rules/{language}/{line.operator}"
        for match in line.pattern.finditer(text):
            start, end = match.span("edit") if "edit" in match.groupdict() else match.span()
            if any(first < end and start < last for first, last in quoted):
                continue
            for new in _others(line, match, text[start:end], rng):
                if line.way != "swap" or new not in text:
                    edit = (Replacement(start, end, new),)
                    yield Candidate(apply(text, edit), line.type, described(text, edit), made_by)


def _others(line: Line, match: re.Match[str], old: str, rng: random.Random) -> list[str]:
    """What may stand for the old words: two members of a swap at most, one number, or the edit."""
    if line.way == "edit":
        return [match.expand(line.members[0])]
    if line.way == "step":
        return _other_number(old, line.members, rng)
    ending = match.groupdict().get("ending") or ""
    stem = old.removesuffix(ending)
    others = [member for member in line.members if member.lower() != stem.lower()]
    begins_sentence = old[0].isupper() and stem not in line.members
    if begins_sentence and match.start():
        return []  # a name, or Ihr
    drawn = rng.sample(others, min(_MOST_OTHERS, len(others)))
    if begins_sentence:
        drawn = [other[0].upper() + other[1:] for other in drawn]
    return [other + ending for other in drawn]


def _other_number(old: str, members: tuple[str, ...], rng: random.Random) -> list[str]:
    """A number with as many digits: a year by up to four off, another by up to half."""
    number = int(old)
    least, most = map(int, members)
    reach = 4 if number >= 1000 else max(2, number // 2)
    near = map(str, range(max(least, number - reach), min(most, number + reach) + 1))
    fitting = [new for new in near if new != str(number) and len(new) == len(old)]
    return [rng.choice(fitting)] if fitting else []


@cache
def lines(language: str) -> tuple[Line, ...]:
    """The list of a language."""
    listed = []
    for operator, error_type, way, *rest in rows(LANGUAGES / f"{language}.tsv"):
        pattern, *members = (_alternatives(*rest), *rest[2:]) if way == "swap" else rest
        words = tuple(member.removesuffix("~") for member in members)
        listed.append(Line(operator, error_type, way, re.compile(pattern), words))
    return tuple(listed)


def _alternatives(before: str, after: str, *members: str) -> str:
    """An expression for any of the members as a whole word, or anywhere in a script without spaces.

    ``~`` stands for an adjective's ending. What must not stand before and after is separated by
    ``;``; ``-`` stands for nothing.
    """
    ways = []
    for member in sorted(members, key=len, reverse=True):
        word = member.removesuffix("~")
        ways.append(f"(?i:{re.escape(word[0])}){re.escape(word[1:])}")
    ending = _ADJECTIVE_ENDING if members[0].endswith("~") else ""
    behind = "".join(f"(?<!{words})" for words in before.split(";") if words != "-")
    ahead = "".join(f"(?!{words})" for words in after.split(";") if words != "-")
    expression = f"{behind}(?:{'|'.join(ways)}){ending}{ahead}"
    has_spaces = not re.match(f"[{SIGNS}]", members[0])
    return rf"(?<![\w-]){expression}(?![\w-])" if has_spaces else expression
