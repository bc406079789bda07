"""In which company the listed words stand in a corpus: what a substitute must have been seen in.

A list knows that *library* and *school* are of one kind, but not that READMEs know one sense of
*library* alone. A word may stand for another where the corpus has it in the same slot (between the
same two words) or beside the same content word (which governs it or which it governs), or where the
two words keep much the same company elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from factor_gen.generate.rules.words import FORMS, WORDS, by_first_word
from lm_factuality.ground.files import parse_json, write_json

_TOKEN = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d+|[^\w\s]|_+")
_ENDING = re.compile(r"(?:(?<=\w\w\w)(?:ing|ed|es|(?<!s)s|e)|(?<=\w\w\w)y)$")
_REACH = 4  # tokens from one content word to the other of a pair
_BREAKS = frozenset(".;:!?()[]")
_MOST = 400  # companions of a word that are kept: the first that the corpus has
_NEAR = 80  # characters on either side of an edit
_ALIKE = 12  # two words are alike if they share one companion in so many of the word that has fewer


@dataclass(frozen=True)
class Contexts:
    """The companions of each listed stem, as hashes.

    Without any, no corpus is known and every substitute passes.
    """

    companions: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def fit(self, text: str, start: int, end: int, new: str, in_slot: bool = False) -> bool:
        """Whether the corpus allows ``new`` in place of ``text[start:end]``.

        Args:
            in_slot: Whether the corpus must have ``new`` between the same words.
        """
        if not self.companions:
            return True
        left = _tokens(text[max(0, start - _NEAR) : start])[-_REACH:]
        right = _tokens(text[end : end + _NEAR])[:_REACH]
        inner = _tokens(new)
        if in_slot:
            slot = " ".join([*left[-1:], *inner, *right[:1]])
            return crc32(slot.encode()) in self._of(stem(new))
        inside = range(len(left), len(left) + len(inner))
        for position, its_stem, companion in _companions([*left, *inner, *right]):
            if position in inside and companion in self._of(its_stem):
                return True
        old_stems = _stems(_tokens(text[start:end]))[-1:]
        new_stems = _stems(inner)
        alike = [self._are_alike(old, other) for old in old_stems for other in new_stems]
        return bool(alike) and all(alike)

    def _are_alike(self, one: str, other: str) -> bool:
        """Whether two words keep much the same company."""
        ours, theirs = self._of(one), self._of(other)
        return _ALIKE * len(ours & theirs) >= max(1, min(len(ours), len(theirs)))

    def _of(self, its_stem: str) -> frozenset[int]:
        return self.companions.get(its_stem, frozenset())


def _tokens(text: str) -> list[str]:
    return ["0" if token.isdigit() else token for token in _TOKEN.findall(text.lower())]


def _stems(tokens: Iterable[str]) -> list[str]:
    return [its_stem for its_stem in map(stem, tokens) if its_stem]


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """The word without the ending of its form; empty if it has no content of its own."""
    if not word[0].isalpha() or word in WORDS["function words"] or len(word) < 2:
        return ""
    return _ENDING.sub("", word)


def _companions(tokens: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """The companions of each content word: the content words near it, and its slot.

    Yields:
        The word's position, its stem, and a hash of a content word before or after it, or of the
        two words around it.
    """
    last, last_stem = -_REACH - 1, ""
    for i, token in enumerate(tokens):
        if token in _BREAKS:
            last = -_REACH - 1
        its_stem = stem(token)
        if not its_stem:
            continue
        if i - last <= _REACH:
            yield last, last_stem, crc32(f"_ {its_stem}".encode())
            yield i, its_stem, crc32(f"{last_stem} _".encode())
        last, last_stem = i, its_stem
        if 0 < i < len(tokens) - 1:
            yield i, its_stem, crc32(" ".join(tokens[i - 1 : i + 2]).encode())


def gather(texts: Iterable[str]) -> Contexts:
    """The companions that the listed words have in the texts."""
    forms = [
        listed.word.text
        for operator in FORMS
        for first in by_first_word(operator).values()
        for listed in first
    ]
    companions: dict[str, set[int]] = {
        its_stem: set() for its_stem in _stems(_tokens(" ".join(forms)))
    }
    for text in texts:
        for line in text.splitlines():
            for _, its_stem, companion in _companions(_tokens(line)):
                kept = companions.get(its_stem)
                if kept is not None and len(kept) < _MOST:
                    kept.add(companion)
    return Contexts({its_stem: frozenset(kept) for its_stem, kept in companions.items() if kept})


def save(path: Path, contexts: Contexts) -> None:
    """Write the file that `load` reads."""
    companions = sorted(contexts.companions.items())
    write_json(path, {its_stem: sorted(kept) for its_stem, kept in companions})


@lru_cache(maxsize=2)
def load(path: Path) -> Contexts:
    """The contexts of a file that `save` wrote."""
    content = parse_json(path.read_text(encoding="utf-8"))
    return Contexts({its_stem: frozenset(kept) for its_stem, kept in content.items()})
