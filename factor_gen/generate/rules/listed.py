"""The rules for languages other than English, which need no tagger.

Each language has a list of lines in ``data/languages``. A line replaces words by others, changes a
number, or adds or removes a denial. The head of a list says what its columns are.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.sentence import Span, find_spans, overlaps_any
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
    values: tuple[str, ...]
    """For ``swap``, words of which each may replace each other one.

    For ``step``, the least and the greatest number. For ``edit``, the new text.
    """


def edit_by_word_lists(text: str, language: str, rng: Random) -> Iterator[SentenceEdit]:
    """Make all edits of a sentence for which the list of its language has a rule.

    Example:
        *Sie kam am Montag.* becomes *Sie kam am Freitag.*

    Args:
        text: The sentence.
        language: The ISO 639-1 code of a language that has a list.
        rng: The random numbers that decide which words and numbers are taken.

    Yields:
        Edits of words outside quotations.
    """
    quotations = find_spans(_QUOTATION, text)
    for rule in language_rules(language):
        operator = f"{language}/{rule.operator}"
        for match in rule.pattern.finditer(text):
            span = Span(*match.span("edit"))
            if overlaps_any(quotations, span):
                continue
            for new in _new_texts(rule, match, rng):
                # "Monday and Tuesday" must not become "Tuesday and Tuesday".
                would_repeat = rule.action == "swap" and new in text
                if not would_repeat:
                    yield make_edit(operator, rule.error_type, Replacement(*span, new))


@cache
def language_rules(language: str) -> tuple[LanguageRule, ...]:
    """Read the rules for a language from its list.

    A line is a rule. Its columns are an operator, an error type, an action and the columns of the
    action::

        swap <expression before> <expression after> <word> <word> ...
        step <expression> <least number> <greatest number>
        edit <expression> <new text>

    Example:
        ``season  circumstance  swap  (?<!-)  (?!-)  Sommer  Winter`` replaces *Sommer* by *Winter*
        and *Winter* by *Sommer*, except before and after a hyphen. A word with ``~`` at its end is
        an adjective, which is found with any ending and keeps the ending.

    Args:
        language: The language's ISO 639-1 code, such as ``de``.
    """
    rules = []
    for operator, error_type, action, *columns in read_rows(LANGUAGES / f"{language}.tsv"):
        if action == "swap":
            expression_before, expression_after, *words = columns
            expression = f"{expression_before}{_expression_for_words(words)}{expression_after}"
            values = [word.removesuffix("~") for word in words]
        else:
            expression, *values = columns
        pattern = re.compile(expression)
        rules.append(LanguageRule(operator, error_type, action, pattern, tuple(values)))
    return tuple(rules)


def _expression_for_words(words: list[str]) -> str:
    """Build a regular expression that finds any of the words of a rule, also with a capital.

    Example:
        ``["Sommer", "Herbst"]`` gives ``(?P<edit>(?:(?i:S)ommer|(?i:H)erbst))``.

    Args:
        words: The words. Adjectives have a ``~`` at their end, which stands for any ending. Either
            all words are adjectives or none is.

    Returns:
        The expression with the group ``edit`` for the word.
    """
    alternatives = []
    # The longest word comes first, because the first alternative that matches is taken.
    for word in sorted(words, key=len, reverse=True):
        stem = word.removesuffix("~")
        alternatives.append(f"(?i:{re.escape(stem[0])}){re.escape(stem[1:])}")
    are_adjectives = words[0].endswith("~")
    ending = _ADJECTIVE_ENDING if are_adjectives else ""
    return f"(?P<edit>(?:{'|'.join(alternatives)}){ending})"


def _new_texts(rule: LanguageRule, match: re.Match[str], rng: Random) -> list[str]:
    """Draw the texts that replace the words that a rule found.

    Args:
        rule: The rule.
        match: A match of its pattern.
        rng: The random numbers to draw with.

    Returns:
        Up to two words of a ``swap``, up to one number of a ``step``, or the text of an ``edit``.
    """
    # What the values of a rule are depends on its action.
    if rule.action == "edit":
        (new_text,) = rule.values
        # The new text may refer to the groups of the expression, as "\1".
        return [match.expand(new_text)]
    if rule.action == "step":
        least, most = rule.values
        new_numbers = _nearby_numbers(match["edit"], int(least), int(most))
        return sample_up_to(rng, new_numbers, 1)
    return _swap_word(match, rule.values, rng)


def _swap_word(match: re.Match[str], words: Sequence[str], rng: Random) -> list[str]:
    """Draw up to two words that replace a word, with its capital letter and ending.

    Example:
        *Kleine Boote* becomes *Große Boote*.

    Args:
        match: The match of the word.
        words: The words without endings, of which each may replace each other one.
        rng: The random numbers to draw with.

    Returns:
        The words; none for a name, i.e. a word with a capital letter within the sentence.
    """
    old = match["edit"]
    # Only the expression for adjectives has an ending.
    ending = match.groupdict().get("ending") or ""
    stem = old.removesuffix(ending)
    # German nouns have a capital letter in the list as well, and keep it anywhere.
    has_added_capital = old[0].isupper() and stem not in words
    # Within a sentence, such a letter is that of a name, or of the polite "Ihr".
    if has_added_capital and match.start() > 0:
        return []

    new_stems = [word for word in words if word.lower() != stem.lower()]
    drawn_stems = sample_up_to(rng, new_stems, _MOST_SUBSTITUTES)
    if has_added_capital:
        drawn_stems = [word[0].upper() + word[1:] for word in drawn_stems]
    return [word + ending for word in drawn_stems]


def _nearby_numbers(number: str, least: int, most: int) -> list[str]:
    """List the numbers near a number that have as many digits.

    A new year is at most four years away, and any other new number at most half as much as the old
    one: 1985 may become 1989, and 30 may become 45, but not 46 or 9.

    Args:
        number: The number in digits. It is taken for a year from 1000 on.
        least: The smallest new number.
        most: The greatest new number.
    """
    value = int(number)
    is_year = value >= _FIRST_YEAR
    # A 1 or 2 moves by more than its half, so that there are other numbers.
    most_away = _MOST_YEARS_AWAY if is_year else max(2, value // 2)
    first = max(least, value - most_away)
    last = min(most, value + most_away)
    nearby_numbers = map(str, range(first, last + 1))
    return [new for new in nearby_numbers if new != number and len(new) == len(number)]
