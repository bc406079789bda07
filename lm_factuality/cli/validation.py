"""What ``lm-factuality validate`` checks, and ``lm-factuality ls`` lists."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from judges import LEXICAL
from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.suite_task import TaskReport, check_built, quietly
from lm_factuality.harness.tasks import find_configs, unknown_keys


def check_targets(
    targets: Sequence[str], data_dir: str | None = None, run_code: bool = False
) -> list[TaskReport]:
    """Check tasks and data files for what lm_eval does not check.

    Args:
        targets: Task YAMLs; data files in the columns of FACTOR's authors; and names of tasks,
            groups or tags.
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
            reports.append(_check_config(target, config, data_dir))
            continue
        for name, found_config in find_configs(target, (), run_code):
            if isinstance(found_config, FactualityError):
                reports.append(_report_of(name, found_config))
                continue
            problems = list(unknown_keys(name, found_config))
            if not isinstance(found_config.get("class"), type):
                problem = "does not include tasks/factor/_factor.yaml, which names the class"
                problems.insert(0, f"{name}: no FACTOR task: it {problem}")
            report = _check_config(name, found_config, data_dir)
            reports.append(replace(report, problems=(*problems, *report.problems)))
    return reports


def _check_config(target: str, config: dict[str, Any], data_dir: str | None) -> TaskReport:
    """Ask the task's class. A config without one is read as a corpus of FACTOR rows."""
    task = config["class"] if isinstance(config.get("class"), type) else FactorTask
    # Who judges is said when a task is run.
    metadata = {"judge": LEXICAL, **(config.get("metadata") or {})}
    config = {**config, "metadata": metadata}
    try:
        return check_built(task, target, config, data_dir or metadata.get("data_dir"))
    except FactualityError as error:
        return _report_of(target, error)


def _report_of(target: str, error: FactualityError) -> TaskReport:
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
        published = all_sources().values()
        name = str(config["task"])
        sources = [source for source in published if name.startswith(source.name)]
        sources = sources or [source for source in published if source.name.startswith(name)]
        rows = sum(source.rows for source in sources)
        licence = ", ".join(sorted({source.license for source in sources}))
    licence = str(metadata.get("license") or licence)
    return ListedTask(question, rows, licence, benchmark.judging is not None)
