"""Compares two systems that answered the same questions."""

from dataclasses import dataclass

from lm_factuality.check.results import CheckedAnswer, CheckResult
from lm_factuality.ground.errors import DataError
from lm_factuality.scores.intervals import Interval, pooled_difference_interval
from lm_factuality.scores.statistics import ratio


@dataclass(frozen=True)
class ChangedAnswer:
    """A question to which two systems gave differently supported answers."""

    question: str
    """The question, or the id of the answers."""

    first: str
    """How many claims of the first system's answer are supported, such as ``3 of 4``."""

    second: str
    """The same for the second system."""


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
    second_answers = {_key(answer): answer for answer in second.answers}
    pairs = []
    for answer in first.answers:
        other = second_answers.get(_key(answer))
        if other is not None:
            pairs.append((answer, other))
    if not pairs:
        raise DataError(
            "--against: the two files share no question; give answers to the same questions, in a"
            " column named with --columns question=NAME"
        )

    first_counts = [_counts(answer) for answer, _ in pairs]
    second_counts = [_counts(other) for _, other in pairs]
    changes = []
    for (answer, _), counts, other_counts in zip(pairs, first_counts, second_counts, strict=True):
        supported, scored = counts
        other_supported, other_scored = other_counts
        # An answer without scored claims has no share, such as a refusal.
        if not scored or not other_scored:
            continue
        change = supported / scored - other_supported / other_scored
        if change:
            text = f"{supported} of {scored}"
            other_text = f"{other_supported} of {other_scored}"
            changes.append((abs(change), ChangedAnswer(_key(answer), text, other_text)))
    changes.sort(key=lambda change: change[0], reverse=True)
    return Comparison(
        num_questions=len(pairs),
        first=_share(first_counts),
        second=_share(second_counts),
        interval=pooled_difference_interval(
            first_counts, second_counts, lambda sums: ratio(sums[0], sums[1])
        ),
        changes=tuple(change for _, change in changes),
    )


def _key(answer: CheckedAnswer) -> str:
    """Return the text by which answers of two systems belong together."""
    return answer.question.strip() or answer.id


def _counts(answer: CheckedAnswer) -> tuple[int, int]:
    """Return the number of supported and of scored claims."""
    return answer.counts()["supported"], answer.num_scored


def _share(counts: list[tuple[int, int]]) -> float:
    """Return the share of supported claims."""
    return ratio(sum(supported for supported, _ in counts), sum(scored for _, scored in counts))
