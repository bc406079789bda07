"""The list of tasks says of each what is true."""

import pytest

from judges import LEXICAL
from lm_factuality.cli.listing import list_groups, list_tasks
from lm_factuality.harness.suite_task import warnings_silenced
from lm_factuality.harness.tasks import find_configs, suite_tasks


def test_all_tasks_and_groups_of_the_suite_are_listed():
    """The command ``ls`` reads the list from a file, which may lack a new task."""
    manager = suite_tasks()

    assert [task.name for task in list_tasks()] == sorted(manager.all_subtasks)
    assert [group.name for group in list_groups()] == sorted(manager.all_groups)


def build_task(name):
    """Build a task of the suite with the lexical judge, as lm_eval does for a run."""
    ((_, config),) = find_configs(name)
    config = {**config, "metadata": {"judge": LEXICAL, **config["metadata"]}}
    task_class = config["class"]
    with warnings_silenced():
        return task_class(config=config)


@pytest.mark.parametrize(
    "listed_task",
    [task for task in list_tasks() if task.name.startswith("sample_")],
    ids=lambda task: task.name,
)
def test_listed_row_count_of_a_sample_task_matches_its_data(listed_task):
    """The number is stated in the YAML of the task, while its data may change."""
    task = build_task(listed_task.name)

    assert listed_task.rows == len(task.eval_docs)
