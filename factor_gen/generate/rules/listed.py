"""The rules for languages other than English, which need no tagger.

Each language has a list of lines in ``data/languages``. A line replaces words by others, changes a
number, or adds or removes a denial. The head of a list says what its columns are.
"""

import random
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.sentence import Span, overlaps_any
from factor_gen.generate.rules.words import DATA
from factor_gen.text.lists import read_rows

LANGUAGES = DATA / "languages"
_MOST_SUBSTITUTES = 2  # for one word
_FIRST_YEAR = 1000
_MOST_YEARS_AWAY = 4
_QUOTATION = re.compile(
    r"[„“][^“”]{1,200}[“”]|«[^»]{1,200}»|»[^«]{1,200}«|\"[^\"]{1,200}\"|[「《『][^」》』]{1,200}[」》』]"
)
# A German adjective has its ending before a noun, which begins with a capital letter.
_ADJECTIVE_ENDING = r"(?P<ending>e[mnrs]?)(?=\s(?:[a-zäöüß]+e[mnrs]?\s)?[A-ZÄÖÜ](?!isten|ie\b|hr))"


class LanguageRule(NamedTuple):
    """A line of a language's list."""

    operator: str
    """The name of the operator, such as ``weekday``."""
    error_type: str
    """The error type of its edits."""
    action: str
    """The third column of the list: ``swap``, ``step`` or ``edit``."""
    pattern: re.Pattern[str]
    """Finds the words to edit, as its group ``edit``."""
    members: tuple[str, ...]
    """For ``swap``, words of which each may replace each other one.

    For ``step``, the least and the greatest number. For ``edit``, the new text.
    """


def edit_by_word_lists(text: str, language: str, rng: random.Random) -> Iterator[SentenceEdit]:
    """Find all edits that the list of a language makes of a sentence.

    Example:
        *Sie kam am Montag.* becomes *Sie kam am Freitag.*

    Args:
        text: The sentence.
        language: The ISO 639-1 code of a language that has a list.
        rng: The random numbers that decide which words and numbers are taken.

    Yields:
        Edits of words outside quotations.
    """
    quotations = [Span(*match.span()) for match in _QUOTATION.finditer(text)]
    for rule in language_rules(language):
        for match in rule.pattern.finditer(text):
            span = Span(*match.span("edit"))
            if overlaps_any(quotations, span):
                continue
            for new in _new_texts(rule, match, rng):
                # A sentence that has the new word already would say the same thing twice.
                if rule.action == "swap" and new in text:
                    continue
                operator = f"{language}/{rule.operator}"
                yield make_edit(operator, rule.error_type, Replacement(*span, new))


@cache
def language_rules(language: str) -> tuple[LanguageRule, ...]:
    """Read the list of a language.

    Args:
        language: The language's ISO 639-1 code, such as ``de``.
    """
    rules = []
    for operator, error_type, action, *columns in read_rows(LANGUAGES / f"{language}.tsv"):
        if action == "swap":
            before, after, *members = columns
            pattern = _pattern_of_members(before, after, members)
        else:
            pattern, *members = columns
        # "~" marks an adjective, whose ending is kept.
        words = tuple(member.removesuffix("~") for member in members)
        rules.append(LanguageRule(operator, error_type, action, re.compile(pattern), words))
    return tuple(rules)


def _pattern_of_members(before: str, after: str, members: list[str]) -> str:
    """Build the regular expression that finds any of the words of a line.

    Args:
        before: An expression for the text before the word.
        after: An expression for the text after it.
        members: The words. ``~`` at the end stands for the ending of an adjective.

    Returns:
        The expression, in which the first letter of a word may be a capital.
    """
    alternatives = []
    # The longest word comes first, because the first alternative that matches is taken.
    for member in sorted(members, key=len, reverse=True):
        word = member.removesuffix("~")
        alternatives.append(f"(?i:{re.escape(word[0])}){re.escape(word[1:])}")
    ending = _ADJECTIVE_ENDING if members[0].endswith("~") else ""
    return f"{before}(?P<edit>(?:{'|'.join(alternatives)}){ending}){after}"


def _new_texts(rule: LanguageRule, match: re.Match[str], rng: random.Random) -> list[str]:
    """Draw the texts that replace the words that a rule found.

    Args:
        rule: The rule.
        match: A match of its pattern.
        rng: The random numbers to draw with.

    Returns:
        Up to two words of a ``swap``, one number of a ``step``, or the text of an ``edit``.
    """
    if rule.action == "edit":
        return [match.expand(rule.members[0])]
    old = match["edit"]
    if rule.action == "step":
        return _draw_number(old, int(rule.members[0]), int(rule.members[1]), rng)

    # The ending of a German adjective is kept: "kleine" becomes "große".
    ending = match.groupdict().get("ending") or ""
    stem = old.removesuffix(ending)
    is_capitalised = old[0].isupper() and stem not in rule.members
    # A capital letter within a sentence is that of a name, or of the polite "Ihr".
    if is_capitalised and match.start() > 0:
        return []
    # At the start of a sentence, the old word has a capital letter.
    other_members = [member for member in rule.members if member.lower() != stem.lower()]
    drawn = sample_up_to(rng, other_members, _MOST_SUBSTITUTES)
    if is_capitalised:
        drawn = [member[0].upper() + member[1:] for member in drawn]
    return [member + ending for member in drawn]


def _draw_number(number: str, least: int, most: int, rng: random.Random) -> list[str]:
    """Draw another number with as many digits.

    Args:
        number: The number in digits. A year, from 1000 on, is moved by up to four, and any other
            number by up to a half.
        least: The smallest new number.
        most: The greatest new number.
        rng: The random numbers to draw with.

    Returns:
        A list of one number; an empty list if no number fits.
    """
    value = int(number)
    reach = _MOST_YEARS_AWAY if value >= _FIRST_YEAR else max(2, value // 2)
    first = max(least, value - reach)
    last = min(most, value + reach)
    fitting = []
    for new_value in range(first, last + 1):
        # 30 does not become 8 or 110.
        if new_value != value and len(str(new_value)) == len(number):
            fitting.append(str(new_value))
    return sample_up_to(rng, fitting, 1)
