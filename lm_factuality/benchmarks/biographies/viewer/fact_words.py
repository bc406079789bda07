"""Where the words of a fact stand in its sentence, so that pages mark them alone."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from judges.lexical.words import parse_text

_WORD = re.compile(r"\w+")
_ROOT_LENGTH = 5  # letters, since stems keep endings such as that of "painter"


class Span(NamedTuple):
    """A part of a text."""

    start: int
    """The index of its first character."""

    end: int
    """The index behind its last character."""


class _SentenceWord(NamedTuple):
    """A content word of a sentence."""

    root: str
    span: Span


def find_fact_words(sentence: str, facts: Sequence[str], subject: str = "") -> list[Span]:
    """Find the words of each fact in the sentence that states it.

    Facts are often paraphrases. The words of a fact stand in the shortest part of the sentence that
    has all of its content words, in whatever form. Words that the sentence does not have, words of
    the subject, and words of all facts of the sentence do not count.

    Example:
        "Ada Lind (1850-1901) was a painter." with the facts "Ada was born in 1850." and "She
        painted." gives the spans of "1850" and "painter".

    Args:
        sentence: The sentence as it is written, without citations.
        facts: The facts that it states.
        subject: The name of the person whom the response is about.

    Returns:
        The span of each fact. It is the whole sentence if no word of the fact is in it.
    """
    words = []
    for match in _WORD.finditer(sentence):
        words += [_SentenceWord(root, Span(*match.span())) for root in _roots_in(match[0])]
    sentence_roots = {word.root for word in words}
    roots_by_fact = [_roots_in(fact) & sentence_roots for fact in facts]
    ignored_roots = _roots_in(subject)
    # With a single fact, nothing tells its words from those that facts share.
    if len(facts) > 1:
        ignored_roots |= frozenset.intersection(*roots_by_fact)

    whole_sentence = Span(0, len(sentence))
    return [
        _shortest_span(words, roots - ignored_roots) or whole_sentence for roots in roots_by_fact
    ]


def _roots_in(text: str) -> frozenset[str]:
    """Return the beginnings of the content words of a text: ``painter`` and ``paints`` are one."""
    return frozenset(stem[:_ROOT_LENGTH] for stem in parse_text(text).stem_set)


def _shortest_span(words: Sequence[_SentenceWord], roots: frozenset[str]) -> Span | None:
    """Return the shortest part of a sentence that has all roots, or None if there are no roots.

    Example:
        In "Ada sang, and Bea sang and won." the roots "sang" and "won" stand in "sang and won".

    Args:
        words: The content words of the sentence, in order.
        roots: Roots that all are in the sentence.
    """
    shortest = None
    last_start_by_root: dict[str, int] = {}
    for root, span in words:
        if root not in roots:
            continue
        last_start_by_root[root] = span.start
        if len(last_start_by_root) < len(roots):
            continue
        # The shortest part that ends with this word begins at the root that was read longest ago.
        candidate = Span(min(last_start_by_root.values()), span.end)
        if shortest is None or candidate.end - candidate.start < shortest.end - shortest.start:
            shortest = candidate
    return shortest
