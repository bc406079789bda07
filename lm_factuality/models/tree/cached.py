"""The forest path by path, through the model's own key-value cache.

For models whose attention transformers' interface does not reach, such as GPT-Neo and GPT-J, which
FACTOR evaluates, and BLOOM and Falcon. An unbranched path is computed once, and whatever follows it
continues from its keys and values.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from lm_factuality.models.tree.forest import Forest, Stretch
from lm_factuality.models.tree.logits import (
    Logits,
    Recorder,
    UnsupportedModelError,
    accepts,
    device_of,
    needed_logits,
    record_nothing,
)


class CachedEngine:
    """Computes one unbranched path per forward pass."""

    name = "cached"

    def __init__(self, model: Any, record: Recorder = record_nothing) -> None:
        if not accepts(model, "past_key_values"):
            raise UnsupportedModelError("it has no key-value cache")
        self._model = model
        self._record = record
        # The keys and values of the path that was computed last, by layer.
        self._path: list[tuple[Tensor, Tensor]] = []

    def limit(self, forest: Forest, stretch: Stretch) -> Stretch:
        """Return the beginning of the stretch that is one unbranched path."""
        ends = forest.end[stretch.start : stretch.stop]
        branches = np.flatnonzero(ends != ends[0])
        length = int(branches[0]) if len(branches) else len(ends)
        return Stretch(stretch.start, stretch.start + length, stretch.path)

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        """Compute the logits of the stretch's targets.

        Raises:
            UnsupportedModelError: The cache has not one key for each position and layer.
        """
        start = len(stretch.path)
        stop = start + stretch.stop - stretch.start
        # The stretch's own path is a beginning of the last one, as positions are in preorder.
        states = [(keys[:, :, :start], values[:, :, :start]) for keys, values in self._path]
        cache = DynamicCache(states) if start else DynamicCache()
        device = device_of(self._model)
        inputs = {"attention_mask": torch.ones(1, stop, dtype=torch.long, device=device)}
        if accepts(self._model, "position_ids"):
            inputs["position_ids"] = torch.arange(start, stop, device=device)[None]
        logits = needed_logits(
            self._model,
            forest,
            stretch,
            self._record,
            past_key_values=cache,
            use_cache=True,
            **inputs,
        )
        self._path = [_states(layer, stop) for layer in cache.layers]
        if not self._path:
            raise UnsupportedModelError("its cache holds no keys")
        return logits


def _states(layer: Any, length: int) -> tuple[Tensor, Tensor]:
    keys = getattr(layer, "keys", None)
    if not isinstance(keys, Tensor) or keys.shape[2] != length:
        raise UnsupportedModelError("its cache does not hold a key for each position and layer")
    return keys, layer.values
