"""One forward pass over consecutive positions of the trie, without padding.

Everything in a transformer but attention treats positions one by one, so the positions go through
the model as a single sequence with their own position numbers. Attention is replaced through
transformers' interface: each block of queries attends to its own ancestors. The model's own mask
function still says what a layer may see (a sliding window, a chunk).
"""

import sys
from collections.abc import Callable, Mapping
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

from lm_factuality.models.tree.batches import MAX_KEYS, Batch, batch_query_blocks
from lm_factuality.models.tree.logits import (
    Recorder,
    TargetLogits,
    UnsupportedModelError,
    compute_target_logits,
    device_of,
    record_nothing,
)
from lm_factuality.models.tree.trie import PassRange, TokenTrie, split_into_query_blocks

_NAME = "lm_factuality_forest"
# Tensor arguments of a model's attention that need no handling or, as attention sinks, are handled.
_HANDLED_TENSORS = {"cache_position", "position_ids", "s_aux"}

KeysAndValues = dict[int, tuple[Tensor, Tensor]]
"""The keys and values of each layer, each of shape [1, heads, positions, head size]."""


@dataclass
class _Pass:
    """The state of the current forward pass, which the replaced attention reads and writes."""

    batches: list[Batch]
    """The query positions, and the key positions that each may attend to."""

    output_rows: Tensor
    """For each position of the pass, its row in the concatenated outputs of all batches."""

    next_ancestors: Tensor
    """The positions whose keys and values the next pass needs.

    Positions are numbered from 0 at the first ancestor of the pass.
    """

    num_ancestors: int
    """How many ancestors of the first position were computed by earlier passes."""

    ancestor_states: KeysAndValues
    """The keys and values of these ancestors."""

    next_ancestor_states: KeysAndValues = field(default_factory=dict)
    """The keys and values of the next pass's ancestors. Attention adds an entry for each layer."""

    masks: dict[tuple[int, int], Tensor | None] = field(default_factory=dict)
    """The masks that were computed, by index of the batch and identity of the mask function."""

    def join_ancestors(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put the stored keys and values of the ancestors before those of the pass.

        Args:
            layer: The index of the layer.
            keys: The keys of the positions of the pass, shape [1, key heads, positions, head size].
            values: Their values, in the same shape.

        Returns:
            The keys and the values of the ancestors and the positions of the pass.
        """
        # A pass that begins at a root has no ancestors.
        if layer not in self.ancestor_states:
            return keys, values
        ancestor_keys, ancestor_values = self.ancestor_states[layer]
        all_keys = torch.cat([ancestor_keys, keys], dim=2)
        all_values = torch.cat([ancestor_values, values], dim=2)
        return all_keys, all_values

    def keep_for_next_pass(self, layer: int, all_keys: Tensor, all_values: Tensor) -> None:
        """Store the keys and values that the next pass needs in ``next_ancestor_states``.

        Args:
            layer: The index of the layer.
            all_keys: The keys of the ancestors and the positions of the pass.
            all_values: Their values.
        """
        next_keys = all_keys.index_select(2, self.next_ancestors)
        next_values = all_values.index_select(2, self.next_ancestors)
        self.next_ancestor_states[layer] = (next_keys, next_values)

    def attention_mask(
        self, index: int, mask_function: Callable[..., Any], dtype: torch.dtype
    ) -> Tensor | None:
        """Return the attention mask of a batch, computed once for all layers with the same rule.

        Args:
            index: The index of the batch in ``batches``.
            mask_function: The model's own mask function, such as that of a sliding window.
            dtype: The type of the mask.

        Returns:
            The mask, or None if the batch needs only causal attention.
        """
        key = (index, id(mask_function))
        if key not in self.masks:
            self.masks[key] = self.batches[index].attention_mask(mask_function, dtype)
        return self.masks[key]


# The pass that a thread runs. transformers calls the replaced attention with the arguments of any
# attention, so it finds the pass here.
_current_pass: ContextVar[_Pass] = ContextVar("_current_pass")


class PackedEngine:
    """Runs a model on one range of the trie's positions after the other.

    Between two passes it keeps the keys and values of the ancestors of the next position.
    """

    def __init__(self, model: PreTrainedModel, recorder: Recorder = record_nothing) -> None:
        """Prepare a model, whose attention is replaced only during a pass.

        The usual attention lets a token see all tokens before it. In a pass it must see only its
        own ancestors, because the positions before it belong to several texts.

        Args:
            model: The language model of transformers.
            recorder: Records the hidden states that a decoding method needs.

        Raises:
            UnsupportedModelError: The model's attention cannot be replaced.
        """
        # transformers has no public way to ask whether a model allows a replacement.
        can_replace_attention = getattr(model, "_can_set_attn_implementation", None)
        if can_replace_attention is None or not can_replace_attention():
            raise UnsupportedModelError("its attention does not go through transformers' interface")
        self._model = model
        self._recorder = recorder
        # Threads use shallow copies of the engine. They share this object, which counts the passes
        # that run at the same time.
        self._replaced_attention = _ReplacedAttention(model)
        # What the last pass stored for the next one.
        self._ancestor_states: KeysAndValues = {}
        self.amateur: PackedEngine | None = None
        """The engine of the weaker model in contrastive decoding, which `HFContrastive` sets."""

    def run(self, trie: TokenTrie, pass_range: PassRange) -> TargetLogits:
        """Run the model on a range of positions and return the logits that its targets need.

        The engine stores the keys and values that the next range attends to. Call it therefore
        with the ranges of a trie in their order.

        Args:
            trie: The tokens of all requests, with each shared beginning stored once.
            pass_range: The consecutive positions to compute, and their ancestors.

        Returns:
            The logits at the positions before the targets. ``contrast`` has recorded hidden states
            or the weaker model's logits.

        Raises:
            UnsupportedModelError: Some layers of the model use no replaceable attention.
        """
        forward_pass = self._prepare_pass(trie, pass_range)
        depths = torch.from_numpy(trie.depths[pass_range.start : pass_range.stop])[None]
        depths = depths.to(device_of(self._model))

        # The replaced attention of each layer reads ``forward_pass`` from this variable.
        reset_token = _current_pass.set(forward_pass)
        try:
            with self._replaced_attention:
                logits = compute_target_logits(
                    self._model,
                    trie,
                    pass_range,
                    self._recorder,
                    position_ids=depths,
                    attention_mask=torch.ones_like(depths),
                    use_cache=False,
                )
        finally:
            _current_pass.reset(reset_token)

        self._check_num_layers(len(forward_pass.next_ancestor_states))
        self._ancestor_states = forward_pass.next_ancestor_states

        if self.amateur is None:
            return logits
        amateur_logits = self.amateur.run(trie, pass_range).values
        return replace(logits, contrast=(amateur_logits.to(logits.values.device),))

    def _check_num_layers(self, num_attention_layers: int) -> None:
        """Check that every layer of the model has used the replaced attention.

        Layers without attention, as in state-space models, would mix the texts of a pass.

        Raises:
            UnsupportedModelError: A layer has not used it.
        """
        num_layers = self._model.config.get_text_config().num_hidden_layers
        if num_attention_layers != num_layers:
            raise UnsupportedModelError(
                f"only {num_attention_layers} of its {num_layers} layers have attention"
            )

    def _prepare_pass(self, trie: TokenTrie, pass_range: PassRange) -> _Pass:
        """Return the state that the replaced attention needs during one forward pass.

        The state includes the keys and values that the pass before has stored for this one.

        Args:
            trie: The tokens of all requests.
            pass_range: The positions that the pass computes, and their ancestors.
        """
        device = device_of(self._model)
        # Only a GPU gains from several blocks in one call. 0 means one block in each call.
        max_keys = 0 if device.type == "cpu" else MAX_KEYS
        blocks = split_into_query_blocks(trie, pass_range)
        batches, output_rows = batch_query_blocks(blocks, max_keys, device)

        # The keys and values of this pass are stored in the order of these positions, which is
        # ascending. The ancestors of the next pass are among them.
        stored_positions = pass_range.with_ancestors()
        next_ancestor_indices = np.searchsorted(stored_positions, pass_range.next_ancestors(trie))
        num_ancestors = len(pass_range.ancestors)
        return _Pass(
            batches=batches,
            output_rows=output_rows,
            next_ancestors=torch.from_numpy(next_ancestor_indices).to(device),
            num_ancestors=num_ancestors,
            ancestor_states=self._ancestor_states if num_ancestors else {},
        )


class _ReplacedAttention:
    """Context manager that replaces a model's attention while any thread runs a pass."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Remember the attention that each part of the model is configured with."""
        self._model = model
        self._lock = Lock()
        # How many threads run a pass.
        self._num_passes = 0
        # Each config of the model with the name of its attention. A model of text and images, for
        # example, has a config for each of the two parts, which may name different attentions,
        # such as "sdpa" and "eager".
        self._original_attentions: list[tuple[Any, str | None]] = []
        for module in model.modules():
            config: Any = getattr(module, "config", None)
            # Most modules have no config.
            if hasattr(config, "_attn_implementation_internal"):
                attention_name = config._attn_implementation_internal
                self._original_attentions.append((config, attention_name))

    def __enter__(self) -> None:
        """Replace the model's attention if this is the first pass to begin."""
        with self._lock:
            if self._num_passes == 0:
                self._model.set_attn_implementation(_NAME)
            self._num_passes += 1

    def __exit__(self, *_: object) -> None:
        """Restore the model's own attention if this was the last pass to end.

        The model may generate texts before the next pass, which needs its own attention.
        """
        with self._lock:
            self._num_passes -= 1
            if self._num_passes == 0:
                # transformers' public setter would give all parts of the model the same attention,
                # although some had another one before.
                for config, attention_name in self._original_attentions:
                    config._attn_implementation_internal = attention_name


def _attend_to_ancestors(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: object,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute a layer's attention so that each position attends only to its own ancestors.

    transformers calls this function instead of the usual attention while `PackedEngine.run` runs a
    pass. The function also stores in this pass the keys and values that the next pass needs.

    Args:
        module: The attention layer.
        query: The queries, shape [1, heads, positions, head size].
        key: The keys, shape [1, key heads, positions, head size].
        value: The values, in the shape of the keys.
        attention_mask: The model's own mask function of (batch, head, query, key).
        scaling: The factor of the attention scores. None is PyTorch's default.
        **options: Further arguments of the model's attention, such as ``softcap``.

    Returns:
        The outputs, shape [1, positions, heads, head size], and None for the attention weights.

    Raises:
        UnsupportedModelError: The model passes a tensor or a mask that is not handled.
    """
    _check_options(options)
    # A model that makes its own mask passes a tensor instead of its mask function.
    if not callable(attention_mask) or query.shape[0] != 1:
        raise UnsupportedModelError("attention with a mask of its own")

    forward_pass = _current_pass.get()
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    all_keys, all_values = forward_pass.join_ancestors(layer, key, value)
    forward_pass.keep_for_next_pass(layer, all_keys, all_values)

    # PyTorch's attention is faster, but has neither soft caps nor sinks.
    has_cap_or_sinks = options.get("softcap") is not None or options.get("s_aux") is not None
    outputs = []
    for index, batch in enumerate(forward_pass.batches):
        # Numbers count from the first ancestor. Ancestors are only keys, so the queries begin
        # after them.
        queries = _select(query, batch.query_numbers - forward_pass.num_ancestors)
        keys = _select(all_keys, batch.key_numbers)
        values = _select(all_values, batch.key_numbers)
        mask = forward_pass.attention_mask(index, attention_mask, query.dtype)
        if has_cap_or_sinks:
            output = _compute_with_model(module, queries, keys, values, mask, scaling, options)
        else:
            output = _compute_with_pytorch(queries, keys, values, mask, scaling)
        outputs.append(output.flatten(0, 1))
    # Put the outputs of all batches into the order of the positions, without padding.
    return torch.cat(outputs).index_select(0, forward_pass.output_rows)[None], None


def _check_options(options: Mapping[str, object]) -> None:
    """Check that a model passes its attention no tensors but those that are handled.

    Raises:
        UnsupportedModelError: It passes others, such as a bias. The message names them.
    """
    unknown = [
        name
        for name, argument in options.items()
        if isinstance(argument, Tensor) and name not in _HANDLED_TENSORS
    ]
    if unknown:
        raise UnsupportedModelError(f"attention with {', '.join(unknown)}")


def _select(states: Tensor, positions: Tensor) -> Tensor:
    """Select the states of each block's positions.

    Args:
        states: Queries, keys or values, shape [1, heads, positions, head size].
        positions: The positions of each block, shape [blocks, count].

    Returns:
        The selected states, shape [blocks, heads, count, head size].
    """
    selected = states[0].index_select(1, positions.reshape(-1))
    return selected.view(len(selected), *positions.shape, -1).transpose(0, 1)


def _compute_with_pytorch(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scaling: float | None
) -> Tensor:
    """Compute attention without soft caps and sinks by PyTorch's fast function.

    Args:
        queries: The queries, shape [blocks, heads, queries, head size].
        keys: The keys, shape [blocks, key heads, keys, head size].
        values: The values, in the shape of the keys.
        mask: The mask that is added to the attention scores, or None for causal attention.
        scaling: The factor of the attention scores. None is PyTorch's default.

    Returns:
        The outputs, shape [blocks, queries, heads, head size].
    """
    # In grouped-query attention, several query heads use the same key head.
    group_size = queries.shape[1] // keys.shape[1]
    if group_size > 1:
        keys = keys.repeat_interleave(group_size, dim=1)
        values = values.repeat_interleave(group_size, dim=1)
    output = scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, is_causal=mask is None, scale=scaling
    )
    return output.transpose(1, 2)


def _compute_with_model(
    module: torch.nn.Module,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    options: Mapping[str, Any],
) -> Tensor:
    """Compute attention by the model's own code, which has soft caps and sinks.

    A soft cap limits attention scores. A sink takes a share of the attention but has no value.

    Args:
        module: The attention layer of the model.
        queries: The queries, shape [blocks, heads, queries, head size].
        keys: The keys, shape [blocks, key heads, keys, head size].
        values: The values, in the shape of the keys.
        mask: The mask that is added to the attention scores, or None for causal attention.
        scaling: The factor of the attention scores.
        options: Further arguments of the model's attention, such as ``softcap``.

    Returns:
        The outputs, shape [blocks, queries, heads, head size].
    """
    if mask is None:
        # Without a mask, the model's code would show all keys to each query. Causal attention hides
        # later keys, i.e. those above the diagonal.
        size = (queries.shape[2], keys.shape[2])
        mask = queries.new_full(size, float("-inf")).triu(1)[None, None]
    # The Python module that defines the layer, such as modeling_gemma2, also has this function.
    python_module = sys.modules[type(module).__module__]
    output, _ = python_module.eager_attention_forward(
        module, queries, keys, values, mask, scaling=scaling, **options
    )
    return output  # type: ignore[no-any-return]


AttentionInterface.register(_NAME, _attend_to_ancestors)
# Instead of a mask, the model then passes its mask function to the attention.
AttentionMaskInterface.register(_NAME, lambda *, mask_function, **_: mask_function)
