"""Where the words of a fact stand in its sentence, so that pages mark them alone."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from judges.lexical.words import parse_text

_WORD = re.compile(r"\w+")


class Span(NamedTuple):
    """A part of a text."""

    start: int
    """The index of its first character."""

    end: int
    """The index behind its last character."""


class _SentenceWord(NamedTuple):
    """A content word of a sentence."""

    stem: str
    span: Span


def find_fact_words(sentence: str, facts: Sequence[str]) -> list[Span]:
    """Find the words of each fact in the sentence that states it.

    Facts are often paraphrases. A fact is where the shortest part of the sentence stands that holds
    the stems of all its content words that the sentence has. Words that all facts of the sentence
    have, such as their subject, do not count.

    Example:
        "Ada Lind (1850-1901) was a painter." with the facts "Ada was born in 1850." and "She
        painted." gives the spans of "1850" and "painter".

    Args:
        sentence: The sentence as it is written, without citations.
        facts: The facts that it states.

    Returns:
        The span of each fact. It is the whole sentence if no word of the fact is in it.
    """
    words = [
        _SentenceWord(stem, Span(*match.span()))
        for match in _WORD.finditer(sentence)
        for stem in parse_text(match[0]).stem_set
    ]
    sentence_stems = {word.stem for word in words}
    stems_by_fact = [parse_text(fact).stem_set & sentence_stems for fact in facts]
    # With a single fact, nothing tells its words from those of the subject.
    shared_stems = frozenset.intersection(*stems_by_fact) if len(facts) > 1 else frozenset()

    whole_sentence = Span(0, len(sentence))
    spans = []
    for stems in stems_by_fact:
        distinctive_stems = stems - shared_stems or stems
        spans.append(_shortest_span(words, distinctive_stems) or whole_sentence)
    return spans


def _shortest_span(words: Sequence[_SentenceWord], stems: frozenset[str]) -> Span | None:
    """Return the shortest part of a sentence that has all stems, or None if there are none."""
    shortest = None
    last_start_by_stem: dict[str, int] = {}
    for stem, span in words:
        if stem not in stems:
            continue
        last_start_by_stem[stem] = span.start
        if len(last_start_by_stem) < len(stems):
            continue
        # All stems were read, so the part begins where the one that was read longest ago stands.
        candidate = Span(min(last_start_by_stem.values()), span.end)
        if shortest is None or candidate.end - candidate.start < shortest.end - shortest.start:
            shortest = candidate
    return shortest
