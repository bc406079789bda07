"""Times ways of doing the same work, and runs benchmark commands that measure several parts.

The benchmark commands in ``bench`` call `run_parts`. The ways are run in turn, so that noise on the
machine slows all of them alike. The tables of a command stand in a YAML file beside it: each part
has a title, the heads of its columns with the format of their cells, and notes.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import yaml
from tqdm import tqdm

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.files import write_json

Name = TypeVar("Name")

Record = dict[str, Any]
"""What was measured in one row of a table, by name."""

Part = Callable[[argparse.Namespace], Iterable[Record]]
"""A function that measures one part of a benchmark, with the options of the command line."""

Prepare = Callable[..., Callable[[], Any]]
"""A function that prepares some work, such as loading a model, and returns the work to time."""


@dataclass(frozen=True)
class Timing:
    """What the runs of one way took."""

    seconds: list[float]
    """The duration of each run, in seconds."""

    peak_mb: float = 0.0
    """The highest resident memory of the process, in MB."""

    result: Any = None
    """What the last run returned."""

    @property
    def median(self) -> float:
        """The median duration of a run, in seconds."""
        return statistics.median(self.seconds)


def typical_ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return how many times as long the slow way takes, as the median of the ratios run by run.

    Args:
        slow: The seconds of each run of the slow way.
        fast: The seconds of each run of the fast way, in the same order.

    Returns:
        The median, which is the upper one of the two middle ratios if their number is even.
    """
    ratios = [slow_run / fast_run for slow_run, fast_run in zip(slow, fast, strict=True)]
    return statistics.median_high(ratios)


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds that some work takes on the CPU and the GPU together."""
    start = time.perf_counter()
    work()
    cuda = _find_cuda()
    if cuda is not None:
        # A GPU works on after the call returns.
        cuda.synchronize()
    return time.perf_counter() - start


def take_turns(
    ways: Mapping[Name, Callable[[], float]], runs: int, warm_up: int = 1
) -> dict[Name, list[float]]:
    """Run several ways in turn, and collect their seconds.

    Args:
        ways: The ways by name. Each does its work once and returns the seconds that it took.
        runs: The number of runs of each way that count.
        warm_up: The number of runs before these, which do not count.

    Returns:
        The seconds of each counted run, by name.
    """
    seconds_by_way: dict[Name, list[float]] = {name: [] for name in ways}
    for number in tqdm(range(warm_up + runs), desc="in turn", unit="run", delay=2, leave=False):
        for name, run_once in ways.items():
            seconds = run_once()
            if number >= warm_up:
                seconds_by_way[name].append(seconds)
    return seconds_by_way


def time_in_processes(
    ways: Mapping[str, tuple[Prepare, tuple[Any, ...]]], runs: int, warm_up: int = 1
) -> dict[str, Timing]:
    """Run several ways in turn, each in a process of its own, and measure time and memory.

    Args:
        ways: A function that prepares the work, and its arguments, by the name of the way. Another
            process has to find the function, so it cannot be a lambda.
        runs: The number of runs of each way that count.
        warm_up: The number of runs before these, which do not count.

    Returns:
        The timing of each way.
    """
    pipes: dict[str, Connection] = {}
    processes: list[BaseProcess] = []
    results: dict[str, Any] = {}

    def run_in_process(name: str) -> float:
        """Let the process of a way do its work once, and return the seconds that it took."""
        pipes[name].send("run")
        seconds, results[name] = pipes[name].recv()
        return float(seconds)

    try:
        for name, (prepare, arguments) in ways.items():
            pipes[name], process = _start(_serve_runs, prepare, arguments)
            processes.append(process)
            # Wait until this way is prepared, so that no two prepare at the same time.
            pipes[name].recv()
        runs_by_way = {name: partial(run_in_process, name) for name in ways}
        seconds = take_turns(runs_by_way, runs, warm_up)

        timings = {}
        for name, pipe in pipes.items():
            pipe.send("stop")
            timings[name] = Timing(seconds[name], peak_mb=pipe.recv(), result=results[name])
        return timings
    finally:
        for process in processes:
            process.terminate()


@contextmanager
def in_background(work: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """Let a function work in a process of its own within a ``with`` block.

    Args:
        work: The function. Its first argument is its end of a pipe. It has to return when
            "stop" comes through the pipe.
        *arguments: Its other arguments.

    Yields:
        This process's end of the pipe.
    """
    pipe, process = _start(work, *arguments)
    try:
        yield pipe
    finally:
        pipe.send("stop")
        process.join(10)


def _start(work: Callable[..., None], *arguments: Any) -> tuple[Connection, BaseProcess]:
    """Start a process for a function, whose first argument is its end of a new pipe.

    Returns:
        This process's end of the pipe, and the process.
    """
    # A forked process would share the threads and the GPU of this one.
    context = multiprocessing.get_context("spawn")
    own_end, far_end = context.Pipe()
    process = context.Process(target=work, args=(far_end, *arguments), daemon=True)
    process.start()
    far_end.close()
    return own_end, process


def _serve_runs(pipe: Connection, prepare: Prepare, arguments: tuple[Any, ...]) -> None:
    """Prepare some work and do it as often as the pipe asks for, in a process of its own.

    Args:
        pipe: This process's end of the pipe, which receives "run" or "stop". It gets "ready", then
            the seconds and the result of each run, and at last the peak memory.
        prepare: The function that prepares the work.
        arguments: The arguments of ``prepare``.
    """
    logging.disable(logging.WARNING)
    work = prepare(*arguments)
    pipe.send("ready")
    while pipe.recv() == "run":
        start = time.perf_counter()
        result = work()
        pipe.send((time.perf_counter() - start, result))
    pipe.send(peak_mb())


def peak_mb() -> float:
    """Return the highest memory of this process so far in MB: the GPU's if there is one."""
    cuda = _find_cuda()
    if cuda is not None:
        return float(cuda.max_memory_allocated()) / 2**20

    # On Linux, ru_maxrss starts with the memory of the parent process, but VmHWM does not.
    if Path("/proc/self/status").exists():
        return peak_mb_of_process("self")
    # macOS counts in bytes, other systems in kilobytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def peak_mb_of_process(number: int | str) -> float:
    """Return the highest resident memory of a process so far in MB, on Linux.

    Args:
        number: The number of the process, or ``self``.

    Returns:
        The memory, or 0 if the process has ended.
    """
    try:
        status = Path(f"/proc/{number}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            kilobytes = line.split()[1]
            return int(kilobytes) / 2**10
    return 0.0


def _find_cuda() -> Any:
    """Return ``torch.cuda`` if this process has imported torch and there is a GPU, or else None."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda


def run_parts(
    parser: argparse.ArgumentParser,
    parts: Mapping[str, Part],
    tables: Path,
    argv: Sequence[str] | None,
    needs_part: bool = False,
) -> int:
    """Run a benchmark command: measure the parts that the user names, and print their tables.

    Args:
        parser: The command's parser. The names of the parts and ``--json`` are added to it.
        parts: The functions that measure, by the name of the part.
        tables: The YAML file that describes the table of each part.
        argv: The command line.
        needs_part: Whether the user has to name a part. Otherwise all parts are the default.

    Returns:
        The exit code. It is 1 if data cannot be had, or if the ``ratio`` of a record is below the
        option ``--least``.
    """
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single run here")
    part_help = f"of {', '.join(parts)}" + ("" if needs_part else "; all if none is named")
    number_of_parts = "+" if needs_part else "*"
    parser.add_argument("parts", nargs=number_of_parts, metavar="PART", help=part_help)
    arguments = parser.parse_args(argv)
    chosen_parts = arguments.parts or list(parts)
    _check_arguments(parser, arguments, parts)

    descriptions = yaml.safe_load(tables.read_text(encoding="utf-8"))
    device = describe_device()
    records_by_part: dict[str, list[Record]] = {}
    try:
        for part in chosen_parts:
            records_by_part[part] = _print_records(
                parts[part](arguments), descriptions[part], {**vars(arguments), "device": device}
            )
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1

    if arguments.json:
        # Paths and other objects become text.
        as_json = json.dumps({"device": device, **records_by_part}, default=str)
        write_json(arguments.json, json.loads(as_json))
    least = getattr(arguments, "least", 0.0)
    for records in records_by_part.values():
        if any(record.get("ratio", least) < least for record in records):
            return 1
    return 0


def _check_arguments(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, parts: Mapping[str, Part]
) -> None:
    """End the command with an error if a part is unknown, or a number of runs is not positive."""
    for part in arguments.parts:
        if part not in parts:
            parser.error(f"no part {part!r}, expected some of {', '.join(parts)}")
    for name in ("runs", "rows"):
        if getattr(arguments, name, 1) < 1:
            parser.error(f"--{name} has to be at least 1")


def _print_records(
    records: Iterable[Record], table: Mapping[str, Any], names: Mapping[str, Any]
) -> list[Record]:
    """Print the table of one part, and before it each row as soon as it is measured.

    Args:
        records: The records, which are measured one by one.
        table: The table's description: title, columns and notes. Titles and notes may contain
            ``{most[KEY]}``, the largest value of a number, and ``{records}``.
        names: Other values for titles and notes, such as the options of the command line.

    Returns:
        The records.
    """
    measured = []
    rows = []
    for record in records:
        measured.append(record)
        row = tuple(cell.format(**record) for cell in table["columns"].values())
        rows.append(row)
        # Those who wait see what is known so far.
        sys.stderr.write("  ".join(row) + "\n")

    largest: dict[str, float] = {}
    for record in measured:
        for key, value in record.items():
            if isinstance(value, int | float):
                largest[key] = max(value, largest.get(key, value))
    all_names = {**names, "most": largest, "records": measured}
    title = table["title"].format(**all_names)
    notes = [note.format(**all_names) for note in table["notes"]]
    print_table(title, tuple(table["columns"]), rows, notes)
    return measured


def describe_device() -> str:
    """Return where models run and in what precision, as tables say it."""
    # The models run in other processes, so this one may not have imported torch yet.
    import torch  # noqa: F401

    cuda = _find_cuda()
    if cuda is None:
        return "cpu, float32"
    return f"{cuda.get_device_name()}, bfloat16"
