"""Entries of a leaderboard as the check would have left them."""

from __future__ import annotations

from typing import Any

from lm_factuality.benchmarks.chosen import ScoreFigure
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.site.board import Board, to_board
from lm_factuality.leaderboard.site.entries import LeaderboardEntry, RankedScore, RefusedEntry
from lm_factuality.leaderboard.submission import PackedFile, Submission, SubmittedModel
from tests.report.conftest import HOSTILE, browser

__all__ = ["HOSTILE", "board_of", "browser", "entry", "refused", "score"]


def score(
    value: float, half: float = 0.02, task: str = "wiki_factor", **changes: Any
) -> RankedScore:
    """An accuracy with an interval of ``half`` to both sides."""
    result = TaskResult(
        task=task,
        kind=changes.get("kind", "factor"),
        metrics={"unscored": changes.get("unscored", 0)},
        stderrs={},
        num_samples=100,
        effective=100,
        metadata={"judge_config": {"backend": changes.get("backend", "openai")}},
        config={},
        version="1",
        samples=None,
        limit=None,
        corrected={"factor_acc": changes["corrected"]} if "corrected" in changes else {},
    )
    values: dict[str, Any] = {
        "value": value,
        "stderr": half / 1.96,
        "low": value - half,
        "high": value + half,
        "worst": None,
        "best": None,
        "guess_baseline": None,
        "counted": 100,
    }
    values.update((name, changes[name]) for name in values.keys() & changes.keys())
    figure = ScoreFigure(result, changes.get("metric", "factor_acc"), **values)
    return RankedScore(
        task=task,
        kind=changes.get("kind", "factor"),
        figure=figure,
        higher=changes.get("higher", True),
        judge=changes.get("judge"),
        steps=(),
        items=0,
        score_if_unscored_wrong=changes.get("worst"),
        answers="",
    )


def entry(model: str, *scores: RankedScore, **changes: Any) -> LeaderboardEntry:
    """An accepted submission to the FACTOR leaderboard."""
    # The texts of some tests are such that no check would accept them.
    submission = Submission.model_construct(
        leaderboard=changes.pop("leaderboard", "factor"),
        model=SubmittedModel.model_construct(
            name=model,
            revision=changes.pop("revision", "0123456789abcdef0123456789abcdef01234567"),
            dtype=changes.pop("dtype", "bfloat16"),
        ),
        files=(PackedFile(path="results_x.json", sha256="cd" * 32, bytes=1234),),
    )
    values: dict[str, Any] = {
        "folder": f"{model.replace('/', '__')}/factor/2026-01-01",
        "digest": "ab" * 32,
        "submission": submission,
        "backend": "hf",
        "num_parameters": 7e9,
        "date": "2026-01-01T00:00:00+00:00",
        "scores": {each.task: each for each in scores},
        "settings": {each.task: {"protocol": "paper", "window": "1024"} for each in scores},
    }
    return LeaderboardEntry(**{**values, **changes})


def refused(folder: str, *problems: tuple[str, str]) -> RefusedEntry:
    return RefusedEntry(folder, "acme/forged", problems)


def board_of(entries: list[LeaderboardEntry | RefusedEntry]) -> Board:
    """The board of entries, whether accepted or refused."""
    return to_board(entries)
