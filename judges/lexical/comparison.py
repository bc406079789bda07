"""The comparison of a claim with passages: which of its words they have, and where they differ.

`judges.lexical.model` measures the features of the lexical judge on a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby, pairwise

from judges.lexical.words import (
    NEGATIONS,
    ParsedPassage,
    ParsedText,
    Word,
    parse_text,
    stems_of,
)

# Words that share their first four letters count as related, such as "Sweden" and "Swedish".
_LETTERS_OF_RELATED_WORDS = 4


@dataclass(frozen=True)
class Comparison:
    """A claim, the passages that may support it, and everything that the lexical judge compares."""

    claim_text: str
    """The claim."""

    passages: Sequence[ParsedPassage]
    """The passages."""

    @cached_property
    def claim(self) -> ParsedText:
        """The words of the claim."""
        return parse_text(self.claim_text)

    @cached_property
    def passage_stems(self) -> set[str]:
        """The stems of the content words of all passages."""
        return set().union(*(passage.parsed_text.stem_set for passage in self.passages))

    @cached_property
    def missing_words(self) -> tuple[Word, ...]:
        """The content words of the claim that no passage has."""
        return tuple(
            word for word in self.claim.content_words if word.stem not in self.passage_stems
        )

    @cached_property
    def unrelated_words(self) -> tuple[Word, ...]:
        """The missing words whose first letters no word of a passage has."""
        # The first letters of a stem are those of all words of its family.
        beginnings = {stem[:_LETTERS_OF_RELATED_WORDS] for stem in self.passage_stems}
        return tuple(
            word
            for word in self.missing_words
            if word.stem[:_LETTERS_OF_RELATED_WORDS] not in beginnings
        )

    @cached_property
    def neighbouring_share(self) -> float:
        """The largest share of the claim's words that two neighbouring sentences have.

        The words of the passages' titles do not count, since every sentence is about them. A claim
        of such words alone has a share of 1.
        """
        # Each word counts once, however often the claim repeats it.
        stems = self.claim.stem_set - self.topic_stems
        if not stems:
            return 1.0

        max_count = 0
        for passage in self.passages:
            # With an empty sentence before it, a passage of one sentence has a pair too.
            sentences = [(), *passage.parsed_text.sentences]
            for first_sentence, second_sentence in pairwise(sentences):
                num_shared = len(stems & stems_of(first_sentence + second_sentence))
                max_count = max(max_count, num_shared)
        return max_count / len(stems)

    @cached_property
    def claim_names(self) -> tuple[tuple[Word, ...], ...]:
        """The names in the claim, i.e. runs of capitalised words, such as (Ada, Hill)."""
        names = []
        for sentence in self.claim.sentences:
            # Capitalised words next to each other are one name.
            for is_name, words in groupby(sentence, key=lambda word: word.is_name):
                if is_name:
                    names.append(tuple(words))
        return tuple(names)

    @cached_property
    def missing_names(self) -> tuple[tuple[Word, ...], ...]:
        """The names in the claim that no passage mentions."""
        missing_names = []
        for name in self.claim_names:
            if not any(_mentions_name(passage.parsed_text, name) for passage in self.passages):
                missing_names.append(name)
        return tuple(missing_names)

    @cached_property
    def negation_differs(self) -> bool:
        """Whether the claim denies what the closest sentence affirms, or the reverse.

        The closest sentence is the one in the passages with the most content words of the claim.
        """
        sentences: list[tuple[Word, ...]] = []
        for passage in self.passages:
            sentences += passage.parsed_text.sentences
        closest_sentence = find_closest_sentence(self.claim, sentences)

        # If the claim denies something, the closest sentence has to deny something too.
        if has_negation(self.claim.words):
            return not has_negation(closest_sentence)
        # The claim affirms all its words, so it differs if the sentence denies one of them. In
        # "She won a prize but did not travel", the sentence denies a word that the claim lacks.
        return bool(negated_stems(closest_sentence) & self.claim.stem_set)

    @cached_property
    def topic_stems(self) -> set[str]:
        """The stems of the titles of all passages, i.e. the names of their topics."""
        return set().union(*(passage.title_stems for passage in self.passages))

    @cached_property
    def namesakes(self) -> tuple[ParsedPassage, ...]:
        """All passages with a title, one for each, if two of their titles share a word.

        With ``Ada Hill (painter)`` and ``Ada Hill (pilot)`` it is unclear which of them the claim
        is about. Empty if no titles share a word.
        """
        # Several passages of one page have the same title, and are no namesakes.
        passages_by_title = {passage.title: passage for passage in self.passages if passage.title}
        titled_passages = tuple(passages_by_title.values())
        shares_word = any(
            first.title_stems & second.title_stems
            for first, second in combinations(titled_passages, 2)
        )
        return titled_passages if shares_word else ()


def _mentions_name(text: ParsedText, name: tuple[Word, ...]) -> bool:
    """Return whether the words of a name are close together in a text, in any order.

    One more content word may be between them, such as a middle name.

    Example:
        ``Ada Maria Hill lived in Oslo.`` has the name (Ada, Hill).
    """
    name_stems = stems_of(name)
    if not name_stems <= text.stem_set:
        return False

    window_size = len(name) + 1  # with room for a middle name
    return any(
        name_stems <= set(text.stem_sequence[start : start + window_size])
        for start in range(len(text.stem_sequence))
    )


def find_closest_sentence(
    claim: ParsedText, sentences: Sequence[tuple[Word, ...]]
) -> tuple[Word, ...]:
    """Return the sentence that has most content words of a claim, empty if there is none."""
    return max(sentences, key=lambda sentence: len(claim.stem_set & stems_of(sentence)), default=())


def has_negation(words: Sequence[Word]) -> bool:
    """Return whether one of some words negates something, such as "not" or "failed"."""
    return any(word.stem in NEGATIONS for word in words)


def negated_stems(sentence: Sequence[Word]) -> set[str]:
    """Return the stems of the first content word behind each negation in a sentence.

    Example:
        ``She did not win a prize.`` → ``{"win"}``
    """
    stems: set[str] = set()
    follows_negation = False
    for word in sentence:
        if follows_negation and word.is_content:
            stems.add(word.stem)
            follows_negation = False
        # "Failing" is both a content word and a negation.
        if word.stem in NEGATIONS:
            follows_negation = True
    return stems
