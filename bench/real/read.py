"""What a step left in its folder, as lines of the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.real.record import Line, Place, last_words, most_common
from lm_factuality.benchmarks.chosen import (
    ScoreFigure,
    displayed_score,
    headline_name,
    score_figure,
)
from lm_factuality.benchmarks.declaration import Score
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.results.read import read_results_files

CLOSE = 1e-4  # nats a token by which two ways of scoring a choice may differ


def tasks(place: Place) -> list[Line]:
    """The headline of each task of a run."""
    files = read_results_files([place.folder])
    return [_line(task) for file in files for task in file.tasks]


def _line(task: TaskResult) -> Line:
    name = headline_name(task)
    found = score_figure(task, name)
    samples = list(read_samples(task.samples)) if task.samples else []
    reasons = [reason for sample in samples for reason in _reasons(sample)]
    shown = _score(displayed_score(task.kind, name), found) if found else "not defined"
    return Line(
        task.task, task.effective, shown, int(task.metrics.get("unscored", 0)), most_common(reasons)
    )


def _score(score: Score, found: ScoreFigure) -> str:
    ends = (
        ""
        if found.low is None or found.high is None
        else f" [{score.format_interval(found.low, found.high)}]"
    )
    return f"{score.label} {score.format_value(found.value)}{'%' if score.display_factor == 100 else ''}{ends}"


def _reasons(sample: Any) -> Iterator[str]:
    """Why items of a sample have no score: of the whole row, or of each generation in it."""
    if isinstance(sample.get("unscored"), str):
        yield sample["unscored"]
    elif sample.get("unscored"):
        yield from filter(None, json.loads(sample["filtered_resps"][0])["reasons"])


def beside(other: str) -> Callable[[Place], list[Line]]:
    """The rows of a FACTOR task choice by choice beside those of the step ``other``."""

    def read(place: Place) -> list[Line]:
        (file,) = read_results_files([place.folder])
        (task,) = file.tasks
        ours, theirs = _means(place.folder, task.task), _means(place.out / other, task.task)
        apart = [
            abs(one - two) for row in ours for one, two in zip(ours[row], theirs[row], strict=True)
        ]
        if not all(each <= CLOSE for each in apart):
            raise DataError(
                f"{place.name}: {max(apart):.1e} nats a token from {other}, expected at most {CLOSE:g}"
            )
        return [
            Line(
                task.task,
                len(ours),
                f"at most {max(apart):.1e} nats a token from {other} on {len(apart)} choices",
            )
        ]

    return read


def _means(folder: Path, task: str) -> dict[int, list[float]]:
    (path,) = folder.rglob(f"samples_{task}_[0-9]*.jsonl")
    return {sample["doc_id"]: sample["factor_mean_logprob"] for sample in read_samples(path)}


def judged(place: Place) -> list[Line]:
    """The rate of errors that ``lm-factuality judge felm_gen`` found."""
    summary = _json(place.folder / "judged" / "metrics.json")
    rate = summary["segment_error_rate"]
    unscored = {
        reason: number
        for reason, number in summary["unscored"].items()
        if not reason.startswith("no answer")
    }
    reasons = most_common(reason for reason, number in unscored.items() for _ in range(number))
    return [
        Line(
            "felm_gen",
            summary["responses"],
            _share("Segments with errors", rate["value"], rate["interval"]),
            sum(unscored.values()),
            reasons,
        )
    ]


def certified(place: Place) -> list[Line]:
    """The scores of a certificate."""
    found = _json(place.folder / "certificate.json")
    whole, unscored = found["scores"]["ALL"], found["scores"]["unscored"]
    responses = (
        sum(whole["response"][each] for each in ("tp", "fp", "fn", "tn")) + unscored["responses"]
    )
    score = _share("F1, segments", whole["segment"]["f1"], found["intervals"]["segment"]["f1"])
    reasons = most_common(
        reason for reason, count in unscored["reasons"].items() for _ in range(count)
    )
    return [Line(found["setting"], responses, score, unscored["responses"], reasons)]


def built(place: Place) -> list[Line]:
    """How many rows ``factor-gen`` made of its documents, and what became of the others."""
    manifest = place.folder / "built" / "manifest.json"
    if not manifest.is_file():
        return [
            Line(
                f"{place.rows} documents",
                0,
                "0 rows made",
                reason=last_words(place.log).partition("gave one ")[2].partition(";")[0],
            )
        ]
    counts = _json(manifest)["counts"]
    unused = {f"{each['stage']}: {each['reason']}": each["documents"] for each in counts["unused"]}
    main = most_common(reason for reason, count in unused.items() for _ in range(count))
    without = f"documents without a row, most for {main}" if main else ""
    return [
        Line(
            f"{counts['documents']} documents",
            counts["rows"],
            f"{counts['rows']} rows made",
            reason=without,
        )
    ]


def _share(name: str, value: float | None, ends: list[float] | None) -> str:
    between = f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" if ends else ""
    return f"{name} {100 * value:.1f}%{between}" if value is not None else "not defined"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
