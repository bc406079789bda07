"""Log-probabilities of a forest's targets, and whether a model can be trusted with an engine.

`hf_tree` scores requests with it, and factor-gen's fluency filter scores sentences. On a CPU a pass
that is spread over cores waits after each of its operators for the slowest core. Passes that share
nothing never wait, so trees are scored side by side there.
"""

import copy
import gc
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lm_factuality.models.tree.forest import Forest, next_stretch, plant
from lm_factuality.models.tree.logits import (
    Recorder,
    Rescore,
    UnsupportedModelError,
    device_of,
    read_off,
    record_nothing,
)
from lm_factuality.models.tree.packed import PackedEngine

logger = logging.getLogger(__name__)
# The largest difference of a log-probability that an engine may show, in standard deviations of the
# model's log-probabilities over the vocabulary.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.25}
# From so many tokens a pass on, one core has enough to do.
_LEAST = 256
# Each core gets at least so many groups of trees, so that none waits long for the last.
_SHARE = 4


@dataclass(frozen=True)
class TargetScores:
    """For each target of a forest, its score."""

    logprobs: npt.NDArray[np.float64]
    """Log-probabilities in nats, shape [targets]."""

    greedy: npt.NDArray[np.bool_]
    """Whether the target is the likeliest token, shape [targets]."""


@dataclass
class PassBudget:
    """How many tokens and targets one forward pass may hold."""

    tokens: int
    targets: int

    def halve(self) -> bool:
        """Halve the budget for good. Return whether there was anything left to halve."""
        if self.tokens <= 1:
            return False
        self.tokens //= 2
        self.targets = max(1, self.targets // 2)
        return True


def score(
    forest: Forest,
    engine: PackedEngine,
    budget: PassBudget,
    softmax_dtype: torch.dtype | None = None,
    rescore: Rescore | None = None,
    progress: Callable[[int], Any] = lambda positions: None,
) -> TargetScores:
    """Score the targets of a forest.

    Args:
        budget: What one forward pass may hold. It is halved whenever memory runs out.
        softmax_dtype: The precision of the softmax, as `read_off` takes it.
        rescore: Makes log-probabilities from logits where a decoding method decides.
        progress: Called after each pass with the number of its positions.

    Raises:
        UnsupportedModelError: The engine cannot compute this model.
        torch.OutOfMemoryError: A single token is too much.
    """
    logprobs = np.full(len(forest.target_tokens), np.nan)
    greedy = np.zeros(len(forest.target_tokens), dtype=np.bool_)
    start = 0
    path = np.empty(0, dtype=np.int64)
    while start < len(forest):
        stretch = next_stretch(forest, start, path, budget.tokens, budget.targets)
        targets = forest.targets_between(stretch.start, stretch.stop)
        tokens = torch.from_numpy(forest.target_tokens[targets])
        try:
            scores = read_off(engine.run(forest, stretch), tokens, softmax_dtype, rescore)
        except RuntimeError as error:
            if not _is_out_of_memory(error) or not budget.halve():
                raise
            scores = None
        if scores is None:
            # Not in the handler, which would hold on to the tensors of the failed pass.
            _free_memory(budget)
            continue
        logprobs[targets] = scores[0].to("cpu", torch.float64).numpy()
        greedy[targets] = scores[1].cpu().numpy()
        path = stretch.path_after(forest)
        progress(stretch.stop - start)
        start = stretch.stop
    return TargetScores(logprobs, greedy)


def _is_out_of_memory(error: RuntimeError) -> bool:
    message = str(error).lower()
    is_of_torch = isinstance(error, torch.OutOfMemoryError)
    return is_of_torch or "out of memory" in message or "can't allocate memory" in message


def _free_memory(budget: PassBudget) -> None:
    logger.warning("out of memory; going on with %d tokens a forward pass", budget.tokens)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def find_engine(
    model: Any, vocabulary: int, max_length: int, record: Recorder = record_nothing
) -> PackedEngine | None:
    """Return an engine if it gives the model's own log-probabilities on a trial forest.

    Args:
        vocabulary: Trial tokens are drawn from the first so many.
        max_length: How many tokens the model reads.
        record: Records the hidden states that decoding contrasts logits with.

    Returns:
        None if it does not, as with state-space models.
    """
    if _depends_on_longest_input(model.config):
        logger.info("the model's rotary embeddings depend on the longest input of a batch")
        return None
    sequences = _trial_sequences(vocabulary, max_length)
    forest = plant(sequences, [len(sequence) - 1 for sequence in sequences])
    try:
        engine = PackedEngine(model, record)
        # The budget cuts the forest twice, so that paths carried between passes are tried too.
        scores = score(forest, engine, PassBudget(len(forest) // 3 + 1, len(forest)))
    except (
        UnsupportedModelError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        if isinstance(error, RuntimeError) and _is_out_of_memory(error):
            raise
        logger.info("packed passes: %s: %s", type(error).__name__, error)
        return None
    tolerance = _TOLERANCE.get(next(model.parameters()).dtype, _TOLERANCE[torch.float32])
    for sequence, targets in zip(sequences, forest.answers, strict=True):
        tokens = torch.tensor([sequence], device=device_of(model))
        expected = torch.log_softmax(
            model(input_ids=tokens[:, :-1]).logits[0].double().cpu(), dim=-1
        )
        following = tokens[0, 1:, None].cpu()
        logprobs = expected.gather(1, following)[:, 0].numpy()
        worst = float(np.max(np.abs(scores.logprobs[targets] - logprobs)))
        if not worst <= tolerance * float(expected.std(dim=-1).mean()):
            logger.info("packed passes: off by %.2g nats a token", worst)
            return None
    return engine


def _depends_on_longest_input(config: Any) -> bool:
    """Return whether rotary embeddings change with the longest input of a pass."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    # Some models have parameters for each kind of layer.
    layers = [layer for layer in (rope, *rope.values()) if isinstance(layer, dict)]
    return any(layer.get("rope_type") in ("dynamic", "longrope") for layer in layers)


def _trial_sequences(vocabulary: int, max_length: int) -> list[list[int]]:
    """Draw sequences that branch, end inside others, and stand alone."""
    unit = max(2, min(6, (max_length - 1) // 4))
    tokens = np.random.default_rng(0).integers(0, vocabulary, (7, 4 * unit))
    tokens[1:3, : 3 * unit] = tokens[0, : 3 * unit]
    tokens[3:5, : 2 * unit] = tokens[0, : 2 * unit]
    ends = (4 * unit, 3 * unit + 2, 3 * unit, 3 * unit + 1, 3 * unit, unit, 3 * unit)
    return [row[:end].tolist() for row, end in zip(tokens, ends, strict=True)]


def score_side_by_side(
    forest: Forest,
    engine: PackedEngine,
    budget: PassBudget,
    score: Callable[[Forest, PackedEngine, PassBudget], TargetScores],
    cores: int = 1,
) -> TargetScores:
    """Score a forest's trees from several threads, each with a copy of the engine.

    One thread does it where the forest or the budget is too small to share.

    Args:
        budget: Of all threads together.
        cores: How many threads there may be.
    """
    count = max(1, min(cores, budget.tokens // _LEAST, len(forest) // _LEAST))
    size = max(_LEAST, len(forest) // (_SHARE * count))
    groups = _group_trees(forest, min(budget.tokens // count, size))
    if min(count, len(groups)) < 2 or len(groups) * forest.stem * _SHARE > len(forest):
        return score(forest, engine, budget)
    share = PassBudget(budget.tokens // count, max(1, budget.targets // count))

    def score_group(bounds: tuple[int, int]) -> TargetScores:
        return score(forest.above_stem(*bounds), copy.copy(engine), share)

    try:
        with ThreadPoolExecutor(
            count, "tree", torch.set_num_threads, (max(1, cores // count),)
        ) as pool:
            parts = list(pool.map(score_group, groups))
    finally:
        # A thread may have set the number for the whole process.
        torch.set_num_threads(cores)
    return TargetScores(
        np.concatenate([part.logprobs for part in parts]),
        np.concatenate([part.greedy for part in parts]),
    )


def _group_trees(forest: Forest, size: int) -> list[tuple[int, int]]:
    """Return (start, stop) of groups of consecutive trees, each of ``size`` positions or one."""
    groups: list[tuple[int, int]] = []
    start = forest.stem
    previous = start
    roots = np.flatnonzero(forest.depth == forest.stem)
    for end in [*roots[1:].tolist(), len(forest)]:
        if end - start > size and previous > start:
            groups.append((start, previous))
            start = previous
        previous = end
    return [*groups, (start, len(forest))]
