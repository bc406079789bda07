"""Lists the suite's tasks for ``lm-factuality ls``.

The YAMLs are read without lm_eval, whose import and index of tasks take seconds.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.published import Source
from lm_factuality.ground.suite import tasks_folder


class ListedTask(NamedTuple):
    """A task as ``lm-factuality ls`` lists it."""

    name: str

    question: str
    """What the task's benchmark asks, such as "Is the true sentence more likely?"."""

    rows: int
    """How many rows the task has."""

    licence: str
    """The licence of its data, such as ``MIT``. Empty if the task does not state it."""

    needs_judge: bool
    """Whether a judge marks the task's responses."""


class ListedGroup(NamedTuple):
    """A group of tasks."""

    name: str
    tasks: list[str]


def list_tasks() -> list[ListedTask]:
    """Describe the suite's tasks, sorted by name, without downloading anything."""
    return [_describe_task(config) for config in _suite_configs() if "group" not in config]


def list_groups() -> list[ListedGroup]:
    """Return the suite's groups, sorted by name."""
    groups = [config for config in _suite_configs() if "group" in config]
    return [ListedGroup(config["group"], config["task"]) for config in groups]


def _suite_configs() -> Iterator[dict[str, Any]]:
    """Yield the config of each of the suite's tasks and groups, sorted by name."""
    for path in sorted(tasks_folder().rglob("*.yaml"), key=lambda path: path.stem):
        # Others include the files whose names begin with an underscore.
        if not path.name.startswith("_"):
            yield _read_config(path)


# The loader in C is several times as fast, but not every build of PyYAML has it.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads the YAML of a task. It gives the name of a function, and does not import it."""


# ``!function NAME`` is read as the text NAME.
_Loader.add_constructor("!function", _Loader.construct_scalar)


def _read_config(path: Path) -> dict[str, Any]:
    """Read a task's YAML together with the file that it includes."""
    with path.open(encoding="utf-8") as file:
        # This subclass of SafeLoader makes plain values only.
        config: dict[str, Any] = yaml.load(file, _Loader)  # noqa: S506
    included = config.pop("include", None)
    if included is None:
        return config
    return {**_read_config(path.parent / included), **config}


def _describe_task(config: Mapping[str, Any]) -> ListedTask:
    """Describe a task's question and data.

    Args:
        config: The content of the task's YAML file.
    """
    benchmark = _find_benchmark(config["class"])
    # The page begins with the question: "Is the true sentence more likely? For each row ...".
    question, question_mark, _ = benchmark.page.lead.partition("?")

    metadata = config["metadata"]
    sources = _published_sources(config["task"])
    # A YAML of local data, or of a dataset on the Hub, states its rows and licence.
    rows = metadata.get("rows") or sum(source.rows for source in sources)
    licence = metadata.get("license") or ", ".join(sorted({source.license for source in sources}))
    return ListedTask(
        name=config["task"],
        question=question + question_mark,
        rows=rows,
        licence=licence,
        needs_judge=benchmark.judging is not None,
    )


def _find_benchmark(task_class: str) -> Benchmark:
    """Return the benchmark of a class such as ``lm_factuality.benchmarks.felm.task.FelmTask``."""
    package = task_class.rsplit(".", 2)[0]
    benchmark: Benchmark = import_module(f"{package}.benchmark").BENCHMARK
    return benchmark


def _published_sources(task: str) -> list[Source]:
    """Find the published files that a task reads, by its name.

    ``felm_gen`` reads the file ``felm``, and ``longfact`` reads all files whose names begin so.
    """
    published = all_sources().values()
    sources = [source for source in published if task.startswith(source.name)]
    return sources or [source for source in published if source.name.startswith(task)]
