"""The leaderboard as a folder of files, put in place whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from lm_factuality.files import write_text
from lm_factuality.folders import whole_folder
from lm_factuality.leaderboard.site.board import Board, board_json, to_board
from lm_factuality.leaderboard.site.cache import default_cache, examine_all
from lm_factuality.leaderboard.site.entries import Entry, find_folders
from lm_factuality.leaderboard.site.pages import model_page, refused_page, table_pages
from lm_factuality.report.assets import SCRIPT, STYLE, read_asset

MARK = "leaderboard.json"  # says that a folder is a leaderboard of ours, which may be replaced
FIRST_VIEW = ("index.html", f"assets/{STYLE}", "assets/leaderboard.css", f"assets/{SCRIPT}")


@dataclass(frozen=True)
class Built:
    """How many models are ranked and submissions refused, and the bytes of the first view and of all."""

    folder: Path
    models: int
    accepted: int
    refused: int
    first_view: int
    bytes: int


def build_site(
    submissions: Path,
    out: Path,
    *,
    title: str = "Factuality leaderboard",
    cache: Path | None = None,
    workers: int = 1,
    reports: bool = False,
) -> Built:
    """Checks every submission below ``submissions`` that ``cache`` does not know, and writes the site of all into ``out``,
    where an earlier one is replaced. With ``reports`` every model gets the report of its samples.

    Raises:
        DataError: no submissions, or ``out`` is something else than a leaderboard.
        ConfigError: reports are asked for and matplotlib is not installed.
    """
    folders = find_folders(submissions)
    with whole_folder(out, MARK) as part:
        found = examine_all(folders, submissions, cache or default_cache(), workers)
        board = to_board(found)
        write_site(board, part, title, submissions if reports else None)
        sizes = {path.relative_to(part).as_posix(): path.stat().st_size for path in part.rglob("*") if path.is_file()}
    models = len(board.models)
    first = sum(sizes[name] for name in FIRST_VIEW)
    return Built(out, models, sum(not each.problems for each in found), len(board.refused), first, sum(sizes.values()))


def write_site(board: Board, folder: Path, title: str, submissions: Path | None = None) -> None:
    """Writes all files of the site into ``folder``; with ``submissions``, where they lie, also the reports."""
    for name in (STYLE, SCRIPT):
        write_text(folder / "assets" / name, read_asset(name))
    own = files(__package__).joinpath("leaderboard.css").read_text(encoding="utf-8")
    write_text(folder / "assets" / "leaderboard.css", own)
    for name, page in {**table_pages(board, title), "refused.html": refused_page(board, title)}.items():
        write_text(folder / name, page)
    for entries in board.models:
        report = _report(entries, submissions, folder) if submissions else None
        page = model_page(entries, board, title, report)
        # A row links to the entry that it shows, which in another leaderboard may be an older one of the same model.
        for slug in {each.slug for each in entries}:
            write_text(folder / "models" / f"{slug}.html", page)
    content = json.dumps(board_json(board), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(folder / MARK, f"{content}\n")


def _report(entries: Sequence[Entry], submissions: Path, folder: Path) -> str:
    from lm_factuality.report.site import build_report

    name = entries[0].slug
    build_report([submissions / each.folder for each in entries], folder / "reports" / name, entries[0].model)
    return f"../reports/{name}/index.html"
