"""The stages on many machines: Ray Data hands the numbers of the shards from stage to stage; the shards lie on shared storage."""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.engine import Source, StageFailed, Step, make_shard, worker_lost, workers_of
from factor_gen.settings import BuildSettings
from factor_gen.shards import StageFolder
from factor_gen.stages import Opener, Stage, in_one_process, missing_package
from lm_factuality.ground.errors import ConfigError, DataError

_TRIES = 3  # of a shard
_PAUSE = 0.5  # seconds after the first try, and so much more after each
_ADDRESS = "RAY_ADDRESS"


def run_ray(settings: BuildSettings, draws: Sequence[Sequence[Step]], shards: int, opener: Opener) -> None:
    """:func:`factor_gen.engine.run_shards` on the cluster at ``RAY_ADDRESS``, or on one of this machine's own. All machines must
    see the folders, and the YAML's, under the same paths. Each actor holds its stages open."""
    missing = [[number for number in range(shards) if not all(each.has(number) for _, each in steps)] for steps in draws]
    if not any(missing):
        return
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing_package(error, "engine: ray") from error

    with _cluster(ray, workers_of(settings, max(map(len, missing)))), _quiet(ray):
        for numbers, steps in zip(missing, draws, strict=True):
            for _, folder in steps:
                folder.forget_begun()
            if numbers:
                _run(ray, replace(settings, folder=settings.folder.resolve()), steps, numbers, opener)


def _run(ray: Any, settings: BuildSettings, steps: Sequence[Step], missing: Sequence[int], opener: Opener) -> None:
    resources = ray.cluster_resources()
    workers = min(len(missing), settings.workers or max(1, int(resources.get("CPU", 1))))
    groups = _groups(settings, steps)
    models = sum(has_model for has_model, _ in groups)
    numbers = ray.data.from_items([{"shard": number} for number in missing], override_num_blocks=len(missing))
    for has_model, group in groups:
        actors, gpus = _gpus(resources.get("GPU", 0), models, workers) if has_model else (workers, 0)
        numbers = numbers.map_batches(
            _ShardMaker,
            fn_constructor_args=(settings, opener, group),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=actors),
            num_cpus=1 / len(groups),  # the actors of all groups run side by side
            **({"num_gpus": gpus} if gpus else {}),
        )
    try:
        with tqdm(total=len(missing), desc="build", unit=" shards", delay=2) as bar:
            for _ in numbers.iter_batches(batch_size=1):
                bar.update()
    except (ray.exceptions.RayError, StageFailed) as error:
        raise _readable(error) from error


def _groups(settings: BuildSettings, steps: Sequence[Step]) -> list[tuple[bool, list[Step]]]:
    """The steps that one actor goes through, and whether it has a model: each stage with a model has actors of its own, those
    between two of them share theirs."""
    groups: list[tuple[bool, list[Step]]] = []
    for step in steps:
        has_model = in_one_process(settings, step[1].stage)
        if groups and not has_model and not groups[-1][0]:
            groups[-1][1].append(step)
        else:
            groups.append((has_model, [step]))
    return groups


def _gpus(available: float, groups: int, workers: int) -> tuple[int, float]:
    """How many actors a stage with a model has, and what each gets of the GPUs, which ``groups`` such stages share."""
    if available < 1:
        return workers, 0
    if available < groups:
        return 1, available / groups
    return min(workers, int(available) // groups), 1


class _ShardMaker:
    """An actor: stages, opened once, that take shard after shard from the first folder to the last."""

    def __init__(self, settings: BuildSettings, opener: Opener, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._stages = [opener(settings, folder.stage) for _, folder in steps]

    def __call__(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        for number in batch["shard"]:
            for stage, (source, target) in zip(self._stages, self._steps, strict=True):
                _make(stage, source, target, int(number))
        return batch


def _make(stage: Stage, source: Source, target: StageFolder, number: int) -> None:
    """Makes a shard, again if it fails; what was begun is on disk, so that tries that ended with their process count too. Raises
    StageFailed: the last try failed."""
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
                f"{_ADDRESS} is {address!r}: {error}; start a cluster there with ray start --head, or unset {_ADDRESS} to run "
                "on this machine alone"
            ) from error
    else:  # its workers can import what this process can import from a checkout
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}}
        ray.init(address="local", num_cpus=workers, include_dashboard=False, runtime_env=environment, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """No bars and no log of Ray's own; one shard that cannot be made ends the build."""
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, context.max_errored_blocks, logger.level
    try:
        context.enable_progress_bars, context.max_errored_blocks = False, 0
        logger.setLevel(logging.ERROR)
        yield
    finally:
        context.enable_progress_bars, context.max_errored_blocks = before[:2]
        logger.setLevel(before[2])


def _readable(error: BaseException) -> StageFailed:
    """The error that a stage raised, out of those that Ray wraps it in."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, StageFailed):
        cause = getattr(cause, "cause", None) or cause.__cause__
    if cause is not None:
        return StageFailed(str(cause))
    last = str(error).strip().splitlines()[-1]
    return StageFailed(
        f"Ray could not make every shard: {type(error).__name__}: {last}\n"
        "finished shards are kept: start the build again to continue"
    )
