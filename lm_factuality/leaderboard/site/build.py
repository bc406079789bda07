"""The leaderboard as a folder of files, put in place whole."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import whole_folder, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, read_asset, read_file
from lm_factuality.ground.published import cache_folder
from lm_factuality.leaderboard.check import find_submissions
from lm_factuality.leaderboard.site.board import Board, board_json, to_board
from lm_factuality.leaderboard.site.cache import examine_all
from lm_factuality.leaderboard.site.entries import Entry
from lm_factuality.leaderboard.site.pages import model_page, refused_page, table_pages

logger = logging.getLogger(__name__)

MARK = "leaderboard.json"  # says that a folder is a leaderboard of ours, which may be replaced
FIRST_VIEW = ("index.html", f"assets/{STYLE}", "assets/leaderboard.css", f"assets/{SCRIPT}")


@dataclass(frozen=True)
class Built:
    """How many models are ranked and submissions refused, the bytes of the first view and of all, and the models whose report
    could not be made."""

    folder: Path
    models: int
    accepted: int
    refused: int
    first_view: int
    bytes: int
    unreported: tuple[str, ...] = ()


def build_site(
    submissions: Path,
    out: Path,
    *,
    title: str = "Factuality leaderboard",
    cache: Path | None = None,
    workers: int = 1,
    reports: bool = False,
    rules: Path | None = None,
) -> Built:
    """Checks every submission below ``submissions`` that ``cache`` does not know, and writes the site of all into ``out``,
    where an earlier one is replaced. With ``reports`` every model gets the report of its samples. ``rules`` is a folder
    of rules instead of the suite's.

    Raises:
        DataError: no submissions, or ``out`` is something else than a leaderboard.
        ConfigError: ``rules`` has none.
    """
    submissions = submissions.resolve()  # a link that the user names is meant; those below are not followed
    folders = find_submissions(submissions)
    with whole_folder(out, MARK) as part:
        found = examine_all(folders, submissions, cache or cache_folder() / "leaderboard", workers, rules)
        board = to_board(found, rules)
        unreported = write_site(board, part, title, submissions if reports else None)
        sizes = {path.relative_to(part).as_posix(): path.stat().st_size for path in part.rglob("*") if path.is_file()}
    models = len(board.models)
    first = sum(sizes[name] for name in FIRST_VIEW)
    return Built(
        out, models, sum(not each.problems for each in found), len(board.refused), first, sum(sizes.values()), unreported
    )


def write_site(board: Board, folder: Path, title: str, submissions: Path | None = None) -> tuple[str, ...]:
    """Writes all files of the site into ``folder``; with ``submissions``, where they lie, also the reports. Returns the models
    whose report could not be made."""
    unreported = []
    for name in (STYLE, SCRIPT):
        write_text(folder / "assets" / name, read_asset(name))
    write_text(folder / "assets" / "leaderboard.css", read_file(f"{__package__}/leaderboard.css"))
    for name, page in {**table_pages(board, title), "refused.html": refused_page(board, title)}.items():
        write_text(folder / name, page)
    for entries in board.models:
        report = _report(entries, submissions, folder) if submissions else None
        if submissions and report is None:
            unreported.append(entries[0].model)
        page = model_page(entries, board, title, report)
        # A row links to the entry that it shows, which in another leaderboard may be an older one of the same model.
        for slug in {each.slug for each in entries}:
            write_text(folder / "models" / f"{slug}.html", page)
    content = json.dumps(board_json(board), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(folder / MARK, f"{content}\n")
    return tuple(unreported)


def _report(entries: Sequence[Entry], submissions: Path, folder: Path) -> str | None:
    """Where the report of a model lies, relative to its page; None if its samples make none."""
    from lm_factuality.report.build import build_report

    name = entries[0].slug
    try:
        build_report([submissions / each.folder for each in entries], folder / "reports" / name, entries[0].model)
    except ConfigError:  # of this machine, not of the submission
        raise
    except Exception:
        logger.exception("%s: no report of its samples", entries[0].model)
        return None
    return f"../reports/{name}/index.html"
