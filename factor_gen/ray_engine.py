"""The stages on many machines: actors of Ray hold them open and take shard after shard."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

from factor_gen.engine import count_workers
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import KEPT, Opener, StageFailed, StageRunner, describe_shard, group_stages
from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.ground.packages import first_line, need

_MORE_TRIES = 2
"""How often a shard is tried again whose actor died."""


class RayEngine:
    """Runs each group of stages in actors of its own, on the cluster at ``RAY_ADDRESS``.

    Without that variable it starts a cluster on this machine. All machines must see the models and
    the YAML's folder under the same paths.
    """

    def __init__(self, settings: BuildSettings, opener: Opener, shards: int) -> None:
        """Start the actors.

        Raises:
            ConfigError: Ray is not installed, or there is no cluster at ``RAY_ADDRESS``.
        """
        self._ray = need("ray", "engine: ray", "ray")
        self.groups = group_stages(settings)
        # A process that is connected already, such as a notebook, keeps its cluster.
        self._is_guest = self._ray.is_initialized()
        if not self._is_guest:
            _connect(self._ray, count_workers(settings, shards))
        resources = self._ray.cluster_resources()
        workers = min(shards, settings.workers or max(1, int(resources.get("CPU", 1))))
        settings = replace(settings, folder=settings.folder.resolve())
        self.capacity = 0
        self._idle: list[SimpleQueue[Any]] = []
        """The actors of each group that wait for a shard."""
        for has_model, names in self.groups:
            gpus = int(resources.get("GPU", 0)) if has_model else 0
            actor_class = self._ray.remote(StageRunner).options(
                # the actors of all groups run side by side on the same cores
                num_cpus=1 / len(self.groups),
                num_gpus=min(gpus, 1),
                max_restarts=-1,
                max_task_retries=_MORE_TRIES,
            )
            queue: SimpleQueue[Any] = SimpleQueue()
            for _ in range(min(workers, gpus or workers)):
                actor = actor_class.remote(settings, opener)
                # an actor is used once it runs: the cluster may have no room for some of them
                opened = actor.open.remote(names[0]).future()
                opened.add_done_callback(lambda _, queue=queue, actor=actor: queue.put(actor))
                self.capacity += 1
            self._idle.append(queue)
        self._threads = ThreadPoolExecutor(self.capacity)

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]:
        """Take the examples of a shard through a group of stages."""
        return self._threads.submit(self._run, group, shard_number, examples)

    def _run(self, group: int, shard_number: int, examples: Sequence[Example]) -> list[Example]:
        names = list(self.groups[group].names)
        actor = self._idle[group].get()
        try:
            task = actor.run.remote(names, shard_number, examples)
            return self._ray.get(task)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, FactualityError):
                raise cause from error
            place = f"{', '.join(names)}, {describe_shard(shard_number, examples)}"
            raise StageFailed(
                f"{place}: Ray could not make it: {first_line(error)}\n{KEPT}"
            ) from error
        finally:
            self._idle[group].put(actor)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if not self._is_guest:
            self._ray.shutdown()


def _connect(ray: Any, workers: int) -> None:
    """Connect to the cluster at ``RAY_ADDRESS``, or start one on this machine."""
    address = os.environ.get("RAY_ADDRESS", "local")
    cores = {"num_cpus": workers} if address == "local" else {}
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **cores)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"RAY_ADDRESS is {address!r}: {error}; start a cluster there with ray start --head,"
            " or unset RAY_ADDRESS to run on this machine alone"
        ) from error
