"""Blocks of a forward pass whose attention is computed at once.

A GPU computes the attention of a hundred short blocks in the time that it takes to start that of
one, so blocks of like size are filled up to the same one. A CPU starts each in no time, and would
compute what fills them up."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lm_factuality.models.tree.forest import Block, Ints

MOST_KEYS = 1 << 16  # of a batch on a GPU: it holds copies of their keys and values ...
_MOST_PAIRS = 1 << 26  # ... and a number for each pair of a query and a key where a mask is needed
_MOST_FILLED = (
    1 << 19
)  # pairs without a meaning that are sooner computed than another batch is started
_ALIGNED = 16  # the multiple of keys for which PyTorch copies no mask
_NOWHERE = 1 << 30  # the depth of what no query sees


@dataclass(frozen=True)
class Batch:
    """``queries`` and ``keys``, shapes [blocks, queries] and [blocks, keys], are positions, counted
    from the first one of the stretch's path; ``ends`` the ends of the keys' subtrees, and the
    depths those of both. Queries are filled up with the first one of the block, keys with what ends
    before any query. ``is_chain``: all blocks are whole chains."""

    queries: Ints
    keys: Ints
    ends: Ints
    query_depth: Ints
    key_depth: Ints
    is_chain: bool


def before(queries: Any, keys: Any, ends: Any) -> Any:
    """Which key comes before which query in an input, or is it, shape [blocks, queries, keys]; of
    arrays or tensors."""
    return (keys[:, None, :] <= queries[:, :, None]) & (queries[:, :, None] < ends[:, None, :])


def batched(blocks: Sequence[Block], most_keys: int) -> tuple[list[Batch], Ints]:
    """The blocks in batches of up to ``most_keys`` keys, or each alone; and for each query its row
    among those of all batches."""
    groups = list(_groups(blocks, most_keys)) if most_keys else [[block] for block in blocks]
    first = blocks[0].queries.start
    rows = np.empty(blocks[-1].queries.stop - first, dtype=np.int64)
    batches, done = [], 0
    for group in groups:
        width = max(len(block.query_depth) for block in group)
        for place, block in enumerate(group):
            start = done + place * width
            rows[block.queries.start - first : block.queries.stop - first] = np.arange(
                start, start + len(block.query_depth)
            )
        done += width * len(group)
        batches.append(_batch(group, width, _ALIGNED if most_keys else 1))
    return batches, rows


def _groups(blocks: Sequence[Block], most_keys: int) -> Iterator[list[Block]]:
    kinds: dict[tuple[bool, int], list[Block]] = defaultdict(list)
    for block in blocks:
        kinds[block.is_whole_chain, len(block.query_depth).bit_length() // 2].append(block)
    for (is_chain, _), like in kinds.items():
        like.sort(key=lambda block: -len(block.key_depth))
        group: list[Block] = []
        width = used = 0
        for block in like:
            own = len(block.query_depth) * len(block.key_depth)
            width = max(width, len(block.query_depth))
            keys = len(group[0].key_depth) * (len(group) + 1) if group else 0
            is_full = keys > most_keys or (not is_chain and keys * width > _MOST_PAIRS)
            if group and (is_full or keys * width - used - own > _MOST_FILLED):
                yield group
                group, width, used = [], len(block.query_depth), 0
            group.append(block)
            used += own
        yield group


def _batch(group: Sequence[Block], num_queries: int, multiple: int) -> Batch:
    is_chain = all(block.is_whole_chain for block in group)
    num_keys = max(len(block.key_depth) for block in group)
    num_keys = num_keys if is_chain else -(-num_keys // multiple) * multiple
    queries = [np.arange(block.queries.start, block.queries.stop) for block in group]
    return Batch(
        _filled(queries, num_queries, None),
        _filled([block.key_numbers for block in group], num_keys, 0),
        _filled([block.key_ends for block in group], num_keys, 0),
        _filled([block.query_depth for block in group], num_queries, None),
        _filled([block.key_depth for block in group], num_keys, _NOWHERE),
        is_chain,
    )


def _filled(rows: Sequence[npt.NDArray[np.int64]], width: int, value: int | None) -> Ints:
    """The rows filled up with ``value``, or with their own first one, shape [rows, width]."""
    found = np.empty((len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
        found[place, len(row) :] = row[0] if value is None else value
    return found
