"""The processes of this machine that run the stages.

:func:`factor_gen.shards.run_shards` hands groups of stages to an engine: to this one, or to
:class:`factor_gen.ray_engine.RayEngine`.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import connection

from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import Opener, StageRunner, group_stages


class LocalEngine:
    """Runs stages without a model in a pool of processes, those with a model in this process.

    A model uses all cores or the GPU by itself, so that more processes would only load it again.
    """

    def __init__(self, settings: BuildSettings, opener: Opener, shards: int) -> None:
        self.groups = group_stages(settings)
        self.capacity = 1
        """How many shards are best under way at the same time."""
        self._runner = StageRunner(settings, opener)
        self._pool: ProcessPoolExecutor | None = None
        workers = count_workers(settings, shards)
        if workers > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, _start_worker, (settings, opener))
            # one shard more, so that no process waits while this one is busy with a model
            self.capacity = workers + 1

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]:
        """Take the examples of a shard through a group of stages.

        Args:
            group: The place of the group in ``groups``.
            shard_number: The shard, for messages.
            examples: What the group of stages gets.

        Returns:
            The examples that come out, or the error.
        """
        has_model, names = self.groups[group]
        future: Future[list[Example]] = Future()
        try:
            if self._pool is not None and not has_model:
                return self._pool.submit(_run_in_worker, names, shard_number, examples)
            future.set_result(self._runner.run(names, shard_number, examples))
        except Exception as error:  # noqa: BLE001 (whoever asks the future for its result gets it)
            future.set_exception(error)
        return future

    def close(self) -> None:
        """End the processes, once what they are at is finished, and close the stages."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._runner.close()


def count_workers(settings: BuildSettings, shards: int) -> int:
    """Return how many workers to start: one per core or as the settings say, no more than shards.

    On machines that share their cores, only the cores that this process may use are counted.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(1, min(settings.workers or cores, shards))


_runners: list[StageRunner] = []  # the one of a worker's process, which the pool cannot hand over


def _start_worker(settings: BuildSettings, opener: Opener) -> None:
    # Ctrl-C reaches all processes of the terminal: the parent ends the others in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _runners.append(StageRunner(settings, opener))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone; a killed parent cannot tell it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run_in_worker(
    names: Sequence[str], shard_number: int, examples: Sequence[Example]
) -> list[Example]:
    return _runners[0].run(names, shard_number, examples)
