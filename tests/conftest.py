"""What the tests share: where the data is, tiny models, and runs of lm_eval."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.cli.main import PROGRAM, app
from lm_factuality.ground.command_line import run_command_line
from lm_factuality.harness.outputs import TaskResult

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
TASKS = REPOSITORY / "tasks"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: what gzip packs holds the time, and all workers must collect
    the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def environment_is_asked_once() -> None:
    """lm_eval describes the environment in each results file, for which it runs ``pip list`` and
    more: seconds a run, always the same."""
    from functools import cache

    import torch.utils.collect_env as environment

    environment.get_pretty_env_info = cache(environment.get_pretty_env_info)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the published data and the reference scores."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared with the published data and reference scores")
    return SHARED


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    """The smaller of the sample's checkpoints: a real model with a real tokenizer."""
    return TASKS / "sample" / "models" / "smaller"


@pytest.fixture
def factor_yaml(tmp_path: Path) -> Callable[..., Path]:
    """Writes a task YAML into ``tmp_path``: ``factor_yaml(dataset_path="rows.csv",
    metadata={...})``."""
    import yaml

    def write(name: str = "my_factor", **keys: Any) -> Path:
        path = tmp_path / f"{name}.yaml"
        content = {"include": str(TASKS / "factor" / "_factor.yaml"), "task": name, **keys}
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as JSONL into ``tmp_path``."""

    def write(rows: Sequence[dict[str, Any]], name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., dict[str, Any]]:
    """Runs tasks through lm_eval in this process, without its built-in tasks."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from lm_factuality.harness.run import register_models

    register_models()

    def run(
        model: Any,
        tasks: list[str],
        include: Path | None = None,
        model_args: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        metadata = {**(model_args or {}), **options.pop("metadata", {})}
        manager = TaskManager(
            include_path=[str(TASKS), *([str(include)] if include else [])],
            include_defaults=False,
            metadata=metadata,
        )
        options.setdefault("device", "cpu")
        return simple_evaluate(
            model, model_args=model_args, tasks=tasks, task_manager=manager, **options
        )

    return run


def example_row(**changes: Any) -> dict[str, Any]:
    """A sound row in the authors' columns."""
    row = {
        "doc_id": "d1",
        "turncated_prefixes": "The library opened in 1870. ",
        "completion": "Its first keeper was a sailor from the north.",
        "contradiction_0": "Its first keeper was a baker from the north.",
        "contradiction_1": "Its last keeper was a sailor from the north.",
        "contradiction_2": "Its first keeper was a sailor from the south.",
    }
    return {**row, **changes}


def task_result(task: str, kind: str, effective: int = 1, **fields: Any) -> TaskResult:
    """A task of a results file, without scores."""
    defaults = {
        "metrics": {},
        "stderrs": {},
        "limit": None,
        "metadata": {},
        "config": {},
        "version": "1",
        "samples": None,
    }
    counts = {"num_samples": effective, "effective": effective}
    return TaskResult(task=task, kind=kind, **counts, **{**defaults, **fields})


def half_written(path: Path, by: int = 2**22 + 1) -> Path:
    """Where a process that was killed was writing ``path``, for a folder to be made there and a
    file to be written; the next writer is as new as the first one of a process."""
    from lm_factuality.ground import files

    files._remove_leftovers.cache_clear()
    part = files._temporary_path(path)
    return part.with_name(part.name.replace(f".{os.getpid()}.", f".{by}."))


def run_command(*arguments: str) -> int:
    """What ``lm-factuality`` with these arguments returns; its errors are not caught."""
    return run_command_line(app, PROGRAM, arguments)
