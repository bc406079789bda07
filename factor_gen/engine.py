"""The engine that runs the stages of a build in processes of this machine.

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
from factor_gen.stages import StageOpener, StageRunner, group_stages


class LocalEngine:
    """Runs stages without a model in a pool of processes, and those with a model in this process.

    A model uses all cores or the GPU by itself, so that more processes would only load it again.
    """

    def __init__(self, settings: BuildSettings, opener: StageOpener, num_shards: int) -> None:
        """Start the processes, at most one for each of the shards.

        Args:
            settings: The settings of the build.
            opener: The function that opens a stage.
            num_shards: How many shards there are to process.
        """
        # Every shard goes through these groups of stages.
        self.groups = group_stages(settings)
        # The number of shards to work on at the same time, so that all processes are busy.
        self.capacity = 1

        self._runner = StageRunner(settings, opener)
        # With a single worker there is no pool: all stages run in this process.
        self._pool: ProcessPoolExecutor | None = None
        num_workers = count_workers(settings, num_shards)
        if num_workers > 1:
            # A forked process would share the threads and locks of the libraries.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                num_workers, context, _start_worker, (settings, opener)
            )
            # While this process is busy with the model for one shard, all others have a shard too.
            self.capacity = num_workers + 1

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]:
        """Take the examples of a shard through a group of stages, in the pool if there is one.

        Stages with a model run in this process, and the caller waits for them.

        Args:
            group: The index of the group in ``groups``.
            shard_number: The number of the shard, for error messages.
            examples: The examples of the shard.

        Returns:
            A future with the examples after the last stage, or with the error.
        """
        has_model, names = self.groups[group]
        # A future that is filled by hand: it has its result before the caller gets it.
        future: Future[list[Example]] = Future()
        try:
            if self._pool is not None and not has_model:
                return self._pool.submit(_run_in_worker, names, shard_number, examples)
            future.set_result(self._runner.run(names, shard_number, examples))
        # The caller finds an error in the future, as it does after an error in the pool.
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future

    def close(self) -> None:
        """End the processes when they have finished their current shards, and close the stages."""
        # Shards that wait in the queue of the pool are dropped: the next build makes them.
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._runner.close()


def count_workers(settings: BuildSettings, num_shards: int) -> int:
    """Return how many workers to start: one per core, or as many as the settings say.

    There is at least one, and at most one for each shard.
    """
    num_cores = os.cpu_count() or 1
    # On a shared machine, this process may be allowed only some of the cores.
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
    return max(1, min(settings.workers or num_cores, num_shards))


# In a worker process, the list holds its runner. A pool can only pass arguments to functions.
_runners: list[StageRunner] = []


def _start_worker(settings: BuildSettings, opener: StageOpener) -> None:
    """Prepare a process of the pool: create its runner, and let it end with its parent."""
    # Ctrl-C reaches all processes of the terminal. The parent process ends the workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _runners.append(StageRunner(settings, opener))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent process is gone, and then end this one.

    A parent that was killed cannot end its workers itself.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run_in_worker(
    names: Sequence[str], shard_number: int, examples: Sequence[Example]
) -> list[Example]:
    """Take the examples of a shard through some stages, in a process of the pool."""
    return _runners[0].run(names, shard_number, examples)
