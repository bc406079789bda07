"""Create a git repository of submissions, and find what a pull request changes in one.

The commands ``lm-factuality leaderboard init`` and ``changed`` call it.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import read_file
from lm_factuality.leaderboard.submission import SUBMISSION_FILE, Refusal

_TEMPLATES = {
    ".github/workflows/leaderboard.yml": "workflow.yml",
    "README.md": "README.md",
    ".gitattributes": "gitattributes",
    ".gitignore": "gitignore",
    "submissions/README.md": "submissions.md",
}
"""The files of a new repository, each with its template in the folder ``template``."""


@dataclass(frozen=True)
class Change:
    """The effect of a pull request on a repository of submissions."""

    submissions: Sequence[Path]
    """The folders of new submissions, which still have to be checked."""

    problems: Sequence[Refusal]
    """The changes that are not allowed."""


def changed_submissions(folder: Path, base: str) -> Change:
    """Find the submissions that a pull request adds, and its changes that are not allowed.

    A pull request that adds a submission may change nothing else. One that touches no submission
    may change everything, since people review it.

    Args:
        folder: The folder of all submissions, in a clone of the repository.
        base: The git revision to compare with, such as ``origin/main``.

    Returns:
        The new submissions and the problems.

    Raises:
        ConfigError: The folder is in no git repository, or ``base`` is unknown there.
        DataError: Git cannot be run.
    """
    # Git prints the absolute path of the repository, and a line break after it.
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    # Git prints paths relative to the root of the repository.
    submissions = PurePosixPath(folder.resolve().relative_to(root.resolve()).as_posix())
    # With three dots, git compares with the commit at which the pull request began, so that later
    # submissions of others do not count. A renamed file is shown as one removed and one added.
    changed = _git(folder, "diff", "--name-only", "--no-renames", "-z", f"{base}...HEAD", "--")
    earlier_submissions = _submissions_at(base, root, submissions)

    added_submissions: set[Path] = set()
    problems: list[Refusal] = []
    outside_submissions: list[PurePosixPath] = []
    for path in _split_paths(changed):
        # Submissions were checked when they were added, so they must not change afterwards.
        if earlier_submissions.intersection(path.parents):
            sentence = "belongs to an earlier submission; a new run is a new folder"
            problems.append(Refusal("SUBMISSION_CHANGED", str(path), sentence))
            continue
        # A file directly in the folder, such as its README, belongs to no submission.
        is_beside_submissions = path.parent == submissions and path.name != SUBMISSION_FILE
        if is_beside_submissions or not path.is_relative_to(submissions):
            outside_submissions.append(path)
            continue
        submission = _find_submission_of(root, submissions, path)
        if submission is None:
            sentence = f"belongs to no submission, no folder above it has a {SUBMISSION_FILE}"
            problems.append(Refusal("FILE_EXTRA", str(path), sentence))
            continue
        added_submissions.add(submission)

    # Without a submission, the pull request may change the workflow, the README and so on.
    if added_submissions or problems:
        for path in outside_submissions:
            sentence = "a pull request with a submission changes nothing else"
            problems.append(Refusal("OUTSIDE_SUBMISSIONS", str(path), sentence))
    return Change(sorted(added_submissions), problems)


def _submissions_at(base: str, root: Path, submissions: PurePosixPath) -> set[PurePosixPath]:
    """Return the folders of all submissions that a git revision has, relative to the root.

    Args:
        base: The git revision.
        root: The folder of the repository.
        submissions: The folder of all submissions, relative to the root.
    """
    files = _git(root, "ls-tree", "-r", "--name-only", "-z", base, "--", str(submissions))
    return {path.parent for path in _split_paths(files) if path.name == SUBMISSION_FILE}


def _find_submission_of(root: Path, submissions: PurePosixPath, path: PurePosixPath) -> Path | None:
    """Return the submission of a file: the closest folder above it with a ``submission.json``.

    Args:
        root: The folder of the repository.
        submissions: The folder of all submissions, relative to the root. It is not a submission
            itself.
        path: A file in that folder, relative to the root.

    Returns:
        The folder of the submission, or None if the file belongs to no submission.
    """
    # The folders are visited from the closest one up.
    for parent in path.parents:
        if parent == submissions:
            return None
        if (root / parent / SUBMISSION_FILE).is_file():
            return root / parent
    return None


def _split_paths(output: str) -> list[PurePosixPath]:
    """Split the output of ``git ... -z`` into paths, each of which ends with a zero byte."""
    return [PurePosixPath(path) for path in output.split("\0") if path]


def _git(folder: Path, *arguments: str) -> str:
    """Run a git command in a folder.

    Args:
        folder: A folder in a clone of the repository.
        *arguments: The command and its options, such as ``rev-parse`` and ``HEAD``.

    Returns:
        The output of the command.

    Raises:
        ConfigError: The command fails.
        DataError: Git is not installed, or takes more than two minutes.
    """
    # Git prints file names with letters such as é as they are, not in octal numbers.
    command = ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments]
    try:
        # A large repository can take long, but a hanging git must not block a workflow.
        process = subprocess.run(command, capture_output=True, check=False, timeout=120)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"git cannot be run: {error}") from error
    if process.returncode:
        # The first line of git's errors states the problem, and the others give hints.
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        problem = lines[0] if lines else "failed"
        raise ConfigError(
            f"{folder}: git {arguments[0]}: {problem}; is it a clone with all commits?"
        )
    return process.stdout.decode(errors="surrogateescape")


def init_repository(folder: Path) -> list[Path]:
    """Write the first files of a repository of submissions, such as its workflow and README.

    Args:
        folder: The folder of the repository. It is created if necessary.

    Returns:
        The files that were written.

    Raises:
        ConfigError: One of the files exists already. None is written then.
        DataError: The folder cannot be written.
    """
    paths = [folder / name for name in _TEMPLATES]
    # A file of the user is never overwritten.
    existing = [str(path) for path in paths if path.exists()]
    if existing:
        raise ConfigError(
            f"{', '.join(existing)}: there already; choose an empty folder, or move these away"
        )
    for name, template in _TEMPLATES.items():
        text = read_file(f"{__package__}/template/{template}")
        # The workflow installs the version of lm-factuality that made the repository.
        write_text(folder / name, text.replace("VERSION", __version__))
    return paths
