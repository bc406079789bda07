"""One forward pass with logits only where a target follows, and log-probabilities from them.

All engines call it, so that none computes or holds a vocabulary's logits at other positions.
"""

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lm_factuality.models.tree.trie import PassRange, TokenTrie

# At most so many logits are turned into probabilities at a time, to limit memory.
_MAX_LOGITS_AT_ONCE = 1 << 25

SelectPositions = Callable[[Tensor], Tensor]
"""Selects positions from hidden states of shape [1, positions, width]."""

Recorder = Callable[[SelectPositions], contextlib.AbstractContextManager[Sequence[Tensor]]]
"""A context manager in which each forward pass stores the selected hidden states."""

Rescore = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""Turns logits into log-probabilities in nats, both of shape [positions, vocabulary].

The second argument holds the hidden states or weaker logits that a decoding method contrasts.
"""


class UnsupportedModelError(Exception):
    """The engine cannot reproduce this model's results. The message names the feature."""


@dataclass(frozen=True)
class TargetLogits:
    """The logits that the targets of a forward pass need."""

    values: Tensor
    """Shape [positions, vocabulary]."""

    rows: Tensor
    """The row of ``values`` for each target of the pass, shape [targets]."""

    contrast: tuple[Tensor, ...]
    """Hidden states or another model's logits at the same positions, each [positions, ...]."""


@dataclass(frozen=True)
class TargetScores:
    """The scores of some targets of a trie, in the order of its targets."""

    logprobs: npt.NDArray[np.float64]
    """Log-probabilities in nats, shape [targets]."""

    is_likeliest: npt.NDArray[np.bool_]
    """Whether the target is the likeliest token, shape [targets]."""

    @classmethod
    def concatenate(cls, parts: Sequence["TargetScores"]) -> "TargetScores":
        """Return the scores of consecutive parts of a trie's targets as one."""
        logprobs = np.concatenate([part.logprobs for part in parts])
        is_likeliest = np.concatenate([part.is_likeliest for part in parts])
        return cls(logprobs, is_likeliest)


def record_nothing(select: SelectPositions) -> contextlib.AbstractContextManager[Sequence[Tensor]]:
    """Return a context that records no hidden states, for models without a decoding method."""
    return contextlib.nullcontext(())


def compute_target_logits(
    model: PreTrainedModel,
    trie: TokenTrie,
    pass_range: PassRange,
    recorder: Recorder,
    **inputs: Any,
) -> TargetLogits:
    """Run the model once and return logits only for the positions that are followed by a target.

    Args:
        model: The language model of transformers.
        trie: The tokens of all requests, and the target tokens to score.
        pass_range: The consecutive positions of the trie that the model reads as one sequence.
        recorder: Records the hidden states that a decoding method needs.
        **inputs: Further inputs of the model, such as ``position_ids``.

    Returns:
        The logits at these positions, and which of them belongs to each target.
    """
    targets = trie.targets_between(pass_range.start, pass_range.stop)
    # Number the positions from the start of the sequence that the model reads.
    offsets = trie.target_positions[targets] - pass_range.start
    # Several targets may follow the same position. Its logits are computed once, and ``rows`` says
    # for each target where they are.
    distinct_offsets, rows = np.unique(offsets, return_inverse=True)
    positions = torch.from_numpy(distinct_offsets)
    tokens = torch.from_numpy(trie.tokens[pass_range.start : pass_range.stop])

    def select_positions(states: Tensor) -> Tensor:
        return states[0, positions.to(states.device)]

    # While the model runs, the recorder fills ``contrast`` with the hidden states that the decoding
    # method contrasts, at the same positions.
    with recorder(select_positions) as contrast:
        values = _logits_at(model, positions, input_ids=tokens[None], **inputs)
    return TargetLogits(values, torch.from_numpy(rows), tuple(contrast))


def _logits_at(
    model: PreTrainedModel, positions: Tensor, input_ids: Tensor, **inputs: Any
) -> Tensor:
    """Run the model on a sequence and return the logits at some of its positions.

    Args:
        model: The language model of transformers.
        positions: The indices of tokens, in ascending order. There may be none.
        input_ids: The tokens of the sequence, shape [1, length].
        **inputs: Further inputs of the model.

    Returns:
        The logits, shape [positions, vocabulary].
    """
    device = device_of(model)
    input_ids = input_ids.to(device)
    if not can_select_logits(model):
        logits: Tensor = model(input_ids=input_ids, **inputs).logits[0]
        return logits[positions.to(logits.device)]

    # Some models take an empty list for all positions. If no position needs logits, those of
    # position 0 are therefore computed and then dropped.
    computed_positions = positions if len(positions) else torch.tensor([0])
    inputs["logits_to_keep"] = computed_positions.to(device)
    logits = model(input_ids=input_ids, **inputs).logits[0]
    return logits[: len(positions)]


def can_select_logits(model: PreTrainedModel) -> bool:
    """Return whether the model can compute logits at some positions only (``logits_to_keep``)."""
    return "logits_to_keep" in inspect.signature(model.forward).parameters


def device_of(model: PreTrainedModel) -> torch.device:
    """Return the device of the model's input embedding, to which token ids must be moved."""
    device: torch.device = model.get_input_embeddings().weight.device
    return device


def score_targets(
    logits: TargetLogits,
    tokens: Tensor,
    dtype: torch.dtype | None,
    rescore: Rescore | None,
) -> TargetScores:
    """Return the log-probability of each target and whether it is the likeliest token.

    Args:
        logits: The logits at the positions before the targets.
        tokens: The token that each target stands for, shape [targets].
        dtype: The precision of the softmax. None is the precision of the logits, at least float32:
            rounding -10 to bfloat16 moves it by up to 0.03.
        rescore: The function of a decoding method that replaces the softmax.
    """
    values = logits.values
    dtype = dtype or torch.promote_types(values.dtype, torch.float32)
    rows = logits.rows.to(values.device)
    tokens = tokens.to(values.device)
    logprobs = torch.empty(len(rows), dtype=dtype, device=values.device)
    is_likeliest = torch.empty(len(rows), dtype=torch.bool, device=values.device)

    # Work on a few positions at a time, because a full softmax of all would need much memory.
    step = max(1, _MAX_LOGITS_AT_ONCE // (values.shape[-1] * (1 + len(logits.contrast))))
    for start in range(0, len(values), step):
        stop = start + step
        targets = torch.nonzero((rows >= start) & (rows < stop)).squeeze(1)
        part = TargetLogits(
            values=values[start:stop],
            rows=rows[targets] - start,
            contrast=tuple(tensor[start:stop] for tensor in logits.contrast),
        )
        part_logprobs, is_part_likeliest = _score_part(part, tokens[targets], dtype, rescore)
        logprobs[targets] = part_logprobs
        is_likeliest[targets] = is_part_likeliest
    return TargetScores(logprobs.to("cpu", torch.float64).numpy(), is_likeliest.cpu().numpy())


def _score_part(
    logits: TargetLogits, tokens: Tensor, dtype: torch.dtype, rescore: Rescore | None
) -> tuple[Tensor, Tensor]:
    """Score some of the targets, few enough that their softmax needs little memory.

    Args:
        logits: The logits at the positions before the targets. ``logits.rows`` has for each target
            its row in ``logits.values``, because several targets may follow one position.
        tokens: The token that each target stands for, shape [targets].
        dtype: The precision of the softmax.
        rescore: The function of a decoding method that replaces the softmax. It turns logits, and
            the weaker logits or hidden states in ``logits.contrast``, into log-probabilities. None
            is the softmax.

    Returns:
        The log-probability of each target, and whether it is the likeliest token.
    """
    if rescore is None:
        scores = logits.values
        logprobs = _logprobs_at(scores, logits.rows, tokens, dtype)
    else:
        scores = rescore(logits.values.to(dtype), logits.contrast)
        logprobs = scores[logits.rows, tokens].to(dtype)
    # The likeliest token has the largest logit and the largest log-probability.
    is_likeliest = scores.argmax(dim=-1)[logits.rows] == tokens
    return logprobs, is_likeliest


def _logprobs_at(logits: Tensor, rows: Tensor, tokens: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the log-probability of one token in each of some rows of logits.

    A log-probability is the logit minus the logarithm of the sum of all exponentials.

    Args:
        logits: Shape [positions, vocabulary].
        rows: The row of each token, shape [targets].
        tokens: The tokens, shape [targets].
        dtype: The precision of the result.
    """
    log_sums = torch.logsumexp(logits.to(dtype), dim=-1)
    return logits[rows, tokens].to(dtype) - log_sums[rows]
