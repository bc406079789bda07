"""Blocks of a forward pass whose attention is computed at once.

A GPU computes the attention of a hundred short blocks in the time that it takes to start that of
one, so blocks of similar size are padded to the same size there. A CPU starts each block at once
and would compute the padding for nothing, so there each block is a batch of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lm_factuality.models.tree.forest import Block, Ints

# A batch on a GPU holds copies of the keys and values of at most so many keys,
MOST_KEYS = 1 << 16
# and, where a mask is needed, so many pairs of a query and a key.
_MOST_PAIRS = 1 << 26
# Up to so many padded pairs cost less than starting another batch.
_MOST_PADDING = 1 << 19
# PyTorch copies no mask if the number of keys is a multiple of this.
_ALIGNED = 16
# The depth of padded keys, which no query sees.
_NOWHERE = 1 << 30


@dataclass(frozen=True)
class Batch:
    """Blocks padded to one size. Positions are numbered from the first of the stretch's path."""

    queries: Tensor
    """Positions, shape [blocks, queries], padded with the first query of the block."""

    keys: Tensor
    """Positions, shape [blocks, keys]."""

    ends: Tensor
    """The ends of the keys' subtrees. Padding ends before any query."""

    query_depth: Tensor
    key_depth: Tensor
    is_chain: bool
    """Whether every block is an unbranched path from its input's first token."""

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with its tensors on a device."""
        return Batch(
            queries=self.queries.to(device),
            keys=self.keys.to(device),
            ends=self.ends.to(device),
            query_depth=self.query_depth.to(device),
            key_depth=self.key_depth.to(device),
            is_chain=self.is_chain,
        )

    def mask(self, visibility: Callable[..., Any], dtype: torch.dtype) -> Tensor | None:
        """Return what each query may not see.

        Args:
            visibility: The model's own mask function of (batch, head, query, key), which limits a
                layer to a window or a chunk. It gets depths as positions.

        Returns:
            0 where a query sees a key and -inf elsewhere, shape [blocks, 1, queries, keys]. None
            if every block has plain causal attention.
        """
        query_depth = self.query_depth[:, :, None]
        key_depth = self.key_depth[:, None, :]
        zero = torch.zeros(1, 1, 1, dtype=torch.long, device=self.keys.device)
        visible = torch.as_tensor(visibility(zero, zero, query_depth, key_depth))
        visible = visible.expand(*self.queries.shape, self.keys.shape[1])
        if self.is_chain and torch.equal(visible, key_depth <= query_depth):
            return None
        visible = visible & is_ancestor(self.keys, self.ends, self.queries)
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~visible, float("-inf"))[:, None]


def is_ancestor(keys: Tensor, ends: Tensor, queries: Tensor) -> Tensor:
    """Return whether a key is its query or before it in an input, shape [blocks, queries, keys]."""
    queries = queries[:, :, None]
    return (keys[:, None, :] <= queries) & (queries < ends[:, None, :])


def batched(blocks: Sequence[Block], most_keys: int) -> tuple[list[Batch], Tensor]:
    """Put blocks into batches.

    Args:
        most_keys: How many keys a batch may have. With 0, each block is a batch.

    Returns:
        The batches, and for each query of the blocks its row among the queries of all batches.
    """
    groups = list(_groups(blocks, most_keys)) if most_keys else [[block] for block in blocks]
    first = blocks[0].queries.start
    rows = np.empty(blocks[-1].queries.stop - first, dtype=np.int64)
    batches = []
    total = 0
    for group in groups:
        width = max(len(block.query_depth) for block in group)
        for block in group:
            count = len(block.query_depth)
            start = block.queries.start - first
            rows[start : start + count] = np.arange(total, total + count)
            total += width
        batches.append(_batch(group, _ALIGNED if most_keys else 1))
    return batches, torch.from_numpy(rows)


def _groups(blocks: Sequence[Block], most_keys: int) -> Iterator[list[Block]]:
    """Group blocks of similar size such that no batch needs too much memory or padding."""
    by_size: dict[tuple[bool, int], list[Block]] = defaultdict(list)
    for block in blocks:
        size_class = len(block.query_depth).bit_length() // 2
        by_size[block.is_whole_chain, size_class].append(block)
    for (is_chain, _), similar in by_size.items():
        similar.sort(key=lambda block: -len(block.key_depth))
        group: list[Block] = []
        width = 0
        pairs = 0
        for block in similar:
            block_pairs = len(block.query_depth) * len(block.key_depth)
            width = max(width, len(block.query_depth))
            num_keys = len(group[0].key_depth) * (len(group) + 1) if group else 0
            is_full = num_keys > most_keys or (not is_chain and num_keys * width > _MOST_PAIRS)
            if group and (is_full or num_keys * width - pairs - block_pairs > _MOST_PADDING):
                yield group
                group = []
                width = len(block.query_depth)
                pairs = 0
            group.append(block)
            pairs += block_pairs
        yield group


def _batch(group: Sequence[Block], multiple: int) -> Batch:
    is_chain = all(block.is_whole_chain for block in group)
    num_queries = max(len(block.query_depth) for block in group)
    num_keys = max(len(block.key_depth) for block in group)
    if not is_chain:
        num_keys += -num_keys % multiple
    queries = [np.arange(block.queries.start, block.queries.stop) for block in group]
    return Batch(
        queries=_padded(queries, num_queries, None),
        keys=_padded([block.key_numbers for block in group], num_keys, 0),
        ends=_padded([block.key_ends for block in group], num_keys, 0),
        query_depth=_padded([block.query_depth for block in group], num_queries, None),
        key_depth=_padded([block.key_depth for block in group], num_keys, _NOWHERE),
        is_chain=is_chain,
    )


def _padded(rows: Sequence[Ints], width: int, value: int | None) -> Tensor:
    """Pad rows with a value, or with their own first element. The shape is [rows, width]."""
    padded = np.empty((len(rows), width), dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number] = row[0] if value is None else value
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)
