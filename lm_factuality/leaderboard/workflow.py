"""A repository of submissions: its skeleton with a workflow for GitHub, and the check of what a
pull request changes."""

import re
import subprocess
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath
from string import Template

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError, listed
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import read_file
from lm_factuality.leaderboard.submission import FILE

# What a workflow checks by, at the root of a repository: whoever changes it decides what is
# accepted.
CHECKING = tuple(
    map(PurePosixPath, (".github", "configs", ".gitattributes", ".gitmodules", ".lfsconfig"))
)
_FILES = {
    ".github/workflows/leaderboard.yml": "workflow.yml",
    "README.md": "README.md",
    ".gitattributes": "gitattributes",
    ".gitignore": "gitignore",
    "submissions/README.md": "submissions.md",
}
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.+-]*(\[[\w,-]+\])?( ?(==|>=|<|~=|@) ?[\w.:/@+#=,<>~-]+)?"
)


@dataclass(frozen=True)
class Change:
    """``submissions`` are the folders to check; ``problems`` say what no pull request with a
    submission may do, by code."""

    submissions: tuple[Path, ...]
    problems: tuple[tuple[str, str], ...]


def changed_submissions(folder: Path, base: str, rules: Path | None = None) -> Change:
    """What the commits since ``base`` do to the submissions in ``folder``, which are checked by the
    suite's rules or those in ``rules``. Raises ConfigError: ``folder`` is in no git repository, or
    ``base`` unknown there; DataError: git fails."""
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    place = PurePosixPath(folder.resolve().relative_to(root.resolve()).as_posix())
    changed = _git(folder, "diff", "--name-only", "--no-renames", "-z", f"{base}...HEAD", "--")
    before = _git(root, "ls-tree", "-r", "--name-only", "-z", base, "--", str(place))
    checking = list(CHECKING)
    if rules is not None and rules.resolve().is_relative_to(root.resolve()):
        checking.append(PurePosixPath(rules.resolve().relative_to(root.resolve()).as_posix()))
    old = {
        PurePosixPath(name).parent
        for name in before.split("\0")
        if PurePosixPath(name).name == FILE
    }
    found: dict[Path, None] = {}
    problems: list[tuple[str, str]] = []
    touched: dict[PurePosixPath, None] = {}
    outside: list[str] = []
    checks: list[str] = []
    for name in filter(None, changed.split("\0")):
        path = PurePosixPath(name)
        if not path.is_relative_to(place):
            (checks if any(path.is_relative_to(each) for each in checking) else outside).append(
                name
            )
            continue
        if (
            path.parent == place and path.name != FILE
        ):  # a file beside the folders, such as a README
            outside.append(name)
            continue
        above = takewhile(lambda each: each != place, path.parents)
        owner = next((root / each for each in above if (root / each / FILE).is_file()), None)
        if path.parent == place:
            problems.append(
                ("FILE_EXTRA", f"{name}: lies beside the submissions; each has a folder of its own")
            )
        elif owner is not None:
            found[owner] = None
            whole = PurePosixPath(owner.relative_to(root).as_posix())
            # Of older ones in the folder of this one it would be said that they are files of it.
            touched |= dict.fromkeys(
                each for each in old if path.is_relative_to(each) or each.is_relative_to(whole)
            )
        elif not (root / path).exists():
            problems.append(
                ("SUBMISSION_REMOVED", f"{name}: is gone; a maintainer removes submissions")
            )
        else:
            problems.append(
                ("FILE_EXTRA", f"{name}: belongs to no submission, no folder above it has a {FILE}")
            )
    advice = "was there before, and is as it is; a new run is a new folder"
    problems += [("SUBMISSION_CHANGED", f"{each}: {advice}") for each in touched]
    if checks:
        advice = (
            "submissions are checked by this; a maintainer changes it in a separate pull request,"
            " and reviews it by hand"
        )
        problems.append(("CHECK_CHANGED", f"{listed(checks)}: {advice}"))
    if outside and (found or problems):
        sentence = (
            f"a pull request with a submission changes nothing else, but this one {listed(outside)}"
        )
        problems.append(("OUTSIDE_SUBMISSIONS", sentence))
    return Change(tuple(sorted(found)), tuple(problems))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"git cannot be run: {error}") from error
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"{folder}: git {arguments[0]}: {text[0] if text else 'failed'}; is it a clone with all"
            " commits?"
        )
    return done.stdout.decode(errors="surrogateescape")


def init_repository(folder: Path, requirement: str | None = None, lfs: bool = False) -> list[Path]:
    """Writes the skeleton into ``folder`` and returns its files. ``requirement`` is what pip
    installs as the suite (default: this version); ``lfs`` keeps samples in Git LFS. Raises
    ConfigError: one of the files is there already (none is written then), or ``requirement`` is
    none. Raises DataError: ``folder`` cannot be written."""
    wanted = requirement or f"lm-factuality=={__version__}"
    if not _REQUIREMENT.fullmatch(wanted):
        raise ConfigError(
            f"--suite {wanted!r}: expected what pip installs, such as lm-factuality=={__version__}"
        )
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise ConfigError(
            f"{folder}: has {', '.join(there)} already; choose an empty folder, or move these away"
        )
    values = {"requirement": wanted, "lfs": str(lfs).lower(), "lfs_comment": "" if lfs else "# "}
    for name, source in _FILES.items():
        text = read_file(f"{__package__}/template/{source}")
        write_text(folder / name, Template(text).substitute(values))
    return [folder / name for name in _FILES]
