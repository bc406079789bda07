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
        # So many shards should be submitted at the same time to keep all actors busy.
        self.capacity = 0

        self._ray = need("ray", "engine: ray", "ray")
        # A notebook may be connected to a cluster already, and keeps it after the build.
        self._is_guest = self._ray.is_initialized()
        if not self._is_guest:
            _connect(self._ray, count_workers(settings, num_shards))

        # Actors may run in another folder than this process.
        self._settings = replace(settings, folder=settings.folder.resolve())
        self._opener = opener
        self._idle_actors = [
            self._start_actors(group.names[0], group.has_model, num_shards) for group in self.groups
        ]
        # Each thread waits for one actor.
        self._threads = ThreadPoolExecutor(self.capacity)

    def _start_actors(
        self, first_stage: str, has_model: bool, num_shards: int
    ) -> "SimpleQueue[Any]":
        """Start the actors of a group of stages, and add their number to ``capacity``.

        Args:
            first_stage: The first stage of the group, which each actor opens at once.
            has_model: Whether the stages run a model, which takes a GPU if the cluster has one.
            num_shards: How many shards there are to process.

        Returns:
            The actors that wait for a shard. Each joins the queue when it is ready.
        """
        resources = self._ray.cluster_resources()
        num_cores = max(1, int(resources.get("CPU", 1)))
        num_workers = min(num_shards, self._settings.workers or num_cores)
        num_gpus = int(resources.get("GPU", 0)) if has_model else 0
        actor_class = self._ray.remote(StageRunner).options(
            # The actors of all groups run side by side on the same cores.
            num_cpus=1 / len(self.groups),
            num_gpus=min(num_gpus, 1),
            max_restarts=-1,
            max_task_retries=_MAX_RETRIES,
        )

        idle_actors: SimpleQueue[Any] = SimpleQueue()
        for _ in range(min(num_workers, num_gpus or num_workers)):
            actor = actor_class.remote(self._settings, self._opener)
            # An actor that the cluster has no room for never opens its stage, and is never used.
            is_open = actor.open.remote(first_stage).future()
            is_open.add_done_callback(lambda _, actor=actor: idle_actors.put(actor))
            self.capacity += 1
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

        Args:
            group: The index of the group in ``groups``.
            shard_number: The number of the shard, for error messages.
            examples: The examples of the shard.

        Returns:
            The examples after the last stage of the group, in the same order.

        Raises:
            FactualityError: A stage failed, or Ray could not run it.
        """
        names = list(self.groups[group].names)
        # An actor takes one shard at a time, and is idle again when it returns the result.
        actor = self._idle_actors[group].get()
        try:
            task = actor.run.remote(names, shard_number, examples)
            return self._ray.get(task)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayError as error:
            # Ray wraps an error of a stage in one of its own.
            cause = getattr(error, "cause", None)
            if isinstance(cause, FactualityError):
                raise cause from error
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
        num_workers: How many cores a cluster on this machine gets.

    Raises:
        ConfigError: There is no cluster at ``RAY_ADDRESS``.
    """
    address = os.environ.get("RAY_ADDRESS", "local")
    # Only a cluster that starts here can be given a number of cores.
    cores = {"num_cpus": num_workers} if address == "local" else {}
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **cores)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"RAY_ADDRESS is {address!r}: {error}; start a cluster there with ray start --head,"
            " or unset RAY_ADDRESS to run on this machine alone"
        ) from error
