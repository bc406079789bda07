"""Entries of a leaderboard as the check would have left them."""

from __future__ import annotations

from typing import Any

from lm_factuality.leaderboard.site.entries import Entry, Score
from tests.report.conftest import HOSTILE, browser

__all__ = ["HOSTILE", "browser", "entry", "refused", "score"]


def score(value: float, half: float = 0.02, task: str = "wiki_factor", **changes: Any) -> Score:
    """An accuracy with an interval of ``half`` to both sides."""
    fields: dict[str, Any] = {
        "task": task,
        "kind": "factor",
        "metric": "factor_acc",
        "value": value,
        "low": value - half,
        "high": value + half,
        "stderr": half / 1.96,
        "n": 100,
        "unscored": 0,
        "worst": None,
        "best": None,
        "caution": "",
        "higher": True,
        "if_wrong": changes.get("worst"),
    }
    return Score(**(fields | changes))


def entry(model: str, *scores: Score, **changes: Any) -> Entry:
    """An accepted submission to the FACTOR leaderboard."""
    fields: dict[str, Any] = {
        "folder": f"{model.replace('/', '__')}/factor/2026-01-01",
        "digest": "ab" * 32,
        "model": model,
        "leaderboard": "factor",
        "revision": "0123456789abcdef0123456789abcdef01234567",
        "dtype": "bfloat16",
        "backend": "hf",
        "num_parameters": 7e9,
        "date": "2026-01-01T00:00:00+00:00",
        "scores": scores,
        "settings": {each.task: {"protocol": "paper", "window": "1024"} for each in scores},
        "files": (("results_x.json", "cd" * 32, 1234),),
    }
    return Entry(**(fields | changes))


def refused(folder: str, *problems: tuple[str, str]) -> Entry:
    return Entry(folder, "ef" * 32, "acme/forged", problems=problems)
