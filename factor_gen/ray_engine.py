"""The stages on many machines: actors of Ray hold them open and take shard after shard.

The interface is that of :class:`factor_gen.engine.LocalEngine`.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from factor_gen.engine import count_workers
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import (
    Opener,
    StageFailed,
    StageRunner,
    describe_shard,
    group_stages,
)
from lm_factuality.ground.errors import ConfigError, DataError, FactualityError
from lm_factuality.ground.packages import need

_TRIES = 3
_PAUSE = 0.5
"""Seconds after a shard's first try; after the second, twice as long."""
_ADDRESS = "RAY_ADDRESS"


class RayEngine:
    """Runs each group of stages in actors of its own, on the cluster at ``RAY_ADDRESS``.

    Without that variable it starts a cluster on this machine. All machines must see the models and
    the YAML's folder under the same paths.
    """

    def __init__(
        self, settings: BuildSettings, opener: Opener, stages: Sequence[str], shards: int
    ) -> None:
        """Start the actors.

        Raises:
            ConfigError: Ray is not installed, or there is no cluster at ``RAY_ADDRESS``.
        """
        ray = need("ray", "engine: ray", "ray")
        self.groups = group_stages(settings, stages)
        self._closing = ExitStack()
        self._closing.enter_context(_cluster(ray, count_workers(settings, shards)))
        resources = ray.cluster_resources()
        cores = max(1, int(resources.get("CPU", 1)))
        workers = min(shards, settings.workers or cores)
        models = sum(has_model for has_model, _ in self.groups)
        settings = replace(settings, folder=settings.folder.resolve())
        self._pools: list[_ActorPool] = []
        for has_model, names in self.groups:
            actors, gpus = workers, 0.0
            if has_model:
                actors, gpus = share_gpus(resources.get("GPU", 0), models, workers)
            # the actors of all groups run side by side on the same cores
            options = {"num_cpus": 1 / len(self.groups), "num_gpus": gpus}
            start = partial(ray.remote(StageRunner).options(**options).remote, settings, opener)
            self._pools.append(_ActorPool(ray, start, names, actors))
        self.capacity = sum(pool.size for pool in self._pools)

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]:
        """Take the examples of a shard through a group of stages, as ``LocalEngine`` does."""
        return self._pools[group].submit(shard_number, examples)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        for pool in self._pools:
            pool.close()
        self._closing.close()


class _ActorPool:
    """The actors of a group of stages. An actor that dies is replaced."""

    def __init__(self, ray: Any, start: Any, names: Sequence[str], size: int) -> None:
        self.size = size
        self._ray = ray
        self._start = start
        self._names = list(names)
        self._threads = ThreadPoolExecutor(size)
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(size):
            actor = start()
            # an actor is used once it runs: the cluster may have no room for some of them
            opened = actor.open.remote(self._names[0])
            opened.future().add_done_callback(lambda _, actor=actor: self._idle.put(actor))

    def submit(self, shard_number: int, examples: Sequence[Example]) -> Future[list[Example]]:
        return self._threads.submit(self._run, shard_number, examples)

    def _run(self, shard_number: int, examples: Sequence[Example]) -> list[Example]:
        """Try a shard up to three times.

        Raises:
            StageFailed: The last try failed.
        """
        actor = self._idle.get()
        try:
            for number in range(1, _TRIES + 1):
                try:
                    task = actor.run.remote(self._names, shard_number, examples)
                    return self._ray.get(task)  # type: ignore[no-any-return]
                except self._ray.exceptions.RayError as error:
                    if isinstance(error, self._ray.exceptions.RayActorError):
                        actor = self._start()
                    if number == _TRIES:
                        place = describe_shard(shard_number, examples)
                        raise _readable(error, f"{', '.join(self._names)}, {place}") from error
                time.sleep(number * _PAUSE)
            raise AssertionError("the last try returns or raises")
        finally:
            self._idle.put(actor)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


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


@contextmanager
def _cluster(ray: Any, workers: int) -> Iterator[None]:
    """Connect to a cluster; one that was started here ends here."""
    if ray.is_initialized():
        yield
        return
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    address = os.environ.get(_ADDRESS)
    if address:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"{_ADDRESS} is {address!r}: {error}; start a cluster there with ray start --head,"
                f" or unset {_ADDRESS} to run on this machine alone"
            ) from error
    else:
        # the actors can then import what this process can import from a checkout
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        python_path = os.pathsep.join(filter(None, paths))
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            runtime_env={"env_vars": {"PYTHONPATH": python_path}},
            **quiet,
        )
    try:
        yield
    finally:
        ray.shutdown()


def _readable(error: BaseException, place: str) -> FactualityError:
    """Return the error that a stage raised, out of those that Ray wraps it in."""
    cause: BaseException | None = error
    while cause is not None:
        # Ray makes classes that inherit from the error's own: those are not meant
        if type(cause) in (StageFailed, ConfigError, DataError):
            return cause  # type: ignore[return-value]
        cause = getattr(cause, "cause", None) or cause.__cause__
    last_line = str(error).strip().splitlines()[-1]
    return StageFailed(
        f"{place}: Ray could not make it: {type(error).__name__}: {last_line}\n"
        "finished shards are kept: start the build again to continue"
    )
