"""Measures how often the intervals of the calibration error and of the AUROC contain the truth.

    python -m bench.coverage_calibration                       # some ten minutes on one core
    python -m bench.coverage_calibration --replications 200

Each replication draws rows of four choices as in FACTOR, of which one is true. The rows of a
document share how easily the true choice is recognised.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri
from tqdm import tqdm

from lm_factuality.benchmarks.factor_chat.metrics import ChoiceProbabilities, auroc, auroc_interval
from lm_factuality.ground.console import print_table
from lm_factuality.scores.calibration import calibration_error, calibration_interval
from lm_factuality.scores.intervals import Z95, Floats, Interval

NUM_CHOICES = 4
NUM_ROWS = 10
"""The rows of each document."""

SIGNAL = 1.5
"""By how much the evidence for a true choice is above that for a false one, in deviations."""

DOCUMENT_SPREAD = 0.7
"""The standard deviation of the signal from document to document."""

SIZES_OF_UNEQUAL_DOCUMENTS = (1, 2, 4, 8, 15, 30)
"""The numbers of rows in six documents, ten on average."""

NUM_TRUTH_DOCUMENTS = 400_000
"""The documents from which the true calibration error is computed."""


class CoverageCell(NamedTuple):
    """How good the intervals of a score are in one setting."""

    setting: str
    """The score, the model and the rows."""

    coverage: float
    """The share of intervals that contain the true score."""

    mean_width: float
    """The mean width of the intervals."""

    width_ratio: float
    """The mean width over that of an interval of 1.96 standard deviations of the measured score."""


class Replication(NamedTuple):
    """What one sample of rows gives."""

    value: float
    """The measured score."""

    interval: Interval
    """Its interval."""


class Sample(NamedTuple):
    """The choices of drawn rows. The first choice of each row is the true one."""

    probabilities: Floats
    """The probability of each choice, of shape (rows, choices)."""

    documents: list[int]
    """The document of each row."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the coverage and the width of the intervals in all settings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replications", type=int, default=2000, help="Samples of each setting.")
    options = parser.parse_args(arguments)

    rows = [
        (
            cell.setting,
            f"{cell.coverage:.1%}",
            f"{cell.mean_width:.4f}",
            f"{cell.width_ratio:.2f}",
        )
        for cell in calibration_cells(options.replications)
    ]
    print_table(
        "Intervals of the calibration error and the AUROC",
        ("setting", "#coverage", "#mean width", "#of the least width"),
        rows,
        ("The least width is that of 1.96 true standard deviations to each side.",),
    )


def calibration_cells(replications: int) -> list[CoverageCell]:
    """Measure the coverage of the calibration error's interval and of the AUROC's.

    Args:
        replications: The number of samples in each setting.
    """
    settings: list[tuple[str, float, Callable[[np.random.Generator], Replication]]] = []
    settings += _calibration_settings()
    settings += _auroc_settings()

    cells = []
    for name, truth, replicate in tqdm(settings, "settings"):
        # Every setting has draws of its own, whatever the other settings are.
        generator = np.random.default_rng(0)
        drawn = [replicate(generator) for _ in range(replications)]
        cells.append(_cell(name, truth, drawn))
    return cells


def _cell(setting: str, truth: float, replications: Sequence[Replication]) -> CoverageCell:
    """Compute the coverage and the width of the intervals of one setting."""
    intervals = [replication.interval for replication in replications]
    coverage = np.mean([interval.low <= truth <= interval.high for interval in intervals])
    width = np.mean([interval.high - interval.low for interval in intervals])
    deviation = np.std([replication.value for replication in replications])
    return CoverageCell(
        setting, float(coverage), float(width), float(width / (2 * Z95 * deviation))
    )


def _calibration_settings() -> Iterator[
    tuple[str, float, Callable[[np.random.Generator], Replication]]
]:
    """Yield the settings of the calibration error: their names, true errors and replications."""
    layouts = {f"{n} documents": [NUM_ROWS] * n for n in (10, 30, 100, 300, 1000)}
    layouts["30 unequal documents"] = list(SIZES_OF_UNEQUAL_DOCUMENTS) * 5
    layouts |= {f"{n} independent rows": [1] * n for n in (100, 1000)}
    models = {"calibrated": 1.0, "slightly overconfident": 1.2, "overconfident": 2.0}
    for model, logit_factor in models.items():
        truth = 0.0 if logit_factor == 1 else _true_calibration_error(logit_factor)
        for layout, sizes in layouts.items():

            def replicate(
                generator: np.random.Generator,
                sizes: Sequence[int] = sizes,
                logit_factor: float = logit_factor,
            ) -> Replication:
                return _replicate_calibration(generator, sizes, logit_factor)

            yield f"calibration error, {model}, {layout}", truth, replicate


def _true_calibration_error(logit_factor: float) -> float:
    """Return the calibration error of very many rows, one of each document."""
    sample = draw_sample(np.random.default_rng(1), [1] * NUM_TRUTH_DOCUMENTS, logit_factor)
    return calibration_error(*_choices_of(sample))


def _replicate_calibration(
    generator: np.random.Generator, sizes: Sequence[int], logit_factor: float
) -> Replication:
    """Draw rows, and compute their calibration error with its interval."""
    sample = draw_sample(generator, sizes, logit_factor)
    probabilities, is_true = _choices_of(sample)
    clusters = np.repeat(sample.documents, NUM_CHOICES).tolist()
    interval = calibration_interval(probabilities, is_true, clusters)
    assert interval is not None
    return Replication(calibration_error(probabilities, is_true), interval)


def _choices_of(sample: Sample) -> tuple[Floats, Floats]:
    """Return the probability and the truth of each choice."""
    is_true = np.zeros(sample.probabilities.shape)
    is_true[:, 0] = 1
    return sample.probabilities.ravel(), is_true.ravel()


def draw_sample(
    generator: np.random.Generator, sizes: Sequence[int], logit_factor: float
) -> Sample:
    """Draw the probabilities that a model gives to the choices of each row.

    The evidence x for a false choice has a standard normal distribution. That for the true choice
    has a mean that varies from document to document around `SIGNAL`. A calibrated model gives each
    choice the probability that follows by Bayes' theorem from the evidence in its row.

    Args:
        generator: The source of the random numbers.
        sizes: The number of rows in each document.
        logit_factor: The number by which the logit of each probability is multiplied: 1 for a
            calibrated model, and more for an overconfident one.
    """
    documents = np.repeat(np.arange(len(sizes)), sizes)
    signals = generator.normal(SIGNAL, DOCUMENT_SPREAD, len(sizes))
    evidence = generator.normal(size=(len(documents), NUM_CHOICES))
    evidence[:, 0] += signals[documents]

    # The logarithm of how much likelier this evidence is for a true choice than for a false one.
    variance = 1 + DOCUMENT_SPREAD**2
    log_odds = evidence**2 / 2 - (evidence - SIGNAL) ** 2 / (2 * variance)
    weights = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    calibrated = weights / weights.sum(axis=1, keepdims=True)
    # The logit of a probability that rounds to 1 would be infinite.
    logits = logit(np.clip(calibrated, 1e-12, 1 - 1e-12))
    return Sample(expit(logit_factor * logits), documents.tolist())


def _auroc_settings() -> Iterator[tuple[str, float, Callable[[np.random.Generator], Replication]]]:
    """Yield the settings of the AUROC: their names, true scores and replications."""
    for area in (0.6, 0.95):
        # The evidence for true and false choices of two rows differs by a normal distribution.
        signal = float(ndtri(area) * np.sqrt(2 + DOCUMENT_SPREAD**2))
        for num_documents in (10, 30, 100):

            def replicate(
                generator: np.random.Generator,
                num_documents: int = num_documents,
                signal: float = signal,
            ) -> Replication:
                return _replicate_auroc(generator, num_documents, signal)

            yield f"AUROC {area}, {num_documents} documents", area, replicate


def _replicate_auroc(
    generator: np.random.Generator, num_documents: int, signal: float
) -> Replication:
    """Draw rows, and compute their AUROC with its interval."""
    evidence = generator.normal(size=(num_documents, NUM_ROWS, NUM_CHOICES))
    signals = generator.normal(signal, DOCUMENT_SPREAD, num_documents)
    evidence[:, :, 0] += signals[:, None]
    rows = [
        ChoiceProbabilities(probabilities, gold=0, cluster=str(document))
        for document, rows_of_document in enumerate(expit(evidence).tolist())
        for probabilities in rows_of_document
    ]
    interval = auroc_interval(rows)
    assert interval is not None
    return Replication(auroc(rows), interval)


if __name__ == "__main__":
    main()
