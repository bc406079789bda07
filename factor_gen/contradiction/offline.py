"""The check without a model: rules that accept a candidate only if its words exclude the old ones.

The old and new words must be of the same kind: numbers, dates, names, words of a line of our lists,
or words that WordNet calls opposites or kinds of the same thing. A denial excludes what it denies.
Everything else is rejected, because it may be true as well.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, combinations
from typing import Any

from factor_gen.contradiction.changes import TextChange, find_changes
from factor_gen.contradiction.compatible import NEGATIONS, compatible_reason_of_change
from factor_gen.contradiction.places import DATA
from factor_gen.contradiction.stage import reject_by_rule
from factor_gen.contradiction.wordnet import (
    ADJECTIVE,
    ADVERB,
    NOUN,
    PARTS_OF_SPEECH,
    VERB,
    find_wordnet,
)
from factor_gen.generate.rules.words import DATA as RULES_DATA
from factor_gen.generate.rules.words import INFLECTION_TAGS, entries_by_first_word
from factor_gen.records import Example
from factor_gen.text.lists import DATA as TEXT_DATA
from factor_gen.text.lists import LISTS, WORDS, hash_lists, read_rows, read_word_lists
from factor_gen.text.names import (
    FIRST_NAMES,
    NATIONALITIES,
    ORGANISATION_WORDS,
    is_common,
    may_be_same,
    places,
)
from lm_factuality.ground.packages import need

NOT_EXCLUSIVE = "nothing shows that the words exclude each other"
DENIED_TWICE = "an opposite that is denied"

_WORD = re.compile(r"n['’]t\b|[^\W\d_]+?(?=n['’]t\b)|[^\s\w]?\d[\d.,]*\w*|[\w.'’-]+")
_NUMBER = re.compile(
    rf"[$€£¥]?\d+(?:[.,]\d+)*(?:st|nd|rd|th|s|%)?"
    rf"|(?:{'|'.join((*LISTS['cardinals'], *LISTS['tens'], *LISTS['ordinals']))})(?:-\w+)?",
    re.IGNORECASE,
)
# They come and go with a denial: "did not sell" denies "sold".
_AUXILIARIES = frozenset(read_word_lists(DATA)["auxiliaries"])
_DETERMINERS = frozenset(["a", "an", "the"])
_DATE_NAMES = frozenset(name.lower() for name in (*LISTS["month names"], *LISTS["day names"]))
_UPOS = {NOUN: "NOUN", VERB: "VERB", ADJECTIVE: "ADJ", ADVERB: "ADV"}


class OfflineCheck:
    """The check that accepts candidates whose words exclude those of the completion."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The kind of check, the lists that it shares, and whether it has WordNet."""
        return {
            "kind": "offline",
            "wordnet": find_wordnet() is not None,
            "shared lists": hash_lists([RULES_DATA, TEXT_DATA]),
        }

    def check(self, examples: Sequence[Example]) -> list[Example]:
        """Reject the candidates of which no rule shows that they contradict the completion.

        Args:
            examples: Documents with their candidates.
        """
        return [reject_by_rule(example, why_not_exclusive) for example in examples]


def why_not_exclusive(sentence: str, edited: str) -> str | None:
    """Return the reason to reject an edit that may leave a sentence true.

    Example:
        If *ship* becomes *vessel*, the reason is `NOT_EXCLUSIVE`. If *1987* becomes *1985*, there
        is no reason.

    Args:
        sentence: The sentence before the edit.
        edited: The sentence after the edit.

    Returns:
        The reason; None if the old and the new words exclude each other.
    """
    num_denials = 0
    num_exclusive = 0
    for change in find_changes(sentence, edited):
        if _is_denial(change):
            num_denials += 1
        if compatible_reason_of_change(change) is None and _excludes(change):
            num_exclusive += 1
    # If an edit adds "not" and also replaces a word by its opposite, the sentence says the same as
    # before: "prices did not fall" for "prices rose".
    if num_denials and num_exclusive > num_denials:
        return DENIED_TWICE
    return None if num_exclusive else NOT_EXCLUSIVE


def _is_denial(change: TextChange) -> bool:
    """Whether a change adds or removes a negation, as from *sold* to *did not sell*."""
    # Two negations make none.
    return _count_negations(change.old) % 2 != _count_negations(change.new) % 2


def _count_negations(text: str) -> int:
    """Count the negations in a text, such as *not* and *never*."""
    return sum(word in NEGATIONS for word in _words_of(text))


def _words_of(text: str) -> list[str]:
    """Split a text into words in lower case: ``did`` and ``n't`` for *didn't*."""
    return [word.lower() for word in _WORD.findall(text)]


def _excludes(change: TextChange) -> bool:
    """Whether a sentence cannot be true with both the old and the new words of a change.

    Example:
        *rose* and *fell* exclude each other, as well as *May 1985* and *May 1987*. *Ship* and
        *vessel* do not, because a vessel may be a ship.
    """
    if _are_listed_as_exclusive(change.old.lower(), change.new.lower()):
        return True
    if _is_denial(change):
        # "Did not sell" excludes "sold", but not "bought".
        return _content_words(change.old) == _content_words(change.new)

    is_insertion_or_deletion = not change.old or not change.new
    if is_insertion_or_deletion:
        return False

    are_names = _is_name(change.old, change.before) and _is_name(change.new, change.before)
    if are_names:
        return _are_different_names(change.old, change.new)
    return _are_phrases_exclusive(change.old, change.new)


def _are_phrases_exclusive(old: str, new: str) -> bool:
    """Whether two phrases exclude each other: all words that differ must exclude each other.

    Example:
        *The five boats* and *six boats* exclude each other. *Five cats* and *six animals* do not,
        because five cats may be among six animals.
    """
    old_words = [word for word in _words_of(old) if word not in _DETERMINERS]
    new_words = [word for word in _words_of(new) if word not in _DETERMINERS]
    if len(old_words) != len(new_words):
        # WordNet also has phrases, such as "look_up".
        return _are_words_exclusive("_".join(old_words), "_".join(new_words))

    changed_pairs = [pair for pair in zip(old_words, new_words, strict=True) if pair[0] != pair[1]]
    return bool(changed_pairs) and all(_are_words_exclusive(*pair) for pair in changed_pairs)


def _content_words(text: str) -> set[str]:
    """Return the base forms of the words of a text, without negations and auxiliaries."""
    words = [word for word in _words_of(text) if word not in NEGATIONS | _AUXILIARIES]
    return {_base_forms(word, VERB)[0] for word in words}


def _are_different_numbers(old: str, new: str) -> bool:
    """Return whether two numbers that are not written alike surely differ.

    Example:
        *5* and *$6* do, and so do *five* and *six*. *5* and *5.0* do not, and neither do *five* and
        *5*.
    """
    old_digits = _digits_of(old)
    new_digits = _digits_of(new)
    if not old_digits and not new_digits:
        # Hardly any number has two names.
        return True
    if not old_digits or not new_digits:
        # A word and digits may be the same number.
        return False
    try:
        return float(old_digits) != float(new_digits)
    except ValueError:
        # A date or a version has more than one point.
        return old_digits != new_digits


def _digits_of(number: str) -> str:
    """Return the digits and points of a number: ``1200.5`` for *$1,200.5*; empty for *five*."""
    return re.sub(r"[^\d.]", "", number).strip(".")


@lru_cache(maxsize=50_000)
def _are_words_exclusive(old: str, new: str) -> bool:
    """Whether two different words surely cannot both be true of one thing.

    Example:
        *Five* and *six* exclude each other. *Ship* and *vessel* do not, because a vessel may be a
        ship. Words of which we know nothing do not exclude each other either.
    """
    if _NUMBER.fullmatch(old) and _NUMBER.fullmatch(new):
        return _are_different_numbers(old, new)
    if _are_listed_as_exclusive(old, new):
        return True
    wordnet = find_wordnet()
    if wordnet is None:
        return False

    # Words such as "saw" have several base forms. The weaker signs count only if no pair of base
    # forms has a stronger one.
    pairs = list(_pairs_of_base_forms(old, new))
    if any(wordnet.are_opposites(*pair) for pair in pairs):
        return True
    if any(wordnet.can_both_be_true(*pair) for pair in pairs):
        return False
    # A lion is no tiger, although both are big cats.
    return any(
        part_of_speech == NOUN and wordnet.are_siblings(old_base, new_base)
        for old_base, new_base, part_of_speech in pairs
    )


def _pairs_of_base_forms(old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """Yield the base forms of two words for each part of speech that both can be."""
    for part_of_speech in PARTS_OF_SPEECH:
        for old_base in _base_forms(old, part_of_speech):
            for new_base in _base_forms(new, part_of_speech):
                if old_base != new_base:
                    yield old_base, new_base, part_of_speech


def _base_forms(word: str, part_of_speech: str) -> tuple[str, ...]:
    """Return the base forms of a word as a part of speech: *leaf* and *leave* for *leaves*."""
    lemminflect = need("lemminflect", "the check offline", "generate")
    upos = _UPOS[part_of_speech]
    forms: tuple[str, ...] = lemminflect.getAllLemmas(word, upos=upos).get(upos, ())
    # lemminflect does not know rare words, which may be base forms themselves.
    return (*forms, word) if word not in forms else forms


def _are_listed_as_exclusive(old: str, new: str) -> bool:
    """Whether two words stand on one line of our lists, whose words exclude each other.

    Example:
        *rose* and *fell*, or *Monday* and *Tuesday*, in lower case.
    """
    return new in _exclusive_words().get(old, ())


@cache
def _exclusive_words() -> Mapping[str, set[str]]:
    """Collect the words and phrases of our lists that exclude each other.

    Returns:
        For each word or phrase, those that it excludes, such as all other months for ``may``.
    """
    exclusive_words = defaultdict(set)
    for word, second_word in _exclusive_pairs():
        exclusive_words[word].add(second_word)
        exclusive_words[second_word].add(word)
    return exclusive_words


def _exclusive_pairs() -> Iterator[tuple[str, str]]:
    """Yield every two words or phrases of our lists that exclude each other, in lower case."""
    # The words of a line exclude each other.
    lines = [
        *read_rows(DATA / "classes.tsv"),
        *read_rows(DATA / "opposites.tsv"),
        LISTS["month names"],
        LISTS["day names"],
    ]
    for line in lines:
        yield from combinations(map(str.lower, line), 2)
    # The rules for English replace words by others that exclude them, such as "rose" by "fell".
    for operator in INFLECTION_TAGS:
        for entry in chain.from_iterable(entries_by_first_word(operator).values()):
            for substitute in entry.substitutes:
                yield entry.word.text, substitute.text


def _is_name(text: str, before: str) -> bool:
    """Whether some words of a sentence are a name.

    Args:
        text: The words.
        before: The text before them. A word that starts the sentence has a capital in any case.
    """
    words = [word for word in text.split() if word.lower() not in _DETERMINERS | WORDS["joints"]]
    has_capitals = bool(words) and all(word[0].isupper() for word in words)
    if not has_capitals:
        return False
    starts_sentence = not re.search(r"\w", before)
    if not starts_sentence:
        return True
    # Ordinary words, such as "The house", are no name.
    return any(word in places() or not is_common(word.lower()) for word in words)


def _are_different_names(old: str, new: str) -> bool:
    """Whether two names cannot stand for the same thing, and may be of the same kind.

    Example:
        *Oslo* and *Rome* are different. *Oslo* and *Edwin* are not, because the first is a place
        and the second a person, and neither are *UN* and *United Nations*.
    """
    # Two months or two weekdays exclude each other, but our lists of exclusive words, which are
    # asked before, have them. All other dates, such as "Monday" and "May", may both be true.
    if any(word.lower() in _DATE_NAMES for word in (*old.split(), *new.split())):
        return False
    known_kinds = {_kind_of_name(old), _kind_of_name(new)} - {""}
    may_be_of_one_kind = len(known_kinds) < 2
    return may_be_of_one_kind and not may_be_same(old, new)


def _kind_of_name(name: str) -> str:
    """Return what a name stands for, as far as our lists tell; an empty text if they do not."""
    bare_name = name.removeprefix("the ")
    words = bare_name.split()
    if bare_name in NATIONALITIES:
        return "nationality"
    if bare_name in places():
        return "place"
    if not ORGANISATION_WORDS.isdisjoint(words):
        return "organisation"
    return "person" if words and words[0] in FIRST_NAMES else ""
