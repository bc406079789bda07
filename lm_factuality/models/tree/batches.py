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
    """Query blocks that are padded to one size and attend in one call.

    A block is a set of token positions (queries) and the positions that they may attend to (keys).
    """

    queries: Tensor
    """Number and depth of each query, shape [2, blocks, queries].

    Short blocks are padded with their first query.
    """

    keys: Tensor
    """Number, depth and end of the subtree of each key, shape [3, blocks, keys]."""

    is_chain: bool
    """Whether every block is an unbranched path from its input's first token."""

    def mask(self, visibility: Callable[..., Any], dtype: torch.dtype) -> Tensor | None:
        """Return the attention mask, which is added to the attention scores.

        Args:
            visibility: The model's own mask function of (batch, head, query, key), which limits a
                layer to a sliding window or a chunk. Queries and keys are depths, i.e. positions
                within an input.
            dtype: The type of the mask, which is the type of the queries.

        Returns:
            0 where a query may attend to a key and -inf elsewhere, shape
            [blocks, 1, queries, keys]. None if plain causal attention needs no mask.
        """
        _, query_depth = self.queries[:, :, :, None]
        _, key_depth, _ = self.keys[:, :, None, :]
        zero = torch.zeros(1, 1, 1, dtype=torch.long, device=self.keys.device)
        visible = torch.as_tensor(visibility(zero, zero, query_depth, key_depth))
        visible = visible.expand(*self.queries.shape[1:], self.keys.shape[2])

        # Without branches and windows, PyTorch's faster causal attention gives the same result.
        if self.is_chain and torch.equal(visible, key_depth <= query_depth):
            return None
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~(visible & self.is_ancestor()), float("-inf"))[:, None]

    def is_ancestor(self) -> Tensor:
        """Return whether each key is the query itself or one of its ancestors.

        Positions are numbered in preorder, so the descendants of a key are numbered from the key
        to before the end of its subtree.

        Returns:
            Booleans of shape [blocks, queries, keys].
        """
        queries, _ = self.queries[:, :, :, None]
        keys, _, ends = self.keys[:, :, None, :]
        is_ancestor: Tensor = (keys <= queries) & (queries < ends)
        return is_ancestor


def batched(
    blocks: Sequence[QueryBlock], most_keys: int, device: torch.device | str = "cpu"
) -> tuple[list[Batch], Tensor]:
    """Combine query blocks into padded batches, each of which attends in one call.

    Args:
        blocks: The blocks of one forward pass, in the order of their queries.
        most_keys: How many keys a batch may have in all. With 0, each block is a batch.
        device: The device of the returned tensors.

    Returns:
        The batches, and for each query its row in the concatenated outputs of all batches.
    """
    groups = list(_groups(blocks, most_keys)) if most_keys else [[block] for block in blocks]
    first_query = blocks[0].queries[0, 0]
    last_query = blocks[-1].queries[0, -1]
    rows = np.empty(last_query + 1 - first_query, dtype=np.int64)

    batches = []
    num_rows = 0
    for group in groups:
        num_queries = max(block.queries.shape[1] for block in group)
        num_keys = max(block.keys.shape[1] for block in group)
        is_chain = all(block.is_whole_chain for block in group)
        if most_keys and not is_chain:
            # Round up, so that PyTorch need not copy the mask.
            num_keys += -num_keys % _ALIGNED
        for block in group:
            query_indices = block.queries[0] - first_query
            rows[query_indices] = num_rows + np.arange(len(query_indices))
            num_rows += num_queries

        queries = [_padded(block.queries, num_queries, block.queries[:, :1]) for block in group]
        keys = [_padded(block.keys, num_keys, _PADDED_KEY) for block in group]
        queries_table = torch.stack(queries, dim=1).to(device)
        keys_table = torch.stack(keys, dim=1).to(device)
        batches.append(Batch(queries_table, keys_table, is_chain))
    return batches, torch.from_numpy(rows).to(device)


def _groups(blocks: Sequence[QueryBlock], most_keys: int) -> Iterator[list[QueryBlock]]:
    """Group blocks of similar size so that no batch needs too much memory or padding.

    Args:
        blocks: The blocks of one forward pass.
        most_keys: How many keys the blocks of a group may have in all, with padding.

    Yields:
        The blocks of one batch. Unbranched blocks and others are never in the same batch.
    """
    by_size: dict[tuple[bool, int], list[QueryBlock]] = defaultdict(list)
    for block in blocks:
        # Blocks of 2 to 7 queries are one class, those of 8 to 31 the next.
        size_class = block.queries.shape[1].bit_length() // 2
        by_size[block.is_whole_chain, size_class].append(block)
    for (is_chain, _), similar in by_size.items():
        # The first block of a group has the most keys, and the others are padded to it.
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
    """Repeat a column at the right of a table until the table has ``width`` columns."""
    padding = np.repeat(column, width - table.shape[1], axis=1)
    return torch.from_numpy(np.concatenate([table, padding], axis=1))
