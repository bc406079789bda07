"""One forward pass with logits only where a target follows, and log-probabilities from them.

All engines call it, so that none computes or holds a vocabulary's logits at other positions.
"""

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lm_factuality.models.tree.forest import Forest, Stretch

# At most so many logits are turned into probabilities at a time, to limit memory.
_SLICE = 1 << 25

Pick = Callable[[Tensor], Tensor]
"""Selects positions from hidden states of shape [1, positions, width]."""

Recorder = Callable[[Pick], contextlib.AbstractContextManager[Sequence[Tensor]]]
"""A context manager in which each forward pass stores the selected hidden states."""

Rescore = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""Turns logits into log-probabilities in nats, both of shape [positions, vocabulary].

The second argument holds the hidden states or weaker logits that a decoding method contrasts.
"""


class UnsupportedModelError(Exception):
    """The engine cannot reproduce this model's results. The message names the feature."""


@dataclass(frozen=True)
class Logits:
    """The logits that the targets of a stretch need."""

    values: Tensor
    """Shape [positions, vocabulary]."""

    rows: Tensor
    """The row of ``values`` for each target of the stretch."""

    contrast: tuple[Tensor, ...] = ()
    """Hidden states or another model's logits at the same positions, each [positions, ...]."""


def record_nothing(pick: Pick) -> contextlib.AbstractContextManager[Sequence[Tensor]]:
    """Return a context that records no hidden states, for models without a decoding method."""
    return contextlib.nullcontext(())


def needed_logits(
    model: PreTrainedModel, forest: Forest, stretch: Stretch, record: Recorder, **inputs: Any
) -> Logits:
    """Run the model once and return logits only for the positions that are followed by a target.

    Args:
        model: The language model of transformers.
        forest: The tokens of all requests, and the target tokens to score.
        stretch: The consecutive positions of the forest that the model reads as one sequence.
        record: Records the hidden states that a decoding method needs.
        **inputs: Further inputs of the model, such as ``position_ids``.

    Returns:
        The logits at these positions, and which of them belongs to each target.
    """
    device = device_of(model)
    stretch_targets = forest.targets_between(stretch.start, stretch.stop)
    # Number the positions from the start of the sequence that the model reads.
    offsets = forest.target_positions[stretch_targets] - stretch.start
    positions, rows = np.unique(offsets, return_inverse=True)
    kept = torch.from_numpy(positions)

    if accepts(model, "logits_to_keep"):
        # Some models take an empty list for all positions, so one position stands in for none.
        inputs["logits_to_keep"] = (kept if len(kept) else torch.tensor([0])).to(device)
    tokens = torch.from_numpy(forest.tokens[stretch.start : stretch.stop])
    with record(lambda states: states[0, kept.to(states.device)]) as contrast:
        values = model(input_ids=tokens[None].to(device), **inputs).logits[0]

    # A model without ``logits_to_keep`` returns logits at all positions.
    value_rows = torch.arange(len(kept)) if "logits_to_keep" in inputs else kept
    values = values[value_rows.to(values.device)]
    return Logits(values, torch.from_numpy(rows.reshape(-1)), tuple(contrast))


def accepts(model: PreTrainedModel, parameter: str) -> bool:
    """Return whether the model's forward pass has a parameter of that name."""
    return parameter in inspect.signature(model.forward).parameters


def device_of(model: PreTrainedModel) -> torch.device:
    """Return the device of the model's input embedding, to which token ids must be moved."""
    device: torch.device = model.get_input_embeddings().weight.device
    return device


def read_off(
    logits: Logits, tokens: Tensor, dtype: torch.dtype | None, rescore: Rescore | None = None
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target and whether it is the likeliest token.

    Args:
        logits: The logits at the positions before the targets.
        tokens: The token that each target stands for, shape [targets].
        dtype: The precision of the softmax. None takes that of the logits, but at least float32:
            rounding -10 to bfloat16 moves it by up to 0.03.
        rescore: The function of a decoding method that replaces the softmax.

    Returns:
        Log-probabilities in nats and booleans, both of shape [targets].
    """
    values = logits.values
    if dtype is None:
        dtype = torch.promote_types(values.dtype, torch.float32)
    rows = logits.rows.to(values.device)
    tokens = tokens.to(values.device)
    logprobs = torch.empty(len(rows), dtype=dtype, device=values.device)
    greedy = torch.empty(len(rows), dtype=torch.bool, device=values.device)

    # Work on a few positions at a time, because a full softmax of all would need much memory.
    step = max(1, _SLICE // (values.shape[-1] * (1 + len(logits.contrast))))
    for start in range(0, len(values), step):
        part = values[start : start + step]
        is_in_part = (rows >= start) & (rows < start + step)
        targets = torch.nonzero(is_in_part).squeeze(1)
        part_rows = rows[targets] - start
        part_tokens = tokens[targets]
        if rescore is None:
            total = torch.logsumexp(part.to(dtype), dim=-1)
            logprobs[targets] = part[part_rows, part_tokens].to(dtype) - total[part_rows]
        else:
            contrast = [tensor[start : start + step] for tensor in logits.contrast]
            part = rescore(part.to(dtype), contrast)
            logprobs[targets] = part[part_rows, part_tokens].to(dtype)
        greedy[targets] = part.argmax(dim=-1)[part_rows] == part_tokens
    return logprobs, greedy
