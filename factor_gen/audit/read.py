"""The file to audit: a table in the authors' columns or ours, a task YAML, or a task's name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import find_table, table_rows
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.ground.tables import FORMATS, Table


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's rows, and the table that they were made from."""

    table: Table
    """Its records are those of ``rows``, in order."""
    rows: tuple[Row, ...]
    provenance: Mapping[str, Any]

    def details_of(self, index: int) -> dict[str, Any]:
        """Return what the table says of a row's contradictions: types, edits, filters' scores."""
        values = self.table.records[index].values
        return {
            name: value for name, value in values.items() if re.match(r"contradiction_\d+_", name)
        }


def read_benchmark(target: str) -> Benchmark:
    """Read the benchmark that ``target`` names.

    Raises:
        ConfigError: There is no such task, or the file lacks columns.
        DataError: The file is missing, or no row of it can be read.
    """
    corpus = parse_corpus(_config(target))
    table, provenance = find_table(corpus, corpus.metadata.source)
    rows = []
    for row in table_rows(corpus, table):
        # the same on every machine
        rows.append(replace(row, location=Path(row.location).name))
    return Benchmark(table, tuple(rows), provenance)


def _config(target: str) -> dict[str, Any]:
    """Return the configuration of the task that ``target`` is, or stands for."""
    path = Path(target)
    if path.suffix.lower() in FORMATS:
        return {
            "class": "FACTOR",
            "task": path.stem,
            "dataset_path": str(path.absolute()),
            "metadata": {"config_source": target},
        }
    if target in all_sources() and target.endswith("_factor"):
        return {"class": "FACTOR", "task": target, "metadata": {"source": target}}
    if path.is_dir():
        raise ConfigError(
            f"{target}: is a folder; name the table in it ({', '.join(FORMATS)}) or the YAML of its"
            " task"
        )
    is_path = bool(path.suffix) or len(path.parts) > 1
    if is_path and path.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(
            f"{target}: expected a table ({', '.join(FORMATS)}), the YAML of a task, or the name"
            " of one"
        )
    from lm_factuality.harness.tasks import find_configs  # only here: it imports lm_eval

    configs = list(find_configs(target))
    if len(configs) > 1:
        raise ConfigError(
            f"{target}: stands for {len(configs)} tasks; name one of"
            f" {', '.join(name for name, _ in configs)}"
        )
    _, config = configs[0]
    if isinstance(config, FactualityError):
        raise config
    kind = getattr(config.get("class"), "__name__", None)
    if kind != "FactorTask":
        raise ConfigError(
            f"{target}: no FACTOR task, whose rows have choices; expected one that includes"
            " tasks/factor/_factor.yaml"
        )
    return config
