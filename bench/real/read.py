"""Reads what steps leave in their folders, as lines of the table.

`bench.real.__main__` calls `read_tasks`, or the function that `bench.real.steps` names for a step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from bench.real.record import Line, StepContext, last_line, most_common
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

MOST_APART = 1e-4
"""By how much two ways of scoring a choice may differ, in nats per token."""


def read_tasks(context: StepContext) -> list[Line]:
    """Read the headline score of each task from the results of lm_eval."""
    lines = []
    for file in read_results_files([context.folder]):
        for task in file.tasks:
            lines.append(_line_of_task(task))
    return lines


def _line_of_task(task: TaskResult) -> Line:
    """Return the line of a task, with the main reason of its unscored items."""
    name = headline_name(task)
    figure = score_figure(task, name)
    shown_score = "not defined"
    if figure is not None:
        shown_score = _format_score(displayed_score(task.kind, name), figure)

    reasons: list[str] = []
    if task.samples is not None:
        for sample in read_samples(task.samples):
            reasons += _reasons_of_sample(sample)
    return Line(
        what=task.task,
        rows=task.effective,
        score=shown_score,
        unscored=task.unscored,
        reason=most_common(reasons),
    )


def _format_score(score: Score, figure: ScoreFigure) -> str:
    """Return a score with its interval, such as "Accuracy 32.2% [25.8 – 38.6]"."""
    unit = "%" if score.display_factor == 100 else ""
    value = f"{score.label} {score.format_value(figure.value)}{unit}"
    if figure.low is None or figure.high is None:
        return value
    return f"{value} [{score.format_interval(figure.low, figure.high)}]"


def _reasons_of_sample(sample: Mapping[str, Any]) -> Iterator[str]:
    """Yield why items of a sample have no score."""
    unscored = sample.get("unscored")
    if isinstance(unscored, str):
        # The reason of the whole row.
        yield unscored
    elif unscored:
        # The number of items. A judged response has a reason, or none, for each of them.
        judged_response = json.loads(sample["filtered_resps"][0])
        yield from filter(None, judged_response["reasons"])


def compare_with(step: str) -> Callable[[StepContext], list[Line]]:
    """Return a function that compares the scores of choices with those of an earlier step.

    It reads the one FACTOR task of its step. It raises a DataError if the mean log-probability of a
    choice differs by more than `MOST_APART`, or is not a number.

    Args:
        step: The name of the earlier step, which ran the same task on at least the same rows.
    """

    def read(context: StepContext) -> list[Line]:
        (file,) = read_results_files([context.folder])
        (task,) = file.tasks
        logprobs_by_row = _mean_logprobs(context.folder, task.task)
        earlier_logprobs_by_row = _mean_logprobs(context.out / step, task.task)
        differences = []
        for row, logprobs in logprobs_by_row.items():
            pairs = zip(logprobs, earlier_logprobs_by_row[row], strict=True)
            differences += [abs(logprob - earlier) for logprob, earlier in pairs]

        largest = f"{max(differences):.1e} nats a token from {step}"
        # A comparison with nan is false.
        if not all(difference <= MOST_APART for difference in differences):
            raise DataError(f"{context.name}: {largest}, expected at most {MOST_APART:g}")
        comparison = f"at most {largest} on {len(differences)} choices"
        return [Line(task.task, len(logprobs_by_row), comparison)]

    return read


def _mean_logprobs(folder: Path, task: str) -> dict[int, list[float]]:
    """Return the log-probability per token of each choice, by the number of the row."""
    return {
        sample["doc_id"]: sample["factor_mean_logprob"]
        for sample in read_task_samples(folder, task)
    }


def read_task_samples(folder: Path, task: str) -> Iterator[Mapping[str, Any]]:
    """Read the samples of a task from the one file below a folder that has them."""
    (path,) = folder.rglob(f"samples_{task}_[0-9]*.jsonl")
    return read_samples(path)


def read_judgements(context: StepContext) -> list[Line]:
    """Read the rate of errors that ``lm-factuality judge felm_gen`` finds."""
    metrics = _read_json(context.folder / "judged" / "metrics.json")
    error_rate = metrics["segment_error_rate"]
    counts = {}
    for reason, count in metrics["unscored"].items():
        # Responses without an answer have nothing to judge.
        if not reason.startswith("no answer"):
            counts[reason] = count
    return [
        Line(
            what="felm_gen",
            rows=metrics["responses"],
            score=_format_share(
                "Segments with errors", error_rate["value"], error_rate["interval"]
            ),
            unscored=sum(counts.values()),
            reason=_most_counted(counts),
        )
    ]


def read_certificate(context: StepContext) -> list[Line]:
    """Read how often a certified judge agrees with FELM's labels."""
    certificate = _read_json(context.folder / "certificate.json")
    scores = certificate["scores"]["ALL"]
    unscored = certificate["scores"]["unscored"]
    confusion = scores["response"]
    num_scored = sum(confusion[outcome] for outcome in ("tp", "fp", "fn", "tn"))
    interval = certificate["intervals"]["segment"]["f1"]
    return [
        Line(
            what=certificate["setting"],
            rows=num_scored + unscored["responses"],
            score=_format_share("F1, segments", scores["segment"]["f1"], interval),
            unscored=unscored["responses"],
            reason=_most_counted(unscored["reasons"]),
        )
    ]


def read_build(context: StepContext) -> list[Line]:
    """Read how many rows ``factor-gen`` made, and why most other documents gave none."""
    manifest = context.folder / "built" / "manifest.json"
    if not manifest.is_file():
        # The message is "no rows: none of the 3 documents gave one (REASONS); ADVICE".
        _, _, end_of_message = last_line(context.log).partition("gave one ")
        reasons, _, _ = end_of_message.partition(";")
        return [Line(f"{context.rows} documents", 0, "0 rows made", reason=reasons)]

    counts = _read_json(manifest)["counts"]
    unused = {}
    for group in counts["unused"]:
        unused[f"{group['stage']}: {group['reason']}"] = group["documents"]
    main_reason = _most_counted(unused)
    if main_reason:
        main_reason = f"documents without a row, most for {main_reason}"
    score = f"{counts['rows']} rows made"
    return [Line(f"{counts['documents']} documents", counts["rows"], score, reason=main_reason)]


def _most_counted(counts: Mapping[str, int]) -> str:
    """Return the most common of counted reasons with its count, as `most_common` does."""
    return most_common(chain.from_iterable(map(repeat, counts.keys(), counts.values())))


def _format_share(name: str, share: float | None, interval: Sequence[float] | None) -> str:
    """Return a share in per cent, such as "F1, segments 50.0% [31.2, 68.8]".

    Args:
        name: What it is a share of.
        share: The share from 0 to 1. None if it is not defined.
        interval: Its lower and upper end. None if there is none.
    """
    if share is None:
        return "not defined"
    shown_share = f"{name} {100 * share:.1f}%"
    if not interval:
        return shown_share
    low, high = interval
    return f"{shown_share} [{100 * low:.1f}, {100 * high:.1f}]"


def _read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
