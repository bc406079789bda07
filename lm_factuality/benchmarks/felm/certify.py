"""What a certificate says of a judge: its scores on FELM with intervals, beside those of judges that do not read."""

from collections.abc import Sequence
from typing import Any

from judges.judge import Judge
from judges.verify import SUPPORTED, Pair, verify
from lm_factuality.benchmarks.felm.baselines import BASELINES
from lm_factuality.benchmarks.felm.counts import LEVELS, SCORES, Counts, JudgedResponse, count_response
from lm_factuality.benchmarks.felm.questions import Questioner
from lm_factuality.benchmarks.felm.report import ALL, to_report
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.statistics import pooled_interval

_CONFIDENCE = 0.95
_BINS = 10


def measure(responses: Sequence[JudgedResponse], protocol: str) -> dict[str, Any]:
    """The scores, their 95% bootstrap intervals over responses, and those of judges that do not read, on all responses and on
    those alone that the judge has a verdict on."""
    scored = [each for each in responses if each.flagged is not None]
    return {
        "scores": to_report(responses, protocol),
        "intervals": {level: {score: _interval(scored, level, score) for score in SCORES} for level in LEVELS},
        "baselines": _baselines(responses, protocol),
        "baselines_where_scored": _baselines(scored, protocol),
    }


def calibrate(judge: Judge, rows: Sequence[FelmRow]) -> list[dict[str, Any]]:
    """How often ``judge`` is right about a segment with references, by the probability that it gives: of each tenth the number of
    ``units``, how many are ``supported`` by the labels, and on how many its verdict is ``wrong``."""
    questioner = Questioner("segment", "doc")
    known = [(row, questioner.ask(row).subject) for row in rows]
    asked = [
        (Pair(unit, tuple(subject["passages"])), label)
        for row, subject in known
        if subject["passages"]
        for unit, label in zip(subject["units"], row.labels, strict=True)
    ]
    bins = [{"low": each / _BINS, "high": (each + 1) / _BINS, "units": 0, "supported": 0, "wrong": 0} for each in range(_BINS)]
    for found, (_, label) in zip(verify(judge, [pair for pair, _ in asked], "calibrating"), asked, strict=True):
        if found.score is not None:
            bin_ = next(each for each in reversed(bins) if each["low"] <= found.score)
            bin_["units"] += 1
            bin_["supported"] += label
            bin_["wrong"] += (found.verdict == SUPPORTED) != label
    return bins


def _baselines(responses: Sequence[JudgedResponse], protocol: str) -> dict[str, Any]:
    return {name: to_report(judge_by(responses), protocol)[ALL] for name, judge_by in BASELINES.items()}


def _interval(scored: Sequence[JudgedResponse], level: str, score: str) -> list[float] | None:
    """Low and high end; None where the score is not defined."""
    counts = [count_response(each, level) for each in scored]
    rows = [(each.tp, each.fp, each.fn, each.tn) for each in counts]
    low, high = pooled_interval(rows, lambda totals: float(getattr(Counts(*map(int, totals)), score)), _CONFIDENCE)
    return None if low != low else [low, high]
