"""One forward pass over consecutive positions of the forest, called a stretch, without padding.

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
from transformers import AttentionInterface, PreTrainedModel
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
# Tensor arguments of a model's attention that need no handling or, as attention sinks, are handled.
_UNDERSTOOD = {"cache_position", "position_ids", "s_aux"}

KeysAndValues = dict[int, tuple[Tensor, Tensor]]
"""The keys and values of each layer, each of shape [1, heads, positions, head size]."""


@dataclass
class _Pass:
    """The state of the current forward pass, which the replaced attention reads and writes."""

    batches: list[Batch]
    """The query positions, and the key positions that each may attend to."""

    rows: Tensor
    """For each position of the stretch, its row in the concatenated outputs of all batches."""

    kept: Tensor
    """The positions whose keys and values the next pass needs, numbered from the path's first."""

    num_before: int
    """How many positions of the path were computed by earlier passes."""

    before: KeysAndValues
    """The keys and values of the path."""

    after: KeysAndValues = field(default_factory=dict)
    """The keys and values of the next pass's path. Attention adds an entry for each layer."""

    masks: dict[tuple[int, int], Tensor | None] = field(default_factory=dict)
    """The masks that were computed, by number of the batch and identity of the mask function."""

    def mask(
        self, number: int, visibility: Callable[..., Any], dtype: torch.dtype
    ) -> Tensor | None:
        """Return the attention mask of a batch, computed once for all layers with the same rule.

        Args:
            number: The index of the batch in ``batches``.
            visibility: The model's own mask function, such as that of a sliding window.
            dtype: The type of the mask.

        Returns:
            The mask, or None if the batch needs only causal attention.
        """
        key = (number, id(visibility))
        if key not in self.masks:
            self.masks[key] = self.batches[number].mask(visibility, dtype)
        return self.masks[key]


# Each thread has its own forward pass.
_current: ContextVar[_Pass] = ContextVar("_current")


class PackedEngine:
    """Runs a model on one stretch of the forest after the other.

    Between two passes it keeps the keys and values of the tokens before the next stretch.
    """

    def __init__(self, model: PreTrainedModel, record: Recorder = record_nothing) -> None:
        """Prepare a model, whose attention is replaced only during a pass.

        Args:
            model: The language model of transformers.
            record: Records the hidden states that a decoding method needs.

        Raises:
            UnsupportedModelError: The model's attention cannot be replaced.
        """
        if not getattr(model, "_can_set_attn_implementation", lambda: False)():
            raise UnsupportedModelError("its attention does not go through transformers' interface")
        self._model = model
        self._record = record
        # Copies of the engine, one for each thread, share it.
        self._attention = _ForestAttention(model)
        self._before: KeysAndValues = {}
        self.amateur: PackedEngine | None = None
        """The engine of a weaker model that contrastive decoding compares with, or None."""

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        """Run the model on a stretch and return the logits that its targets need.

        The engine stores the keys and values that the next stretch attends to. Call it therefore
        with the stretches of a forest in their order.

        Args:
            forest: The tokens of all requests, with each shared beginning stored once.
            stretch: The consecutive positions to compute, and the path to them.

        Returns:
            The logits at the positions before the targets. ``contrast`` has recorded hidden states
            or the weaker model's logits.

        Raises:
            UnsupportedModelError: Some layers of the model use no replaceable attention.
        """
        device = device_of(self._model)
        positions = np.concatenate([stretch.path, np.arange(stretch.start, stretch.stop)])
        # The ancestors of the next stretch are those whose subtrees reach beyond this one.
        kept = torch.from_numpy(np.flatnonzero(forest.end[positions] > stretch.stop))
        # Only a GPU gains from computing several blocks in one call.
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
                f"only {len(forward_pass.after)} of its {num_layers} layers have attention"
            )
        self._before = forward_pass.after

        if self.amateur:
            weaker = self.amateur.run(forest, stretch).values
            logits = replace(logits, contrast=(weaker.to(logits.values.device),))
        return logits


class _ForestAttention:
    """Context manager that replaces a model's attention while any thread runs a pass."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Remember the attention that each part of the model is configured with."""
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
        """Replace the model's attention if this is the first pass to begin."""
        with self._lock:
            if not self._num_passes:
                self._model.set_attn_implementation(_NAME)
            self._num_passes += 1

    def __exit__(self, *_: object) -> None:
        """Restore the model's own attention if this was the last pass to end."""
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
    attention_mask: object,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute a layer's attention so that each position attends only to its own ancestors.

    It also stores in the current forward pass the keys and values that the next pass needs.

    Args:
        module: The attention layer.
        query: The queries, shape [1, heads, positions, head size].
        key: The keys, shape [1, key heads, positions, head size].
        value: The values, in the shape of the keys.
        attention_mask: The model's own mask function of (batch, head, query, key).
        scaling: The factor of the attention scores. None is PyTorch's default.
        **others: Further arguments of the model's attention, such as ``softcap``.

    Returns:
        The outputs, shape [1, positions, heads, head size], and None for the attention weights.

    Raises:
        UnsupportedModelError: The model passes a tensor or a mask that is not handled.
    """
    unknown = [
        name
        for name, argument in others.items()
        if isinstance(argument, Tensor) and name not in _UNDERSTOOD
    ]
    if unknown or not callable(attention_mask) or query.shape[0] != 1:
        raise UnsupportedModelError(f"attention with {', '.join(unknown) or 'a mask of its own'}")

    # Attend to the positions of the path too, which an earlier pass has computed.
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
            # In grouped-query attention, several query heads use the same key head.
            group_size = queries.shape[1] // keys.shape[1]
            if group_size > 1:
                keys = keys.repeat_interleave(group_size, dim=1)
                values = values.repeat_interleave(group_size, dim=1)
            output = scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, is_causal=mask is None, scale=scaling
            ).transpose(1, 2)
        else:
            if mask is None:
                size = (queries.shape[2], keys.shape[2])
                mask = queries.new_full(size, float("-inf")).triu(1)[None, None]
            # The model's own module has an implementation with soft caps and sinks.
            compute = sys.modules[type(module).__module__].eager_attention_forward
            output, _ = compute(module, queries, keys, values, mask, scaling=scaling, **others)
        outputs.append(output.flatten(0, 1))
    return torch.cat(outputs).index_select(0, forward_pass.rows)[None], None


def _gather(states: Tensor, numbers: Tensor) -> Tensor:
    """Select the states of each block's positions.

    Args:
        states: Queries, keys or values, shape [1, heads, positions, head size].
        numbers: The positions of each block, shape [blocks, count].

    Returns:
        The selected states, shape [blocks, heads, count, head size].
    """
    selected = states[0].index_select(1, numbers.reshape(-1))
    return selected.view(len(selected), *numbers.shape, -1).transpose(0, 1)


AttentionInterface.register(_NAME, _attention)
# Instead of a mask, the model then passes its mask function to the attention.
AttentionMaskInterface.register(_NAME, lambda *, mask_function, **_: mask_function)
