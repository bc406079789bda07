"""What ``lm-factuality validate`` checks, and ``lm-factuality ls`` lists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lm_factuality.benchmarks import all_benchmarks, all_sources
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.published import Source
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.suite_task import TaskReport, check_built, quietly
from lm_factuality.harness.tasks import find_configs, unknown_keys


def check_targets(
    targets: Sequence[str],
    include_path: Sequence[str] = (),
    data_dir: str | None = None,
    run_code: bool = False,
) -> list[TaskReport]:
    """Check tasks and data files for what lm_eval does not check.

    Args:
        targets: Task YAMLs; data files in the columns of FACTOR's authors; and names of tasks,
            groups or tags.
        include_path: Folders in which names of tasks are looked up too.
        data_dir: A folder with the published files, instead of downloads.
        run_code: Whether to import the Python that a YAML of others names. Otherwise such a YAML
            is refused.

    Returns:
        A report on every task and file.
    """
    reports = []
    for target in targets:
        path = Path(target)
        if path.suffix.lower() in FORMATS:
            metadata = {"config_source": target}
            data_path = str(path.absolute())
            config = {"task": path.stem, "dataset_path": data_path, "metadata": metadata}
            reports.append(_check(target, config, data_dir))
            continue
        for name, config_or_error in find_configs(target, include_path, run_code):
            if isinstance(config_or_error, FactualityError):
                reports.append(_problems(name, config_or_error))
                continue
            reports.append(_check_task(name, config_or_error, data_dir))
    return reports


def _check_task(name: str, config: Mapping[str, Any], data_dir: str | None) -> TaskReport:
    problems = list(unknown_keys(name, config))
    if not isinstance(config.get("class"), type):
        problems.insert(
            0,
            f"{name}: no FACTOR task: it does not include tasks/factor/_factor.yaml, which names"
            " the class",
        )
    report = _check(name, dict(config), data_dir)
    return replace(report, problems=(*problems, *report.problems))


def _check(target: str, config: dict[str, Any], data_dir: str | None) -> TaskReport:
    """Ask the task's class. A config without one is read as a corpus of FACTOR rows."""
    task = config["class"] if isinstance(config.get("class"), type) else FactorTask
    # lm_eval's own classes have no check.
    check: Callable[..., TaskReport] = getattr(task, "check", partial(check_built, task))
    try:
        return check(target, config, data_dir or (config.get("metadata") or {}).get("data_dir"))
    except FactualityError as error:
        return _problems(target, error)


def _problems(target: str, error: FactualityError) -> TaskReport:
    return TaskReport(target, tuple(str(error).split("\n")))


class ListedTask(NamedTuple):
    """A task as ``lm-factuality ls`` shows it."""

    question: str
    rows: int
    licence: str
    has_judge: bool


def describe_task(config: Mapping[str, Any]) -> ListedTask:
    """Return what a task asks and what its data is, without a network."""
    task, metadata = config["class"], config["metadata"]
    benchmark: Benchmark = task.declared
    question = "".join(benchmark.page.lead.partition("?")[:2])
    licence = ""
    if "rows" in metadata:  # of a dataset on the Hub, which is not loaded for a list
        rows = int(metadata["rows"])
    elif config.get("dataset_path") or str(metadata.get("documents_of", "")).endswith(".csv"):
        with quietly():
            built = task(config={**config, "metadata": {"judge": "lexical", **metadata}})
            rows = len(built.eval_docs)
    else:
        sources = _sources_of(benchmark, metadata)
        rows = sum(source.rows for source in sources)
        licence = ", ".join(sorted({source.license for source in sources}))
    licence = str(metadata.get("license") or licence)
    return ListedTask(question, rows, licence, benchmark.judging is not None)


def _sources_of(benchmark: Benchmark, metadata: Mapping[str, Any]) -> list[Source]:
    """Return the published files that a task reads."""
    known = all_sources()
    names = [metadata.get("source"), metadata.get("documents_of")]
    named = [known[name] for name in names if name in known]
    if named:
        return named
    # A source is called after a setting of its task, such as topic_history.
    settings = tuple(f"{key}_{value}" for key, value in metadata.items() if isinstance(value, str))
    sources = list(benchmark.data.sources)
    of_settings = [source for source in sources if source.name.startswith(settings)]
    if of_settings or sources:
        return of_settings or sources[:1]
    for other in all_benchmarks():
        if other.kind == benchmark.page.name:
            return list(other.data.sources[:1])
    return []
