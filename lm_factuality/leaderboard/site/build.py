"""The leaderboard as a folder of files, put in place whole.

Every submission is checked. One is accepted only if the site can show it, and is never an error.
"""

import logging
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, printable
from lm_factuality.ground.files import whole_folder, write_json, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, read_asset, read_file
from lm_factuality.leaderboard.check import check_submission, find_submissions
from lm_factuality.leaderboard.rerun import describe_rerun
from lm_factuality.leaderboard.rules import leaderboard_names, read_rules
from lm_factuality.leaderboard.site.board import Board, board_json, pages, to_board
from lm_factuality.leaderboard.site.entries import (
    LeaderboardEntry,
    RefusedEntry,
    digest_of,
    to_entry,
)
from lm_factuality.report.build import build_report

logger = logging.getLogger(__name__)

MARK = "leaderboard.json"
"""The file that says that a folder is a leaderboard of ours, which may be replaced."""


@dataclass(frozen=True)
class BuiltSite:
    """What is on the site that was written."""

    models: int
    accepted: int
    refused: int


def build_site(
    submissions: Path,
    out: Path,
    *,
    title: str = "Factuality leaderboard",
    workers: int = 1,
    reports: bool = False,
    rules: Path | None = None,
) -> BuiltSite:
    """Check every submission in a folder, and write the site of all into another.

    Args:
        out: The folder of the site. An earlier site is replaced.
        workers: How many processes check.
        reports: Whether every model gets a report of its samples.
        rules: A folder of rules instead of the suite's.

    Raises:
        ConfigError: ``rules`` has no rules.
        DataError: There are no submissions, or ``out`` is no leaderboard.
    """
    leaderboard_names(rules)  # A folder without rules is no reason to refuse submissions.
    # A link that the user names is meant. Those below are not followed.
    submissions = submissions.resolve()
    folders = find_submissions(submissions)
    with whole_folder(out, MARK) as part, ProcessPoolExecutor(workers) as pool:
        examine_all = pool.map if workers > 1 else map
        examined = examine_all(examine, folders, repeat(submissions), repeat(rules))
        entries = list(tqdm(examined, "check", len(folders), unit="submission", delay=2))
        accepted = [entry for entry in entries if isinstance(entry, LeaderboardEntry)]
        refused = [entry for entry in entries if isinstance(entry, RefusedEntry)]
        board = to_board(accepted, refused, rules)
        write_site(board, part, title, submissions if reports else None)
    return BuiltSite(len(board.models), len(accepted), len(refused))


def examine(folder: Path, root: Path, rules: Path | None = None) -> LeaderboardEntry | RefusedEntry:
    """Check a submission, and read its scores if it is accepted.

    Args:
        root: The folder of all submissions. The site names each by its place in it.
    """
    name = folder.relative_to(root).as_posix()
    if printable(name) != name:
        problem = "its folder's name holds characters that cannot be shown; rename it"
        return _cannot_be_shown(name, problem)
    try:
        checked = check_submission(folder, rules)
        if checked.evidence is None or checked.refusals:
            problems = [
                (refusal.code, printable(f"{refusal.where}: {refusal.sentence}"))
                for refusal in checked.refusals
            ]
            model = checked.submission.model.name if checked.submission else "not known"
            return RefusedEntry(name, model, tuple(problems))
        digest = digest_of(folder)
        rules_of_entry = read_rules(checked.evidence.submission.leaderboard, rules)
        entry = to_entry(checked.evidence, rules_of_entry, name, digest)
        entry = replace(entry, rerun=describe_rerun(folder, digest))
    except Exception as error:
        # One folder that the site cannot cope with must not take the site away from all others.
        logger.exception("%s: cannot be shown", folder)
        return _cannot_be_shown(name, f"cannot be shown: {type(error).__name__}")
    return entry


def _cannot_be_shown(name: str, problem: str) -> RefusedEntry:
    return RefusedEntry(printable(name), "not known", (("SUBMISSION_INVALID", problem),))


def write_site(board: Board, folder: Path, title: str, submissions: Path | None = None) -> None:
    """Write the site, with reports if the folder of submissions is given."""
    for name in (STYLE, SCRIPT):
        write_text(folder / "assets" / name, read_asset(name))
    write_text(folder / "assets" / "leaderboard.css", read_file(f"{__package__}/leaderboard.css"))
    reports: dict[str, str] = {}
    for entries in board.models if submissions else ():
        newest = entries[0]
        runs = [Path(submissions or "", entry.folder) for entry in entries]
        try:
            build_report(runs, folder / "reports" / newest.slug, newest.model)
        except ConfigError:
            raise  # Something on this machine is wrong, not the submission.
        except Exception:
            logger.exception("%s: no report, its samples cannot be shown", newest.model)
        else:
            reports[newest.slug] = f"../reports/{newest.slug}/index.html"
    for name, page in pages(board, title, reports):
        write_text(folder / name, page)
    write_json(folder / MARK, board_json(board))
