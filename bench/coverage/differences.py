"""Differences between the scores of two models on the same rows."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bench.coverage.cells import Cell, Floats, Integers, Replication, draw_sizes, measure
from lm_factuality.scores.intervals import difference_interval

ACCURACIES = ((0.5, 0.5), (0.65, 0.45), (0.98, 0.93))
"""The shares of right rows of both models."""

NUMBERS_OF_UNITS = (20, 100, 1000)
"""The numbers of independent rows, or of documents."""

DOCUMENT_CORRELATION = 0.3
"""The correlation of two rows of one document, in the normal numbers that decide what is right."""


class Pair(NamedTuple):
    """Two models, the rows of which are right or wrong."""

    accuracies: tuple[float, float]
    """The share of right rows of each model."""

    shared: float
    """How far the difficulty of a row is the same for both models, from 0 to 1.

    It is the correlation of the normal numbers that decide what is right.
    """


def independent_cells(replications: int) -> list[Cell]:
    """Measure differences on independent rows."""
    return _cells("rows", 0.0, replications)


def clustered_cells(replications: int) -> list[Cell]:
    """Measure differences on rows of documents."""
    return _cells("documents", DOCUMENT_CORRELATION, replications)


def _cells(unit: str, correlation: float, replications: int) -> list[Cell]:
    """Measure differences on each number of units.

    Args:
        unit: What the units are: rows or documents.
        correlation: The correlation within documents. 0: each row is a unit.
        replications: The number of replications of each cell.
    """
    cells = []
    for num_units, shared, accuracies in product(NUMBERS_OF_UNITS, (0.3, 0.8), ACCURACIES):
        first, second = accuracies
        setting = {
            unit: f"{num_units:,}",
            "shared difficulty": f"{shared}",
            "models": f"{first} against {second}",
        }
        replicate = partial(
            _replicate, num_units=num_units, pair=Pair(accuracies, shared), correlation=correlation
        )
        cells.append(measure(setting, first - second, replicate, replications))
    return cells


def _replicate(
    generator: np.random.Generator, num_units: int, pair: Pair, correlation: float
) -> Replication:
    """Draw rows, let both models answer them, and compare."""
    sizes = np.ones(num_units, int)
    if correlation:
        sizes = draw_sizes(generator, num_units)
    first, second = _draw_answers(generator, sizes, pair, correlation)
    documents = np.repeat(np.arange(num_units), sizes).tolist() if correlation else None
    interval = difference_interval(first.tolist(), second.tolist(), documents)
    return Replication(float(np.mean(first - second)), interval)


def _draw_answers(
    generator: np.random.Generator, sizes: Integers, pair: Pair, correlation: float
) -> tuple[Floats, Floats]:
    """Draw which rows each model gets right.

    A row is right if a normal number is below a threshold. This number is a sum of parts of the
    document and of the row, each of which has a part that the models share.

    Args:
        generator: The source of randomness.
        sizes: The number of rows of each document.
        pair: The models.
        correlation: The correlation of two rows of one document.

    Returns:
        1 for each right row and 0 for each wrong one, for the first and the second model.
    """
    shared_by_document = generator.standard_normal(len(sizes))
    shared_by_row = generator.standard_normal(sizes.sum())
    answers = []
    for accuracy in pair.accuracies:
        model_by_document = generator.standard_normal(len(sizes))
        model_by_row = generator.standard_normal(sizes.sum())
        of_document = np.sqrt(pair.shared) * shared_by_document
        of_document += np.sqrt(1 - pair.shared) * model_by_document
        of_row = np.sqrt(pair.shared) * shared_by_row + np.sqrt(1 - pair.shared) * model_by_row
        difficulty = np.sqrt(correlation) * np.repeat(of_document, sizes)
        difficulty += np.sqrt(1 - correlation) * of_row
        answers.append((difficulty < ndtri(accuracy)).astype(float))
    return answers[0], answers[1]
