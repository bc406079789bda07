"""What runs the stages over the shards: processes of this machine, stage after stage;
:mod:`factor_gen.ray_engine` has Ray's."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from itertools import chain
from multiprocessing import connection
from typing import Protocol

from tqdm import tqdm

from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.shards import StageFolder
from factor_gen.stages import Opener, Stage, close, in_one_process
from lm_factuality.ground.errors import FactualityError


class Source(Protocol):
    """What a stage takes its shards from: the folder of the stage before it, or
    :class:`factor_gen.draws.Again`."""

    def read(self, number: int) -> list[Example]: ...


Step = tuple[
    Source, StageFolder
]  # where the shards of a stage come from, and the folder that it leaves them in


def run_local(
    settings: BuildSettings, draws: Sequence[Sequence[Step]], shards: int, opener: Opener
) -> None:
    """:func:`run_shards` on this machine."""
    steps = list(chain.from_iterable(draws))
    missing = [
        [number for number in range(shards) if not target.has(number)] for _, target in steps
    ]
    shared = [
        numbers
        for numbers, (_, target) in zip(missing, steps, strict=True)
        if not in_one_process(settings, target.stage)
    ]
    workers = workers_of(settings, max(map(len, shared), default=0))
    opened: dict[str, Stage] = {}
    with _pool(settings, opener, workers) as pool, ExitStack() as closing:
        for numbers, (source, target) in zip(missing, steps, strict=True):
            with tqdm(
                total=shards,
                initial=shards - len(numbers),
                desc=target.stage,
                unit=" shards",
                delay=2,
            ) as bar:
                if not numbers:
                    continue
                if pool is None or len(numbers) == 1 or in_one_process(settings, target.stage):
                    if target.stage not in opened:
                        opened[target.stage] = opener(settings, target.stage)
                        closing.callback(close, opened[target.stage])
                    for number in numbers:
                        make_shard(opened[target.stage], source, target, number)
                        bar.update()
                else:
                    for _ in _spread(pool, source, target, numbers):
                        bar.update()


@contextmanager
def _pool(
    settings: BuildSettings, opener: Opener, workers: int
) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that serve all stages: as many as the stage needs that has the most to do; None
    where one is enough."""
    if workers == 1:
        yield None
        return
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _start, (settings, opener)
    )
    try:
        yield pool
    finally:  # what is under way is finished and kept, also after an error or Ctrl-C
        pool.shutdown(wait=True, cancel_futures=True)


def _spread(
    pool: ProcessPoolExecutor, source: Source, target: StageFolder, numbers: Sequence[int]
) -> Iterator[int]:
    target.forget_begun()
    try:
        tasks = {pool.submit(_make, source, target, number): number for number in numbers}
        for task in as_completed(tasks):
            task.result()
            yield tasks[task]
    except BrokenProcessPool as error:
        raise worker_lost(source, target, target.begun()) from error


_opened: dict[str, Stage] = {}  # of this process
_given: list[tuple[BuildSettings, Opener]] = []


def _start(settings: BuildSettings, opener: Opener) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group: the parent ends the others in order
    _given.append((settings, opener))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone, which a killed one cannot tell."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _make(source: Source, target: StageFolder, number: int) -> None:
    name = target.stage
    if name not in _opened:
        for other in _opened.values():
            close(other)
        _opened.clear()
        settings, opener = _given[0]
        _opened[name] = opener(settings, name)
    target.begin(number)
    try:
        make_shard(_opened[name], source, target, number)
    finally:
        target.end(number)


_LOG = logging.getLogger(__name__)
_KEPT = "finished shards are kept: the same command continues with the rest"


class StageFailed(FactualityError):
    """A shard that a stage could not make; the text names both and the documents."""


def make_shard(stage: Stage, source: Source, target: StageFolder, number: int) -> None:
    """Makes one shard of ``stage``, unless it is there. Where requests to a model failed, the stage
    raises an error, so that no shard is written without their answers. Raises StageFailed: the
    stage raised an error, or did not return every example."""
    if target.has(number):
        return
    examples = source.read(number)
    try:
        made = stage.run(examples)
    except FactualityError as error:
        raise StageFailed(f"{where(target, number, examples)}: {error}\n{_KEPT}") from error
    except Exception as error:
        _LOG.exception("%s", where(target, number, examples))
        raise StageFailed(
            f"{where(target, number, examples)}: {type(error).__name__}: {error}\n{_KEPT}; if it"
            " fails again, report it"
        ) from error
    if [example.doc_id for example in made] != [example.doc_id for example in examples]:
        raise StageFailed(
            f"{where(target, number, examples)}: the stage did not return its {len(examples)}"
            " examples in order"
        )
    target.write(number, made)


def where(target: StageFolder, number: int, examples: Sequence[Example]) -> str:
    """A shard by its stage, number and documents."""
    ids = [example.doc_id for example in examples]
    named = repr(ids[0]) if len(ids) == 1 else f"{ids[0]!r} to {ids[-1]!r}" if ids else "none"
    return f"stage {target.stage}, shard {number} (documents {named})"


def worker_lost(source: Source, target: StageFolder, numbers: Sequence[int]) -> StageFailed:
    """The error for a process that ended while it was at work on one of the shards ``numbers``."""
    named = (
        "; ".join(where(target, number, source.read(number)) for number in numbers)
        or f"stage {target.stage}"
    )
    return StageFailed(
        f"{named}: the process at work on it died, as it does when memory runs out; {_KEPT}, best "
        "with fewer --workers or a smaller shard"
    )


def workers_of(settings: BuildSettings, most: int) -> int:
    """How many workers to start for ``most`` pieces of work."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min(settings.workers or cores, most))


def run_shards(
    settings: BuildSettings, draws: Sequence[Sequence[Step]], shards: int, opener: Opener
) -> None:
    """Takes ``shards`` shards through the steps of each of the ``draws``, in order. Shards that are
    there already are left alone. The outcome is the same for every engine and number of workers.
    Raises StageFailed: a stage raised an error, or its process died; ConfigError: a stage cannot be
    opened."""
    if settings.engine == "ray":
        from factor_gen.ray_engine import run_ray

        run_ray(settings, draws, shards, opener)
    else:
        run_local(settings, draws, shards, opener)
