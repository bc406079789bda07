"""From verdicts to scores (section 4.1 of the paper): how well errors are found, by segment and by
response.

The positive class is *has an error*. A response has one if any of its segments has. Counts are
pooled over responses, never averaged. A response without a verdict is in no count; ``best`` and
``worst`` are the counts if all of them were judged rightly, or all wrongly."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from lm_factuality.benchmarks.declaration import (
    BALANCED_ACCURACY,
    F1,
    PRECISION,
    RECALL,
    Score,
    bounds_of,
)
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, Outputs, judge_response
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.scores.statistics import TOTAL, Aggregation, defined, how_many, pooled, ratio

LEVELS = ("segment", "response")
ALL = "ALL"
# Whether all that has no verdict is taken to be judged rightly.
_BOUNDS = {"worst": False, "best": True}


class Counts(NamedTuple):
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


def count(errors: Sequence[bool], flagged: Sequence[bool]) -> Counts:
    """Count the units, of which each has an entry in both lists."""
    pairs = Counter(zip(errors, flagged, strict=True))
    return Counts(pairs[True, True], pairs[False, True], pairs[True, False], pairs[False, False])


def count_response(response: JudgedResponse, level: str, is_right: bool | None = None) -> Counts:
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
    if flagged is not None:
        return count(errors, flagged)
    return Counts() if is_right is None else count(errors, [error == is_right for error in errors])


def pool(responses: Iterable[JudgedResponse], level: str, is_right: bool | None = None) -> Counts:
    """Count the units of all responses together, each as `count_response` does."""
    rows = [count_response(response, level, is_right) for response in responses]
    return Counts(*map(sum, zip(*rows, strict=True)))


def to_report(responses: Sequence[JudgedResponse], protocol: str) -> JsonObject:
    """Report on all responses.

    Returns:
        Under ``ALL`` and each domain, by level, the counts and scores of `to_scores`. Under
        ``unscored`` how many responses and segments are in none of these, why, and the scores at
        worst and at best.
    """
    members: dict[str, list[JudgedResponse]] = {ALL: list(responses)}
    for domain in sorted({response.domain for response in responses}):
        members[domain] = [response for response in responses if response.domain == domain]
    report: JsonObject = {}
    for name, part in members.items():
        report[name] = {level: to_scores(pool(part, level)) for level in LEVELS}
    unscored = [response for response in responses if response.flagged is None]
    domains = Counter(response.domain for response in unscored)
    report["unscored"] = {
        "responses": len(unscored),
        "segments": sum(len(response.errors) for response in unscored),
        "reasons": dict(Counter(response.reason or "" for response in unscored).most_common()),
        "domains": {domain: domains[domain] for domain in list(members)[1:]},
    }
    for bound, is_right in _BOUNDS.items():
        report["unscored"][bound] = {
            level: to_scores(pool(responses, level, is_right)) for level in LEVELS
        }
    report["unscored"]["protocol"] = protocol
    return report


def to_scores(counts: Counts) -> dict[str, float | int | None]:
    """Return counts and scores, with None for a score that is not defined."""
    scores = {name: defined(float(getattr(counts, name))) for name in MEASURES}
    return {**counts._asdict(), **scores}


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
    for level in LEVELS:
        counts = count_response(response, level)
        for suffix, is_member in parts.items():
            for score in MEASURES:
                metrics[f"{level}_{score}{suffix}"] = list(counts if is_member else Counts())
        ends = (list(count_response(response, level, is_right)) for is_right in _BOUNDS.values())
        metrics |= bounds_of(f"{level}_f1", *ends)
    return metrics


def judge_document(doc: Doc, texts: Sequence[str], protocol: str) -> JudgedResponse:
    """Read what the outputs say of a sample's document."""
    outputs = Outputs(texts, doc["owners"] or None, doc["problem"] or None)
    return judge_response(doc["index"], doc["domain"], doc["labels"], outputs, protocol)


def of_totals(score: str) -> Callable[[Sequence[float]], float]:
    """Return how a score follows from the sums of ``Counts``."""
    return lambda totals: float(getattr(Counts(*totals), score))  # type: ignore[arg-type]


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
