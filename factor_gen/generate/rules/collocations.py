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
_BREAKS = frozenset(".;:!?()[]")
_MAX_COMPANIONS = 400  # kept for each word: the first that the corpus has
_NEAR_CHARACTERS = 80  # on either side of an edit, mostly more than 4 words
_LEAST_SHARED = 12  # similar words share at least every twelfth companion


class ContentWord(NamedTuple):
    """A word of a text that is no function word, such as *mill*."""

    position: int
    """The index of the word."""
    stem: str


class Collocation(NamedTuple):
    """A word of a text, and one of its companions."""

    word: ContentWord
    companion: str
    """What stands near the word, such as ``old _`` for a word after *old*."""


@dataclass(frozen=True)
class Collocations:
    """The companions that each word of the lists has in a corpus.

    A companion of a word is a content word near it, or its slot, i.e. the two words between which
    it stands. In *the old mill burned*, *mill* has the companion *burned* and the slot *old ...
    burned*.
    """

    companions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The hashes of the companions by the word's stem. If there are none, every word is allowed."""

    def allow_substitute(
        self, text: str, start: int, end: int, substitute: str, *, must_be_in_slot: bool
    ) -> bool:
        """Whether the corpus has a substitute in a context like that of the words it replaces.

        Example:
            *Ship* may replace *boat* in *the boat sank* if the corpus has *ship* near *sank*.

        Args:
            text: The sentence.
            start: Where the words that are replaced start.
            end: Where they end.
            substitute: The new words.
            must_be_in_slot: Whether the corpus must also have the substitute between the same two
                words, such as *ship* between *the* and *sank*.
        """
        # Without collocations, there is no corpus that could rule a substitute out.
        if not self.companions:
            return True

        # The text is cut first, so that only a few words have to be split.
        before = _split_words(text[:start][-_NEAR_CHARACTERS:])[-_LONGEST_DISTANCE:]
        after = _split_words(text[end : end + _NEAR_CHARACTERS])[:_LONGEST_DISTANCE]
        new_words = _split_words(substitute)
        # The substitute between its two new neighbours, such as "the ship sank".
        slot = " ".join([*before[-1:], *new_words, *after[:1]])
        has_slot = _hash_companion(slot) in self._companions_of(stem(substitute))
        if must_be_in_slot and not has_slot:
            return False
        if self._has_companion(before, new_words, after):
            return True
        old_words = _split_words(text[start:end])
        return self._are_used_alike(old_words, new_words)

    def _has_companion(
        self, before: Sequence[str], new_words: Sequence[str], after: Sequence[str]
    ) -> bool:
        """Whether the corpus has one of the new words near a word of the sentence.

        Example:
            *Mill* may stand in *the old mill burned* if it is near *old* or *burned* in the corpus.

        Args:
            before: The words before the new ones.
            new_words: The words of the substitute.
            after: The words after them.
        """
        new_positions = range(len(before), len(before) + len(new_words))
        for collocation in _find_collocations([*before, *new_words, *after]):
            word = collocation.word
            # The companions of the other words of the sentence do not matter.
            if word.position not in new_positions:
                continue
            if _hash_companion(collocation.companion) in self._companions_of(word.stem):
                return True
        return False

    def _are_used_alike(self, old_words: Sequence[str], new_words: Sequence[str]) -> bool:
        """Whether the corpus uses each new word near the same words as the one it replaces.

        Args:
            old_words: The words that are replaced.
            new_words: The words of the substitute.
        """
        old_stems = _stems(old_words)
        new_stems = _stems(new_words)
        # Words such as "the" have no companions to compare.
        if not old_stems or not new_stems:
            return False
        # The last content word stands for all: "mill" for "old mill", and "turn" for "turn off".
        return all(self._are_similar(old_stems[-1], new_stem) for new_stem in new_stems)

    def _are_similar(self, first_stem: str, second_stem: str) -> bool:
        """Whether two words share at least one in twelve companions of the rarer word."""
        first = self._companions_of(first_stem)
        second = self._companions_of(second_stem)
        fewer = min(len(first), len(second))
        # Words without any companions are not similar.
        return _LEAST_SHARED * len(first & second) >= max(1, fewer)

    def _companions_of(self, word_stem: str) -> frozenset[int]:
        """Return the hashes of a word's companions; none if the word is not listed."""
        return self.companions.get(word_stem, frozenset())


def gather_collocations(texts: Iterable[str]) -> Collocations:
    """Record next to which words a corpus uses each word of the word lists.

    What stands next to a word is written as a text, a *companion* of the word. The forms of a word,
    such as *mill* and *mills*, have one stem and share their companions.

    Example:
        If *mill* is listed, the corpus ``["The old mill burned."]`` gives *mill* the companions
        ``old _``, ``_ burn`` and ``old mill burned``. The ``_`` stands for the word itself.

    Args:
        texts: The texts of the corpus.

    Returns:
        The hashes of the first `_MAX_COMPANIONS` companions of each listed word. Words that the
        corpus does not use are left out.
    """
    hashes_by_stem: dict[str, set[int]] = {listed_stem: set() for listed_stem in _listed_stems()}
    # Words on two sides of a line break, as after a heading, are no companions.
    lines = chain.from_iterable(text.splitlines() for text in texts)
    for line in lines:
        for collocation in _find_collocations(_split_words(line)):
            word_stem = collocation.word.stem
            # Only listed words are ever replaced or inserted, so other words need no companions.
            if word_stem not in hashes_by_stem:
                continue
            hashes = hashes_by_stem[word_stem]
            if len(hashes) < _MAX_COMPANIONS:
                # Hashes take less space than texts.
                hashes.add(_hash_companion(collocation.companion))

    return Collocations(
        {word_stem: frozenset(hashes) for word_stem, hashes in hashes_by_stem.items() if hashes}
    )


def _listed_stems() -> Iterator[str]:
    """Yield the stems of all verbs and nouns that the word lists replace."""
    for operator in INFLECTION_TAGS:
        for entry in chain.from_iterable(entries_by_first_word(operator).values()):
            yield from _stems(_split_words(entry.word.text))


def _find_collocations(words: Sequence[str]) -> Iterator[Collocation]:
    """Find the companions of each content word of a text.

    A content word has three companions: the stem of the content word before it, the stem of the
    content word after it, and its slot, i.e. the word with its two neighbours.

    Example:
        In *the old mill burned*, *mill* has the companions ``old _``, ``_ burn`` and ``old mill
        burned``. The ``_`` stands for *mill*.

    Args:
        words: The words and marks of the text, in lower case.
    """
    # The last content word of the same sentence.
    previous: ContentWord | None = None
    for position, word in enumerate(words):
        # Words on two sides of a full stop are no companions.
        if word in _BREAKS:
            previous = None
        # Marks and function words such as "the" have no stem, and no companions.
        word_stem = stem(word)
        if not word_stem:
            continue

        content_word = ContentWord(position, word_stem)
        if previous is not None and position - previous.position <= _LONGEST_DISTANCE:
            yield Collocation(previous, f"_ {content_word.stem}")
            yield Collocation(content_word, f"{previous.stem} _")
        previous = content_word

        # The first and the last word stand between no two words.
        if 0 < position < len(words) - 1:
            slot = " ".join(words[position - 1 : position + 2])
            yield Collocation(content_word, slot)


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
