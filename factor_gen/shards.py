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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tqdm import tqdm

from factor_gen.choose import usable_candidates
from factor_gen.engine import LocalEngine
from factor_gen.ray_engine import RayEngine
from factor_gen.records import Draw, Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import ALL_STAGES, READ, RESUME_ADVICE, StageError, describe_shard
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.ground.settings import adapter_of

_LOG = logging.getLogger(__name__)
_PLAN_FILE = "settings.json"
# The last line of a shard has the number of its examples. A file that was cut short lacks it.
_LAST_LINE = "{} examples\n"
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
        # Most fields of most examples have their default value.
        lines = [
            _EXAMPLE.dump_json(example, exclude_defaults=True).decode() for example in examples
        ]
        last_line = _LAST_LINE.format(len(lines)).rstrip("\n")
        write_lines(self.shard_path(number), [*lines, last_line])

    def read_shard(self, number: int) -> Iterator[Example]:
        """Yield the examples of a shard, and keep only one of them in memory at a time.

        The last line of a complete shard has the number of its examples.

        Args:
            number: The number of the shard, counted from 0.

        Raises:
            DataError: The file is missing, or it is damaged.
        """
        path = self.shard_path(number)
        count = 0
        problem: Exception | str = "the end is missing"
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    if line == _LAST_LINE.format(count):
                        return
                    count += 1
                    yield _EXAMPLE.validate_json(line)
        except (OSError, ValueError) as error:
            # The errors of JSON and of pydantic are ValueErrors too.
            problem = error
        raise DataError(
            f"{path}:{count}: damaged ({problem}); remove {self.path} and start the build again"
        )


def prepare_shard_folder(path: Path, plan: Mapping[str, Any]) -> ShardFolder:
    """Return a folder for shards, without shards that were made with other settings.

    Args:
        path: The folder. It is emptied if its shards were made with another plan.
        plan: The settings that decide the content of the shards. They are saved in the folder.

    Returns:
        The folder, which holds only shards that were made with the plan.
    """
    # JSON turns tuples into lists, as in the plan that was saved.
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

    doubt: int
    """How doubtful its most doubtful contradiction is."""

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
        doubt=max((candidate.doubtful for candidate in usable), default=0),
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


class StageRequest(NamedTuple):
    """A request to take examples through a group of stages."""

    group: int
    """The index of the group of stages."""

    examples: list[Example]
    """The examples that go in."""


DrawGenerator: TypeAlias = Generator[StageRequest, list[Example], list[Example]]


def draw_sentences(
    documents: Sequence[Example], settings: BuildSettings, num_groups: int = 1
) -> DrawGenerator:
    """Draw sentences from documents until each document has given a row, or none are left.

    A draw takes one sentence of each document through all stages. Documents that do not give a good
    row with it are drawn from again. This generator decides what to process; its caller does it.

    Args:
        documents: The documents of a shard, each with its whole text as its prefix.
        settings: The settings of the build, which say what a row needs.
        num_groups: How many groups of stages each draw goes through.

    Yields:
        A group of stages, and the examples to take through it. The caller sends the results back.

    Returns:
        The best draw of each document.

    Example:
        With one group of stages and two draws of the first document, the caller runs::

            request = next(draws)             # the first sentence of every document
            request = draws.send(results)     # the second sentence of the first document
            draws.send(results)               # ends: StopIteration has the best draws
    """
    best_draws: dict[int, Example] = {}
    # The documents to draw from, by their index. The first draw is made from all of them.
    next_draws = dict(enumerate(documents))
    for draw_number in range(1, settings.select.draws + 1):
        examples = list(next_draws.values())
        for group in range(num_groups):
            examples = yield StageRequest(group, examples)
        results = dict(zip(next_draws, examples, strict=True))

        next_draws = {}
        for index, result in results.items():
            best_draws[index] = _better_draw(best_draws.get(index), result, settings)
            if _has_sentence(result) and any(shortfall(result, settings)):
                # The next draw continues after the sentences that this one tried.
                next_draw = Draw(draw_number + 1, result.draw.tried)
                next_draws[index] = replace(documents[index], draw=next_draw)

        # All documents have given a row, or have no other sentence.
        if not next_draws:
            break
    return list(best_draws.values())


def _has_sentence(example: Example) -> bool:
    """Tell whether a draw found a sentence in its document that it had not tried before."""
    return example.refusal.stage not in _STAGES_WITHOUT_SENTENCE


def _better_draw(best: Example | None, latest: Example, settings: BuildSettings) -> Example:
    """Return the better of two draws of a document, with the counts of all its draws.

    Args:
        best: The best draw so far. None if ``latest`` is the first.
        latest: The latest draw.
        settings: The settings of the build, which say what a row needs.

    Returns:
        The better draw, with the number of sentences that were drawn so far.
    """
    num_sentences = int(_has_sentence(latest))
    if best is None:
        return replace(latest, draw=replace(latest.draw, total=num_sentences))

    # If both lack the same, the earlier one stays.
    better = min(best, latest, key=lambda draw: shortfall(draw, settings))
    # The counts are those of all draws, whichever of them is kept.
    total = best.draw.total + num_sentences
    lost = Counter(best.lost) + Counter(latest.lost)
    return replace(better, draw=replace(better.draw, total=total), lost=dict(lost))


def run_shards(
    engine: LocalEngine | RayEngine,
    numbers: Sequence[int],
    documents: ShardFolder,
    finished: ShardFolder,
    settings: BuildSettings,
) -> None:
    """Take shards, a few hundred documents each, through the stages and write them when finished.

    The result is the same for every engine and number of workers.

    Args:
        engine: The engine that runs the stages.
        numbers: The numbers of the shards that are not finished.
        documents: The folder to read the documents of the shards from.
        finished: The folder to write the finished shards to.
        settings: The settings of the build.

    Raises:
        StageError: A stage raised an error, or its process died. Shards that were being processed
            at that time are finished first.
    """
    waiting = deque(numbers)
    failure: BaseException | None = None
    with tqdm(total=len(numbers), desc="build", unit=" shards", delay=2) as progress:
        run = _ShardRun(engine, finished, progress)
        while run.futures or (waiting and failure is None):
            # After a failure no further shard is started.
            while waiting and failure is None and len(run.futures) < engine.capacity:
                number = waiting.popleft()
                shard_documents = list(documents.read_shard(number))
                draws = draw_sentences(shard_documents, settings, len(engine.groups))
                run.start(_RunningShard(number, draws))

            # Each shard continues as soon as its own group of stages is done.
            for future in wait(run.futures, return_when=FIRST_COMPLETED).done:
                shard = run.futures.pop(future)
                error = future.exception()
                if error is None:
                    run.advance(shard, future.result())
                elif failure is None:
                    failure = _explain_error(error, shard)
    if failure is not None:
        raise failure


@dataclass
class _RunningShard:
    """A shard that an engine takes through the stages."""

    number: int
    """The number of the shard, counted from 0."""

    draws: DrawGenerator
    """The requests for its draws, see :func:`draw_sentences`."""

    examples: list[Example] = field(default_factory=list)
    """The examples that the current group of stages works on."""


@dataclass
class _ShardRun:
    """The shards that an engine works on at the same time."""

    engine: LocalEngine | RayEngine
    """The engine that runs the stages."""

    finished: ShardFolder
    """The folder to write the finished shards to."""

    progress: "tqdm[Any]"
    """A progress bar that counts the finished shards."""

    futures: dict[Future[list[Example]], _RunningShard] = field(default_factory=dict)
    """The shard that each submitted group of stages works on."""

    def start(self, shard: _RunningShard) -> None:
        """Submit the first group of stages of a shard."""
        self._submit(shard, next(shard.draws))

    def advance(self, shard: _RunningShard, results: list[Example]) -> None:
        """Submit the next group of stages of a shard, or write the shard if it is finished.

        Args:
            shard: The shard.
            results: What the last group of stages returned.
        """
        try:
            request = shard.draws.send(results)
        except StopIteration as stop:
            # A generator returns its value, the best draws, by this exception.
            self.finished.write_shard(shard.number, stop.value)
            self.progress.update()
            return
        self._submit(shard, request)

    def _submit(self, shard: _RunningShard, request: StageRequest) -> None:
        """Let the engine take the examples of a request through a group of stages."""
        # If a process dies, the error names the documents of these examples.
        shard.examples = request.examples
        future = self.engine.submit(request.group, shard.number, request.examples)
        self.futures[future] = shard


def _explain_error(error: BaseException, shard: _RunningShard) -> BaseException:
    """Return the error of a stage, or one that names the shard if a process of the pool died."""
    # The errors of stages name their shard already.
    if not isinstance(error, BrokenProcessPool):
        return error
    return StageError(
        f"{describe_shard(shard.number, shard.examples)}: a process at work on this shard, or on"
        f" another one at the same time, died, as it does when memory runs out; {RESUME_ADVICE},"
        " best with fewer --workers or a smaller shard"
    )
