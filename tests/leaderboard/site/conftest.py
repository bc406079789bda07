"""Entries of a leaderboard as the check would have left them."""

from __future__ import annotations

from typing import Any

from lm_factuality.benchmarks.chosen import ScoreFigure
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.site.entries import LeaderboardEntry, RankedScore, RefusedEntry
from lm_factuality.leaderboard.submission import PackedFile, Submission, SubmittedModel
from tests.report.conftest import HOSTILE, browser

__all__ = ["HOSTILE", "browser", "make_entry", "make_score", "refuse"]

REVISION = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "ab" * 32  # the hash of a whole submission
RESULTS_SHA256 = "cd" * 32
RESULTS_BYTES = 1234


def make_score(
    value: float,
    half_width: float = 0.02,
    *,
    task: str = "wiki_factor",
    kind: str = "factor",
    metric: str = "factor_acc",
    higher_is_better: bool = True,
    unscored: int = 0,
    score_if_unscored_wrong: float | None = None,
    judge: str | None = None,
    backend: str = "openai",
    **figure_changes: Any,
) -> RankedScore:
    """Make a score by which a leaderboard ranks. By default it is an accuracy of FACTOR.

    Args:
        value: The score.
        half_width: The interval reaches this far to both sides.
        task: The name of the task.
        kind: The benchmark of the task.
        metric: The name of the score.
        higher_is_better: Whether a higher score is better.
        unscored: The number of unscored rows.
        score_if_unscored_wrong: The score if all of these were wrong.
        judge: The name of the judge. None if nobody judged.
        backend: The judge's backend.
        **figure_changes: Fields of the `ScoreFigure`, such as ``low=None``.
    """
    result = TaskResult(
        task=task,
        kind=kind,
        metrics={"unscored": unscored},
        stderrs={},
        num_samples=100,
        effective=100,
        metadata={"judge_config": {"backend": backend}},
        config={},
        version="1",
        samples=None,
        limit=None,
    )
    figure_fields: dict[str, Any] = {
        "value": value,
        "stderr": half_width / 1.96,
        "low": value - half_width,
        "high": value + half_width,
        "worst": score_if_unscored_wrong,
        "best": None,
        "guess_baseline": None,
        "counted": 100,
        "num_clusters": 100,
    }
    return RankedScore(
        task=task,
        kind=kind,
        figure=ScoreFigure(result, metric, **{**figure_fields, **figure_changes}),
        higher_is_better=higher_is_better,
        judge=judge,
        steps=(),
        items=0,
        score_if_unscored_wrong=score_if_unscored_wrong,
        answers_hash="",
    )


def make_entry(
    model: str,
    *scores: RankedScore,
    leaderboard: str = "factor",
    revision: str = REVISION,
    dtype: str = "bfloat16",
    **changes: Any,
) -> LeaderboardEntry:
    """Make an accepted submission. By default it is of FACTOR's leaderboard.

    Args:
        model: The name of the model, such as ``acme/one``.
        *scores: One score per task.
        leaderboard: The name of the leaderboard.
        revision: The commit of the model.
        dtype: The precision of its weights.
        **changes: Other fields of the entry, such as ``date``.
    """
    # No check would accept some texts of these tests, so the submission is not validated here.
    submission = Submission.model_construct(
        leaderboard=leaderboard,
        model=SubmittedModel.model_construct(name=model, revision=revision, dtype=dtype),
        files=(PackedFile(path="results_x.json", sha256=RESULTS_SHA256, bytes=RESULTS_BYTES),),
    )
    fields: dict[str, Any] = {
        "folder": f"{model.replace('/', '__')}/factor/2026-01-01",
        "digest": DIGEST,
        "submission": submission,
        "backend": "hf",
        "num_parameters": 7e9,
        "date": "2026-01-01T00:00:00+00:00",
        "scores": {score.task: score for score in scores},
        "settings": {score.task: {"protocol": "paper", "window": "1024"} for score in scores},
    }
    return LeaderboardEntry(**{**fields, **changes})


def refuse(folder: str, *problems: tuple[str, str]) -> RefusedEntry:
    """Make a refused submission of the model ``acme/forged``.

    Args:
        folder: The path of the submission.
        *problems: A code and a sentence for each reason.
    """
    return RefusedEntry(folder, "acme/forged", problems)
