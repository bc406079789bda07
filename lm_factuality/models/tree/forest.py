"""Requests as a forest of tokens in which every distinct token position stands once.

Two inputs that begin with the same tokens have the same hidden states there, so their common
beginning is one path. Positions are numbered in preorder: the positions below j are j to
``end[j]``. Position j therefore comes before i in some input, or is i, if and only if
``j <= i < end[j]``. `hf_tree` plants the forest and the engines compute it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# An unbranched path of so many positions is worth an attention of its own, which needs no mask.
LONG = 96
# So many positions share one masked attention at most.
WIDE = 384


@dataclass(frozen=True)
class Forest:
    """The distinct token positions of some inputs, and the tokens that are asked for."""

    tokens: Ints
    """The token at each position, shape [positions]."""

    depth: Ints
    """The place of each position in its inputs, from 0, shape [positions]."""

    end: Ints
    """The number after the last position below each position, shape [positions]."""

    target_positions: Ints
    """The position that each target follows, shape [targets], in ascending order."""

    target_tokens: Ints
    """The token that is asked for, shape [targets]. Each (position, token) stands once."""

    answers: tuple[Ints, ...]
    """For each request, the numbers of its targets."""

    def __len__(self) -> int:
        return len(self.tokens)

    def targets_between(self, start: int, stop: int) -> slice:
        """Return the targets of the positions from ``start`` to before ``stop``."""
        first, last = np.searchsorted(self.target_positions, (start, stop))
        return slice(int(first), int(last))

    @property
    def stem(self) -> int:
        """The number of tokens that all inputs begin with, such as a tokenizer's first token."""
        return int(np.argmin(np.append(self.end, 0) == len(self)))

    def above_stem(self, start: int, stop: int) -> "Forest":
        """Return a forest of the stem and the trees of positions ``start`` to ``stop``.

        It has no answers. Only the forest that begins right above the stem has the stem's targets.
        """
        stem = self.stem
        shift = start - stem
        kept = np.r_[:stem, start:stop]
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
    """Build the forest of some token sequences.

    Args:
        sequences: The tokens of each request. The last token of a sequence is no input, because
            nothing that follows it is asked for.
        num_targets: How many of the last tokens of each sequence are asked for. Each sequence
            must have more tokens than targets.
    """
    inputs = [np.asarray(sequence[:-1], dtype=np.int64) for sequence in sequences]
    # Big-endian bytes sort as the numbers do, and are compared at the speed of memory.
    order = sorted(range(len(inputs)), key=lambda index: inputs[index].astype(">u4").tobytes())
    empty = np.empty(0, dtype=np.int64)
    tokens = [empty]
    depths = [empty]
    asked = [empty] * len(inputs)
    ended: list[tuple[Ints, int]] = []
    total = 0
    previous = empty
    # The positions of the current input, by depth.
    path = np.empty(max(map(len, inputs), default=0), dtype=np.int64)
    for index in order:
        current = inputs[index]
        overlap = min(len(previous), len(current))
        is_same = previous[:overlap] == current[:overlap]
        shared = int(np.argmin(np.append(is_same, False)))
        if shared < len(current):
            ended.append((path[shared : len(previous)].copy(), total))
            depth = np.arange(shared, len(current))
            path[shared : len(current)] = total + depth - shared
            tokens.append(current[shared:])
            depths.append(depth)
            total += len(depth)
            previous = current
        asked[index] = path[len(current) - num_targets[index] : len(current)].copy()
    ended.append((path[: len(previous)].copy(), total))

    end = np.empty(total, dtype=np.int64)
    for positions, stop in ended:
        end[positions] = stop
    wanted: list[int] = []
    for sequence, count in zip(sequences, num_targets, strict=True):
        wanted.extend(sequence[len(sequence) - count :])
    pairs = np.stack([np.concatenate([empty, *asked]), np.asarray(wanted, dtype=np.int64)], axis=1)
    targets, inverse = np.unique(pairs, axis=0, return_inverse=True)
    answers = np.split(inverse.reshape(-1), np.cumsum(num_targets, dtype=np.int64)[:-1])
    return Forest(
        np.concatenate(tokens),
        np.concatenate(depths),
        end,
        targets[:, 0],
        targets[:, 1],
        tuple(answers[: len(sequences)]),
    )


@dataclass(frozen=True)
class Stretch:
    """Consecutive positions that one forward pass computes."""

    start: int
    stop: int
    path: Ints
    """The positions before ``start`` in its inputs, shape [depth of start]."""

    def path_after(self, forest: Forest) -> Ints:
        """Return the path to ``stop``. All of it lies in this stretch or on its path."""
        positions = np.concatenate([self.path, np.arange(self.start, self.stop)])
        path: Ints = positions[forest.end[positions] > self.stop]
        return path


def next_stretch(
    forest: Forest, start: int, path: Ints, max_tokens: int, max_targets: int
) -> Stretch:
    """Return the stretch from ``start`` on that fills a forward pass.

    It ends where a tree ends if that is possible. If a tree is cut, the keys and values of the
    path to the cut have to be kept for the next pass.

    Args:
        path: The positions before ``start`` in its inputs.
        max_tokens: How many positions the pass may hold.
        max_targets: How many of them may need logits.
    """
    stop = min(len(forest), start + max(1, max_tokens))
    asked = np.unique(forest.target_positions[forest.targets_between(start, stop)])
    if len(asked) > max(1, max_targets):
        stop = int(asked[max(1, max_targets)])
    if stop < len(forest) and forest.depth[stop] != 0:
        roots = np.flatnonzero(forest.depth[start:stop] == 0)
        last_root = start + int(roots[-1]) if len(roots) else start
        # A tree that no pass can hold whole may as well begin in this one.
        if last_root > start and forest.end[last_root] - last_root <= max_tokens:
            stop = last_root
    return Stretch(start, stop, path)


@dataclass(frozen=True)
class QueryBlock:
    """Consecutive queries that attend to the same keys, numbered from the path's first position."""

    queries: Ints
    """The number and the depth of each query, shape [2, queries]."""

    keys: Ints
    """Number, depth, and the number after the last position below each key, shape [3, keys].

    The keys are the path to the first query and the queries themselves, in order of depth.
    """

    @property
    def is_whole_chain(self) -> bool:
        """Whether the block is one unbranched path from an input's first token: plain causal."""
        is_unbranched = bool(np.all(np.diff(self.queries[1]) == 1))
        return is_unbranched and self.keys.shape[1] == self.queries.shape[1]


def blocks(forest: Forest, stretch: Stretch) -> list[QueryBlock]:
    """Cut a stretch so that each block attends to its own path and not to other trees."""
    num_before = len(stretch.path)
    positions = np.concatenate([stretch.path, np.arange(stretch.start, stretch.stop)])
    depth = forest.depth[positions]
    end = forest.end[positions] - stretch.start + num_before
    table = np.stack([np.arange(len(depth)), depth, end])
    branches = num_before + 1 + np.flatnonzero(np.diff(depth[num_before:]) != 1)
    cut = []
    for start, stop in _join_short_runs([num_before, *branches.tolist(), len(depth)], depth):
        path = np.flatnonzero(end[:start] > start)
        keys = np.concatenate([path, np.arange(start, stop)])
        cut.append(QueryBlock(table[:2, start:stop], table[:, keys]))
    return cut


def _join_short_runs(bounds: Sequence[int], depth: Ints) -> list[tuple[int, int]]:
    """Return the unbranched runs between ``bounds``, with short ones of one tree joined."""
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
