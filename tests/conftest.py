"""What the tests share: where the data is, tiny models, and runs of lm_eval."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

from lm_factuality.cli.main import PROGRAM, app
from lm_factuality.ground.command_line import run_command_line
from lm_factuality.harness.outputs import TaskResult

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The stores of judges' and models' answers start empty, and the user's own stay as they are. The
# processes of pytest get the folder of the first one, which removes it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = TemporaryDirectory(prefix="lm-factuality-tests-")
    os.environ["XDG_CACHE_HOME"] = _cache.name

# Properties are tried with the same examples each time, however busy the machine is.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
TASKS = REPOSITORY / "tasks"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument.

    Bytes that gzip packed hold the time, and all processes of pytest must give a test one name.
    """
    return argname if isinstance(val, bytes) else None


def pytest_configure() -> None:
    """Let Ctrl-C end the commands of tests.

    A shell that starts the tests in the background has them ignore it, and their commands too.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if is_main_thread and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def describe_environment_once() -> None:
    """Let lm_eval find out once what it writes about the environment into each results file.

    It runs ``pip list`` and more for that, which takes seconds and gives the same each time.
    """
    from functools import cache

    import torch.utils.collect_env as environment

    environment.get_pretty_env_info = cache(environment.get_pretty_env_info)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder with the published data and the reference scores, or skip without it."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared with the published data and reference scores")
    return SHARED


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    """Return the smaller of the sample's checkpoints: a real model with a real tokenizer."""
    return TASKS / "sample" / "models" / "smaller"


@pytest.fixture
def write_judge(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the YAML of a judge behind a server, and returns its path.

    Keyword arguments are keys of the YAML, as in ``write_judge(server.base_url, samples=3)``.
    """
    import yaml

    def write(base_url: str, **keys: Any) -> Path:
        path = tmp_path / "my_judge.yaml"
        content = {
            "backend": "openai",
            "model": "small-judge",
            "base_url": base_url,
            "max_retries": 0,
            **keys,
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def factor_yaml(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the YAML of a FACTOR task into ``tmp_path``.

    Keyword arguments are keys of the YAML, as in ``factor_yaml(dataset_path="rows.csv")``.
    """
    import yaml

    def write(name: str = "my_factor", **keys: Any) -> Path:
        path = tmp_path / f"{name}.yaml"
        content = {"include": str(TASKS / "factor" / "_factor.yaml"), "task": name, **keys}
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows as JSONL into ``tmp_path``, and returns the path."""

    def write(rows: Sequence[dict[str, Any]], name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        lines = [json.dumps(row) + "\n" for row in rows]
        path.write_text("".join(lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., dict[str, Any]]:
    """Return a function that runs tasks through lm_eval in this process.

    Its arguments are the model, the tasks, a folder with more tasks and the arguments of the model.
    Keyword arguments are metadata or options of lm_eval, such as ``limit=2``. lm_eval's own tasks
    are not loaded, which takes seconds.
    """
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
        folders = [str(TASKS)]
        if include:
            folders.append(str(include))
        manager = TaskManager(include_path=folders, include_defaults=False, metadata=metadata)
        options.setdefault("device", "cpu")
        return simple_evaluate(
            model, model_args=model_args, tasks=tasks, task_manager=manager, **options
        )

    return run


def example_row(**changes: Any) -> dict[str, Any]:
    """Return a row of FACTOR that can be scored, in the authors' columns.

    Args:
        **changes: Columns with other values, such as ``completion=""``.
    """
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
    """Make a task of a results file. By default it has no scores and no samples.

    Args:
        task: The name of the task.
        kind: The benchmark that it belongs to, such as ``factor``.
        effective: How many rows it ran.
        **fields: Other fields, such as ``metrics={"factor_acc": 0.5}``.
    """
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


DEAD_PROCESS = 2**22 + 1  # more than the number of any process on Linux


def half_written(path: Path, process_id: int = DEAD_PROCESS) -> Path:
    """Return the path at which another process was writing a file or folder.

    The test writes something there. Leftovers of processes that have ended are looked for again by
    the next file that is written.

    Args:
        path: What the process was writing.
        process_id: The number of that process. By default it does not run any more.
    """
    from lm_factuality.ground import files

    files._remove_leftovers.cache_clear()
    temporary_path = files._temporary_path(path)
    own_id = os.getpid()
    name = temporary_path.name.replace(f".{own_id}.", f".{process_id}.")
    return temporary_path.with_name(name)


def run_command(*arguments: str) -> int:
    """Run ``lm-factuality`` with these arguments in this process, and return its exit code.

    Errors of the suite are raised, where the program itself would print them.
    """
    return run_command_line(app, PROGRAM, arguments)
