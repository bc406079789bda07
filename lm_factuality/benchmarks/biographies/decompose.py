"""Step 1: the atomic facts of a response, sentence by sentence (Min et al., 2023, as section 5.1 takes it over).

The published code splits the judge's text at every "- ", so that "1990- 1995" is a border between facts; here the reply is a
list.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judges.typed import Reply, Typed
from lm_factuality.benchmarks.felm.claims import split_sentences

PROMPT = "biographies/decompose"
_CITATION = re.compile(r"\s*\[\s*\d+(?:\s*[,;\u2013-]\s*\d+)*\s*\]")
_HALF_CITATION = re.compile(r"\s*\[[\d,;\s\u2013'-]*$")  # of an output that was cut off


@dataclass(frozen=True)
class Decomposition:
    """The facts of one sentence; ``problem`` says why it could not be taken apart. A sentence may have no facts."""

    facts: tuple[str, ...]
    problem: str | None = None


def without_citations(text: str) -> str:
    """``text`` without [1], [1, 2], [1][2] and a bracket at its end that was never closed."""
    return re.sub(r"[ \t]{2,}", " ", _HALF_CITATION.sub("", _CITATION.sub("", text))).strip()


def sentences_of(output: str) -> tuple[str, ...]:
    """The sentences of a response that hold a word, citations removed first."""
    lines = (line.strip() for line in without_citations(output).splitlines())
    return tuple(sentence for line in lines for sentence in split_sentences(line) if len(re.findall(r"\w+", sentence)) > 1)


def decompose_subject(sentence: str, name: str) -> dict[str, Any]:
    """What the prompt is about."""
    return {"kind": "decompose", "sentence": sentence, "name": name}


class FactsReply(Reply):
    """The facts of a sentence; none where it says nothing about anybody."""

    facts: list[str]


def check_facts(reply: FactsReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every fact is a sentence of at least two words."""
    return next((f"not a fact: {text[:80]!r}" for text in reply.facts if not _fact(text)), "")


def to_decomposition(read: Typed[FactsReply]) -> Decomposition:
    """The distinct facts of a judge's reply, or its problem."""
    if read.value is None:
        return Decomposition((), read.problem)
    return Decomposition(tuple(dict.fromkeys(_fact(text) for text in read.value.facts)))


def _fact(text: str) -> str:
    text = " ".join(without_citations(text).split())
    return text if len(re.findall(r"\w+", text)) > 1 else ""
