"""Check all submissions in a folder, and write the site of the leaderboards.

The command ``lm-factuality leaderboard build`` calls `build_site`.
"""

import logging
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, printable
from lm_factuality.ground.files import whole_folder, write_json, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, read_asset, read_file
from lm_factuality.leaderboard.check import Checked, check_submission, find_submissions
from lm_factuality.leaderboard.rerun import describe_rerun
from lm_factuality.leaderboard.rules import leaderboard_names
from lm_factuality.leaderboard.site.board import Board, board_json, render_pages, to_board
from lm_factuality.leaderboard.site.entries import (
    LeaderboardEntry,
    RefusedEntry,
    digest_of,
    to_entry,
)
from lm_factuality.report.build import build_report

logger = logging.getLogger(__name__)

BOARD_FILE = "leaderboard.json"
"""The file with all tables. Only a folder that has it may be replaced by a new site."""


def build_site(
    submissions: Path,
    out: Path,
    *,
    title: str = "Factuality leaderboard",
    workers: int = 1,
    reports: bool = False,
    rules: Path | None = None,
) -> Board:
    """Check every submission in a folder, and write the site of the leaderboards.

    Args:
        submissions: The folder of all submissions.
        out: The folder of the site. An earlier site is replaced when the new one is complete.
        title: The title of the site.
        workers: The number of processes that check submissions.
        reports: Whether every model gets a report of its samples.
        rules: A folder with the rules of leaderboards. Defaults to the suite's rules.

    Returns:
        What the site shows: the tables, the models and the refused submissions.

    Raises:
        ConfigError: The folder ``rules`` has no rules.
        DataError: There are no submissions, or ``out`` exists and is no site of leaderboards.
    """
    # A folder without rules is the user's mistake, and must not refuse all submissions.
    leaderboard_names(rules)
    # The user may name a link. Links inside the folder, which submitters made, are refused.
    submissions = submissions.resolve()
    folders = find_submissions(submissions)
    with whole_folder(out, BOARD_FILE) as new_site, ProcessPoolExecutor(workers) as pool:
        # With one worker, the checks run in this process.
        map_folders = pool.map if workers > 1 else map
        examined = map_folders(examine, folders, repeat(submissions), repeat(rules))
        entries = list(tqdm(examined, "check", len(folders), unit="submission", delay=2))
        board = to_board(entries, rules)
        write_site(board, new_site, title, submissions if reports else None)
    return board


def examine(folder: Path, root: Path, rules: Path | None = None) -> LeaderboardEntry | RefusedEntry:
    """Check a submission, and read its scores if it is accepted.

    Args:
        folder: The folder of the submission.
        root: The folder of all submissions. The site shows paths relative to it.
        rules: A folder with the rules of leaderboards. Defaults to the suite's rules.

    Returns:
        The entry of the submission. It is a refused one if the submission is refused or if
        anything else goes wrong.
    """
    name = folder.relative_to(root).as_posix()
    # A name with control characters would look different on the site.
    if printable(name) != name:
        problem = "its folder's name holds characters that cannot be shown; rename it"
        return _refuse_invalid(name, problem)
    try:
        checked = check_submission(folder, rules)
        if checked.evidence is None or checked.refusals:
            return _refused_entry(name, checked)
        # A rerun counts only if it was of the same files, which the hash shows.
        digest = digest_of(folder)
        entry = to_entry(checked.evidence, name, digest)
        return replace(entry, rerun=describe_rerun(folder, digest))
    except Exception as error:
        # One submission that breaks the site must not remove all others from it.
        logger.exception("%s: cannot be shown", folder)
        return _refuse_invalid(name, f"cannot be shown: {type(error).__name__}")


def _refused_entry(name: str, checked: Checked) -> RefusedEntry:
    """Return the entry of a submission that the check has refused.

    Args:
        name: The path of the submission, relative to the folder of all submissions.
        checked: The submission with its refusals.
    """
    problems = []
    for refusal in checked.refusals:
        sentence = printable(f"{refusal.where}: {refusal.sentence}")
        problems.append((refusal.code, sentence))
    model = checked.submission.model.name if checked.submission else "not known"
    return RefusedEntry(name, model, tuple(problems))


def _refuse_invalid(name: str, problem: str) -> RefusedEntry:
    """Return the entry of a submission that the site cannot show.

    Args:
        name: The path of the submission, relative to the folder of all submissions.
        problem: A sentence that says why it cannot be shown.
    """
    return RefusedEntry(printable(name), "not known", (("SUBMISSION_INVALID", problem),))


def write_site(board: Board, folder: Path, title: str, submissions: Path | None = None) -> None:
    """Write the pages of the site, its assets and ``leaderboard.json``.

    Args:
        board: What the site shows.
        folder: The folder of the site.
        title: The title of the site.
        submissions: The folder of all submissions, if every model gets a report of its samples.
    """
    # These assets are common to all of the suite's pages.
    for name in (STYLE, SCRIPT):
        write_text(folder / "assets" / name, read_asset(name))
    write_text(folder / "assets" / "leaderboard.css", read_file(f"{__package__}/leaderboard.css"))
    reports = {} if submissions is None else _write_reports(board, folder, submissions)
    for name, page in render_pages(board, title, reports):
        write_text(folder / name, page)
    write_json(folder / BOARD_FILE, board_json(board))


def _write_reports(board: Board, folder: Path, submissions: Path) -> dict[str, str]:
    """Write a report of the samples of every model.

    Args:
        board: What the site shows, with the submissions of each model.
        folder: The folder of the site.
        submissions: The folder of all submissions.

    Returns:
        The link from a model's page to its report, by the model's slug. A model whose samples
        cannot be shown has none.

    Raises:
        ConfigError: The reports cannot be written on this machine.
    """
    links = {}
    for entries in board.models:
        newest = entries[0]
        runs = [submissions / entry.folder for entry in entries]
        # A submission that was accepted can still hold texts that a report cannot show.
        try:
            build_report(runs, folder / "reports" / newest.slug, newest.model)
        except ConfigError:
            # The fault is with this machine, not with the submission.
            raise
        except Exception:
            logger.exception("%s: no report, its samples cannot be shown", newest.model)
        else:
            links[newest.slug] = f"../reports/{newest.slug}/index.html"
    return links
