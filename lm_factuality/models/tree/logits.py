"""Logits where they are needed, and what is read off them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lm_factuality.models.tree.forest import Forest, Stretch


class UnsupportedModelError(Exception):
    """The model computes something that this way of sharing positions would get wrong; the message says what."""


@dataclass(frozen=True)
class Logits:
    """``values`` of shape [positions, vocabulary]; ``rows[m]`` is the row of the m-th target of the stretch."""

    values: torch.Tensor
    rows: torch.Tensor


def needed_logits(model: Any, forest: Forest, stretch: Stretch, **inputs: Any) -> Logits:
    """Calls the model on the stretch as one sequence and projects onto the vocabulary only where a target follows."""
    targets = forest.target_positions[forest.targets_between(stretch.start, stretch.stop)] - stretch.start
    positions, rows = np.unique(targets, return_inverse=True)
    keep = torch.from_numpy(positions)
    if takes(model, "logits_to_keep"):
        # An empty list would mean all to some models: one position stands in for none.
        wanted = keep if len(keep) else torch.zeros(1, dtype=torch.long)
        inputs["logits_to_keep"] = wanted.to(inputs["input_ids"].device)
        values = model(**inputs).logits[0, : len(keep)]
    else:
        found = model(**inputs).logits[0]
        values = found[keep.to(found.device)]
    return Logits(values, torch.from_numpy(rows.reshape(-1)))


def takes(model: Any, name: str) -> bool:
    """Whether the model's forward pass has a parameter of that name."""
    return name in inspect.signature(model.forward).parameters


_SLICE = 1 << 25  # logits that are turned into probabilities at a time


def read_off(logits: Logits, tokens: torch.Tensor, dtype: torch.dtype | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities in nats, shape [targets], of ``tokens``, and whether each is the likeliest token of all.

    The softmax is taken in ``dtype``, or in the logits' own, but never in less than float32: rounding a log-probability of -10
    to bfloat16 moves it by up to 0.03.
    """
    values = logits.values
    precise = dtype or (torch.float32 if values.dtype in (torch.float16, torch.bfloat16) else values.dtype)
    rows, tokens = logits.rows.to(values.device), tokens.to(values.device)
    logprobs = torch.empty(len(rows), dtype=precise, device=values.device)
    greedy = torch.empty(len(rows), dtype=torch.bool, device=values.device)
    step = max(1, _SLICE // values.shape[-1])
    for start in range(0, len(values), step):
        part = values[start : start + step]
        chosen = torch.nonzero((rows >= start) & (rows < start + step)).squeeze(1)
        where, which = rows[chosen] - start, tokens[chosen]
        total = torch.logsumexp(part.to(precise), dim=-1)
        logprobs[chosen] = part[where, which].to(precise) - total[where]
        greedy[chosen] = part.argmax(dim=-1)[where] == which
    return logprobs, greedy
