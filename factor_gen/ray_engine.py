"""The stages on many machines: actors of Ray hold them open and make shard after shard; the shards
lie on shared storage."""

import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.engine import Source, StageFailed, Step, make_shard, worker_lost, workers_of
from factor_gen.settings import BuildSettings
from factor_gen.shards import StageFolder
from factor_gen.stages import Opener, Stage, in_one_process, missing_package
from lm_factuality.ground.errors import ConfigError, DataError, FactualityError

_TRIES = 3  # of a shard
_PAUSE = 0.5  # seconds after the first try, and so much more after each
_ADDRESS = "RAY_ADDRESS"

Group = tuple[bool, list[Step]]  # steps that one actor goes through, and whether they have a model


def run_ray(
    settings: BuildSettings, draws: Sequence[Sequence[Step]], shards: int, opener: Opener
) -> None:
    """:func:`factor_gen.engine.run_shards` on the cluster at ``RAY_ADDRESS``, or on one of this
    machine's own. All machines must see the folders, and the YAML's, under the same paths. Each
    actor holds its stages open for all draws."""
    folders = [folder for _, folder in chain.from_iterable(draws)]
    missing = [
        number for number in range(shards) if not all(folder.has(number) for folder in folders)
    ]
    if not missing:
        return
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing_package(error, "engine: ray") from error

    for folder in folders:
        folder.forget_begun()
    settings = replace(settings, folder=settings.folder.resolve())
    with _cluster(ray, workers_of(settings, len(missing))):
        groups = [_groups(settings, steps) for steps in draws]
        pools = _pools(ray, settings, groups, len(missing), opener)
        with tqdm(total=len(missing) * len(draws), desc="build", unit=" shards", delay=2) as bar:
            try:
                for turn in _turns(ray, pools, missing, len(draws)):
                    bar.update(turn % len(pools) == len(pools) - 1)
            except (ray.exceptions.RayError, FactualityError) as error:
                raise _readable(error) from error


def _pools(
    ray: Any,
    settings: BuildSettings,
    groups: Sequence[Sequence[Group]],
    shards: int,
    opener: Opener,
) -> list[list[Any]]:
    """The actors for each group of stages."""
    resources = ray.cluster_resources()
    workers = min(shards, settings.workers or max(1, int(resources.get("CPU", 1))))
    models = sum(has_model for has_model, _ in groups[0])
    made_by = ray.remote(_ShardMaker)
    pools = []
    for place, (has_model, _) in enumerate(groups[0]):
        actors, gpus = (
            _gpus(resources.get("GPU", 0), models, workers) if has_model else (workers, 0)
        )
        # the actors of all groups run side by side; one that dies begins anew, so often at most: it
        # may die as it opens a model
        options = {
            "num_cpus": 1 / len(groups[0]),
            "num_gpus": gpus,
            "max_restarts": 4 * _TRIES,
            "max_task_retries": -1,
        }
        draws = [draw[place][1] for draw in groups]
        pools.append(
            [made_by.options(**options).remote(settings, opener, draws) for _ in range(actors)]
        )
    return pools


def _turns(
    ray: Any, pools: Sequence[Sequence[Any]], shards: Sequence[int], draws: int
) -> Iterator[int]:
    """Takes each shard through all draws, and in each from pool to pool; gives the number of each
    turn that is done. An actor has its first shard once it has been started, so that one for which
    the cluster has no room holds up nobody."""
    waiting: list[deque[tuple[int, int]]] = [deque() for _ in pools]  # (shard, turn)
    waiting[0].extend((number, 0) for number in shards)
    idle: list[list[Any]] = [[] for _ in pools]
    at_work: dict[Any, tuple[int, Any, tuple[int, int] | None]] = {}
    at_work |= {
        actor.open.remote(): (place, actor, None)
        for place, pool in enumerate(pools)
        for actor in pool
    }
    left = len(shards)
    while left:
        (done,), _ = ray.wait(list(at_work), num_returns=1)
        place, actor, made = at_work.pop(done)
        ray.get(done)
        idle[place].append(actor)
        if made:
            number, turn = made
            if turn + 1 < draws * len(pools):
                waiting[(turn + 1) % len(pools)].append((number, turn + 1))
            else:
                left -= 1
            yield turn
        for place, queue in enumerate(waiting):
            while queue and idle[place]:
                number, turn = queue.popleft()
                actor = idle[place].pop()
                at_work[actor.make.remote(turn // len(pools), number)] = (
                    place,
                    actor,
                    (number, turn),
                )


def _groups(settings: BuildSettings, steps: Sequence[Step]) -> list[Group]:
    """The steps that one actor goes through, and whether it has a model: each stage with a model
    has actors of its own, those between two of them share theirs."""
    groups: list[Group] = []
    for step in steps:
        has_model = in_one_process(settings, step[1].stage)
        if groups and not has_model and not groups[-1][0]:
            groups[-1][1].append(step)
        else:
            groups.append((has_model, [step]))
    return groups


def _gpus(available: float, groups: int, workers: int) -> tuple[int, float]:
    """How many actors a stage with a model has, and what each gets of the GPUs, which ``groups``
    such stages share."""
    if available < 1:
        return workers, 0
    if available < groups:
        return 1, available / groups
    return min(workers, int(available) // groups), 1


class _ShardMaker:
    """An actor: the stages of a group, opened once, and the steps that shards take through them in
    each of the draws."""

    def __init__(
        self, settings: BuildSettings, opener: Opener, draws: Sequence[Sequence[Step]]
    ) -> None:
        self._settings = settings
        self._opener = opener
        self._draws = draws
        self._stages: list[Stage] = []

    def open(self) -> None:
        """Opens the stages; what is begun anew after its process died has yet to."""
        self._stages = self._stages or [
            self._opener(self._settings, folder.stage) for _, folder in self._draws[0]
        ]

    def make(self, draw: int, number: int) -> None:
        """Takes a shard through the steps of a draw."""
        self.open()
        for stage, (source, target) in zip(self._stages, self._draws[draw], strict=True):
            _make(stage, source, target, number)


def _make(stage: Stage, source: Source, target: StageFolder, number: int) -> None:
    """Makes a shard, again if it fails; what was begun is on disk, so that tries that ended with
    their process count too. Raises StageFailed: the last try failed."""
    while not target.has(number):
        tries = target.begin(number)
        if tries > _TRIES:
            raise worker_lost(source, target, [number])
        try:
            make_shard(stage, source, target, number)
        except (StageFailed, DataError):
            if tries == _TRIES:
                raise
            time.sleep(tries * _PAUSE)
    target.end(number)


@contextmanager
def _cluster(ray: Any, workers: int) -> Iterator[None]:
    """A cluster to run on; one that was started here ends here."""
    if ray.is_initialized():
        yield
        return
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address := os.environ.get(_ADDRESS):
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"{_ADDRESS} is {address!r}: {error}; start a cluster there with ray start --head,"
                f" or unset {_ADDRESS} to run on this machine alone"
            ) from error
    else:  # its workers can import what this process can import from a checkout
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}}
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            runtime_env=environment,
            **quiet,
        )
    try:
        yield
    finally:
        ray.shutdown()


def _readable(error: BaseException) -> FactualityError:
    """The error that a stage raised, out of those that Ray wraps it in."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FactualityError) and type(cause) in (
            StageFailed,
            ConfigError,
            DataError,
        ):  # none of Ray's mixtures
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    last = str(error).strip().splitlines()[-1]
    return StageFailed(
        f"Ray could not make every shard: {type(error).__name__}: {last}\n"
        "finished shards are kept: start the build again to continue"
    )
