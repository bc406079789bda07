"""The rows for the sample browser and the comparison of two models, in files that a page loads when
it is asked for them.

A file calls ``lmf.put(name, content)``: a page opened from a disk may run a script beside it, but
not read a file. Per task there is ``docs`` (what rows are called) and, in chunks of ``CHUNK`` rows,
the texts that all models share; per task and model what became of each row, and in chunks the
details. So the first view is small however long the texts are."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_factuality.benchmarks.chosen import LEAST_ROWS, Chosen, Entry, Model
from lm_factuality.benchmarks.declaration import Benchmark, Samples, Score, undeclared
from lm_factuality.benchmarks.pairs import (
    Scored,
    compare_all,
    compared_scores,
    row_of,
    scored_rows,
    stderr_of,
)
from lm_factuality.benchmarks.rows import SampleRow
from lm_factuality.ground.errors import Reason, reasons_of
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import as_data
from lm_factuality.harness.samples import samples_of

CHUNK = 250
OUTCOMES = ("right", "wrong", "unscored", "none")


@dataclass(frozen=True)
class TaskData:
    """What is in the files of a task of ``benchmark``: ``models`` (their ids, those that kept
    samples), how many ``rows``, the ``facets`` that rows have, and of each model its parts in each
    score (``scored[score][model]``) and its ``metrics`` and the ``reasons`` of its unscored rows;
    ``samples`` are the benchmark's."""

    id: str
    task: str
    benchmark: Benchmark
    samples: Samples
    models: tuple[str, ...]
    rows: int
    facets: tuple[str, ...]
    scored: Mapping[str, Mapping[str, Scored]]
    metrics: Mapping[str, Mapping[str, float]]
    reasons: Mapping[str, Sequence[Reason]]


def write_data(chosen: Chosen, folder: Path) -> list[TaskData]:
    """Writes the files of every task with samples into ``folder``; returns what they hold. Raises
    DataError: it cannot."""
    found = []
    for number, task in enumerate(chosen.tasks):
        kept = [entry for entry in chosen.of_task(task) if entry.result.samples]
        entries = [entry for entry in kept if entry.benchmark and entry.benchmark.page.samples]
        if len({entry.result.kind for entry in entries}) == 1:
            found.append(_write_task(f"t{number}", task, entries, folder))
    return found


def with_samples(chosen: Chosen, data: Sequence[TaskData]) -> Chosen:
    """The same runs with what their rows contribute to scores, and with a standard error from the
    rows wherever lm_eval gives none: for metrics it knows none of, and for runs without
    bootstrapping."""
    scored = {each.task: each.scored for each in data}
    entries = []
    for entry in chosen.entries:
        result, models = entry.result, scored.get(entry.result.task, {})
        missing = [
            name
            for name in models
            if name in result.metrics
            and name not in result.stderrs
            and entry.model.id in models[name]
        ]
        declared = {
            name: entry.benchmark.score(name) if entry.benchmark else None for name in missing
        }
        found = {
            name: stderr_of(models[name][entry.model.id], score or undeclared(name))
            for name, score in declared.items()
        }
        stderrs = {
            **result.stderrs,
            **{name: value for name, value in found.items() if value is not None},
        }
        entries.append(replace(entry, result=replace(result, stderrs=stderrs)) if found else entry)
    return replace(chosen, entries=tuple(entries), scored=scored)


def _write_task(task_id: str, task: str, entries: Sequence[Entry], folder: Path) -> TaskData:
    benchmark = entries[0].benchmark
    assert benchmark is not None
    assert benchmark.page.samples is not None
    docs: dict[
        str, tuple[int, str, Mapping[str, Any]]
    ] = {}  # by a row's key its place, what it is called, and its texts
    facets: set[str] = set()
    scored: dict[str, dict[str, Scored]] = {}
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in tqdm(entries, f"reading {task}", unit=" models", delay=2):
        rows: list[tuple[int, SampleRow]] = []
        for sample in samples_of(entry.result):
            row = row_of(entry.result, benchmark.page.samples, sample)
            rows.append((docs.setdefault(row.key, (len(docs), row.title, row.doc))[0], row))
            facets.update(row.facets)
            if reason := row.detail.get("unscored"):
                reasons[entry.model.id].append(str(reason))
        for score, parts in scored_rows(row for _, row in rows).items():
            scored.setdefault(score, {})[entry.model.id] = parts
        _write_model(f"{task_id}.{entry.model.id}", rows, folder)
    _write(folder, f"{task_id}.docs", [title for _, title, _ in docs.values()])
    texts = [doc for _, _, doc in docs.values()]
    for start in range(0, len(texts), CHUNK):
        _write(folder, f"{task_id}.docs.{start // CHUNK}", texts[start : start + CHUNK])
    metrics = {entry.model.id: entry.result.metrics for entry in entries}
    why = {model: reasons_of(given) for model, given in reasons.items()}
    return TaskData(
        task_id,
        task,
        benchmark,
        benchmark.page.samples,
        tuple(metrics),
        len(docs),
        tuple(sorted(facets)),
        scored,
        metrics,
        why,
    )


def _write_model(name: str, rows: Sequence[tuple[int, SampleRow]], folder: Path) -> None:
    """``[place, outcome, margin, facets]`` for each row, and the details by the chunk of the row's
    place."""
    light = [
        [
            place,
            OUTCOMES.index(row.outcome),
            None if row.margin is None else round(row.margin, 4),
            list(row.facets),
        ]
        for place, row in rows
    ]
    _write(folder, name, light)
    chunks: dict[int, dict[int, Mapping[str, Any]]] = {}
    for place, row in rows:
        chunks.setdefault(place // CHUNK, {})[place] = row.detail
    for number, details in chunks.items():
        _write(folder, f"{name}.{number}", details)


def _write(folder: Path, name: str, content: Any) -> None:
    write_text(folder / f"{name}.js", f'lmf.put("{name}",{as_data(content)});\n')


def scores_of(data: TaskData) -> list[Score]:
    """The scores of a task that are compared; those of the only domain of a task would say what all
    rows say."""
    only = data.facets[0] if len(data.facets) == 1 and data.samples.is_partition else None
    return compared_scores(
        data.benchmark,
        [name for name in data.scored if only is None or not name.endswith(f"_{only}")],
    )


def page_data(models: Sequence[Model], data: Sequence[TaskData]) -> dict[str, Any]:
    """What the script of the page reads."""
    tasks = []
    for each in data:
        metrics = [
            {key: getattr(score, key) for key in ("name", "label", "higher", "digits")}
            | {"scale": score.times, "unit": "%" if score.times == 100 else ""}
            for score in scores_of(each)
        ]
        about = {
            "id": each.id,
            "task": each.task,
            "right": each.samples.right,
            "models": each.models,
        }
        tasks.append({**about, "metrics": metrics})
    return {
        "least": LEAST_ROWS,
        "models": [[model.id, model.label] for model in models],
        "tasks": tasks,
    }


def write_pairs(models: Sequence[Model], data: Sequence[TaskData], folder: Path) -> None:
    """Writes ``pairs.ID.js`` for each model but the last: its difference from each later model, by
    task and score. P-values are corrected for all pairs of models in the same score."""
    content: dict[str, dict[str, dict[str, list[Any]]]] = {model.id: {} for model in models[:-1]}
    for each in data:
        for one, other in combinations(
            [model.id for model in models if model.id in each.models], 2
        ):
            content[one].setdefault(other, {})[each.id] = []
        for score in scores_of(each):
            able = {
                model.id: parts
                for model in models
                if (parts := each.scored[score.name].get(model.id))
            }
            for (one, other), pair in compare_all(able, score, each.metrics).items():
                numbers = (
                    pair.a,
                    pair.b,
                    pair.difference,
                    pair.low,
                    pair.high,
                    pair.p,
                    pair.adjusted,
                    pair.detectable,
                )
                rounded = [None if number is None else round(number, 6) for number in numbers]
                content[one][other][each.id].append(
                    [score.name, *rounded, pair.n, pair.wins, pair.losses]
                )
    for model, found in content.items():
        _write(folder, f"pairs.{model}", found)
