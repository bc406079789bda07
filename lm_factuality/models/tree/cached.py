"""The forest branch by branch, through the model's own key-value cache; and logits where they are
needed, for both engines.

For models whose attention transformers' interface does not reach (GPT-Neo, GPT-J, Falcon, BLOOM,
MPT): an unbroken path is computed once, its keys and values are handed to whatever follows, and
leaves that hang on the same path go side by side."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from lm_factuality.models.tree.forest import Forest, Stretch

_SIBLINGS = 16  # leaves in a batch, each with a copy of their path's keys and values
Pick = Callable[[Tensor], Tensor]
_SLICE = 1 << 25  # logits that are turned into probabilities at a time

Rescore = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""Log-probabilities, shape [positions, vocabulary], from logits of that shape and from what was
computed beside them."""


Recorder = Callable[[Pick], contextlib.AbstractContextManager[Sequence[Tensor]]]
"""Leaves what its argument takes of some hidden states of forward passes in a list."""


def no_exits(pick: Pick) -> contextlib.AbstractContextManager[Sequence[Tensor]]:
    """The ``Recorder`` of a model of whose hidden states none are wanted."""
    return contextlib.nullcontext(())


class CachedEngine:
    """As ``PackedEngine``, with smaller stretches: one path, or several leaves of the same path."""

    name = "cached"

    def __init__(self, model: Any, exits: Recorder = no_exits) -> None:
        if not takes(model, "past_key_values"):
            raise UnsupportedModelError("it has no key-value cache")
        self._model, self._exits = model, exits
        self._path: list[tuple[Tensor, Tensor]] = []

    def restart(self) -> None:
        """Forgets the path: the next stretch is the first of a forest."""
        self._path = []

    def limit(self, forest: Forest, stretch: Stretch) -> Stretch:
        """The beginning of the stretch that is one path, or leaves of one path."""
        stop = _chain_stop(forest, stretch.start, stretch.stop)
        if forest.end[stretch.start] == stop:
            longest = stop - stretch.start
            for count in range(2, _SIBLINGS + 1):
                following = stop
                if (
                    following >= stretch.stop
                    or forest.depth[following] != forest.depth[stretch.start]
                ):
                    break
                stop_of_next = _chain_stop(forest, following, stretch.stop)
                longest = max(longest, stop_of_next - following)
                too_many = longest * count > stretch.stop - stretch.start
                if too_many or forest.end[following] != stop_of_next:
                    break
                stop = stop_of_next
        return Stretch(stretch.start, stop, stretch.path)

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        """The logits of the stretch's targets. Raises UnsupportedModelError: no one key and value
        for each position and layer."""
        own, num_before = slice(stretch.start, stretch.stop), len(stretch.path)
        starts = np.flatnonzero(forest.depth[own] == num_before)
        lengths = np.diff([*starts.tolist(), stretch.stop - stretch.start])
        size = (len(starts), int(lengths.max()))
        device = self._model.get_input_embeddings().weight.device
        tokens, real = torch.zeros(size, dtype=torch.long), torch.zeros(size, dtype=torch.long)
        for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            tokens[row, :length] = torch.from_numpy(forest.tokens[own][start : start + length])
            real[row, :length] = 1
        inputs: dict[str, Any] = {
            "input_ids": tokens.to(device),
            "use_cache": True,
            "past_key_values": self._past(num_before, len(starts)),
            "attention_mask": torch.cat(
                [torch.ones(size[0], num_before, dtype=torch.long), real], dim=1
            ).to(device),
        }
        if takes(self._model, "position_ids"):
            inputs["position_ids"] = torch.arange(
                num_before, num_before + size[1], device=device
            ).expand(size)
        targets = (
            forest.target_positions[forest.targets_between(stretch.start, stretch.stop)]
            - stretch.start
        )
        positions, rows = np.unique(targets, return_inverse=True)
        branch = np.searchsorted(starts, positions, side="right") - 1
        within = torch.from_numpy(branch), torch.from_numpy(positions - starts[branch])

        def pick(states: Tensor) -> Tensor:
            return states[within[0].to(states.device), within[1].to(states.device)]

        with self._exits(pick) as beside:
            output = self._model(**inputs)
        if len(starts) == 1:
            self._path = _states(output, num_before + size[1])
        return Logits(pick(output.logits), torch.from_numpy(rows.reshape(-1)), tuple(beside))

    def _past(self, length: int, copies: int) -> DynamicCache:
        if not length:
            return DynamicCache()
        return DynamicCache(
            [
                tuple(each[:, :, :length].expand(copies, -1, -1, -1) for each in layer)
                for layer in self._path
            ]
        )


def _chain_stop(forest: Forest, start: int, limit: int) -> int:
    """The number after the last position of the unbroken path from ``start`` on."""
    branches = np.flatnonzero(forest.end[start:limit] != forest.end[start])
    return start + int(branches[0]) if len(branches) else limit


def _states(output: Any, length: int) -> list[tuple[Tensor, Tensor]]:
    layers = getattr(getattr(output, "past_key_values", None), "layers", None) or []
    states = [(getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in layers]
    if not states or any(
        not isinstance(keys, Tensor) or keys.shape[2] != length for keys, _ in states
    ):
        raise UnsupportedModelError("its cache does not hold a key for each position and layer")
    return states  # type: ignore[return-value]


class UnsupportedModelError(Exception):
    """The model computes something that this way of sharing positions would get wrong; the message
    says what."""


@dataclass(frozen=True)
class Logits:
    """``values`` of shape [positions, vocabulary]; ``rows[m]`` is the row of the m-th target of the
    stretch. ``beside`` is what else was computed at these positions, each of shape [positions,
    ...]: hidden states, or another model's logits."""

    values: Tensor
    rows: Tensor
    beside: tuple[Tensor, ...] = ()


def needed_logits(
    model: Any, forest: Forest, stretch: Stretch, exits: Recorder, **inputs: Any
) -> Logits:
    """Calls the model on the stretch as one sequence and projects onto the vocabulary only where a
    target follows."""
    targets = (
        forest.target_positions[forest.targets_between(stretch.start, stretch.stop)] - stretch.start
    )
    positions, rows = np.unique(targets, return_inverse=True)
    keep = torch.from_numpy(positions)
    if takes(model, "logits_to_keep"):
        # An empty list would mean all to some models: one position stands in for none.
        wanted = keep if len(keep) else torch.zeros(1, dtype=torch.long)
        inputs["logits_to_keep"] = wanted.to(inputs["input_ids"].device)
    with exits(lambda states: states[0, keep.to(states.device)]) as beside:
        found = model(**inputs).logits[0]
    values = found[: len(keep)] if "logits_to_keep" in inputs else found[keep.to(found.device)]
    return Logits(values, torch.from_numpy(rows.reshape(-1)), tuple(beside))


def takes(model: Any, name: str) -> bool:
    """Whether the model's forward pass has a parameter of that name."""
    return name in inspect.signature(model.forward).parameters


def read_off(
    logits: Logits, tokens: Tensor, dtype: torch.dtype | None, rescore: Rescore | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probabilities in nats, shape [targets], of ``tokens``, and whether each is the likeliest
    token of all. The softmax is taken in ``dtype``, or in the logits' own, but never below float32:
    rounding -10 to bfloat16 moves it by up to 0.03."""
    values = logits.values
    precise = dtype or (
        torch.float32 if values.dtype in (torch.float16, torch.bfloat16) else values.dtype
    )
    rows, tokens = logits.rows.to(values.device), tokens.to(values.device)
    logprobs = torch.empty(len(rows), dtype=precise, device=values.device)
    greedy = torch.empty(len(rows), dtype=torch.bool, device=values.device)
    step = max(1, _SLICE // (values.shape[-1] * (1 + len(logits.beside))))
    for start in range(0, len(values), step):
        part = values[start : start + step]
        chosen = torch.nonzero((rows >= start) & (rows < start + step)).squeeze(1)
        where, which = rows[chosen] - start, tokens[chosen]
        if rescore is None:
            total = torch.logsumexp(part.to(precise), dim=-1)
            logprobs[chosen] = part[where, which].to(precise) - total[where]
        else:
            part = rescore(part.to(precise), [each[start : start + step] for each in logits.beside])
            logprobs[chosen] = part[where, which]
        greedy[chosen] = part.argmax(dim=-1)[where] == which
    return logprobs, greedy
