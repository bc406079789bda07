"""What people can be asked about: the samples of runs, or the rows of a data file, each with all its items."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.asked import Unit
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.pairs import reading, row_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import Source
from lm_factuality.results.read import read_results_files

_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[^/]*)\.jsonl")


@dataclass(frozen=True)
class Pool:
    """All units that people can be asked about, each with the place of its source."""

    benchmark: Benchmark
    sources: tuple[Source, ...]
    units: tuple[tuple[int, Unit], ...]


def read_pool(paths: Sequence[Path], task: str | None = None, questions: Sequence[str] = ()) -> Pool:
    """The units of results files (or folders of them), of samples files, or of data files; of several runs of one model the
    latest counts. ``task`` is needed where runs have several tasks that people can be asked about; ``questions`` restrict what is
    asked.

    Raises:
        ConfigError: no such task or question, or several tasks and none is named.
        DataError: a file cannot be used, or there is nothing in it that people can be asked.
    """
    data = [path for path in paths if not _is_of_run(path)]
    if data and (len(data) < len(paths) or task):
        raise ConfigError(f"{data[0]}: no results or samples of a run; a data file is a source by itself, and has no --task")
    pool = _of_data(data) if data else _of_runs(paths, task)
    known = [each.name for each in pool.benchmark.people.questions] if pool.benchmark.people else []
    if unknown := next((name for name in questions if name not in known), None):
        raise ConfigError(f"--question {unknown!r}: expected one of {', '.join(known)}{did_you_mean(unknown, known)}")
    chosen = questions or known
    cut = [(place, tuple(each for each in unit.items if each.question in chosen), unit) for place, unit in pool.units]
    units = tuple((place, replace(unit, items=items)) for place, items, unit in cut if items)
    if not units:
        raise DataError(f"{', '.join(map(str, paths))}: holds nothing that people can be asked about")
    return replace(pool, units=units)


def _is_of_run(path: Path) -> bool:
    is_folder = path.is_dir() and next(path.rglob("results_*.json"), None) is not None
    return is_folder or _SAMPLES.fullmatch(path.name) is not None or path.name.startswith("results_")


def _of_runs(paths: Sequence[Path], task: str | None) -> Pool:
    runs = []
    for path in paths:
        named = _SAMPLES.fullmatch(path.name)
        for file in read_results_files([path.with_name(f"results_{named[2]}.json") if named else path]):
            own = (each for each in file.tasks if each.samples is not None and (not named or each.task == named[1]))
            runs += [(file, each, benchmark) for each in own if (benchmark := find_benchmark(each.kind)) and _asks(benchmark)]
    names = sorted({each.task for _, each, _ in runs})
    if (task or len(names) != 1) and task not in names:
        kinds = ", ".join(each.kind for each in all_benchmarks() if _asks(each))
        known = f"expected one of {listed(names)}{did_you_mean(task or '', names)}" if names else f"none with samples of {kinds}"
        raise ConfigError(f"--task: found {repr(task) if task else f'{len(names)} tasks'}, {known}")
    latest = {run[0].label: run for run in sorted(runs, key=lambda run: run[0].date_text) if run[1].task == (task or names[0])}
    sources, units, benchmark = [], [], next(iter(latest.values()))[2]
    for place, (file, result, _) in enumerate(latest.values()):
        samples = result.samples or Path()
        sources.append(Source(str(file.path), sha256_of(file.path), result.task, file.label, str(samples), sha256_of(samples)))
        units += [(place, unit) for unit in units_of_run(benchmark, result, file.label)]
    return Pool(benchmark, tuple(sources), tuple(units))


def _asks(benchmark: Benchmark) -> bool:
    return benchmark.people is not None and benchmark.people.data is None and benchmark.samples is not None


def units_of_run(benchmark: Benchmark, result: TaskResult, model: str) -> Iterator[Unit]:
    """The samples, in the groups in which the report shows them; without items where there is nothing to ask."""
    people, shown = benchmark.people, benchmark.samples
    if people is None or shown is None or result.samples is None:
        return
    words = dict(zip(("right", "wrong", "unscored", "none"), shown.outcomes, strict=True))
    for sample in read_samples(result.samples):
        row = row_of(result, shown, sample)
        with reading(result, sample):
            items = tuple(people.items(result, sample))
        strata = {"model": model, "verdict": words[row.outcome], shown.facet.lower(): " + ".join(row.facets)}
        yield Unit(row.key, row.cluster, items, strata)


def _of_data(paths: Sequence[Path]) -> Pool:
    """Tables, or the CSV files in folders such as ``factor-gen`` writes."""
    benchmark, read = next((each, each.people.data) for each in all_benchmarks() if each.people and each.people.data)
    tables = [next(iter(sorted(path.glob("*.csv"))), path) if path.is_dir() else path for path in paths]
    units = tuple((place, unit) for place, table in enumerate(tables) for unit in read(table))
    return Pool(benchmark, tuple(Source(str(table), sha256_of(table)) for table in tables), units)
