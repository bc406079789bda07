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
from zlib import crc32

from factor_gen.generate.rules.words import DATA, FORMS, WORDS, inflect
from factor_gen.text.lists import rows
from lm_factuality.ground.files import parse_json, write_json

_TOKEN = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*|\d+|[^\w\s]|_+")
_ENDING = re.compile(r"(?:(?<=\w\w\w)(?:ing|ed|es|(?<!s)s|e)|(?<=\w\w\w)y)$")
_REACH = 4  # tokens from one content word to the other of a pair
_BREAKS = frozenset(".;:!?()[]")
_MOST = 400  # companions of a word that are kept: the first that the corpus has
_NEAR = 80  # characters on either side of an edit
_ALIKE = 12  # two words are alike if they share one companion in so many of the word that has fewer


def _tokens(text: str) -> list[str]:
    return ["0" if token.isdigit() else token for token in _TOKEN.findall(text.lower())]


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """The word without the ending of its form; empty if it has no content of its own."""
    if not word[0].isalpha() or word in WORDS["function words"] or len(word) < 2:
        return ""
    return _ENDING.sub("", word)


def _companions(tokens: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """For each content word: which token it is, its stem, and a companion (a content word before or
    after it, or its slot) as a number."""
    last = -1
    for i, token in enumerate(tokens):
        if token in _BREAKS:
            last = -1
        elif found := stem(token):
            if last >= 0 and i - last <= _REACH:
                yield last, stem(tokens[last]), crc32(f"_ {found}".encode())
                yield i, found, crc32(f"{stem(tokens[last])} _".encode())
            last = i
            if 0 < i < len(tokens) - 1:
                yield i, found, crc32(f"{tokens[i - 1]} {token} {tokens[i + 1]}".encode())


@dataclass(frozen=True)
class Contexts:
    """The companions of each listed stem, as numbers; without any, no corpus is known and every
    substitute passes."""

    companions: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def fit(self, text: str, start: int, end: int, new: str, in_slot: bool = False) -> bool:
        """Whether the corpus allows ``new`` in place of ``text[start:end]``; ``in_slot``: has it
        between the same words."""
        if not self.companions:
            return True
        left, right = (
            _tokens(text[max(0, start - _NEAR) : start])[-_REACH:],
            _tokens(text[end : end + _NEAR])[:_REACH],
        )
        if in_slot:
            slot = crc32(" ".join([*left[-1:], *_tokens(new), *right[:1]]).encode())
            return slot in self.companions.get(stem(new), ())
        inside = range(len(left), len(left) + len(_tokens(new)))
        around = _companions([*left, *_tokens(new), *right])
        if any(i in inside and beside in self.companions.get(its, ()) for i, its, beside in around):
            return True
        old, *_ = [its for token in reversed(_tokens(text[start:end])) if (its := stem(token))] or [
            ""
        ]
        ours = self.companions.get(old, frozenset())
        theirs = [
            self.companions.get(stem(token), frozenset()) for token in _tokens(new) if stem(token)
        ]
        return bool(theirs) and all(
            _ALIKE * len(ours & each) >= max(1, min(len(ours), len(each))) for each in theirs
        )


@cache
def _listed() -> frozenset[str]:
    """The stems of all words, in every form, that may stand for another."""
    found = [
        each
        for row in rows(DATA / "nouns.tsv", 2)
        for each in (*row, *(inflect(word, "NNS") for word in row))
    ]
    found += [
        inflect(verb, tag)
        for row in rows(DATA / "verbs.tsv", 3)
        for verb in row[:2]
        for tag in FORMS
    ]
    return frozenset(stem(token) for each in found for token in _tokens(each)) - {""}


def gather(texts: Iterable[str]) -> Contexts:
    """The companions that the listed words have in ``texts``."""
    found: dict[str, set[int]] = {}
    for text in texts:
        for line in text.splitlines():
            for _, its, companion in _companions(_tokens(line)):
                if its in _listed() and len(kept := found.setdefault(its, set())) < _MOST:
                    kept.add(companion)
    return Contexts({its: frozenset(kept) for its, kept in found.items()})


def save(path: Path, contexts: Contexts) -> None:
    """Writes the file that :func:`load` reads."""
    write_json(path, {its: sorted(kept) for its, kept in sorted(contexts.companions.items())})


@lru_cache(maxsize=2)
def load(path: Path) -> Contexts:
    """The contexts of a file that :func:`save` wrote."""
    return Contexts(
        {its: frozenset(kept) for its, kept in parse_json(path.read_text(encoding="utf-8")).items()}
    )
