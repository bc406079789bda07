"""Compares two systems that answered the same questions."""

import json
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lm_factuality.check.outputs import claim_object
from lm_factuality.check.results import CheckedAnswer, CheckedClaim, CheckResult
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_lines
from lm_factuality.ground.sentences import words_in
from lm_factuality.scores.intervals import Interval, pooled_difference_interval
from lm_factuality.scores.statistics import none_if_nan, ratio

# Claims of two answers say something about the same thing from this share of common words on.
_MIN_SIMILARITY = 0.5
# Contradicted claims come first.
_SEVERITY = ("contradicted", "not_found", "unscored", "supported")


class ChangedClaim(NamedTuple):
    """What two answers to a question say about the same thing, with different verdicts."""

    first: CheckedClaim | None
    """The claim of the first system. None if it says nothing about this."""

    second: CheckedClaim | None
    """The claim of the second system, or None."""

    @property
    def claims(self) -> list[CheckedClaim]:
        """The one or two claims."""
        return [claim for claim in self if claim is not None]

    @property
    def severity(self) -> tuple[int, int]:
        """The place in the order: by the worse verdict, pairs first."""
        worst = min(_SEVERITY.index(claim.verdict) for claim in self.claims)
        return worst, -len(self.claims)


@dataclass(frozen=True)
class AnswerPair:
    """The answers of two systems to one question."""

    question: str
    """The question, or the id of the answers."""

    first: CheckedAnswer
    """The answer of the first system."""

    second: CheckedAnswer
    """The answer of the second system."""

    claims: tuple[ChangedClaim, ...]
    """The claims that differ, the worst first. Empty if the answers agree."""

    @property
    def difference(self) -> float:
        """The first share of supported claims less the second; 0 if one has no scored claims."""
        difference = _share_supported(_counts(self.first)) - _share_supported(_counts(self.second))
        return 0.0 if math.isnan(difference) else difference

    @property
    def sort_key(self) -> tuple[float, tuple[int, int]]:
        """The place in the order: the largest difference first, then the worst change.

        Only a pair with claims that differ has a place.
        """
        return -abs(self.difference), self.claims[0].severity


@dataclass(frozen=True)
class Comparison:
    """The difference between two systems in the share of supported claims."""

    num_questions: int
    """The number of questions that both answered."""

    first: float
    """The share of the first system's claims that are supported."""

    second: float
    """The same for the second system."""

    interval: Interval | None
    """The 95% interval of first less second. The claims of one question are a cluster."""

    changes: tuple[AnswerPair, ...]
    """The questions on which they differ, the largest difference first."""

    @property
    def difference(self) -> float:
        """The first share less the second."""
        return self.first - self.second


def compare_checks(first: CheckResult, second: CheckResult) -> Comparison:
    """Compare two systems by the questions that both answered.

    Raises:
        DataError: The systems share no question.
    """
    pairs = _pair_answers(first.answers, second.answers)
    if not pairs:
        raise DataError(
            "--against: the two files share no question; give answers to the same questions, in a"
            " column named with --columns question=NAME"
        )
    changed_pairs = [pair for pair in pairs if pair.claims]
    # The rows are the answers, and the columns are the supported and the scored claims.
    first_counts = [_counts(pair.first) for pair in pairs]
    second_counts = [_counts(pair.second) for pair in pairs]
    return Comparison(
        num_questions=len(pairs),
        first=_share_supported(np.sum(first_counts, axis=0).tolist()),
        second=_share_supported(np.sum(second_counts, axis=0).tolist()),
        interval=pooled_difference_interval(first_counts, second_counts, _share_supported),
        changes=tuple(sorted(changed_pairs, key=lambda pair: pair.sort_key)),
    )


def _pair_answers(
    first: Sequence[CheckedAnswer], second: Sequence[CheckedAnswer]
) -> list[AnswerPair]:
    """Pair the answers of two systems to the same question.

    Answers without a question are paired by their ids. If both systems answered a question twice,
    their first answers are a pair, and so are their second ones.
    """
    remaining: defaultdict[str, deque[CheckedAnswer]] = defaultdict(deque)
    for answer in second:
        remaining[_question_or_id(answer)].append(answer)

    pairs = []
    for first_answer in first:
        question = _question_or_id(first_answer)
        if not remaining[question]:
            continue
        second_answer = remaining[question].popleft()
        claims = changed_claims(first_answer.claims, second_answer.claims)
        pairs.append(AnswerPair(question, first_answer, second_answer, tuple(claims)))
    return pairs


def changed_claims(
    first: Sequence[CheckedClaim], second: Sequence[CheckedClaim]
) -> list[ChangedClaim]:
    """Find the claims in which two answers to a question differ.

    Claims that share most of their words are about the same thing and form a pair.

    Example:
        ``It opened in 1870.`` (supported) and ``It opened in 1871.`` (contradicted) are a pair.

    Returns:
        The pairs with different verdicts, and the claims that only one answer has, the worst first.
    """
    # Claims can be equal, so they are told apart by their index.
    pairs = _pair_similar_claims(first, second)
    only_in_first = set(range(len(first))).difference(pair.first for pair in pairs)
    only_in_second = set(range(len(second))).difference(pair.second for pair in pairs)
    changed = []
    for pair in pairs:
        if first[pair.first].verdict != second[pair.second].verdict:
            changed.append(ChangedClaim(first[pair.first], second[pair.second]))
    changed += [ChangedClaim(first[index], None) for index in sorted(only_in_first)]
    changed += [ChangedClaim(None, second[index]) for index in sorted(only_in_second)]
    return sorted(changed, key=lambda change: change.severity)


class _SimilarClaims(NamedTuple):
    """Two claims that share at least half of their words."""

    similarity: float
    """The number of words that both have, divided by the number of words that either has."""

    first: int
    """The place of the first answer's claim in that answer, from 0."""

    second: int
    """The place of the second answer's claim."""


def _pair_similar_claims(
    first: Sequence[CheckedClaim], second: Sequence[CheckedClaim]
) -> list[_SimilarClaims]:
    """Pair the claims of two answers that are about the same thing, the most similar ones first.

    Each claim is in one pair at most, that with the most similar claim that is left.
    """
    pairs = []
    paired_first = set()
    paired_second = set()
    for similar in _similar_claims(first, second):
        if similar.first in paired_first or similar.second in paired_second:
            continue
        paired_first.add(similar.first)
        paired_second.add(similar.second)
        pairs.append(similar)
    return pairs


def _similar_claims(
    first: Sequence[CheckedClaim], second: Sequence[CheckedClaim]
) -> list[_SimilarClaims]:
    """Compare each claim of an answer with each of another answer, and return the similar pairs.

    The most similar claims come first.
    """
    words_of_second = [set(words_in(claim.text.lower())) for claim in second]
    similar = []
    for first_index, claim in enumerate(first):
        words = set(words_in(claim.text.lower()))
        for second_index, other_words in enumerate(words_of_second):
            similarity = ratio(len(words & other_words), len(words | other_words))
            if similarity >= _MIN_SIMILARITY:
                similar.append(_SimilarClaims(similarity, first_index, second_index))
    return sorted(similar, key=lambda claims: claims.similarity, reverse=True)


def write_changes(comparison: Comparison, path: Path) -> None:
    """Write the claims that differ to a JSON Lines file.

    Example:
        ``{"question": "When did it open?", "first": {"claim": ...}, "second": null}`` is a claim
        that only the first system made. Claims are written as in ``claims.jsonl``.
    """
    lines = []
    for answer_pair in comparison.changes:
        for change in answer_pair.claims:
            row = {
                "question": answer_pair.question,
                "first": None if change.first is None else claim_object(change.first),
                "second": None if change.second is None else claim_object(change.second),
            }
            lines.append(json.dumps(row, ensure_ascii=False))
    write_lines(path, lines)


def summarise_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the figures of a comparison, for ``summary.json``."""
    return {
        "questions": comparison.num_questions,
        "questions_with_changes": len(comparison.changes),
        "first": none_if_nan(comparison.first),
        "second": none_if_nan(comparison.second),
        "difference": none_if_nan(comparison.difference),
        "interval": comparison.interval,
    }


def _question_or_id(answer: CheckedAnswer) -> str:
    """Return the question of an answer, or its id if it has no question."""
    return answer.question.strip() or answer.id


def _counts(answer: CheckedAnswer) -> tuple[int, int]:
    """Return the numbers of supported and of scored claims, such as ``(3, 4)``."""
    return answer.num_supported, answer.num_scored


def _share_supported(counts: Sequence[float]) -> float:
    """Return the share of supported claims, given the numbers of supported and scored claims."""
    num_supported, num_scored = counts
    return ratio(num_supported, num_scored)
