"""Rules for languages other than English, without a tagger.

They replace words of a list by others of their line, change numbers and dates, and deny where the
list says how. The head of a list says what its lines look like.
"""

import random
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from factor_gen.generate.rules.edits import SentenceEdit, edit
from factor_gen.generate.rules.sentence import overlaps
from factor_gen.generate.rules.words import DATA
from factor_gen.text.lists import rows

LANGUAGES = DATA / "languages"
_MOST_OTHERS = 2  # words of a line that replace one
_QUOTED = re.compile(
    r"[„“][^“”]{1,200}[“”]|«[^»]{1,200}»|»[^«]{1,200}«|\"[^\"]{1,200}\"|[「《『][^」》』]{1,200}[」》』]"
)
# An adjective has its ending before a noun, which German writes with a capital.
_ADJECTIVE_ENDING = r"(?P<ending>e[mnrs]?)(?=\s(?:[a-zäöüß]+e[mnrs]?\s)?[A-ZÄÖÜ](?!isten|ie\b|hr))"


class LanguageRule(NamedTuple):
    """A line of a language's list."""

    operator: str
    type: str
    way: str
    """What the members are.

    Words of which each may stand for any other (``swap``), the least and the most that a number may
    become (``step``), or what the expression's group ``edit`` becomes (``edit``).
    """
    pattern: re.Pattern[str]
    members: tuple[str, ...]


def edits_by_list(text: str, language: str, rng: random.Random) -> Iterator[SentenceEdit]:
    """Find every edit that the lists make of a sentence; what it quotes is left alone."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for rule in language_rules(language):
        for match in rule.pattern.finditer(text):
            span = match.span("edit")
            if overlaps(quoted, *span):
                continue
            for new in _others(rule, match, rng):
                if rule.way != "swap" or new not in text:
                    yield edit(f"{language}/{rule.operator}", rule.type, (*span, new))


def _others(rule: LanguageRule, match: re.Match[str], rng: random.Random) -> list[str]:
    """What may stand for the old words: two members of a swap at most, one number, or the edit."""
    if rule.way == "edit":
        return [match.expand(rule.members[0])]
    old = match["edit"]
    if rule.way == "step":
        return _other_number(old, rule.members, rng)
    ending = match.groupdict().get("ending") or ""
    stem = old.removesuffix(ending)
    others = [member for member in rule.members if member.lower() != stem.lower()]
    begins_sentence = old[0].isupper() and stem not in rule.members
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
    return rng.sample(fitting, min(1, len(fitting)))


@cache
def language_rules(language: str) -> tuple[LanguageRule, ...]:
    """The list of a language."""
    rules = []
    for operator, error_type, way, *rest in rows(LANGUAGES / f"{language}.tsv"):
        pattern, *members = (_alternatives(*rest), *rest[2:]) if way == "swap" else rest
        words = tuple(member.removesuffix("~") for member in members)
        rules.append(LanguageRule(operator, error_type, way, re.compile(pattern), words))
    return tuple(rules)


def _alternatives(before: str, after: str, *members: str) -> str:
    """An expression for any of the members between what may stand before and after it.

    ``~`` stands for an adjective's ending.
    """
    ways = []
    for member in sorted(members, key=len, reverse=True):
        word = member.removesuffix("~")
        ways.append(f"(?i:{re.escape(word[0])}){re.escape(word[1:])}")
    ending = _ADJECTIVE_ENDING if members[0].endswith("~") else ""
    return f"{before}(?P<edit>(?:{'|'.join(ways)}){ending}){after}"
