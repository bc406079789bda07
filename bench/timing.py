"""How long ways of doing the same take, run in turn so that noise strikes all alike; and a command
that measures parts.

A bench's ``tables.yaml`` says of each part how its records are shown: a title, heads of columns
with how a record fills them, and notes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import yaml
from tqdm import tqdm

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.files import write_json

Name = TypeVar("Name")
Record = dict[str, Any]
Part = Callable[[argparse.Namespace], Iterable[Record]]
Prepare = Callable[..., Callable[[], Any]]


@dataclass(frozen=True)
class Timing:
    """Seconds of each run, the highest resident memory of the process in MB, and what the work
    gave."""

    seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    result: Any = None

    @property
    def median(self) -> float:
        """In seconds."""
        return statistics.median(self.seconds)


def typical_ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times as long ``slow`` takes: the median of the ratios run by run, the upper one of
    an even number."""
    return statistics.median_high(one / other for one, other in zip(slow, fast, strict=True))


def seconds_of(work: Callable[[], Any]) -> float:
    """Seconds that ``work`` takes, a GPU's included."""
    start = time.perf_counter()
    work()
    if (cuda := _cuda()) is not None:
        cuda.synchronize()
    return time.perf_counter() - start


def take_turns(
    ways: Mapping[Name, Callable[[], float]], runs: int, warm_up: int = 1
) -> dict[Name, list[float]]:
    """What each way returns, its seconds, in ``runs`` runs in turn with the others, after
    ``warm_up`` that are not counted."""
    found: dict[Name, list[float]] = {name: [] for name in ways}
    for number in tqdm(range(warm_up + runs), desc="in turn", unit="run", delay=2, leave=False):
        for name, way in ways.items():
            seconds = way()
            if number >= warm_up:
                found[name].append(seconds)
    return found


def in_turn(
    ways: Mapping[str, tuple[Prepare, tuple[Any, ...]]], runs: int, warm_up: int = 1
) -> dict[str, Timing]:
    """Each way in a process of its own: a function that prepares (importable, so that another
    process finds it) and its arguments; what it returns is the work."""
    pipes: dict[str, Connection] = {}
    processes = []
    results: dict[str, Any] = {}

    def run(name: str) -> float:
        pipes[name].send("run")
        seconds, results[name] = pipes[name].recv()
        return float(seconds)

    try:
        for name, (prepare, arguments) in ways.items():
            pipes[name], process = _start(_serve, prepare, arguments)
            processes.append(process)
            pipes[name].recv()  # prepared, before the next one begins
        seconds = take_turns({name: lambda name=name: run(name) for name in ways}, runs, warm_up)  # type: ignore[misc]
        peaks = {}
        for name, pipe in pipes.items():
            pipe.send("stop")
            peaks[name] = pipe.recv()
        return {name: Timing(seconds[name], peaks[name], results[name]) for name in ways}
    finally:
        for process in processes:
            process.terminate()


@contextmanager
def in_background(work: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """``work``, given a pipe and the arguments, in a process of its own: ours is the other end.
    "stop" is sent at the end."""
    pipe, process = _start(work, *arguments)
    try:
        yield pipe
    finally:
        pipe.send("stop")
        process.join(10)


def _start(work: Callable[..., None], *arguments: Any) -> tuple[Connection, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _serve(pipe: Connection, prepare: Prepare, arguments: tuple[Any, ...]) -> None:
    import logging

    logging.disable(logging.WARNING)
    work = prepare(*arguments)
    pipe.send("ready")
    while pipe.recv() == "run":
        start = time.perf_counter()
        result = work()
        pipe.send((time.perf_counter() - start, result))
    pipe.send(peak_mb())


def peak_mb() -> float:
    """Highest resident memory of this process so far; on a GPU its highest allocated memory
    instead."""
    if (cuda := _cuda()) is not None:
        return float(cuda.max_memory_allocated()) / 2**20
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where ru_maxrss begins with what the parent process had
        highest = next(
            line
            for line in status.read_text(encoding="ascii").splitlines()
            if line.startswith("VmHWM")
        )
        return int(highest.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None


def run_parts(
    parser: argparse.ArgumentParser,
    parts: Mapping[str, Part],
    tables: Path,
    argv: Sequence[str] | None,
    needs_part: bool = False,
) -> int:
    """Measures the parts that are asked for, prints a table of each, and writes every single run as
    JSON where ``--json`` says.

    Titles and notes may name options, ``device``, the ``records``, and the ``most`` of a number
    over them. The exit code is 1 if data cannot be had, or the ``ratio`` of a record is below
    ``--least``.
    """
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single run here")
    which = f"of {', '.join(parts)}" + ("" if needs_part else "; all if none is named")
    parser.add_argument("parts", nargs="+" if needs_part else "*", metavar="PART", help=which)
    arguments = parser.parse_args(argv)
    asked = arguments.parts or list(parts)
    if unknown := [part for part in asked if part not in parts]:
        parser.error(f"no part {unknown[0]!r}, expected some of {', '.join(parts)}")
    if below := [name for name in ("runs", "rows") if getattr(arguments, name, 1) < 1]:
        parser.error(f"--{below[0]} has to be at least 1")
    shown = yaml.safe_load(tables.read_text(encoding="utf-8"))
    measured: dict[str, Any] = {"device": device()}
    try:
        for part in asked:
            measured[part] = _measure(
                parts[part](arguments),
                shown[part],
                {**vars(arguments), "device": measured["device"]},
            )
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments.json:
        write_json(arguments.json, json.loads(json.dumps(measured, default=str)))
    least = getattr(arguments, "least", 0.0)
    return (
        0
        if all(record.get("ratio", least) >= least for part in asked for record in measured[part])
        else 1
    )


def _measure(
    found: Iterable[Record], table: Mapping[str, Any], about: Mapping[str, Any]
) -> list[Record]:
    records, rows = [], []
    for record in found:
        records.append(record)
        rows.append(tuple(cell.format(**record) for cell in table["columns"].values()))
        sys.stderr.write("  ".join(rows[-1]) + "\n")  # what is known so far, for those who wait
    numbers = {
        key for record in records for key, value in record.items() if isinstance(value, int | float)
    }
    most = {key: max(record[key] for record in records if key in record) for key in numbers}
    names = {**about, "most": most, "records": records}
    print_table(
        table["title"].format(**names),
        tuple(table["columns"]),
        rows,
        [note.format(**names) for note in table["notes"]],
    )
    return records


def device() -> str:
    """Where models run, as tables say it: in other processes, so that this one may not have seen
    torch yet."""
    import torch  # noqa: F401

    return (
        f"{cuda.get_device_name()}, bfloat16" if (cuda := _cuda()) is not None else "cpu, float32"
    )
