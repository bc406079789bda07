"""The tables of the leaderboards with a row for each model, as JSON and as pages."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.chosen import displayed_score
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
class LeaderboardTable:
    """A leaderboard.

    Rows are ordered by the rank in the first task, then by the score there (the worst case, where
    anything is unscored), then by the next task.
    """

    rules: Rules
    tasks: tuple[str, ...]
    rows: tuple[LeaderboardEntry, ...]
    """The newest entry of each model, with its ranks."""


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
        reports: By the slug of a model, where its report lies relative to its page.
    """
    names = ["index.html", *(f"{table.rules.name}.html" for table in board.tables[1:])]
    tables = dict(zip(names, board.tables, strict=False))
    links = [Link(name, table.rules.title) for name, table in tables.items()]
    links = links or [Link("index.html", "Models")]
    links.append(Link("refused.html", f"Refused ({len(board.refused)})"))

    def page(name: str, template: str, label: str, **values: Any) -> tuple[str, str]:
        return name, render(
            f"{__package__}/{template}",
            title=label,
            site=title,
            here=name,
            links=links,
            root="../" if "/" in name else "",
            version=__version__,
            styles=["assets/leaderboard.css"],
            scripts=[],
            **values,
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
        newest = entries[0]
        folders = {entry.folder for entry in entries}
        rows = [(table, row) for table in board.tables for row in table.rows]
        values = {
            "entries": entries,
            "rows": [(table, row) for table, row in rows if row.folder in folders],
            "report": (reports or {}).get(newest.slug),
            "metric_of": displayed_score,
        }
        yield page(f"models/{newest.slug}.html", "model.html", newest.model, **values)


def _to_table(rules: Rules, newest_first: Sequence[LeaderboardEntry]) -> LeaderboardTable:
    by_model: dict[tuple[str, ...], LeaderboardEntry] = {}
    for entry in newest_first:
        by_model.setdefault(entry.identity, entry)
    entries = list(by_model.values())
    ranked: list[dict[str, RankedScore]] = [dict(entry.scores) for entry in entries]
    tasks = []
    for task in rules.headlines:
        with_score = [scores for scores in ranked if task in scores]
        if not with_score:
            continue
        tasks.append(task)
        intervals = [scores[task].interval for scores in with_score]
        places = ranks(intervals, with_score[0][task].higher)
        for scores, rank in zip(with_score, places, strict=True):
            scores[task] = replace(scores[task], rank=rank)
    rows = []
    for entry, scores in zip(entries, ranked, strict=True):
        rows.append(replace(entry, scores=scores, twins=_twins_of(entry, entries)))
    rows.sort(key=lambda row: _order(row, tasks))
    return LeaderboardTable(rules, tuple(tasks), tuple(rows))


def _twins_of(entry: LeaderboardEntry, entries: Sequence[LeaderboardEntry]) -> tuple[str, ...]:
    """The models of another name that gave the same answers to a whole task."""
    twins = set()
    for candidate in entries:
        for task, score in entry.scores.items():
            twin = candidate.scores.get(task)
            if score.answers and twin is not None and twin.answers == score.answers:
                twins.add(candidate.model)
    return tuple(sorted(twins - {entry.model}))


def _order(row: LeaderboardEntry, tasks: Sequence[str]) -> tuple[Any, ...]:
    keys: list[tuple[bool, float, float]] = []
    for task in tasks:
        score = row.scores.get(task)
        value = score.value_in_doubt if score else 0.0
        # Scores without a rank come behind the others, and before rows without a score.
        rank = (score.rank if score else None) or math.inf
        keys.append((score is None, rank, -value if score and score.higher else value))
    return (*keys, row.model, row.folder)


def _row_json(row: LeaderboardEntry) -> dict[str, Any]:
    scores = []
    for score in row.scores.values():
        figure = {name: getattr(score.figure, name) for name in _FIGURE}
        corrected = score.figure.corrected
        figure["corrected"] = corrected and asdict(corrected)
        fields = asdict(score)
        del fields["figure"]
        scores.append({**figure, **fields})
    return {
        "model": row.model,
        "revision": row.submission.model.revision,
        "dtype": row.dtype,
        "backend": row.backend,
        "num_parameters": row.num_parameters,
        "weights": row.access,
        "folder": row.folder,
        "sha256": row.digest,
        "date": row.date,
        "rerun": row.rerun or None,
        "same_answers_as": list(row.twins),
        "scores": scores,
    }


def _values_of_table(table: LeaderboardTable) -> dict[str, Any]:
    metrics = {}
    judges = {}
    for task in table.tasks:
        scores = [row.scores[task] for row in table.rows if task in row.scores]
        metrics[task] = displayed_score(scores[0].kind, scores[0].figure.metric)
        judges[task] = " or ".join(sorted({score.judge or "" for score in scores}))
    return {
        "table": table,
        "shown": metrics,
        "judges": judges,
        "rule": SITE["rule"],
    }
