"""The first stage: one sentence a document, and all the text before it (section 3.2.1)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from factor_gen.eligible import failed
from factor_gen.records import Example
from factor_gen.settings import SelectSettings
from factor_gen.text.sentences import sentences

_RULES = 2  # raised when a change of the rules can change what is selected
_SPACE = re.compile(r"\s+")
_EMPTY, _ALONE, _JOINED, _REPEATED = (
    "the text is empty",
    "no text before the sentence",
    "no white space before the sentence",
    "no sentence that the rest of the text does not repeat",
)


class Select:
    """Examples whose ``prefix`` is a whole document in, its sentence as ``completion`` and what stands before it out."""

    name = "select"

    def __init__(self, settings: SelectSettings, seed: int) -> None:
        self._settings = settings
        self._seed = seed

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        seed = {"seed": self._seed} if self._settings.position == "random" else {}
        return {"rules": _RULES, "sentencex": version("sentencex"), **asdict(self._settings), **seed}

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Each document with its sentence, or the reason why none of its sentences will do."""
        return [example if example.unused else self._select(example.doc_id, example.prefix) for example in examples]

    def _select(self, doc_id: str, text: str) -> Example:
        spans = sentences(text)
        # each sentence that will do is as likely as the others to be the first of them in a random order
        order = list(range(len(spans)))
        if self._settings.position == "random":
            random.Random(f"{self._seed}/select/{doc_id}").shuffle(order)
        elif self._settings.position == "last":
            order.reverse()
        whole = _plain(text)
        furthest = (-1, _EMPTY)
        for number in order:
            start, end = spans[number]
            sentence = text[start:end]
            failure = failed(sentence, self._settings) or _misplaced(text[:start], sentence, whole)
            if failure is None:
                return Example(doc_id, prefix=text[:start], completion=sentence)
            furthest = max(furthest, failure)
        return Example(doc_id).drop(self.name, furthest[1])


def _misplaced(prefix: str, sentence: str, whole: str) -> tuple[int, str] | None:
    """Why the text around ``sentence`` forbids it, told as :func:`factor_gen.eligible.failed` does; these come after its own."""
    if not prefix or prefix.isspace():
        return 100, _ALONE
    if not prefix[-1].isspace():
        return 101, _JOINED
    plain = _plain(sentence)
    if whole.find(plain, whole.find(plain) + 1) >= 0:
        return 102, _REPEATED
    return None


def _plain(text: str) -> str:
    """``text`` in lower case, with single spaces and no end mark, so that a heading is the sentence that repeats it."""
    return _SPACE.sub(" ", text).strip().rstrip(".!?\"'”’)]").casefold()
