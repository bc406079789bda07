"""Numbers of made rows, which stay what they were when simulations checked their functions.

``make coverage`` and ``make bench-corrected`` measure how often intervals contain the truth, which
takes too long for tests. So a change of these numbers calls for both again. Write the new ones with
``python -m tests.scores.test_pinned``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_factuality.scores.agreement import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    measure_coefficient,
)
from lm_factuality.scores.calibration import (
    calibration_error,
    calibration_interval,
    calibration_stderr,
)
from lm_factuality.scores.intervals import (
    DETECTION_INTERVALS,
    clustered_mean,
    difference_interval,
    mean_interval,
    perplexity_interval,
    pooled_difference_interval,
    pooled_estimate,
    pooled_interval,
)
from lm_factuality.scores.paired import flip_test, swap_test
from lm_factuality.scores.ppi import Units, correct_by_labels, corrected_mean

PINNED = Path(__file__).with_name("pinned.json")
NUM_SAMPLES = 4
"""Rows of few and many documents, of documents of one row, and of one large document."""


def make_sample(number: int) -> dict[str, Any]:
    """Make the rows of a sample: values, clusters, weights and counts, with labels for some."""
    random = np.random.default_rng(number)
    num_rows = (12, 60, 120, 40)[number]
    clusters = [
        random.integers(4, size=num_rows),
        random.integers(15, size=num_rows),
        np.arange(num_rows),
        np.maximum(0, np.arange(num_rows) - 25),
    ][number]
    people = random.binomial(1, 0.6, num_rows)
    judged = np.where(random.random(num_rows) < 0.8, people, 1 - people).astype(float)
    if number == 3:
        # One label has most of the leverage on lambda.
        judged[:] = random.random(num_rows) / 50
        judged[5], people[5] = 1.0, 1
    return {
        "values": random.integers(0, 5, num_rows) / 4,
        "others": random.integers(0, 5, num_rows) / 4,
        "clusters": clusters,
        "weights": random.integers(1, 6, num_rows),
        "judged": judged,
        "people": people.astype(float),
        "is_labelled": random.random(num_rows) < 0.5,
        "strata": random.integers(2, size=num_rows),
        "counts": random.integers(0, 4, (num_rows // 2, 4)),
        "other_counts": random.integers(0, 4, (num_rows // 2, 4)),
    }


def harmonic_mean(sums: list[float]) -> float:
    """Return F1 of true and false positives, and false negatives."""
    tp, fp, fn, _ = sums
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else math.nan


def intervals_of(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the intervals of means, counts and differences."""
    values, clusters, weights = (sample[key].tolist() for key in ("values", "clusters", "weights"))
    others, counts, other_counts = sample["others"], sample["counts"], sample["other_counts"]
    results = {
        "mean": mean_interval(values, clusters),
        "weighted mean": mean_interval(values, clusters, weights=weights),
        "mean of rows": clustered_mean(values),
        "mean of documents": clustered_mean(values, clusters, weights),
        "mean above 0": mean_interval(values, clusters, 0.0, math.inf),
        "mean without bounds": mean_interval(values, clusters, -math.inf, math.inf),
        "mean of equal rows": mean_interval([1.0] * len(values), clusters),
        "difference": difference_interval(values, others.tolist(), clusters, weights=weights),
        "difference of wider rows": difference_interval(values, others.tolist(), None, -1.0, 3.0),
        "perplexity": perplexity_interval(values, weights, clusters),
        "pooled": pooled_interval(counts, harmonic_mean),
        "pooled estimate": pooled_estimate(counts, harmonic_mean),
        "pooled difference": pooled_difference_interval(counts, other_counts, harmonic_mean),
    }
    for measure, interval_of in DETECTION_INTERVALS.items():
        results[measure] = interval_of(counts)
    return results


def corrections_of(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the scores that labels correct."""
    labels = [
        value if is_labelled else None
        for value, is_labelled in zip(sample["people"], sample["is_labelled"], strict=True)
    ]
    judged, clusters, strata = sample["judged"], sample["clusters"], sample["strata"]
    units = Units(
        judge_counts=np.column_stack([judged, sample["values"], sample["weights"]]),
        people_counts=np.column_stack([sample["people"], sample["others"], sample["weights"]]),
        is_labelled=sample["is_labelled"],
        clusters=clusters,
        strata=strata,
        weights=sample["weights"].astype(float),
    )
    estimates = {
        "corrected": corrected_mean(judged, labels),
        "corrected by document": corrected_mean(judged, labels, clusters.tolist()),
        "corrected by stratum": corrected_mean(judged, labels, None, strata.tolist()),
        # Labels that all agree with the judge leave room for errors that they do not show.
        "corrected by agreement": corrected_mean(sample["people"], labels, None, strata.tolist()),
        "corrected by agreement on few": corrected_mean(sample["people"] * (judged > 0.5), labels),
        "corrected share": correct_by_labels(
            units, lambda sums: (sums[0] + sums[1]) / (2 * sums[2]), 0.0, 1.0
        ),
        "corrected by half": correct_by_labels(
            units, lambda sums: (sums[0] + sums[1]) / (2 * sums[2]), judge_weight=0.5
        ),
    }
    return {
        name: estimate and [estimate.value, estimate.low, estimate.high, estimate.judge_weight]
        for name, estimate in estimates.items()
    }


def comparisons_of(sample: dict[str, Any]) -> dict[str, Any]:
    """Return p-values, measures of agreement and calibration errors."""
    values, others, clusters = sample["values"], sample["others"], sample["clusters"].tolist()
    counts, other_counts = sample["counts"], sample["other_counts"]
    pairs = [(str(first), str(second)) for first, second in zip(values, others, strict=True)]
    calibration = (values, sample["people"] > 0.5)
    few = slice(0, 6)
    kappa = measure_coefficient(pairs, clusters, cohen_kappa)
    return {
        "flips of whole numbers": flip_test(values - others + sample["people"]),
        "flips of any numbers": flip_test(values - sample["judged"] * math.pi + 0.5),
        # As many as all choices of signs are tried for, and one more. Sample 0 has fewer.
        "flips of 18 numbers": flip_test(values[:18] - sample["judged"][:18] * math.pi + 0.6),
        "flips of 19 numbers": flip_test(values[:19] - sample["judged"][:19] * math.pi + 0.6),
        "flips of few numbers": flip_test(values[few] * math.pi - others[few] + 0.3),
        "swaps of many": swap_test(counts, other_counts, harmonic_mean),
        "swaps of 10": swap_test(counts[:10], other_counts[:10], harmonic_mean),
        "swaps of few": swap_test(counts[few], other_counts[few], harmonic_mean),
        "kappa": [kappa.value, kappa.low, kappa.high],
        "fleiss": fleiss_kappa(pairs),
        "alpha": krippendorff_alpha(pairs),
        "calibration error": calibration_error(*calibration),
        "calibration stderr": calibration_stderr(*calibration, clusters),
        "calibration interval": calibration_interval(*calibration, clusters),
        "calibration interval of rows": calibration_interval(*calibration),
    }


def compute() -> dict[str, Any]:
    """Return the numbers of all samples by name."""
    numbers: dict[str, Any] = {}
    for number in range(NUM_SAMPLES):
        sample = make_sample(number)
        results = intervals_of(sample) | corrections_of(sample) | comparisons_of(sample)
        for name, result in results.items():
            values = [] if result is None else np.ravel(result).astype(float).tolist()
            numbers[f"{name}, sample {number}"] = values

    # In each bin exactly as many of 20 choices are true as the probability says.
    probabilities = np.repeat((np.arange(10) + 0.5) / 10, 20)
    is_true = np.tile(np.arange(20), 10) < 20 * probabilities
    numbers["calibration interval of a lucky model"] = list(
        calibration_interval(probabilities, is_true)
    )
    return numbers


@pytest.fixture(scope="module")
def computed() -> dict[str, Any]:
    """Return the numbers that today's code computes."""
    return compute()


EXPECTED = json.loads(PINNED.read_text(encoding="utf-8")) if PINNED.is_file() else {}


@pytest.mark.parametrize("name", EXPECTED)
def test_results_equal_the_pinned_numbers(computed, name):
    """Slow simulations checked these functions once, and a new number calls for them again."""
    # Other releases of numpy and scipy may round in another way.
    assert computed[name] == pytest.approx(EXPECTED[name], rel=1e-6, abs=1e-9)


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in compute().items()]
    PINNED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
