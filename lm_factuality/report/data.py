"""Write the rows of all tasks, and the differences between models, as scripts for the pages.

A file holds a call ``lmf.put(NAME, CONTENT)``, because a page that is opened from a disk may run a
script beside it, but not read a file. The texts of rows are in files of `CHUNK` rows, which a page
loads when it shows them. `lm_factuality.report.build` calls this module.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_factuality.benchmarks.chosen import Entry, Model, ReportRuns
from lm_factuality.benchmarks.declaration import Benchmark, SampleDisplay, Score, undeclared_score
from lm_factuality.benchmarks.pairs import (
    PairedDifference,
    comparable_scores,
    compare_all_models,
    sample_row_of,
    score_stderr,
)
from lm_factuality.benchmarks.rows import SampleRow, ScoredRows, collect_scored_rows
from lm_factuality.ground.errors import Reason, count_reasons
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import as_data
from lm_factuality.harness.samples import samples_of
from lm_factuality.scores.intervals import MIN_CLUSTERS

CHUNK = 250
"""The number of rows whose texts are in one file."""

OUTCOMES = ("right", "wrong", "unscored", "none")
"""The outcomes of rows. Files hold their positions here, from 0."""

PairScore = list[str | float | None]
"""The comparison of two models in a score, as `_pair_score` arranges it."""


@dataclass(frozen=True)
class TaskData:
    """The rows of a task in the report, which `_write_task` fills in model by model."""

    id: str
    """The id of the task in file names, such as ``t0``."""

    entries: Sequence[Entry]
    """The runs that have samples, one per model."""

    benchmark: Benchmark
    """The benchmark of the task."""

    display: SampleDisplay
    """How the benchmark shows its samples."""

    first_rows: dict[str, SampleRow] = field(default_factory=dict)
    """The row of the first model that has it, by the row's key. Models share its texts."""

    scored_rows: dict[str, dict[str, ScoredRows]] = field(default_factory=lambda: defaultdict(dict))
    """The rows that count for a score, by the score's name and the model's id."""

    unscored_reasons: dict[str, Sequence[Reason]] = field(default_factory=dict)
    """The reasons for which rows are unscored, by the model's id."""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.entries[0].result.task

    @property
    def model_ids(self) -> list[str]:
        """The ids of the models that have samples."""
        return [entry.model.id for entry in self.entries]

    @property
    def facets(self) -> list[str]:
        """The groups by which a page can filter the rows, such as domains, by name."""
        return sorted({facet for row in self.first_rows.values() for facet in row.facets})


def write_data(report_runs: ReportRuns, folder: Path) -> list[TaskData]:
    """Write the rows of every task with samples as files that the pages of the report load.

    Args:
        report_runs: The runs of the report.
        folder: The folder of the files.

    Returns:
        The rows of each task that has samples and a benchmark that shows them.

    Raises:
        DataError: A file of samples cannot be read, or ``folder`` cannot be written.
    """
    tasks = []
    for number, task in enumerate(report_runs.tasks):
        entries = [entry for entry in report_runs.of_task(task) if entry.result.samples]
        if not entries:
            continue
        # Two benchmarks can have tasks of the same name, whose rows cannot be mixed.
        if len({entry.result.kind for entry in entries}) > 1:
            continue
        benchmark = entries[0].benchmark
        display = benchmark.page.samples
        if display is None:
            continue
        task_data = TaskData(f"t{number}", entries, benchmark, display)
        _write_task(task_data, folder)
        tasks.append(task_data)
    return tasks


def _write_task(task_data: TaskData, folder: Path) -> None:
    """Read the samples of every model on a task, and write them to files for the report's pages.

    Rows are numbered in the order in which they first occur, so all models share the numbers.

    Args:
        task_data: The task, whose rows are empty and get filled in.
        folder: The folder of the files.
    """
    progress = tqdm(task_data.entries, f"reading {task_data.task}", unit=" models", delay=2)
    for entry in progress:
        rows = [
            sample_row_of(entry.result, task_data.display, sample)
            for sample in samples_of(entry.result)
        ]
        _add_rows(task_data, entry.model.id, rows)
        # Later models can add rows, but do not change the numbers of earlier ones.
        row_numbers = {key: number for number, key in enumerate(task_data.first_rows)}
        _write_rows_of_model(f"{task_data.id}.{entry.model.id}", rows, row_numbers, folder)
    _write_shared_texts(f"{task_data.id}.docs", list(task_data.first_rows.values()), folder)


def _add_rows(task_data: TaskData, model_id: str, rows: Sequence[SampleRow]) -> None:
    """Add to ``task_data`` what later pages need of a model's rows.

    These are the texts, the scores, and the reasons for which rows are unscored.
    """
    for row in rows:
        # An earlier model may have the row already, with the same texts.
        if row.key not in task_data.first_rows:
            task_data.first_rows[row.key] = row
    for score_name, scored_rows in collect_scored_rows(rows).items():
        task_data.scored_rows[score_name][model_id] = scored_rows
    # A row with a score can also have a reason. If a response has ten facts, for example, the judge
    # may decide only nine of them.
    reasons = [str(row.detail["unscored"]) for row in rows if row.detail.get("unscored")]
    if reasons:
        task_data.unscored_reasons[model_id] = count_reasons(reasons)


def _write_rows_of_model(
    name: str, rows: Sequence[SampleRow], row_numbers: Mapping[str, int], folder: Path
) -> None:
    """Write the rows of one model on a task: one file with their outcomes, and files of details.

    For the name ``t0.m1``, ``t0.m1.js`` holds one list per row: number, outcome as its position in
    `OUTCOMES`, margin, and facets, as in ``[7, 1, -0.25, ["date"]]``. ``t0.m1.0.js`` holds the
    details, such as the response, of the rows numbered 0 to 249, by number.

    Args:
        name: The beginning of the file names.
        rows: The rows of the model.
        row_numbers: The number of each row in the task, from 0, by the row's key.
        folder: The folder of the files.
    """
    outcomes = []
    details_by_chunk: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        number = row_numbers[row.key]
        # Four digits are enough to sort rows, and keep the file small.
        margin = None if row.margin is None else round(row.margin, 4)
        # The page's script reads these by their position.
        outcomes.append([number, OUTCOMES.index(row.outcome), margin, list(row.facets)])
        details_by_chunk[number // CHUNK][number] = row.detail

    _write_script(name, outcomes, folder)
    for chunk, details in details_by_chunk.items():
        _write_script(f"{name}.{chunk}", details, folder)


def _write_shared_texts(name: str, rows: Sequence[SampleRow], folder: Path) -> None:
    """Write the texts of a task's rows that all models share, such as prompts.

    For the name ``t0.docs``, ``t0.docs.js`` holds the titles of all rows, ``t0.docs.0.js`` the
    texts of the first `CHUNK` rows, ``t0.docs.1.js`` those of the next ones.
    """
    _write_script(name, [row.title for row in rows], folder)
    for start in range(0, len(rows), CHUNK):
        # A page loads only the texts near the row that it shows.
        texts = [row.doc for row in rows[start : start + CHUNK]]
        _write_script(f"{name}.{start // CHUNK}", texts, folder)


def _write_script(name: str, content: object, folder: Path) -> None:
    """Write ``NAME.js``, which hands its content to the page: ``lmf.put("t0.docs",["a"]);``."""
    write_text(folder / f"{name}.js", f'lmf.put("{name}",{as_data(content)});\n')


def with_missing_stderrs(report_runs: ReportRuns, tasks: Sequence[TaskData]) -> ReportRuns:
    """Add the standard errors that lm_eval did not write, computed from the rows of each run.

    lm_eval writes none for metrics that it does not know, and none without bootstrapping.

    Args:
        report_runs: The runs of the report.
        tasks: The rows of each task.

    Returns:
        A copy of the runs. Standard errors of lm_eval stay as they are.
    """
    data_by_task = {task_data.task: task_data for task_data in tasks}
    entries = []
    for entry in report_runs.entries:
        result = entry.result
        stderrs = dict(result.stderrs)
        task_data = data_by_task.get(result.task)
        if task_data is not None:
            stderrs |= _missing_stderrs(entry, task_data)
        entries.append(replace(entry, result=replace(result, stderrs=stderrs)))
    return replace(report_runs, entries=tuple(entries))


def _missing_stderrs(entry: Entry, task_data: TaskData) -> dict[str, float]:
    """Compute the standard errors that are not in a results file, from the rows of the run.

    Returns:
        The standard errors by the name of the score. Rows of a single cluster have none.
    """
    stderrs = {}
    for name, rows_by_model in task_data.scored_rows.items():
        lacks_stderr = name in entry.result.metrics and name not in entry.result.stderrs
        rows = rows_by_model.get(entry.model.id)
        if rows is None or not lacks_stderr:
            continue
        # A plugin's rows can have scores that its benchmark does not declare.
        score = entry.benchmark.find_score(name) or undeclared_score(name)
        stderr = score_stderr(rows, score)
        if stderr is not None:
            stderrs[name] = stderr
    return stderrs


def page_content(report_runs: ReportRuns, tasks: Sequence[TaskData]) -> dict[str, Any]:
    """Describe models and tasks for the scripts of the sample browser and the comparison page.

    Args:
        report_runs: The runs of the report.
        tasks: The rows of each task.

    Returns:
        The JSON object that ``samples.js`` and ``compare.js`` read. Models are pairs of id and
        label; models without samples are missing.
    """
    ids_with_samples: set[str] = set()
    for task_data in tasks:
        ids_with_samples.update(task_data.model_ids)
    models = [model for model in report_runs.models if model.id in ids_with_samples]
    return {
        "least": MIN_CLUSTERS,
        "chunk": CHUNK,
        "outcomes": OUTCOMES,
        "models": [[model.id, model.label] for model in models],
        "tasks": [_task_content(task_data, report_runs.custom_pages) for task_data in tasks],
    }


def _task_content(
    task_data: TaskData, custom_pages: Mapping[tuple[str, str], str]
) -> dict[str, object]:
    """Describe a task for the scripts of the sample browser and the comparison page.

    Args:
        task_data: The rows of the task.
        custom_pages: The benchmark's pages about samples, by task and model id.

    Returns:
        The JSON object of the task.
    """
    display = task_data.display
    # Pages compare models only in scores of which higher or lower is better.
    scores = comparable_scores(task_data.benchmark, list(task_data.scored_rows))
    settings = [entry.result.metadata for entry in task_data.entries]
    pages_by_model = {
        model_id: href for (task, model_id), href in custom_pages.items() if task == task_data.task
    }
    return {
        "id": task_data.id,
        "task": task_data.task,
        "models": task_data.model_ids,
        "metrics": [_metric_content(score.with_k_label(settings)) for score in scores],
        "rows": len(task_data.first_rows),
        # All groups of rows, such as "math". Below, "facet" is what they are called, "Domain".
        "facets": task_data.facets,
        "kind": task_data.benchmark.kind,
        # What the benchmark calls the number of right rows, and each of `OUTCOMES`.
        "right": display.right_count_label,
        "words": display.outcome_labels,
        "margin": display.margin_label,
        "facet": display.facet_label,
        "pages": pages_by_model,
    }


def _metric_content(score: Score) -> dict[str, object]:
    """Describe for the page's scripts how a score is shown: label, direction, decimals and unit."""
    return {
        "name": score.name,
        "label": score.label,
        "higher": score.higher_is_better,
        "digits": score.decimals,
        "scale": score.display_factor,
        "unit": "%" if score.display_factor == 100 else "",
    }


def write_pairs(models: Sequence[Model], tasks: Sequence[TaskData], folder: Path) -> None:
    """Write how each model differs from the models after it, in one file per model.

    With the models m0, m1 and m2, ``pairs.m0.js`` compares m0 with m1 and m2, and ``pairs.m1.js``
    compares m1 with m2. Each holds the scores by the id of the second model and of the task:
    ``{"m1": {"t0": [...], "t1": [...]}, "m2": {"t0": [...]}}``.

    Args:
        models: The models of the report, in the order of its pages.
        tasks: The rows of each task.
        folder: The folder of the files.
    """
    model_ids = [model.id for model in models]
    contents: dict[str, dict[str, dict[str, list[PairScore]]]] = {}
    # The last model has no model after it.
    for first in model_ids[:-1]:
        contents[first] = defaultdict(dict)
    for task_data in tasks:
        ids_of_task = [model_id for model_id in model_ids if model_id in task_data.model_ids]
        for (first, second), scores in _compare_models(task_data, ids_of_task).items():
            contents[first][second][task_data.id] = scores
    for first, content in contents.items():
        _write_script(f"pairs.{first}", content, folder)


def _compare_models(
    task_data: TaskData, model_ids: Sequence[str]
) -> dict[tuple[str, str], list[PairScore]]:
    """Compare every two models on a task, in each score that the rows of both models have.

    Args:
        task_data: The rows of the task.
        model_ids: The ids of the task's models, in the order of the report's pages.

    Returns:
        The compared scores of each pair of model ids, such as ``("m0", "m1")``. The list is empty
        if the two share no score. P-values are corrected for the number of pairs.
    """
    scores_by_pair: dict[tuple[str, str], list[PairScore]] = {
        pair: [] for pair in combinations(model_ids, 2)
    }
    metrics = {entry.model.id: entry.result.metrics for entry in task_data.entries}
    for score in comparable_scores(task_data.benchmark, list(task_data.scored_rows)):
        rows_by_model = task_data.scored_rows[score.name]
        # The order decides which model of a pair is the first.
        ordered_rows = {
            model_id: rows_by_model[model_id] for model_id in model_ids if model_id in rows_by_model
        }
        for pair, difference in compare_all_models(ordered_rows, score, metrics).items():
            scores_by_pair[pair].append(_pair_score(score, difference))
    return scores_by_pair


def _pair_score(score: Score, pair: PairedDifference) -> PairScore:
    """List the comparison of two models in a score, in the order that ``compare.js`` expects.

    Returns:
        The score's name, its value for model A and for model B, their difference with both ends
        of its interval, the p-value, the corrected p-value, the smallest difference that the test
        detects, the number of shared rows, and that of the documents they are from. None stands
        for an undefined number.
    """
    numbers = [
        pair.score_a,
        pair.score_b,
        pair.difference,
        *(pair.interval or (None, None)),
        pair.p_value,
        pair.adjusted_p_value,
        pair.detectable,
    ]
    # Six digits are enough for scores and p-values, and keep the file small.
    rounded = [None if number is None else round(number, 6) for number in numbers]
    return [score.name, *rounded, pair.shared_rows, pair.shared_clusters]
