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

from lm_factuality.models.tree.forest import Ints, QueryBlock

# A batch on a GPU holds copies of the keys and values of at most so many keys,
MOST_KEYS = 1 << 16
# and, where a mask is needed, so many pairs of a query and a key.
_MOST_PAIRS = 1 << 26
# Up to so many padded pairs cost less than starting another batch.
_MOST_PADDING = 1 << 19
# PyTorch copies no mask if the number of keys is a multiple of this.
_ALIGNED = 16
# A padded key is at a depth that no query sees, and its subtree ends before any query.
_PADDED_KEY = np.array([[0], [1 << 30], [0]])


@dataclass(frozen=True)
class Batch:
    """Blocks padded to one size."""

    queries: Tensor
    """Number and depth, shape [2, blocks, queries], padded with the first query of the block."""

    keys: Tensor
    """Number, depth, and end of the subtree, shape [3, blocks, keys]."""

    is_chain: bool
    """Whether every block is an unbranched path from its input's first token."""

    def mask(self, visibility: Callable[..., Any], dtype: torch.dtype) -> Tensor | None:
        """Return what each query may not see.

        Args:
            visibility: The model's own mask function of (batch, head, query, key), which limits a
                layer to a window or a chunk. It gets depths as positions.

        Returns:
            0 where a query sees a key and -inf elsewhere, shape [blocks, 1, queries, keys]. None
            if every block has plain causal attention.
        """
        _, query_depth = self.queries[:, :, :, None]
        _, key_depth, _ = self.keys[:, :, None, :]
        zero = torch.zeros(1, 1, 1, dtype=torch.long, device=self.keys.device)
        visible = torch.as_tensor(visibility(zero, zero, query_depth, key_depth))
        visible = visible.expand(*self.queries.shape[1:], self.keys.shape[2])
        if self.is_chain and torch.equal(visible, key_depth <= query_depth):
            return None
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~(visible & self.is_ancestor()), float("-inf"))[:, None]

    def is_ancestor(self) -> Tensor:
        """Return whether a key is its query or before it in an input.

        The shape is [blocks, queries, keys].
        """
        queries, _ = self.queries[:, :, :, None]
        keys, _, ends = self.keys[:, :, None, :]
        is_ancestor: Tensor = (keys <= queries) & (queries < ends)
        return is_ancestor


def batched(
    blocks: Sequence[QueryBlock], most_keys: int, device: torch.device | str = "cpu"
) -> tuple[list[Batch], Tensor]:
    """Put blocks into batches.

    Args:
        most_keys: How many keys a batch may have. With 0, each block is a batch.
        device: Where the batches are used.

    Returns:
        The batches, and for each query of the blocks its row among the queries of all batches.
    """
    groups = list(_groups(blocks, most_keys)) if most_keys else [[block] for block in blocks]
    first = blocks[0].queries[0, 0]
    rows = np.empty(blocks[-1].queries[0, -1] + 1 - first, dtype=np.int64)
    batches = []
    total = 0
    for group in groups:
        width = max(block.queries.shape[1] for block in group)
        num_keys = max(block.keys.shape[1] for block in group)
        is_chain = all(block.is_whole_chain for block in group)
        if most_keys and not is_chain:
            num_keys += -num_keys % _ALIGNED
        for block in group:
            numbers = block.queries[0] - first
            rows[numbers] = total + np.arange(len(numbers))
            total += width
        queries = [_padded(block.queries, width, block.queries[:, :1]) for block in group]
        keys = [_padded(block.keys, num_keys, _PADDED_KEY) for block in group]
        queries_table = torch.stack(queries, dim=1).to(device)
        keys_table = torch.stack(keys, dim=1).to(device)
        batches.append(Batch(queries_table, keys_table, is_chain))
    return batches, torch.from_numpy(rows).to(device)


def _groups(blocks: Sequence[QueryBlock], most_keys: int) -> Iterator[list[QueryBlock]]:
    """Group blocks of similar size such that no batch needs too much memory or padding."""
    by_size: dict[tuple[bool, int], list[QueryBlock]] = defaultdict(list)
    for block in blocks:
        size_class = block.queries.shape[1].bit_length() // 2
        by_size[block.is_whole_chain, size_class].append(block)
    for (is_chain, _), similar in by_size.items():
        similar.sort(key=lambda block: -block.keys.shape[1])
        group: list[QueryBlock] = []
        width = 0
        pairs = 0
        for block in similar:
            num_queries = block.queries.shape[1]
            block_pairs = num_queries * block.keys.shape[1]
            width = max(width, num_queries)
            num_keys = group[0].keys.shape[1] * (len(group) + 1) if group else 0
            is_full = num_keys > most_keys or (not is_chain and num_keys * width > _MOST_PAIRS)
            if group and (is_full or num_keys * width - pairs - block_pairs > _MOST_PADDING):
                yield group
                group = []
                width = num_queries
                pairs = 0
            group.append(block)
            pairs += block_pairs
        yield group


def _padded(table: Ints, width: int, column: Ints) -> Tensor:
    """Pad a table with a column to so many columns."""
    padding = np.repeat(column, width - table.shape[1], axis=1)
    return torch.from_numpy(np.concatenate([table, padding], axis=1))
