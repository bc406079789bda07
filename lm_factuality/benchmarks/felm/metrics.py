"""From verdicts to scores (section 4.1 of the paper): how well errors are found, by segment and by
response.

The positive class is *has an error*. A response has one if any of its segments has. Counts are
pooled over responses, never averaged. A response without a verdict is in no count; ``best`` and
``worst`` are the counts if all of them were judged rightly, or all wrongly."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from judges.answers import Answer
from lm_factuality.benchmarks.declaration import (
    BALANCED_ACCURACY,
    F1,
    PRECISION,
    RECALL,
    Score,
    worst_and_best_of,
)
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.scores.statistics import TOTAL, Aggregation, defined, how_many, pooled, ratio

LEVELS = ("segment", "response")
ALL = "ALL"
SUFFIXES = ("", *(f"_{domain}" for domain in DOMAINS))
"""Of the names of scores: those of everything, and those of each domain."""


COUNTS = ("tp", "fp", "fn", "tn")
"""Of segments or responses: errors found, false alarms, errors missed, and the rest."""

MEASURES = {
    "precision": PRECISION,
    "recall": RECALL,
    "f1": F1,
    "balanced_accuracy": BALANCED_ACCURACY,
}


def detection_scores(counts: Sequence[float]) -> dict[str, float]:
    """Return how well errors are found, by ``COUNTS``. NaN stands for what is not defined.

    - ``precision``: of what was flagged, the share that holds an error
    - ``recall``: of what holds an error, the share that was flagged
    - ``f1``: their harmonic mean, 0 if errors exist and none was found
    - ``balanced_accuracy``: the mean of the recalls of both classes (Brodersen et al. 2010)
    """
    tp, fp, fn, tn = counts
    precision = ratio(tp, tp + fp)
    recall = ratio(tp, tp + fn)
    f1 = 0.0 if fp or fn else math.nan
    if tp:
        f1 = 2 * precision * recall / (precision + recall)
    balanced_accuracy = (recall + ratio(tn, tn + fp)) / 2
    return dict(zip(MEASURES, (precision, recall, f1, balanced_accuracy), strict=True))


def count_response(response: JudgedResponse, level: str, is_right: bool | None = None) -> list[int]:
    """Count the units of one response, as ``COUNTS``.

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
            return [0] * len(COUNTS)
        flagged = tuple(error == is_right for error in errors)
    pairs = Counter(zip(errors, flagged, strict=True))
    return [pairs[True, True], pairs[False, True], pairs[True, False], pairs[False, False]]


def to_report(responses: Sequence[JudgedResponse], protocol: str) -> JsonObject:
    """Report on all responses.

    Returns:
        Under ``ALL`` and each domain, by level, the counts and scores of `pooled_scores`. Under
        ``unscored`` how many responses and segments are in none of these, why, and the scores at
        worst and at best.
    """
    unscored = [response for response in responses if response.flagged is None]
    unscored_by_domain = Counter(response.domain for response in unscored)
    report: JsonObject = {ALL: pooled_scores(responses)}
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
    scores: dict[str, JsonObject] = {}
    for level in LEVELS:
        rows = [count_response(response, level, is_right) for response in responses]
        totals = [sum(column) for column in zip([0] * len(COUNTS), *rows, strict=True)]
        scores[level] = dict(zip(COUNTS, totals, strict=True))
        for name, score in detection_scores(totals).items():
            scores[level][name] = defined(score)
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
    suffixes = ("", f"_{response.domain}")
    metrics: JsonObject = {}
    for suffix in SUFFIXES:
        metrics[f"unscored{suffix}"] = response.reason if suffix in suffixes else None
    if mode in MODES_WITH_REFERENCES:  # math and reasoning have none in any mode
        has_none = doc["mode"] not in MODES_WITH_REFERENCES
        metrics["without_references"] = float(has_none and doc["domain"] not in WITHOUT_REFERENCES)
    for level in LEVELS:
        counts = count_response(response, level)
        for suffix in SUFFIXES:
            part = counts if suffix in suffixes else [0] * len(COUNTS)
            metrics |= {f"{level}_{measure}{suffix}": part for measure in MEASURES}
        ends = (count_response(response, level, is_right) for is_right in (False, True))
        metrics |= worst_and_best_of(f"{level}_f1", *ends)
    return metrics


def judge_document(doc: Doc, texts: Sequence[str], protocol: str) -> JudgedResponse:
    """Read what the outputs say of a sample's document."""
    answers = map(Answer, texts)
    return judge_response(
        doc["domain"], doc["labels"], answers, doc["owners"], doc["problem"], protocol
    )


def of_totals(measure: str) -> Callable[[Sequence[float]], float]:
    """Return how a score follows from the sums of counts."""
    return lambda totals: detection_scores(totals)[measure]


def _scores() -> Iterator[Score]:
    aggregations = {score: pooled(of_totals(score)) for score in MEASURES}
    shown = {"f1": "F1", "balanced_accuracy": "Balanced accuracy"}
    for score, label in shown.items():
        for level in LEVELS:
            name = f"{level}_{score}"
            yield Score(name, aggregations[score], MEASURES[score], f"{label}, {level}s")
    for suffix in SUFFIXES:
        for level in LEVELS:
            for score, measure in MEASURES.items():
                if suffix or score not in shown:
                    yield Score(f"{level}_{score}{suffix}", aggregations[score], measure)
        yield Score(f"unscored{suffix}", Aggregation(how_many), higher_is_better=False)
    for level in LEVELS:
        yield from Score(f"{level}_f1", aggregations["f1"]).worst_and_best()
    yield Score("without_references", TOTAL, higher_is_better=False)


SCORES = tuple(_scores())
