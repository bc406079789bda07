"""How near a judge comes to the known truth of the made-up biographies."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lm_factuality.benchmarks.biographies.scores import score
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, to_model

_SCORES = {"FActScore": "factscore", "D-FActScore": "d_factscore", "biographies": "num_biographies", "entities": "num_entities"}


@dataclass(frozen=True)
class Truth:
    """A line of ``sample_ambigbio_truth.jsonl``: the scores of the answer at place ``index`` of the sample's generations, over
    the claims that were written. Shares from 0 to 1, None for an answer without facts."""

    index: str
    name: str
    abstained: bool
    factscore: float | None
    d_factscore: float | None
    num_biographies: int
    num_entities: int


@dataclass(frozen=True)
class Measure:
    """Means over the ``responses`` that both have a value for, and Pearson's r between the values (NaN where one of them is
    always the same). ``difference`` is the judge's mean minus the true one."""

    name: str
    judge: float
    truth: float
    pearson: float
    responses: int

    @property
    def difference(self) -> float:
        return self.judge - self.truth


def read_truth(path: Path) -> list[Truth]:
    """What is true of the made-up biographies.

    Raises:
        DataError: the file cannot be read, or a line is none of it.
    """
    cure = "make it with: make sample"
    return read_lines(path, partial(to_model, Truth), cure, f"this is not the truth of made-up biographies; {cure}")


def compare_with_truth(judged: Sequence[JudgedBiography], truth: Sequence[Truth]) -> list[Measure]:
    """The scores of ``judged`` beside those over the claims that were written.

    Raises:
        DataError: the truth of a response is missing.
    """
    ours = [scores_of(each) for each in judged]
    true = [{} if known.abstained else vars(known) for known in truth_of(judged, truth)]
    return [measure(label, name, ours, true) for label, name in _SCORES.items()]


def truth_of(judged: Sequence[JudgedBiography], truth: Sequence[Truth]) -> list[Truth]:
    """What is true of each response.

    Raises:
        DataError: it is missing.
    """
    by_index = {each.index: each for each in truth}
    found = []
    for each in judged:
        known = by_index.get(each.generation.index)
        if known is None or known.name != each.generation.name:
            raise DataError(
                f"response {each.generation.index} ({each.generation.name}): found no truth about it; judge the generations that "
                "the truth belongs to"
            )
        found.append(known)
    return found


def scores_of(judged: JudgedBiography) -> Mapping[str, Any]:
    """The judge's scores by name; none of them for an answer without facts."""
    scores = score(judged)
    return {} if scores is None else vars(scores)


def measure(label: str, name: str, judged: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]]) -> Measure:
    """The score ``name`` of responses, by a judge and in truth."""
    pairs = [(ours.get(name), true.get(name)) for ours, true in zip(judged, truth, strict=True)]
    both = [pair for pair in pairs if None not in pair]
    if not both:
        return Measure(label, math.nan, math.nan, math.nan, 0)
    table = np.array(both, dtype=float)
    varies = bool(np.all(np.ptp(table, axis=0) > 0))
    pearson = float(np.corrcoef(table.T)[0, 1]) if varies else math.nan
    judge, true_mean = table.mean(axis=0)
    return Measure(label, float(judge), float(true_mean), pearson, len(both))
