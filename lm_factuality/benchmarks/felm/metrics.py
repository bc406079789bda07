"""From verdicts to scores (section 4.1 of the paper): how well errors are found, by segment and by
response.

The positive class is *has an error*. A response has one if any of its segments has. Counts are
pooled over responses, never averaged. A response without a verdict is in no count; ``best`` and
``worst`` are the counts if all of them were judged rightly, or all wrongly."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from judges.answers import Answer
from lm_factuality.benchmarks.declaration import (
    BALANCED_ACCURACY,
    F1,
    PRECISION,
    RECALL,
    Score,
    bounds_of,
)
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.scores.statistics import TOTAL, Aggregation, defined, how_many, pooled, ratio

LEVELS = ("segment", "response")
ALL = "ALL"


class DetectionCounts(NamedTuple):
    """Of segments or responses: errors found, false alarms, errors missed, and the rest."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    @property
    def precision(self) -> float:
        """Of what was flagged, the share that holds an error; NaN if nothing was flagged."""
        return ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """Of what holds an error, the share that was flagged; NaN if nothing does."""
        return ratio(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if errors exist and none was found, NaN if none
        exists or was flagged."""
        if not self.tp:
            return 0.0 if self.fp or self.fn else math.nan
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of both classes (Brodersen et al. 2010); NaN if one of them is
        empty."""
        return (self.recall + ratio(self.tn, self.tn + self.fp)) / 2


MEASURES = {
    "precision": PRECISION,
    "recall": RECALL,
    "f1": F1,
    "balanced_accuracy": BALANCED_ACCURACY,
}


def count_response(
    response: JudgedResponse, level: str, is_right: bool | None = None
) -> DetectionCounts:
    """Count the units of one response.

    Args:
        response: The response.
        level: ``segment`` or ``response``.
        is_right: How it counts without a verdict: as judged rightly, as judged wrongly throughout,
            or, for None, not at all.
    """
    errors, flagged = response.errors, response.flagged
    if level == "response":
        errors, flagged = (any(errors),), flagged and (any(flagged),)
    if flagged is None:
        if is_right is None:
            return DetectionCounts()
        flagged = tuple(error == is_right for error in errors)
    pairs = Counter(zip(errors, flagged, strict=True))
    return DetectionCounts(
        tp=pairs[True, True], fp=pairs[False, True], fn=pairs[True, False], tn=pairs[False, False]
    )


def to_report(responses: Sequence[JudgedResponse], protocol: str) -> JsonObject:
    """Report on all responses.

    Returns:
        Under ``ALL`` and each domain, by level, the counts and scores of `pooled_scores`. Under
        ``unscored`` how many responses and segments are in none of these, why, and the scores at
        worst and at best.
    """
    unscored = [response for response in responses if response.flagged is None]
    unscored_by_domain = Counter(response.domain for response in unscored)
    report = {ALL: pooled_scores(responses)}
    domains = {}
    for domain in sorted({response.domain for response in responses}):
        members = [response for response in responses if response.domain == domain]
        report[domain] = pooled_scores(members)
        domains[domain] = unscored_by_domain[domain]
    report["unscored"] = {
        "responses": len(unscored),
        "segments": sum(len(response.errors) for response in unscored),
        "reasons": dict(Counter(response.reason for response in unscored).most_common()),
        "domains": domains,
        "worst": pooled_scores(responses, is_right=False),
        "best": pooled_scores(responses, is_right=True),
        "protocol": protocol,
    }
    return report


def pooled_scores(
    responses: Sequence[JudgedResponse], is_right: bool | None = None
) -> dict[str, JsonObject]:
    """Return by level the counts of all units together, and scores, None if one is not defined.

    Responses without a verdict count as `count_response` has it.
    """
    scores = {}
    for level in LEVELS:
        rows = [count_response(response, level, is_right) for response in responses]
        counts = DetectionCounts(*map(sum, zip(*rows, strict=True)))
        defined_scores = {name: defined(getattr(counts, name)) for name in MEASURES}
        scores[level] = {**counts._asdict(), **defined_scores}
    return scores


def row_metrics(doc: Doc, texts: Sequence[str], protocol: str, mode: str) -> JsonObject:
    """Return the counts of one response, under the name of every score that they are part of.

    Args:
        doc: The document.
        texts: What the model wrote, one text or several to vote on.
        protocol: The task's.
        mode: The task's.
    """
    response = judge_document(doc, texts, protocol)
    parts = {"": True, **{f"_{domain}": domain == response.domain for domain in DOMAINS}}
    metrics: JsonObject = {}
    for suffix, is_member in parts.items():
        metrics[f"unscored{suffix}"] = response.reason if is_member else None
    if mode in MODES_WITH_REFERENCES:  # math and reasoning have none in any mode
        has_none = doc["mode"] not in MODES_WITH_REFERENCES
        metrics["without_references"] = float(has_none and doc["domain"] not in WITHOUT_REFERENCES)
    no_units = DetectionCounts()
    for level in LEVELS:
        counts = count_response(response, level)
        for suffix, is_member in parts.items():
            for score in MEASURES:
                metrics[f"{level}_{score}{suffix}"] = list(counts if is_member else no_units)
        ends = (list(count_response(response, level, is_right)) for is_right in (False, True))
        metrics |= bounds_of(f"{level}_f1", *ends)
    return metrics


def judge_document(doc: Doc, texts: Sequence[str], protocol: str) -> JudgedResponse:
    """Read what the outputs say of a sample's document."""
    answers = map(Answer, texts)
    return judge_response(
        doc["domain"], doc["labels"], answers, doc["owners"], doc["problem"], protocol
    )


def of_totals(score: str) -> Callable[[Sequence[float]], float]:
    """Return how a score follows from the sums of `DetectionCounts`."""
    return lambda totals: float(getattr(DetectionCounts(*totals), score))  # type: ignore[arg-type]


def _scores() -> Iterator[Score]:
    aggregations = {score: pooled(of_totals(score)) for score in MEASURES}
    shown = {"f1": "F1", "balanced_accuracy": "Balanced accuracy"}
    for score, label in shown.items():
        for level in LEVELS:
            name = f"{level}_{score}"
            yield Score(name, aggregations[score], MEASURES[score], f"{label}, {level}s")
    for suffix in ("", *(f"_{domain}" for domain in DOMAINS)):
        for level in LEVELS:
            for score, measure in MEASURES.items():
                if suffix or score not in shown:
                    yield Score(f"{level}_{score}{suffix}", aggregations[score], measure)
        yield Score(f"unscored{suffix}", Aggregation(how_many), higher=False)
    for level in LEVELS:
        yield from Score(f"{level}_f1", aggregations["f1"]).bounds()
    yield Score("without_references", TOTAL, higher=False)


SCORES = tuple(_scores())
