"""From verdicts to scores (section 4.1 of the paper): how well errors are found, by segment and by
response.

The positive class is *has an error*. A response has one if any of its segments has. Counts are
pooled over responses, never averaged. A response without a verdict is in no count; ``best`` and
``worst`` are the counts if all of them were judged rightly, or all wrongly."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lm_factuality.benchmarks.declaration import (
    BALANCED_ACCURACY,
    F1,
    PRECISION,
    RECALL,
    Score,
    bounds_of,
)
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response
from lm_factuality.scores.statistics import TOTAL, Aggregation, defined, how_many, pooled, ratio

LEVELS = ("segment", "response")
ALL = "ALL"
_BOUNDS = {
    "worst": False,
    "best": True,
}  # whether all that has no verdict is taken to be judged rightly


class Counts(NamedTuple):
    """Of segments or responses: errors found, false alarms, errors missed, and the rest."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    @property
    def precision(self) -> float:
        """Of what was flagged, the share that holds an error; NaN if nothing was flagged."""
        return ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """Of what holds an error, the share that was flagged; NaN if nothing does."""
        return ratio(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if errors exist and none was found, NaN if none
        exists or was flagged."""
        if not self.tp:
            return 0.0 if self.fp or self.fn else math.nan
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of both classes (Brodersen et al. 2010); NaN if one of them is
        empty."""
        return (self.recall + ratio(self.tn, self.tn + self.fp)) / 2


MEASURES = {
    "precision": PRECISION,
    "recall": RECALL,
    "f1": F1,
    "balanced_accuracy": BALANCED_ACCURACY,
}


def count(errors: Sequence[bool], flagged: Sequence[bool]) -> Counts:
    """Both have one entry a unit."""
    pairs = list(zip(errors, flagged, strict=True))
    return Counts(
        *(
            pairs.count(kind)
            for kind in ((True, True), (False, True), (True, False), (False, False))
        )
    )


def count_response(response: JudgedResponse, level: str, is_right: bool | None = None) -> Counts:
    """The counts of one response. If it has no verdict: zeros, or those of one that ``is_right`` or
    wrong throughout."""
    errors = response.errors if level == "segment" else [any(response.errors)]
    if response.flagged is not None:
        return count(errors, response.flagged if level == "segment" else [any(response.flagged)])
    return Counts() if is_right is None else count(errors, [error == is_right for error in errors])


def pool(responses: Iterable[JudgedResponse], level: str, is_right: bool | None = None) -> Counts:
    """The counts of all responses together, with those of ``count_response`` where there is no
    verdict."""
    rows = [count_response(response, level, is_right) for response in responses]
    return Counts(*map(sum, zip(*rows, strict=True)))


def to_report(responses: Sequence[JudgedResponse], protocol: str) -> dict[str, Any]:
    """``{"ALL" or a domain: {"segment" or "response": {tp, fp, fn, tn, precision, recall, f1,
    balanced_accuracy}}}``, and under ``unscored`` how many responses and segments are in none of
    these counts, why, and the scores at worst and at best."""
    domains = sorted({response.domain for response in responses})
    report: dict[str, Any] = {}
    for name in (ALL, *domains):
        members = [response for response in responses if name in (ALL, response.domain)]
        report[name] = {level: to_scores(pool(members, level)) for level in LEVELS}
    unscored = [response for response in responses if response.flagged is None]
    report["unscored"] = {
        "responses": len(unscored),
        "segments": sum(len(response.errors) for response in unscored),
        "reasons": dict(Counter(response.reason or "" for response in unscored).most_common()),
        "domains": {
            domain: sum(response.domain == domain for response in unscored) for domain in domains
        },
        **{
            name: {level: to_scores(pool(responses, level, is_right)) for level in LEVELS}
            for name, is_right in _BOUNDS.items()
        },
        "protocol": protocol,
    }
    return report


def to_scores(counts: Counts) -> dict[str, float | int | None]:
    """Counts and scores; None for a score that is not defined."""
    return {
        **counts._asdict(),
        **{name: defined(float(getattr(counts, name))) for name in MEASURES},
    }


def row_metrics(
    doc: Mapping[str, Any], results: Sequence[Any], protocol: str, mode: str
) -> dict[str, Any]:
    """The counts of one response, under the name of every score that they are part of; ``mode`` is
    the task's."""
    response = judge_document(doc, results, protocol)
    members = {"": True, **{f"_{domain}": domain == response.domain for domain in DOMAINS}}
    found: dict[str, Any] = {
        f"unscored{suffix}": response.reason if is_member else None
        for suffix, is_member in members.items()
    }
    if mode in MODES_WITH_REFERENCES:  # math and reasoning have none in any mode
        lacks = (
            doc["mode"] not in MODES_WITH_REFERENCES and response.domain not in WITHOUT_REFERENCES
        )
        found["without_references"] = float(lacks)
    for level in LEVELS:
        counts = count_response(response, level)
        for suffix, is_member in members.items():
            found |= {
                f"{level}_{score}{suffix}": list(counts if is_member else Counts())
                for score in MEASURES
            }
        ends = (list(count_response(response, level, is_right)) for is_right in _BOUNDS.values())
        found |= bounds_of(f"{level}_f1", *ends)
    return found


def judge_document(doc: Mapping[str, Any], results: Sequence[Any], protocol: str) -> JudgedResponse:
    """The verdict on a sample's document; ``results`` is lm_eval's: one text, or one list of texts
    to vote on."""
    outputs = [
        text for result in results for text in ([result] if isinstance(result, str) else result)
    ]
    about, owners, problem = (
        (doc["index"], doc["domain"], doc["labels"]),
        doc["owners"] or None,
        doc["problem"] or None,
    )
    return judge_response(*about, outputs, owners=owners, protocol=protocol, problem=problem)


def of_totals(score: str) -> Callable[[Sequence[float]], float]:
    """How a score follows from the sums of ``Counts``."""
    return lambda totals: float(getattr(Counts(*totals), score))  # type: ignore[arg-type]


def _pooled(score: str) -> Aggregation:
    return pooled(of_totals(score))


def _scores() -> Iterator[Score]:
    shown = [("f1", "F1"), ("balanced_accuracy", "Balanced accuracy")]
    for score, label in shown:
        for level in LEVELS:
            yield Score(f"{level}_{score}", _pooled(score), MEASURES[score], f"{label}, {level}s")
    for suffix in ("", *(f"_{domain}" for domain in DOMAINS)):
        for level in LEVELS:
            for score, measure in MEASURES.items():
                if suffix or score not in dict(shown):
                    yield Score(f"{level}_{score}{suffix}", _pooled(score), measure)
        yield Score(f"unscored{suffix}", Aggregation(how_many), higher=False)
    for level in LEVELS:
        yield from Score(f"{level}_f1", _pooled("f1")).bounds()
    yield Score("without_references", TOTAL, higher=False)


SCORES = tuple(_scores())
