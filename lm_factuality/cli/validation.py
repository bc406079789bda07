"""Check and describe tasks.

``lm-factuality validate`` calls `check_targets`, and ``lm-factuality ls`` calls `describe_task`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from judges import LEXICAL
from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.published import Source
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
        # A data file is checked as if a task YAML named it.
        if path.suffix.lower() in FORMATS:
            metadata = {"config_source": target}
            data_path = str(path.absolute())
            config = {"task": path.stem, "dataset_path": data_path, "metadata": metadata}
            reports.append(_check_config(target, config, data_dir))
            continue

        for name, task_config in find_configs(target, (), run_code):
            if isinstance(task_config, FactualityError):
                reports.append(_report_error(name, task_config))
                continue
            problems = list(unknown_keys(name, task_config))
            if not isinstance(task_config.get("class"), type):
                problems.insert(
                    0,
                    f"{name}: not a FACTOR task: it does not include tasks/factor/_factor.yaml,"
                    " which names the class",
                )
            report = _check_config(name, task_config, data_dir)
            reports.append(replace(report, problems=(*problems, *report.problems)))
    return reports


def _check_config(target: str, config: dict[str, Any], data_dir: str | None) -> TaskReport:
    """Build a task from its configuration and report its problems.

    Args:
        target: What the report calls the task.
        config: The task's YAML. One without a class is read as a corpus of FACTOR rows.
        data_dir: A folder with the published files. None means the task's own, or downloads.
    """
    task = config["class"] if isinstance(config.get("class"), type) else FactorTask
    # Users name a judge only when they run a task, but the task cannot be built without one.
    metadata = {"judge": LEXICAL, **(config.get("metadata") or {})}
    config = {**config, "metadata": metadata}
    try:
        return check_built(task, target, config, data_dir or metadata.get("data_dir"))
    except FactualityError as error:
        return _report_error(target, error)


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
        config: The task's YAML, with its class and metadata.
    """
    task_class = config["class"]
    metadata = config["metadata"]
    benchmark: Benchmark = task_class.declared
    # The page begins with the question: "Is the true sentence more likely? For each row ...".
    question, question_mark, _ = benchmark.page.lead.partition("?")
    question += question_mark

    licence = ""
    is_local_file = config.get("dataset_path") or str(metadata.get("documents_of", "")).endswith(
        ".csv"
    )
    if "rows" in metadata:
        # The YAML of a dataset on the Hub states its rows, so that it need not be loaded.
        rows = int(metadata["rows"])
    elif is_local_file:
        with quietly():
            task = task_class(config={**config, "metadata": {"judge": LEXICAL, **metadata}})
            rows = len(task.eval_docs)
    else:
        sources = _published_sources(str(config["task"]))
        rows = sum(source.rows for source in sources)
        licence = ", ".join(sorted({source.license for source in sources}))
    licence = str(metadata.get("license") or licence)
    return ListedTask(question, rows, licence, benchmark.judging is not None)


def _published_sources(task: str) -> list[Source]:
    """Find the published files that a task reads, by its name.

    Args:
        task: A name such as ``felm_gen``, which reads the file ``felm``, or ``longfact``, which
            reads all files whose names begin so.
    """
    published = all_sources().values()
    sources = [source for source in published if task.startswith(source.name)]
    return sources or [source for source in published if source.name.startswith(task)]
