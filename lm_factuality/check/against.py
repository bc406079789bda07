"""Compares two systems that answered the same questions."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lm_factuality.check.outputs import claim_object
from lm_factuality.check.results import CheckedAnswer, CheckedClaim, CheckResult
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_lines
from lm_factuality.ground.sentences import words_in
from lm_factuality.scores.intervals import Interval, pooled_difference_interval
from lm_factuality.scores.statistics import none_if_nan, ratio

# Claims of two answers say something about the same thing from this share of common words on.
_MIN_COMMON_WORDS = 0.5
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
class ChangedAnswer:
    """A question to which two systems gave answers with different claims or verdicts."""

    question: str
    """The question, or the id of the answers."""

    first: CheckedAnswer
    """The answer of the first system."""

    second: CheckedAnswer
    """The answer of the second system."""

    claims: tuple[ChangedClaim, ...]
    """The claims that differ, at least one, the worst first."""

    @property
    def difference(self) -> float:
        """The first share of supported claims less the second; 0 if one has no scored claims."""
        if not self.first.num_scored or not self.second.num_scored:
            return 0.0
        return _share([_counts(self.first)]) - _share([_counts(self.second)])


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

    changes: tuple[ChangedAnswer, ...]
    """The questions on which they differ, the largest difference first."""

    @property
    def difference(self) -> float:
        """The first share less the second."""
        return self.first - self.second


def compare_checks(first: CheckResult, second: CheckResult) -> Comparison:
    """Compare two systems by the questions that both answered.

    Answers belong together if their questions are equal, or if they have no questions and the same
    id.

    Raises:
        DataError: The systems share no question.
    """
    second_answers: defaultdict[str, list[CheckedAnswer]] = defaultdict(list)
    for answer in second.answers:
        second_answers[_key(answer)].append(answer)
    pairs = []
    for answer in first.answers:
        # A question that was asked twice has two pairs of answers.
        if second_answers[_key(answer)]:
            pairs.append((answer, second_answers[_key(answer)].pop(0)))
    if not pairs:
        raise DataError(
            "--against: the two files share no question; give answers to the same questions, in a"
            " column named with --columns question=NAME"
        )

    changes = []
    for answer, other in pairs:
        claims = changed_claims(answer.claims, other.claims)
        if claims:
            changes.append(ChangedAnswer(_key(answer), answer, other, tuple(claims)))
    changes.sort(key=lambda change: (-abs(change.difference), change.claims[0].severity))

    first_counts = [_counts(answer) for answer, _ in pairs]
    second_counts = [_counts(other) for _, other in pairs]
    return Comparison(
        num_questions=len(pairs),
        first=_share(first_counts),
        second=_share(second_counts),
        interval=pooled_difference_interval(
            first_counts, second_counts, lambda sums: ratio(sums[0], sums[1])
        ),
        changes=tuple(changes),
    )


def changed_claims(
    first: Sequence[CheckedClaim], second: Sequence[CheckedClaim]
) -> list[ChangedClaim]:
    """Pair the claims of two answers that share most words, and keep those that differ.

    Example:
        ``It opened in 1870.`` (supported) and ``It opened in 1871.`` (contradicted) are a pair.

    Returns:
        The pairs with different verdicts, and the claims that only one answer has, the worst first.
    """
    unpaired_first = dict(enumerate(first))
    unpaired_second = dict(enumerate(second))
    changed = []
    for first_index, second_index in _similar_claims(first, second):
        # A claim is paired with the most similar one that is left.
        if first_index not in unpaired_first or second_index not in unpaired_second:
            continue
        pair = ChangedClaim(unpaired_first.pop(first_index), unpaired_second.pop(second_index))
        if len({claim.verdict for claim in pair.claims}) > 1:
            changed.append(pair)
    changed += [ChangedClaim(claim, None) for claim in unpaired_first.values()]
    changed += [ChangedClaim(None, claim) for claim in unpaired_second.values()]
    return sorted(changed, key=lambda change: change.severity)


def _similar_claims(
    first: Sequence[CheckedClaim], second: Sequence[CheckedClaim]
) -> list[tuple[int, int]]:
    """Return the indices of each two claims that share at least half of their words.

    Returns:
        Pairs of an index in ``first`` and one in ``second``, the most similar claims first.
    """
    first_words = [frozenset(words_in(claim.text.lower())) for claim in first]
    second_words = [frozenset(words_in(claim.text.lower())) for claim in second]
    share_by_pair: dict[tuple[int, int], float] = {}
    for first_index, words in enumerate(first_words):
        for second_index, other_words in enumerate(second_words):
            share = ratio(len(words & other_words), len(words | other_words))
            if share >= _MIN_COMMON_WORDS:
                share_by_pair[first_index, second_index] = share
    # Sorting keeps the order of pairs that are equally similar.
    return sorted(share_by_pair, key=lambda pair: -share_by_pair[pair])


def write_changes(comparison: Comparison, path: Path) -> None:
    """Write the claims that differ as JSON Lines: ``question``, ``first`` and ``second``.

    ``first`` and ``second`` are claims as in ``claims.jsonl``, or null.
    """
    rows = []
    for change in comparison.changes:
        for pair in change.claims:
            first, second = (None if claim is None else claim_object(claim) for claim in pair)
            rows.append({"question": change.question, "first": first, "second": second})
    write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


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


def _key(answer: CheckedAnswer) -> str:
    """Return the text by which answers of two systems belong together."""
    return answer.question.strip() or answer.id


def _counts(answer: CheckedAnswer) -> tuple[int, int]:
    """Return the number of supported and of scored claims."""
    return answer.counts()["supported"], answer.num_scored


def _share(counts: list[tuple[int, int]]) -> float:
    """Return the share of supported claims."""
    return ratio(sum(supported for supported, _ in counts), sum(scored for _, scored in counts))
