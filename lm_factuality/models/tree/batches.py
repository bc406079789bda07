"""Blocks of a forward pass whose attention is computed at once.

A GPU computes the attention of a hundred short blocks in the time that it takes to start that of
one, so blocks of similar size are padded to the same size there. A CPU starts each block at once
and would compute the padding for nothing, so there each block is a batch of its own.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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

    @property
    def query_numbers(self) -> Tensor:
        """The number of each query, counted from the first ancestor of the pass."""
        return self.queries[_NUMBER]

    @property
    def key_numbers(self) -> Tensor:
        """The number of each key, counted in the same way."""
        return self.keys[_NUMBER]

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
        # The function gives the same result for every input of a batch and every head, so it is
        # called for the first of them.
        first = torch.zeros(1, 1, 1, dtype=torch.long, device=self.keys.device)
        is_in_window = mask_function(first, first, query_depths, key_depths)

        is_ancestor = self.is_ancestor()
        is_visible: Tensor = is_ancestor & is_in_window
        # In a chain, all earlier positions are ancestors. If the window hides none of them, a query
        # sees the same keys in PyTorch's causal attention, which is faster.
        if self.is_chain and torch.equal(is_visible, is_ancestor):
            return None
        mask = torch.zeros(is_visible.shape, dtype=dtype, device=is_visible.device)
        return mask.masked_fill_(~is_visible, float("-inf"))[:, None]

    def is_ancestor(self) -> Tensor:
        """Return whether each key is the query itself or one of its ancestors.

        Positions are numbered in preorder, so a key and its descendants have consecutive numbers,
        up to the end of the key's subtree. For example, a key with the number 3 and the end 6 is an
        ancestor of the queries 4 and 5.

        Returns:
            Booleans of shape [blocks, queries, keys].
        """
        query_numbers = self.query_numbers[:, :, None]
        key_numbers = self.key_numbers[:, None, :]
        subtree_ends = self.keys[_SUBTREE_END, :, None, :]
        is_in_subtree: Tensor = (key_numbers <= query_numbers) & (query_numbers < subtree_ends)
        return is_in_subtree


def batch_query_blocks(
    blocks: Sequence[QueryBlock], max_keys: int, device: torch.device | str = "cpu"
) -> tuple[list[Batch], Tensor]:
    """Combine query blocks into padded batches, each of which attends in one call.

    Args:
        blocks: The blocks of one forward pass, in the order of their queries.
        max_keys: How many keys a batch may have in all. With 0, each block is a batch.
        device: The device of the returned tensors.

    Returns:
        The batches, and for each query the row of its output in the concatenated outputs of all
        batches (see `_find_output_rows`).
    """
    if max_keys:
        groups = list(_group_blocks(blocks, max_keys))
        key_multiple = _KEY_MULTIPLE
    else:
        # A block that is alone needs no padding.
        groups = [[block] for block in blocks]
        key_multiple = 1
    batches = [_pad_blocks(group, key_multiple, device) for group in groups]
    return batches, torch.from_numpy(_find_output_rows(groups)).to(device)


def _find_output_rows(groups: Sequence[Sequence[QueryBlock]]) -> Ints:
    """Return for each query, in the order of their numbers, the row of its output.

    Each block has as many outputs as the longest block of its batch. If the only batch has blocks
    of 2 and 3 queries, for example, it has 6 outputs. Row 2 is the padding of the first block, so
    the queries have the rows 0, 1, 3, 4 and 5.

    Args:
        groups: The blocks of each batch.
    """
    query_numbers = []
    rows = []
    first_row = 0
    for group in groups:
        padded_size = max(block.num_queries for block in group)
        for block in group:
            query_numbers.append(block.queries[_NUMBER])
            rows.append(first_row + np.arange(block.num_queries))
            first_row += padded_size
    by_number = np.argsort(np.concatenate(query_numbers))
    return np.concatenate(rows)[by_number]


def _group_blocks(blocks: Sequence[QueryBlock], max_keys: int) -> Iterator[list[QueryBlock]]:
    """Group blocks of similar size so that no batch needs too much memory or padding.

    Args:
        blocks: The blocks of one forward pass.
        max_keys: How many keys the blocks of a group may have in all, with padding.

    Yields:
        The blocks of one batch. Chains, i.e. unbranched paths from a root, are never in the same
        batch as other blocks.
    """
    blocks_by_class: dict[tuple[bool, int], list[QueryBlock]] = defaultdict(list)
    for block in blocks:
        # Half the number of binary digits is 1 for blocks of 2 to 7 queries, 2 for blocks of 8 to
        # 31 queries, and so on. The largest block of a class is up to four times its smallest.
        size_class = block.num_queries.bit_length() // 2
        blocks_by_class[block.is_whole_chain, size_class].append(block)
    for (is_chain, _), similar_blocks in blocks_by_class.items():
        # Chains need no mask. In a mask, each pair of a query and a key takes memory.
        max_pairs = math.inf if is_chain else _MAX_PAIRS
        yield from _split_by_memory(similar_blocks, max_keys, max_pairs)


def _split_by_memory(
    blocks: Sequence[QueryBlock], max_keys: int, max_pairs: float
) -> Iterator[list[QueryBlock]]:
    """Split blocks into groups that need little memory and little padding.

    All blocks of a group are padded to its largest number of keys and of queries.

    Args:
        blocks: Blocks of similar size.
        max_keys: How many keys the blocks of a group may have in all, with padding.
        max_pairs: How many pairs of a query and a key a group may have with padding, or infinity.

    Yields:
        The blocks of each group, those with the most keys first.
    """
    group: list[QueryBlock] = []
    size = _GroupSize()
    for block in sorted(blocks, key=lambda block: block.num_keys, reverse=True):
        size = size.with_block(block)
        is_too_large = size.padded_keys > max_keys or size.padded_pairs > max_pairs
        # A block that is too large by itself is a group nevertheless.
        if group and (is_too_large or size.padding > _MAX_PADDING):
            yield group
            group = []
            size = _GroupSize().with_block(block)
        group.append(block)
    yield group


class _GroupSize(NamedTuple):
    """The size of a group of blocks that are padded to the same numbers of queries and keys."""

    num_blocks: int = 0
    """The number of blocks."""

    most_queries: int = 0
    """The number of queries to which each block is padded."""

    most_keys: int = 0
    """The number of keys to which each block is padded."""

    num_pairs: int = 0
    """The pairs of a query and a key in all blocks, without padding."""

    def with_block(self, block: QueryBlock) -> "_GroupSize":
        """Return the size of the group with one block more."""
        return _GroupSize(
            num_blocks=self.num_blocks + 1,
            most_queries=max(self.most_queries, block.num_queries),
            most_keys=max(self.most_keys, block.num_keys),
            num_pairs=self.num_pairs + block.num_queries * block.num_keys,
        )

    @property
    def padded_keys(self) -> int:
        """The keys of all blocks, with padding."""
        return self.num_blocks * self.most_keys

    @property
    def padded_pairs(self) -> int:
        """The pairs of a query and a key in all blocks, with padding."""
        return self.padded_keys * self.most_queries

    @property
    def padding(self) -> int:
        """The pairs that are only padding."""
        return self.padded_pairs - self.num_pairs


def _pad_blocks(
    blocks: Sequence[QueryBlock], key_multiple: int, device: torch.device | str
) -> Batch:
    """Pad the blocks of a batch to the same numbers of queries and keys.

    Args:
        blocks: The blocks of the batch.
        key_multiple: If the batch needs a mask, its number of keys is rounded up to a multiple of
            this.
        device: The device of the batch.
    """
    num_queries = max(block.num_queries for block in blocks)
    num_keys = max(block.num_keys for block in blocks)
    is_chain = all(block.is_whole_chain for block in blocks)
    # Chains usually need no mask, and causal attention takes as many keys as queries.
    if not is_chain:
        num_keys = key_multiple * math.ceil(num_keys / key_multiple)

    padded_queries = []
    padded_keys = []
    for block in blocks:
        # A query that attends to no key would give NaN, so the padding repeats the first query.
        first_query = block.queries[:, :1]
        padded_queries.append(_pad(block.queries, num_queries, first_query))
        padded_keys.append(_pad(block.keys, num_keys, _PADDED_KEY))
    return Batch(
        queries=torch.stack(padded_queries, dim=1).to(device),
        keys=torch.stack(padded_keys, dim=1).to(device),
        is_chain=is_chain,
    )


def _pad(table: Ints, width: int, column: Ints) -> Tensor:
    """Append a column to a table until it has ``width`` columns: [[1, 2]] becomes [[1, 2, 0, 0]].

    Args:
        table: The table.
        width: The number of columns of the result.
        column: The column to repeat, [[0]] in the example.
    """
    padding = np.repeat(column, width - table.shape[1], axis=1)
    return torch.from_numpy(np.concatenate([table, padding], axis=1))
