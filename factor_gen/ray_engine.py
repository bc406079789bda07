"""The engine that runs the stages of a build on many machines, in actors of a Ray cluster.

:func:`factor_gen.shards.run_shards` uses it if the settings say ``engine: ray``.
"""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from factor_gen.engine import count_workers
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import (
    RESUME_ADVICE,
    StageError,
    StageGroup,
    StageOpener,
    StageRunner,
    describe_shard,
    group_stages,
)
from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.ground.packages import first_line, need

# If its actor dies, a shard is tried again so many times.
_MAX_RETRIES = 2


class RayEngine:
    """Runs each group of stages in its own actors, on the cluster at ``RAY_ADDRESS``.

    If that variable is not set, a cluster is started on this machine. All machines must see the
    models and the folder of the YAML under the same paths.
    """

    def __init__(self, settings: BuildSettings, opener: StageOpener, num_shards: int) -> None:
        """Connect to the cluster and start the actors.

        Args:
            settings: The settings of the build.
            opener: The function that opens a stage.
            num_shards: How many shards there are to process.

        Raises:
            ConfigError: Ray is not installed, or there is no cluster at ``RAY_ADDRESS``.
        """
        # Every shard goes through these groups of stages.
        self.groups = group_stages(settings)

        self._ray = need("ray", "engine: ray", "ray")
        # A notebook may be connected to a cluster already. The build is then a guest there, and
        # leaves the cluster running.
        self._is_guest = self._ray.is_initialized()
        if not self._is_guest:
            _connect(self._ray, count_workers(settings, num_shards))

        # Actors may run in another folder than this process.
        self._settings = replace(settings, folder=settings.folder.resolve())
        self._opener = opener
        # The number of shards to work on at the same time, so that all actors are busy.
        self.capacity = 0
        self._idle_actors = []
        for group in self.groups:
            num_actors = self._count_actors(group.has_model, num_shards)
            self._idle_actors.append(self._start_actors(group, num_actors))
            self.capacity += num_actors
        # Each thread waits for one actor.
        self._threads = ThreadPoolExecutor(self.capacity)

    def _count_actors(self, has_model: bool, num_shards: int) -> int:
        """Return how many actors to start for a group of stages.

        There are as many as the settings say or the cluster has cores, but at most one for each
        shard. For stages with a model, there is at most one for each GPU, if the cluster has GPUs.
        """
        resources = self._ray.cluster_resources()
        num_cores = max(1, int(resources.get("CPU", 1)))
        num_actors = min(num_shards, self._settings.workers or num_cores)
        num_gpus = int(resources.get("GPU", 0))
        if has_model and num_gpus > 0:
            return min(num_actors, num_gpus)
        return num_actors

    def _start_actors(self, group: StageGroup, num_actors: int) -> "SimpleQueue[Any]":
        """Start some actors for a group of stages. Each opens the first of its stages at once.

        Returns:
            The actors that wait for a shard. Each joins the queue when it is ready.
        """
        has_gpu = group.has_model and self._ray.cluster_resources().get("GPU", 0) >= 1
        actor_class = self._ray.remote(StageRunner).options(
            # Each group has an actor for each core. With two groups, two actors share a core.
            num_cpus=1 / len(self.groups),
            num_gpus=int(has_gpu),
            # An actor that dies is started again each time (-1), but a shard gives up after a few.
            max_restarts=-1,
            max_task_retries=_MAX_RETRIES,
        )

        idle_actors: SimpleQueue[Any] = SimpleQueue()
        for _ in range(num_actors):
            actor = actor_class.remote(self._settings, self._opener)
            # An actor joins the queue when it has opened its stage. One that the cluster has no
            # room for never does, and so is never given a shard.
            opening = actor.prepare.remote(group.names[0]).future()
            # The default value keeps this actor for the callback, which runs after the loop.
            opening.add_done_callback(lambda _, actor=actor: idle_actors.put(actor))
        return idle_actors

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]:
        """Take the examples of a shard through a group of stages, on some machine of the cluster.

        Args:
            group: The index of the group in ``groups``.
            shard_number: The number of the shard, for error messages.
            examples: The examples of the shard.

        Returns:
            A future with the examples after the last stage, or with the error.
        """
        return self._threads.submit(self._run, group, shard_number, examples)

    def _run(self, group: int, shard_number: int, examples: Sequence[Example]) -> list[Example]:
        """Wait for an idle actor, let it run a group of stages on a shard, and wait for the result.

        Raises:
            FactualityError: A stage failed, or Ray could not run it.
        """
        # An actor takes one shard at a time, and is idle again when it returns the result.
        actor = self._idle_actors[group].get()
        names = list(self.groups[group].names)
        try:
            task = actor.run.remote(names, shard_number, examples)
            return self._ray.get(task)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayError as error:
            # Ray wraps an error of a stage in one of its own. Its other errors have no cause.
            stage_error = getattr(error, "cause", None)
            if isinstance(stage_error, FactualityError):
                raise stage_error from error
            shard = describe_shard(shard_number, examples)
            raise StageError(
                f"{', '.join(names)}, {shard}: Ray could not run it: {first_line(error)}\n"
                f"{RESUME_ADVICE}"
            ) from error
        finally:
            self._idle_actors[group].put(actor)

    def close(self) -> None:
        """Leave the cluster, and end it if this build started it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if not self._is_guest:
            self._ray.shutdown()


def _connect(ray: ModuleType, num_workers: int) -> None:
    """Connect to the cluster at ``RAY_ADDRESS``, or start one on this machine.

    Args:
        ray: The module ``ray``.
        num_workers: How many workers, each with a core, a cluster on this machine gets.

    Raises:
        ConfigError: There is no cluster at ``RAY_ADDRESS``.
    """
    address = os.environ.get("RAY_ADDRESS", "local")
    # Only a cluster that starts here can be given a number of cores.
    options = {"num_cpus": num_workers} if address == "local" else {}
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"RAY_ADDRESS is {address!r}: {error}; start a cluster there with ray start --head,"
            " or unset RAY_ADDRESS to run on this machine alone"
        ) from error
