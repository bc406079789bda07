"""A repository of submissions: its skeleton, and the check of what a pull request changes."""

import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import read_file
from lm_factuality.leaderboard.submission import FILE

_FILES = {
    ".github/workflows/leaderboard.yml": "workflow.yml",
    "README.md": "README.md",
    ".gitattributes": "gitattributes",
    ".gitignore": "gitignore",
    "submissions/README.md": "submissions.md",
}


@dataclass(frozen=True)
class Change:
    """What a pull request does to a repository of submissions."""

    submissions: tuple[Path, ...]
    """The folders of new submissions, which are to be checked."""

    problems: tuple[tuple[str, str], ...]
    """What no pull request with a submission may do: a code and a sentence each."""


def changed_submissions(folder: Path, base: str) -> Change:
    """Find what the commits since ``base`` do to the submissions in a folder.

    A pull request may add submissions, and nothing else beside them. One that touches no
    submission may change everything: people review it.

    Raises:
        ConfigError: The folder is in no git repository, or ``base`` is unknown there.
        DataError: Git cannot be run.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    place = PurePosixPath(folder.resolve().relative_to(root.resolve()).as_posix())
    changed = _git(folder, "diff", "--name-only", "--no-renames", "-z", f"{base}...HEAD", "--")
    before = _git(root, "ls-tree", "-r", "--name-only", "-z", base, "--", str(place))
    earlier = {path.parent for path in _paths(before) if path.name == FILE}
    added: dict[Path, None] = {}
    problems: list[tuple[str, str]] = []
    others = []
    for path in _paths(changed):
        # A file beside the folders of submissions, such as a README, belongs to none of them.
        is_inside = path.is_relative_to(place) and (path.parent != place or path.name == FILE)
        folders = [root / parent for parent in path.parents if parent.is_relative_to(place)]
        owners = [owner for owner in folders[:-1] if (owner / FILE).is_file()]
        if earlier.intersection(path.parents):
            advice = "belongs to an earlier submission; a new run is a new folder"
            problems.append(("SUBMISSION_CHANGED", f"{path}: {advice}"))
        elif not is_inside:
            others.append(path)
        elif owners:
            added[owners[0]] = None
        else:
            problem = f"belongs to no submission, no folder above it has a {FILE}"
            problems.append(("FILE_EXTRA", f"{path}: {problem}"))
    if added or problems:
        for path in others:
            sentence = "a pull request with a submission changes nothing else"
            problems.append(("OUTSIDE_SUBMISSIONS", f"{path}: {sentence}"))
    return Change(tuple(sorted(added)), tuple(problems))


def init_repository(folder: Path) -> list[Path]:
    """Write the skeleton of a repository of submissions.

    Returns:
        The files that were written.

    Raises:
        ConfigError: A file is there already, so that none is written.
        DataError: The folder cannot be written.
    """
    paths = [folder / name for name in _FILES]
    existing = [str(path) for path in paths if path.exists()]
    if existing:
        raise ConfigError(
            f"{', '.join(existing)}: there already; choose an empty folder, or move these away"
        )
    for path, source in zip(paths, _FILES.values(), strict=True):
        text = read_file(f"{__package__}/template/{source}")
        write_text(path, text.replace("VERSION", __version__))
    return paths


def _paths(names: str) -> list[PurePosixPath]:
    """The paths in an output of git, which ends each with a zero byte."""
    return [PurePosixPath(name) for name in names.split("\0") if name]


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"git cannot be run: {error}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        problem = lines[0] if lines else "failed"
        raise ConfigError(
            f"{folder}: git {arguments[0]}: {problem}; is it a clone with all commits?"
        )
    return done.stdout.decode(errors="surrogateescape")
