"""A forest (a set of prefix trees) that stores each distinct token prefix of all requests once.

Two inputs that begin with the same tokens have the same hidden states there, so their common
beginning is one path. Positions are numbered in preorder: position j and its descendants are
numbered from j to ``end[j] - 1``. Position j is therefore i or an ancestor of i if and only if
``j <= i < end[j]``. `hf_tree` builds the forest and `packed` computes it in forward passes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# An unbranched run of at least so many positions gets an attention call without a mask.
LONG = 96
# At most so many positions share one masked attention call.
WIDE = 384


@dataclass(frozen=True)
class Forest:
    """The distinct token positions of all inputs, and the target tokens to score after them."""

    tokens: Ints
    """The token at each position, shape [positions]."""

    depth: Ints
    """The index of each position within its inputs, from 0, shape [positions]."""

    end: Ints
    """One more than the number of each position's last descendant, shape [positions]."""

    target_positions: Ints
    """The position that each target follows, shape [targets], in ascending order."""

    target_tokens: Ints
    """The token to score, shape [targets]. No (position, token) pair occurs twice."""

    answers: tuple[Ints, ...]
    """For each request, the indices of its targets in ``target_tokens``."""

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.tokens)

    def targets_between(self, start: int, stop: int) -> slice:
        """Return the slice of all targets that follow a position in ``range(start, stop)``."""
        first, last = np.searchsorted(self.target_positions, (start, stop))
        return slice(int(first), int(last))

    @property
    def stem(self) -> int:
        """The number of tokens that all inputs begin with, such as 1 for a start token."""
        # A position is shared by all inputs if all later positions are its descendants.
        return int(np.argmin(np.append(self.end, 0) == len(self)))

    def above_stem(self, start: int, stop: int) -> "Forest":
        """Return a smaller forest of the shared beginning and some of the trees that follow it.

        Args:
            start: The number of the first tree's root, directly after the stem.
            stop: The number after the last position of the last tree.

        Returns:
            A forest without answers, whose positions are numbered from 0. Only the forest that
            holds the first tree has the stem's own targets, so that no target is scored twice.
        """
        stem = self.stem
        shift = start - stem
        kept = np.r_[:stem, start:stop]
        # Without a shift, this is the first forest, which includes the stem's targets.
        targets = self.targets_between(start if shift else 0, stop)
        return Forest(
            tokens=self.tokens[kept],
            depth=self.depth[kept],
            end=np.concatenate([np.full(stem, stop - shift), self.end[start:stop] - shift]),
            target_positions=self.target_positions[targets] - shift,
            target_tokens=self.target_tokens[targets],
            answers=(),
        )


def plant(sequences: Sequence[Sequence[int]], num_targets: Sequence[int]) -> Forest:
    """Build a forest that holds every distinct beginning of some token sequences once.

    For example, the sequences [1, 2, 9] and [1, 3, 9] share position 0 (token 1), which has the
    children 2 and 3.

    Args:
        sequences: The token ids of each request. The last token of a sequence is only a target:
            the model need not read it, because nothing after it is scored.
        num_targets: How many tokens at the end of each sequence are to be scored. Each sequence
            must have more tokens than targets.

    Returns:
        The forest, with the targets of each request in ``answers``, in the order of ``sequences``.
    """
    inputs = [np.asarray(sequence[:-1], dtype=np.int64) for sequence in sequences]
    # Big-endian bytes sort as the numbers do, and are compared at the speed of memory.
    order = sorted(range(len(inputs)), key=lambda index: inputs[index].astype(">u4").tobytes())
    empty = np.empty(0, dtype=np.int64)
    tokens = [empty]
    depths = [empty]
    # For each request, the position before each of its targets.
    predicting = [empty] * len(inputs)
    # Positions whose subtrees are complete, with the number after their last descendant.
    completed: list[tuple[Ints, int]] = []
    total = 0
    previous = empty
    # The positions of the current input, by depth.
    path = np.empty(max(map(len, inputs), default=0), dtype=np.int64)
    for index in order:
        current = inputs[index]
        overlap = min(len(previous), len(current))
        is_same = previous[:overlap] == current[:overlap]
        shared = int(np.argmin(np.append(is_same, False)))
        # An input that lies on the previous path adds no positions.
        if shared < len(current):
            completed.append((path[shared : len(previous)].copy(), total))
            depth = np.arange(shared, len(current))
            path[shared : len(current)] = total + depth - shared
            tokens.append(current[shared:])
            depths.append(depth)
            total += len(depth)
            previous = current
        first_target = len(current) - num_targets[index]
        predicting[index] = path[first_target : len(current)].copy()
    completed.append((path[: len(previous)].copy(), total))

    end = np.empty(total, dtype=np.int64)
    for positions, stop in completed:
        end[positions] = stop

    target_tokens: list[int] = []
    for sequence, count in zip(sequences, num_targets, strict=True):
        target_tokens.extend(sequence[len(sequence) - count :])
    target_positions = np.concatenate([empty, *predicting])
    pairs = np.stack([target_positions, np.asarray(target_tokens, dtype=np.int64)], axis=1)
    # Requests that score the same token at the same position share a target.
    targets, inverse = np.unique(pairs, axis=0, return_inverse=True)
    answers = np.split(inverse.reshape(-1), np.cumsum(num_targets, dtype=np.int64)[:-1])
    return Forest(
        tokens=np.concatenate(tokens),
        depth=np.concatenate(depths),
        end=end,
        target_positions=targets[:, 0],
        target_tokens=targets[:, 1],
        answers=tuple(answers[: len(sequences)]),
    )


@dataclass(frozen=True)
class Stretch:
    """Consecutive positions of a forest that one forward pass computes."""

    start: int
    """The first position of the pass."""

    stop: int
    """The number after the last position of the pass."""

    path: Ints
    """The ancestors of position ``start``, from the root down, shape [depth of start]."""

    def path_after(self, forest: Forest) -> Ints:
        """Return the ancestors of position ``stop``, with which the next stretch begins.

        Each of them lies in this stretch or on its path, because positions are in preorder.
        """
        positions = np.concatenate([self.path, np.arange(self.start, self.stop)])
        path: Ints = positions[forest.end[positions] > self.stop]
        return path


def next_stretch(
    forest: Forest, start: int, path: Ints, max_tokens: int, max_targets: int
) -> Stretch:
    """Return the next stretch, i.e. the consecutive positions that fill one forward pass.

    The stretch ends between two trees if possible. If it cuts a tree, the keys and values of the
    path to the cut must be kept for the next pass.

    Args:
        forest: The forest to compute.
        start: The first position that is not computed yet.
        path: The ancestors of ``start``, from the root down.
        max_tokens: How many positions the pass may hold. At least one is taken.
        max_targets: How many of the positions may be followed by targets and so need logits.

    Returns:
        The stretch from ``start`` on, of one position or more.
    """
    stop = min(len(forest), start + max(1, max_tokens))
    needing_logits = np.unique(forest.target_positions[forest.targets_between(start, stop)])
    if len(needing_logits) > max(1, max_targets):
        stop = int(needing_logits[max(1, max_targets)])

    # Depth 0 is the root of a tree. Any other depth means that a tree would be cut.
    if stop < len(forest) and forest.depth[stop] != 0:
        roots = np.flatnonzero(forest.depth[start:stop] == 0)
        last_root = start + int(roots[-1]) if len(roots) else start
        # End before the last tree, unless it is too large for any pass and is cut anyway.
        if last_root > start and forest.end[last_root] - last_root <= max_tokens:
            stop = last_root
    return Stretch(start, stop, path)


@dataclass(frozen=True)
class QueryBlock:
    """Consecutive query positions whose attention is computed together.

    Positions are numbered from 0 at the first position of the stretch's path.
    """

    queries: Ints
    """The number and the depth of each query, shape [2, queries]."""

    keys: Ints
    """Number, depth and end of the subtree of each key, shape [3, keys].

    The keys are the path to the first query and the queries themselves, in order of depth.
    """

    @property
    def is_whole_chain(self) -> bool:
        """Whether the block is one unbranched path from a root, i.e. needs only a causal mask."""
        is_unbranched = bool(np.all(np.diff(self.queries[1]) == 1))
        return is_unbranched and self.keys.shape[1] == self.queries.shape[1]


def blocks(forest: Forest, stretch: Stretch) -> list[QueryBlock]:
    """Split a stretch into blocks of queries, each with the keys that its queries may attend to.

    Args:
        forest: The forest that the stretch belongs to.
        stretch: The positions that one forward pass computes.

    Returns:
        The blocks, in the order of their queries. Together they hold each position of the stretch
        once as a query.
    """
    num_before = len(stretch.path)
    positions = np.concatenate([stretch.path, np.arange(stretch.start, stretch.stop)])
    depth = forest.depth[positions]
    end = forest.end[positions] - stretch.start + num_before
    table = np.stack([np.arange(len(depth)), depth, end])
    # A run ends wherever the next position is not a child of this one.
    branches = num_before + 1 + np.flatnonzero(np.diff(depth[num_before:]) != 1)
    query_blocks = []
    for start, stop in _join_short_runs([num_before, *branches.tolist(), len(depth)], depth):
        # An earlier position is an ancestor if its subtree reaches beyond the block's start.
        path = np.flatnonzero(end[:start] > start)
        keys = np.concatenate([path, np.arange(start, stop)])
        query_blocks.append(QueryBlock(table[:2, start:stop], table[:, keys]))
    return query_blocks


def _join_short_runs(bounds: Sequence[int], depth: Ints) -> list[tuple[int, int]]:
    """Join neighbouring short runs of one tree, so that there are fewer attention calls.

    A run is an unbranched sequence of positions. For example, the bounds [0, 5, 8, 200] of one
    tree become [(0, 8), (8, 200)], because only the third run is long.

    Args:
        bounds: The start of each run, and the end of the last.
        depth: The depth of each position, 0 at the root of a tree, shape [positions].

    Returns:
        The start and the end of each joined run, in order.
    """
    runs: list[tuple[int, int]] = []
    after_long = True
    for start, stop in itertools.pairwise(bounds):
        is_long = stop - start >= LONG
        if after_long or is_long or depth[start] == 0 or stop - runs[-1][0] > WIDE:
            runs.append((start, stop))
        else:
            runs[-1] = (runs[-1][0], stop)
        after_long = is_long
    return runs
