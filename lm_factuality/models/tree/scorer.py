"""Log-probabilities of a forest's targets, which way of computing them a model can be trusted with,
and trees side by side.

On a CPU a pass spread over cores waits after each of its thousands of operators for the slowest
core, and where another process has taken one, for that process. Passes that share nothing never
wait: a core that is slow computes fewer of them."""

import copy
import gc
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from lm_factuality.models.tree.cached import (
    CachedEngine,
    Logits,
    Recorder,
    Rescore,
    UnsupportedModelError,
    no_exits,
    read_off,
)
from lm_factuality.models.tree.forest import Forest, Stretch, next_stretch, plant
from lm_factuality.models.tree.packed import PackedEngine

logger = logging.getLogger(__name__)
# Largest difference of a log-probability, in standard deviations of the model's log-probabilities
# over the vocabulary.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.25}
_LEAST = 256  # tokens of a pass from which on one core has enough to do
_SHARE = 4  # groups of trees for each core at least, so that none waits long for the last


class Engine(Protocol):
    """Computes stretches of a forest in order."""

    @property
    def name(self) -> str: ...

    def restart(self) -> None: ...
    def limit(self, forest: Forest, stretch: Stretch) -> Stretch: ...
    def run(self, forest: Forest, stretch: Stretch) -> Logits: ...


ENGINES: tuple[Callable[[Any, Recorder], Engine], ...] = (PackedEngine, CachedEngine)


@dataclass(frozen=True)
class Scores:
    """Of each target of a forest, shape [targets]: its log-probability in nats, and whether it is
    the likeliest token."""

    logprobs: npt.NDArray[np.float64]
    greedy: npt.NDArray[np.bool_]


@dataclass
class Budget:
    """What one forward pass may hold; halved, for good, when memory runs out."""

    tokens: int
    targets: int

    def halve(self) -> bool:
        """Whether there was anything left to halve."""
        if self.tokens <= 1:
            return False
        self.tokens, self.targets = self.tokens // 2, max(1, self.targets // 2)
        return True


def score(
    forest: Forest,
    engine: Engine,
    budget: Budget,
    softmax_dtype: torch.dtype | None = None,
    progress: Callable[[int], None] = lambda position: None,
    rescore: Rescore | None = None,
) -> Scores:
    """Computes the forest from first position to last; ``progress`` is told how far it has come.
    ``rescore`` turns logits into log-probabilities of another decoding. Raises
    UnsupportedModelError: no match; OutOfMemoryError: a token is too much."""
    logprobs = np.full(len(forest.target_tokens), np.nan)
    greedy = np.zeros(len(forest.target_tokens), dtype=np.bool_)
    engine.restart()
    start, path = 0, np.empty(0, dtype=np.int64)
    while start < len(forest):
        stretch = engine.limit(
            forest, next_stretch(forest, start, path, budget.tokens, budget.targets)
        )
        targets = forest.targets_between(stretch.start, stretch.stop)
        try:
            logits = engine.run(forest, stretch)
            found = read_off(
                logits, torch.from_numpy(forest.target_tokens[targets]), softmax_dtype, rescore
            )
        except RuntimeError as error:
            if not _is_out_of_memory(error) or not budget.halve():
                raise
            found = None
        if (
            found is None
        ):  # outside of the handler, which would hold on to the tensors of the failed pass
            logger.warning("out of memory; going on with %d tokens a forward pass", budget.tokens)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            continue
        logprobs[targets] = found[0].to("cpu", torch.float64).numpy()
        greedy[targets] = found[1].cpu().numpy()
        path, start = stretch.path_after(forest), stretch.stop
        progress(start)
    engine.restart()
    return Scores(logprobs, greedy)


def _is_out_of_memory(error: RuntimeError) -> bool:
    message = str(error).lower()
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "out of memory" in message
        or "can't allocate memory" in message
    )


def choose_engine(
    model: Any, vocabulary: int, max_length: int, exits: Recorder = no_exits
) -> Engine | None:
    """The first engine that gives a few made-up inputs the log-probabilities that the model gives
    them one by one; it picks up ``exits``, out of whose states the logits come too. None if none
    does, as with state-space models."""
    if reason := _depends_on_the_batch(model.config):
        logger.info("%s", reason)
        return None
    forest, sequences = _trial(vocabulary, max_length)
    expected, spread = _one_by_one(model, sequences)
    tolerance = _TOLERANCE.get(next(model.parameters()).dtype, _TOLERANCE[torch.float32]) * max(
        spread, 1e-6
    )
    for make in ENGINES:
        try:
            engine = make(model, exits)
            # A budget that cuts the forest in two places, so that paths carried from pass to pass
            # are tried as well.
            found = score(forest, engine, Budget(len(forest) // 3 + 1, len(forest)))
        except UnsupportedModelError as error:
            logger.info("%s: %s", getattr(make, "name", make), error)
            continue
        except (
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            if isinstance(error, RuntimeError) and _is_out_of_memory(error):
                raise
            logger.info("%s: %s: %s", getattr(make, "name", make), type(error).__name__, error)
            continue
        pairs = zip(forest.answers, expected, strict=True)
        worst = max(
            float(np.max(np.abs(found.logprobs[answer] - wanted))) for answer, wanted in pairs
        )
        if worst <= tolerance:
            return engine
        logger.info("%s: off by %.2g nats a token, more than %.2g", engine.name, worst, tolerance)
    return None


def _depends_on_the_batch(config: Any) -> str:
    """Some rotary embeddings change with the longest input of a batch: then inputs of other lengths
    may not stand beside it."""
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kinds = {
        str(each.get("rope_type")) for each in [rope, *rope.values()] if isinstance(each, dict)
    }
    changing = kinds & {"dynamic", "longrope"}
    return (
        f"rotary embeddings of type {changing.pop()} depend on the longest input"
        if changing
        else ""
    )


def _trial(vocabulary: int, max_length: int) -> tuple[Forest, list[list[int]]]:
    draw = np.random.default_rng(0)
    unit = max(2, min(6, (max_length - 1) // 4))

    def some(count: int) -> list[int]:
        return [int(token) for token in draw.integers(0, vocabulary, count)]

    stem, branch = some(2 * unit), some(unit)
    sequences = [
        [*stem, *branch, *some(2)],
        [*stem, *branch, *some(unit)],
        [*stem, *some(unit + 1)],
        [*stem, *some(unit)],
        [*stem, *branch],
        some(unit),
        some(3 * unit),
    ]
    return plant(sequences, [len(each) - 1 for each in sequences]), sequences


def _one_by_one(
    model: Any, sequences: Sequence[Sequence[int]]
) -> tuple[list[npt.NDArray[np.float64]], float]:
    device = model.get_input_embeddings().weight.device
    expected, spreads = [], []
    for sequence in sequences:
        ids = torch.tensor([list(sequence)], device=device)
        logprobs = torch.log_softmax(model(ids[:, :-1]).logits[0].float(), dim=-1)
        expected.append(
            logprobs.gather(1, ids[0, 1:, None].to(logprobs.device))[:, 0].double().cpu().numpy()
        )
        spreads.append(float(logprobs.std(dim=-1).mean()))
    return expected, float(np.mean(spreads))


def score_side_by_side(
    forest: Forest,
    engine: Engine,
    budget: Budget,
    score: Callable[..., Scores],
    cores: int = 1,
    progress: Callable[[int], Any] = lambda position: None,
) -> Scores:
    """What ``score`` gives of (forest, engine, budget), from as many threads as there are
    ``cores``, each with copies of the engine and its share of the budget. One thread, told of
    ``progress``, where the forest or the budget is too small to share."""
    count = max(1, min(cores, budget.tokens // _LEAST, len(forest) // _LEAST))
    groups = _groups(
        forest, min(budget.tokens // count, max(_LEAST, len(forest) // (_SHARE * count)))
    )
    if min(count, len(groups)) < 2 or len(groups) * forest.stem * _SHARE > len(forest):
        return score(forest, engine, budget, progress)
    share = Budget(budget.tokens // count, max(1, budget.targets // count))

    def of_group(bounds: tuple[int, int]) -> Scores:
        return score(forest.above_stem(*bounds), copy.copy(engine), share)

    found: list[Scores] = []
    try:
        with ThreadPoolExecutor(
            count, initializer=torch.set_num_threads, initargs=(max(1, cores // count),)
        ) as pool:
            for (_, stop), scores in zip(groups, pool.map(of_group, groups), strict=True):
                found.append(scores)
                progress(stop)
    finally:
        torch.set_num_threads(cores)  # which the threads may have set for all
    return Scores(
        np.concatenate([each.logprobs for each in found]),
        np.concatenate([each.greedy for each in found]),
    )


def _groups(forest: Forest, size: int) -> list[tuple[int, int]]:
    """Consecutive trees, as (first position, number after the last): as many as ``size`` positions
    hold, or one."""
    groups: list[tuple[int, int]] = []
    start = previous = forest.stem
    for end in [*np.flatnonzero(forest.depth == start)[1:].tolist(), len(forest)]:
        if end - start > size and previous > start:
            groups.append((start, previous))
            start = previous
        previous = end
    return [*groups, (start, len(forest))]
