"""The scores of FELM: how well a judge finds errors, by segment and by response (section 4.1).

FELM's tasks, certificates and ``lm-factuality score felm`` compute their scores here. Counts are
pooled over responses, never averaged. The positive class is "has an error".
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from judges.answers import Answer
from lm_factuality.benchmarks.declaration import (
    SHARE,
    Score,
    worst_and_best_of,
)
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, read_judged_response
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.scores.statistics import (
    TOTAL,
    Aggregation,
    count_present,
    none_if_nan,
    pooled,
    ratio,
)

LEVELS = ("segment", "response")
"""What is counted: single segments, or whole responses, which are wrong if any segment is."""

ALL = "ALL"
"""The key of the scores over all domains in a report."""

SUFFIXES = ("", *(f"_{domain}" for domain in DOMAINS))
"""The endings of the names of scores: empty for all domains together, ``_math`` for one domain."""

COUNTS = ("tp", "fp", "fn", "tn")
"""The counts of units: errors found, false alarms, errors missed, and correct units passed."""

MEASURES = ("precision", "recall", "f1", "balanced_accuracy")
"""The scores that follow from `COUNTS`. All of them are shares from 0 to 1."""


def detection_scores(counts: Sequence[float]) -> dict[str, float]:
    """Compute how well a judge finds errors: precision, recall, F1 and balanced accuracy.

    A unit is a segment of a response, or a whole response.

    Args:
        counts: The numbers of true positives, false positives, false negatives and true negatives.
            An error is a positive, and a flagged unit is one that the judge calls wrong.

    Returns:
        The scores from 0 to 1 by name, or NaN where a score is not defined:

        - ``precision``: the share of the flagged units that contain an error
        - ``recall``: the share of the units with an error that were flagged
        - ``f1``: the harmonic mean of both, 0 if errors exist and none was found
        - ``balanced_accuracy``: the mean of the recalls of both classes (Brodersen et al. 2010)
    """
    tp, fp, fn, tn = counts
    precision = ratio(tp, tp + fp)
    recall = ratio(tp, tp + fn)

    # Without errors and without false alarms there was nothing to find.
    f1 = 0.0 if fp or fn else math.nan
    if tp:
        f1 = 2 * precision * recall / (precision + recall)

    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "balanced_accuracy": (recall + ratio(tn, tn + fp)) / 2,
    }


def count_detections(
    response: JudgedResponse, level: str, unscored_as_right: bool | None = None
) -> list[int]:
    """Count the errors found, false alarms, errors missed and correct units of one response.

    Args:
        response: The response with its labels and the judge's verdict.
        level: ``segment`` to count segments, ``response`` to count the response as one unit, which
            has an error if any segment has.
        unscored_as_right: How to count a response without a verdict: as if every verdict were
            right, as if every verdict were wrong, or, for None, not at all.

    Returns:
        The numbers of true positives, false positives, false negatives and true negatives. All of
        them are 0 for a response that does not count.
    """
    errors = response.errors
    flagged = response.flagged
    if level == "response":
        # A response is wrong if any of its segments is.
        errors = (any(errors),)
        flagged = None if flagged is None else (any(flagged),)

    if flagged is None:
        if unscored_as_right is None:
            return [0, 0, 0, 0]
        # A right verdict equals the label, and a wrong one is the opposite.
        flagged = tuple(error == unscored_as_right for error in errors)

    # The keys are pairs: whether a unit has an error, and whether it is flagged.
    units = Counter(zip(errors, flagged, strict=True))
    return [units[True, True], units[False, True], units[True, False], units[False, False]]


def report_detection_scores(responses: Sequence[JudgedResponse], protocol: str) -> JsonObject:
    """Report the scores of a judge on all responses and on each domain.

    Args:
        responses: The responses with their labels and verdicts.
        protocol: How the outputs were read, for the report.

    Returns:
        Under ``ALL`` and under each domain the result of `score_pooled_counts`. Under ``unscored``
        the number of responses and segments without a verdict, the reasons, and the scores if all
        of them had been judged wrongly (``worst``) or rightly (``best``).
    """
    report: JsonObject = {ALL: score_pooled_counts(responses)}
    unscored_by_domain = {}
    for domain in sorted({response.domain for response in responses}):
        # Responses without a verdict are among the members. They are in no count.
        members = [response for response in responses if response.domain == domain]
        report[domain] = score_pooled_counts(members)
        unscored_by_domain[domain] = sum(response.flagged is None for response in members)

    unscored = [response for response in responses if response.flagged is None]
    reasons = Counter(response.reason for response in unscored)
    report["unscored"] = {
        "responses": len(unscored),
        "segments": sum(len(response.errors) for response in unscored),
        "reasons": dict(reasons.most_common()),
        "domains": unscored_by_domain,
        "worst": score_pooled_counts(responses, unscored_as_right=False),
        "best": score_pooled_counts(responses, unscored_as_right=True),
        "protocol": protocol,
    }
    return report


def score_pooled_counts(
    responses: Sequence[JudgedResponse], unscored_as_right: bool | None = None
) -> dict[str, JsonObject]:
    """Add up the counts of all responses, and compute the scores of the sums.

    Args:
        responses: The responses with their labels and verdicts.
        unscored_as_right: How responses without a verdict count (see `count_detections`).

    Returns:
        Under ``segment`` and under ``response``, the counts ``tp``, ``fp``, ``fn`` and ``tn`` and
        the scores by name. None stands for a score that is not defined.
    """
    scores_by_level: dict[str, JsonObject] = {}
    for level in LEVELS:
        totals = [0, 0, 0, 0]
        for response in responses:
            counts = count_detections(response, level, unscored_as_right)
            # Scores of single responses are never averaged, as in the paper.
            totals = [total + count for total, count in zip(totals, counts, strict=True)]

        counts_by_name = dict(zip(COUNTS, totals, strict=True))
        scores = {name: none_if_nan(score) for name, score in detection_scores(totals).items()}
        scores_by_level[level] = counts_by_name | scores
    return scores_by_level


def response_metrics(doc: Doc, texts: Sequence[str], protocol: str, mode: str) -> JsonObject:
    """Compute the part of one response in every score of a FELM task.

    Args:
        doc: The document of the response, as lm_eval's samples hold it.
        texts: The outputs of the model. If there are several, the majority decides.
        protocol: The task's protocol, ``paper`` or ``code``.
        mode: The mode that the task asks for. ``doc["mode"]`` is the mode in which it was asked.

    Returns:
        The counts of the response under the name of each score, and zeros under the names of the
        other domains. ``unscored`` holds the reason if there is no verdict.
    """
    response = read_judged_document(doc, texts, protocol)
    suffixes_of_response = ("", f"_{response.domain}")

    metrics: JsonObject = {}
    for suffix in SUFFIXES:
        # lm_eval wants the same metrics of every row, those of other domains included.
        metrics[f"unscored{suffix}"] = response.reason if suffix in suffixes_of_response else None

    if mode in MODES_WITH_REFERENCES:
        # Math and reasoning have no references in any mode, so they lack nothing.
        needs_references = doc["domain"] not in WITHOUT_REFERENCES
        lacks_references = needs_references and doc["mode"] not in MODES_WITH_REFERENCES
        metrics["without_references"] = float(lacks_references)

    for level in LEVELS:
        counts = count_detections(response, level)
        for suffix in SUFFIXES:
            part = counts if suffix in suffixes_of_response else [0, 0, 0, 0]
            for measure in MEASURES:
                metrics[f"{level}_{measure}{suffix}"] = part
        # If the response has a verdict, the bounds are its counts.
        worst = count_detections(response, level, unscored_as_right=False)
        best = count_detections(response, level, unscored_as_right=True)
        metrics |= worst_and_best_of(f"{level}_f1", worst, best)
    return metrics


def read_judged_document(doc: Doc, texts: Sequence[str], protocol: str) -> JudgedResponse:
    """Read the verdict of a model on the response that a document of lm_eval's samples holds.

    Args:
        doc: The document.
        texts: The outputs of the model.
        protocol: How to read them, ``paper`` or ``code``.
    """
    answers = [Answer(text) for text in texts]
    return read_judged_response(
        doc["domain"], doc["labels"], answers, doc["owners"], doc["problem"], protocol
    )


def measure_from_totals(measure: str) -> Callable[[Sequence[float]], float]:
    """Return a function that computes a score, such as ``f1``, from the sums of the four counts."""
    return lambda totals: detection_scores(totals)[measure]


def _declare_scores() -> Iterator[Score]:
    """Yield every score of a FELM task. Those with a label come first, in the order of tables."""
    aggregations = {measure: pooled(measure_from_totals(measure)) for measure in MEASURES}
    labels = {"f1": "F1", "balanced_accuracy": "Balanced accuracy"}
    # The report shows these scores in tables, in this order.
    for measure, label in labels.items():
        for level in LEVELS:
            name = f"{level}_{measure}"
            yield Score(name, aggregations[measure], SHARE, f"{label}, {level}s")

    for suffix in SUFFIXES:
        for level in LEVELS:
            for measure in MEASURES:
                # The scores with labels have been declared above.
                is_declared = not suffix and measure in labels
                if not is_declared:
                    name = f"{level}_{measure}{suffix}"
                    yield Score(name, aggregations[measure], SHARE)
        yield Score(f"unscored{suffix}", Aggregation(count_present), higher_is_better=False)

    for level in LEVELS:
        yield from Score(f"{level}_f1", aggregations["f1"]).worst_and_best()
    yield Score("without_references", TOTAL, higher_is_better=False)


SCORES = tuple(_declare_scores())
"""Every score of FELM's tasks."""
