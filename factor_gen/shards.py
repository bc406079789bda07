"""The shards of a build: their files, and their way through the stages, draw after draw.

A sentence of each document is drawn and taken through the stages. The documents that this leaves
without a row of two types go through them again with another sentence, until ``select.draws`` are
used up. The best draw of each document is kept. What a draw gives depends on the seed and the
document alone.
"""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.choose import standing
from factor_gen.engine import LocalEngine
from factor_gen.ray_engine import RayEngine
from factor_gen.records import Draw, Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import ALL_STAGES, KEPT, READ, StageFailed, describe_shard
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.settings import adapter_of

_LOG = logging.getLogger(__name__)
_SETTINGS = "settings.json"
_END = "examples"
"""What a shard's last line counts; a file cut short lacks it."""
_EXAMPLE = adapter_of(Example)
_WITHOUT_SENTENCE = (READ, "select")
"""Stages that give a document up because it has no sentence, or no other one, to draw."""


@dataclass(frozen=True)
class ShardFolder:
    """The finished shards of a build, or the documents that it read, as JSON lines.

    A file is whole or not there, so that a build may be killed at any time.
    """

    path: Path

    def part(self, number: int) -> Path:
        """Return the path of a shard's file. Shards are counted from 0."""
        return self.path / f"part-{number:05d}.jsonl"

    def write(self, number: int, examples: Iterable[Example]) -> None:
        """Write a shard.

        Raises:
            DataError: The folder cannot be written.
        """
        lines = [
            _EXAMPLE.dump_json(example, exclude_defaults=True).decode() for example in examples
        ]
        write_lines(self.part(number), [*lines, f"{len(lines)} {_END}"])

    def read(self, number: int) -> Iterator[Example]:
        """Yield the examples of a shard, one in memory at a time.

        Raises:
            DataError: The shard is not there, or damaged.
        """
        path = self.part(number)
        count = 0
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    if line == f"{count} {_END}\n":
                        return
                    count += 1
                    yield _EXAMPLE.validate_json(line)
            raise ValueError("the end is missing")
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path}:{count}: damaged ({error}); remove {self.path} and start the build again"
            ) from error


def prepare(path: Path, plan: Mapping[str, Any]) -> ShardFolder:
    """Return a folder of a build, with the shards that are still good.

    Args:
        path: The folder.
        plan: The settings that decide its shards. If they have changed, the folder is emptied.
    """
    plan = json.loads(json.dumps(plan))
    saved = read_json(path / _SETTINGS)
    if saved != plan:
        if path.exists():
            changed = [
                name for name in sorted({*saved, *plan}) if saved.get(name) != plan.get(name)
            ]
            _LOG.warning("%s are made again: %s changed", path.name, ", ".join(changed))
        discard(path)
        write_json(path / _SETTINGS, plan)
    return ShardFolder(path)


def discard(path: Path) -> None:
    """Remove a folder of an earlier build.

    Raises:
        DataError: It cannot be removed.
    """
    try:
        if path.is_dir():
            shutil.rmtree(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be removed: {error}; remove it and start again") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def types_of_goal(settings: BuildSettings) -> int:
    """Return of how many error types the contradictions of a draw must be to need no other.

    Two where rows of two can be had, more if the settings want more.
    """
    two_types = min(2, settings.choose.contradictions, len(settings.types.types))
    return max(settings.choose.min_types, two_types)


def shortfall(example: Example, settings: BuildSettings) -> tuple[int, int, int, int, int]:
    """Say what a draw lacks; of two draws the one with the lesser tuple is better.

    Returns:
        The stages that it did not get through, the contradictions and the types that a row must
        have and that it lacks, how doubtful its contradictions are, and the types that are lacking
        to need no other draw. All are 0 if it lacks nothing.
    """
    choose = settings.choose
    usable = standing(example, choose)
    stage, _ = example.refusal
    types = len({candidate.type for candidate in usable})
    return (
        len(ALL_STAGES) - ALL_STAGES.index(stage) if stage else 0,
        max(0, choose.contradictions - len(usable)),
        max(0, choose.min_types - types),
        max((candidate.doubtful for candidate in usable), default=0),
        max(0, types_of_goal(settings) - types),
    )


def draw_sentences(
    documents: Sequence[Example], settings: BuildSettings, groups: int = 1
) -> Generator[tuple[int, list[Example]], list[Example], list[Example]]:
    """Draw sentences from the documents of a shard until each has given a row, or none are left.

    Args:
        documents: What was read, each with its whole text as its prefix.
        settings: The settings of the build.
        groups: How many groups of stages there are.

    Yields:
        The number of a group of stages, and the examples that it gets. What it makes of them is to
        be sent back.

    Returns:
        The best draw of each document.
    """
    best = list(documents)
    places = list(range(len(documents)))
    examples = best
    for draw in range(1, settings.select.draws + 1):
        for group in range(groups):
            examples = yield group, examples
        again = []
        next_examples = []
        for place, example in zip(places, examples, strict=True):
            before = best[place]
            better = example
            if draw > 1:
                better = min(before, example, key=lambda draw: shortfall(draw, settings))
            is_drawn = example.refusal[0] not in _WITHOUT_SENTENCE
            total = before.draw.total + is_drawn
            lost = dict(Counter(before.lost) + Counter(example.lost))
            best[place] = replace(better, draw=replace(better.draw, total=total), lost=lost)
            if is_drawn and any(shortfall(example, settings)):
                again.append(place)
                next_draw = Draw(draw + 1, example.draw.tried)
                next_examples.append(replace(documents[place], draw=next_draw))
        if not again:
            break
        places = again
        examples = next_examples
    return best


def run_shards(
    engine: LocalEngine | RayEngine,
    numbers: Sequence[int],
    documents: ShardFolder,
    finished: ShardFolder,
    settings: BuildSettings,
) -> None:
    """Take shards through the stages and write them once they are finished.

    The outcome is the same for every engine and number of workers.

    Args:
        engine: What runs the stages.
        numbers: The shards to make.
        documents: Where their documents are read from.
        finished: Where they are written to.
        settings: The settings of the build.

    Raises:
        StageFailed: A stage raised an error, or its process died. Shards that were under way
            at that time are finished before.
    """
    waiting = iter(numbers)
    running: dict[Future[list[Example]], _RunningShard] = {}
    failure: BaseException | None = None

    def submit(shard: _RunningShard, results: list[Example] | None) -> None:
        """Go on with a shard and what its last group of stages gave; write it at its end."""
        try:
            group, shard.examples = shard.draws.send(results)  # type: ignore[arg-type]
        except StopIteration as end:
            finished.write(shard.number, end.value)
            bar.update()
        else:
            running[engine.submit(group, shard.number, shard.examples)] = shard

    with tqdm(total=len(numbers), desc="build", unit=" shards", delay=2) as bar:
        while True:
            while failure is None and len(running) < engine.capacity:
                number = next(waiting, None)
                if number is None:
                    break
                draws = draw_sentences(list(documents.read(number)), settings, len(engine.groups))
                submit(_RunningShard(number, draws), None)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                shard = running.pop(future)
                error = future.exception()
                if error is None:
                    submit(shard, future.result())
                else:
                    failure = failure or _explain(error, shard)
    if failure is not None:
        raise failure


@dataclass
class _RunningShard:
    number: int
    draws: Generator[tuple[int, list[Example]], list[Example], list[Example]]
    examples: list[Example] = field(default_factory=list)
    """What the group of stages that is at work got."""


def _explain(error: BaseException, shard: _RunningShard) -> BaseException:
    """Name the shard in the error of a process pool whose process died."""
    if not isinstance(error, BrokenProcessPool):
        return error
    return StageFailed(
        f"{describe_shard(shard.number, shard.examples)}: a process at work on this shard, or on"
        f" another one at the same time, died, as it does when memory runs out; {KEPT}, best with"
        " fewer --workers or a smaller shard"
    )
