"""The pages of the leaderboard: a table a leaderboard, a page a model, and what was refused."""

from collections.abc import Sequence
from typing import Any

from lm_factuality import __version__
from lm_factuality.benchmarks.chosen import score_called
from lm_factuality.ground.html import Link, render
from lm_factuality.leaderboard.site.board import Board, Table
from lm_factuality.leaderboard.site.entries import RULE, Entry

_FILTERS = {"size": "Size", "access": "Weights", "backend": "Backend", "judge": "Judge", "dtype": "Precision"}
_PROBLEMS = 20  # that are shown of a refused submission


def table_pages(board: Board, title: str) -> dict[str, str]:
    """The pages with tables by their names, ``index.html`` for the first leaderboard."""
    return {
        name: _document("table.html", table.title if len(board.tables) > 1 else title, board, title, name, **_table(table))
        for name, table in _places(board).items()
    } or {"index.html": _document("table.html", title, board, title, "index.html", table=None)}


def _places(board: Board) -> dict[str, Table]:
    return {"index.html" if number == 0 else f"{table.name}.html": table for number, table in enumerate(board.tables)}


def refused_page(board: Board, title: str) -> str:
    """``refused.html``."""
    return _document("refused.html", "Refused", board, title, "refused.html", refused=board.refused, most=_PROBLEMS)


def model_page(entries: Sequence[Entry], board: Board, title: str, report: str | None = None) -> str:
    """``models/SLUG.html`` of a model's entries, the newest first; ``report`` is where its report lies, relative to this page."""
    newest = entries[0]
    facts = {
        "Revision": newest.revision,
        "Precision": newest.dtype,
        "Backend": newest.backend,
        "Parameters": newest.size_label,
        "Weights": newest.access,
    }
    rows = [(table, row) for table in board.tables for row in table.rows if row.entry in entries]
    settings = {task: row.entry.settings.get(task, {}) for table, row in rows for task in table.tasks if task in row.scores}
    values = {
        "entries": entries,
        "facts": facts,
        "report": report,
        "rows": rows,
        "settings": settings,
        "names": list(dict.fromkeys(name for each in settings.values() for name in each)),
        "metric_of": score_called,
    }
    return _document("model.html", newest.model, board, title, "", "../", **values)


def _document(template: str, label: str, board: Board, title: str, here: str, root: str = "", **values: Any) -> str:
    pages = {name: table.title for name, table in _places(board).items()} or {"index.html": "Models"}
    links = [Link(f"{root}{name}", named) for name, named in pages.items()]
    links.append(Link(f"{root}refused.html", f"Refused ({len(board.refused)})"))
    frame = {"title": label, "site": title, "here": here, "links": links, "root": root, "version": __version__}
    return render(f"{__package__}/{template}", **frame, styles=["assets/leaderboard.css"], scripts=[], **values)


def _table(table: Table) -> dict[str, Any]:
    """What the page of a leaderboard shows."""
    scores = {task: next(row.scores[task] for row in table.rows if task in row.scores) for task in table.tasks}
    shown = {task: score_called(score.kind, score.metric) for task, score in scores.items()}
    filters = [(facet, label, f"entry.{facet}") for facet, label in _FILTERS.items()]
    found = {task: sorted({row.scores[task].judge or "" for row in table.rows if task in row.scores}) for task in shown}
    judges = {task: " or ".join(names) for task, names in found.items()}
    return {"table": table, "shown": shown, "judges": judges, "filters": filters, "rule": RULE}
