"""A git repository of submissions, as the workflow of a leaderboard finds it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run a git command in a folder, as a user who has a name, and return its output."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    process = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return process.stdout.strip()


def commit_all(folder: Path, message: str) -> None:
    """Commit all changes in the working folder, including new files."""
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)


def start_pull_request(folder: Path) -> None:
    """Commit everything on ``main``, and start the branch ``pull``."""
    git(folder, "init", "-q", "-b", "main")
    commit_all(folder, "begin")
    git(folder, "checkout", "-qb", "pull")
