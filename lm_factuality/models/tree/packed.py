"""One forward pass over a stretch of the forest, without padding: the trees lie side by side, and
attention keeps them apart.

Everything in a transformer but attention treats positions one by one, so a stretch goes through as
a single sequence with its own position numbers. Attention is replaced through transformers'
interface: each block of queries attends to its own path. What a layer's mask lets a query see (a
sliding window, a chunk) is asked of the model's own mask function, with depths for positions."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from lm_factuality.models.tree.batches import MOST_KEYS, Batch, batched, before
from lm_factuality.models.tree.cached import (
    Logits,
    Recorder,
    UnsupportedModelError,
    needed_logits,
    no_exits,
)
from lm_factuality.models.tree.forest import Forest, Ints, Stretch, blocks

_NAME = "lm_factuality_forest"
_IGNORED = {"cache_position", "position_ids"}  # tensors that come along and change nothing

KeysAndValues = dict[
    int, tuple[Tensor, Tensor]
]  # by layer, each of shape [1, heads, positions, head size]


@dataclass(frozen=True)
class _Visibility:
    """Stands for a mask in the model: which positions a layer may see, as a function of (batch,
    head, query, key)."""

    function: Callable[..., Any]


@dataclass
class _Pass:
    """What attention has to know of the forward pass under way; ``batches`` and ``rows`` as
    ``batched`` gives them."""

    batches: list[Batch]
    rows: Ints
    num_before: int
    before: KeysAndValues
    kept: (
        Ints  # what the next pass needs the keys and values of, numbered from the stretch's path on
    )
    after: KeysAndValues = field(default_factory=dict)
    masks: dict[tuple[int, int], Tensor | None] = field(default_factory=dict)
    moved: dict[torch.device, "_Numbers"] = field(default_factory=dict)

    def on(self, device: torch.device) -> "_Numbers":
        """Moved to a device once a pass: each move waits until the device has done all that it was
        asked to."""
        if device not in self.moved:
            pairs = [
                (_moved(each.queries, device), _moved(each.keys, device)) for each in self.batches
            ]
            own = [queries - self.num_before for queries, _ in pairs]
            self.moved[device] = _Numbers(
                pairs, own, _moved(self.rows, device), _moved(self.kept, device)
            )
        return self.moved[device]


@dataclass(frozen=True)
class _Numbers:
    """Of a pass on a device: queries and keys of each batch, the queries counted from the stretch's
    start, and what it has so."""

    batches: list[tuple[Tensor, Tensor]]
    own: list[Tensor]
    rows: Tensor
    kept: Tensor


def _moved(numbers: Ints, device: torch.device) -> Tensor:
    return torch.from_numpy(numbers).to(device)


_current: ContextVar[_Pass] = ContextVar("_current")  # each thread's own


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """In the place of a layer's attention: queries, keys and values of shape [1, heads, positions,
    head size]."""
    unknown = {
        name for name, given in others.items() if isinstance(given, Tensor) and name not in _IGNORED
    }
    if unknown or not isinstance(attention_mask, _Visibility) or query.shape[0] != 1:
        raise UnsupportedModelError(
            f"attention with {', '.join(sorted(unknown)) or 'a mask of its own'}"
        )
    current, device = _current.get(), query.device
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    if layer in current.before:
        earlier_key, earlier_value = current.before[layer]
        key, value = torch.cat([earlier_key, key], dim=2), torch.cat([earlier_value, value], dim=2)
    numbers = current.on(device)
    current.after[layer] = (key.index_select(2, numbers.kept), value.index_select(2, numbers.kept))
    found = []
    for number, (_, keys) in enumerate(numbers.batches):
        mask = _mask(current, number, attention_mask, query)
        states = (_gather(query, numbers.own[number]), _gather(key, keys), _gather(value, keys))
        found.append(_attend(*states, mask, scaling, softcap, s_aux).transpose(1, 2).flatten(0, 1))
    return torch.cat(found).index_select(0, numbers.rows)[None], None


def _gather(states: Tensor, numbers: Tensor) -> Tensor:
    """Of states of shape [1, heads, positions, size] those of ``numbers``, [blocks, count], as
    [blocks, heads, count, size]."""
    found = states[0].index_select(1, numbers.reshape(-1))
    return found.view(len(found), *numbers.shape, -1).transpose(0, 1)


def _mask(current: _Pass, number: int, visibility: _Visibility, query: Tensor) -> Tensor | None:
    """Of shape [blocks, 1, queries, keys], 0 where a query sees a key and -inf elsewhere; None for
    plain causal attention."""
    device, name = query.device, (number, id(visibility))
    if name not in current.masks:
        batch, (queries, keys) = current.batches[number], current.on(device).batches[number]
        depth, key_depth = (
            _moved(batch.query_depth, device)[:, :, None],
            _moved(batch.key_depth, device)[:, None, :],
        )
        first = torch.zeros(1, 1, 1, dtype=torch.long, device=device)
        seen = torch.as_tensor(visibility.function(first, first, depth, key_depth)).expand(
            *queries.shape, keys.shape[1]
        )
        if batch.is_chain and torch.equal(seen, key_depth <= depth):
            current.masks[name] = None
        else:
            hidden = ~(seen & before(queries, keys, _moved(batch.ends, device)))
            mask = torch.zeros(hidden.shape, dtype=query.dtype, device=device).masked_fill_(
                hidden, float("-inf")
            )
            current.masks[name] = mask[:, None]
    found = current.masks[name]
    return None if found is None else found.to(device)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Of shape [blocks, heads, queries, value size]; ``sinks`` are logits, one a head, of a key
    that nothing comes from."""
    shares = query.shape[1] // key.shape[1]
    if shares > 1:
        key, value = key.repeat_interleave(shares, dim=1), value.repeat_interleave(shares, dim=1)
    if softcap is None and sinks is None:
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scaling
        )
    scores = (query @ key.transpose(-1, -2)) * (
        query.shape[-1] ** -0.5 if scaling is None else scaling
    )
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is None:
        mask = torch.full(
            scores.shape[-2:], float("-inf"), dtype=scores.dtype, device=scores.device
        ).triu(1)
    scores = scores + mask
    if sinks is not None:
        scores = torch.cat(
            [scores, sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], dim=-1
        )
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return weights[..., : key.shape[2]] @ value


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, lambda *, mask_function, **_: _Visibility(mask_function))


class PackedEngine:
    """Computes stretches one after another, from the first on; keeps the keys and values of the
    path to the next."""

    name = "packed"

    def __init__(self, model: Any, exits: Recorder = no_exits) -> None:
        if not getattr(model, "_can_set_attn_implementation", lambda: False)():
            raise UnsupportedModelError("its attention does not go through transformers' interface")
        self._model, self._exits = model, exits
        self._attention = _ForestAttention(model)  # which copies of the engine share
        self._before: KeysAndValues = {}

    def restart(self) -> None:
        """Forgets the path: the next stretch is the first of a forest."""
        self._before = {}

    def limit(self, forest: Forest, stretch: Stretch) -> Stretch:
        """Any stretch will do."""
        return stretch

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        """The logits of the stretch's targets. Raises UnsupportedModelError: positions are mixed by
        more than that attention."""
        own = slice(stretch.start, stretch.stop)
        device = self._model.get_input_embeddings().weight.device
        kept = np.flatnonzero(
            np.concatenate([forest.end[stretch.path], forest.end[own]]) > stretch.stop
        )
        batches, rows = batched(blocks(forest, stretch), 0 if device.type == "cpu" else MOST_KEYS)
        current = _Pass(batches, rows, len(stretch.path), self._before, kept)
        inputs = {
            "input_ids": torch.from_numpy(forest.tokens[own])[None].to(device),
            "position_ids": torch.from_numpy(forest.depth[own])[None].to(device),
            "attention_mask": torch.ones(
                1, stretch.stop - stretch.start, dtype=torch.long, device=device
            ),
        }
        token = _current.set(current)
        try:
            with self._attention:
                logits = needed_logits(
                    self._model, forest, stretch, self._exits, **inputs, use_cache=False
                )
        finally:
            _current.reset(token)
        num_layers = self._model.config.get_text_config().num_hidden_layers
        if len(current.after) != num_layers:
            raise UnsupportedModelError(
                f"attention in {len(current.after)} of its {num_layers} layers"
            )
        self._before = current.after if len(current.kept) else {}
        return logits


class _ForestAttention:
    """A model with the attention above while passes are under way; with its own again after the
    last, for generation."""

    def __init__(self, model: Any) -> None:
        self._model, self._lock, self._passes = model, Lock(), 0
        self._before: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._passes:
                configs = {
                    id(each.config): each.config
                    for each in self._model.modules()
                    if hasattr(each, "config")
                }
                has_one = (
                    each
                    for each in configs.values()
                    if hasattr(each, "_attn_implementation_internal")
                )
                self._before = [(config, config._attn_implementation) for config in has_one]
                self._model.set_attn_implementation(_NAME)
            self._passes += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._passes -= 1
            for config, name in [] if self._passes else self._before:
                config._attn_implementation_internal = name
