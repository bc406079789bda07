"""The shards of a build: their files, and their way through the stages, draw after draw.

A *shard* is a few hundred consecutive documents. A sentence of each document is drawn and taken
through the stages. Documents that do not give a row of two error types go through the stages again
with another sentence, until ``select.draws`` are used up. The best draw of each document is kept.
What a draw gives depends only on the seed and the document. :mod:`factor_gen.pipeline` calls
:func:`run_shards`.
"""

import json
import logging
import shutil
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from factor_gen.choose import usable_candidates
from factor_gen.engine import LocalEngine
from factor_gen.ray_engine import RayEngine
from factor_gen.records import Draw, Example, add_model_use
from factor_gen.settings import BuildSettings
from factor_gen.stages import ALL_STAGES, READ, RESUME_ADVICE, StageError, describe_shard
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.settings import adapter_of

_LOG = logging.getLogger(__name__)
_PLAN_FILE = "settings.json"
_EXAMPLE = adapter_of(Example)
# These stages give a document up because it has no sentence, or no other one, to draw.
_STAGES_WITHOUT_SENTENCE = (READ, "select")


@dataclass(frozen=True)
class ShardFolder:
    """A folder with one file of JSON lines per shard.

    It holds either the documents of a corpus or the shards that went through the stages. A file is
    complete or does not exist, so that a build may be killed at any time.
    """

    path: Path
    """The folder."""

    def shard_path(self, number: int) -> Path:
        """Return the path of a shard's file. Shards are counted from 0."""
        return self.path / f"part-{number:05d}.jsonl"

    def write_shard(self, number: int, examples: Iterable[Example]) -> None:
        """Write the examples of a shard to its file, one per line.

        Args:
            number: The number of the shard, counted from 0.
            examples: Its examples.

        Raises:
            DataError: The file cannot be written.
        """
        # Most fields of most examples have their default value, which is left out.
        lines = [
            _EXAMPLE.dump_json(example, exclude_defaults=True).decode() for example in examples
        ]
        # A file that was cut short lacks this line.
        last_line = f"{len(lines)} examples"
        write_lines(self.shard_path(number), [*lines, last_line])

    def read_shard(self, number: int) -> Iterator[Example]:
        """Yield the examples of a shard, and keep only one of them in memory at a time.

        The last line of a complete shard has the number of its examples, such as ``2 examples``.

        Args:
            number: The number of the shard, counted from 0.

        Raises:
            DataError: The file is missing, or it is damaged.
        """
        path = self.shard_path(number)
        count = 0
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    # The last line of a complete file has the number of examples before it.
                    if line == f"{count} examples\n":
                        return
                    count += 1
                    yield _EXAMPLE.validate_json(line)
            raise ValueError("the end is missing")
        # A line that is no JSON, or no example, raises a ValueError too.
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path}:{count}: damaged ({error}); remove {self.path} and start the build again"
            ) from error


def prepare_shard_folder(path: Path, plan: Mapping[str, Any]) -> ShardFolder:
    """Return a folder for shards, emptied first if its shards were made with other settings.

    Args:
        path: The folder. It is emptied if its shards were made with another plan.
        plan: The settings that decide the content of the shards. They are saved in the folder.

    Returns:
        The folder, which holds only shards that were made with the plan.
    """
    # The saved plan went through JSON, which turns tuples into lists. Only after the same way can
    # the new plan equal it.
    plan = json.loads(json.dumps(plan))
    saved_plan = read_json_object(path / _PLAN_FILE)
    if saved_plan == plan:
        return ShardFolder(path)

    # The user should know why hours of work are repeated.
    if path.exists():
        keys = sorted({*saved_plan, *plan})
        changed = [key for key in keys if saved_plan.get(key) != plan.get(key)]
        _LOG.warning("%s are made again: %s changed", path.name, ", ".join(changed))
    remove_folder(path)
    write_json(path / _PLAN_FILE, plan)
    return ShardFolder(path)


def remove_folder(path: Path) -> None:
    """Remove a folder of an earlier build with everything in it, if it exists.

    Raises:
        DataError: The folder cannot be removed.
    """
    try:
        if path.is_dir():
            shutil.rmtree(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be removed: {error}; remove it and start again") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or an empty one if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def sufficient_num_types(settings: BuildSettings) -> int:
    """Return how many error types the contradictions of a sentence must have to be sufficient.

    If they have fewer, another sentence of the document is drawn.

    Returns:
        Two, or the number of types that the settings require of a row if it is greater. One if
        rows have one contradiction, or if only one type is generated.
    """
    two_if_possible = min(2, settings.choose.contradictions, len(settings.types.types))
    return max(settings.choose.min_types, two_if_possible)


class Shortfall(NamedTuple):
    """How much a draw lacks, with the worst deficiency first. It lacks nothing if all are 0."""

    stages: int
    """How many stages it did not get through, including the one that dropped it."""

    contradictions: int
    """How many contradictions it lacks for a row."""

    required_types: int
    """How many error types it lacks for a row."""

    doubt: bool
    """Whether one of its contradictions is doubtful."""

    desired_types: int
    """How many error types it lacks so that no other sentence is drawn."""


def shortfall(example: Example, settings: BuildSettings) -> Shortfall:
    """Return how much a draw, i.e. a sentence that went through the stages, lacks for a good row.

    Of two draws of a document, the one with the lesser shortfall is better.

    Args:
        example: A document with a sentence that went through the stages.
        settings: The settings of the build, which say what a row needs.

    Returns:
        The deficiencies of the draw. They are compared from the first to the last.
    """
    choose = settings.choose
    usable = usable_candidates(example, choose)
    num_types = len({candidate.type for candidate in usable})
    return Shortfall(
        stages=_count_missing_stages(example),
        contradictions=max(0, choose.contradictions - len(usable)),
        required_types=max(0, choose.min_types - num_types),
        doubt=any(candidate.doubtful for candidate in usable),
        desired_types=max(0, sufficient_num_types(settings) - num_types),
    )


def _count_missing_stages(example: Example) -> int:
    """Count the stages that a draw did not get through, including the one that dropped it.

    Example:
        A draw that the last stage dropped lacks one stage, and a draw that none dropped lacks 0.
    """
    if not example.unused:
        return 0
    return len(ALL_STAGES) - ALL_STAGES.index(example.refusal.stage)


class RunningShard:
    """A shard on its way through the stages, with the examples that go through the next ones.

    A draw takes one sentence of each document through all groups of stages, one group after the
    other. Documents that do not give a good row with it are drawn from again: they go through all
    groups with another sentence.

    Example:
        The caller takes the examples through the groups until there are none left::

            shard = RunningShard(0, documents, settings, num_groups=2)
            while shard.examples:
                shard.advance(run_stages(shard.group, shard.examples))
            write(shard.best_draws.values())
    """

    def __init__(
        self,
        number: int,
        documents: Sequence[Example],
        settings: BuildSettings,
        num_groups: int = 1,
    ) -> None:
        """Prepare the first draw, which is made from all documents.

        Args:
            number: The number of the shard, counted from 0.
            documents: The documents of the shard, each with its whole text as its prefix.
            settings: The settings of the build, which say what a row needs.
            num_groups: How many groups of stages each draw goes through.
        """
        self.number = number
        self._documents = documents
        self._settings = settings
        self._num_groups = num_groups
        # The index of the group that the examples go through next.
        self.group = 0
        # The examples that go through the group. Empty if the shard is finished.
        self.examples = list(documents)
        # The index of the document that each example comes from.
        self._indices: Sequence[int] = range(len(documents))
        # The best draw of each document by its index.
        self.best_draws: dict[int, Example] = {}

    def advance(self, results: list[Example]) -> None:
        """Go on to the next group of stages, or to the next draw after the last group.

        Args:
            results: What the current group made of each of the examples, in the same order.
        """
        self.group += 1
        self.examples = results
        if self.group == self._num_groups:
            self._begin_next_draw(results)

    def _begin_next_draw(self, results: Sequence[Example]) -> None:
        """Keep the better draw of each document, and draw again from those without a good row.

        Args:
            results: The draws that went through all groups of stages.
        """
        next_draws = {}
        for index, result in zip(self._indices, results, strict=True):
            earlier = self.best_draws.get(index)
            self.best_draws[index] = _better_draw(earlier, result, self._settings)

            is_last = result.draw.number >= self._settings.select.draws
            # A document without a further sentence has nothing to draw from.
            if is_last or not _has_sentence(result):
                continue
            if any(shortfall(result, self._settings)):
                # The next draw continues after the sentences that this one tried.
                draw = Draw(result.draw.number + 1, result.draw.tried)
                next_draws[index] = replace(self._documents[index], draw=draw)

        self.group = 0
        self.examples = list(next_draws.values())
        self._indices = list(next_draws)


def _has_sentence(example: Example) -> bool:
    """Tell whether a draw found a sentence in its document that it had not tried before."""
    return example.refusal.stage not in _STAGES_WITHOUT_SENTENCE


def _better_draw(best: Example | None, latest: Example, settings: BuildSettings) -> Example:
    """Return the better of two draws of a document, with the counts of all its draws.

    A draw is a sentence that went through the stages. The better one lacks less for a good row.

    Args:
        best: The best draw so far. None if ``latest`` is the first.
        latest: The latest draw.
        settings: The settings of the build, which say what a row needs.

    Returns:
        The better draw. Its ``draw.total`` is the number of sentences that were drawn so far. Its
        ``lost`` and ``model_use`` are those of all of them, and ``discarded`` counts the
        contradictions of those that were not kept.
    """
    # A draw that found no sentence left in the document adds none.
    total = 1 if _has_sentence(latest) else 0
    if best is None:
        return replace(latest, draw=replace(latest.draw, total=total))

    # If both lack the same, the earlier one stays.
    is_better = shortfall(latest, settings) < shortfall(best, settings)
    kept, dropped = (latest, best) if is_better else (best, latest)
    # The counts are those of all draws, whichever of them is kept.
    dropped_candidates = Counter(candidate.rejected for candidate in dropped.candidates)
    return replace(
        kept,
        draw=replace(kept.draw, total=best.draw.total + total),
        lost=dict(Counter(best.lost) + Counter(latest.lost)),
        discarded=dict(Counter(best.discarded) + dropped_candidates),
        model_use=add_model_use(best.model_use, latest.model_use),
    )


def run_shards(
    engine: LocalEngine | RayEngine,
    numbers: Sequence[int],
    document_folder: ShardFolder,
    finished_folder: ShardFolder,
    settings: BuildSettings,
) -> None:
    """Take shards, a few hundred documents each, through the stages and write them when finished.

    The result is the same for every engine and number of workers.

    Args:
        engine: The engine that runs the stages.
        numbers: The numbers of the shards that are not finished.
        document_folder: The folder to read the documents of the shards from.
        finished_folder: The folder to write the finished shards to.
        settings: The settings of the build.

    Raises:
        StageError: A stage raised an error, or its process died. Shards that were being processed
            at that time are finished first.
    """
    waiting = deque(numbers)
    # The shards that the engine works on, by the future of their current group of stages.
    running: dict[Future[list[Example]], RunningShard] = {}
    failures: list[BaseException] = []
    with tqdm(total=len(numbers), desc="build", unit=" shards", delay=2) as progress:
        while running or waiting:
            while waiting and len(running) < engine.capacity:
                number = waiting.popleft()
                documents = list(document_folder.read_shard(number))
                shard = RunningShard(number, documents, settings, len(engine.groups))
                running[_submit(engine, shard)] = shard

            # Each shard continues as soon as its own group of stages is done.
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                shard = running.pop(future)
                error = future.exception()
                if error is not None:
                    failures.append(_explain_error(error, shard))
                    # No further shard is started, but those at work are finished.
                    waiting.clear()
                    continue

                shard.advance(future.result())
                if shard.examples:
                    running[_submit(engine, shard)] = shard
                else:
                    finished_folder.write_shard(shard.number, shard.best_draws.values())
                    progress.update()
    # Later errors may be consequences of the first.
    if failures:
        raise failures[0]


def _submit(engine: LocalEngine | RayEngine, shard: RunningShard) -> Future[list[Example]]:
    """Let the engine take the examples of a shard through their next group of stages."""
    return engine.submit(shard.group, shard.number, shard.examples)


def _explain_error(error: BaseException, shard: RunningShard) -> BaseException:
    """Return the error of a stage, or one that names the shard if a process of the pool died."""
    # The errors of stages name their shard already.
    if not isinstance(error, BrokenProcessPool):
        return error
    return StageError(
        f"{describe_shard(shard.number, shard.examples)}: a process at work on this shard, or on"
        f" another one at the same time, died, as it does when memory runs out; {RESUME_ADVICE},"
        " best with fewer --workers or a smaller shard"
    )
