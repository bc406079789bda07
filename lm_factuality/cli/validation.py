"""Checks tasks and data files for ``lm-factuality validate``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_eval.api.task import ConfigurableTask

from judges import LEXICAL
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.suite_task import TaskReport, build_and_check
from lm_factuality.harness.tasks import find_configs, is_suite_task, misspelt_keys


def check_targets(
    targets: Sequence[str], settings: Mapping[str, str] | None = None, run_code: bool = False
) -> list[TaskReport]:
    """Check tasks and data files for what lm_eval does not check.

    Args:
        targets: Task YAMLs; data files in the columns of FACTOR's authors; and names of tasks,
            groups or tags.
        settings: Settings that replace those in the metadata of every task, such as ``judge``, or
            ``data_dir`` with the published files.
        run_code: Whether to import the Python that a YAML of others names. Otherwise such a YAML
            is refused.

    Returns:
        A report on every task and file.
    """
    settings = settings or {}
    reports = []
    for target in targets:
        if Path(target).suffix.lower() in FORMATS:
            reports.append(_check_data_file(target, settings))
            continue
        for name, config in find_configs(target, (), run_code):
            if isinstance(config, FactualityError):
                reports.append(_report_error(name, config))
            else:
                reports.append(_check_task(name, config, settings))
    return reports


def _check_data_file(target: str, settings: Mapping[str, str]) -> TaskReport:
    """Check a data file as if a task YAML named it.

    Args:
        target: The path of the file, such as ``my_rows.csv``.
        settings: Settings that replace those in the metadata.
    """
    path = Path(target)
    config = {
        "task": path.stem,
        "dataset_path": str(path.absolute()),
        "metadata": {"config_source": target},
    }
    return _build_task(FactorTask, target, config, settings)


def _check_task(name: str, config: dict[str, Any], settings: Mapping[str, str]) -> TaskReport:
    """Check a task's YAML for misspelt keys and a missing class, and then build the task.

    Args:
        name: The name of the task in the report.
        config: The content of the task's YAML file.
        settings: Settings that replace those in the metadata.
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
    report = _build_task(task_class, name, config, settings)
    return replace(report, problems=(*problems, *report.problems))


def _build_task(
    task_class: type[ConfigurableTask],
    name: str,
    config: dict[str, Any],
    settings: Mapping[str, str],
) -> TaskReport:
    """Build a task and report the problems of its rows and requests.

    Args:
        task_class: The class of the task.
        name: The name of the task in the report.
        config: The content of its YAML file.
        settings: Settings that replace those in the metadata.
    """
    # Users name a judge only when they run a task, but the task cannot be built without one.
    metadata = {"judge": LEXICAL, **(config.get("metadata") or {}), **settings}
    config = {**config, "metadata": metadata}
    try:
        return build_and_check(task_class, name, config, metadata.get("data_dir"))
    except FactualityError as error:
        return _report_error(name, error)


def _report_error(target: str, error: FactualityError) -> TaskReport:
    """Turn an error into a report, with a problem per line of its message."""
    return TaskReport(target, tuple(str(error).split("\n")))
