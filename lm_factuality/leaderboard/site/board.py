"""Put the entries of leaderboards into tables, and write the tables as JSON and as HTML pages.

`lm_factuality.leaderboard.site.build` calls it when it writes the site.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.chosen import displayed_score
from lm_factuality.ground.html import Link, render
from lm_factuality.ground.model_names import display_name
from lm_factuality.leaderboard.rules import Rules, read_rules
from lm_factuality.leaderboard.site.entries import (
    RANK_RULE,
    LeaderboardEntry,
    RankedScore,
    RefusedEntry,
    rank_scores,
)

_MAX_SHOWN_PROBLEMS = 20
"""How many reasons the page of refused submissions shows for each of them."""

_FIGURE_KEYS = (
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
    "guess_baseline",
    "counted",
)
"""The fields of a score's figure that the JSON file has."""


@dataclass(frozen=True)
class LeaderboardTable:
    """A leaderboard with one row per model."""

    rules: Rules
    """The rules of the leaderboard."""

    tasks: tuple[str, ...]
    """The tasks with a column, i.e. those in which a model has a score."""

    rows: Sequence[LeaderboardEntry]
    """The newest entry of each model with its ranks, the best model first."""


@dataclass(frozen=True)
class Board:
    """Everything that the site shows."""

    tables: Sequence[LeaderboardTable]
    """The leaderboards that have accepted submissions, in the order of the site."""

    models: Sequence[Sequence[LeaderboardEntry]]
    """The accepted entries of each model, the newest first."""

    refused: Sequence[RefusedEntry]
    """The refused submissions, sorted by folder."""


def to_board(
    entries: Sequence[LeaderboardEntry | RefusedEntry], rules_folder: Path | None = None
) -> Board:
    """Put submissions into the tables of their leaderboards.

    Args:
        entries: The accepted and refused submissions. Refused ones are in no table.
        rules_folder: A folder with the rules of leaderboards. Defaults to the suite's rules.

    Returns:
        The tables, in the order of the benchmarks that leaderboards are named after, with all
        accepted and refused submissions.
    """
    accepted = [entry for entry in entries if isinstance(entry, LeaderboardEntry)]
    refused = [entry for entry in entries if isinstance(entry, RefusedEntry)]
    entries_by_model = defaultdict(list)
    entries_by_leaderboard = defaultdict(list)
    newest_first = sorted(accepted, key=lambda entry: (entry.date, entry.folder), reverse=True)
    for entry in newest_first:
        entries_by_model[entry.identity].append(entry)
        entries_by_leaderboard[entry.submission.leaderboard].append(entry)

    # Leaderboards that are not named after a benchmark come last, by name.
    positions = {benchmark.kind: benchmark.order for benchmark in all_benchmarks()}
    names = sorted(entries_by_leaderboard, key=lambda name: (positions.get(name, math.inf), name))
    tables = []
    for name in names:
        rules = read_rules(name, rules_folder)
        tables.append(_make_table(rules, entries_by_leaderboard[name]))
    return Board(tables, list(entries_by_model.values()), sorted(refused))


def _make_table(rules: Rules, newest_first: Sequence[LeaderboardEntry]) -> LeaderboardTable:
    """Make the table of a leaderboard, with the ranks of all models.

    Args:
        rules: The rules of the leaderboard.
        newest_first: All accepted entries of the leaderboard. The first entry of each model counts.

    Returns:
        The table, whose rows are sorted by rank.
    """
    # A new submission of the same model replaces its row, but stays on the model's page.
    newest_by_model: dict[tuple[str, ...], LeaderboardEntry] = {}
    for entry in newest_first:
        newest_by_model.setdefault(entry.identity, entry)
    entries = newest_by_model.values()

    # A task in which nobody has a score gets no column.
    tasks = [task for task in rules.headlines if any(task in entry.scores for entry in entries)]
    ranks_by_task = {task: _rank_models(entries, task) for task in tasks}
    rows = []
    for entry in entries:
        ranked_scores = {}
        for task, score in entry.scores.items():
            ranked_scores[task] = replace(score, rank=ranks_by_task[task][entry.identity])
        models_with_same_answers = _models_with_same_answers(entry, entries)
        rows.append(replace(entry, scores=ranked_scores, twins=models_with_same_answers))
    rows.sort(key=lambda row: _sort_key(row, tasks))
    return LeaderboardTable(rules, tuple(tasks), rows)


def _models_with_same_answers(
    entry: LeaderboardEntry, entries: Collection[LeaderboardEntry]
) -> tuple[str, ...]:
    """Find models of another name that gave the same answers to a whole task.

    One of two such submissions may be a copy. Files cannot show which came first.

    Args:
        entry: The entry of a model.
        entries: All entries of the leaderboard.

    Returns:
        The sorted names of the other models.
    """
    names = set()
    for candidate in entries:
        # The candidate may be the entry itself, or another revision of its model.
        if candidate.model == entry.model:
            continue
        for task, score in entry.scores.items():
            candidate_score = candidate.scores.get(task)
            # The hash is empty if a run has no samples.
            if not score.answers_hash or candidate_score is None:
                continue
            if candidate_score.answers_hash == score.answers_hash:
                names.add(candidate.model)
    return tuple(sorted(names))


def _rank_models(
    entries: Collection[LeaderboardEntry], task: str
) -> dict[tuple[str, ...], int | None]:
    """Rank models by their scores in one task.

    Args:
        entries: The entries of a leaderboard, at least one of which has a score in the task.
        task: The task.

    Returns:
        The rank of each model with a score, by `LeaderboardEntry.identity`.
    """
    scores = {entry.identity: entry.scores[task] for entry in entries if task in entry.scores}
    # All scores of a task are of the same metric, so any of them tells which way is better.
    higher_is_better = next(iter(scores.values())).higher_is_better
    ranks = rank_scores([score.interval for score in scores.values()], higher_is_better)
    return dict(zip(scores, ranks, strict=True))


def _sort_key(row: LeaderboardEntry, tasks: Sequence[str]) -> tuple[Any, ...]:
    """Return the key by which the rows of a table are sorted.

    Rows are sorted by their rank in the first task, then by their score in it, then likewise in
    the next tasks, and at last by name.

    Args:
        row: The row of a model.
        tasks: The tasks of the table.
    """
    keys_of_tasks = [_task_sort_key(row.scores.get(task)) for task in tasks]
    # The folder keeps the order of two revisions of one model the same in each build.
    return (*keys_of_tasks, row.model, row.folder)


def _task_sort_key(score: RankedScore | None) -> tuple[bool, float, float]:
    """Return the key that sorts scores of a task: with rank, without rank, and missing ones."""
    if score is None:
        # True sorts after False, so rows without a score come last.
        return True, math.inf, 0.0
    rank = math.inf if score.rank is None else score.rank
    # The best score comes first.
    value = -score.sort_value if score.higher_is_better else score.sort_value
    return False, rank, value


def board_json(board: Board) -> dict[str, Any]:
    """Return all tables and refused submissions for other programs, as ``leaderboard.json``.

    Args:
        board: The tables of the site.

    Returns:
        A JSON object. Scores are shares from 0 to 1, as lm_eval has them, not per cent.
    """
    leaderboards = []
    for table in board.tables:
        leaderboard = {
            "name": table.rules.name,
            "title": table.rules.title,
            "tasks": table.tasks,
            "max_unscored": table.rules.max_unscored,
            "models": [_row_json(row) for row in table.rows],
        }
        leaderboards.append(leaderboard)

    refused = []
    for submission in board.refused:
        problems = [{"code": code, "sentence": sentence} for code, sentence in submission.problems]
        refused.append(
            {"folder": submission.folder, "model": submission.model, "problems": problems}
        )
    return {
        "format": 1,
        "made_by": f"lm-factuality {__version__}",
        "rank_rule": RANK_RULE,
        "leaderboards": leaderboards,
        "refused": refused,
    }


def _row_json(row: LeaderboardEntry) -> dict[str, Any]:
    """Return the row of a model with its scores as a JSON object, by the keys of the file."""
    return {
        "model": row.model,
        "revision": row.submission.model.revision,
        "dtype": row.submission.model.dtype,
        "backend": row.backend,
        "num_parameters": row.num_parameters,
        "weights": row.access,
        "folder": row.folder,
        "sha256": row.digest,
        "date": row.date,
        "rerun": row.rerun or None,
        "same_answers_as": list(row.twins),
        "scores": [_score_json(score) for score in row.scores.values()],
    }


def _score_json(score: RankedScore) -> dict[str, Any]:
    """Return a score with its interval and rank as one flat JSON object.

    Example:
        ``{"metric": "factor_acc", "value": 0.47, ..., "task": "wiki_factor", "rank": 1}``
    """
    # The figure also holds the whole results of the task, which are left out.
    figure_fields = {key: getattr(score.figure, key) for key in _FIGURE_KEYS}
    if score.figure.corrected is not None:
        figure_fields["corrected"] = asdict(score.figure.corrected)
    return {
        **figure_fields,
        "task": score.task,
        "kind": score.kind,
        "higher": score.higher_is_better,
        "judge": score.judge,
        "steps": [asdict(step) for step in score.steps],
        "items": score.items,
        "score_if_unscored_wrong": score.score_if_unscored_wrong,
        "answers": score.answers_hash,
        "rank": score.rank,
    }


def render_pages(board: Board, title: str, reports: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Render every page of the site.

    Args:
        board: What the site shows.
        title: The title of the site.
        reports: The link from a model's page to the report of its samples, by the model's slug.

    Yields:
        The path of each page in the site's folder, such as ``models/gpt2.html``, and its HTML.
    """
    links = _navigation_links(board)
    # All pages have the same heading and navigation.
    render_page = partial(_render_page, site=title, links=links)

    if not board.tables:
        # This front page says that nothing has been accepted yet.
        yield render_page("index.html", "table.html", title, table=None)
    # The last link leads to the refused submissions, which are in no table.
    for link, table in zip(links, board.tables, strict=False):
        # A site with one leaderboard has the title that the user chose.
        table_title = table.rules.title if len(board.tables) > 1 else title
        variables = _variables_of_table_page(table)
        yield render_page(link.href, "table.html", table_title, **variables)
    refused = {"refused": board.refused, "most": _MAX_SHOWN_PROBLEMS}
    yield render_page("refused.html", "refused.html", "Refused", **refused)
    for entries in board.models:
        newest = entries[0]
        variables = _variables_of_model_page(board, entries)
        variables["report"] = reports.get(newest.slug)
        yield render_page(f"models/{newest.slug}.html", "model.html", newest.model, **variables)


def _navigation_links(board: Board) -> list[Link]:
    """Return the links of every page: to each leaderboard, then to the refused submissions."""
    links: list[Link] = []
    for table in board.tables:
        # The first leaderboard is the front page.
        path = f"{table.rules.name}.html" if links else "index.html"
        links.append(Link(path, table.rules.title))
    if not links:
        links.append(Link("index.html", "Models"))
    links.append(Link("refused.html", f"Refused ({len(board.refused)})"))
    return links


def _render_page(path: str, template: str, title: str, **variables: Any) -> tuple[str, str]:
    """Render one page of the site.

    Args:
        path: The path of the page in the site's folder, such as ``models/gpt2.html``.
        template: The file name of the template in this package.
        title: The title of the page.
        **variables: The other variables of the template.

    Returns:
        The path, and the HTML of the page.
    """
    html = render(
        f"{__package__}/{template}",
        title=title,
        here=path,
        # Links to assets and other pages begin with the way up to the site's folder.
        root="../" if "/" in path else "",
        version=__version__,
        styles=["assets/leaderboard.css"],
        scripts=[],
        **variables,
    )
    return path, html


def _variables_of_table_page(table: LeaderboardTable) -> dict[str, Any]:
    """Return the variables of ``table.html``, by their names in this template."""
    metrics = {}
    judges = {}
    for task in table.tasks:
        scores = [row.scores[task] for row in table.rows if task in row.scores]
        # The column's heading shows the metric's name and which way is better.
        metrics[task] = displayed_score(scores[0].kind, scores[0].figure.metric)
        # Models can have been judged by different judges.
        names_of_judges = {score.judge or "" for score in scores}
        judges[task] = " or ".join(sorted(names_of_judges))
    models = {row.model for row in table.rows}
    names = {model: display_name(model, models) for model in models}
    return {
        "table": table,
        "metrics": metrics,
        "judges": judges,
        "rule": RANK_RULE,
        "names": names,
    }


def _variables_of_model_page(board: Board, entries: Sequence[LeaderboardEntry]) -> dict[str, Any]:
    """Return the variables of the template ``model.html``, the page of one model.

    The page shows the model's row of each leaderboard, and its submissions.

    Args:
        board: What the site shows.
        entries: All accepted entries of the model, the newest first.
    """
    folders = {entry.folder for entry in entries}
    tables_with_rows = []
    for table in board.tables:
        for row in table.rows:
            # Each row of a table shows one entry.
            if row.folder in folders:
                tables_with_rows.append((table, row))
    return {
        "entries": entries,
        "tables_with_rows": tables_with_rows,
        "displayed_score": displayed_score,
    }
