"""Results beside published figures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.errors import ConfigError, DataError
from lm_factuality.factor.corpus import PAPER_WINDOW
from lm_factuality.suite import read_config


@dataclass(frozen=True)
class Figure:
    """A published value, in percent, of ``metric`` for ``model`` (its name on the Hub) on ``task``, and where it stands."""

    model: str
    task: str
    metric: str
    percent: float
    where: str


@dataclass(frozen=True)
class Result:
    """What a results file says of one model and task; values in percent, nothing where the run has none."""

    model: str
    task: str
    factor_acc: float | None
    stderr: float | None
    num_rows: int
    unscored: int
    notes: tuple[str, ...]


def read_figures(path: Path) -> list[Figure]:
    """The figures of a YAML with a list ``figures``.

    Raises:
        ConfigError: no such file, or an entry that is not a figure.
    """
    loaded = read_config(path)
    if not isinstance(loaded, dict) or not isinstance(loaded.get("figures"), list):
        raise ConfigError(f"{path}: no list 'figures'; expected a file such as configs/reproduce/factor_figures.yaml")
    figures = []
    for number, entry in enumerate(loaded["figures"], start=1):
        try:
            figures.append(Figure(**{**entry, "percent": float(entry["percent"])}))
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(
                f"{path}: figure {number}: {error}; expected model, task, metric, percent, where"
            ) from error
    return figures


def read_results(paths: Sequence[Path]) -> list[Result]:
    """Every FACTOR task in lm_eval's results files; a folder stands for all ``results_*.json`` below it.

    Raises:
        DataError: a path without results, or a file that lm_eval did not write.
    """
    found = []
    for path in paths:
        files = sorted(path.rglob("results_*.json")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise DataError(f"{path}: no results_*.json here; expected lm_eval's --output_path or a file below it")
        for file in files:
            found += _read_file(file)
    return found


def _read_file(path: Path) -> list[Result]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        tasks: Mapping[str, Any] = content["results"]
        configs: Mapping[str, Any] = content["configs"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a results file of lm_eval: {error!r}") from error
    results = []
    for task, values in tasks.items():
        metadata = configs.get(task, {}).get("metadata") or {}
        if "acc_bytes,none" not in values or "data" not in metadata:
            continue  # another kind of task, or a group
        unscored = int(values.get("unscored,none", 0))
        results.append(
            Result(
                _model_name(content), task, _percent(values.get("factor_acc,none")),
                _percent(values.get("factor_acc_stderr,none")),
                int(values.get("sample_len", 0)), unscored, tuple(_notes(content, metadata, values, unscored)),
            )
        )  # fmt: skip
    return results


def _model_name(content: Mapping[str, Any]) -> str:
    """As lm_eval names the model: an adapter by its own name, not its base's."""
    return str(content.get("model_name") or content.get("config", {}).get("model", "unknown"))


def _percent(value: Any) -> float | None:
    return 100 * value if isinstance(value, int | float) and math.isfinite(value) else None


def _notes(
    content: Mapping[str, Any], metadata: Mapping[str, Any], values: Mapping[str, Any], unscored: int
) -> list[str]:
    notes = []
    data = metadata["data"]
    if data.get("is_upstream") is False:
        notes.append(
            f"not the published file: {data.get('rows')} rows of {data.get('upstream_rows')}, git blob {data.get('git_blob')}"
        )
    if content.get("config", {}).get("limit"):
        notes.append(f"--limit {content['config']['limit']}")
    elif values.get("sample_len") != data.get("rows"):
        notes.append(f"{values.get('sample_len')} of {data.get('rows')} rows")
    for key in ("chat_template", "system_instruction"):
        if content.get(key):
            notes.append(f"with a {key.replace('_', ' ')}, which the paper's runs had not")
    if "factor_acc,none" not in values:
        notes.append("factor_acc is absent: the backend shows no tokenizer")
    if unscored:
        low, high = (_percent(values.get(f"factor_acc_{bound},none")) for bound in ("worst", "best"))
        known = low is not None and high is not None
        bounds = f", factor_acc between {low:.1f} and {high:.1f} if they were wrong or right" if known else ""
        notes.append(f"{unscored} rows unscored{bounds}")
    if metadata.get("window") != PAPER_WINDOW and "factor_acc,none" in values:
        notes.append(f"window of {metadata.get('window')} tokens, the paper's is {PAPER_WINDOW}")
    if metadata.get("protocol", "paper") != "paper":
        notes.append(f"protocol {metadata['protocol']}: ties go to the first choice")
    if caution := metadata.get("caution"):
        notes.append(" ".join(str(caution).split()))
    return notes


def match(result: Result, figures: Sequence[Figure]) -> Figure | None:
    """The published figure for a result: same task, and the same model by name, with or without the organisation."""
    name = _short_name(result.model)
    for figure in figures:
        if (figure.task, figure.metric, _short_name(figure.model)) == (result.task, "factor_acc", name):
            return figure
    return None


def _short_name(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1].lower()
