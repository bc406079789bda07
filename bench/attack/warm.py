"""A process that has imported the whole suite; each command is a fork of it, so that starting one
takes milliseconds.

It reads a line of JSON a command (:class:`Task`) from its standard input, and writes one when the
command has begun and one when it is over. A command is a process group of its own and ends as any
process does: what Python says at its end is in its files too.
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
from pathlib import Path
from typing import IO, Any

_REPOSITORY = Path(__file__).resolve().parents[2]
_PACKAGES = ("lm_factuality", "judges", "factor_gen")
_NOT_HERE = (
    "__main__",
    "ray_engine",
)  # these begin to work when they are imported, or need what may not be installed
_ALSO = (
    "lm_eval.evaluator",
    "lm_eval.models.huggingface",
    "lm_eval._cli",
    "openai",
    "transformers.models.gpt2",
    "matplotlib.pyplot",
)
# What a process does to files, as Python's audit events name it; "open" counts where it is for
# writing.
_DEEDS = {
    f"os.{name}"
    for name in ("rename", "remove", "mkdir", "rmdir", "truncate", "link", "symlink", "chmod")
}
_DEEDS |= {"sqlite3.connect", "shutil.rmtree"}


@dataclass(frozen=True)
class Task:
    """A command and the folder that it runs in. It gets ``signal`` before its ``dies_at``-th deed
    to a file, if it has so many (0: never), and no file may grow beyond ``most_bytes`` (0: as it
    likes). What stands in memory is torn down at the end only if it ``tears_down``: it takes
    seconds, and what Python says of it matters where a command was interrupted."""

    command: Sequence[str]
    folder: str
    environment: Mapping[str, str] = field(default_factory=dict)
    dies_at: int = 0
    signal: int = signal.SIGKILL
    most_bytes: int = 0
    tears_down: bool = False

    @property
    def output(self) -> dict[int, str]:
        """The files for the standard output and for errors: beside the folder, in which there may
        be no room."""
        return {1: f"{self.folder}.stdout", 2: f"{self.folder}.stderr"}


class Warm:
    """The process, from outside."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        """``modules`` are imported there instead of everything, which takes 10 s."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *modules],
            stdin=-1,
            stdout=-1,
            text=True,
            cwd=_REPOSITORY,
            env=environment,
        )
        self._read()

    def begin(self, task: Task) -> int:
        """Starts a command, whose output goes to the task's files ``output``; returns the process's
        id, which is that of its group, too."""
        self._write().write(json.dumps(asdict(task)) + "\n")
        self._write().flush()
        return int(self._read()["pid"])

    def is_over(self, seconds: float) -> bool:
        """Waits for so long at most; whether the command has ended."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def end(self) -> tuple[int, int]:
        """Waits for it; returns its exit code (the negative of a signal) and how many deeds it did
        to files, 0 if it was killed."""
        said = self._read()
        return int(said["code"]), int(said["deeds"])

    def close(self) -> None:
        self._write().close()
        self._process.wait()

    def _write(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def _import_all() -> None:
    for path in sorted(
        path for package in _PACKAGES for path in (_REPOSITORY / package).rglob("*.py")
    ):
        if path.stem not in _NOT_HERE:
            importlib.import_module(
                ".".join(path.relative_to(_REPOSITORY).with_suffix("").parts).removesuffix(
                    ".__init__"
                )
            )
    for name in _ALSO:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)


def _serve() -> Callable[[], int] | None:
    """What a fork is to do; None in the process itself, when there are no more commands."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**said: int) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    if sys.argv[1:]:
        list(map(importlib.import_module, sys.argv[1:]))
    else:
        _import_all()
    gc.collect()
    gc.freeze()  # otherwise each fork's collector would copy all of it
    tell(ready=1)
    for line in iter(sys.stdin.readline, ""):
        task = Task(**json.loads(line))
        ready, is_ready = os.pipe()
        counted, count = os.pipe()
        if (pid := os.fork()) == 0:
            answers.close()
            os.close(ready)
            os.close(counted)
            return _become(task, is_ready, count)
        os.close(is_ready)
        os.close(count)
        os.read(ready, 1)
        tell(pid=pid)
        _, status = os.waitpid(pid, 0)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # whom it has left behind
        deeds = len(os.read(counted, 1 << 20))
        tell(code=os.waitstatus_to_exitcode(status), deeds=deeds)
        os.close(ready)
        os.close(counted)
    return None


def _become(task: Task, is_ready: int, count: int) -> Callable[[], int]:
    os.setsid()
    os.chdir(task.folder)
    os.environ.update(task.environment)
    os.set_inheritable(count, False)
    for number, name in {0: os.devnull, **task.output}.items():
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY)
        os.dup2(file, number)
        os.close(file)
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if task.most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task.most_bytes, task.most_bytes))
    here, done = os.getpid(), 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        is_deed = event in _DEEDS or (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if not is_deed or os.getpid() != here:
            return
        done += 1
        os.write(count, b".")
        if done == task.dies_at:
            os.killpg(0, task.signal)

    sys.addaudithook(watch)
    program, *arguments = sys.argv = list(task.command)
    os.write(is_ready, b".")
    os.close(is_ready)

    def run() -> int:
        from factor_gen.cli import main as factor_gen
        from lm_factuality.cli import main as lm_factuality

        code = (factor_gen if program == "factor-gen" else lm_factuality)(arguments)
        if not task.tears_down:
            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                if not stream.closed:
                    stream.flush()
            os._exit(code)
        return code

    return run


if __name__ == "__main__":
    doing = _serve()
    sys.exit(doing() if doing else 0)
