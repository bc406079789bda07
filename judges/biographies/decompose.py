"""Step 1: the atomic facts of a response, sentence by sentence (Min et al., 2023, as section 5.1 takes it over).

Differences from the published code: a fact begins at the beginning of a line, so that "1990- 1995" is no border between facts
(they split at every "- "); and the first line counts whether or not the model repeats the hyphen that the prompt ended with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from judges.answers import Answer
from judges.felm.claims import split_sentences
from judges.plain import without_thinking

PROMPT = "biographies/decompose"
_CITATION = re.compile(r"\s*\[\s*\d+(?:\s*[,;\u2013-]\s*\d+)*\s*\]")
_HALF_CITATION = re.compile(r"\s*\[[\d,;\s\u2013'-]*$")  # of an output that was cut off
_BULLET = re.compile(r"^\s*(?:[-*\u2022\u2013]\s+|\d{1,2}[.)]\s+|fact\s*\d*\s*:\s*)", re.IGNORECASE)
_NONE = re.compile(r"\W*(?:none|no (?:atomic |independent )?facts?|n/?a)\b[^a-z]*", re.IGNORECASE)


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
    return tuple(
        sentence for line in lines for sentence in split_sentences(line) if len(re.findall(r"\w+", sentence)) > 1
    )


def decompose_subject(sentence: str, name: str) -> dict[str, Any]:
    """What the prompt is about."""
    return {"kind": "decompose", "sentence": sentence, "name": name}


def parse_facts(answer: Answer) -> Decomposition:
    """The facts in a judge's answer: the lines with a bullet or a number, and a first line without one if others follow or it is
    alone. An answer that was cut off loses its last line, which may be half a fact."""
    if answer.text is None or answer.error is not None:
        return Decomposition((), f"judge error: {answer.error or 'no text'}")
    text = without_thinking(answer.text)
    if text is None:
        return Decomposition((), "thinking without an end")
    lines = [line for line in text.splitlines() if line.strip()]
    if answer.is_cut_off:
        lines = lines[:-1]
    if not lines:
        return Decomposition((), "cut off before the first fact" if answer.is_cut_off else "empty answer")
    bulleted = [bool(_BULLET.match(line)) for line in lines]
    starts_bare = not bulleted[0] and not lines[0].rstrip().endswith(":") and (all(bulleted[1:]))
    kept = [line for number, line in enumerate(lines) if bulleted[number] or (number == 0 and starts_bare)]
    if len(kept) == 1 and _NONE.fullmatch(_BULLET.sub("", kept[0])):
        return Decomposition(())
    facts = tuple(dict.fromkeys(fact for line in kept if (fact := _fact(line))))
    return Decomposition(facts, None if facts else "no line '- fact'")


def _fact(line: str) -> str:
    text = " ".join(without_citations(_BULLET.sub("", line)).strip("* \t").split())
    return text if len(re.findall(r"\w+", text)) > 1 else ""
