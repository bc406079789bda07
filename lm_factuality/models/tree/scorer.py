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
from transformers import PretrainedConfig, PreTrainedModel

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
# How far an engine's log-probability may differ from the model's own. The unit is the standard
# deviation of the model's log-probabilities over the vocabulary.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.25}
# A pass of at least so many tokens keeps one core busy.
_LEAST = 256
# Each core gets at least so many groups of trees, so that none waits long for the last.
_SHARE = 4


@dataclass(frozen=True)
class TargetScores:
    """The scores of all targets of a forest."""

    logprobs: npt.NDArray[np.float64]
    """Log-probabilities in nats, shape [targets]."""

    greedy: npt.NDArray[np.bool_]
    """Whether the target is the likeliest token, shape [targets]."""


@dataclass
class PassBudget:
    """The largest number of tokens and targets that one forward pass may hold."""

    tokens: int
    """How many tokens the model may read in one pass."""

    targets: int
    """How many positions of one pass may need logits."""

    def halve(self) -> bool:
        """Halve both limits permanently, after memory has run out.

        Returns:
            False if a pass holds one token already, so that it cannot become smaller.
        """
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
    """Score the targets of a forest, i.e. the tokens whose log-probability is asked for.

    Args:
        forest: The tokens of all requests, with each shared beginning stored once.
        engine: Runs the model on consecutive positions of the forest.
        budget: The limits of one forward pass. They are halved in place when memory runs out.
        softmax_dtype: The precision of the softmax. None means at least float32.
        rescore: The function of a decoding method that turns logits into log-probabilities. None
            is the softmax.
        progress: Called after each pass with the number of positions that it computed.

    Returns:
        For each target, its log-probability in nats and whether it is the likeliest token.

    Raises:
        UnsupportedModelError: The engine cannot compute this model.
        torch.OutOfMemoryError: Memory does not suffice even for a pass of one token.
    """
    logprobs = np.full(len(forest.target_tokens), np.nan)
    greedy = np.zeros(len(forest.target_tokens), dtype=np.bool_)
    start = 0
    # The ancestors of position ``start``, whose keys and values the engine keeps.
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
            # Free memory outside of the handler, because the exception refers to the tensors of
            # the failed pass. The same positions are then tried again.
            _free_memory(budget)
            continue

        logprobs[targets] = scores[0].to("cpu", torch.float64).numpy()
        greedy[targets] = scores[1].cpu().numpy()
        path = stretch.path_after(forest)
        progress(stretch.stop - start)
        start = stretch.stop
    return TargetScores(logprobs, greedy)


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that the memory of the CPU or the GPU ran out."""
    # On a CPU and in some CUDA libraries, only the message of a RuntimeError tells.
    message = str(error).lower()
    is_of_torch = isinstance(error, torch.OutOfMemoryError)
    return is_of_torch or "out of memory" in message or "can't allocate memory" in message


def _free_memory(budget: PassBudget) -> None:
    """Release unused memory and log the halved budget of the next pass."""
    logger.warning("out of memory; going on with %d tokens a forward pass", budget.tokens)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def find_engine(
    model: PreTrainedModel, vocab_size: int, max_length: int, record: Recorder = record_nothing
) -> PackedEngine | None:
    """Build an engine and test whether it gives the model's own log-probabilities.

    The test scores a few random token sequences that share beginnings, first with the engine and
    then one by one with the model.

    Args:
        model: The language model of transformers.
        vocab_size: The random token ids are below this number.
        max_length: How many tokens the model can read.
        record: Records the hidden states that a decoding method needs.

    Returns:
        The engine, or None if it fails or its log-probabilities differ from the model's, as with
        state-space models.
    """
    if _depends_on_longest_input(model.config):
        logger.info("the model's rotary embeddings depend on the longest input of a batch")
        return None
    # Every token after the first is a target, so that all positions are compared.
    sequences = _trial_sequences(vocab_size, max_length)
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
        # Models with unknown parts fail in various ways. They are scored without an engine.
        logger.info("packed passes: %s: %s", type(error).__name__, error)
        return None

    tolerance = _TOLERANCE.get(next(model.parameters()).dtype, _TOLERANCE[torch.float32])
    for sequence, targets in zip(sequences, forest.answers, strict=True):
        tokens = torch.tensor([sequence], device=device_of(model))
        expected = torch.log_softmax(
            model(input_ids=tokens[:, :-1]).logits[0].double().cpu(), dim=-1
        )
        next_tokens = tokens[0, 1:, None].cpu()
        logprobs = expected.gather(1, next_tokens)[:, 0].numpy()
        largest_error = float(np.max(np.abs(scores.logprobs[targets] - logprobs)))
        # A NaN is not within the tolerance either.
        if not largest_error <= tolerance * float(expected.std(dim=-1).mean()):
            logger.info("packed passes: off by %.2g nats a token", largest_error)
            return None
    return engine


def _depends_on_longest_input(config: PretrainedConfig) -> bool:
    """Return whether the model's rotary embeddings change with the longest input of a pass.

    Then a token's hidden state depends on unrelated requests and cannot be shared.
    """
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    # Some models have parameters for each kind of layer.
    layers = [layer for layer in (rope, *rope.values()) if isinstance(layer, dict)]
    return any(layer.get("rope_type") in ("dynamic", "longrope") for layer in layers)


def _trial_sequences(vocab_size: int, max_length: int) -> list[list[int]]:
    """Draw seven random token sequences, some with a common beginning and some without.

    Args:
        vocab_size: Token ids are drawn from 0 to below this number.
        max_length: How many tokens the model can read. It limits the length of the sequences.

    Returns:
        The token ids of each sequence. They are the same in every run.
    """
    unit = max(2, min(6, (max_length - 1) // 4))
    tokens = np.random.default_rng(0).integers(0, vocab_size, (7, 4 * unit))
    # Three sequences share three quarters of their tokens, and two more share one half.
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
    """Score the trees of a forest in several threads, each with its own copy of the engine.

    If the forest or the budget is too small to be divided, one thread scores everything.

    Args:
        forest: The tokens of all requests.
        engine: Runs the model. Its copies share the weights.
        budget: The limits of the forward passes that run at the same time, taken together.
        score: Scores one part of the forest with an engine and a budget.
        cores: The largest number of threads.

    Returns:
        The scores of all targets, in the order of the forest's targets.
    """
    count = max(1, min(cores, budget.tokens // _LEAST, len(forest) // _LEAST))
    size = max(_LEAST, len(forest) // (_SHARE * count))
    groups = _group_trees(forest, min(budget.tokens // count, size))
    if min(count, len(groups)) < 2 or len(groups) * forest.stem * _SHARE > len(forest):
        return score(forest, engine, budget)

    thread_budget = PassBudget(budget.tokens // count, max(1, budget.targets // count))

    def score_group(bounds: tuple[int, int]) -> TargetScores:
        start, stop = bounds
        return score(forest.above_stem(start, stop), copy.copy(engine), thread_budget)

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
    """Divide the trees above the shared beginning into groups of consecutive trees.

    Args:
        forest: The forest. Its trees begin after the tokens that all inputs share.
        size: The most positions of a group. A larger tree is a group by itself.

    Returns:
        The first position of each group and the position after its last.
    """
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
