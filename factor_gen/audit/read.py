"""The file to audit: a table in the authors' columns or ours, a task YAML, or a task's name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import LoadedData, load_table, rows_from_table
from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.ground.tables import FORMATS


def read_benchmark(target: str) -> LoadedData:
    """Read the benchmark that ``target`` names.

    Raises:
        ConfigError: There is no such task, or the file lacks columns.
        DataError: The file is missing, or no row of it can be read.
    """
    corpus = parse_corpus(_config(target))
    table, provenance = load_table(corpus, corpus.metadata.source)
    rows = []
    for row in rows_from_table(corpus, table):
        # the same on every machine
        rows.append(replace(row, location=Path(row.location).name))
    return LoadedData(tuple(rows), provenance, table.problems)


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
