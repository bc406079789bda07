"""Write the rows of tasks, and what two models differ in, in files that a page loads when needed.

A file calls ``lmf.put(name, content)``: a page opened from a disk may run a script that lies beside
it, but not read a file. Per task there is ``docs`` (what rows are called) and, in chunks of `CHUNK`
rows, the texts that all models share. Per task and model there is what became of each row and, in
chunks, the details. So the first view is small however long the texts are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_factuality.benchmarks.chosen import LEAST_ROWS, Entry, Model, ReportRuns
from lm_factuality.benchmarks.declaration import Benchmark, SampleDisplay, Score, undeclared_score
from lm_factuality.benchmarks.pairs import (
    PairedDifference,
    comparable_scores,
    compare_all_models,
    sample_row_of,
    score_stderr,
)
from lm_factuality.benchmarks.rows import SampleRow, ScoredRows, collect_scored_rows
from lm_factuality.ground.errors import Reason, reasons_of
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import as_data
from lm_factuality.harness.samples import samples_of

CHUNK = 250
OUTCOMES = ("right", "wrong", "unscored", "none")


@dataclass(frozen=True)
class TaskData:
    """What the files of a task hold. It grows with each model that is read."""

    id: str
    entries: Sequence[Entry]
    """The runs that kept samples."""
    benchmark: Benchmark
    samples: SampleDisplay
    """How the benchmark shows its samples."""
    docs: dict[str, SampleRow] = field(default_factory=dict)
    """By the key of each row the first model's, for what all models share."""
    scored: dict[str, dict[str, ScoredRows]] = field(default_factory=lambda: defaultdict(dict))
    """What rows contribute to a score, by score and model's id."""
    reasons: dict[str, Sequence[Reason]] = field(default_factory=dict)
    """Why rows have no score, by model's id."""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.entries[0].result.task

    @property
    def models(self) -> list[str]:
        """The ids of the models that kept samples."""
        return [entry.model.id for entry in self.entries]

    @property
    def facets(self) -> list[str]:
        """The properties by which a page can filter the rows, in alphabetical order."""
        return sorted({facet for row in self.docs.values() for facet in row.facets})


def write_data(chosen: ReportRuns, folder: Path) -> list[TaskData]:
    """Write the files of every task with samples into ``folder``; return what they hold.

    Raises:
        DataError: A file of samples cannot be read, or ``folder`` cannot be written.
    """
    data = []
    for number, task in enumerate(chosen.tasks):
        entries = [entry for entry in chosen.of_task(task) if entry.result.samples]
        benchmarks = {entry.result.kind: entry.benchmark for entry in entries}
        # Two benchmarks can have a task of the same name; their rows are not the same.
        if len(benchmarks) != 1:
            continue
        (benchmark,) = benchmarks.values()
        if benchmark.page.samples is not None:
            task_data = TaskData(f"t{number}", entries, benchmark, benchmark.page.samples)
            _write_task(task_data, folder)
            data.append(task_data)
    return data


def _write_task(data: TaskData, folder: Path) -> None:
    places: dict[str, int] = {}
    for entry in tqdm(data.entries, f"reading {data.task}", unit=" models", delay=2):
        model = entry.model.id
        rows = [
            sample_row_of(entry.result, data.samples, sample) for sample in samples_of(entry.result)
        ]
        for row in rows:
            data.docs.setdefault(row.key, row)
            places.setdefault(row.key, len(places))
        for score, parts in collect_scored_rows(rows).items():
            data.scored[score][model] = parts
        unscored = [str(row.detail["unscored"]) for row in rows if row.detail.get("unscored")]
        if unscored:
            data.reasons[model] = reasons_of(unscored)
        _write_model(f"{data.id}.{model}", [(places[row.key], row) for row in rows], folder)

    docs = list(data.docs.values())
    _write(folder, f"{data.id}.docs", [row.title for row in docs])
    for start in range(0, len(docs), CHUNK):
        texts = [row.doc for row in docs[start : start + CHUNK]]
        _write(folder, f"{data.id}.docs.{start // CHUNK}", texts)


def _write_model(name: str, rows: Sequence[tuple[int, SampleRow]], folder: Path) -> None:
    """Write what became of a model's rows, given with their places, and the details by chunk."""
    summaries = []
    chunks: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for place, row in rows:
        margin = None if row.margin is None else round(row.margin, 4)
        summaries.append([place, OUTCOMES.index(row.outcome), margin, list(row.facets)])
        chunks[place // CHUNK][place] = row.detail
    _write(folder, name, summaries)
    for number, details in chunks.items():
        _write(folder, f"{name}.{number}", details)


def _write(folder: Path, name: str, content: Any) -> None:
    write_text(folder / f"{name}.js", f'lmf.put("{name}",{as_data(content)});\n')


def with_samples(chosen: ReportRuns, data: Sequence[TaskData]) -> ReportRuns:
    """Add missing standard errors to the runs.

    lm_eval gives no standard error for metrics that it does not know, and none without
    bootstrapping. Here it follows from the rows.
    """
    scored = {task_data.task: task_data.scored for task_data in data}
    entries = []
    for entry in chosen.entries:
        result = entry.result
        stderrs = dict(result.stderrs)
        for name, models in scored.get(result.task, {}).items():
            if name not in result.metrics or name in stderrs or entry.model.id not in models:
                continue
            score = entry.benchmark.find_score(name)
            stderr = score_stderr(models[entry.model.id], score or undeclared_score(name))
            if stderr is not None:
                stderrs[name] = stderr
        entries.append(replace(entry, result=replace(result, stderrs=stderrs)))
    return replace(chosen, entries=tuple(entries))


def page_content(chosen: ReportRuns, data: Sequence[TaskData]) -> dict[str, Any]:
    """Return what the scripts of the pages read that show samples and compare two models."""
    ids = {model for task_data in data for model in task_data.models}
    tasks = []
    for task_data in data:
        samples = task_data.samples
        metrics = [
            {
                "name": score.name,
                "label": score.label,
                "higher": score.higher_is_better,
                "digits": score.decimals,
                "scale": score.display_factor,
                "unit": "%" if score.display_factor == 100 else "",
            }
            for score in comparable_scores(task_data.benchmark, list(task_data.scored))
        ]
        pages = {}
        for (task, model), place in chosen.custom_pages.items():
            if task == task_data.task:
                pages[model] = place
        tasks.append(
            {
                "id": task_data.id,
                "task": task_data.task,
                "models": task_data.models,
                "metrics": metrics,
                "rows": len(task_data.docs),
                "facets": task_data.facets,
                "kind": task_data.benchmark.kind,
                "right": samples.right_count_label,
                "words": samples.outcome_labels,
                "margin": samples.margin_label,
                "facet": samples.facet_label,
                "pages": pages,
            }
        )
    return {
        "least": LEAST_ROWS,
        "chunk": CHUNK,
        "outcomes": OUTCOMES,
        "models": [[model.id, model.label] for model in chosen.models if model.id in ids],
        "tasks": tasks,
    }


def write_pairs(models: Sequence[Model], data: Sequence[TaskData], folder: Path) -> None:
    """Write ``pairs.ID.js`` for each model but the last: its difference from each later model.

    The differences are by task and score. P-values are corrected for all pairs of models in the
    same score.
    """
    content: dict[str, dict[str, dict[str, list[Any]]]] = {model.id: {} for model in models[:-1]}
    for task_data in data:
        ids = [model.id for model in models if model.id in task_data.models]
        for first, second in combinations(ids, 2):
            content[first].setdefault(second, {})[task_data.id] = []
        metrics = {entry.model.id: entry.result.metrics for entry in task_data.entries}
        for score in comparable_scores(task_data.benchmark, list(task_data.scored)):
            models_scored = task_data.scored[score.name]
            scored = {model: models_scored[model] for model in ids if model in models_scored}
            for (first, second), pair in compare_all_models(scored, score, metrics).items():
                content[first][second][task_data.id].append(_pair_row(score, pair))
    for first, differences in content.items():
        _write(folder, f"pairs.{first}", differences)


def _pair_row(score: Score, pair: PairedDifference) -> list[Any]:
    numbers = (
        pair.score_a,
        pair.score_b,
        pair.difference,
        pair.low,
        pair.high,
        pair.p_value,
        pair.adjusted_p_value,
        pair.detectable,
    )
    rounded = [None if number is None else round(number, 6) for number in numbers]
    return [score.name, *rounded, pair.shared_rows]
