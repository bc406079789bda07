"""The calibration error and the AUROC of the probabilities that a model gives to choices.

A row has four choices as in FACTOR, of which the first is the true one. The rows of a document
share how easily the true choice is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from bench.coverage.cells import Cell, Floats, Integers, Replication, measure
from lm_factuality.benchmarks.factor_chat.metrics import ChoiceProbabilities, auroc, auroc_interval
from lm_factuality.scores.calibration import calibration_error, calibration_interval

NUM_CHOICES = 4
"""The choices of each row."""

SIGNAL = 1.5
"""By how much the evidence for a true choice is above that for a false one, in deviations."""

DOCUMENT_SPREAD = 0.7
"""The standard deviation of the signal from document to document."""

LOGIT_FACTORS = {"calibrated": 1.0, "slightly overconfident": 1.2, "overconfident": 2.0}
"""The number by which each model multiplies the logits of a calibrated one."""

AREAS = (0.6, 0.95)
"""The true AUROCs."""

_NUM_TRUTH_ROWS = 400_000  # from which the true calibration error is computed


class Layout(NamedTuple):
    """Documents with their numbers of rows."""

    num_documents: int
    """The number of documents."""

    sizes: tuple[int, ...]
    """The numbers of rows, which repeat until each document has one."""

    @property
    def rows_of_documents(self) -> Integers:
        """The number of rows of each document."""
        return np.resize(self.sizes, self.num_documents)


LAYOUTS = {
    "10": [Layout(num_documents, (10,)) for num_documents in (10, 30, 100, 300, 1000)],
    "1 to 30": [Layout(30, (1, 2, 4, 8, 15, 30))],
    "1": [Layout(num_documents, (1,)) for num_documents in (100, 1000)],
}
"""The documents in which rows come, by the number of rows in each."""


def calibration_cells(replications: int) -> list[Cell]:
    """Measure the calibration error of 10 to 1,000 documents."""
    truths = {model: _true_calibration_error(factor) for model, factor in LOGIT_FACTORS.items()}
    cells = []
    for rows, layouts in LAYOUTS.items():
        for layout, (model, logit_factor) in product(layouts, LOGIT_FACTORS.items()):
            setting = {
                "documents": f"{layout.num_documents:,}",
                "rows of each": rows,
                "model": model,
            }
            replicate = partial(
                _replicate_calibration,
                rows_of_documents=layout.rows_of_documents,
                logit_factor=logit_factor,
            )
            cells.append(measure(setting, truths[model], replicate, replications))
    return cells


def _true_calibration_error(logit_factor: float) -> float:
    """Return the calibration error of very many rows, each of a document of its own."""
    if logit_factor == 1:
        return 0.0
    ones = np.ones(_NUM_TRUTH_ROWS, int)
    probabilities = draw_probabilities(np.random.default_rng(1), ones, logit_factor)
    return calibration_error(probabilities.ravel().tolist(), _is_true(probabilities))


def _replicate_calibration(
    generator: np.random.Generator, rows_of_documents: Integers, logit_factor: float
) -> Replication:
    """Draw rows, and compute their calibration error with its interval."""
    probabilities = draw_probabilities(generator, rows_of_documents, logit_factor)
    values = probabilities.ravel().tolist()
    is_true = _is_true(probabilities)
    choices_of_documents = NUM_CHOICES * rows_of_documents
    documents = np.repeat(np.arange(len(rows_of_documents)), choices_of_documents)
    interval = calibration_interval(values, is_true, documents.tolist())
    return Replication(calibration_error(values, is_true), interval)


def _is_true(probabilities: Floats) -> list[bool]:
    """Return whether each choice is true. It is if it is the first of its row."""
    is_true = np.zeros(probabilities.shape, bool)
    is_true[:, 0] = True
    return list(is_true.ravel().tolist())


def draw_probabilities(
    generator: np.random.Generator, rows_of_documents: Sequence[int] | Integers, logit_factor: float
) -> Floats:
    """Draw the probabilities that a model gives to the choices of each row.

    The evidence x for a false choice has a standard normal distribution. That for the true choice
    has a mean that varies from document to document around `SIGNAL`. A calibrated model gives each
    choice the probability that follows by Bayes' theorem from the evidence in its row.

    Args:
        generator: The source of randomness.
        rows_of_documents: The number of rows of each document.
        logit_factor: The number by which the logit of each probability is multiplied: 1 for a
            calibrated model, and more for an overconfident one.

    Returns:
        The probabilities, of shape (rows, choices). The first choice of each row is the true one.
    """
    signals = generator.normal(SIGNAL, DOCUMENT_SPREAD, len(rows_of_documents))
    evidence = generator.normal(size=(int(np.sum(rows_of_documents)), NUM_CHOICES))
    evidence[:, 0] += np.repeat(signals, rows_of_documents)

    # The logarithm of how much likelier this evidence is for a true choice than for a false one.
    variance = 1 + DOCUMENT_SPREAD**2
    log_odds = evidence**2 / 2 - (evidence - SIGNAL) ** 2 / (2 * variance)
    weights = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    calibrated = weights / weights.sum(axis=1, keepdims=True)
    # The logit of a probability that rounds to 1 would be infinite.
    logits = logit(np.clip(calibrated, 1e-12, 1 - 1e-12))
    return np.asarray(expit(logit_factor * logits))


def auroc_cells(replications: int) -> list[Cell]:
    """Measure the AUROC of 10 to 100 documents with ten rows each."""
    cells = []
    for num_documents, area in product((10, 30, 100), AREAS):
        setting = {"documents": f"{num_documents}", "AUROC": f"{area}"}
        # The evidence for a true choice less that for a false one of another row is normal.
        signal = float(ndtri(area) * np.sqrt(2 + DOCUMENT_SPREAD**2))
        replicate = partial(_replicate_auroc, num_documents=num_documents, signal=signal)
        cells.append(measure(setting, area, replicate, replications))
    return cells


def _replicate_auroc(
    generator: np.random.Generator, num_documents: int, signal: float
) -> Replication:
    """Draw rows, and compute their AUROC with its interval."""
    evidence = generator.normal(size=(num_documents, 10, NUM_CHOICES))
    signals = generator.normal(signal, DOCUMENT_SPREAD, num_documents)
    evidence[:, :, 0] += signals[:, None]
    rows = []
    for document, rows_of_document in enumerate(expit(evidence).tolist()):
        for probabilities in rows_of_document:
            rows.append(ChoiceProbabilities(probabilities, gold=0, cluster=str(document)))
    return Replication(auroc(rows), auroc_interval(rows))
