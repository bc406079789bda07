"""The entries of the leaderboard's site, i.e. accepted and refused submissions, and their ranks.

`lm_factuality.leaderboard.site.build` makes the entries, and `board` ranks and shows them. The
file ``site.yaml`` states the rule of the ranks for readers of the site.
"""

import hashlib
import json
import os
import re
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
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.documents import hash_text
from lm_factuality.leaderboard.evidence import (
    Evidence,
    SampleEvidence,
    TaskEvidence,
    count_items,
)
from lm_factuality.leaderboard.submission import Submission
from lm_factuality.results.read import date_of
from lm_factuality.results.settings import settings_as_texts, settings_of

RANK_RULE: str = load_yaml(__package__, "site.yaml")["rule"]
"""What the site says on how ranks are made."""

Interval = tuple[float, float]

_ROUNDING = 1e-9
"""The largest difference between a score and its worst case that is only rounding."""


@dataclass(frozen=True)
class RankedScore:
    """A model's headline score on one task, with the rank that it gives the model."""

    task: str
    """The name of the task, such as ``wiki_factor``."""

    kind: str
    """The benchmark of the task, such as ``factor``."""

    figure: ScoreFigure
    """The score with its interval, as lm_eval and the labels give it."""

    higher_is_better: bool
    """Whether a higher score is better."""

    judge: str | None
    """The name of the judge, or None if nobody judged."""

    steps: tuple[CertificationStatus, ...]
    """Whether each step of the judge is certified."""

    items: int
    """How many responses or samples the task has, each of which could be unscored."""

    score_if_unscored_wrong: float | None
    """The score if all unscored items were wrong, or None if none is unscored."""

    answers_hash: str
    """A hash of all answers of the model, by which identical runs are found."""

    rank: int | None = None
    """The rank from 1, or None if the score has no interval."""

    @property
    def interval(self) -> Interval | None:
        """Return the interval by which models are ranked, as its lower and upper end.

        If items are unscored, the interval ends at the score with all of them counted as wrong, so
        that a model cannot win a rank by unscored items.

        Example:
            The score with unscored items counted as wrong is 0.75, and higher is better. Then the
            interval (0.7, 0.9) becomes (0.7, 0.75), and (0.8, 0.9) becomes (0.75, 0.75).

        Returns:
            The interval, or None if it is unknown, or if items are unscored and the score with
            them counted as wrong is unknown.
        """
        # Labels by people correct the judge's errors, so this interval replaces the measured one.
        figure = self.figure.corrected or self.figure
        low = figure.low
        high = figure.high
        if low is None or high is None:
            return None
        score_if_wrong = self.score_if_unscored_wrong
        if score_if_wrong is None:
            return None if self.figure.unscored else (low, high)
        if self.higher_is_better:
            return min(low, score_if_wrong), score_if_wrong
        return score_if_wrong, max(high, score_if_wrong)

    @property
    def sort_value(self) -> float:
        """Return the score by which models of the same rank are sorted.

        It is the score with all unscored items counted as wrong. Without unscored items, it is
        the score corrected by people's labels, or else the measured score.
        """
        if self.score_if_unscored_wrong is not None:
            return self.score_if_unscored_wrong
        return (self.figure.corrected or self.figure).value


class RefusedEntry(NamedTuple):
    """A submission that was refused and has no rank."""

    folder: str
    """The path of the submission, relative to the folder of all submissions."""

    model: str
    """The name of the model, or ``not known``."""

    problems: tuple[tuple[str, str], ...]
    """A code and a sentence for each reason."""


@dataclass(frozen=True)
class LeaderboardEntry:
    """A submission that was accepted and is shown on a leaderboard."""

    folder: str
    """The path of the submission, relative to the folder of all submissions."""

    digest: str
    """A hash of all its files."""

    submission: Submission
    """The content of its ``submission.json``."""

    backend: str
    """The backend of lm_eval that ran the model, such as ``hf``."""

    num_parameters: float | None
    """The number of the model's parameters, or None if it is unknown."""

    date: str
    """When its newest run began (ISO 8601, UTC)."""

    scores: dict[str, RankedScore]
    """The headline score of each task, by the name of the task."""

    settings: Mapping[str, Mapping[str, str]]
    """The settings that can change a score, by the name of the task, then of the setting."""

    rerun: str = ""
    """The outcome of running a part of the submission again, or empty if nobody did."""

    twins: tuple[str, ...] = ()
    """Models of another name that gave the same answers to a whole task."""

    @property
    def model(self) -> str:
        """Return the name of the model, such as ``facebook/opt-125m``."""
        return self.submission.model.name

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the name, revision, dtype and backend that make two entries one model."""
        model = self.submission.model
        return model.name, model.revision, model.dtype, self.backend

    @property
    def slug(self) -> str:
        """Return the file name of the model's page, without its suffix.

        Example:
            ``facebook/opt-125m`` gives ``facebook-opt-125m-`` and 16 digits of a hash.
        """
        readable_name = re.sub(r"[^A-Za-z0-9]+", "-", self.model)[:60]
        # The hash keeps apart models that differ only in revision, dtype or backend.
        identity = "\0".join(self.identity).encode("utf-8", "replace")
        digest = hashlib.sha256(identity).hexdigest()
        return f"{readable_name}-{digest[:16]}"

    @property
    def size_label(self) -> str:
        """Return the number of parameters as a label, such as ``7B``."""
        return size_label(self.num_parameters or 0)

    @property
    def access(self) -> str:
        """Return where the weights are: ``open weights``, ``local weights`` or ``API``."""
        revision = self.submission.model.revision
        if revision.startswith("sha256:"):
            return "local weights"
        if revision.startswith("api:"):
            return "API"
        # Any other revision is a commit on the Hub.
        return "open weights"

    @property
    def run_label(self) -> str:
        """Describe how the model was run, with its revision shortened to ten digits.

        Example:
            ``0123456789 · bfloat16 · hf``
        """
        model = self.submission.model
        # A revision is a commit, ``sha256:HASH`` or ``api:NAME``. The name is not shortened.
        revision = re.sub(r"^(sha256:)?([0-9a-f]{10})[0-9a-f]+$", r"\1\2", model.revision)
        return " · ".join((revision, model.dtype, self.backend))


def digest_of(folder: Path) -> str:
    """Hash the names and contents of all files of a submission.

    Args:
        folder: The folder of the submission.

    Returns:
        A SHA-256 in hexadecimal. It changes if any file is changed, added or renamed.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    # Zero bytes separate the parts, since no file name can contain one.
    for path in sorted(folder.iterdir()):
        digest.update(os.fsencode(f"{path.name}\0file\0{sha256_of(path)}\0"))
    return digest.hexdigest()


def to_entry(evidence: Evidence, folder: str, digest: str) -> LeaderboardEntry:
    """Make the leaderboard entry of an accepted submission.

    Args:
        evidence: The parsed submission, with the rules that name the headline score of each task,
            i.e. the score that ranks the models.
        folder: The path of the submission, relative to the folder of all submissions.
        digest: The hash of the submission's files.

    Returns:
        The entry, whose scores have no ranks yet.
    """
    scores = {}
    # Tasks without a headline score rank no models.
    for task_name, metric in evidence.rules.headlines.items():
        score = _headline_score(evidence, evidence.tasks[task_name], metric)
        if score is not None:
            scores[task_name] = score

    # The properties of the model are the same in all files, but for the date.
    newest = max(evidence.files, key=lambda file: file.date)
    return LeaderboardEntry(
        folder=folder,
        digest=digest,
        submission=evidence.submission,
        backend=newest.backend,
        num_parameters=newest.num_parameters,
        date=date_of(newest),
        scores=scores,
        settings={name: _displayed_settings(task) for name, task in evidence.tasks.items()},
    )


def _displayed_settings(task_evidence: TaskEvidence) -> dict[str, str]:
    """Collect the settings that can change the score of a task, for the model's page.

    Returns:
        Versions, data, decoding and the judge's configuration as printable texts, by name, such as
        ``{"window": "1024", "judge, temperature": "0"}``.
    """
    task = task_evidence.task
    settings: dict[str, Any] = settings_of(task_evidence.file, task)
    settings["rows"] = task.effective
    judge = as_mapping(task.metadata.get("judge_config"))
    for name, value in judge.items():
        settings[f"judge, {name}"] = value

    # Strangers wrote these names and values, which could hold control characters.
    return {printable(name): printable(text) for name, text in settings_as_texts(settings).items()}


def _headline_score(
    evidence: Evidence, task_evidence: TaskEvidence, metric: str
) -> RankedScore | None:
    """Read the score by which a task is ranked from the results.

    Args:
        evidence: The parsed submission, which can hold a judge's certificate.
        task_evidence: The results and samples of the task.
        metric: The name of the headline score, such as ``factor_acc``.

    Returns:
        The score without a rank, or None if the results do not define it.
    """
    # The metadata of a task tells how its judge was certified. The packed certificate is a file of
    # its own, and is added to the metadata here.
    task = _with_packed_certificate(task_evidence.task, evidence)
    figure = score_figure(task, metric)
    benchmark = find_benchmark(task.kind)
    if figure is None or benchmark is None:
        return None

    # The texts contain names that a stranger chose.
    steps = []
    for step in benchmark.certification_statuses(task.metadata):
        steps.append(replace(step, text=printable(step.text)))
    judge = task.metadata.get("judge_config")
    # A score without a direction is ranked as if higher were better.
    higher_is_better = displayed_score(task.kind, metric).higher_is_better is not False
    return RankedScore(
        task=task.task,
        kind=task.kind,
        figure=figure,
        higher_is_better=higher_is_better,
        judge=printable(str(judge["name"])) if judge else None,
        steps=tuple(steps),
        items=count_items(task),
        score_if_unscored_wrong=_score_if_unscored_are_wrong(figure, higher_is_better),
        answers_hash=_hash_answers(task_evidence.samples),
    )


def _hash_answers(samples: SampleEvidence | None) -> str:
    """Hash all answers of a model, in any order. The hash is empty if a run has no samples."""
    if samples is None:
        return ""
    return hash_text(json.dumps(sorted(samples.answers.items())))


def _with_packed_certificate(task: TaskResult, evidence: Evidence) -> TaskResult:
    """Return a task with the packed certificate of its judge among its metadata.

    The packed certificate is the file ``certificate.json`` of the submission. A certificate is
    marked as claimed if the check could not compute it again from the judge's answers.

    Args:
        task: The results of the task, whose metadata can hold certificates already.
        evidence: The parsed submission.
    """
    certificates = {}
    # The results hold no answers of the judge, from which a certificate could be computed.
    for setting, summary in as_mapping(task.metadata.get("judge_certificate")).items():
        certificates[setting] = {**as_mapping(summary), "claimed": True}
    if evidence.certificate:
        summary = summarize_certificate(evidence.certificate)
        is_recomputed = not evidence.recomputation.obstacle
        summary["claimed"] = not is_recomputed
        certificates[str(evidence.certificate["setting"])] = summary
    return replace(task, metadata={**task.metadata, "judge_certificate": certificates})


def _score_if_unscored_are_wrong(score: ScoreFigure, higher_is_better: bool) -> float | None:
    """Compute the score that a model would have if all unscored items were wrong.

    Example:
        The measured score is 0.8, and 0.7 in the worst case. People's labels have corrected it to
        0.75, with an interval from 0.65 to 0.85. The result is 0.55: the lower end of the interval
        less the loss of 0.1.

    Args:
        score: The score with its worst case, in which unscored items and unscored parts of
            responses count as wrong.
        higher_is_better: Whether a higher score is better. If not, the loss is added to the upper
            end of the interval.

    Returns:
        The worst case. For a score that people's labels have corrected, the worse end of its
        interval after the same loss. None if nothing is unscored.
    """
    if score.worst is None:
        return None
    # The loss is positive, also if a lower score is better.
    loss = abs(score.value - score.worst)
    if not score.unscored and loss <= _ROUNDING:
        return None
    # The correction knows the judge's errors, but not what unscored items would score.
    corrected = score.corrected
    if corrected is None:
        return score.worst
    return corrected.low - loss if higher_is_better else corrected.high + loss


def rank_scores(intervals: Sequence[Interval | None], higher_is_better: bool) -> list[int | None]:
    """Rank scores by their 95% intervals, so that scores that cannot be told apart share a rank.

    The rank is one more than the number of scores whose interval lies wholly on the better side.

    Example:
        The intervals (0.7, 0.8), (0.6, 0.75) and (0.4, 0.5) have the ranks 1, 1 and 3.

    Args:
        intervals: The lower and upper end for each score, or None if it is unknown.
        higher_is_better: Whether higher scores are better.

    Returns:
        The ranks in the order of the intervals. A score without an interval has the rank None,
        and does not affect the other ranks.
    """
    competitors = [interval for interval in intervals if interval is not None]
    ranks: list[int | None] = []
    for interval in intervals:
        if interval is None:
            ranks.append(None)
            continue
        low, high = interval
        # Intervals that overlap with this one are neither better nor worse.
        if higher_is_better:
            num_better = sum(competitor_low > high for competitor_low, _ in competitors)
        else:
            num_better = sum(competitor_high < low for _, competitor_high in competitors)
        ranks.append(1 + num_better)
    return ranks
