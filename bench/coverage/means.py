"""Means of rows that come in documents, and of independent rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import product

import numpy as np
from scipy.special import betaincinv, ndtr

from bench.coverage.cells import (
    WANTED,
    WANTED_OF_HARD,
    Cell,
    Floats,
    Replication,
    draw_sizes,
    measure,
)
from lm_factuality.scores.intervals import mean_interval

CORRELATIONS = (0.0, 0.2, 0.5)
"""The correlations of two rows of one document."""

MEANS = (0.5, 0.9, 0.99)
"""The shares of right rows."""


def clustered_cells(replications: int) -> list[Cell]:
    """Measure the mean of rows that are right or wrong, for 5 to 100 documents."""
    return _cells_of_documents((5, 10, 30, 100), replications)


def few_clusters_cells(replications: int) -> list[Cell]:
    """Measure the same mean for fewer documents than tables show an interval for."""
    return _cells_of_documents((2, 3, 4), replications)


def _cells_of_documents(numbers_of_documents: Iterable[int], replications: int) -> list[Cell]:
    """Measure the mean of rows in each number of documents."""
    cells = []
    for num_documents, correlation, mean in product(numbers_of_documents, CORRELATIONS, MEANS):
        setting = {
            "documents": f"{num_documents}",
            "correlation": f"{correlation}",
            "right": f"{mean:.0%}",
        }
        replicate = partial(
            _replicate_documents, num_documents=num_documents, correlation=correlation, mean=mean
        )
        wanted = WANTED_OF_HARD if num_documents < 10 or mean == 0.99 else WANTED
        cells.append(measure(setting, mean, replicate, replications, wanted))
    return cells


def _replicate_documents(
    generator: np.random.Generator, num_documents: int, correlation: float, mean: float
) -> Replication:
    """Draw rows of documents. The share of right rows differs between documents."""
    sizes = draw_sizes(generator, num_documents)
    shares = np.full(num_documents, mean)
    if correlation:
        # Rows of one document that share such a share have this correlation.
        concentration = (1 - correlation) / correlation
        shares = generator.beta(mean * concentration, (1 - mean) * concentration, num_documents)
    is_right = generator.random(sizes.sum()) < np.repeat(shares, sizes)
    documents = np.repeat(np.arange(num_documents), sizes)
    return _replication(is_right.astype(float), documents.tolist())


def independent_cells(replications: int) -> list[Cell]:
    """Measure the mean of independent rows that are right or wrong."""
    cells = []
    for num_rows, mean in product((20, 100, 1000), MEANS):
        setting = {"rows": f"{num_rows:,}", "right": f"{mean:.0%}"}
        replicate = partial(_replicate_rows, num_rows=num_rows, mean=mean)
        wanted = WANTED_OF_HARD if mean == 0.99 else WANTED
        cells.append(measure(setting, mean, replicate, replications, wanted))
    return cells


def _replicate_rows(generator: np.random.Generator, num_rows: int, mean: float) -> Replication:
    """Draw independent rows."""
    return _replication((generator.random(num_rows) < mean).astype(float))


def shares_cells(replications: int) -> list[Cell]:
    """Measure the mean of rows that are shares between 0 and 1, such as those of right facts."""
    cells = []
    for num_documents, correlation in product((10, 30, 100), CORRELATIONS):
        setting = {"documents": f"{num_documents}", "correlation": f"{correlation}"}
        replicate = partial(_replicate_shares, num_documents=num_documents, correlation=correlation)
        cells.append(measure(setting, 0.8, replicate, replications))
    return cells


def _replicate_shares(
    generator: np.random.Generator, num_documents: int, correlation: float
) -> Replication:
    """Draw rows with the distribution Beta(8, 2), whose mean is 0.8.

    The correlation is that of the normal numbers that are turned into shares.
    """
    sizes = draw_sizes(generator, num_documents)
    of_documents = np.repeat(generator.standard_normal(num_documents), sizes)
    of_rows = generator.standard_normal(sizes.sum())
    normal = np.sqrt(correlation) * of_documents + np.sqrt(1 - correlation) * of_rows
    documents = np.repeat(np.arange(num_documents), sizes)
    return _replication(betaincinv(8, 2, ndtr(normal)), documents.tolist())


def _replication(values: Floats, documents: list[int] | None = None) -> Replication:
    """Return the mean of drawn rows with its interval."""
    return Replication(float(values.mean()), mean_interval(values.tolist(), documents))
