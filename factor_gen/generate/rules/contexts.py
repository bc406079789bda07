"""In which company the listed words stand in a corpus: what a substitute must have been seen in.

A list knows that *library* and *school* are of one kind, but not that READMEs know one sense of
*library* alone. A word may stand for another where the corpus has it in the same slot (between the
same two words) or beside the same content word (which governs it or which it governs), or where the
two words keep much the same company elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple
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


class _Companion(NamedTuple):
    """What a content word stands beside."""

    position: int
    """Which token the content word is."""
    stem: str
    """The stem of the content word."""
    companion: int
    """A hash of a content word before or after it, or of the two words around it."""


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
        for position, its_stem, companion in _companions([*left, *inner, *right]):
            is_inside = 0 <= position - len(left) < len(inner)
            if is_inside and companion in self._of(its_stem):
                return True
        return self._are_alike(_stems(_tokens(text[start:end]))[-1:], _stems(inner))

    def _are_alike(self, old: Sequence[str], new: Sequence[str]) -> bool:
        """Whether all the new words keep much the same company as the old one."""
        pairs = [(self._of(before), self._of(after)) for before in old for after in new]
        return bool(pairs) and all(
            _ALIKE * len(ours & theirs) >= max(1, min(len(ours), len(theirs)))
            for ours, theirs in pairs
        )

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


def _companions(tokens: Sequence[str]) -> Iterator[_Companion]:
    """The companions of each content word: the content words near it, and its slot."""
    last = -1
    for i, token in enumerate(tokens):
        its_stem = "" if token in _BREAKS else stem(token)
        if token in _BREAKS:
            last = -1
        if not its_stem:
            continue
        if last >= 0 and i - last <= _REACH:
            last_stem = stem(tokens[last])
            yield _Companion(last, last_stem, crc32(f"_ {its_stem}".encode()))
            yield _Companion(i, its_stem, crc32(f"{last_stem} _".encode()))
        last = i
        if 0 < i < len(tokens) - 1:
            yield _Companion(i, its_stem, crc32(" ".join(tokens[i - 1 : i + 2]).encode()))


@cache
def _listed() -> frozenset[str]:
    """The stems of all words, in every form, that may stand for another."""
    forms: list[str] = []
    for operator in FORMS:
        for listed in by_first_word(operator).values():
            forms += [form.word.text for form in listed]
    return frozenset(_stems(_tokens(" ".join(forms))))


def gather(texts: Iterable[str]) -> Contexts:
    """The companions that the listed words have in the texts."""
    companions: dict[str, set[int]] = {}
    for text in texts:
        for line in text.splitlines():
            for _, its_stem, companion in _companions(_tokens(line)):
                if its_stem in _listed():
                    kept = companions.setdefault(its_stem, set())
                    if len(kept) < _MOST:
                        kept.add(companion)
    return Contexts({its_stem: frozenset(kept) for its_stem, kept in companions.items()})


def save(path: Path, contexts: Contexts) -> None:
    """Write the file that `load` reads."""
    companions = sorted(contexts.companions.items())
    write_json(path, {its_stem: sorted(kept) for its_stem, kept in companions})


@lru_cache(maxsize=2)
def load(path: Path) -> Contexts:
    """The contexts of a file that `save` wrote."""
    content = parse_json(path.read_text(encoding="utf-8"))
    return Contexts({its_stem: frozenset(kept) for its_stem, kept in content.items()})
