"""Check and describe tasks.

``lm-factuality validate`` calls `check_targets`, and ``lm-factuality ls`` calls `describe_task`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval.api.task import ConfigurableTask

from judges import LEXICAL
from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.published import Source
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.suite_task import TaskReport, build_and_check, warnings_silenced
from lm_factuality.harness.tasks import find_configs, is_suite_task, misspelt_keys


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
        if Path(target).suffix.lower() in FORMATS:
            reports.append(_check_data_file(target, data_dir))
            continue
        for name, config in find_configs(target, (), run_code):
            if isinstance(config, FactualityError):
                reports.append(_report_error(name, config))
            else:
                reports.append(_check_task(name, config, data_dir))
    return reports


def _check_data_file(target: str, data_dir: str | None) -> TaskReport:
    """Check a data file as if a task YAML named it.

    Args:
        target: The path of the file, such as ``my_rows.csv``.
        data_dir: A folder with the published files, instead of downloads.
    """
    path = Path(target)
    config = {
        "task": path.stem,
        "dataset_path": str(path.absolute()),
        "metadata": {"config_source": target},
    }
    return _build_task(FactorTask, target, config, data_dir)


def _check_task(name: str, config: dict[str, Any], data_dir: str | None) -> TaskReport:
    """Check a task's YAML for misspelt keys and a missing class, and then build the task.

    Args:
        name: The name of the task in the report.
        config: The content of the task's YAML file.
        data_dir: A folder with the published files, instead of downloads.
    """
    problems = list(misspelt_keys(name, config)) if is_suite_task(config) else []
    task_class = config.get("class")
    if not isinstance(task_class, type):
        problem = (
            f"{name}: not a FACTOR task: it does not include tasks/factor/_factor.yaml, which names"
            " the class"
        )
        problems.insert(0, problem)
        # Its data is still worth checking.
        task_class = FactorTask
    report = _build_task(task_class, name, config, data_dir)
    return replace(report, problems=(*problems, *report.problems))


def _build_task(
    task_class: type[ConfigurableTask], name: str, config: dict[str, Any], data_dir: str | None
) -> TaskReport:
    """Build a task and report the problems of its rows and requests.

    Args:
        task_class: The class of the task.
        name: The name of the task in the report.
        config: The content of the task's YAML file.
        data_dir: A folder with the published files. None means the task's own, or downloads.
    """
    config = _with_judge(config)
    data_dir = data_dir or config["metadata"].get("data_dir")
    try:
        return build_and_check(task_class, name, config, data_dir)
    except FactualityError as error:
        return _report_error(name, error)


def _with_judge(config: Mapping[str, Any]) -> dict[str, Any]:
    """Add the offline judge to a task's configuration, unless it names a judge.

    Users name a judge only when they run a task, but the task cannot be built without one.
    """
    metadata = {"judge": LEXICAL, **(config.get("metadata") or {})}
    return {**config, "metadata": metadata}


def _report_error(target: str, error: FactualityError) -> TaskReport:
    """Turn an error into a report, with a problem per line of its message."""
    return TaskReport(target, tuple(str(error).split("\n")))


class ListedTask(NamedTuple):
    """A task as ``lm-factuality ls`` lists it."""

    question: str
    """What the task's benchmark asks, such as "Is the true sentence more likely?"."""

    rows: int
    """How many rows the task has."""

    licence: str
    """The licence of its data, such as ``MIT``. Empty if the task does not state it."""

    needs_judge: bool
    """Whether a judge marks the task's responses."""


def describe_task(config: Mapping[str, Any]) -> ListedTask:
    """Describe a task's question and data without downloading anything.

    Args:
        config: The content of the task's YAML file, with its class and metadata.
    """
    benchmark: Benchmark = config["class"].declared
    # The page begins with the question: "Is the true sentence more likely? For each row ...".
    question, question_mark, _ = benchmark.page.lead.partition("?")

    metadata = config["metadata"]
    licence = ""
    if "rows" in metadata:
        # The YAML of a dataset on the Hub states its rows, so that it need not be loaded.
        rows = int(metadata["rows"])
    elif _has_local_data(config):
        rows = _count_local_rows(config)
    else:
        sources = _published_sources(str(config["task"]))
        rows = sum(source.rows for source in sources)
        licence = ", ".join(sorted({source.license for source in sources}))
    return ListedTask(
        question=question + question_mark,
        rows=rows,
        licence=str(metadata.get("license") or licence),
        needs_judge=benchmark.judging is not None,
    )


def _has_local_data(config: Mapping[str, Any]) -> bool:
    """Return whether a task's YAML names a data file on this machine, not a published file."""
    # A perplexity task may read the documents of a local table of FACTOR.
    documents = str(config["metadata"].get("documents_of", ""))
    return bool(config.get("dataset_path")) or documents.endswith(".csv")


def _count_local_rows(config: Mapping[str, Any]) -> int:
    """Build a task from its local data file, and count its rows."""
    with warnings_silenced():
        task = config["class"](config=_with_judge(config))
        return len(task.eval_docs)


def _published_sources(task: str) -> list[Source]:
    """Find the published files that a task reads, by its name.

    Args:
        task: A name such as ``felm_gen``, which reads the file ``felm``, or ``longfact``, which
            reads all files whose names begin so.
    """
    published = all_sources().values()
    sources = [source for source in published if task.startswith(source.name)]
    return sources or [source for source in published if source.name.startswith(task)]
