"""Step 1: the atomic facts of a response, sentence by sentence (Min et al., 2023, as section 5.1 takes it over).

Differences from the published code: a fact begins at the beginning of a line, so that "1990- 1995" is no border between facts
(they split at every "- "); the first line counts whether or not the model repeats the hyphen that the prompt ended with; and a
line without a bullet is not lost: it goes on with the fact above it, is a fact, or leaves the sentence unscored.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from judges.answers import Answer
from lm_factuality.benchmarks.felm.claims import split_sentences
from lm_factuality.ground.packaged import load_words
from lm_factuality.ground.thinking import without_thinking

PROMPT = "biographies/decompose"
_CITATION = re.compile(r"\s*\[\s*\d+(?:\s*[,;\u2013-]\s*\d+)*\s*\]")
_HALF_CITATION = re.compile(r"\s*\[[\d,;\s\u2013'-]*$")  # of an output that was cut off
_BULLET = re.compile(r"^\s*(?:[-*+\u2022\u2013]\s+|\d{1,2}[.)]\s+|fact\s*\d*\s*:\s*)", re.IGNORECASE)
_TALK = re.compile(rf"^\W*(?:{load_words(__package__)['talk']})", re.IGNORECASE)
_ENDS = re.compile(r"[.!?][\"')\]*_\u2019\u201d]*$")
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
    return tuple(sentence for line in lines for sentence in split_sentences(line) if len(re.findall(r"\w+", sentence)) > 1)


def decompose_subject(sentence: str, name: str) -> dict[str, Any]:
    """What the prompt is about."""
    return {"kind": "decompose", "sentence": sentence, "name": name}


@dataclass(frozen=True)
class _Entry:
    text: str
    has_bullet: bool
    indent: int


def parse_facts(answer: Answer) -> Decomposition:
    """The facts in a judge's answer: the lines with a bullet or a number, and a first line without one if others follow or it is
    alone. Of other lines those that are indented or begin with a small letter belong to the fact above, headings and talk about
    the answer ("I hope this helps!") count nowhere, sentences are facts of their own, and anything else is a problem. An
    answer that was cut off loses its last fact, which may be half of one."""
    if answer.text is None or answer.error is not None:
        return Decomposition((), f"judge error: {answer.error or 'no text'}")
    text = without_thinking(answer.text)
    if text is None:
        return Decomposition((), "thinking without an end")
    entries = _entries(text)
    if answer.is_cut_off:
        entries = entries[:-1]
    if not entries:
        return Decomposition((), "cut off before the first fact" if answer.is_cut_off else "empty answer")
    bulleted = [entry for entry in entries if entry.has_bullet] or entries
    if all(_NONE.fullmatch(entry.text) for entry in bulleted):
        return Decomposition(())
    if len(entries) > 1 and not entries[0].has_bullet and bulleted == entries:
        return Decomposition((), "no line '- fact'")
    kept = []
    for number, entry in enumerate(entries):
        if not entry.has_bullet and _is_no_fact(entry.text):
            continue
        if not entry.has_bullet and number and not _is_fact_of_its_own(entries[number - 1].text, entry.text):
            return Decomposition((), f"a line that is not clearly a fact: {entry.text[:80]}")
        kept.append(entry.text)
    facts = tuple(dict.fromkeys(fact for text in kept if (fact := _fact(text))))
    return Decomposition(facts, None if facts else "no line '- fact'")


def _entries(text: str) -> list[_Entry]:
    """The lines that hold anything, those that go on with the one before joined to it, without bullets."""
    entries: list[_Entry] = []
    for line in text.splitlines():
        bare = _BULLET.sub("", line).strip()
        has_bullet, indent = _BULLET.match(line) is not None, len(line) - len(line.lstrip())
        above = entries[-1] if entries and not _is_no_fact(entries[-1].text) else None
        if has_bullet or above is None or _is_no_fact(bare) or not (bare[:1].islower() or indent > above.indent):
            if has_bullet or re.search(r"\w", bare):
                entries.append(_Entry(bare, has_bullet, indent))
        elif bare:
            entries[-1] = replace(above, text=f"{above.text} {bare}")
    return entries


def _is_no_fact(text: str) -> bool:
    """Whether a line is a heading or talk about the answer."""
    return text.rstrip("*_ ").endswith(":") or _TALK.match(text) is not None


def _is_fact_of_its_own(above: str, text: str) -> bool:
    """Whether ``text`` is a sentence, and the line above it one that had come to its end."""
    return bool(_ENDS.search(text) and (_ENDS.search(above) or _is_no_fact(above)) and _fact(text))


def _fact(text: str) -> str:
    text = " ".join(without_citations(text).strip("* \t").split())
    return text if len(re.findall(r"\w+", text)) > 1 else ""
