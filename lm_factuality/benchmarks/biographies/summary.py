"""From the scores of responses to those of a set: means over responses, intervals clustered by
name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_factuality.benchmarks.biographies.scores import Scores, score
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.declaration import (
    DIFFERENCE,
    PRECISION,
    SHARE,
    Score,
    bounds_of,
    interval_of,
)
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.scores.statistics import (
    MEAN,
    Aggregation,
    Outcome,
    clustered_stderr,
    defined,
    how_many,
    mean,
)


@dataclass(frozen=True)
class Row:
    """A response of a set: the ``name`` it is about, its scores, and why there are none."""

    name: str
    scores: Scores | None
    abstained: bool = False
    unscored: str | None = None

    @classmethod
    def of(cls, judged: JudgedBiography, protocol: str) -> Row:
        scores = score(judged, protocol)
        return cls(judged.generation.name, scores, judged.abstained, why_unscored(judged, scores))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Row:
        scores = record["scores"]
        return cls(
            record["name"],
            None if scores is None else Scores(**scores),
            record["abstained"],
            record["unscored"],
        )


MEANS = (  # of ``Scores``, in the order of tables
    *("factscore", "factscore_penalised", "d_factscore", "difference"),
    *("num_biographies", "num_entities", "facts_per_response", "one_bio_many_entities"),
)


def why_unscored(judged: JudgedBiography, scores: Scores | None) -> str | None:
    """Why a response that is no abstention has not all scores; None if it has."""
    if judged.ungrouped is not None:
        return f"not grouped: {judged.ungrouped}"
    if scores is None:
        return judged.problem
    if scores.factscore is None:
        return "no fact has a verdict"
    if scores.d_factscore is None:
        return (
            "no fact in a group has a verdict" if any(judged.groups) else "no fact left in a group"
        )
    return judged.problem


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Each of ``MEANS`` as ``{value, stderr, interval, responses}`` with its 95% interval and
    standard error, both clustered by name, ``factscore`` and ``d_factscore`` with ``worst`` and
    ``best``; ``respond_ratio``; responses, abstentions, unscored ones and their reasons; facts by
    outcome; responses by type; ``without_page``: of how many ``candidates`` (entities to link with)
    there is no page, and in how many ``responses`` of none. What is not defined is null."""
    scored = [row.scores for row in rows if row.scores is not None]
    kinds = Counter(scores.kind for scores in scored if scores.kind is not None)
    # Of a long reason what is not particular to one response.
    reasons = (
        why.split(": ", 1)[0] if len(why) > 60 else why
        for row in rows
        if (why := row.unscored) is not None
    )
    return {
        **means_of([row_metrics(row) for row in rows], (*MEANS, "respond_ratio"), SCORES),
        "responses": len(rows),
        "abstained": sum(row.abstained for row in rows),
        "unscored": {
            "responses": sum(row.unscored is not None for row in rows),
            "facts": sum(scores.unscored for scores in scored),
            "facts_in_groups": sum(scores.unscored_grouped for scores in scored),
            "reasons": dict(Counter(reasons).most_common()),
        },
        "facts": sum(scores.facts for scores in scored),
        "irrelevant_facts": sum(scores.irrelevant for scores in scored),
        "types": dict(kinds.most_common()),
        "candidates": sum(scores.candidates for scores in scored),
        "without_page": {
            "candidates": sum(scores.without_page for scores in scored),
            "responses": sum(0 < scores.candidates == scores.without_page for scores in scored),
        },
    }


def means_of(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], scores: Sequence[Score]
) -> dict[str, dict[str, Any]]:
    """Each of ``names``, which are among ``scores``, over the metrics of all rows, as ``summarise``
    has it."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        values = [row[name] for row in rows]
        value, stderr, responses = (
            defined(mean(values)),
            defined(clustered_stderr(values)),
            len(values) - values.count(None),
        )
        measure = next((score.measure for score in scores if score.name == name), None)
        ends_at = (
            None
            if value is None or stderr is None
            else interval_of(measure, value, stderr, responses)
        )
        found[name] = {
            "value": value,
            "stderr": stderr,
            "interval": ends_at and list(ends_at),
            "responses": responses,
        }
        for key, end in bounds_of(name, "worst", "best").items():
            if any(key in row for row in rows):
                found[name][end] = defined(mean([row[key] for row in rows]))
    return found


def row_metrics(row: Row) -> dict[str, Any]:
    """A response's part in every mean; None where it has none. At ``worst`` what has no verdict is
    not supported, at ``best`` it is, a whole response too; an abstention is in neither."""

    def part(name: str, otherwise: float | None = None) -> Outcome | None:
        found = getattr(row.scores, name, otherwise)
        return None if found is None else Outcome(found, row.name)

    defaults = bounds_of("factscore", 0.0, 1.0) | bounds_of("d_factscore", 0.0, 1.0)
    ends = {
        name: None if row.abstained else part(name, default) for name, default in defaults.items()
    }
    # Of a model that never ended thinking it is not known whether there is an answer.
    responded = None if row.unscored == UNFINISHED else Outcome(float(not row.abstained), row.name)
    return {
        **{name: part(name) for name in MEANS},
        **ends,
        "respond_ratio": responded,
        "unscored": row.unscored,
    }


D_FACTSCORE = Score("d_factscore", MEAN, PRECISION, "D-FActScore")
FACTSCORE = Score("factscore", MEAN, PRECISION, "FActScore")
SCORES = (
    D_FACTSCORE,
    FACTSCORE,
    Score(
        "difference",
        MEAN,
        DIFFERENCE,
        "Gap",
        False,
        note="FActScore minus D-FActScore",
    ),
    Score(
        "num_biographies",
        MEAN,
        None,
        "Biographies",
        None,
        1,
        2,
        note="individuals that a reader sees in a response",
    ),
    Score(
        "num_entities",
        MEAN,
        None,
        "Entities",
        None,
        1,
        2,
        note="people about whom a response says something true",
    ),
    Score(
        "one_bio_many_entities",
        MEAN,
        SHARE,
        "People merged",
        False,
        note="responses with one biography of several entities",
    ),
    Score("facts_per_response", MEAN, None, "Facts a response", None, 1, 1),
    Score("respond_ratio", MEAN, SHARE, "Answered"),
    Score("factscore_penalised", MEAN, PRECISION),
    *FACTSCORE.bounds(),
    *D_FACTSCORE.bounds(),
    Score("unscored", Aggregation(how_many), higher=False),
)
