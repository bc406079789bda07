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

from lm_factuality.models.tree.forest import Forest, Stretch

# So many logits are turned into probabilities at a time.
_SLICE = 1 << 25

Pick = Callable[[Tensor], Tensor]
"""Takes the wanted positions out of hidden states of shape [1, positions, width]."""

Recorder = Callable[[Pick], contextlib.AbstractContextManager[Sequence[Tensor]]]
"""While the context lasts, each forward pass leaves picked hidden states in the sequence."""

Rescore = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""Makes log-probabilities from logits, both [positions, vocabulary], and what they are
contrasted with."""


class UnsupportedModelError(Exception):
    """An engine would compute something else than the model. The message says what."""


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
    """The `Recorder` of a model whose hidden states nobody needs."""
    return contextlib.nullcontext(())


def needed_logits(
    model: Any, forest: Forest, stretch: Stretch, record: Recorder, **inputs: Any
) -> Logits:
    """Run the model on the stretch as one sequence.

    Args:
        record: Records the hidden states that the logits are contrasted with.
        **inputs: Further inputs of the model. ``input_ids`` are those of the stretch.
    """
    device = device_of(model)
    own_targets = forest.targets_between(stretch.start, stretch.stop)
    targets = forest.target_positions[own_targets] - stretch.start
    positions, rows = np.unique(targets, return_inverse=True)
    kept = torch.from_numpy(positions)
    if accepts(model, "logits_to_keep"):
        # Some models take an empty list for all positions, so one position stands in for none.
        inputs["logits_to_keep"] = (kept if len(kept) else torch.tensor([0])).to(device)
    tokens = torch.from_numpy(forest.tokens[stretch.start : stretch.stop])
    with record(lambda states: states[0, kept.to(states.device)]) as contrast:
        values = model(input_ids=tokens[None].to(device), **inputs).logits[0]
    wanted = torch.arange(len(kept)) if "logits_to_keep" in inputs else kept
    values = values[wanted.to(values.device)]
    return Logits(values, torch.from_numpy(rows.reshape(-1)), tuple(contrast))


def accepts(model: Any, parameter: str) -> bool:
    """Return whether the model's forward pass has a parameter of that name."""
    return parameter in inspect.signature(model.forward).parameters


def device_of(model: Any) -> torch.device:
    """Return the device that the model wants its tokens on."""
    device: torch.device = model.get_input_embeddings().weight.device
    return device


def read_off(
    logits: Logits, tokens: Tensor, dtype: torch.dtype | None, rescore: Rescore | None = None
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target and whether it is the likeliest token.

    Args:
        tokens: The token that each target asks for, shape [targets].
        dtype: The precision of the softmax. None takes that of the logits, but at least float32:
            rounding -10 to bfloat16 moves it by up to 0.03.
        rescore: Replaces the softmax where a decoding method decides.

    Returns:
        Log-probabilities in nats and truth values, both of shape [targets].
    """
    values = logits.values
    if dtype is None:
        dtype = torch.promote_types(values.dtype, torch.float32)
    rows = logits.rows.to(values.device)
    tokens = tokens.to(values.device)
    logprobs = torch.empty(len(rows), dtype=dtype, device=values.device)
    greedy = torch.empty(len(rows), dtype=torch.bool, device=values.device)
    step = max(1, _SLICE // (values.shape[-1] * (1 + len(logits.contrast))))
    for start in range(0, len(values), step):
        part = values[start : start + step]
        chosen = torch.nonzero((rows >= start) & (rows < start + step)).squeeze(1)
        part_rows = rows[chosen] - start
        part_tokens = tokens[chosen]
        if rescore is None:
            total = torch.logsumexp(part.to(dtype), dim=-1)
            logprobs[chosen] = part[part_rows, part_tokens].to(dtype) - total[part_rows]
        else:
            contrast = [tensor[start : start + step] for tensor in logits.contrast]
            part = rescore(part.to(dtype), contrast)
            logprobs[chosen] = part[part_rows, part_tokens].to(dtype)
        greedy[chosen] = part.argmax(dim=-1)[part_rows] == part_tokens
    return logprobs, greedy
