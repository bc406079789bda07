"""Log-probabilities of a trie's targets, and whether a model can be trusted with an engine.

`hf_tree` scores requests with it, and factor-gen's fluency filter scores sentences. On a CPU a pass
that is spread over cores waits after each of its operators for the slowest core. Passes that share
nothing never wait, so branches of the trie are scored in separate threads there.
"""

import contextlib
import copy
import gc
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PretrainedConfig, PreTrainedModel

from lm_factuality.models.tree.logits import (
    Recorder,
    Rescore,
    TargetScores,
    UnsupportedModelError,
    device_of,
    record_nothing,
    score_targets,
)
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.trie import PassRange, TokenTrie, build_trie, next_pass_range

logger = logging.getLogger(__name__)
# How far an engine's log-probability may differ from the model's own. The unit is the standard
# deviation of the model's log-probabilities over the vocabulary.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.25}
# The errors of models with unknown parts, which fail in various ways.
_ENGINE_FAILURES = (
    UnsupportedModelError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
# A pass of at least so many tokens keeps one core busy.
_MIN_TOKENS_PER_THREAD = 256
# Each thread gets at least so many groups of branches, so that none waits long for the last.
_MIN_GROUPS_PER_THREAD = 4
# Threads may compute at most this share of all positions again. Otherwise one thread is as fast.
_MAX_REPEATED_SHARE = 0.25


@dataclass
class PassBudget:
    """The largest number of tokens and targets that one forward pass may hold."""

    tokens: int
    """How many tokens the model may read in one pass."""

    targets: int
    """How many positions of one pass may need logits."""

    def halve(self) -> None:
        """Halve both limits permanently, after memory has run out."""
        self.tokens //= 2
        self.targets = max(1, self.targets // 2)

    def divide(self, num_threads: int) -> "PassBudget":
        """Return the budget of each of several threads that run passes at the same time."""
        return PassBudget(
            tokens=self.tokens // num_threads, targets=max(1, self.targets // num_threads)
        )


def score_trie(
    trie: TokenTrie,
    engine: PackedEngine,
    budget: PassBudget,
    softmax_dtype: torch.dtype | None = None,
    rescore: Rescore | None = None,
    progress: Callable[[int], Any] = lambda positions: None,
) -> TargetScores:
    """Score the targets of a trie, i.e. the tokens whose log-probability is asked for.

    Args:
        trie: The tokens of all requests, with each shared beginning stored once.
        engine: Runs the model on consecutive positions of the trie.
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
    parts = [TargetScores(np.empty(0), np.empty(0, dtype=np.bool_))]
    start = 0
    # The ancestors of position ``start``, whose keys and values the engine keeps.
    ancestors = np.empty(0, dtype=np.int64)

    while start < len(trie):
        pass_range = next_pass_range(trie, start, ancestors, budget.tokens, budget.targets)
        scores = _score_pass(trie, engine, pass_range, budget, softmax_dtype, rescore)
        if scores is None:
            # Memory ran out. The pass is tried again with half the tokens.
            logger.warning("out of memory; going on with %d tokens a forward pass", budget.tokens)
            _free_memory()
            continue
        parts.append(scores)
        ancestors = pass_range.next_ancestors(trie)
        progress(pass_range.stop - start)
        start = pass_range.stop
    # Targets are in the order of their positions, so the targets of one pass follow those of the
    # pass before.
    return TargetScores.concatenate(parts)


def _score_pass(
    trie: TokenTrie,
    engine: PackedEngine,
    pass_range: PassRange,
    budget: PassBudget,
    softmax_dtype: torch.dtype | None,
    rescore: Rescore | None,
) -> TargetScores | None:
    """Score the targets of one forward pass, or halve the budget if memory runs out.

    Returns:
        The scores, or None if memory ran out. The tensors of the pass are free once this function
        has returned, because no exception refers to them any more.
    """
    targets = trie.targets_between(pass_range.start, pass_range.stop)
    tokens = torch.from_numpy(trie.target_tokens[targets])
    try:
        # No variable holds the logits, so that their memory is free before the next pass.
        return score_targets(engine.run(trie, pass_range), tokens, softmax_dtype, rescore)
    except RuntimeError as error:
        # A pass of one token cannot become smaller.
        if not _is_out_of_memory(error) or budget.tokens <= 1:
            raise
        budget.halve()
        return None


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that the memory of the CPU or the GPU ran out."""
    # On a CPU and in some CUDA libraries, only the message of a RuntimeError tells.
    message = str(error).lower()
    is_of_torch = isinstance(error, torch.OutOfMemoryError)
    return is_of_torch or "out of memory" in message or "can't allocate memory" in message


def _free_memory() -> None:
    """Release unused memory of Python and of the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def build_tested_engine(
    model: PreTrainedModel, vocab_size: int, max_length: int, recorder: Recorder = record_nothing
) -> PackedEngine | None:
    """Build an engine and test whether it gives the model's own log-probabilities.

    The test scores a few random token sequences that share beginnings, first with the engine and
    then one by one with the model.

    Args:
        model: The language model of transformers.
        vocab_size: The random token ids are below this number.
        max_length: How many tokens the model can read.
        recorder: Records the hidden states that a decoding method needs.

    Returns:
        The engine, or None if it fails or its log-probabilities differ from the model's, as with
        state-space models.
    """
    if _depends_on_longest_input(model.config):
        logger.info("the model's rotary embeddings depend on the longest input of a batch")
        return None
    # Every token after the first is a target, so that all positions are compared.
    sequences = _trial_sequences(vocab_size, max_length)
    trie = build_trie(sequences, [len(sequence) - 1 for sequence in sequences])
    # A third of the tokens in each pass cuts the trie twice. The test then includes the ancestors
    # that are kept between passes.
    budget = PassBudget(tokens=len(trie) // 3 + 1, targets=len(trie))
    try:
        engine = PackedEngine(model, recorder)
        scores = score_trie(trie, engine, budget)
    except _ENGINE_FAILURES as error:
        if isinstance(error, RuntimeError) and _is_out_of_memory(error):
            raise
        logger.info("packed passes: %s: %s", type(error).__name__, error)
        return None

    agrees = all(
        _agrees_with_model(model, sequence, scores.logprobs[targets])
        for sequence, targets in zip(sequences, trie.targets_by_request, strict=True)
    )
    return engine if agrees else None


def _depends_on_longest_input(config: PretrainedConfig) -> bool:
    """Return whether the model's rotary embeddings change with the longest input of a pass.

    Then a token's hidden state depends on unrelated requests and cannot be shared.
    """
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    # Some models have parameters for each kind of layer.
    layers = [layer for layer in (rope, *rope.values()) if isinstance(layer, dict)]
    return any(layer.get("rope_type") in ("dynamic", "longrope") for layer in layers)


def _trial_sequences(vocab_size: int, max_length: int) -> list[list[int]]:
    """Draw seven random token sequences, most of which begin like the first one.

    Args:
        vocab_size: Token ids are drawn from 0 to below this number.
        max_length: How many tokens the model can read. It limits the length of the sequences.

    Returns:
        The token ids of each sequence. They are the same in every run.
    """
    # The longest sequence has four quarters, i.e. up to 24 tokens, so that the test is fast.
    quarter = max(2, min(6, (max_length - 1) // 4))
    # For each sequence, the number of tokens that it shares with the longest, and its length.
    shapes = (
        (0, 4 * quarter),  # the longest
        (3 * quarter, 3 * quarter + 2),  # leaves it after three quarters
        (3 * quarter, 3 * quarter),  # ends within it
        (2 * quarter, 3 * quarter + 1),  # leaves it after two quarters
        (2 * quarter, 3 * quarter),  # leaves it at the same point
        (0, quarter),  # shares nothing
        (0, 3 * quarter),
    )
    random_tokens = np.random.default_rng(0).integers(0, vocab_size, (len(shapes), 4 * quarter))
    longest = random_tokens[0].tolist()
    sequences = []
    for tokens, (num_shared, length) in zip(random_tokens.tolist(), shapes, strict=True):
        sequences.append([*longest[:num_shared], *tokens[num_shared:length]])
    return sequences


def _agrees_with_model(
    model: PreTrainedModel, sequence: Sequence[int], logprobs: npt.NDArray[np.float64]
) -> bool:
    """Return whether the model by itself gives the same log-probabilities, up to rounding.

    Args:
        model: The language model of transformers.
        sequence: Token ids, which the model reads as a single input.
        logprobs: The engine's log-probability of each token after the first, in nats.
    """
    tokens = torch.tensor([sequence], device=device_of(model))
    logits = model(input_ids=tokens[:, :-1]).logits[0].double().cpu()
    # First the log-probabilities of all tokens at each position, then only the log-probability of
    # the token that follows.
    distributions = torch.log_softmax(logits, dim=-1)
    next_tokens = tokens[0, 1:, None].cpu()
    expected_logprobs = distributions.gather(1, next_tokens)[:, 0].numpy()
    largest_error = float(np.max(np.abs(logprobs - expected_logprobs)))

    # Rounding errors grow with the logits, whose size the spread of a distribution shows.
    dtype = next(model.parameters()).dtype
    spread = float(distributions.std(dim=-1).mean())
    tolerance = spread * _TOLERANCE.get(dtype, _TOLERANCE[torch.float32])
    # A NaN is not within the tolerance either.
    is_within = largest_error <= tolerance
    if not is_within:
        logger.info("packed passes: off by %.2g nats a token", largest_error)
    return is_within


def score_in_threads(
    trie: TokenTrie,
    engine: PackedEngine,
    budget: PassBudget,
    score: Callable[[TokenTrie, PackedEngine, PassBudget], TargetScores],
    cores: int,
) -> TargetScores:
    """Score the branches of a trie in several threads, each with its own copy of the engine.

    A branch is a subtree after the tokens that all inputs begin with. If the trie or the budget
    is too small to be divided, one thread scores everything.

    Args:
        trie: The tokens of all requests.
        engine: Runs the model. Its copies share the weights.
        budget: The limits of the forward passes that run at the same time, taken together.
        score: Scores one part of the trie with an engine and a budget.
        cores: The largest number of threads.

    Returns:
        The scores of all targets, in the order of the trie's targets.
    """
    # Each thread needs enough tokens to keep its core busy. The budget limits the tokens that are
    # computed at the same time, and a small trie has fewer.
    tokens_at_once = min(budget.tokens, len(trie))
    num_threads = max(1, min(cores, tokens_at_once // _MIN_TOKENS_PER_THREAD))
    thread_budget = budget.divide(num_threads)
    groups = _plan_groups(trie, num_threads, thread_budget.tokens)
    if num_threads == 1 or len(groups) == 1:
        return score(trie, engine, budget)

    def score_group(group: range) -> TargetScores:
        """Score a group of branches in a thread. Only running threads hold a part of the trie."""
        branches = trie.select_branches(group.start, group.stop)
        # The copy shares the weights, but stores keys and values of its own.
        return score(branches, copy.copy(engine), thread_budget)

    with _thread_pool(num_threads, cores) as pool:
        return TargetScores.concatenate(list(pool.map(score_group, groups)))


def _plan_groups(trie: TokenTrie, num_threads: int, max_pass_size: int) -> list[range]:
    """Divide the branches of a trie into groups, each of which one thread computes at a time.

    Args:
        trie: The tokens of all requests.
        num_threads: The number of threads.
        max_pass_size: How many positions one thread may compute at once.

    Returns:
        The positions of each group. There is one group if more would cost more than they save.
    """
    # Small groups spread evenly over the threads. A group is large enough to keep a core busy, and
    # is computed in one pass.
    even_size = len(trie) // (_MIN_GROUPS_PER_THREAD * num_threads)
    max_size = min(max_pass_size, max(_MIN_TOKENS_PER_THREAD, even_size))
    groups = _group_branches(trie, max_size)
    # Every group computes the tokens again that all inputs begin with.
    num_repeated = len(groups) * trie.common_length
    is_worthwhile = num_repeated <= _MAX_REPEATED_SHARE * len(trie)
    return groups if is_worthwhile else [range(len(trie))]


@contextlib.contextmanager
def _thread_pool(num_threads: int, cores: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads that share the cores evenly.

    Args:
        num_threads: The number of threads.
        cores: How many threads PyTorch may use in all. It is set to this number again at the end.
    """
    # PyTorch's own threads must not compete for the same cores.
    cores_per_thread = max(1, cores // num_threads)
    pool = ThreadPoolExecutor(num_threads, "tree", torch.set_num_threads, (cores_per_thread,))
    try:
        with pool:
            yield pool
    finally:
        # A thread may have set the number for the whole process.
        torch.set_num_threads(cores)


def _group_branches(trie: TokenTrie, max_size: int) -> list[range]:
    """Divide the branches after the common beginning into groups of consecutive branches.

    For example, branches of 3, 4 and 9 positions after one common token become the groups
    range(1, 8) and range(8, 17) if ``max_size`` is 8.

    Args:
        trie: The trie. A branch begins at each position after the tokens that all inputs share.
        max_size: The most positions of a group. A larger branch is a group by itself.

    Returns:
        The positions of each group.
    """
    groups: list[range] = []
    group_start = trie.common_length
    branch_starts = np.flatnonzero(trie.depths == trie.common_length).tolist()
    # A branch ends where the next one starts, and the last one where the trie ends.
    for branch_start, branch_end in itertools.pairwise([*branch_starts, len(trie)]):
        is_first_of_group = branch_start == group_start
        would_be_too_large = branch_end - group_start > max_size
        if would_be_too_large and not is_first_of_group:
            groups.append(range(group_start, branch_start))
            group_start = branch_start
    groups.append(range(group_start, len(trie)))
    return groups
