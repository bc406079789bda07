"""The shards of a build: their files, and their way through the stages, draw after draw.

A sentence of each document is drawn and taken through the stages. The documents that this leaves
without a row of two types go through them again with another sentence, until ``select.draws`` are
used up. The best draw of each document is kept. What a draw gives depends on the seed and the
document alone.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tqdm import tqdm

from factor_gen.choose import standing
from factor_gen.records import Example, from_json, to_json
from factor_gen.settings import BuildSettings
from factor_gen.stages import ALL_STAGES, KEPT, READ, StageFailed, describe_shard
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_text

_LOG = logging.getLogger(__name__)
_SETTINGS = "settings.json"
_DONE = "done.json"
_END = "examples"
"""The key of a shard's last line, with the number of its examples; a file cut short lacks it."""
_MOST_CHARACTERS = 16_000_000
"""What the texts of a shard hold at most, unless one document alone has more."""
_WITHOUT_SENTENCE = (READ, "select")
"""Stages that give a document up because it has no sentence, or no other one, to draw."""


class Engine(Protocol):
    """What runs the stages: :mod:`factor_gen.engine` and :mod:`factor_gen.ray_engine`."""

    groups: list[tuple[bool, list[str]]]
    capacity: int

    def submit(
        self, group: int, shard_number: int, examples: Sequence[Example]
    ) -> Future[list[Example]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ShardFolder:
    """The finished shards of a build, or the documents that it read, as JSON lines.

    A file is whole or not there, so that a build may be killed at any time.
    """

    path: Path

    def part(self, number: int) -> Path:
        """Return the path of a shard's file. Shards are counted from 0."""
        return self.path / f"part-{number:05d}.jsonl"

    def has(self, number: int) -> bool:
        """Whether the shard is there."""
        return self.part(number).is_file()

    def write(self, number: int, examples: Iterable[Example]) -> None:
        """Write a shard.

        Raises:
            DataError: The folder cannot be written.
        """
        lines = [json.dumps(to_json(example), ensure_ascii=False) for example in examples]
        lines.append(json.dumps({_END: len(lines)}))
        write_text(self.part(number), "".join(f"{line}\n" for line in lines))

    def read(self, number: int) -> Iterator[Example]:
        """Yield the examples of a shard, one in memory at a time.

        Raises:
            DataError: The shard is not there, or damaged.
        """
        path = self.part(number)
        advice = f"remove {self.path} and start the build again"
        line_number = 0
        end = None
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    line_number += 1
                    values = json.loads(line)
                    end = values.get(_END)
                    if end is None:
                        yield from_json(values)
            if end != line_number - 1:
                raise ValueError("the end is missing")
        except FileNotFoundError as error:
            raise DataError(f"{path}: the shard is not there; {advice}") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path}:{line_number}: damaged ({error}); {advice}") from error

    @property
    def shards(self) -> int | None:
        """How many shards there are, once all documents are read; None before."""
        done = read_json(self.path / _DONE)
        count = done.get("shards") if isinstance(done, Mapping) else None
        return count if isinstance(count, int) else None

    @property
    def filtered(self) -> Mapping[str, int]:
        """How many rows of tables were left out, by reason, once all documents are read."""
        done = read_json(self.path / _DONE) or {}
        filtered: Mapping[str, int] = done.get("filtered", {})
        return filtered

    def finish(self, shards: int, filtered: Mapping[str, int]) -> None:
        """Note that all documents are read."""
        write_json(
            self.path / _DONE, {"shards": shards, "filtered": dict(sorted(filtered.items()))}
        )


def prepare(root: Path, plans: Mapping[str, Mapping[str, Any]]) -> list[ShardFolder]:
    """Return the folders of a build, with the shards that are still good.

    Args:
        root: The folder that they lie in.
        plans: For each folder the settings that decide its shards. A folder whose settings have
            changed is removed, and so are those after it, because their input changes.
    """
    folders = []
    hash_before = ""
    for name, settings in plans.items():
        folder = ShardFolder(root / name)
        plan = json.loads(json.dumps({"settings": settings, "before": hash_before}))
        hash_before = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
        saved = read_json(folder.path / _SETTINGS)
        if saved != plan:
            if folder.path.exists():
                _LOG.warning("%s are made again: %s", name, _changed_keys(saved, plan))
            discard(root, [name])
            write_json(folder.path / _SETTINGS, plan)
        folders.append(folder)
    return folders


def discard(root: Path, names: Iterable[str]) -> None:
    """Remove folders of an earlier build.

    Raises:
        DataError: One cannot be removed.
    """
    for name in names:
        path = root / name
        try:
            if path.is_dir():
                shutil.rmtree(path)
        except OSError as error:
            raise DataError(
                f"{path}: cannot be removed: {error}; remove it and start again"
            ) from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _changed_keys(saved: Any, plan: Mapping[str, Any]) -> str:
    """Name the settings that changed since a folder was made."""
    try:
        old = dict(saved["settings"])
    except (TypeError, KeyError, ValueError):
        return "their folder does not say what they were made with"
    new = plan["settings"]
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return f"{', '.join(changed) or 'the documents'} changed"


def split(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    """Cut examples into lists of ``size``, shorter where their texts are long."""
    shard: list[Example] = []
    characters = 0
    for example in examples:
        is_full = len(shard) == size or characters + len(example.prefix) > _MOST_CHARACTERS
        if shard and is_full:
            yield shard
            shard = []
            characters = 0
        shard.append(example)
        characters += len(example.prefix)
    if shard:
        yield shard


class Goal(NamedTuple):
    """What a draw must give for a document to need no other."""

    contradictions: int
    """How many, none of them doubtful."""
    types: int
    """Of how many error types."""
    least_types: int
    """Of how many types the contradictions of a row must be."""
    most_doubtful: int
    """How doubtful the contradictions of a row may be."""


def goal_of(settings: BuildSettings) -> Goal:
    """Return the goal: two types where rows of them can be had, more if the settings want more."""
    choose = settings.choose
    two_types = min(2, choose.contradictions, len(settings.types.types))
    return Goal(
        contradictions=choose.contradictions,
        types=max(choose.min_types, two_types),
        least_types=choose.min_types,
        most_doubtful=choose.most_doubtful,
    )


def rank(example: Example, goal: Goal) -> tuple[int, int, int, int, int]:
    """Rank how far a draw got; the greater tuple is the better draw.

    Returns:
        The number of the stage that gave the document up, contradictions, the types that a row
        must have, how little doubtful the contradictions are (0: not at all, -1, -2), and types.
        None of these counts beyond the goal.
    """
    usable = standing(example, goal.contradictions, goal.least_types, goal.most_doubtful)
    stage = _stage_of_refusal(example)
    types = len({candidate.type for candidate in usable})
    return (
        ALL_STAGES.index(stage) if stage else len(ALL_STAGES),
        min(len(usable), goal.contradictions),
        min(types, goal.least_types),
        -max((candidate.doubtful for candidate in usable), default=0),
        min(types, goal.types),
    )


def _stage_of_refusal(example: Example) -> str:
    """Return the stage that gave the document up; empty if none did."""
    return example.unused.partition(":")[0]


class Shard:
    """The documents of one shard on their way through the stages, draw after draw."""

    def __init__(self, number: int, documents: Iterable[Example], goal: Goal, draws: int) -> None:
        """Begin with the first draw.

        Args:
            number: The place of the shard in the build, from 0.
            documents: What was read, each with its whole text as its prefix.
            goal: What ends the draws of a document.
            draws: The sentences that are drawn of a document at most.
        """
        self.number = number
        self._documents = list(documents)
        self._goal = goal
        self._draws = draws
        self._draw = 1
        self._places = list(range(len(self._documents)))
        self._best: list[Example | None] = [None] * len(self._documents)
        self.group = 0
        """The group of stages that comes next."""
        self.examples = list(self._documents)
        """What the next group of stages gets."""

    def end_draw(self, examples: Sequence[Example]) -> bool:
        """Take what the last group of stages gave, and begin another draw if one is needed.

        Returns:
            Whether there is another draw.
        """
        places = []
        again = []
        for place, example in zip(self._places, examples, strict=True):
            self._best[place] = self._better(self._best[place], example)
            document = self._documents[place]
            is_exhausted = _stage_of_refusal(example) in _WITHOUT_SENTENCE
            if self._draw == self._draws or is_exhausted or self._is_met(example):
                continue
            places.append(place)
            again.append(
                replace(document, draw=self._draw + 1, spans=example.spans, tried=example.tried)
            )
        self._draw += 1
        self._places = places
        self.examples = again
        self.group = 0
        return bool(again)

    def _better(self, best: Example | None, example: Example) -> Example:
        """Return the better draw of a document, with the counts of all its draws."""
        is_drawn = _stage_of_refusal(example) not in _WITHOUT_SENTENCE
        if best is None:
            return replace(example, draws=int(is_drawn))
        better = max(best, example, key=lambda draw: rank(draw, self._goal))
        reasons = dict.fromkeys([*best.lost, *example.lost])
        lost = {
            reason: best.lost.get(reason, 0) + example.lost.get(reason, 0) for reason in reasons
        }
        return replace(better, draws=best.draws + is_drawn, lost=lost)

    def _is_met(self, example: Example) -> bool:
        goal = self._goal
        best = (len(ALL_STAGES), goal.contradictions, goal.least_types, 0, goal.types)
        return rank(example, goal) == best

    @property
    def results(self) -> list[Example]:
        """The best draw of each document."""
        return [example for example in self._best if example is not None]


def run_shards(
    engine: Engine,
    numbers: Sequence[int],
    documents: ShardFolder,
    finished: ShardFolder,
    goal: Goal,
    draws: int,
) -> None:
    """Take shards through the stages and write them once they are finished.

    The outcome is the same for every engine and number of workers.

    Args:
        engine: What runs the stages.
        numbers: The shards to make.
        documents: Where their documents are read from.
        finished: Where they are written to.
        goal: What ends the draws of a document.
        draws: The sentences that are drawn of a document at most.

    Raises:
        StageFailed: A stage raised an error, or its process died. Shards that were under way
            at that time are finished before.
    """
    waiting = iter(numbers)
    running: dict[Future[list[Example]], Shard] = {}
    failure: BaseException | None = None
    with tqdm(total=len(numbers), desc="build", unit=" shards", delay=2) as bar:
        while True:
            while failure is None and len(running) < engine.capacity:
                number = next(waiting, None)
                if number is None:
                    break
                shard = Shard(number, documents.read(number), goal, draws)
                running[engine.submit(0, number, shard.examples)] = shard
            if not running:
                break
            ready, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                shard = running.pop(future)
                error = future.exception()
                if error is not None:
                    failure = failure or _explain(error, shard)
                elif _advance(shard, future.result(), len(engine.groups)):
                    next_future = engine.submit(shard.group, shard.number, shard.examples)
                    running[next_future] = shard
                else:
                    finished.write(shard.number, shard.results)
                    bar.update()
    if failure is not None:
        raise failure


def _advance(shard: Shard, examples: list[Example], groups: int) -> bool:
    """Lead a shard to its next group of stages. Return False if it is finished."""
    if shard.group + 1 < groups:
        shard.group += 1
        shard.examples = examples
        return True
    return shard.end_draw(examples)


def _explain(error: BaseException, shard: Shard) -> BaseException:
    """Name the shard in the error of a process pool whose process died."""
    if not isinstance(error, BrokenProcessPool):
        return error
    return StageFailed(
        f"{describe_shard(shard.number, shard.examples)}: a process at work on this shard, or on"
        f" another one at the same time, died, as it does when memory runs out; {KEPT}, best with"
        " fewer --workers or a smaller shard"
    )
