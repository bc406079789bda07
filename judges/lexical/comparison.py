"""A claim beside its passages: which of its words and names they hold, and where they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby, pairwise
from operator import attrgetter

from judges.lexical.words import NEGATIONS, ParsedPassage, ParsedText, Word, parse_text

_ROOT = 4  # letters that words of one family share: "Sweden" and "Swedish"


@dataclass(frozen=True)
class Comparison:
    """What the features of the lexical judge are made of."""

    claim_text: str
    passages: Sequence[ParsedPassage]

    @cached_property
    def claim(self) -> ParsedText:
        """The words of the claim."""
        return parse_text(self.claim_text)

    @cached_property
    def evidence(self) -> set[str]:
        """The stems of the content words of all passages."""
        return {stem for passage in self.passages for stem in passage.words.stems}

    @cached_property
    def missing(self) -> tuple[Word, ...]:
        """The content words of the claim that no passage has."""
        return tuple(word for word in self.claim.content if word.stem not in self.evidence)

    @cached_property
    def unrelated(self) -> tuple[Word, ...]:
        """The missing words of which no passage has a relative, a word that begins alike."""
        roots = {stem[:_ROOT] for stem in self.evidence}
        return tuple(word for word in self.missing if word.stem[:_ROOT] not in roots)

    @cached_property
    def together(self) -> float:
        """The share of the claim's words that two neighbouring sentences of a passage have.

        The names of what the passages are about do not count.
        """
        stems = self.claim.stems - self.about
        most = 0
        for passage in self.passages:
            for first, second in pairwise([(), *passage.words.sentences]):
                most = max(most, len(stems & {word.stem for word in first + second}))
        return most / len(stems) if stems else 1.0

    @cached_property
    def names(self) -> tuple[tuple[Word, ...], ...]:
        """The names of the claim: capitalised content words that stand next to each other."""
        return tuple(
            tuple(words)
            for sentence in self.claim.sentences
            for is_name, words in groupby(sentence, key=attrgetter("is_name"))
            if is_name
        )

    @cached_property
    def missing_names(self) -> tuple[tuple[Word, ...], ...]:
        """The names whose words stand close together in no passage."""
        return tuple(
            name
            for name in self.names
            if not any(_has_name(passage.words, name) for passage in self.passages)
        )

    @cached_property
    def negation_differs(self) -> bool:
        """Whether the claim, or the sentence closest to it, denies what the other affirms.

        The closest sentence of the passages has most of the claim's content words.
        """
        sentences = [sentence for passage in self.passages for sentence in passage.words.sentences]
        closest: tuple[Word, ...] = max(
            sentences,
            key=lambda words: len(self.claim.stems & {word.stem for word in words}),
            default=(),
        )
        if any(word.stem in NEGATIONS for word in self.claim.words):
            return not any(word.stem in NEGATIONS for word in closest)
        return bool(_negated(closest) & self.claim.stems)

    @cached_property
    def about(self) -> set[str]:
        """The stems of the names of what the passages are about."""
        return {stem for passage in self.passages for stem in passage.name}

    @cached_property
    def namesakes(self) -> tuple[ParsedPassage, ...]:
        """The passages, if their titles name different things whose names share a word.

        It is then unclear of which the claim speaks.
        """
        by_title = {passage.title: passage for passage in self.passages if passage.title}
        titled = tuple(by_title.values())
        if any(first.name & second.name for first, second in combinations(titled, 2)):
            return titled
        return ()


def _has_name(text: ParsedText, name: tuple[Word, ...]) -> bool:
    """Whether all words of ``name`` stand within a stretch of ``text`` one word longer than it.

    The word more may be a middle name.
    """
    stems = {word.stem for word in name}
    if not stems <= text.stems:
        return False
    size = len(name) + 1
    starts = range(len(text.sequence))
    return any(stems <= set(text.sequence[start : start + size]) for start in starts)


def _negated(words: Sequence[Word]) -> set[str]:
    """The stems of the first content word behind each negation."""
    stems: set[str] = set()
    is_negated = False
    for word in words:
        if is_negated and word.is_content:
            stems.add(word.stem)
            is_negated = False
        is_negated = is_negated or word.stem in NEGATIONS
    return stems
