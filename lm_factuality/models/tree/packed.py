"""One forward pass over a stretch of the forest without padding.

Everything in a transformer but attention treats positions one by one, so a stretch goes through the
model as a single sequence with its own position numbers. Attention is replaced through
transformers' interface: each block of queries attends to its own path. The model's own mask
function still says what a layer may see (a sliding window, a chunk).
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from lm_factuality.models.tree.batches import MOST_KEYS, Batch, batched
from lm_factuality.models.tree.forest import Forest, Stretch, blocks
from lm_factuality.models.tree.logits import (
    Logits,
    Recorder,
    UnsupportedModelError,
    device_of,
    needed_logits,
    record_nothing,
)

_NAME = "lm_factuality_forest"
# Tensors that models pass to their attention: two change nothing, and sinks are understood.
_UNDERSTOOD = {"cache_position", "position_ids", "s_aux"}

KeysAndValues = dict[int, tuple[Tensor, Tensor]]
"""By layer, each of shape [1, heads, positions, head size]."""


@dataclass
class _Pass:
    """What attention has to know of the forward pass under way."""

    batches: list[Batch]
    """Which positions attend to which."""

    rows: Tensor
    """For each position of the stretch, its row among the queries of all batches."""

    kept: Tensor
    """The positions whose keys and values the next pass needs, numbered from the path on."""

    num_before: int
    before: KeysAndValues
    after: KeysAndValues = field(default_factory=dict)
    masks: dict[tuple[int, int], Tensor | None] = field(default_factory=dict)

    def mask(
        self, number: int, visibility: Callable[..., Any], dtype: torch.dtype
    ) -> Tensor | None:
        """Return the mask of a batch, which is computed once for all layers that see the same."""
        key = (number, id(visibility))
        if key not in self.masks:
            self.masks[key] = self.batches[number].mask(visibility, dtype)
        return self.masks[key]


# Each thread has its own.
_current: ContextVar[_Pass] = ContextVar("_current")


class PackedEngine:
    """Computes stretches in their order and keeps the keys and values of the path to the next."""

    def __init__(self, model: Any, record: Recorder = record_nothing) -> None:
        if not getattr(model, "_can_set_attn_implementation", lambda: False)():
            raise UnsupportedModelError("its attention does not go through transformers' interface")
        self._model = model
        self._record = record
        # Copies of the engine, one for each thread, share it.
        self._attention = _ForestAttention(model)
        self._before: KeysAndValues = {}
        self.amateur: PackedEngine | None = None
        """Computes the logits of a weaker model beside the model's own."""

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        """Compute the logits of the stretch's targets.

        Raises:
            UnsupportedModelError: The model mixes positions by more than the attention of its
                layers.
        """
        device = device_of(self._model)
        positions = np.concatenate([stretch.path, np.arange(stretch.start, stretch.stop)])
        kept = torch.from_numpy(np.flatnonzero(forest.end[positions] > stretch.stop))
        most_keys = 0 if device.type == "cpu" else MOST_KEYS
        batches, rows = batched(blocks(forest, stretch), most_keys, device)
        num_before = len(stretch.path)
        before = self._before if num_before else {}
        forward_pass = _Pass(batches, rows, kept.to(device), num_before, before)
        depth = torch.from_numpy(forest.depth[stretch.start : stretch.stop])[None].to(device)
        token = _current.set(forward_pass)
        try:
            with self._attention:
                logits = needed_logits(
                    self._model,
                    forest,
                    stretch,
                    self._record,
                    position_ids=depth,
                    attention_mask=torch.ones_like(depth),
                    use_cache=False,
                )
        finally:
            _current.reset(token)
        num_layers = self._model.config.get_text_config().num_hidden_layers
        if len(forward_pass.after) != num_layers:
            raise UnsupportedModelError(
                f"attention in {len(forward_pass.after)} of its {num_layers} layers"
            )
        self._before = forward_pass.after
        if self.amateur:
            weaker = self.amateur.run(forest, stretch).values
            logits = replace(logits, contrast=(weaker.to(logits.values.device),))
        return logits


class _ForestAttention:
    """Gives a model the attention of this module while any thread has a pass under way."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._lock = Lock()
        self._num_passes = 0
        configs: list[Any] = [getattr(module, "config", None) for module in model.modules()]
        self._original = [
            (config, config._attn_implementation)
            for config in configs
            if hasattr(config, "_attn_implementation_internal")
        ]

    def __enter__(self) -> None:
        with self._lock:
            if not self._num_passes:
                self._model.set_attn_implementation(_NAME)
            self._num_passes += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._num_passes -= 1
            if not self._num_passes:
                # Generation uses the model's own attention again.
                for config, implementation in self._original:
                    config._attn_implementation_internal = implementation


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Replace a layer's attention.

    Args:
        query: Shape [1, heads, positions, head size], as ``key`` and ``value``.
        attention_mask: The model's own function of what a position may see.
        **others: What else the model passes. Tensors of unknown names are not understood.
    """
    unknown = [
        name
        for name, argument in others.items()
        if isinstance(argument, Tensor) and name not in _UNDERSTOOD
    ]
    if unknown or not callable(attention_mask) or query.shape[0] != 1:
        raise UnsupportedModelError(f"attention with {', '.join(unknown) or 'a mask of its own'}")
    forward_pass = _current.get()
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    if layer in forward_pass.before:
        key_before, value_before = forward_pass.before[layer]
        key = torch.cat([key_before, key], dim=2)
        value = torch.cat([value_before, value], dim=2)
    kept = forward_pass.kept
    forward_pass.after[layer] = (key.index_select(2, kept), value.index_select(2, kept))
    # PyTorch's attention has neither soft caps nor sinks.
    is_plain = others.get("softcap") is None and others.get("s_aux") is None
    outputs = []
    for number, batch in enumerate(forward_pass.batches):
        queries = _gather(query, batch.queries[0] - forward_pass.num_before)
        keys = _gather(key, batch.keys[0])
        values = _gather(value, batch.keys[0])
        mask = forward_pass.mask(number, attention_mask, query.dtype)
        if is_plain:
            shares = queries.shape[1] // keys.shape[1]
            if shares > 1:
                keys = keys.repeat_interleave(shares, dim=1)
                values = values.repeat_interleave(shares, dim=1)
            output = scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, is_causal=mask is None, scale=scaling
            ).transpose(1, 2)
        else:
            if mask is None:
                size = (queries.shape[2], keys.shape[2])
                mask = queries.new_full(size, float("-inf")).triu(1)[None, None]
            compute = sys.modules[type(module).__module__].eager_attention_forward
            output, _ = compute(module, queries, keys, values, mask, scaling=scaling, **others)
        outputs.append(output.flatten(0, 1))
    return torch.cat(outputs).index_select(0, forward_pass.rows)[None], None


def _gather(states: Tensor, numbers: Tensor) -> Tensor:
    """Select positions, shape [blocks, count], of states, shape [1, heads, positions, size].

    Returns:
        Shape [blocks, heads, count, size].
    """
    selected = states[0].index_select(1, numbers.reshape(-1))
    return selected.view(len(selected), *numbers.shape, -1).transpose(0, 1)


AttentionInterface.register(_NAME, _attention)
# Where a model would make a mask, it hands on its function of what a position may see.
AttentionMaskInterface.register(_NAME, lambda *, mask_function, **_: mask_function)
