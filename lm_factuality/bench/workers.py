"""Ways of doing the same work, each in a process of its own, run in turn so that noise strikes all alike."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds of each run, the highest resident memory of the process in MB, and what the work gave."""

    seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    result: Any = None

    @property
    def median(self) -> float:
        """In seconds."""
        return statistics.median(self.seconds)


def typical_ratio(slow: Timing, fast: Timing) -> float:
    """How many times as long ``slow`` takes: the median of the ratios run by run, the upper one of an even number."""
    return statistics.median_high(one / other for one, other in zip(slow.seconds, fast.seconds, strict=True))


Prepare = Callable[..., Callable[[], Any]]


def in_turn(ways: Mapping[str, tuple[Prepare, tuple[Any, ...]]], runs: int, warm_up: int = 1) -> dict[str, Timing]:
    """Each way is a function that prepares (importable, so that another process finds it) and its arguments; what it returns
    is the work, done ``warm_up`` times uncounted and ``runs`` times in turn with the others."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    try:
        for name, (prepare, arguments) in ways.items():
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, prepare, arguments), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            pipes[name] = ours
            ours.recv()  # prepared, before the next one begins
        timings: dict[str, list[float]] = {name: [] for name in ways}
        results: dict[str, Any] = {}
        for number in range(warm_up + runs):
            for name, pipe in pipes.items():
                pipe.send("run")
                seconds, results[name] = pipe.recv()
                if number >= warm_up:
                    timings[name].append(seconds)
        peaks = {}
        for name, pipe in pipes.items():
            pipe.send("stop")
            peaks[name] = pipe.recv()
        return {name: Timing(timings[name], peaks[name], results[name]) for name in ways}
    finally:
        for process in processes:
            process.terminate()


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
    """Highest resident memory of this process so far; on a GPU its highest allocated memory instead."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated()) / 2**20
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where ru_maxrss begins with what the parent process had
        highest = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(highest.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
