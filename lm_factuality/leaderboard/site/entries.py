"""What the leaderboard knows of a submission (whether it was accepted, its scores and its
settings), and ranks with ties, by the rule in ``site.yaml``: a rank says how many models are ahead
beyond doubt, not who is ahead by luck. Where rows are unscored, the better end of an interval is
the score if all of them were wrong: over all rows it would lie no lower, whatever they gave."""

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import Stated
from lm_factuality.benchmarks.chosen import Figure, figure, score_called
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.model_names import size_label
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.check import Checked
from lm_factuality.leaderboard.evidence import answers_digest
from lm_factuality.leaderboard.rules import Rules
from lm_factuality.leaderboard.runs import items_of
from lm_factuality.leaderboard.submission import Submission, SubmittedTask

SITE: Mapping[str, Any] = load_yaml(__package__, "site.yaml")
Interval = tuple[float, float]
_ROUNDING = 1e-9  # by which a score and its worst case differ where nothing is unscored


@dataclass(frozen=True, kw_only=True)
class Score(Figure):
    """The figure that a task is ranked by; ``higher`` says which way is better, ``steps`` what is
    known of its judge. ``items`` may be unscored, ``if_wrong`` is the score if all that are were
    wrong, None if none is, ``answers`` a hash of the answers."""

    task: str
    kind: str
    higher: bool
    judge: str | None = None
    steps: tuple[Stated, ...] = ()
    items: int = 0
    if_wrong: float | None = None
    answers: str = ""

    @property
    def interval(self) -> Interval | None:
        """What it is ranked by; None where its interval is not known, or rows are unscored and the
        worst case is not known."""
        low, high = (
            (self.corrected.low, self.corrected.high) if self.corrected else (self.low, self.high)
        )
        if low is None or high is None or (self.unscored and self.if_wrong is None):
            return None
        if self.if_wrong is None:
            return low, high
        return (
            (min(low, self.if_wrong), self.if_wrong)
            if self.higher
            else (self.if_wrong, max(high, self.if_wrong))
        )

    @property
    def surely(self) -> float:
        """What rows of one rank are ordered by: the value, corrected if it can be, or the worst
        case."""
        return (
            self.if_wrong
            if self.if_wrong is not None
            else self.corrected.value
            if self.corrected
            else self.value
        )


@dataclass(frozen=True)
class Entry:
    """A submission to one leaderboard. ``folder`` is what the site calls it, ``digest`` a hash of
    all its files, ``date`` when it was run (ISO 8601, UTC), ``settings`` by task what can change a
    score, ``files`` (path, SHA-256, bytes). One with ``problems`` (code, sentence) is refused and
    has no scores. ``rerun`` says what came of running a part of it again, empty if nobody did."""

    folder: str
    digest: str
    model: str
    leaderboard: str = ""
    revision: str = ""
    dtype: str = ""
    backend: str = ""
    num_parameters: float | None = None
    date: str = ""
    notes: str = ""
    scores: tuple[Score, ...] = ()
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: tuple[tuple[str, str, int], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    rerun: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        return self.model, self.revision, self.dtype, self.backend

    @property
    def slug(self) -> str:
        return f"{re.sub(r'[^A-Za-z0-9]+', '-', self.folder).strip('-')[:60]}-{self.digest[:16]}"

    @property
    def size(self) -> str:
        """The size in words, to filter by."""
        if self.num_parameters is None:
            return "not known"
        return next(
            (name for name, limit in SITE["sizes"].items() if self.num_parameters < limit),
            "80B and more",
        )

    @property
    def size_label(self) -> str:
        return size_label(self.num_parameters or 0)

    @property
    def access(self) -> str:
        return next(
            (name for start, name in SITE["weights"].items() if self.revision.startswith(start)),
            "open weights",
        )

    @property
    def judge(self) -> str:
        return ", ".join(sorted({score.judge for score in self.scores if score.judge})) or "none"

    @property
    def about(self) -> str:
        """How it was run, with a commit or hash by its first characters."""
        kind, colon, rest = self.revision.rpartition(":")
        revision = self.revision if kind == "api" else f"{kind}{colon}{rest[:10]}"
        return " · ".join(filter(None, (revision, self.dtype, self.backend)))


ENTRIES = TypeAdapter(Entry)  # by which the cache keeps them as JSON


def digest_of(folder: Path) -> str:
    """A hash of names and bytes of all files in ``folder``, and of where links lead. Raises
    OSError: a file cannot be read."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "file" if path.is_file() else "folder"
        content = (
            sha256_of(path) if kind == "file" else str(path.readlink()) if kind == "link" else ""
        )
        digest.update(os.fsencode(f"{path.relative_to(folder).as_posix()}\0{kind}\0{content}\0"))
    return digest.hexdigest()


def to_entry(
    checked: Checked, submission: Submission, rules: Rules, name: str, digest: str
) -> Entry:
    """An accepted submission, which the site calls ``name``, as the leaderboard shows it."""
    model, size, tasks = submission.model, submission.model.num_parameters, checked.tasks
    packed = submission.certificate.content if submission.certificate else {}
    scores = [
        _score(tasks[task], metric, packed)
        for task, metric in rules.headlines.items()
        if task in tasks
    ]
    run = (
        submission.leaderboard,
        model.revision,
        model.dtype,
        model.backend,
        None if size is None else float(size),
    )
    shown = tuple(score for score in scores if score is not None)
    settings = {task.task: _settings(submission, task) for task in submission.tasks}
    files = tuple((each.path, each.sha256, each.bytes) for each in submission.files)
    return Entry(
        name, digest, model.name, *run, submission.date, submission.notes, shown, settings, files
    )


def _score(task: TaskResult, metric: str, packed: Mapping[str, Any]) -> Score | None:
    certificates = {
        **(task.metadata.get("judge_certificate") or {}),
        str(packed.get("setting")): packed,
    }
    task = replace(task, metadata={**task.metadata, "judge_certificate": certificates})
    found, benchmark = figure(task, metric), find_benchmark(task.kind)
    if found is None:
        return None
    judge = task.metadata.get("judge_config") or {}
    higher = score_called(task.kind, metric).higher is not False
    stated = benchmark.certified(task.metadata) if benchmark else ()
    judged: Any = {"judge": str(judge["name"]) if judge else None, "steps": tuple(stated)}
    lost: Any = {"items": items_of(task), "if_wrong": _if_wrong(found, higher)}
    about: Any = {
        "task": task.task,
        "kind": task.kind,
        "higher": higher,
        "answers": answers_digest(task),
    }
    return Score(**vars(found), **about, **judged, **lost)


def _if_wrong(found: Figure, higher: bool) -> float | None:
    """See ``Score``; unscored parts of responses count too. Labels of people leave an interval: its
    worse end counts, less what unscored rows can take."""
    lost = 0.0 if found.worst is None else abs(found.value - found.worst)
    if found.worst is None or (not found.unscored and lost <= _ROUNDING):
        return None
    if found.corrected is None:
        return found.worst
    return found.corrected.low - lost if higher else found.corrected.high + lost


def _settings(submission: Submission, task: SubmittedTask) -> dict[str, str]:
    """What can change the score of a task, as texts: versions, data, protocol, decoding, the judge
    and its certificate."""
    versions = {
        "suite": submission.suite_version,
        "lm_eval": submission.lm_eval_version,
        "task version": task.version,
    }
    data = {f"data, {key}": value for key, value in task.data.items()}
    found: dict[str, Any] = {**versions, "rows": task.documents, **data, **task.settings}
    if task.judge:
        found |= {f"judge, {key}": value for key, value in task.judge.items()}
        found["judge, certificate"] = (
            submission.certificate.sha256 if submission.certificate else "none"
        )
    texts = {
        name: value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for name, value in found.items()
    }
    return {name: text for name, text in texts.items() if text not in ("", "null", "{}", "[]")}


def ranks(intervals: Sequence[Interval | None], higher_is_better: bool) -> list[int | None]:
    """The rank of each, from 1; None for those without an interval, which count for nobody's rank
    either."""
    sides = [
        each if each is None or higher_is_better else (-each[1], -each[0]) for each in intervals
    ]
    lows = sorted(low for low, _ in filter(None, sides))
    return [None if each is None else 1 + len(lows) - bisect_right(lows, each[1]) for each in sides]
