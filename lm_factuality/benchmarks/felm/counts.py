"""From verdicts to scores (section 4.1 of the paper): how well errors are found, by segment and by response.

The positive class is *has an error*. A response has one if any of its segments has. Counts are pooled over responses, never
averaged. A response without a verdict is in no count; ``best`` and ``worst`` are the counts if all of them were judged rightly,
or all wrongly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("segment", "response")
SCORES = ("precision", "recall", "f1", "balanced_accuracy")


@dataclass(frozen=True)
class JudgedResponse:
    """``errors`` says of each segment whether it holds an error, ``flagged`` whether the judge says so; if ``flagged`` is
    None, ``reason`` says why."""

    index: str
    domain: str
    errors: tuple[bool, ...]
    flagged: tuple[bool, ...] | None
    reason: str | None = None


@dataclass(frozen=True)
class Counts:
    """Of segments or responses: errors found, false alarms, errors missed, and the rest."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn, self.tn + other.tn)

    @property
    def precision(self) -> float:
        """Of what was flagged, the share that holds an error; NaN if nothing was flagged."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """Of what holds an error, the share that was flagged; NaN if nothing does."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where errors exist and none was found, NaN where there are none and none
        was flagged."""
        if not self.tp:
            return 0.0 if self.fp or self.fn else math.nan
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of both classes (Brodersen et al. 2010); NaN if one of them is empty."""
        return (self.recall + _ratio(self.tn, self.tn + self.fp)) / 2


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def count(errors: Sequence[bool], flagged: Sequence[bool]) -> Counts:
    """Both have one entry a unit."""
    pairs = list(zip(errors, flagged, strict=True))
    return Counts(*(pairs.count(kind) for kind in ((True, True), (False, True), (True, False), (False, False))))


def count_response(response: JudgedResponse, level: str) -> Counts:
    """The counts of one response; zeros if it has no verdict."""
    if response.flagged is None:
        return Counts()
    return _at(level, response.errors, response.flagged)


def _at(level: str, errors: Sequence[bool], flagged: Sequence[bool]) -> Counts:
    return count(errors, flagged) if level == "segment" else count([any(errors)], [any(flagged)])


def pool(responses: Iterable[JudgedResponse], level: str) -> Counts:
    """The counts of all responses together."""
    return sum((count_response(response, level) for response in responses), Counts())


def bounds(responses: Iterable[JudgedResponse], level: str) -> tuple[Counts, Counts]:
    """(worst, best): the pooled counts if every response without a verdict were judged wrongly throughout, or rightly."""
    worst, best = Counts(), Counts()
    for response in responses:
        scored = response.flagged is not None
        worst += count_response(response, level) if scored else _at_worst(level, response.errors)
        best += count_response(response, level) if scored else _at(level, response.errors, response.errors)
    return worst, best


def _at_worst(level: str, errors: Sequence[bool]) -> Counts:
    if level == "segment":
        return count(errors, [not error for error in errors])
    return count([any(errors)], [not any(errors)])


ALL = "ALL"


def to_report(responses: Sequence[JudgedResponse], protocol: str) -> dict[str, Any]:
    """``{"ALL" or a domain: {"segment" or "response": {tp, fp, fn, tn, precision, recall, f1, balanced_accuracy}}}``, and under
    ``unscored`` how many responses and segments are in none of these counts, why, and the scores at worst and at best."""
    domains = sorted({response.domain for response in responses})
    report: dict[str, Any] = {}
    for name in (ALL, *domains):
        members = [response for response in responses if name in (ALL, response.domain)]
        report[name] = {level: to_scores(pool(members, level)) for level in LEVELS}
    unscored = [response for response in responses if response.flagged is None]
    limits = {level: bounds(responses, level) for level in LEVELS}
    report["unscored"] = {
        "responses": len(unscored),
        "segments": sum(len(response.errors) for response in unscored),
        "reasons": dict(Counter(response.reason or "" for response in unscored).most_common()),
        "domains": {domain: sum(response.domain == domain for response in unscored) for domain in domains},
        "worst": {level: to_scores(worst) for level, (worst, _) in limits.items()},
        "best": {level: to_scores(best) for level, (_, best) in limits.items()},
        "protocol": protocol,
    }
    return report


def to_scores(counts: Counts) -> dict[str, float | int | None]:
    """Counts and scores; None for a score that is not defined."""
    values = {name: float(getattr(counts, name)) for name in SCORES}
    return {**asdict(counts), **{name: None if math.isnan(value) else value for name, value in values.items()}}
