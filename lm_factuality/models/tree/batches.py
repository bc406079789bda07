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

from lm_factuality.models.tree.trie import Ints, QueryBlock

MAX_KEYS = 1 << 16
"""A batch on a GPU holds copies of the keys and values of at most so many keys."""

# If a mask is needed, a batch has at most so many pairs of a query and a key.
_MAX_PAIRS = 1 << 26
# Up to so many padded pairs cost less than starting another batch.
_MAX_PADDING = 1 << 19
# PyTorch copies no mask if the number of keys is a multiple of this.
_KEY_MULTIPLE = 16
# A padded key is at a depth that no query sees, and its subtree ends before any query.
_PADDED_KEY = np.array([[0], [1 << 30], [0]])
# The rows of the tables of queries and keys.
_NUMBER = 0
_DEPTH = 1
_SUBTREE_END = 2


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

    def attention_mask(
        self, mask_function: Callable[..., Any], dtype: torch.dtype
    ) -> Tensor | None:
        """Return the attention mask, which is added to the attention scores.

        Args:
            mask_function: The model's own function of (batch, head, query, key), which limits a
                layer to a sliding window or a chunk. Queries and keys are depths, i.e. positions
                within an input.
            dtype: The type of the mask, which is the type of the queries.

        Returns:
            0 where a query may attend to a key and -inf elsewhere, shape
            [blocks, 1, queries, keys]. None if plain causal attention needs no mask.
        """
        query_depths = self.queries[_DEPTH, :, :, None]
        key_depths = self.keys[_DEPTH, :, None, :]
        # The function depends on neither the batch nor the head, so both are 0.
        zero = torch.zeros(1, 1, 1, dtype=torch.long, device=self.keys.device)
        is_in_window = torch.as_tensor(mask_function(zero, zero, query_depths, key_depths))
        is_in_window = is_in_window.expand(*self.queries.shape[1:], self.keys.shape[2])

        # Without branches and windows, PyTorch's faster causal attention gives the same result.
        if self.is_chain and torch.equal(is_in_window, key_depths <= query_depths):
            return None
        is_visible = is_in_window & self.is_ancestor()
        mask = torch.zeros(is_visible.shape, dtype=dtype, device=is_visible.device)
        return mask.masked_fill_(~is_visible, float("-inf"))[:, None]

    def is_ancestor(self) -> Tensor:
        """Return whether each key is the query itself or one of its ancestors.

        Positions are numbered in preorder, so the descendants of a key are numbered from the key
        to before the end of its subtree.

        Returns:
            Booleans of shape [blocks, queries, keys].
        """
        queries = self.queries[_NUMBER, :, :, None]
        keys = self.keys[_NUMBER, :, None, :]
        ends = self.keys[_SUBTREE_END, :, None, :]
        is_ancestor: Tensor = (keys <= queries) & (queries < ends)
        return is_ancestor


def batch_query_blocks(
    blocks: Sequence[QueryBlock], max_keys: int, device: torch.device | str = "cpu"
) -> tuple[list[Batch], Tensor]:
    """Combine query blocks into padded batches, each of which attends in one call.

    Args:
        blocks: The blocks of one forward pass, in the order of their queries.
        max_keys: How many keys a batch may have in all. With 0, each block is a batch.
        device: The device of the returned tensors.

    Returns:
        The batches, and for each query its row in the concatenated outputs of all batches.
    """
    groups = _group_blocks(blocks, max_keys) if max_keys else [[block] for block in blocks]
    first_query = blocks[0].queries[_NUMBER, 0]
    last_query = blocks[-1].queries[_NUMBER, -1]
    rows = np.empty(last_query + 1 - first_query, dtype=np.int64)

    batches = []
    num_rows = 0
    for group in groups:
        num_queries = max(block.num_queries for block in group)
        for block in group:
            query_indices = block.queries[_NUMBER] - first_query
            rows[query_indices] = num_rows + np.arange(block.num_queries)
            num_rows += num_queries
        # A block that is alone needs no padding, whatever its number of keys.
        key_multiple = _KEY_MULTIPLE if max_keys else 1
        batches.append(_pad_blocks(group, num_queries, key_multiple, device))
    return batches, torch.from_numpy(rows).to(device)


def _group_blocks(blocks: Sequence[QueryBlock], max_keys: int) -> Iterator[list[QueryBlock]]:
    """Group blocks of similar size so that no batch needs too much memory or padding.

    Args:
        blocks: The blocks of one forward pass.
        max_keys: How many keys the blocks of a group may have in all, with padding.

    Yields:
        The blocks of one batch. Unbranched blocks and others are never in the same batch.
    """
    similar_blocks: dict[tuple[bool, int], list[QueryBlock]] = defaultdict(list)
    for block in blocks:
        # Blocks of 2 to 7 queries are one class, those of 8 to 31 the next.
        size_class = block.num_queries.bit_length() // 2
        similar_blocks[block.is_whole_chain, size_class].append(block)
    for (is_chain, _), class_blocks in similar_blocks.items():
        # A chain needs no mask, whose size would be the number of pairs.
        max_pairs = None if is_chain else _MAX_PAIRS
        yield from _split_by_memory(class_blocks, max_keys, max_pairs)


def _split_by_memory(
    blocks: Sequence[QueryBlock], max_keys: int, max_pairs: int | None
) -> Iterator[list[QueryBlock]]:
    """Split blocks into groups that need little memory and little padding.

    Args:
        blocks: Blocks of similar size.
        max_keys: How many keys the blocks of a group may have in all, with padding.
        max_pairs: How many pairs of a query and a key a group may have with padding, or None for
            no limit.

    Yields:
        The blocks of each group, those with the most keys first.
    """
    group: list[QueryBlock] = []
    max_queries = 0
    num_pairs = 0
    for block in sorted(blocks, key=lambda block: -block.num_keys):
        block_pairs = block.num_queries * block.num_keys
        if group:
            # The first block of a group has the most keys, and the others are padded to it.
            padded_keys = group[0].num_keys * (len(group) + 1)
            padded_pairs = padded_keys * max(max_queries, block.num_queries)
            has_many_pairs = max_pairs is not None and padded_pairs > max_pairs
            has_much_padding = padded_pairs - num_pairs - block_pairs > _MAX_PADDING
            if padded_keys > max_keys or has_many_pairs or has_much_padding:
                yield group
                group = []
                max_queries = 0
                num_pairs = 0
        group.append(block)
        max_queries = max(max_queries, block.num_queries)
        num_pairs += block_pairs
    yield group


def _pad_blocks(
    blocks: Sequence[QueryBlock], num_queries: int, key_multiple: int, device: torch.device | str
) -> Batch:
    """Pad the blocks of a batch to the same numbers of queries and keys.

    Args:
        blocks: The blocks of the batch.
        num_queries: The number of queries of the largest block.
        key_multiple: Masked blocks get a number of keys that is a multiple of this.
        device: The device of the batch.
    """
    num_keys = max(block.num_keys for block in blocks)
    is_chain = all(block.is_whole_chain for block in blocks)
    if not is_chain:
        num_keys += -num_keys % key_multiple
    queries = [_pad(block.queries, num_queries, block.queries[:, :1]) for block in blocks]
    keys = [_pad(block.keys, num_keys, _PADDED_KEY) for block in blocks]
    return Batch(
        queries=torch.stack(queries, dim=1).to(device),
        keys=torch.stack(keys, dim=1).to(device),
        is_chain=is_chain,
    )


def _pad(table: Ints, width: int, column: Ints) -> Tensor:
    """Repeat a column at the right of a table until the table has ``width`` columns."""
    padding = np.repeat(column, width - table.shape[1], axis=1)
    return torch.from_numpy(np.concatenate([table, padding], axis=1))
