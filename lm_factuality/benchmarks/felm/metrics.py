"""The scores of FELM: how well a judge finds errors, by segment and by response (section 4.1).

FELM's tasks, certificates and ``lm-factuality score felm`` compute their scores here. Counts are
pooled over responses, never averaged. The positive class is "has an error".
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from judges.answers import Answer
from lm_factuality.benchmarks.declaration import (
    SHARE,
    Score,
    worst_and_best_of,
)
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, read_judged_response
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.scores.intervals import DETECTION_INTERVALS, count_detection_clusters
from lm_factuality.scores.statistics import (
    TOTAL,
    Aggregation,
    PooledScore,
    count_present,
    none_if_nan,
    ratio,
)

LEVELS = ("segment", "response")
"""What is counted: single segments, or whole responses, which are wrong if any segment is."""

ALL = "ALL"
"""The key of the scores over all domains in a report."""

DOMAIN_SUFFIXES = ("", *(f"_{domain}" for domain in DOMAINS))
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

    if tp:
        f1 = 2 * precision * recall / (precision + recall)
    elif fp or fn:
        f1 = 0.0
    else:
        # Without errors and without false alarms there was nothing to find.
        f1 = math.nan

    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "balanced_accuracy": (recall + ratio(tn, tn + fp)) / 2,
    }


def count_detections(response: JudgedResponse, level: str) -> list[int]:
    """Count the errors found, false alarms, errors missed and correct units of one response.

    Units are its segments or, at the level ``response``, the response as a whole. All counts are 0
    for a response without a verdict.
    """
    if response.flagged is None:
        return [0, 0, 0, 0]
    return _count_units(response.errors, response.flagged, level)


def count_best(response: JudgedResponse, level: str) -> list[int]:
    """Count as `count_detections` does, with a missing verdict replaced by one that is right."""
    # The judge would flag the errors and nothing else.
    flagged = response.errors if response.flagged is None else response.flagged
    return _count_units(response.errors, flagged, level)


def count_worst(response: JudgedResponse, level: str) -> list[int]:
    """Count as `count_detections` does, with a missing verdict replaced by an all wrong one."""
    if response.flagged is not None:
        return count_detections(response, level)
    # A right verdict has no false alarms, and misses no error.
    num_errors, _, _, num_correct = count_best(response, level)
    # A wrong one misses each error, and each correct unit is a false alarm.
    return [0, num_correct, num_errors, 0]


def _count_units(errors: Sequence[bool], flagged: Sequence[bool], level: str) -> list[int]:
    """Count true positives, false positives, false negatives and true negatives, in this order.

    Args:
        errors: Whether each segment contains an error.
        flagged: Whether the judge calls each segment wrong.
        level: ``segment``, or ``response`` to count all segments together as one unit.
    """
    if level == "response":
        # The whole response is the only unit. It is wrong if any of its segments is.
        errors = [any(errors)]
        flagged = [any(flagged)]

    # The keys are pairs: whether a unit has an error, and whether it is flagged.
    units = Counter(zip(errors, flagged, strict=True))
    return [units[True, True], units[False, True], units[True, False], units[False, False]]


def report_detection_scores(responses: Sequence[JudgedResponse], protocol: str) -> JsonObject:
    """Report the scores of a judge on all responses and on each domain.

    Args:
        responses: The responses with their labels and verdicts.
        protocol: How the outputs were read, for the report.

    Returns:
        Under ``ALL`` and under each domain the result of `score_pooled_counts`, and under
        ``unscored`` that of `_report_unscored` with the ``protocol``.
    """
    report: JsonObject = {ALL: score_pooled_counts(responses)}
    domains = {response.domain for response in responses}
    for domain in sorted(domains):
        report[domain] = score_pooled_counts(
            [response for response in responses if response.domain == domain]
        )
    report["unscored"] = {**_report_unscored(responses), "protocol": protocol}
    return report


def _report_unscored(responses: Sequence[JudgedResponse]) -> JsonObject:
    """Report how many responses have no verdict, why, and how much that may change the scores.

    Args:
        responses: All responses of a judge, also those with a verdict.

    Returns:
        The number of ``responses`` and ``segments`` without a verdict, and how many of these
        responses have each reason (``reasons``) and are of each domain (``domains``). ``worst`` and
        ``best`` are the scores if all missing verdicts were wrong, or right.
    """
    unscored = [response for response in responses if response.flagged is None]
    reasons = Counter(response.reason for response in unscored)
    num_unscored_by_domain = Counter(response.domain for response in unscored)
    # Domains in which every response has a verdict are listed with 0.
    domains = sorted({response.domain for response in responses})
    return {
        "responses": len(unscored),
        "segments": sum(len(response.errors) for response in unscored),
        "reasons": dict(reasons.most_common()),
        "domains": {domain: num_unscored_by_domain[domain] for domain in domains},
        "worst": score_pooled_counts(responses, count_worst),
        "best": score_pooled_counts(responses, count_best),
    }


def score_pooled_counts(
    responses: Sequence[JudgedResponse],
    count_response: Callable[[JudgedResponse, str], list[int]] = count_detections,
) -> dict[str, JsonObject]:
    """Add up the counts of all responses, and compute the scores of the sums.

    Scores of single responses are never averaged, as in the paper.

    Args:
        responses: The responses with their labels and verdicts.
        count_response: The function that counts one response: `count_detections` to leave responses
            without a verdict out, or `count_best` or `count_worst`.

    Returns:
        Under ``segment`` and under ``response``, the counts ``tp``, ``fp``, ``fn`` and ``tn`` and
        the scores by name. None stands for a score that is not defined.
    """
    scores_by_level: dict[str, JsonObject] = {}
    for level in LEVELS:
        totals = dict.fromkeys(COUNTS, 0)
        for response in responses:
            for name, count in zip(COUNTS, count_response(response, level), strict=True):
                totals[name] += count
        scores = detection_scores(list(totals.values()))
        defined_scores = {name: none_if_nan(score) for name, score in scores.items()}
        scores_by_level[level] = totals | defined_scores
    return scores_by_level


def response_metrics(doc: Doc, texts: Sequence[str], protocol: str, mode: str) -> JsonObject:
    """Return what one response adds to each score of a FELM task.

    Args:
        doc: The document of the response, as lm_eval's samples hold it.
        texts: The outputs of the model. If there are several, the majority decides.
        protocol: The task's protocol (see `verdicts.read_verdict`).
        mode: The mode that the task asks for. A row without the references for it was asked in
            another mode, ``doc["mode"]``.

    Returns:
        The metrics by name, which are the same for every row:

        - ``segment_f1``, ``segment_f1_math`` and every other such score: the counts of the
          response, or zeros in the scores of another domain
        - ``unscored``, and ``unscored_math`` for each domain: the reason why there is no verdict.
          None if there is a verdict, and for the other domains.
        - ``flagged``: the numbers of the segments that the model calls wrong
        - ``without_references``: 1 if the mode shows references and the row has none, else 0. Other
          modes do not have this metric.
    """
    response = read_judged_document(doc, texts, protocol)
    metrics: JsonObject = {f"unscored{suffix}": None for suffix in DOMAIN_SUFFIXES}
    for suffix in _suffixes_of(response):
        metrics[f"unscored{suffix}"] = response.reason

    metrics["flagged"] = None
    if response.flagged is not None:
        numbers = enumerate(response.flagged, start=1)
        metrics["flagged"] = [number for number, is_flagged in numbers if is_flagged]

    if mode in MODES_WITH_REFERENCES:
        # Math and reasoning have no references in any mode, so they lack nothing.
        needs_references = doc["domain"] not in WITHOUT_REFERENCES
        lacks_references = needs_references and doc["mode"] not in MODES_WITH_REFERENCES
        metrics["without_references"] = float(lacks_references)

    for level in LEVELS:
        metrics |= _level_metrics(response, level)
    return metrics


def _suffixes_of(response: JudgedResponse) -> tuple[str, str]:
    """Return the endings of the scores in which a response counts, such as none and ``_math``."""
    return ("", f"_{response.domain}")


def _level_metrics(response: JudgedResponse, level: str) -> JsonObject:
    """Return the counts of a response under the name of every score of one level.

    Every score of the response's domain, such as precision or F1, has the same four counts, since
    it is computed from their sums over all responses. The scores of other domains have four zeros.

    Example:
        A response about math: ``{"segment_f1": [1, 0, 2, 3], "segment_f1_math": [1, 0, 2, 3],
        "segment_f1_wk": [0, 0, 0, 0], ...}``

    Args:
        response: The response with its verdict.
        level: ``segment`` or ``response``.
    """
    counts = count_detections(response, level)
    metrics: JsonObject = {}
    counted_suffixes = _suffixes_of(response)
    for suffix, measure in product(DOMAIN_SUFFIXES, MEASURES):
        is_counted = suffix in counted_suffixes
        metrics[f"{level}_{measure}{suffix}"] = counts if is_counted else [0, 0, 0, 0]

    worst = count_worst(response, level)
    best = count_best(response, level)
    return metrics | worst_and_best_of(f"{level}_f1", worst, best)


def read_judged_document(doc: Doc, texts: Sequence[str], protocol: str) -> JudgedResponse:
    """Read the verdict of a model on the response that a document of lm_eval's samples holds.

    Args:
        doc: The document.
        texts: The outputs of the model.
        protocol: How to read them (see `verdicts.read_verdict`).
    """
    return read_judged_response(
        domain=doc["domain"],
        labels=doc["labels"],
        answers=[Answer(text) for text in texts],
        segment_of_claim=doc["owners"],
        problem=doc["problem"],
        protocol=protocol,
    )


def _count_flagged(rows: Sequence[Sequence[int] | None]) -> float:
    """Count the segments that the model flags. A response without a verdict is None."""
    return float(sum(len(flagged) for flagged in rows if flagged is not None))


_TABLE_LABELS = {"f1": "F1", "balanced_accuracy": "Balanced accuracy"}
"""The labels of the measures that tables show. They show them for all domains together only."""


def _declare_scores() -> list[Score]:
    """Declare every score of a FELM task, in the order of the columns of tables.

    Tables show only the scores with a label, which come first. The results file has all scores.

    Example:
        ``segment_f1`` is the F1 of the segments of all responses, and ``segment_f1_wk`` is the F1
        of the segments of the responses in the domain ``wk``.
    """
    scores = []
    for measure, level in product(_TABLE_LABELS, LEVELS):
        label = f"{_TABLE_LABELS[measure]}, {level}s"
        scores.append(_declare_detection_score(level, measure, label=label))

    for domain_suffix in DOMAIN_SUFFIXES:
        for level, measure in product(LEVELS, MEASURES):
            is_in_tables = domain_suffix == "" and measure in _TABLE_LABELS
            # The loop above has declared the scores in tables.
            if not is_in_tables:
                scores.append(_declare_detection_score(level, measure, domain_suffix))
        unscored_name = f"unscored{domain_suffix}"
        scores.append(Score(unscored_name, Aggregation(count_present), higher_is_better=False))

    for level in LEVELS:
        scores += _declare_detection_score(level, "f1").worst_and_best()
    scores.append(Score("without_references", TOTAL, higher_is_better=False))
    # A sample holds the numbers of the flagged segments, and results hold their count.
    scores.append(Score("flagged", Aggregation(_count_flagged), higher_is_better=None))
    return scores


def _declare_detection_score(
    level: str, measure: str, domain_suffix: str = "", label: str = ""
) -> Score:
    """Declare how well the judge finds errors at one level: ``segment_f1_wk`` or ``response_f1``.

    Args:
        level: ``segment`` or ``response``.
        measure: One of `MEASURES`, such as ``f1``.
        domain_suffix: ``_wk`` for the responses of this domain. Empty for all responses.
        label: The name in tables. Empty if tables do not show the score.
    """
    # The four counts of all responses are added up, and the score is computed from the sums.
    pooled_score = PooledScore(
        lambda totals: detection_scores(totals)[measure],
        DETECTION_INTERVALS[measure],
        partial(count_detection_clusters, measure),
    )
    name = f"{level}_{measure}{domain_suffix}"
    return Score(name, pooled_score.aggregation(), SHARE, label)


SCORES = tuple(_declare_scores())
"""Every score of FELM's tasks."""
