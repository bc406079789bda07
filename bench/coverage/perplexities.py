"""Perplexities of documents of different lengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from bench.coverage.cells import Cell, Floats, Replication, draw_sizes, measure
from lm_factuality.scores.intervals import perplexity_interval

MEAN_LOSS = 3.0
"""The mean loss per token in nats."""

SPREAD = 0.4
"""The standard deviation of the documents' losses in nats."""


def _draw_normal(generator: np.random.Generator, num_documents: int) -> Floats:
    """Draw the loss of each document from a normal distribution."""
    return generator.normal(MEAN_LOSS, SPREAD, num_documents)


def _draw_skewed(generator: np.random.Generator, num_documents: int) -> Floats:
    """Draw losses of which some are far above the mean, from an exponential distribution."""
    return MEAN_LOSS - SPREAD + generator.exponential(SPREAD, num_documents)


LOSSES = {"normal": _draw_normal, "skewed": _draw_skewed}
"""The distributions of the documents' losses by name."""


def perplexity_cells(replications: int) -> list[Cell]:
    """Measure perplexities of 10 to 100 documents."""
    cells = []
    for num_documents, (name, draw_losses) in product((10, 30, 100), LOSSES.items()):
        setting = {"documents": f"{num_documents}", "losses": name}
        replicate = partial(_replicate, num_documents=num_documents, draw_losses=draw_losses)
        cells.append(measure(setting, math.exp(MEAN_LOSS), replicate, replications))
    return cells


def _replicate(
    generator: np.random.Generator,
    num_documents: int,
    draw_losses: Callable[[np.random.Generator, int], Floats],
) -> Replication:
    """Draw documents of 500 tokens on average, and compute their perplexity."""
    num_tokens = draw_sizes(generator, num_documents, mean=500)
    losses = draw_losses(generator, num_documents)
    perplexity = math.exp(float(losses @ num_tokens) / float(num_tokens.sum()))
    return Replication(perplexity, perplexity_interval(losses.tolist(), num_tokens.tolist()))
