"""What a submission says of a task, out of lm_eval's results: pack writes it, check makes it anew and compares."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from lm_factuality.leaderboard.submission import SubmittedTask
from lm_factuality.results import ResultsFile, TaskResult

# Of a task's metadata: what changes a score.
_SETTINGS = (
    "protocol", "window", "window_used", "stride", "spacing", "unit", "mode", "claims", "claims_from", "references", "prompts",
    "prompt_hashes", "contradiction", "demonstrations", "knowledge", "knowledge_identity", "linking",
)  # fmt: skip


def describe_task(file: ResultsFile, task: TaskResult, results: str, samples: str) -> SubmittedTask:
    """``results`` and ``samples`` are the paths of both in the submission."""
    judge = task.metadata.get("judge_config")
    return SubmittedTask(
        task.task, task.version, results, samples, dict(task.metadata.get("data") or {}), settings_of(file, task),
        task.effective, unscored_of(task), judge if isinstance(judge, dict) else None,
    )  # fmt: skip


def settings_of(file: ResultsFile, task: TaskResult) -> dict[str, Any]:
    """Everything about the run of a task that changes its scores, less what is not set."""
    found: dict[str, Any] = {name: task.metadata[name] for name in _SETTINGS if task.metadata.get(name) is not None}
    shots: Mapping[str, Any] = file.content.get("n-shot") or {}
    found["num_fewshot"] = shots.get(task.task, task.config.get("num_fewshot"))
    if task.config.get("generation_kwargs"):
        found |= {"generation_kwargs": task.config["generation_kwargs"], "repeats": task.config.get("repeats")}
    for name in ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn"):
        if file.content.get(name):
            found[name] = file.content[name]
    return found


def unscored_of(task: TaskResult) -> int:
    """How many responses of a task have no score (of ``factor_generation``: generations)."""
    value = task.metrics.get("unscored", 0.0)
    return int(value) if value == value else 0


def responses_of(task: TaskResult) -> int:
    """How many responses could have a score: documents times samples for each where each sample is scored by itself."""
    repeats = task.config.get("repeats") or 1
    return task.effective * (repeats if task.kind == "factor_generation" and isinstance(repeats, int) else 1)


def date_of(file: ResultsFile) -> str:
    """When a run began, in UTC."""
    return datetime.datetime.fromtimestamp(file.date, datetime.timezone.utc).isoformat(timespec="seconds")
