"""The word lists of the English rules, the inflected forms of words, and their frequencies.

The operators of this package look up here what a word may be replaced by.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from factor_gen.text import lists as text_lists
from factor_gen.text.lists import read_first_column, read_rows, read_word_lists
from lm_factuality.ground.packages import need

DATA = Path(__file__).parent / "data"
LISTS = read_word_lists(DATA)
WORDS: Mapping[str, frozenset[str]] = {
    **text_lists.WORDS,
    **{name: frozenset(words) for name, words in LISTS.items()},
    "set phrases": read_first_column(DATA / "set_phrases.txt"),
}
"""The words of each list by its name, those of `factor_gen.text.lists` included."""

ANTONYM = "antonym"
NOUN = "noun"
INFLECTION_TAGS: Mapping[str, Sequence[str]] = {
    ANTONYM: ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG"),
    NOUN: ("NN", "NNS"),
}
"""The Penn tags of the forms in which each operator replaces words."""

_IRREGULAR_FORMS: Mapping[tuple[str, str], str] = {
    (base, tag): form for base, tag, form in read_rows(DATA / "irregular.tsv")
}
_LOWEST_FREQUENCY = 1e-7  # of a word that wordfreq does not know


class WordForm(NamedTuple):
    """A word or phrase of the list in one of its inflected forms, such as *turned off*."""

    base: str
    """The word as the list has it, such as *turn off*."""
    text: str
    """The word in this form."""
    head_forms: frozenset[str]
    """All forms of the word that is inflected, such as *turn*, *turns* and *turned*."""


class ListEntry(NamedTuple):
    """A word form that an operator may replace, and the words that may replace it."""

    word: WordForm
    error_type: str
    frame: str
    """The context that the word needs: a value of ``frame`` in ``conditions.yaml``."""
    tag: str
    """The Penn tag of the form."""
    substitutes: tuple[WordForm, ...] = ()
    """The words that may replace it, in the same form."""

    @property
    def words(self) -> tuple[str, ...]:
        """The single words of the form."""
        return tuple(self.word.text.split(" "))


@cache
def entries_by_first_word(operator: str) -> Mapping[str, Sequence[ListEntry]]:
    """Index the words that an operator may replace by their first word.

    The line ``rise  fall`` of ``substitutes.tsv`` gives an entry for *rise* and *fall* in each of
    their forms: *rose* may be replaced by *fell*, and *rises* by *falls*.

    Args:
        operator: The first column of the lines to read, such as ``antonym``.

    Returns:
        The entries by first word. Longer entries come first, such as *set up* before *set*.
    """
    entries = _merge_entries(_entries_of_lines(operator))
    index = defaultdict(list)
    # Longer entries are put first, because callers take the first that the sentence has.
    for entry in sorted(entries, key=lambda entry: len(entry.words), reverse=True):
        index[entry.words[0]].append(entry)
    return index


def _merge_entries(entries: Iterable[ListEntry]) -> list[ListEntry]:
    """Merge the entries of each word that stands on several lines of the list.

    Returns:
        One entry for each word form, error type and frame, with the substitutes of all lines. A
        substitute that stands on several lines counts once.
    """
    substitutes: dict[ListEntry, list[WordForm]] = defaultdict(list)
    for entry in entries:
        # Entries to be merged are equal in all but their substitutes.
        substitutes[entry._replace(substitutes=())] += entry.substitutes
    return [
        entry._replace(substitutes=tuple(dict.fromkeys(substitutes[entry])))
        for entry in substitutes
    ]


def _entries_of_lines(operator: str) -> Iterator[ListEntry]:
    """Read the words that an operator may replace from ``substitutes.tsv``, line by line.

    The columns of a line are the operator, the error type, the frame and the words.

    Example:
        The line ``noun  entity  any  boat  ship`` gives four entries: *boat* may be replaced by
        *ship*, *ship* by *boat*, *boats* by *ships*, and *ships* by *boats*.

    Args:
        operator: The first column of the lines to read, such as ``noun``.
    """
    for line_operator, error_type, frame, *words in read_rows(DATA / "substitutes.tsv"):
        if line_operator != operator:
            continue
        for tag in INFLECTION_TAGS[operator]:
            for form, substitutes in _substitutes_by_form(operator, words, tag).items():
                yield ListEntry(form, error_type, frame, tag, substitutes)


def _substitutes_by_form(
    operator: str, words: Sequence[str], tag: str
) -> dict[WordForm, tuple[WordForm, ...]]:
    """Inflect the words of a line of the list, and return for each the words that may replace it.

    Example:
        The words ``boat``, ``ship`` and ``=vessel`` with the tag ``NNS``: *ships* and *vessels* may
        replace *boats*, and *boats* and *vessels* may replace *ships*.

    Args:
        operator: The operator of the line, ``antonym`` or ``noun``.
        words: The words of the line. A word after ``=`` may replace others, but is not replaced.
        tag: The Penn tag of the form to which the words are inflected.
    """
    forms = [_inflected_form(operator, word.removeprefix("="), tag) for word in words]
    substitutes = {}
    for word, form in zip(words, forms, strict=True):
        is_only_substitute = word.startswith("=")
        # The line "men  women" lists plurals, which have no plural of their own.
        lacks_plural = tag == "NNS" and form.text == form.base
        if not is_only_substitute and not lacks_plural:
            substitutes[form] = tuple(other_form for other_form in forms if other_form != form)
    return substitutes


def _inflected_form(operator: str, base: str, tag: str) -> WordForm:
    """Inflect a word of the list, and collect the forms of its head.

    Args:
        operator: The operator that replaces the word.
        base: The word or phrase as the list has it.
        tag: The Penn tag of the form.
    """
    # The head is the first word of a phrasal verb, but the last of a compound noun.
    head = 0 if operator == ANTONYM else -1
    head_forms = frozenset(
        inflect(base, form_tag).split(" ")[head] for form_tag in INFLECTION_TAGS[operator]
    )
    return WordForm(base, inflect(base, tag), head_forms)


@lru_cache(maxsize=20_000)
def inflect(base: str, tag: str) -> str:
    """Inflect the first word of a verb or the last word of a noun: ``turn off`` to ``turned off``.

    Args:
        base: A verb or noun in its base form, perhaps of several words.
        tag: The Penn tag of the form, such as ``VBD``.
    """
    # lemminflect takes long to import, and only the rules need it.
    from lemminflect import getInflection

    if tag in ("VB", "VBP", "NN"):
        return base
    words = base.split(" ")
    # The index of the word that changes: the verb in "turn off", and the noun in "old mill".
    head = 0 if tag.startswith("V") else -1
    form = _IRREGULAR_FORMS.get((words[head], tag))
    if form is None:
        # lemminflect knows no form of some words, which then stay as they are.
        form = next(iter(getInflection(words[head], tag=tag)), words[head])
    words[head] = form
    return " ".join(words)


@lru_cache(maxsize=100_000)
def word_frequency(text: str) -> float:
    """Return the share of a word or phrase among the words of English text.

    Args:
        text: The word or phrase, in any case.

    Returns:
        A share between 0 and 1. An unknown word counts as one in ten million.

    Raises:
        ConfigError: wordfreq is not installed.
    """
    wordfreq = need("wordfreq", "a rule", "generate")
    return max(_LOWEST_FREQUENCY, float(wordfreq.word_frequency(text.lower(), "en")))
