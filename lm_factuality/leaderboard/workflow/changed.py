"""Which submissions a pull request changes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lm_factuality.errors import ConfigError, DataError

MANIFEST = "submission.json"


@dataclass(frozen=True)
class Change:
    """``submissions`` are the folders to check; ``problems`` say what no pull request with a submission may do, by code."""

    submissions: tuple[Path, ...]
    problems: tuple[tuple[str, str], ...]


def changed_submissions(folder: Path, base: str) -> Change:
    """What the commits since ``base`` and until the checked-out one do to the submissions in ``folder``.

    Raises:
        ConfigError: ``folder`` is in no git repository, or ``base`` is not known there.
        DataError: git cannot be run.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    place = PurePosixPath(folder.resolve().relative_to(root.resolve()).as_posix())
    listed = _git(folder, "diff", "--name-only", "--no-renames", "-z", f"{base}...HEAD", "--")
    return sort_changes(root, place, [name for name in listed.split("\0") if name])


def sort_changes(root: Path, place: PurePosixPath, names: Iterable[str]) -> Change:
    """``names`` are changed files, relative to ``root``; ``place`` is where the submissions lie in it."""
    found: dict[Path, None] = {}
    problems: list[tuple[str, str]] = []
    outside = []
    for name in names:
        path = PurePosixPath(name)
        if not path.is_relative_to(place):
            outside.append(name)
        elif path.parent != place:  # a file beside the folders, such as a README, is no submission
            owner = _owner(root, place, path)
            if owner is not None:
                found[owner] = None
            elif not (root / path).exists():
                problems.append(("SUBMISSION_REMOVED", f"{name}: is gone; a maintainer removes submissions"))
            else:
                problems.append(
                    ("FILE_EXTRA", f"{name}: belongs to no submission, no folder above it has a {MANIFEST}")
                )
        else:
            outside.append(name)
    if outside and (found or problems):
        listed = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if outside[5:] else "")
        problems.append(
            ("OUTSIDE_SUBMISSIONS", f"a pull request with a submission changes nothing else, but this one {listed}")
        )
    return Change(tuple(sorted(found)), tuple(problems))


def _owner(root: Path, place: PurePosixPath, path: PurePosixPath) -> Path | None:
    """The folder of the submission that ``path`` is, or was, in."""
    for parent in path.parents:
        if parent == place:
            return None
        if (root / parent / MANIFEST).is_file():
            return root / parent
    return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"git cannot be run: {error}") from error
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"{folder}: git {arguments[0]}: {text[0] if text else 'failed'}; is it a clone with all commits?"
        )
    return done.stdout.decode(errors="surrogateescape")
