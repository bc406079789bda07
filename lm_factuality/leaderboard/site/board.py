"""The tables of the leaderboards with a row for each model, as JSON and as pages."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.chosen import score_called
from lm_factuality.ground.html import Link, render
from lm_factuality.leaderboard.rules import Rules, read_rules
from lm_factuality.leaderboard.site.entries import (
    SITE,
    LeaderboardEntry,
    RankedScore,
    RefusedEntry,
    ranks,
)

_MOST_PROBLEMS = 20
"""How many reasons are shown of a refused submission."""

_FIGURE = (
    "metric",
    "value",
    "low",
    "high",
    "stderr",
    "n",
    "unscored",
    "worst",
    "best",
    "caution",
    "corrected",
    "floor",
    "counted",
)
"""What is written of a figure."""


@dataclass(frozen=True)
class LeaderboardRow:
    """A model in a leaderboard."""

    entry: LeaderboardEntry
    """Its newest entry."""

    scores: Mapping[str, RankedScore]
    """By task."""

    ranks: Mapping[str, int | None]
    twins: tuple[str, ...]
    """Models of another name that gave the same answers to a whole task."""


@dataclass(frozen=True)
class LeaderboardTable:
    """A leaderboard.

    Rows are ordered by the rank in the first task, then by the score there (the worst case, where
    anything is unscored), then by the next task.
    """

    rules: Rules
    tasks: tuple[str, ...]
    rows: tuple[LeaderboardRow, ...]


@dataclass(frozen=True)
class Board:
    """All leaderboards."""

    tables: tuple[LeaderboardTable, ...]
    models: tuple[tuple[LeaderboardEntry, ...], ...]
    """The accepted entries, those of one model together, the newest first."""

    refused: tuple[RefusedEntry, ...]


def to_board(
    accepted: Sequence[LeaderboardEntry],
    refused: Sequence[RefusedEntry],
    rules: Path | None = None,
) -> Board:
    """Put entries into the tables of their leaderboards, one row for each model.

    Args:
        rules: A folder of rules instead of the suite's.
    """
    newest_first = sorted(accepted, key=lambda entry: (entry.date, entry.folder), reverse=True)
    models: dict[tuple[str, ...], list[LeaderboardEntry]] = {}
    by_leaderboard: dict[str, list[LeaderboardEntry]] = {}
    for entry in newest_first:
        models.setdefault(entry.identity, []).append(entry)
        by_leaderboard.setdefault(entry.submission.leaderboard, []).append(entry)
    # Leaderboards that are not named after a benchmark come last, by name.
    places = {benchmark.kind: benchmark.order for benchmark in all_benchmarks()}
    names = sorted(by_leaderboard, key=lambda name: (places.get(name, math.inf), name))
    return Board(
        tables=tuple(_to_table(read_rules(name, rules), by_leaderboard[name]) for name in names),
        models=tuple(
            tuple(group)
            for group in sorted(models.values(), key=lambda group: (group[0].model, group[0].slug))
        ),
        refused=tuple(sorted(refused)),
    )


def board_json(board: Board) -> dict[str, Any]:
    """All that the tables show, for programs, with the rule of the ranks.

    Scores are as lm_eval has them: shares, not per cent.
    """
    leaderboards = []
    for table in board.tables:
        leaderboards.append(
            {
                "name": table.rules.name,
                "title": table.rules.title,
                "tasks": table.tasks,
                "max_unscored": table.rules.max_unscored,
                "models": [_row_json(row) for row in table.rows],
            }
        )
    refused = []
    for entry in board.refused:
        problems = [{"code": code, "sentence": sentence} for code, sentence in entry.problems]
        refused.append({"folder": entry.folder, "model": entry.model, "problems": problems})
    return {
        "format": 1,
        "made_by": f"lm-factuality {__version__}",
        "rank_rule": SITE["rule"],
        "leaderboards": leaderboards,
        "refused": refused,
    }


def pages(
    board: Board, title: str, reports: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Every page of the site, by its name.

    Args:
        reports: By the slug of a model's newest entry, where its report lies relative to its page.
    """
    names = ["index.html", *(f"{table.rules.name}.html" for table in board.tables[1:])]
    tables = dict(zip(names, board.tables, strict=False))
    links = [(name, table.rules.title) for name, table in tables.items()]
    links = links or [("index.html", "Models")]
    links.append(("refused.html", f"Refused ({len(board.refused)})"))

    def page(name: str, template: str, label: str, **values: Any) -> tuple[str, str]:
        root = "../" if "/" in name else ""
        frame = {"title": label, "site": title, "here": name, "root": root, "version": __version__}
        files = {"styles": ["assets/leaderboard.css"], "scripts": []}
        own_links = [Link(f"{root}{href}", text) for href, text in links]
        return name, render(
            f"{__package__}/{template}", **frame, **files, links=own_links, **values
        )

    for name, table in tables.items():
        label = table.rules.title if len(tables) > 1 else title
        yield page(name, "table.html", label, **_values_of_table(table))
    if not tables:
        yield page("index.html", "table.html", title, table=None)
    yield page(
        "refused.html", "refused.html", "Refused", refused=board.refused, most=_MOST_PROBLEMS
    )
    for entries in board.models:
        values = _values_of_model(entries, board)
        report = (reports or {}).get(entries[0].slug)
        # A row links to the entry that it shows, which in another leaderboard may be an older one
        # of the same model.
        for entry in entries:
            name = f"models/{entry.slug}.html"
            yield page(name, "model.html", entry.model, report=report, **values)


def _to_table(rules: Rules, newest_first: Sequence[LeaderboardEntry]) -> LeaderboardTable:
    by_model: dict[tuple[str, ...], LeaderboardEntry] = {}
    for entry in newest_first:
        by_model.setdefault(entry.identity, entry)
    entries = list(by_model.values())
    scores = [{score.task: score for score in entry.scores} for entry in entries]
    tasks = [task for task in rules.headlines if any(task in of_entry for of_entry in scores)]
    ranks_of_rows: list[dict[str, int | None]] = [{} for _ in entries]
    for task in tasks:
        places = [place for place, of_entry in enumerate(scores) if task in of_entry]
        intervals = [scores[place][task].interval for place in places]
        higher = scores[places[0]][task].higher
        for place, rank in zip(places, ranks(intervals, higher), strict=True):
            ranks_of_rows[place][task] = rank
    rows = [
        LeaderboardRow(entry, scores[place], ranks_of_rows[place], _twins_of(entry, entries))
        for place, entry in enumerate(entries)
    ]
    rows.sort(key=lambda row: _order(row, tasks))
    return LeaderboardTable(rules, tuple(tasks), tuple(rows))


def _twins_of(entry: LeaderboardEntry, entries: Sequence[LeaderboardEntry]) -> tuple[str, ...]:
    """The models of another name that gave the same answers to a whole task."""
    answers = {(score.task, score.answers) for score in entry.scores if score.answers}
    twins = set()
    for candidate in entries:
        same = any((score.task, score.answers) in answers for score in candidate.scores)
        if same and candidate.model != entry.model:
            twins.add(candidate.model)
    return tuple(sorted(twins))


def _order(row: LeaderboardRow, tasks: Sequence[str]) -> tuple[Any, ...]:
    keys: list[tuple[int, int, float]] = []
    for task in tasks:
        score, rank = row.scores.get(task), row.ranks.get(task)
        if score is None:
            keys.append((2, 0, 0.0))
            continue
        value = score.value_in_doubt
        keys.append((int(rank is None), rank or 0, -value if score.higher else value))
    return (*keys, row.entry.model, row.entry.folder)


def _row_json(row: LeaderboardRow) -> dict[str, Any]:
    entry = row.entry
    scores = []
    for task, score in row.scores.items():
        figure = {name: getattr(score.figure, name) for name in _FIGURE}
        corrected = score.figure.corrected
        figure["corrected"] = corrected and asdict(corrected)
        fields = asdict(score)
        del fields["figure"]
        scores.append({**figure, **fields, "rank": row.ranks[task]})
    return {
        "model": entry.model,
        "revision": entry.submission.model.revision,
        "dtype": entry.submission.model.dtype,
        "backend": entry.backend,
        "num_parameters": entry.num_parameters,
        "weights": entry.access,
        "folder": entry.folder,
        "sha256": entry.digest,
        "date": entry.date,
        "rerun": entry.rerun or None,
        "same_answers_as": list(row.twins),
        "scores": scores,
    }


def _values_of_model(entries: Sequence[LeaderboardEntry], board: Board) -> dict[str, Any]:
    rows = [(table, row) for table in board.tables for row in table.rows if row.entry in entries]
    settings = {}
    for table, row in rows:
        for task in table.tasks:
            if task in row.scores:
                settings[task] = row.entry.settings.get(task, {})
    return {
        "entries": entries,
        "rows": rows,
        "settings": settings,
        "names": list(dict.fromkeys(name for of_task in settings.values() for name in of_task)),
        "metric_of": score_called,
    }


def _values_of_table(table: LeaderboardTable) -> dict[str, Any]:
    metrics = {}
    judges = {}
    for task in table.tasks:
        scores = [row.scores[task] for row in table.rows if task in row.scores]
        metrics[task] = score_called(scores[0].kind, scores[0].figure.metric)
        judges[task] = " or ".join(sorted({score.judge or "" for score in scores}))
    return {
        "table": table,
        "shown": metrics,
        "judges": judges,
        "filters": [(facet, label, f"entry.{facet}") for facet, label in SITE["filters"].items()],
        "rule": SITE["rule"],
    }
