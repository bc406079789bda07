"""Rules that tell a contradicted claim from one that the passages do not mention.

A sentence of a passage contradicts a claim if it says the same with another number, date, name or
unit, with the opposite word, or with a negation too many or too few. `judges.lexical.verdicts`
asks for it. The rules prefer to miss a contradiction, because the claim is then not found. Other
words in one place are no contradiction, since they may mean the same, but they are a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import product
from typing import NamedTuple

from judges.lexical.comparison import find_closest_sentence, has_negation, negated_stems
from judges.lexical.words import (
    NEGATIONS,
    ParsedPassage,
    Word,
    content_stems_of,
    join_words,
    parse_text,
    stems_of,
)
from lm_factuality.ground.packages import load_yaml

_LISTS = load_yaml(__package__, "antonyms.yaml")


def _stems(line: str) -> frozenset[str]:
    """Return the stems of the words in a line of the lists: ``weeks months`` → week, month."""
    # A capital within a sentence keeps "May" from being the verb.
    words = parse_text("list " + line.title()).words[1:]
    return frozenset(stems_of(words))


_ANTONYMS = frozenset(_stems(line) for line in _LISTS["antonyms"])
_UNITS = tuple(_stems(line) for line in _LISTS["units"])
_MONTHS = _stems(_LISTS["months"])
_WEEKDAYS = _stems(_LISTS["weekdays"])
_ORDINALS = _stems(_LISTS["ordinals"])
_PRONOUNS = tuple(frozenset(line.split()) for line in _LISTS["pronouns"])
_DENYING_PREFIXES = frozenset(_LISTS["denying_prefixes"].split())
_YEAR = re.compile(r"1[0-9]{3}|20[0-9]{2}")

# "In" and "inform" are no opposites, so the word that a prefix denies has a few letters.
_MIN_DENIED_LETTERS = 4

# The share of the claim's other content words that a sentence needs to be about the same thing.
_MIN_SHARE = 0.7

# A sentence that shares fewer words than this with a claim may be about anything.
_MIN_SHARED_WORDS = 2

# The share of the sentence's other content words that the claim needs. A long sentence of a report
# has many numbers, of which only one is about the claim.
_MIN_SHARE_OF_SENTENCE = 0.5

# Negated words are compared in sentences that are almost the same.
_MIN_SHARE_OF_NEGATION = 0.8

# "She died there in 1812" may mean anybody, so only a sentence with all other words contradicts it.
_MIN_SHARE_WITH_PRONOUN = 1.0

# The share of the claim's words that a sentence has in the same order if it says the same with
# other words in one place.
_MIN_SHARE_IN_ORDER = 0.75


@dataclass(frozen=True)
class Contradiction:
    """A sentence of a passage that says something else than a claim."""

    passage: int
    """The index of the passage."""

    deciding_words: tuple[str, ...]
    """The words of the sentence that differ, as they are written there."""

    reason: str
    """The difference in words, such as ``the passage has 1870 where the claim has 1871``."""


class _Difference(NamedTuple):
    """What a sentence has in place of words of a claim."""

    kind: str
    """The kind of the words, such as ``number``."""

    claim_words: tuple[Word, ...]
    """The words of the claim. Empty if the sentence has a negation too many."""

    sentence_words: tuple[Word, ...]
    """The words of the sentence. Empty if the sentence has a negation too few."""

    @property
    def description(self) -> str:
        """The words of both, such as ``the passage has 1870 where the claim has 1871``."""
        sentence_text = join_words(self.sentence_words)
        return f"the passage has {sentence_text} where the claim has {join_words(self.claim_words)}"


@dataclass(frozen=True)
class _Alignment:
    """A claim and the sentence of a passage that it is compared with."""

    claim: tuple[Word, ...]
    """All words of the claim."""

    sentence: tuple[Word, ...]
    """All words of the sentence."""

    title_stems: frozenset[str]
    """The stems of the passage's title.

    A claim may call its subject by this name where the sentence has "it", so that a word of the
    title counts as one that the sentence has.
    """

    @cached_property
    def shared_stems(self) -> set[str]:
        """The stems of the claim's content words that the sentence or the title has."""
        return content_stems_of(self.claim) & (content_stems_of(self.sentence) | self.title_stems)

    @cached_property
    def claim_only(self) -> tuple[Word, ...]:
        """The words of the claim that neither the sentence nor the title has."""
        stems = stems_of(self.sentence) | self.title_stems
        return tuple(word for word in self.claim if word.stem not in stems)

    @cached_property
    def sentence_only(self) -> tuple[Word, ...]:
        """The words of the sentence that neither the claim nor the title has."""
        stems = stems_of(self.claim) | self.title_stems
        return tuple(word for word in self.sentence if word.stem not in stems)

    @property
    def states_claim(self) -> bool:
        """Whether the sentence or the title has all content words of the claim."""
        return not any(word.is_content for word in self.claim_only)

    def share_of_claim(self, left_out: Sequence[Word]) -> float:
        """Return the share of the claim's content words that the sentence or the title has.

        Some words are left out, since the sentence has others for them. A single shared word does
        not count.
        """
        claim_stems = content_stems_of(self.claim) - stems_of(left_out)
        num_shared = len(claim_stems & self.shared_stems)
        return num_shared / len(claim_stems) if num_shared >= _MIN_SHARED_WORDS else 0.0

    def covers_sentence(self, left_out: Sequence[Word]) -> bool:
        """Return whether the claim has half of the sentence's content words, some left out."""
        sentence_stems = content_stems_of(self.sentence) - stems_of(left_out)
        num_shared = len(sentence_stems & stems_of(self.claim))
        return num_shared >= _MIN_SHARE_OF_SENTENCE * len(sentence_stems)


class _Candidate(NamedTuple):
    """A sentence that may contradict a claim."""

    share: float
    """The share of the claim's words that the sentence or the title has."""

    passage: int
    """The index of the passage with the sentence."""

    difference: _Difference
    """The words in which the sentence differs from the claim."""


def find_contradiction(claim: str, passages: Sequence[ParsedPassage]) -> Contradiction | None:
    """Find the sentence of some passages that contradicts a claim.

    If several do, it is the one that shares most of the claim's words. A claim that a sentence
    states, because it has all content words and the same negations, is not contradicted at all.

    Example:
        ``The bridge opened in 1871.`` and the passage ``The bridge opened in 1870.`` → the deciding
        word ``1870``

    Args:
        claim: The claim.
        passages: The passages.

    Returns:
        The contradiction, None if there is none.
    """
    claim_words = parse_text(claim).words
    candidates = []
    for index, passage in enumerate(passages):
        for sentence in passage.parsed_text.sentences:
            alignment = _Alignment(claim_words, sentence, passage.title_stems)
            difference = _find_difference(alignment)
            if difference is None and alignment.states_claim:
                return None
            if difference is not None and alignment.covers_sentence(difference.sentence_words):
                share = alignment.share_of_claim(difference.claim_words)
                candidates.append(_Candidate(share, index, difference))
    if not candidates:
        return None
    # Of equal shares, `max` takes the first.
    best = max(candidates, key=lambda candidate: candidate.share)
    return _to_contradiction(best.passage, best.difference)


def _find_difference(alignment: _Alignment) -> _Difference | None:
    """Find words in which a sentence differs from a claim about the same thing.

    Example:
        ``The bridge opened in 1871`` and ``The bridge opened in 1870`` → 1871 and 1870

    Returns:
        The difference that the first rule finds. None if the sentence is about something else, or
        differs in words that no rule is about.
    """
    # Most sentences share too little with the claim for any rule.
    if len(alignment.shared_stems) < _MIN_SHARED_WORDS:
        return None
    for rule in _RULES:
        difference = rule(alignment)
        if difference is not None and _is_about_same_thing(alignment, difference):
            return difference
    return None


def _is_about_same_thing(alignment: _Alignment, difference: _Difference) -> bool:
    """Return whether claim and sentence are so similar that a difference contradicts the claim."""
    if alignment.share_of_claim(difference.claim_words) < _required_share(alignment, difference):
        return False
    # If other names or numbers differ too, the sentence is about something else.
    if _has_other_details(alignment, difference):
        return False
    # A sentence about a man says nothing about a woman. But "he" and "she" may also be the opposite
    # words in which the sentence contradicts the claim.
    if difference.kind == "opposite":
        return True
    return not _is_about_other_sex(alignment)


def _required_share(alignment: _Alignment, difference: _Difference) -> float:
    """Return the share of the claim's words that a sentence needs to be about the same thing."""
    has_pronoun = bool(_sexes(alignment.claim))
    names_topic = bool(stems_of(alignment.claim) & alignment.title_stems)
    # "She died in 1812" does not say whether it is about the topic of the passage.
    if has_pronoun and not names_topic:
        return _MIN_SHARE_WITH_PRONOUN
    return _MIN_SHARE_OF_NEGATION if difference.kind == "negation" else _MIN_SHARE


def _has_other_details(alignment: _Alignment, difference: _Difference) -> bool:
    """Return whether the sentence lacks another name or number of the claim."""
    known_stems = stems_of(difference.claim_words)
    return any(
        word.stem not in known_stems and (word.is_name or _is_number(word))
        for word in alignment.claim_only
    )


def _is_about_other_sex(alignment: _Alignment) -> bool:
    """Return whether the claim has only pronouns of one sex, and the sentence of the other."""
    claim_sexes = _sexes(alignment.claim)
    sentence_sexes = _sexes(alignment.sentence)
    return len(claim_sexes) == len(sentence_sexes) == 1 and claim_sexes != sentence_sexes


def _sexes(words: Sequence[Word]) -> list[int]:
    """Return the sexes of the pronouns among some words: 0 for ``he``, 1 for ``her``."""
    stems = stems_of(words)
    return [sex for sex, pronouns in enumerate(_PRONOUNS) if stems & pronouns]


def _to_contradiction(passage: int, difference: _Difference) -> Contradiction:
    """Explain how a sentence contradicts the claim.

    Example:
        ``number differs: the passage has 1870 where the claim has 1871``

    Args:
        passage: The index of the passage with the sentence.
        difference: The words that differ.
    """
    sentence_text = join_words(difference.sentence_words)
    match difference.kind:
        case "order":
            # "Abel beat Vale", for the claim "Vale beat Abel"
            reason = f"the passage has {sentence_text} in this order"
        case "negation" if difference.claim_words:
            # "Ada visited Oslo", for the claim "Ada never visited Oslo"
            reason = f"the claim denies it: {join_words(difference.claim_words)}"
        case "negation":
            # "Ada never visited Oslo", for the claim "Ada visited Oslo"
            reason = f"the passage denies it: {sentence_text}"
        case _:
            reason = difference.description
    deciding_words = tuple(word.text for word in difference.sentence_words)
    return Contradiction(passage, deciding_words, f"{difference.kind} differs: {reason}")


def find_doubt(claim: str, passage: ParsedPassage) -> str:
    """Find what keeps the closest sentence of a passage from supporting a claim.

    Example:
        ``Abel criticised the newspaper of Aarby.`` and the passage ``Abel supported the newspaper
        of Aarby.`` → ``the passage has supported where the claim has criticised``

    Args:
        claim: A claim of which the passage has most words.
        passage: The passage.

    Returns:
        The reason in words. Empty if there is none.
    """
    parsed_claim = parse_text(claim)
    closest_sentence = find_closest_sentence(parsed_claim, passage.parsed_text.sentences)
    alignment = _Alignment(parsed_claim.words, closest_sentence, passage.title_stems)
    if _is_about_other_sex(alignment):
        return "the closest sentence is about somebody else"

    passage_stems = passage.parsed_text.stem_set | passage.title_stems
    for word in parsed_claim.words:
        # "One" is often no count, as in "one of the towns".
        is_count = _is_number(word) and word.stem != "1"
        if is_count and word.stem not in passage_stems:
            return f"the passage does not have the number {word.text}"

    difference = _opposite_words(alignment) or _replaced_words(alignment)
    return "" if difference is None else difference.description


def _replaced_words(alignment: _Alignment) -> _Difference | None:
    """Find words of a claim that are replaced by other words in a sentence that is otherwise equal.

    Example:
        ``Abel criticised the newspaper`` and ``Abel supported the newspaper`` → ``criticised`` and
        ``supported``

    Returns:
        The words of both. None if less than 75% of the claim's words are in the sentence in the
        same order, or if the sentence only leaves words out.
    """
    claim_stems = [word.stem for word in alignment.claim]
    sentence_stems = [word.stem for word in alignment.sentence]
    matcher = SequenceMatcher(None, claim_stems, sentence_stems, autojunk=False)
    num_equal = sum(block.size for block in matcher.get_matching_blocks())
    if num_equal < _MIN_SHARE_IN_ORDER * len(claim_stems):
        return None

    missing_words = {word for word in alignment.claim_only if word.is_content}
    for change, start, end, sentence_start, sentence_end in matcher.get_opcodes():
        if change != "replace":
            continue
        claim_words = alignment.claim[start:end]
        sentence_words = alignment.sentence[sentence_start:sentence_end]
        # More words in the place of a word may explain the word, and not contradict it.
        is_explanation = len(sentence_words) > len(claim_words)
        if missing_words.intersection(claim_words) and not is_explanation:
            return _Difference("words", claim_words, sentence_words)
    return None


def _different_numbers(alignment: _Alignment) -> _Difference | None:
    """Find a number of the claim for which the sentence has another one in the same place.

    Example:
        ``The bridge opened in 1871`` and ``The bridge opened in 1870`` → 1871 and 1870
    """
    claim_numbers = filter(_is_number, alignment.claim_only)
    sentence_numbers = filter(_is_number, alignment.sentence_only)
    for claim_word, sentence_word in product(claim_numbers, sentence_numbers):
        # "In 1870" is no other value for "in 20 years".
        is_same_kind = _is_year(claim_word) == _is_year(sentence_word)
        if is_same_kind and _share_neighbour(alignment, claim_word, sentence_word):
            return _Difference("number", (claim_word,), (sentence_word,))
    return None


def _different_listed_words(
    kind: str, lists: Sequence[frozenset[str]], alignment: _Alignment
) -> _Difference | None:
    """Find a word of the claim for which the sentence has another one of the same list.

    Example:
        In the list of months: ``It opened in May`` and ``It opened in June`` → ``May`` and ``June``
    """
    for claim_word, sentence_word in product(alignment.claim_only, alignment.sentence_only):
        if any({claim_word.stem, sentence_word.stem} <= stems for stems in lists):
            return _Difference(kind, (claim_word,), (sentence_word,))
    return None


def _different_negation(alignment: _Alignment) -> _Difference | None:
    """Find a word of both that just the claim or just the sentence negates.

    Example:
        ``Ada visited Oslo`` and ``Ada never visited Oslo`` → ``never visited``
    """
    is_claim_negated = has_negation(alignment.claim)
    # "Managers cannot refuse it" and "no manager may refuse it" negate different words.
    if is_claim_negated == has_negation(alignment.sentence):
        return None
    return _negation_in_claim(alignment) if is_claim_negated else _negation_in_sentence(alignment)


def _negation_in_claim(alignment: _Alignment) -> _Difference | None:
    """Find a word that the claim negates, and the same word in the sentence.

    Example:
        ``Ada never visited Oslo`` and ``Ada visited Oslo`` → ``visited`` and ``visited``
    """
    negated = negated_stems(alignment.claim) & alignment.shared_stems
    for word in alignment.claim:
        if word.stem in negated:
            same_words = [same for same in alignment.sentence if same.stem == word.stem]
            return _Difference("negation", (word,), tuple(same_words[:1]))
    return None


def _negation_in_sentence(alignment: _Alignment) -> _Difference | None:
    """Find a word of the claim that the sentence negates, and the negation before it.

    Example:
        ``Ada visited Oslo`` and ``Ada never visited Oslo`` → ``never visited``
    """
    negated = negated_stems(alignment.sentence) & alignment.shared_stems
    last_negation: tuple[Word, ...] = ()
    for word in alignment.sentence:
        if word.stem in negated:
            return _Difference("negation", (), (*last_negation, word))
        if word.stem in NEGATIONS:
            last_negation = (word,)
    return None


def _opposite_words(alignment: _Alignment) -> _Difference | None:
    """Find a word of the claim, such as "rise", for which the sentence has the opposite, "fall"."""
    for claim_word, sentence_word in product(alignment.claim_only, alignment.sentence_only):
        if _are_opposite(claim_word, sentence_word):
            return _Difference("opposite", (claim_word,), (sentence_word,))
    return None


def _different_names(alignment: _Alignment) -> _Difference | None:
    """Find the names that only the claim or only the sentence has, if two share a neighbour.

    Example:
        ``Ada Hill sang in Oslo`` and ``Ada Hill sang in Rome`` → ``Oslo`` and ``Rome``, which both
        stand after ``in``
    """
    claim_names = tuple(filter(_is_name, alignment.claim_only))
    sentence_names = tuple(filter(_is_name, alignment.sentence_only))
    # One pair in the same place is enough, since a name may have several words.
    for claim_name, sentence_name in product(claim_names, sentence_names):
        if _share_neighbour(alignment, claim_name, sentence_name):
            return _Difference("name", claim_names, sentence_names)
    return None


def _different_order(alignment: _Alignment) -> _Difference | None:
    """Find names that have changed places in sentences that are otherwise equal.

    Example:
        ``Vale beat Abel`` and ``Abel beat Vale`` → ``Abel`` and ``Vale``
    """
    claim_stems = [word.stem for word in alignment.claim]
    sentence_stems = [word.stem for word in alignment.sentence]
    if sorted(claim_stems) != sorted(sentence_stems):
        return None

    moved_words = []
    for word, claim_stem in zip(alignment.sentence, claim_stems, strict=True):
        if word.stem != claim_stem:
            moved_words.append(word)
    # The first word of a sentence does not show whether it is a name, but elsewhere it does.
    name_stems = stems_of(filter(_is_name, alignment.claim + alignment.sentence))
    # In "In Lisbon Vale won" and "Vale won in Lisbon", other words have moved too.
    if not moved_words or not stems_of(moved_words) <= name_stems:
        return None
    return _Difference("order", (), tuple(moved_words))


# The rules, in the order in which they are tried.
_RULES: Sequence[Callable[[_Alignment], _Difference | None]] = (
    _different_numbers,
    partial(_different_listed_words, "date", (_MONTHS, _WEEKDAYS)),
    partial(_different_listed_words, "unit", _UNITS),
    _different_negation,
    _opposite_words,
    _different_names,
    _different_order,
)


def _share_neighbour(alignment: _Alignment, claim_word: Word, sentence_word: Word) -> bool:
    """Return whether a word of the claim and one of the sentence stand next to the same word.

    That is the word before both or the word behind both. Two words that both begin, or both end,
    claim and sentence stand in the same place too.
    """
    claim_before, claim_behind = _neighbours(alignment.claim, claim_word)
    sentence_before, sentence_behind = _neighbours(alignment.sentence, sentence_word)
    return claim_before == sentence_before or claim_behind == sentence_behind


def _neighbours(words: Sequence[Word], word: Word) -> tuple[str, str]:
    """Return the stems before and behind the first occurrence of a word, empty at the ends."""
    index = words.index(word)
    before = words[index - 1].stem if index > 0 else ""
    behind = words[index + 1].stem if index + 1 < len(words) else ""
    return before, behind


def _are_opposite(first: Word, second: Word) -> bool:
    """Return whether two words are a listed pair, or one denies the other, as "unsafe" does."""
    if frozenset((first.stem, second.stem)) in _ANTONYMS:
        return True
    # Stems may end differently, such as "saf" and "unsafe".
    short, long = sorted((first.text.lower(), second.text.lower()), key=len)
    return len(short) >= _MIN_DENIED_LETTERS and long.removesuffix(short) in _DENYING_PREFIXES


def _is_number(word: Word) -> bool:
    """Return whether a word is a number or an ordinal, such as "third"."""
    return word.is_number or word.stem in _ORDINALS


def _is_year(word: Word) -> bool:
    """Return whether a word looks like a year, such as 1870."""
    return _YEAR.fullmatch(word.stem) is not None


def _is_name(word: Word) -> bool:
    """Return whether a word is part of a name that is no month or day of the week."""
    return word.is_name and word.stem not in _MONTHS | _WEEKDAYS
