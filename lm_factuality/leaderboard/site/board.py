"""The tables of the leaderboards, a row a model; the same as JSON; and pages: of a leaderboard, a
model, what was refused."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.chosen import score_called
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.html import Link, render
from lm_factuality.leaderboard.rules import read_rules
from lm_factuality.leaderboard.site.entries import SITE, Entry, Score, ranks


@dataclass(frozen=True)
class Row:
    """A model in a leaderboard: its newest entry, and its scores there with their ranks, by task.
    ``twins`` are models of another name that gave the same answers to a whole task."""

    entry: Entry
    scores: Mapping[str, Score]
    ranks: Mapping[str, int | None]
    twins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A leaderboard; ``tasks`` are its columns, ``max_unscored`` the share of a task's responses
    that may be unscored. Rows are ordered by the first task's rank, then its score (the worst case
    where anything is unscored), then the next task's."""

    name: str
    title: str
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    max_unscored: float | None = None


@dataclass(frozen=True)
class Board:
    """``models`` are the accepted entries, those of one model together, the newest first;
    ``refused`` those not accepted."""

    tables: tuple[Table, ...]
    models: tuple[tuple[Entry, ...], ...]
    refused: tuple[Entry, ...]


def to_board(entries: Sequence[Entry], rules: Path | None = None) -> Board:
    """One row a model and leaderboard: of several entries the newest counts, and older ones are
    named on the model's page. Titles are those of the suite's rules, or those in ``rules``."""
    accepted = sorted(
        (each for each in entries if not each.problems),
        key=lambda each: (each.date, each.folder),
        reverse=True,
    )
    models: dict[tuple[str, ...], list[Entry]] = {}
    for each in accepted:
        models.setdefault(each.identity, []).append(each)
    places = {
        each.kind: each.order for each in all_benchmarks()
    }  # other leaderboards come after them, by name
    names = sorted(
        {each.leaderboard for each in accepted}, key=lambda name: (places.get(name, math.inf), name)
    )
    tables = tuple(
        _table(name, [each for each in accepted if each.leaderboard == name], rules)
        for name in names
    )
    refused = tuple(
        sorted((each for each in entries if each.problems), key=lambda each: each.folder)
    )
    ordered = sorted(models.values(), key=lambda group: (group[0].model, group[0].slug))
    return Board(tables, tuple(map(tuple, ordered)), refused)


def _table(name: str, accepted: Sequence[Entry], rules: Path | None) -> Table:
    newest: dict[tuple[str, ...], Entry] = {}
    for each in accepted:
        newest.setdefault(each.identity, each)
    entries = list(newest.values())
    scores = [{score.task: score for score in each.scores} for each in entries]
    try:
        described = read_rules(name, rules)
        title, order, most = described.title, list(described.headlines), described.max_unscored
    except ConfigError:  # rules that were there when the entry was checked
        title, order, most = name, [], None
    found = {task: score.higher for each in scores for task, score in each.items()}
    tasks = tuple(
        sorted(found, key=lambda task: (order.index(task) if task in order else len(order), task))
    )
    ranked: list[dict[str, int | None]] = [{} for _ in entries]
    for task in tasks:
        having = [index for index, each in enumerate(scores) if task in each]
        for index, rank in zip(
            having,
            ranks([scores[index][task].interval for index in having], found[task]),
            strict=True,
        ):
            ranked[index][task] = rank
    said = [
        (each.model, {(score.task, score.answers) for score in each.scores if score.answers})
        for each in entries
    ]
    twins = [
        tuple(sorted({other for other, theirs in said if other != name and own & theirs}))
        for name, own in said
    ]
    rows = [Row(*each) for each in zip(entries, scores, ranked, twins, strict=True)]
    return Table(name, title, tasks, tuple(sorted(rows, key=lambda row: _order(row, tasks))), most)


def _order(row: Row, tasks: Sequence[str]) -> tuple[Any, ...]:
    found = [(row.scores.get(task), row.ranks.get(task)) for task in tasks]
    keys = [
        (rank is None, rank or 0, -score.surely if score.higher else score.surely)
        if score
        else (2, 0, 0.0)
        for score, rank in found
    ]
    return (*keys, row.entry.model, row.entry.folder)


def board_json(board: Board) -> dict[str, Any]:
    """All that the tables show, for programs: scores as lm_eval has them (shares, not per cent),
    with the rule of the ranks."""
    tables, refused = [], []
    for table in board.tables:
        about = {name: getattr(table, name) for name in ("name", "title", "tasks", "max_unscored")}
        tables.append({**about, "models": [_row_json(row) for row in table.rows]})
    for each in board.refused:
        problems = [{"code": code, "sentence": sentence} for code, sentence in each.problems]
        refused.append({"folder": each.folder, "model": each.model, "problems": problems})
    made = {"format": 1, "made_by": f"lm-factuality {__version__}", "rank_rule": SITE["rule"]}
    return {**made, "leaderboards": tables, "refused": refused}


def _row_json(row: Row) -> dict[str, Any]:
    entry = row.entry
    model = {
        name: getattr(entry, name)
        for name in ("model", "revision", "dtype", "backend", "num_parameters")
    }
    found = {
        "weights": entry.access,
        "folder": entry.folder,
        "sha256": entry.digest,
        "date": entry.date,
    }
    known = {"rerun": entry.rerun or None, "same_answers_as": list(row.twins)}
    scores = [{**asdict(score), "rank": row.ranks[task]} for task, score in row.scores.items()]
    return {**model, **found, **known, "scores": scores}


_PROBLEMS = 20  # that are shown of a refused submission


def pages(
    board: Board, title: str, reports: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Every page by its name: one of each leaderboard, ``index.html`` of the first,
    ``refused.html``, and ``models/SLUG.html``. ``reports`` says by the slug of a model's newest
    entry where its report lies, relative to its page."""
    tables = {
        "index.html" if number == 0 else f"{table.name}.html": table
        for number, table in enumerate(board.tables)
    }
    links = [(name, table.title) for name, table in tables.items()] or [("index.html", "Models")]
    links.append(("refused.html", f"Refused ({len(board.refused)})"))

    def page(name: str, template: str, label: str, **values: Any) -> tuple[str, str]:
        root = "../" if "/" in name else ""
        frame = {"title": label, "site": title, "here": name, "root": root, "version": __version__}
        files = {"styles": ["assets/leaderboard.css"], "scripts": []}
        own = [Link(f"{root}{href}", text) for href, text in links]
        return name, render(f"{__package__}/{template}", **frame, **files, links=own, **values)

    for name, table in tables.items():
        yield page(
            name, "table.html", table.title if len(tables) > 1 else title, **_of_table(table)
        )
    if not tables:
        yield page("index.html", "table.html", title, table=None)
    yield page("refused.html", "refused.html", "Refused", refused=board.refused, most=_PROBLEMS)
    for entries in board.models:
        values = _of_model(entries, board)
        # A row links to the entry that it shows, which in another leaderboard may be an older one
        # of the same model.
        for slug in dict.fromkeys(each.slug for each in entries):
            report = (reports or {}).get(entries[0].slug)
            yield page(
                f"models/{slug}.html", "model.html", entries[0].model, report=report, **values
            )


def _of_model(entries: Sequence[Entry], board: Board) -> dict[str, Any]:
    rows = [(table, row) for table in board.tables for row in table.rows if row.entry in entries]
    settings = {
        task: row.entry.settings.get(task, {})
        for table, row in rows
        for task in table.tasks
        if task in row.scores
    }
    names = list(dict.fromkeys(name for each in settings.values() for name in each))
    shown = {"entries": entries, "rows": rows, "settings": settings, "names": names}
    return {**shown, "metric_of": score_called}


def _of_table(table: Table) -> dict[str, Any]:
    scores = {
        task: next(row.scores[task] for row in table.rows if task in row.scores)
        for task in table.tasks
    }
    shown = {task: score_called(score.kind, score.metric) for task, score in scores.items()}
    filters = [(facet, label, f"entry.{facet}") for facet, label in SITE["filters"].items()]
    found = {
        task: sorted({row.scores[task].judge or "" for row in table.rows if task in row.scores})
        for task in shown
    }
    judges = {task: " or ".join(names) for task, names in found.items()}
    return {
        "table": table,
        "shown": shown,
        "judges": judges,
        "filters": filters,
        "rule": SITE["rule"],
    }
