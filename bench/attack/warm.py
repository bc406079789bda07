"""Starts commands of the suite within milliseconds, as forks of a process that imported it before.

`bench.attack` and the tests use `WarmProcess`. The process reads one line of JSON (a `Task`) per
command from its standard input. It writes one line when the command has begun, and one when the
command is over. Each command has a process group of its own and ends as any process does, so what
Python prints at its end is in the command's files as well.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

_REPOSITORY = Path(__file__).resolve().parents[2]
_PACKAGES = ("lm_factuality", "judges", "factor_gen")
# Importing these starts a command, or needs a package that may not be installed.
_NOT_IMPORTED = ("__main__", "ray_engine")
_LIBRARIES = (
    "lm_eval.evaluator",
    "lm_eval.models.huggingface",
    "lm_eval._cli",
    "openai",
    "transformers.models.gpt2",
)
# The changes to files, by the names of Python's audit events. The event "open" is a change only if
# the file is opened for writing.
_FILE_CHANGES = frozenset(
    {
        "os.rename",
        "os.remove",
        "os.mkdir",
        "os.rmdir",
        "os.truncate",
        "os.link",
        "os.symlink",
        "os.chmod",
        "sqlite3.connect",
        "shutil.rmtree",
    }
)
ASKED_MODELS = "ASKED_MODELS"
"""The environment variable with the file to which each call of a local model adds a line."""

# The methods by which local models answer requests, by module and class.
_MODEL_METHODS = {
    ("lm_eval.models.huggingface", "HFLM"): ("generate_until", "_loglikelihood_tokens"),
    ("lm_eval.models.vllm_causallms", "VLLM"): ("generate_until", "_loglikelihood_tokens"),
    ("lm_factuality.models.hf_tree", "HFTree"): ("score_tokens",),
}
_MOST_COUNTED = 1 << 20  # changes to files
_STORE_MARK, _OUTPUT_MARK = b".", b"o"  # of changes, in a pipe


@dataclass(frozen=True)
class Task:
    """A command to run, and how it is disturbed."""

    command: Sequence[str]
    """The program, ``lm-factuality`` or ``factor-gen``, and its arguments."""

    folder: str
    """The working directory. The output goes to files beside it, since it may have no room."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""

    dies_at: int = 0
    """At which change to a file the command gets the signal, counted from 1. 0: at none.

    It gets the signal before the change or, if it opens a file to write to, just after that.
    """

    signal: int = signal.SIGKILL
    """The signal."""

    most_bytes: int = 0
    """The size in bytes beyond which no file may grow. 0: there is no limit."""

    tears_down: bool = False
    """Whether Python removes all objects at the end, as it usually does.

    This takes seconds. It matters only for interrupted commands, which may print errors then.
    """

    @property
    def output_files(self) -> dict[int, str]:
        """The file of each output, by its descriptor: 1 for the output and 2 for errors."""
        return {1: f"{self.folder}.stdout", 2: f"{self.folder}.stderr"}


class Ending(NamedTuple):
    """How a command ended."""

    code: int
    """Its exit code, or the negative number of the signal that killed it."""

    file_changes: int
    """How often it changed files. 0 if it was killed by a signal."""

    output_changes: Sequence[int]
    """The numbers, from 1, of the changes to files in its folder that are no stores."""


class WarmProcess:
    """The process that has imported the suite, as other processes use it."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        """Start the process, and wait until it has imported everything, which takes 10 s.

        Args:
            modules: What to import instead of the whole suite.
        """
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_REPOSITORY,
            env=environment,
        )
        self._read()

    def begin(self, task: Task) -> int:
        """Start a command, and return the id of its process, which is that of its group as well."""
        self._input.write(json.dumps(asdict(task)) + "\n")
        self._input.flush()
        return int(self._read()["pid"])

    def is_over(self, seconds: float) -> bool:
        """Wait for the end of the command, but at most some seconds. Return whether it ended."""
        readable, _, _ = select.select([self._output], [], [], seconds)
        return bool(readable)

    def end(self) -> Ending:
        """Wait for the end of the command, and return how it ended."""
        ending = self._read()
        return Ending(
            int(ending["code"]), int(ending["file_changes"]), tuple(ending["output_changes"])
        )

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait()

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _read(self) -> Any:
        """Wait for the process's next line."""
        return json.loads(self._output.readline())


def _import_suite() -> None:
    """Import every module of the suite, and the libraries that its commands import later."""
    for package in _PACKAGES:
        for path in sorted((_REPOSITORY / package).rglob("*.py")):
            if path.stem not in _NOT_IMPORTED:
                parts = path.relative_to(_REPOSITORY).with_suffix("").parts
                importlib.import_module(".".join(parts).removesuffix(".__init__"))
    for name in _LIBRARIES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)


def _count_model_requests() -> None:
    """Let local models add the number of requests to a file at the beginning of each call."""
    for (module, name), methods in _MODEL_METHODS.items():
        if name == "VLLM" and not find_spec("vllm"):
            continue
        model_class = getattr(importlib.import_module(module), name)
        for method in methods:
            setattr(model_class, method, _counting(getattr(model_class, method)))


def _counting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a model that counts its requests and then does what it did before."""

    @wraps(method)
    def count_and_answer(model: object, requests: Sequence[Any], *rest: Any, **options: Any) -> Any:
        file = os.open(os.environ[ASKED_MODELS], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{len(requests)}\n".encode())
        os.close(file)
        return method(model, requests, *rest, **options)

    return count_and_answer


def _serve() -> Callable[[], int] | None:
    """Import the suite, and fork for each command that comes in.

    Returns:
        In a fork, the function that runs the command. In the process itself, None once there are no
        more commands.
    """
    # Whatever an import prints goes to the errors, so that it cannot mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    if not modules:
        _import_suite()
        _count_model_requests()
    gc.collect()
    # Otherwise the garbage collector of each fork would copy all memory.
    gc.freeze()
    answer(ready=1)

    for line in iter(sys.stdin.readline, ""):
        task = Task(**json.loads(line))
        ready_reader, ready_writer = os.pipe()
        changes_reader, changes_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            answers.close()
            os.close(ready_reader)
            os.close(changes_reader)
            return _become(task, ready_writer, changes_writer)

        os.close(ready_writer)
        os.close(changes_writer)
        os.read(ready_reader, 1)
        answer(pid=pid)
        _, status = os.waitpid(pid, 0)
        # End the processes that the command has left behind.
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        marks = os.read(changes_reader, _MOST_COUNTED)
        outputs = [number for number, mark in enumerate(marks, 1) if mark == _OUTPUT_MARK[0]]
        code = os.waitstatus_to_exitcode(status)
        answer(code=code, file_changes=len(marks), output_changes=outputs)
        os.close(ready_reader)
        os.close(changes_reader)
    return None


def _become(task: Task, ready_writer: int, changes_writer: int) -> Callable[[], int]:
    """Turn a fork into the process of a command.

    Args:
        task: The command, and how it is disturbed.
        ready_writer: The pipe that gets a byte when the command begins.
        changes_writer: The pipe that gets a byte for each change to a file.

    Returns:
        The function that runs the command.
    """
    os.setsid()
    os.chdir(task.folder)
    os.environ.update(task.environment)
    os.set_inheritable(changes_writer, False)
    _redirect(0, os.devnull, os.O_RDONLY)
    for descriptor, name in task.output_files.items():
        _redirect(descriptor, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    # The folder for temporary files was chosen before the environment changed.
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if task.most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task.most_bytes, task.most_bytes))
    sys.addaudithook(_file_change_hook(task, changes_writer))

    sys.argv = list(task.command)
    os.write(ready_writer, b".")
    os.close(ready_writer)

    def run() -> int:
        from factor_gen.cli import main as factor_gen
        from lm_factuality.cli import main as lm_factuality

        program, *arguments = sys.argv
        code = factor_gen(arguments) if program == "factor-gen" else lm_factuality(arguments)
        if not task.tears_down:
            _exit_at_once(code)
        return code

    return run


def _redirect(descriptor: int, path: str, flags: int) -> None:
    """Let a file descriptor stand for a file."""
    file = os.open(path, flags)
    os.dup2(file, descriptor)
    os.close(file)


def _file_change_hook(task: Task, changes_writer: int) -> Callable[[str, tuple[Any, ...]], None]:
    """Make an audit hook that counts the changes to files and sends the task's signal at one.

    Args:
        task: The command, with the signal.
        changes_writer: The pipe that gets a byte for each change.
    """
    process = os.getpid()
    num_changes = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal num_changes
        is_change = event in _FILE_CHANGES
        if event == "open" and isinstance(arguments[2], int):
            is_change = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        # Worker processes of the command inherit the hook, but do not count.
        if not is_change or os.getpid() != process:
            return
        num_changes += 1
        is_output = _is_output(arguments[0], task.folder)
        os.write(changes_writer, _OUTPUT_MARK if is_output else _STORE_MARK)
        if num_changes == task.dies_at:
            if event == "open":
                _open_to_write(*arguments)
            os.killpg(0, task.signal)

    return watch


def _is_output(path: object, folder: str) -> bool:
    """Return whether a changed file is in a command's folder, and neither in its home nor a store.

    Args:
        path: The first argument of an audit event.
        folder: The folder.
    """
    if not isinstance(path, str | os.PathLike):
        return False
    # The command runs in the folder. Links are not followed, since that would open them.
    name = os.path.relpath(Path(folder) / path, folder)
    return not name.startswith(("..", "home")) and ".sqlite" not in name


def _open_to_write(path: str | bytes | int, mode: str | None, flags: int) -> None:
    """Open a file as Python is about to do, which empties it or creates it.

    Args:
        path: The file. A number is a file that is open already.
        mode: Python's mode, which is not needed.
        flags: The flags of the system call.
    """
    if not isinstance(path, int):
        with suppress(OSError):
            os.close(os.open(path, flags, 0o666))


def _exit_at_once(code: int) -> NoReturn:
    """End the process without removing the objects in its memory."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run_command = _serve()
    sys.exit(run_command() if run_command else 0)
