"""Requests as a forest of tokens in which every distinct token position stands once.

Two inputs that begin with the same tokens have the same hidden states there, so their common
beginning is one path. The positions are numbered in preorder, which makes the rest arithmetic: the
positions below j are j to end[j], so j comes before i in some input, or is i, just when j <= i <
end[j]; any stretch can be computed in one pass if the path to its start is at hand."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LONG = (
    96  # positions without a branch that are worth an attention of their own, which needs no mask
)
WIDE = 384  # positions that share one masked attention at most


@dataclass(frozen=True)
class Forest:
    """``tokens``, ``depth`` and ``end``, each of shape [positions]: the token at a position, its
    place in its inputs (from 0), and the number after the last position below it. A target is a
    token asked for: ``target_tokens[m]`` follows position ``target_positions[m]``, shape [targets],
    sorted by position, each pair once; ``answers[r]`` are those of request r."""

    tokens: Ints
    depth: Ints
    end: Ints
    target_positions: Ints
    target_tokens: Ints
    answers: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def targets_between(self, start: int, stop: int) -> slice:
        """The targets of positions ``start`` to ``stop``."""
        first, last = np.searchsorted(self.target_positions, (start, stop))
        return slice(int(first), int(last))

    @property
    def stem(self) -> int:
        """Number of tokens that all inputs begin with, such as a tokenizer's first: the trees stand
        on it."""
        return int(np.argmin(np.append(self.end, 0) == len(self)))

    def above_stem(self, start: int, stop: int) -> "Forest":
        """The stem and the trees of positions ``start`` to ``stop``, without answers; the stem's
        targets come first."""
        stem = self.stem
        shift = start - stem
        kept = np.r_[:stem, start:stop]
        end = np.concatenate([np.full(stem, stop - shift), self.end[start:stop] - shift])
        targets = self.targets_between(start if shift else 0, stop)
        positions = self.target_positions[targets] - shift
        return Forest(
            self.tokens[kept], self.depth[kept], end, positions, self.target_tokens[targets], ()
        )


def plant(sequences: Sequence[Sequence[int]], num_targets: Sequence[int]) -> Forest:
    """The forest of ``sequences``, of each of which the last ``num_targets`` tokens are asked for.
    The last token of a sequence is no input: nothing that follows it is asked for. Every sequence
    has more tokens than targets."""
    inputs, empty = (
        [np.asarray(sequence[:-1], dtype=np.int64) for sequence in sequences],
        np.empty(0, dtype=np.int64),
    )
    # Big-endian bytes order as the numbers do, and compare at the speed of memory.
    order = sorted(range(len(inputs)), key=lambda index: inputs[index].astype(">u4").tobytes())
    total, previous = 0, empty
    path = np.empty(
        max(map(len, inputs), default=0), dtype=np.int64
    )  # positions of the current input, by depth
    tokens, depths, asked = [empty], [empty], [empty] * len(inputs)
    closed: list[tuple[Ints, int]] = []
    for index in order:
        current = inputs[index]
        both = min(len(previous), len(current))
        shared = int(np.argmin(np.append(previous[:both] == current[:both], False)))
        if shared < len(current):
            closed.append((path[shared : len(previous)].copy(), total))
            fresh = len(current) - shared
            path[shared : len(current)] = np.arange(total, total + fresh)
            tokens.append(current[shared:])
            depths.append(np.arange(shared, len(current)))
            total += fresh
            previous = current
        asked[index] = path[len(current) - num_targets[index] : len(current)].copy()
    closed.append((path[: len(previous)].copy(), total))
    end = np.empty(total, dtype=np.int64)
    for positions, stop in closed:
        end[positions] = stop
    targets, answers = _unique_targets(sequences, num_targets, asked)
    return Forest(
        np.concatenate(tokens), np.concatenate(depths), end, targets[:, 0], targets[:, 1], answers
    )


def _unique_targets(
    sequences: Sequence[Sequence[int]], num_targets: Sequence[int], asked: Sequence[Ints]
) -> tuple[Ints, tuple[Ints, ...]]:
    """The distinct (position, token) pairs, shape [targets, 2], sorted, and each sequence's indices
    of them."""
    if not sequences:
        return np.empty((0, 2), dtype=np.int64), ()
    counts = zip(sequences, num_targets, strict=True)
    following = [
        np.asarray(sequence[len(sequence) - count :], dtype=np.int64) for sequence, count in counts
    ]
    pairs = np.stack([np.concatenate(asked), np.concatenate(following)], axis=1)
    unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
    bounds = np.cumsum([len(each) for each in following])[:-1]
    return unique, tuple(np.split(inverse.reshape(-1), bounds))


@dataclass(frozen=True)
class Stretch:
    """Positions ``start`` to ``stop``, for one forward pass, and the ``path`` to the first of them,
    shape [depth of start]."""

    start: int
    stop: int
    path: Ints

    def path_after(self, forest: Forest) -> Ints:
        """The path to the position that follows, all of which lies in this stretch or on its
        path."""
        own = self.start + np.flatnonzero(forest.end[self.start : self.stop] > self.stop)
        return np.concatenate([self.path[forest.end[self.path] > self.stop], own])


def next_stretch(
    forest: Forest, start: int, path: Ints, max_tokens: int, max_targets: int
) -> Stretch:
    """The stretch from ``start`` on that fills a forward pass of ``max_tokens`` positions, of which
    ``max_targets`` need logits. It ends where a tree ends if it can: what is cut has to keep the
    keys and values of its path for the next pass."""
    stop = min(len(forest), start + max(1, max_tokens))
    asked = np.unique(forest.target_positions[forest.targets_between(start, stop)])
    if len(asked) > max(1, max_targets):
        stop = int(asked[max(1, max_targets)])
    if stop < len(forest) and forest.depth[stop] != 0:
        roots = np.flatnonzero(forest.depth[start:stop] == 0)
        last = start + int(roots[-1]) if len(roots) else start
        # A tree that no pass can hold whole may as well begin here.
        if last > start and forest.end[last] - last <= max_tokens:
            stop = last
    return Stretch(start, stop, path)


@dataclass(frozen=True)
class Block:
    """Queries that attend to the same keys; both are counted from the first position of the
    stretch's path. ``queries`` is one slice, ``key_numbers`` are the path to its first position and
    itself, in order of depth, ``key_ends`` the ends of their subtrees, and ``*_depth`` depths,
    shapes [queries] and [keys]."""

    queries: slice
    key_numbers: Ints
    key_ends: Ints
    query_depth: Ints
    key_depth: Ints

    @property
    def is_whole_chain(self) -> bool:
        """Whether the block is one unbroken path from the first token of an input on: plain causal
        attention."""
        return len(self.key_depth) == len(self.query_depth) and bool(
            np.all(np.diff(self.query_depth) == 1)
        )


def blocks(forest: Forest, stretch: Stretch) -> list[Block]:
    """The stretch cut so that each block attends to its own path, not to the other trees of the
    pass."""
    own = slice(stretch.start, stretch.stop)
    num_before = len(stretch.path)
    depth = np.concatenate([np.arange(num_before), forest.depth[own]])
    end = np.concatenate([forest.end[stretch.path], forest.end[own]]) - stretch.start + num_before
    branches = num_before + 1 + np.flatnonzero(np.diff(forest.depth[own]) != 1)
    bounds = [num_before, *branches.tolist(), len(depth)]
    found = []
    for start, stop in _runs(bounds, depth):
        keys = np.concatenate([np.flatnonzero(end[:start] > start), np.arange(start, stop)])
        found.append(Block(slice(start, stop), keys, end[keys], depth[start:stop], depth[keys]))
    return found


def _runs(bounds: Sequence[int], depth: Ints) -> list[tuple[int, int]]:
    """Unbroken paths, short ones of one tree put together."""
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
