"""The site's actions of ``lm-factuality leaderboard``."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command


@pytest.fixture
def call() -> Any:
    return partial(run_command, "leaderboard")


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True
    )


@pytest.fixture
def board(call: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "board"
    assert call("init", str(folder)) == 0
    assert str(folder / "README.md") in capsys.readouterr().out
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "begin")
    git(folder, "checkout", "-qb", "pull")
    return folder


def test_a_refused_change_ends_with_1(
    call: Any, board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = board / "submissions" / "::error::x"
    bad.mkdir()
    (bad / "submission.json").write_text("{")
    git(board, "add", "-A")
    git(board, "commit", "-qm", "add")
    assert call("changed", str(board / "submissions"), "--base", "main") == 1
    printed = capsys.readouterr().out
    assert "SUBMISSION_INVALID" in printed
    # None is a command of the workflow.
    assert not any(line.startswith("::") for line in printed.splitlines())


def test_no_submission_changed(call: Any, board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (board / "README.md").write_text("changed")
    git(board, "add", "-A")
    git(board, "commit", "-qm", "change")
    assert call("changed", str(board / "submissions"), "--base", "main") == 0
    assert "no submission is changed" in capsys.readouterr().out


def test_build_says_what_it_built(
    call: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "submissions" / "broken"
    folder.mkdir(parents=True)
    (folder / "submission.json").write_text("{")
    assert call("build", str(folder.parent), "--out", str(tmp_path / "site")) == 0
    assert "0 models of 0 submissions, 1 refused" in capsys.readouterr().out
    assert (tmp_path / "site" / "index.html").is_file()
