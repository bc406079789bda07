"""Collocations: the words near which, and between which, a corpus has each word of the lists.

The word lists know that *library* and *school* are of one kind, but not that manuals use *library*
in another sense. `factor_gen.generate.rules.substitutes` therefore asks here whether the corpus has
a substitute in a similar context.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from factor_gen.generate.rules.words import INFLECTION_TAGS, WORDS, entries_by_first_word
from lm_factuality.ground.files import parse_json, write_json

# A word, a number or a mark.
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d+|[^\w\s]|_+")
# The endings of rejecting, rejected, rejects, boxes, and of "e" and "y", which other forms lack.
_ENDING = re.compile(r"(?:(?<=\w\w\w)(?:ing|ed|es|(?<!s)s|e)|(?<=\w\w\w)y)$")
_LONGEST_DISTANCE = 4  # words between two content words that are companions
_TOO_FAR = -_LONGEST_DISTANCE - 1  # a position before which no word has a companion
_BREAKS = frozenset(".;:!?()[]")
_MOST_COMPANIONS = 400  # kept for each word: the first that the corpus has
_NEAR = 80  # characters on either side of an edit
_LEAST_SHARED = 12  # similar words share at least every twelfth companion


class Collocation(NamedTuple):
    """A word of a text, and one of its companions."""

    position: int
    """The index of the word."""
    stem: str
    companion: int
    """The hash of the companion, as `_hash_companion` makes it."""


@dataclass(frozen=True)
class Collocations:
    """The companions that each word of the lists has in a corpus.

    A companion of a word is a content word near it, or its slot, i.e. the two words between which
    it stands. In *the old mill burned*, *mill* has the companion *burned* and the slot *old ...
    burned*.
    """

    companions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The hashes of the companions by the word's stem. If there are none, every word is allowed."""

    def allows(
        self, text: str, start: int, end: int, substitute: str, *, must_be_in_slot: bool = False
    ) -> bool:
        """Whether the corpus has a substitute in a context like that of the words it replaces.

        Args:
            text: The sentence.
            start: Where the words that are replaced start.
            end: Where they end.
            substitute: The new words.
            must_be_in_slot: Whether the corpus must have the substitute between the same two words,
                such as *ship* between *the* and *sank*. Otherwise it is enough that it has the
                substitute near a word of the sentence, or uses it like the words that are replaced.
        """
        # An empty collection knows no corpus that could forbid a substitute.
        if not self.companions:
            return True

        before = _split_words(text[max(0, start - _NEAR) : start])[-_LONGEST_DISTANCE:]
        after = _split_words(text[end : end + _NEAR])[:_LONGEST_DISTANCE]
        new_words = _split_words(substitute)
        if must_be_in_slot:
            slot = [*before[-1:], *new_words, *after[:1]]
            return _hash_companion(" ".join(slot)) in self._companions_of(stem(substitute))
        if self._has_companion(before, new_words, after):
            return True
        return self._uses_alike(_split_words(text[start:end]), new_words)

    def _has_companion(
        self, before: Sequence[str], new_words: Sequence[str], after: Sequence[str]
    ) -> bool:
        """Whether the corpus has a new word with one of the companions that it would get.

        Args:
            before: The words before the new ones.
            new_words: The words of the substitute.
            after: The words after them.
        """
        new_positions = range(len(before), len(before) + len(new_words))
        for collocation in _collocations([*before, *new_words, *after]):
            # One companion that the corpus has is enough.
            companions = self._companions_of(collocation.stem)
            if collocation.position in new_positions and collocation.companion in companions:
                return True
        return False

    def _uses_alike(self, old_words: Sequence[str], new_words: Sequence[str]) -> bool:
        """Whether the corpus uses all new words like the last content word of the old ones.

        Args:
            old_words: The words that are replaced, such as *turn off*.
            new_words: The words of the substitute.
        """
        old_stems = _stems(old_words)
        new_stems = _stems(new_words)
        # Words such as "the" have no companions to compare.
        if not old_stems or not new_stems:
            return False
        return all(self._are_similar(old_stems[-1], new_stem) for new_stem in new_stems)

    def _are_similar(self, first_stem: str, second_stem: str) -> bool:
        """Whether two words share at least one in twelve companions of the rarer word."""
        first = self._companions_of(first_stem)
        second = self._companions_of(second_stem)
        fewer = min(len(first), len(second))
        return _LEAST_SHARED * len(first & second) >= max(1, fewer)

    def _companions_of(self, word_stem: str) -> frozenset[int]:
        """Return the hashes of a word's companions; none if the word is not listed."""
        return self.companions.get(word_stem, frozenset())


def gather_collocations(texts: Iterable[str]) -> Collocations:
    """Collect the companions that the words of the lists have in a corpus.

    Args:
        texts: The texts of the corpus.

    Returns:
        The companions of each listed word that the corpus has: the first `_MOST_COMPANIONS`.
    """
    companions: dict[str, set[int]] = {listed_stem: set() for listed_stem in _listed_stems()}
    # A line break ends a sentence, as in a heading.
    for line in chain.from_iterable(map(str.splitlines, texts)):
        for collocation in _collocations(_split_words(line)):
            # Words that are not in the lists are skipped.
            hashes = companions.get(collocation.stem)
            if hashes is not None and len(hashes) < _MOST_COMPANIONS:
                hashes.add(collocation.companion)
    return Collocations(
        {word_stem: frozenset(hashes) for word_stem, hashes in companions.items() if hashes}
    )


def _listed_stems() -> Iterator[str]:
    """Yield the stems of all verbs and nouns that the word lists replace."""
    for operator in INFLECTION_TAGS:
        for entries in entries_by_first_word(operator).values():
            for entry in entries:
                yield from _stems(_split_words(entry.word.text))


def _collocations(words: Sequence[str]) -> Iterator[Collocation]:
    """Find the companions of each content word of a text.

    Example:
        In *the old mill burned*, the companions of *mill* are ``old _`` and ``_ burn``, in which
        ``_`` stands for *mill*, and its slot ``old mill burned``.

    Args:
        words: The words and marks of the text, in lower case.

    Yields:
        Each content word with one companion.
    """
    previous_position = _TOO_FAR
    previous_stem = ""
    for position, word in enumerate(words):
        # Words on two sides of a full stop are no companions.
        if word in _BREAKS:
            previous_position = _TOO_FAR
        word_stem = stem(word)
        if not word_stem:
            continue

        if position - previous_position <= _LONGEST_DISTANCE:
            word_after = _hash_companion(f"_ {word_stem}")
            word_before = _hash_companion(f"{previous_stem} _")
            yield Collocation(previous_position, previous_stem, word_after)
            yield Collocation(position, word_stem, word_before)
        previous_position = position
        previous_stem = word_stem

        # The first and the last word stand between no two words.
        if 0 < position < len(words) - 1:
            slot = " ".join(words[position - 1 : position + 2])
            yield Collocation(position, word_stem, _hash_companion(slot))


def _hash_companion(companion: str) -> int:
    """Hash a companion such as ``old _``, because numbers take less space than texts."""
    return crc32(companion.encode())


def _split_words(text: str) -> list[str]:
    """Split a text into words and marks, in lower case; every number becomes ``0``."""
    return ["0" if word.isdigit() else word for word in _WORD.findall(text.lower())]


def _stems(words: Iterable[str]) -> list[str]:
    """Return the stems of the content words among some words."""
    return [word_stem for word_stem in map(stem, words) if word_stem]


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Cut off the ending of a word, so that *rejects* and *rejected* both become *reject*.

    Args:
        word: A word or mark in lower case.

    Returns:
        The stem; empty for marks, numbers and function words such as *the*.
    """
    # A single letter is a variable or the rest of a word.
    if not word[0].isalpha() or word in WORDS["function words"] or len(word) < 2:
        return ""
    return _ENDING.sub("", word)


def save_collocations(path: Path, collocations: Collocations) -> None:
    """Write the companions to a JSON file, which `load_collocations` reads."""
    # The order is fixed, so that equal collocations give equal files.
    companions = sorted(collocations.companions.items())
    write_json(path, {word_stem: sorted(hashes) for word_stem, hashes in companions})


@lru_cache(maxsize=2)
def load_collocations(path: Path) -> Collocations:
    """Read the companions from a file that `save_collocations` wrote."""
    companions = parse_json(path.read_text(encoding="utf-8"))
    return Collocations({word_stem: frozenset(hashes) for word_stem, hashes in companions.items()})
