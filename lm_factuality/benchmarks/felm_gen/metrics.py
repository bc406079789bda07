"""From marked responses to error rates: by segment and by response, over all and for each domain.

A response holds an error if any of its segments does. Rates are of pooled counts. What is no answer (empty, a refusal) and what
has no verdict is in no rate; ``worst`` and ``best`` are the rates if every response without a verdict were wrong throughout, or
right. What is no answer is in neither: there is nothing in it to be wrong."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.declaration import ERROR_RATE, Score
from lm_factuality.benchmarks.felm.rows import DOMAINS
from lm_factuality.benchmarks.felm_gen.steps import TYPES, UNTYPED
from lm_factuality.ground.statistics import Aggregation, defined, how_many, interval_of, pooled, pooled_interval, pooled_stderr
from lm_factuality.harness.generation import Verdict

ALL = "ALL"
LEVELS = ("segment", "response")
ERROR_KINDS = (*TYPES, UNTYPED)
_BOUNDS = ("worst", "best")
_CUTS = {"cut_by": "cut_by", "cuts_refused": "cut_refused"}  # of a summary and of a record


def error_rate(totals: Sequence[float]) -> float:
    """The share of units with an error; NaN where there are none."""
    return totals[0] / totals[1] if totals[1] else math.nan


def summarise(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """``{"ALL" or a domain: {"responses", "scored", "no_answer", "unscored", "segment" and "response": {errors, units,
    error_rate, stderr, interval, worst, best}, "error_types": {kind: segments}}}``; beside them why there is no verdict
    (``unscored``) or no answer (``no_answer``), and by whom the responses were cut (``cut_by``, ``cuts_refused``). Intervals
    are 95% percentile bootstrap intervals over responses; a rate that is not defined is null."""
    rows = [(verdict["domain"], row_metrics(verdict)) for verdict in verdicts]
    names = (ALL, *sorted({domain for domain, _ in rows}))
    counted = {key: _count(row[key] for _, row in rows) for key in ("unscored", "no_answer")}
    counted |= {name: _count(verdict[key] for verdict in verdicts) for name, key in _CUTS.items()}
    return {name: _of([row for domain, row in rows if name in (ALL, domain)]) for name in names} | counted


def _of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "responses": len(rows),
        "scored": sum(row["segment_error_rate"] is not None for row in rows),
        "no_answer": sum(row["no_answer"] is not None for row in rows),
        "unscored": sum(row["unscored"] is not None for row in rows),
        **{level: _rate(rows, f"{level}_error_rate") for level in LEVELS},
        "error_types": {kind: sum(row[f"errors_{kind}"] for row in rows) for kind in ERROR_KINDS},
    }


def _rate(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    counts = [row[name] for row in rows if row[name] is not None]
    errors, units = _sum(counts)
    return {
        "errors": errors,
        "units": units,
        "error_rate": defined(error_rate((errors, units))),
        "stderr": defined(pooled_stderr(counts, error_rate)),
        "interval": interval_of(pooled_interval(counts, error_rate)),
        **{bound: defined(error_rate(_sum([row[f"{name}_{bound}"] for row in rows]))) for bound in _BOUNDS},
    }


def _sum(counts: Sequence[Sequence[int]]) -> tuple[int, int]:
    return sum(row[0] for row in counts), sum(row[1] for row in counts)


def _count(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value for value in values if value is not None).most_common())


def row_metrics(verdict: Verdict) -> dict[str, Any]:
    """The counts of one response, (units with an error, units), under the name of every score that they are part of; a unit is
    a segment or the whole response. A response without a verdict has units in ``worst`` and ``best`` alone."""
    errors, is_unscored = verdict["errors"] or (), verdict["unscored"] is not None and verdict["no_answer"] is None
    types = Counter(errors)
    wrong = len(errors) - types[None]
    found: dict[str, Any] = {"unscored": verdict["unscored"] if is_unscored else None, "no_answer": verdict["no_answer"]}
    found |= {f"errors_{kind}": types[kind] for kind in ERROR_KINDS}
    segments = len(verdict["segments"]) or 1  # one for an answer that never came
    for level, counts, units in (
        ("segment", [wrong, len(errors)], segments),
        ("response", [int(wrong > 0), int(verdict["errors"] is not None)], 1),
    ):
        scored = None if verdict["unscored"] else counts
        found |= {f"{level}_error_rate": scored, f"{level}_error_rate_{verdict['domain']}": scored}
        ends = {"worst": [units, units], "best": [0, units]} if is_unscored else dict.fromkeys(_BOUNDS, counts)
        found |= {f"{level}_error_rate_{bound}": end for bound, end in ends.items()}
    return found


def _scores() -> Iterator[Score]:
    rate, bounding_rate = pooled(error_rate), pooled(error_rate, has_stderr=False)
    for level in LEVELS:
        yield Score(f"{level}_error_rate", rate, ERROR_RATE, f"{level.capitalize()}s with errors", False)
    for level in LEVELS:
        for domain in DOMAINS:
            yield Score(f"{level}_error_rate_{domain}", rate, ERROR_RATE, higher=False)
        for bound in _BOUNDS:
            yield Score(f"{level}_error_rate_{bound}", bounding_rate, higher=False)
    for kind in ERROR_KINDS:
        yield Score(f"errors_{kind}", Aggregation(lambda counts: float(sum(counts))), higher=False)
    for name in ("no_answer", "unscored"):
        yield Score(name, Aggregation(how_many), higher=False)


SCORES = tuple(_scores())
