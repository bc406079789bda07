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
from dataclasses import dataclass, field, replace
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
        """Yield the examples of a shard, of which only one is in memory at a time.

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
                    # Only a complete file ends with the number of its examples.
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
    """Return a folder for shards. It is emptied first if its shards were made with another plan.

    Args:
        path: The folder. The plan of its shards is saved in it.
        plan: All settings that decide the content of the shards.
    """
    # JSON turns tuples into lists. The new plan must look like the saved one to be compared to it.
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
    """Return how many error types a sentence's contradictions need, so that no other one is drawn.

    This is two, or more if the settings require more of each row. It is one if rows have a single
    contradiction, or if only one type is generated.
    """
    two_if_possible = min(2, settings.choose.contradictions, len(settings.types.types))
    return max(settings.choose.min_types, two_if_possible)


class Shortfall(NamedTuple):
    """How much a sentence lacks for a good row, the worst first. All are 0 if it lacks nothing."""

    stages: int
    """How many stages it did not get through, including the one that dropped it."""

    contradictions: int
    """How many contradictions it lacks for a row."""

    required_types: int
    """How many error types it lacks for a row."""

    desired_types: int
    """How many error types it lacks so that no other sentence is drawn."""


def shortfall(example: Example, settings: BuildSettings) -> Shortfall:
    """Return how much a sentence that went through the stages lacks for a good row.

    Of two sentences of a document, the one with the lesser shortfall is better.
    """
    choose = settings.choose
    usable = usable_candidates(example)
    num_types = len({candidate.type for candidate in usable})
    return Shortfall(
        stages=_count_missing_stages(example),
        contradictions=max(0, choose.contradictions - len(usable)),
        required_types=max(0, choose.min_types - num_types),
        desired_types=max(0, sufficient_num_types(settings) - num_types),
    )


def _count_missing_stages(example: Example) -> int:
    """Count the stages that a sentence did not get through, including the one that dropped it.

    Example:
        The last stage dropped the sentence: 1. No stage dropped it: 0.
    """
    if not example.unused:
        return 0
    return len(ALL_STAGES) - ALL_STAGES.index(example.refusal.stage)


@dataclass
class RunningShard:
    """A shard, i.e. a few hundred documents, on its way through the stages of a build.

    The stages are divided into groups. In each *draw*, one sentence of a document goes through all
    groups. All documents take part in the first draw. Those that have no good row after it take
    part in the next one, with another sentence.

    Example:
        ::

            shard = RunningShard(0, documents, settings, num_groups=2)
            while shard.examples:
                shard.advance(run_stages(shard.group, shard.examples))
            write(shard.best_draws.values())
    """

    number: int
    """The number of the shard, counted from 0."""

    documents: Sequence[Example]
    """The documents, each with its whole text as its prefix."""

    settings: BuildSettings
    """The settings of the build, which say what a good row needs."""

    num_groups: int = 1
    """How many groups of stages there are."""

    group: int = 0
    """The index of the next group."""

    best_draws: dict[int, Example] = field(default_factory=dict)
    """The best sentence of each document so far, by the index of the document."""

    _current_draws: dict[int, Example] = field(init=False)
    """The documents of the current draw, each with its sentence, by the document's index."""

    def __post_init__(self) -> None:
        """Begin the first draw."""
        self._current_draws = dict(enumerate(self.documents))

    @property
    def examples(self) -> list[Example]:
        """The examples that the next group is for. There are none if the shard is finished."""
        return list(self._current_draws.values())

    def advance(self, results: Sequence[Example]) -> None:
        """Go on to the next group of stages. After the last group, begin the next draw.

        Args:
            results: The ``examples`` as the group returned them, in the same order.
        """
        self._current_draws = dict(zip(self._current_draws, results, strict=True))
        self.group += 1
        if self.group == self.num_groups:
            self.group = 0
            self._begin_next_draw()

    def _begin_next_draw(self) -> None:
        """Record the best draw of each document, and begin another one for documents that need it.

        A document needs another draw if the contradictions of its latest sentence do not give a row
        of two error types.
        """
        latest_draws = self._current_draws
        self._current_draws = {}
        for index, latest in latest_draws.items():
            best = self.best_draws.get(index)
            self.best_draws[index] = _better_draw(best, latest, self.settings)
            if _needs_another_draw(latest, self.settings):
                # The next draw continues after the sentences that the latest one tried.
                next_draw = Draw(latest.draw.number + 1, latest.draw.tried)
                self._current_draws[index] = replace(self.documents[index], draw=next_draw)


def _needs_another_draw(latest: Example, settings: BuildSettings) -> bool:
    """Tell whether to draw another sentence of a document, because the latest gives no good row."""
    is_last_attempt = latest.draw.number >= settings.select.draws
    if is_last_attempt:
        return False
    # No sentence was left for this draw, and so there is none for another one.
    if not _has_sentence(latest):
        return False
    return any(shortfall(latest, settings))


def _has_sentence(example: Example) -> bool:
    """Tell whether a draw found a sentence in its document that it had not tried before."""
    return example.refusal.stage not in _STAGES_WITHOUT_SENTENCE


def _better_draw(best: Example | None, latest: Example, settings: BuildSettings) -> Example:
    """Return the better of two draws of a document, with the counts of all its draws.

    A draw is a sentence of the document, with the contradictions that the stages made of it. Only
    one draw becomes a row, but the dataset card counts what was made in all of them. ``discarded``
    counts only the contradictions of worse draws, because those of the best draw are kept as its
    ``candidates``.

    Args:
        best: The best draw so far. None if ``latest`` is the first.
        latest: The latest draw.
        settings: The settings of the build.
    """
    # The latest draw counts unless the document had no sentence left for it.
    num_latest = 1 if _has_sentence(latest) else 0
    if best is None:
        return replace(latest, draw=replace(latest.draw, total=num_latest))

    # Of two draws that lack the same for a good row, the earlier one stays.
    is_better = shortfall(latest, settings) < shortfall(best, settings)
    better, worse = (latest, best) if is_better else (best, latest)
    # ``rejected`` is why a stage rejected the contradiction, and empty if no stage rejected it.
    num_discarded_by_reason = Counter(candidate.rejected for candidate in worse.candidates)
    return replace(
        better,
        draw=replace(better.draw, total=best.draw.total + num_latest),
        lost=dict(Counter(best.lost) + Counter(latest.lost)),
        discarded=dict(Counter(best.discarded) + num_discarded_by_reason),
        model_use=add_model_use(best.model_use, latest.model_use),
    )


def run_shards(
    engine: LocalEngine | RayEngine,
    numbers: Sequence[int],
    document_folder: ShardFolder,
    finished_folder: ShardFolder,
    settings: BuildSettings,
) -> None:
    """Take shards, i.e. a few hundred documents each, through the stages, and write the results.

    Args:
        engine: Runs the stages. The results are the same for all engines.
        numbers: The numbers of the shards that are not finished.
        document_folder: Where the documents of the shards are.
        finished_folder: Where the finished shards are written.
        settings: The settings of the build.

    Raises:
        StageError: A stage raised an error, or its process died. Shards that were being processed
            at that time are finished first.
    """
    waiting = deque(numbers)
    # The shards that the engine works on. A future has the result of one group of stages.
    running: dict[Future[list[Example]], RunningShard] = {}
    failures = []
    with tqdm(total=len(numbers), desc="build", unit=" shards", delay=2) as progress:
        while running or waiting:
            while waiting and len(running) < engine.capacity:
                number = waiting.popleft()
                documents = list(document_folder.read_shard(number))
                shard = RunningShard(number, documents, settings, len(engine.groups))
                running[engine.submit(shard.group, number, shard.examples)] = shard

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
                    running[engine.submit(shard.group, shard.number, shard.examples)] = shard
                else:
                    finished_folder.write_shard(shard.number, shard.best_draws.values())
                    progress.update()
    # Later errors may be consequences of the first.
    if failures:
        raise failures[0]


def _explain_error(error: BaseException, shard: RunningShard) -> BaseException:
    """Return an error that names the shard. Only the death of a process needs another error."""
    if not isinstance(error, BrokenProcessPool):
        return error
    return StageError(
        f"{describe_shard(shard.number, shard.examples)}: a process at work on this shard, or on"
        f" another one at the same time, died, as it does when memory runs out; {RESUME_ADVICE},"
        " best with fewer --workers or a smaller shard"
    )
