"""Reads the benchmark to audit: a table of rows, the YAML of a task, or a task by its name.

``factor-gen audit`` calls it, and so does a build for the file that it has written.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import LoadedData, load_table, rows_from_table
from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.ground.tables import FORMATS


def read_benchmark(target: str, run_code: bool = False) -> LoadedData:
    """Read all rows of a FACTOR benchmark.

    Args:
        target: The folder of a build, a table, such as ``my_factor.csv``, the YAML of a task, or
            the name of a task, such as ``wiki_factor``.
        run_code: Whether to import the Python that the YAML of a task names, and to take templates
            with loops and methods. Otherwise such a YAML is refused.

    Returns:
        The rows. Their locations name the file without its folder.

    Raises:
        ConfigError: There is no such task, or the file lacks columns.
        DataError: The file is missing, or no row of it can be read.
    """
    corpus = parse_corpus(_task_config(target, run_code))
    table, provenance = load_table(corpus, corpus.metadata.source)

    # The results must be the same on two machines that have the file in different folders.
    rows = [
        replace(row, location=Path(row.location).name) for row in rows_from_table(corpus, table)
    ]
    return LoadedData(tuple(rows), provenance, table.problems)


def read_generators(target: str, run_code: bool) -> list[dict[int, str]]:
    """Read by which generator and rule the contradictions of each row were made.

    Args:
        target: The benchmark, as `read_benchmark` takes it.
        run_code: Whether the YAML of a task may run code, as in `read_benchmark`.

    Returns:
        For each row, the generator by the number of the choice, where the true completion is 0:
        ``{1: "rules/number", 2: "llm"}``. Empty if the file does not say.
    """
    corpus = parse_corpus(_task_config(target, run_code))
    table, _ = load_table(corpus, corpus.metadata.source)
    return [_generators_of_row(record.values) for record in table.records]


def _generators_of_row(cells: Mapping[str, object]) -> dict[int, str]:
    """Return the generator of each contradiction of a row, by the number of the choice.

    Args:
        cells: The cells of the row, by column.

    Example:
        The cell ``llm`` in the column ``contradiction_0_generator`` is the generator of choice 1.
    """
    generators = {}
    for column, cell in cells.items():
        match = re.fullmatch(r"contradiction_(\d+)_generator", column)
        if match and cell:
            # The true completion is choice 0, and contradiction 0 is choice 1.
            generators[int(match[1]) + 1] = str(cell)
    return generators


def find_table(target: str) -> Path:
    """Return the table in the folder of a build, or the path that a user typed if it is none."""
    path = Path(target)
    if not path.is_dir():
        return path
    return min(path.glob("*.csv"), default=path)


def _task_config(target: str, run_code: bool) -> Mapping[str, Any]:
    """Return the configuration of the lm_eval task that reads a benchmark.

    A file of rows needs no task, so that a configuration is made for it.

    Args:
        target: The folder of a build, a file of rows, or the name or the YAML of a task.
        run_code: Whether the YAML of a task may run code, as in `read_benchmark`.

    Returns:
        What the YAML of the task holds, such as its ``class`` and its ``dataset_path``.
    """
    path = find_table(target)
    if path.suffix.lower() in FORMATS:
        return {
            "class": "FACTOR",
            "task": path.stem,
            "dataset_path": str(path.absolute()),
            "metadata": {"config_source": str(path)},
        }
    # The three published benchmarks, such as "wiki_factor", are known by their names. Asking
    # lm_eval for them would take seconds.
    if target in all_sources() and target.endswith("_factor"):
        return {"class": "FACTOR", "task": target, "metadata": {"source": target}}
    return _find_factor_task(target, run_code)


def _find_factor_task(target: str, run_code: bool) -> Mapping[str, Any]:
    """Ask lm_eval for the FACTOR task of this name, or in this YAML, and return its configuration.

    Raises:
        ConfigError: There is no such task, the name stands for several, or the task is no FACTOR
            task.
    """
    # This module imports lm_eval, which takes seconds.
    from lm_factuality.harness.tasks import find_configs

    configs = dict(find_configs(target, may_import=run_code))
    if len(configs) > 1:
        raise ConfigError(
            f"{target}: stands for {len(configs)} tasks; name one of {', '.join(configs)}"
        )

    config = next(iter(configs.values()))
    # A task that cannot be loaded has an error in the place of its configuration.
    if isinstance(config, FactualityError):
        raise config
    task_class = config.get("class")
    if getattr(task_class, "__name__", None) != "FactorTask":
        raise ConfigError(
            f"{target}: no FACTOR task, whose rows have choices; expected one that includes"
            " tasks/factor/_factor.yaml"
        )
    return config
