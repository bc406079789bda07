"""What the leaderboard shows of a submission, and ranks with ties.

A rank says how many models are ahead beyond doubt, not who is ahead by luck: ``site.yaml`` has the
rule. Where rows are unscored, the better end of an interval is the score if all of them were wrong.
Over all rows it would lie no lower, whatever they gave.
"""

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from judges.certificates import summarize_certificate
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import CertificationStatus, as_mapping
from lm_factuality.benchmarks.chosen import ScoreFigure, displayed_score, score_figure
from lm_factuality.ground.errors import printable
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.model_names import size_label
from lm_factuality.ground.packages import load_yaml
from lm_factuality.leaderboard.evidence import (
    Evidence,
    TaskEvidence,
    count_scorable_items,
    hash_text,
)
from lm_factuality.leaderboard.rules import Rules
from lm_factuality.leaderboard.submission import Submission
from lm_factuality.results.read import date_of
from lm_factuality.results.settings import settings_of, texts_of

SITE: Mapping[str, Any] = load_yaml(__package__, "site.yaml")
Interval = tuple[float, float]

_ROUNDING = 1e-9
"""By how much a score and its worst case differ where nothing is unscored."""


@dataclass(frozen=True)
class RankedScore:
    """The score by which a task is ranked."""

    task: str
    kind: str
    figure: ScoreFigure
    higher: bool
    """Whether higher is better."""

    judge: str | None
    steps: tuple[CertificationStatus, ...]
    """What is known of each step of the judge."""

    items: int
    """How many items could be unscored."""

    if_wrong: float | None
    """The score if all unscored items were wrong, or None if none is unscored."""

    answers: str
    """A hash of what the model answered."""

    rank: int | None = None

    @property
    def interval(self) -> Interval | None:
        """What the score is ranked by.

        It is None if its interval is not known, or if rows are unscored and the worst case is not
        known.
        """
        corrected = self.figure.corrected
        low, high = self.figure.low, self.figure.high
        if corrected is not None:
            low, high = corrected.low, corrected.high
        if low is None or high is None:
            return None
        if self.if_wrong is None:
            return None if self.figure.unscored else (low, high)
        if self.higher:
            return min(low, self.if_wrong), self.if_wrong
        return self.if_wrong, max(high, self.if_wrong)

    @property
    def value_in_doubt(self) -> float:
        """What rows of one rank are ordered by: the worst case, the corrected score or the
        score."""
        if self.if_wrong is not None:
            return self.if_wrong
        return self.figure.corrected.value if self.figure.corrected else self.figure.value


class RefusedEntry(NamedTuple):
    """A submission that is not shown on a leaderboard."""

    folder: str
    model: str
    problems: tuple[tuple[str, str], ...]
    """A code and a sentence for each reason."""


@dataclass(frozen=True)
class LeaderboardEntry:
    """A submission that was accepted."""

    folder: str
    """What the site calls it."""

    digest: str
    """A hash of all its files."""

    submission: Submission
    backend: str
    num_parameters: float | None
    date: str
    """When its newest run began (ISO 8601, UTC)."""

    scores: Mapping[str, RankedScore]
    """By task, the scores that are ranked."""

    settings: Mapping[str, Mapping[str, str]]
    """By task, what can change a score."""

    rerun: str = ""
    """What came of running a part of it again; empty if nobody did."""

    twins: tuple[str, ...] = ()
    """Models of another name that gave the same answers to a whole task."""

    @property
    def model(self) -> str:
        return self.submission.model.name

    @property
    def dtype(self) -> str:
        return self.submission.model.dtype

    @property
    def identity(self) -> tuple[str, ...]:
        """What entries of one model have in common."""
        model = self.submission.model
        return model.name, model.revision, model.dtype, self.backend

    @property
    def slug(self) -> str:
        """The name of the page of its model."""
        digest = hashlib.sha256("\0".join(self.identity).encode("utf-8", "replace"))
        return f"{re.sub(r'[^A-Za-z0-9]+', '-', self.model)[:60]}-{digest.hexdigest()[:16]}"

    @property
    def size_label(self) -> str:
        return size_label(self.num_parameters or 0)

    @property
    def access(self) -> str:
        """Where the weights are to be had."""
        for start, name in SITE["weights"].items():
            if self.submission.model.revision.startswith(start):
                return str(name)
        return "open weights"

    @property
    def about(self) -> str:
        """How it was run, with a commit or hash by its first characters."""
        model = self.submission.model
        kind, colon, rest = model.revision.rpartition(":")
        revision = model.revision if kind == "api" else f"{kind}{colon}{rest[:10]}"
        return " · ".join((revision, model.dtype, self.backend))


def digest_of(folder: Path) -> str:
    """A hash of the names and bytes of all files of a submission.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(os.fsencode(f"{path.name}\0file\0{sha256_of(path)}\0"))
    return digest.hexdigest()


def to_entry(evidence: Evidence, rules: Rules, folder: str, digest: str) -> LeaderboardEntry:
    """An accepted submission as the leaderboard shows it."""
    newest = max(evidence.files, key=lambda file: file.date)
    scores = {}
    settings = {}
    for name, task in evidence.tasks.items():
        settings[name] = _settings_of(evidence, task)
    for name, metric in rules.headlines.items():
        score = _rank(evidence, evidence.tasks[name], metric)
        if score is not None:
            scores[name] = score
    return LeaderboardEntry(
        folder=folder,
        digest=digest,
        submission=evidence.submission,
        backend=newest.backend,
        num_parameters=newest.num_parameters,
        date=date_of(newest),
        scores=scores,
        settings=settings,
    )


def ranks(intervals: Sequence[Interval | None], higher_is_better: bool) -> list[int | None]:
    """The rank of each score, from 1.

    A score without an interval has no rank, and counts for nobody else's.
    """
    sides = [
        interval if interval is None or higher_is_better else (-interval[1], -interval[0])
        for interval in intervals
    ]
    lows = sorted(interval[0] for interval in sides if interval is not None)
    return [
        None if interval is None else 1 + len(lows) - bisect_right(lows, interval[1])
        for interval in sides
    ]


def _rank(evidence: Evidence, of_task: TaskEvidence, metric: str) -> RankedScore | None:
    """The score by which a task is ranked, or None if it is not defined."""
    task = of_task.task
    certificates = dict(task.metadata.get("judge_certificate") or {})
    if evidence.certificate:
        certificates[str(evidence.certificate["setting"])] = summarize_certificate(
            evidence.certificate
        )
    task = replace(task, metadata={**task.metadata, "judge_certificate": certificates})
    shown_figure = score_figure(task, metric)
    benchmark = find_benchmark(task.kind)
    if shown_figure is None or benchmark is None:
        return None
    judge = task.metadata.get("judge_config")
    higher = displayed_score(task.kind, metric).higher_is_better is not False
    return RankedScore(
        task=task.task,
        kind=task.kind,
        figure=shown_figure,
        higher=higher,
        judge=printable(str(judge["name"])) if judge else None,
        steps=tuple(
            replace(step, text=printable(step.text))
            for step in benchmark.certification_statuses(task.metadata)
        ),
        items=count_scorable_items(task),
        if_wrong=_value_if_wrong(shown_figure, higher),
        answers=hash_text(json.dumps(sorted(of_task.samples.answers))) if of_task.samples else "",
    )


def _value_if_wrong(score: ScoreFigure, higher: bool) -> float | None:
    """The score if all unscored items were wrong, or None if none is unscored.

    Unscored parts of responses count too. Labels of people leave an interval: its worse end
    counts, less what unscored rows can take.
    """
    if score.worst is None:
        return None
    lost = abs(score.value - score.worst)
    if not score.unscored and lost <= _ROUNDING:
        return None
    if score.corrected is None:
        return score.worst
    return score.corrected.low - lost if higher else score.corrected.high + lost


def _settings_of(evidence: Evidence, of_task: TaskEvidence) -> dict[str, str]:
    """What can change the score of a task, as texts: versions, data, decoding and the judge."""
    settings: dict[str, Any] = {
        **settings_of(of_task.file, of_task.task),
        "rows": of_task.task.effective,
    }
    judge = as_mapping(of_task.task.metadata.get("judge_config"))
    for name, value in judge.items():
        settings[f"judge, {name}"] = value
    for packed in evidence.submission.files:
        if judge and packed.path == evidence.submission.certificate:
            settings["judge, certificate"] = packed.sha256
    return {printable(name): printable(text) for name, text in texts_of(settings).items()}
