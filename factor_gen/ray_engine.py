"""The stages on many machines: actors of Ray hold them open and take shard after shard.

The interface is that of :class:`factor_gen.engine.LocalEngine`.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from factor_gen.engine import count_workers
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import KEPT, Opener, StageFailed, StageRunner, describe_shard, group_stages
from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.ground.packages import need

_PAUSES = (0.5, 1.0, 0.0)
"""Seconds after each try of a shard."""


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
        models = sum(has_model for has_model, _ in self.groups)
        settings = replace(settings, folder=settings.folder.resolve())
        self._pools: list[_ActorPool] = []
        for has_model, names in self.groups:
            actors, gpus = workers, 0.0
            if has_model:
                actors, gpus = share_gpus(resources.get("GPU", 0), models, workers)
            actor_class = self._ray.remote(StageRunner).options(
                # the actors of all groups run side by side on the same cores
                num_cpus=1 / len(self.groups),
                num_gpus=gpus,
            )
            start = partial(actor_class.remote, settings, opener)
            self._pools.append(_ActorPool(self._ray, start, names, actors))
        self.capacity = sum(pool.size for pool in self._pools)

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]:
        """Take the examples of a shard through a group of stages, as ``LocalEngine`` does."""
        pool = self._pools[group]
        return pool.threads.submit(pool.run, shard_number, examples)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        for pool in self._pools:
            pool.threads.shutdown(wait=False, cancel_futures=True)
        if not self._is_guest:
            self._ray.shutdown()


class _ActorPool:
    """The actors of a group of stages. An actor that dies is replaced."""

    def __init__(self, ray: Any, start: Callable[[], Any], names: Sequence[str], size: int) -> None:
        self.size = size
        self.threads = ThreadPoolExecutor(size)
        self._ray = ray
        self._start = start
        self._names = list(names)
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(size):
            actor = start()
            # an actor is used once it runs: the cluster may have no room for some of them
            opened = actor.open.remote(self._names[0])
            opened.future().add_done_callback(lambda _, actor=actor: self._idle.put(actor))

    def run(self, shard_number: int, examples: Sequence[Example]) -> list[Example]:
        """Have an idle actor take the examples through the stages, or try again twice.

        Raises:
            FactualityError: The last try failed.
        """
        actor = self._idle.get()
        failure: Exception = AssertionError("nothing was tried")
        try:
            for pause in _PAUSES:
                task = actor.run.remote(self._names, shard_number, examples)
                try:
                    return self._ray.get(task)  # type: ignore[no-any-return]
                except self._ray.exceptions.RayActorError as error:
                    failure = error
                    actor = self._start()
                except self._ray.exceptions.RayError as error:
                    failure = error
                time.sleep(pause)
        finally:
            self._idle.put(actor)
        place = describe_shard(shard_number, examples)
        raise _readable(failure, f"{', '.join(self._names)}, {place}") from failure


def share_gpus(available: float, groups: int, workers: int) -> tuple[int, float]:
    """Share the cluster's GPUs among the groups of stages with a model.

    Args:
        available: The GPUs of the cluster.
        groups: How many groups have a model.
        workers: How many actors a group has at most.

    Returns:
        How many actors a group gets, and how many GPUs each of them.
    """
    if available < 1:
        return workers, 0
    if available < groups:
        return 1, available / groups
    return min(workers, int(available) // groups), 1


def _connect(ray: Any, workers: int) -> None:
    """Connect to the cluster at ``RAY_ADDRESS``, or start one on this machine."""
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    address = os.environ.get("RAY_ADDRESS", "local")
    if address == "local":
        # the actors can then import what this process can import from a checkout
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}},
        }
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"RAY_ADDRESS is {address!r}: {error}; start a cluster there with ray start --head,"
            " or unset RAY_ADDRESS to run on this machine alone"
        ) from error


def _readable(error: BaseException, place: str) -> FactualityError:
    """Return the error that a stage raised, out of those that Ray wraps it in."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, FactualityError):
        return cause
    last_line = str(error).strip().splitlines()[-1]
    return StageFailed(
        f"{place}: Ray could not make it: {type(error).__name__}: {last_line}\n{KEPT}"
    )
