"""Runs tests with a mutant in a forked process, since imports take longer than most tests."""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from bench.mutants.mutations import Mutant

_MEMORY = 4 * 2**30  # bytes that a process may take: some mutants never end
_SLOW = 15  # seconds of a test that is left out
_MOST = 20  # seconds of all tests together, of which those that take least are chosen


@dataclass(frozen=True)
class Tests:
    """The tests that try the mutants of an area."""

    files: Sequence[str]
    """The test files."""

    costs: dict[str, float] | None = None
    """The seconds of each chosen test, which passes without a mutant, by its name. None: all."""


class _Recorder:
    """A plugin of pytest that chooses tests and records what becomes of them."""

    def __init__(self, costs: dict[str, float] | None) -> None:
        """Run all tests, or those with a cost: files in the order of their costs."""
        self.chosen = costs
        self.costs: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests, and put the files that take least first."""
        if self.chosen is None:
            return
        costs_of_files: dict[str, float] = {}
        for name, cost in self.chosen.items():
            file = name.partition("::")[0]
            costs_of_files[file] = costs_of_files.get(file, 0.0) + cost
        items[:] = [item for item in items if item.nodeid in self.chosen]
        items.sort(key=lambda item: costs_of_files[item.nodeid.partition("::")[0]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the duration of a test, or that it failed."""
        self.costs[report.nodeid] = self.costs.get(report.nodeid, 0.0) + report.duration
        if report.failed or report.skipped:
            self.failed.append(report.nodeid)


def measure(files: Sequence[str], folder: Path) -> Tests:
    """Run test files without a mutant, and import here what they import from elsewhere.

    Args:
        files: The paths of the test files.
        folder: A folder for temporary files.
    """
    report = _fork(None, Tests(files), folder, timeout=900)[1]
    for module in report["modules"]:
        # Some modules cannot be imported alone, and the tests then import them.
        with suppress(Exception):
            importlib.import_module(module)
    costs: dict[str, float] = {}
    for name, cost in sorted(report["costs"].items(), key=lambda item: item[1]):
        if name in report["failed"] or sum(costs.values()) + cost > _MOST:
            sys.stderr.write(f"left out, since it fails or is slow: {name}\n")
        else:
            costs[name] = cost
    # What hangs or fails in a process with these imports would kill each mutant.
    tests = Tests(files, costs)
    ended, report = _fork(None, tests, folder, timeout=10 + 3 * _MOST)
    if not ended or report.get("exit") != pytest.ExitCode.OK:
        raise RuntimeError(f"{', '.join(files)}: some tests fail in a forked process")
    return tests


def try_mutant(mutant: Mutant, tests: Tests, folder: Path) -> tuple[str, str]:
    """Run the tests with a mutant.

    Returns:
        ``killed`` or ``survived``, and the test that failed.
    """
    # Within these seconds all chosen tests pass, also on a busier machine.
    ended, report = _fork(mutant, tests, folder, timeout=10 + 3 * _MOST)
    if not ended:
        return "killed", "timeout"
    if report.get("exit") in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "survived", ""
    return "killed", next(iter(report.get("failed", [])), "the import")


def _fork(
    mutant: Mutant | None, tests: Tests, folder: Path, timeout: float
) -> tuple[bool, dict[str, Any]]:
    """Run tests in a forked process.

    Returns:
        Whether the process ended in time, and what it reported.
    """
    path = folder / "report.json"
    path.unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        try:
            _run_tests(mutant, tests, folder, path)
        finally:
            os._exit(1)

    end = time.monotonic() + timeout
    ended = False
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
        ended = os.waitpid(process, os.WNOHANG)[0] == process
    # Servers that the tests have started are in the group of the process.
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if not ended:
        os.waitpid(process, 0)
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return ended, report


def _run_tests(mutant: Mutant | None, tests: Tests, folder: Path, path: Path) -> None:
    """Run tests in this process, and write a report."""
    os.setsid()
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    recorder = _Recorder(tests.costs)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder / 'tests'}"]
    options += ["-o", "timeout_func_only=true"]
    if mutant is None:
        options.append(f"--timeout={_SLOW}")
    else:
        options += ["-x", f"--timeout={2 * _SLOW}"]
        _replace_code(mutant)
    exit_code = pytest.main([*options, *tests.files], plugins=[recorder])
    modules = [] if tests.costs else _foreign_modules()
    report = {
        "exit": int(exit_code),
        "costs": recorder.costs,
        "failed": recorder.failed,
        "modules": modules,
    }
    path.write_text(json.dumps(report), encoding="utf-8")
    os._exit(0)


def _replace_code(mutant: Mutant) -> None:
    """Let imports of the mutant's module run its code. No file is changed."""
    path = str(Path.cwd() / mutant.file)
    code = mutant.compile()
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> CodeType | None:
        return code if loader.get_filename(fullname) == path else original(loader, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _foreign_modules() -> list[str]:
    """Return the imported modules of other projects, in the order of their imports."""
    names = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or str(Path.cwd())
        # The environment of `make` is in the folder of the project.
        if "site-packages" in file or not file.startswith(str(Path.cwd())):
            names.append(name)
    return names
