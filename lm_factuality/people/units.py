"""What people can be asked about: the samples of runs, or the rows of a data file, each with all its items."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.asked import People, Unit
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.pairs import row_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.key import Source
from lm_factuality.results.read import read_results_file, read_results_files

MODEL = "model"  # the stratum that every run is in
_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[^/]*)\.jsonl")


@dataclass(frozen=True)
class Pool:
    """All units that people can be asked about, each with the number of its source."""

    benchmark: Benchmark
    sources: tuple[Source, ...]
    units: tuple[tuple[int, Unit], ...]

    @property
    def people(self) -> People:
        """What the benchmark asks."""
        assert self.benchmark.people is not None
        return self.benchmark.people

    def asking(self, questions: Sequence[str]) -> "Pool":
        """With the items of ``questions`` alone.

        Raises:
            ConfigError: there is no such question.
        """
        known = [question.name for question in self.people.questions]
        for name in questions:
            if name not in known:
                raise ConfigError(f"--question {name!r}: expected one of {', '.join(known)}{did_you_mean(name, known)}")
        cut = (
            (source, replace(unit, items=tuple(each for each in unit.items if each.question in questions)))
            for source, unit in self.units
        )
        return replace(self, units=tuple((source, unit) for source, unit in cut if unit.items))


def read_pool(paths: Sequence[Path], task: str | None = None) -> Pool:
    """The units of results files (or folders of them), of samples files, or of data files; of several runs of one model the
    latest counts. ``task`` is needed where runs have several tasks that people can be asked about.

    Raises:
        ConfigError: no such task, or several and none is named.
        DataError: a file cannot be used, or there is nothing in it that people can be asked.
    """
    data = [path for path in paths if not _is_of_run(path)]
    if data and (len(data) < len(paths) or task):
        raise ConfigError(f"{data[0]}: no results or samples of a run; a data file is a source by itself, and has no --task")
    return _of_data(data) if data else _of_runs(_runs(paths), task)


def _is_of_run(path: Path) -> bool:
    if path.is_dir():
        return next(path.rglob("results_*.json"), None) is not None
    return _SAMPLES.fullmatch(path.name) is not None or path.name.startswith("results_")


def _asks(kind: str) -> bool:
    """Whether people can be asked about samples of this kind."""
    benchmark = find_benchmark(kind)
    return benchmark is not None and benchmark.people is not None and benchmark.people.data is None


def _runs(paths: Sequence[Path]) -> list[tuple[ResultsFile, TaskResult]]:
    found: list[tuple[ResultsFile, TaskResult]] = []
    for path in paths:
        named = _SAMPLES.fullmatch(path.name)
        files = [read_results_file(path.with_name(f"results_{named[2]}.json"))] if named else read_results_files([path])
        found += [(file, each) for file in files for each in file.tasks if not named or each.task == named[1]]
    return found


def _of_runs(runs: Sequence[tuple[ResultsFile, TaskResult]], task: str | None) -> Pool:
    asked = {each.task for _, each in runs if _asks(each.kind) and each.samples}
    if not asked:
        kinds = ", ".join(each.kind for each in all_benchmarks() if _asks(each.kind))
        raise DataError(f"no task with samples that people can be asked about ({kinds}); run lm_eval with --log_samples")
    if (task is None and len(asked) > 1) or (task is not None and task not in asked):
        found = f"{len(asked)} tasks" if task is None else repr(task)
        raise ConfigError(f"--task: found {found}, expected one of {listed(sorted(asked))}{did_you_mean(task or '', asked)}")
    chosen = task or asked.pop()
    latest: dict[str, tuple[ResultsFile, TaskResult]] = {}
    for file, each in sorted(runs, key=lambda run: run[0].date_text):
        if each.task == chosen and each.samples:
            latest[file.label] = file, each
    benchmark = find_benchmark(next(iter(latest.values()))[1].kind)
    assert benchmark is not None
    sources, units = [], []
    for number, (file, result) in enumerate(latest.values()):
        assert result.samples is not None
        about = (result.task, file.label, str(result.samples), sha256_of(result.samples))
        sources.append(Source(str(file.path), sha256_of(file.path), *about))
        units += [(number, unit) for unit in _units(benchmark, result, {MODEL: file.label})]
    return _pool(benchmark, sources, units)


def _units(benchmark: Benchmark, result: TaskResult, strata: Mapping[str, str]) -> list[Unit]:
    """The samples that people can be asked about, in the groups in which the report shows them."""
    assert benchmark.people is not None
    assert benchmark.samples is not None
    assert result.samples is not None
    words = dict(zip(("right", "wrong", "unscored", "none"), benchmark.samples.outcomes, strict=True))
    found = []
    for sample in read_samples(result.samples):
        row = row_of(result, benchmark.samples, sample)
        own = {**strata, "verdict": words[row.outcome], benchmark.samples.facet.lower(): " + ".join(row.facets)}
        found.append(Unit(row.key, row.cluster, tuple(benchmark.people.items(result, sample)), own))
    return found


def _of_data(paths: Sequence[Path]) -> Pool:
    benchmark, read = next((each, each.people.data) for each in all_benchmarks() if each.people and each.people.data)
    tables = [_table(path) for path in paths]
    units = [(number, unit) for number, table in enumerate(tables) for unit in read(table)]
    return _pool(benchmark, [Source(str(table), sha256_of(table)) for table in tables], units)


def _table(path: Path) -> Path:
    """A table, or the only CSV file of a folder, such as ``factor-gen`` writes."""
    found = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    if len(found) != 1 or found[0].suffix.lower() not in FORMATS or not found[0].is_file():
        what = f"results or samples of a run, a table ({', '.join(FORMATS)}), or a folder with one CSV file"
        raise DataError(f"{path}: nothing that people can be asked about here; expected {what}")
    return found[0]


def _pool(benchmark: Benchmark, sources: Sequence[Source], units: Sequence[tuple[int, Unit]]) -> Pool:
    asked = tuple((number, unit) for number, unit in units if unit.items)
    if not asked:
        raise DataError(f"{', '.join(each.file for each in sources)}: holds nothing that people can be asked about")
    return Pool(benchmark, tuple(sources), asked)
