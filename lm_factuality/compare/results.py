"""What lm_eval's results files say of the suite's tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.errors import DataError
from lm_factuality.factor.corpus import PAPER_WINDOW

PERPLEXITY = "_perplexity"  # what the name of a perplexity task adds to that of the FACTOR task on the same corpus

# Backends that score a checkpoint as it is; any other (retrieval, a baseline) makes another model of it.
_PLAIN_BACKENDS = {
    "hf", "hf-auto", "huggingface", "hf-tree", "vllm", "sglang", "local-completions", "openai-completions", "gguf", "ggml",
    "mamba_ssm", "openvino", "neuronx", "nemo_lm", "optimum-lm", "ipex",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """Which model a results file is of: ``model`` as lm_eval names it, ``variant`` what makes it another model of the same
    name (a revision, or a backend that does more than score), ``num_parameters`` where lm_eval knows it."""

    model: str
    variant: str
    num_parameters: float | None
    date: float
    file: Path

    @property
    def label(self) -> str:
        return f"{self.model} ({self.variant})" if self.variant else self.model


@dataclass(frozen=True)
class Result:
    """What a results file says of one model and FACTOR task; values in percent, nothing where the run has none."""

    run: Run
    task: str
    factor_acc: float | None
    stderr: float | None
    num_rows: int
    unscored: int
    notes: tuple[str, ...]

    @property
    def model(self) -> str:
        return self.run.model


@dataclass(frozen=True)
class PerplexityResult:
    """What a results file says of one model and perplexity task; ``perplexity`` is nothing where the backend shows no
    tokenizer."""

    run: Run
    task: str
    perplexity: float | None
    stderr: float | None
    byte_perplexity: float | None
    byte_stderr: float | None
    num_tokens: int | None
    window: int | None
    num_documents: int
    unscored: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """All that was found, in the order of the files."""

    accuracies: tuple[Result, ...]
    perplexities: tuple[PerplexityResult, ...]


def read_results(paths: Sequence[Path]) -> Results:
    """Every FACTOR and perplexity task in lm_eval's results files; a folder stands for all ``results_*.json`` below it.

    Raises:
        DataError: a path without results, or a file that lm_eval did not write.
    """
    accuracies: list[Result] = []
    perplexities: list[PerplexityResult] = []
    for path in paths:
        files = sorted(path.rglob("results_*.json")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise DataError(f"{path}: no results_*.json here; expected lm_eval's --output_path or a file below it")
        for file in files:
            _read_file(file, accuracies, perplexities)
    return Results(tuple(accuracies), tuple(perplexities))


def _read_file(path: Path, accuracies: list[Result], perplexities: list[PerplexityResult]) -> None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        tasks: Mapping[str, Any] = content["results"]
        configs: Mapping[str, Any] = content["configs"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a results file of lm_eval: {error!r}") from error
    run = _run(path, content)
    for task, values in tasks.items():
        metadata = configs.get(task, {}).get("metadata") or {}
        if "data" not in metadata:
            continue  # another kind of task, or a group
        if "acc_bytes,none" in values:
            accuracies.append(_accuracy(run, task, content, metadata, values))
        elif "byte_perplexity,none" in values:
            perplexities.append(_perplexity(run, task, content, metadata, values))


def _run(path: Path, content: Mapping[str, Any]) -> Run:
    """The model is as lm_eval names it: an adapter by its own name, not its base's."""
    config = content.get("config") or {}
    model = str(content.get("model_name") or config.get("model", "unknown")).rstrip("/")
    revision, backend = config.get("model_revision"), str(config.get("model", "hf"))
    parts = [str(revision)] if revision not in (None, "", "main") else []
    parts += [backend] if backend not in _PLAIN_BACKENDS and backend != model else []
    return Run(model, ", ".join(parts), _number(config.get("model_num_parameters")) or None,
               _number(content.get("date")) or 0.0, path)  # fmt: skip


def _accuracy(
    run: Run, task: str, content: Mapping[str, Any], metadata: Mapping[str, Any], values: Mapping[str, Any]
) -> Result:
    unscored = int(values.get("unscored,none", 0))
    return Result(
        run, task, _percent(values.get("factor_acc,none")), _percent(values.get("factor_acc_stderr,none")),
        int(values.get("sample_len", 0)), unscored, tuple(_notes(content, metadata, values, unscored)),
    )  # fmt: skip


def _perplexity(
    run: Run, task: str, content: Mapping[str, Any], metadata: Mapping[str, Any], values: Mapping[str, Any]
) -> PerplexityResult:
    unscored = int(values.get("unscored,none", 0))
    tokens = _number(values.get("num_tokens,none"))
    notes = _data_notes(content, metadata, values, "documents")
    notes += [f"{unscored} documents unscored"] if unscored else []
    window = metadata.get("window_used")
    if window is not None and metadata.get("window") not in (None, window):
        notes.append(f"window of {window} tokens, {metadata['window']} asked for")
    return PerplexityResult(
        run, task, _number(values.get("perplexity,none")), _number(values.get("perplexity_stderr,none")),
        _number(values.get("byte_perplexity,none")), _number(values.get("byte_perplexity_stderr,none")),
        None if tokens is None else int(tokens), window, int(values.get("sample_len", 0)), unscored, tuple(notes),
    )  # fmt: skip


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _percent(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else 100 * number


def _data_notes(
    content: Mapping[str, Any], metadata: Mapping[str, Any], values: Mapping[str, Any], unit: str
) -> list[str]:
    """What sets the data of a run apart; ``unit`` is what a sample is, as the provenance counts it."""
    notes = []
    data = metadata["data"]
    if data.get("is_upstream") is False:
        notes.append(
            f"not the published file: {data.get('rows')} rows of {data.get('upstream_rows')}, git blob {data.get('git_blob')}"
        )
    if content.get("config", {}).get("limit"):
        notes.append(f"--limit {content['config']['limit']}")
    elif values.get("sample_len") != data.get(unit):
        notes.append(f"{values.get('sample_len')} of {data.get(unit)} {unit}")
    return notes


def _notes(
    content: Mapping[str, Any], metadata: Mapping[str, Any], values: Mapping[str, Any], unscored: int
) -> list[str]:
    notes = _data_notes(content, metadata, values, "rows")
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
