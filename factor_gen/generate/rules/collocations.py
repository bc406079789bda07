"""Collocations: the words near which, and between which, a corpus has each word of the lists.

The word lists know that *library* and *school* are of one kind, but not that manuals use *library*
in another sense. `factor_gen.generate.rules.substitutes` therefore asks here whether the corpus has
a substitute in a similar context.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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
    """The hash of a content word before or after it, or of the two words around it."""


@dataclass(frozen=True)
class Collocations:
    """The companions that each word of the lists has in a corpus.

    A companion is a content word near it, or its slot: the two words between which it stands.
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
            must_be_in_slot: Whether the corpus must have it between the same two words. Otherwise
                one common companion, or a similar use of both words, is enough.
        """
        # Nothing is known about the corpus.
        if not self.companions:
            return True
        before = _split_words(text[max(0, start - _NEAR) : start])[-_LONGEST_DISTANCE:]
        after = _split_words(text[end : end + _NEAR])[:_LONGEST_DISTANCE]
        new_words = _split_words(substitute)

        if must_be_in_slot:
            slot = " ".join([*before[-1:], *new_words, *after[:1]])
            return crc32(slot.encode()) in self._companions_of(stem(substitute))

        # One companion that the corpus has is enough.
        new_positions = range(len(before), len(before) + len(new_words))
        for collocation in _collocations([*before, *new_words, *after]):
            is_known = collocation.companion in self._companions_of(collocation.stem)
            if collocation.position in new_positions and is_known:
                return True

        new_stems = _stems(new_words)
        # Of a phrase that is replaced, the last content word counts.
        for old_stem in _stems(_split_words(text[start:end]))[-1:]:
            if new_stems and all(self._are_similar(old_stem, new_stem) for new_stem in new_stems):
                return True
        return False

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
        The companions of each listed word that the corpus has, at most 400 for each.
    """
    companions: dict[str, set[int]] = {}
    for operator in INFLECTION_TAGS:
        for entries in entries_by_first_word(operator).values():
            for entry in entries:
                for listed_stem in _stems(_split_words(entry.word.text)):
                    companions[listed_stem] = set()

    for text in texts:
        # A line break ends a sentence, as in a heading.
        for line in text.splitlines():
            for collocation in _collocations(_split_words(line)):
                # Words that are not in the lists are skipped.
                word_companions = companions.get(collocation.stem)
                if word_companions is not None and len(word_companions) < _MOST_COMPANIONS:
                    word_companions.add(collocation.companion)
    return Collocations(
        {word_stem: frozenset(hashes) for word_stem, hashes in companions.items() if hashes}
    )


def _collocations(words: Sequence[str]) -> Iterator[Collocation]:
    """Find the companions of each content word of a text.

    Example:
        In *the old mill burned*, *mill* has the companions *old* and *burned* and the slot
        *old mill burned*.

    Args:
        words: The words and marks of the text, in lower case.

    Yields:
        Each word with one companion.
    """
    previous_position: int | None = None
    previous_stem = ""
    for position, word in enumerate(words):
        # Words on two sides of a full stop are no companions.
        if word in _BREAKS:
            previous_position = None
        word_stem = stem(word)
        if not word_stem:
            continue
        if previous_position is not None and position - previous_position <= _LONGEST_DISTANCE:
            hash_of_next = crc32(f"_ {word_stem}".encode())
            hash_of_previous = crc32(f"{previous_stem} _".encode())
            yield Collocation(previous_position, previous_stem, hash_of_next)
            yield Collocation(position, word_stem, hash_of_previous)
        previous_position = position
        previous_stem = word_stem
        # The first and the last word have no slot.
        if 0 < position < len(words) - 1:
            slot = " ".join(words[position - 1 : position + 2])
            yield Collocation(position, word_stem, crc32(slot.encode()))


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
    companions = sorted(collocations.companions.items())
    write_json(path, {word_stem: sorted(hashes) for word_stem, hashes in companions})


@lru_cache(maxsize=2)
def load_collocations(path: Path) -> Collocations:
    """Read the companions from a file that `save_collocations` wrote."""
    companions = parse_json(path.read_text(encoding="utf-8"))
    return Collocations({word_stem: frozenset(hashes) for word_stem, hashes in companions.items()})
