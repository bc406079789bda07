"""The metrics of FACTOR in open generation."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, methodcaller
from typing import Any

from lm_factuality.benchmarks.declaration import ACCURACY as _ACCURACY
from lm_factuality.benchmarks.declaration import SHARE, Score
from lm_factuality.benchmarks.factor_generation.marks import FALSE, TRUE
from lm_factuality.benchmarks.factor_generation.tally import (
    ACCURACY,
    SUBSETS,
    WEIGHTED,
    Counts,
    Record,
    RowTally,
    Totals,
    add,
    by_document,
    tally_row,
)
from lm_factuality.benchmarks.factor_generation.tally import SCORES as SCORE_NAMES
from lm_factuality.ground.statistics import Aggregation, Outcome, clustered_stderr, how_many, mean, pooled_stderr

_SCORES = {score if subset == WEIGHTED else f"{score}_{subset}": (subset, score) for subset in SUBSETS for score in SCORE_NAMES}
_BOUNDS = {"accuracy_worst": FALSE, "accuracy_best": TRUE}


def row_metrics(doc: Mapping[str, Any], verdict: Record) -> dict[str, Any]:
    """The tally of one row, under the name of every score that it is part of; ``doc`` holds what the scores say of it."""
    tally = tally_row(doc, verdict)
    right = doc["factor_acc"]
    return {
        **dict.fromkeys([*_SCORES, *_BOUNDS, "pairs_right"], tally),
        "factor_acc": None if right is None else Outcome(right, doc["doc_id"]),
        "unscored": verdict["marks"].count(None),
        "without_fact": doc["no_fact"] or None,
    }


def sums(sample: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """What a row adds to the scores of its marks, as ``Totals`` adds it up."""
    doc_id, group, counts, *pairs = sample[ACCURACY]
    return dict.fromkeys(_SCORES, tuple(RowTally(doc_id, group, Counts(*counts), *pairs).vector()))


def _of_totals(value: Callable[[Totals], float], has_stderr: bool = True) -> dict[str, Any]:
    def stderr(rows: Sequence[RowTally]) -> float:
        # Without a value there is no error of it, though draws may happen to have one.
        return math.nan if math.isnan(value(add(rows))) else pooled_stderr(by_document(rows), lambda sums: value(Totals.of(sums)))

    aggregation = Aggregation(lambda rows: value(add(rows)), stderr if has_stderr else None)
    return {"aggregation": aggregation, "of_sums": lambda sums: value(Totals.of(sums))}


_LABELS = {"accuracy": "True of true and false", "true": "True", "false": "False", "neutral": "Neither"}
_HIGHER = {"false": False, "neutral": None}


def _scores() -> Iterator[Score]:
    for name, (subset, score) in _SCORES.items():
        note = "weighted as in section 6 of the paper" if name == ACCURACY else ""
        measure, higher = _ACCURACY if score == ACCURACY else SHARE, _HIGHER.get(score, True)
        found = _of_totals(methodcaller("score", subset, score))
        yield Score(name, measure=measure, label=_LABELS.get(name, ""), higher=higher, note=note, **found)
    for name, mark in _BOUNDS.items():
        yield Score(name, _of_totals(methodcaller("bound", mark), has_stderr=False)["aggregation"])
    yield Score("pairs_right", _of_totals(attrgetter("weight"))["aggregation"], SHARE)
    yield Score("factor_acc", Aggregation(mean, clustered_stderr), _ACCURACY)
    yield Score("unscored", Aggregation(lambda counts: float(sum(counts))), higher=False)
    yield Score("without_fact", Aggregation(how_many), higher=False)


SCORES = tuple(_scores())
