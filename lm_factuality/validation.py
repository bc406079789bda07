"""What lm_eval does not check before it runs a FACTOR task: the YAML's keys, the file, the columns, every row."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.errors import FactualityError
from lm_factuality.factor.corpus import parse_corpus
from lm_factuality.factor.load import load_corpus
from lm_factuality.factor.rows import Row, suspicions
from lm_factuality.factor.scoring import join
from lm_factuality.factor.tables import FORMATS

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What was found in one task: every problem, each naming its place, and what the task looks like if it can be built."""

    target: str
    problems: tuple[str, ...]
    num_rows: int = 0
    num_requests: int = 0
    example: tuple[tuple[str, str], ...] = ()


def validate(targets: Sequence[str], include_path: Sequence[str] = (), data_dir: str | None = None) -> list[Report]:
    """A report on every target: a task YAML, a data file in the authors' columns, or the name of a task or a group.

    Raises:
        ConfigError: a target that is none of these.
    """
    from lm_factuality.harness.tasks import find_configs

    reports = []
    for target in targets:
        path = Path(target)
        if path.suffix in FORMATS:
            config = {"task": path.stem, "dataset_path": str(path.resolve()), "metadata": {}}
            reports.append(_check(target, config, data_dir, is_task=True))
            continue
        for name, found in find_configs(target, include_path):
            if isinstance(found, FactualityError):
                reports.append(Report(name, tuple(str(found).split("\n"))))
            else:
                reports.append(_check(name, found, data_dir, is_task=found.get("class") is not None))
    return reports


def _check(target: str, config: dict[str, Any], data_dir: str | None, is_task: bool) -> Report:
    problems: list[str] = []
    where = (
        (config.get("metadata") or {}).get("config_source", target)
        if isinstance(config.get("metadata"), dict)
        else target
    )
    if not is_task:
        problems.append(
            f"{where}: no FACTOR task: it does not include tasks/factor/_factor.yaml, which names the class"
        )
    try:
        corpus = parse_corpus(config)
        loaded = load_corpus(corpus, data_dir)
    except FactualityError as error:
        return Report(target, (*problems, *str(error).split("\n")))
    problems += loaded.problems
    rows = loaded.rows
    problems += [f"{row.location}: {row.problem}" for row in rows if row.problem]
    problems += [f"{location}: {what}" for location, what in suspicions(rows)]
    expected = loaded.provenance.get("upstream_rows", len(rows))
    if len(rows) != expected:
        problems.append(f"{target}: {len(rows)} rows, the published file has {expected}")
    sound = next((row for row in rows if not row.problem), None)
    return Report(
        target, tuple(dict.fromkeys(problems)), len(rows), sum(len(row.choices) for row in rows),
        _requests(sound) if sound else (),
    )  # fmt: skip


def _requests(row: Row) -> tuple[tuple[str, str], ...]:
    """The requests of a row as the model gets them, the true completion first."""
    order = sorted(range(len(row.choices)), key=lambda index: index != row.gold)
    return tuple(join(row.prefix, row.choices[index]) for index in order)
