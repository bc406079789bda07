"""A trie (prefix tree) that stores each distinct token prefix of all requests once.

Two inputs that begin with the same tokens have the same hidden states there, so their common
beginning is one path. Positions are numbered in preorder: position j and its descendants are
numbered from j to ``subtree_ends[j] - 1``. Position j is therefore i or an ancestor of i if and
only if ``j <= i < subtree_ends[j]``. `hf_tree` builds the trie and `packed` computes it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LONG_RUN = 96
"""An unbranched run of at least so many positions gets an attention call without a mask."""

MAX_JOINED_QUERIES = 384
"""At most so many positions share one masked attention call."""

_EMPTY: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class TokenTrie:
    """The distinct token positions of all inputs, and the target tokens to score after them.

    Inputs that differ in their first token have different roots, i.e. positions of depth 0.
    """

    tokens: Ints
    """The token at each position, shape [positions]."""

    depths: Ints
    """The index of each position within its inputs, from 0, shape [positions]."""

    subtree_ends: Ints
    """One more than the number of each position's last descendant, shape [positions]."""

    target_positions: Ints
    """The position that each target follows, shape [targets], in ascending order."""

    target_tokens: Ints
    """The token to score, shape [targets]. No (position, token) pair occurs twice."""

    targets_by_request: tuple[Ints, ...]
    """For each request, the indices of its targets in ``target_tokens``."""

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.tokens)

    def targets_between(self, start: int, stop: int) -> slice:
        """Return the slice of all targets that follow a position in ``range(start, stop)``."""
        first, last = np.searchsorted(self.target_positions, (start, stop))
        return slice(int(first), int(last))

    @property
    def common_length(self) -> int:
        """The number of tokens that all inputs begin with, such as 1 for a start token."""
        # A position is shared by all inputs if all later positions are its descendants.
        return _first_true(self.subtree_ends != len(self))

    def select_branches(self, start: int, stop: int) -> "TokenTrie":
        """Return a smaller trie of the common beginning and some of the branches after it.

        A branch is the subtree of a position that directly follows the common beginning. If all
        inputs begin with token 1, for example, the branches of the inputs [1, 5, 6] and [1, 7]
        are [5, 6] and [7].

        Args:
            start: The first position of the first branch.
            stop: The number after the last position of the last branch.

        Returns:
            A trie whose positions are numbered from 0, without ``targets_by_request``. Targets on
            the common beginning are only in the trie of the first branch, so that no target is
            scored twice.
        """
        common_length = self.common_length
        positions = np.concatenate([np.arange(common_length), np.arange(start, stop)])
        # In the smaller trie, the branches directly follow the common beginning, so their numbers
        # become smaller by the number of positions that are left out. The first branch keeps its
        # numbers, so the targets on the common beginning, which go with it, keep theirs too.
        shift = start - common_length
        has_first_branch = start == common_length
        first_target_position = 0 if has_first_branch else start
        targets = self.targets_between(first_target_position, stop)
        return TokenTrie(
            tokens=self.tokens[positions],
            depths=self.depths[positions],
            # Subtrees of the common beginning lose the branches after ``stop``.
            subtree_ends=np.minimum(self.subtree_ends[positions], stop) - shift,
            target_positions=self.target_positions[targets] - shift,
            target_tokens=self.target_tokens[targets],
            targets_by_request=(),
        )


def _first_true(flags: npt.NDArray[np.bool_]) -> int:
    """Return the index of the first True, or the number of flags if none is True.

    For example, the result is 2 for [False, False, True] and 1 for [False].
    """
    indices = np.flatnonzero(flags)
    return int(indices[0]) if len(indices) else len(flags)


def build_trie(sequences: Sequence[Sequence[int]], num_targets: Sequence[int]) -> TokenTrie:
    """Build a trie that holds every distinct beginning of some token sequences once.

    For example, the sequences [1, 2, 9] and [1, 3, 9] share position 0 (token 1), which has the
    children 2 and 3.

    Args:
        sequences: The token ids of each request. The last token of a sequence is only a target:
            the model need not read it, because nothing after it is scored.
        num_targets: How many tokens at the end of each sequence are to be scored. Each sequence
            must have more tokens than targets.

    Returns:
        The trie. Its ``targets_by_request`` is in the order of ``sequences``.
    """
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    inputs = [array[:-1] for array in arrays]
    builder = _TrieBuilder(max_positions=sum(map(len, inputs)))
    # The position of each token of each input.
    paths = [_EMPTY] * len(inputs)
    for index in _order_by_tokens(inputs):
        paths[index] = builder.add(inputs[index])

    targets_of_requests = [_EMPTY.reshape(0, 2)]
    for array, path, count in zip(arrays, paths, num_targets, strict=True):
        targets_of_requests.append(_last_targets(array, path, count))
    # Requests that score the same token at the same position share a target.
    targets, target_indices = np.unique(
        np.concatenate(targets_of_requests), axis=0, return_inverse=True
    )
    return TokenTrie(
        tokens=np.concatenate(builder.tokens),
        depths=np.concatenate(builder.depths),
        subtree_ends=builder.finish(),
        target_positions=targets[:, 0],
        target_tokens=targets[:, 1],
        # Some versions of NumPy return the indices as a column.
        targets_by_request=_split_by_request(target_indices.reshape(-1), num_targets),
    )


def _order_by_tokens(inputs: Sequence[Ints]) -> list[int]:
    """Return the indices of inputs in the lexicographic order of their tokens.

    For example, the order of the inputs [5, 8], [9] and [5, 7, 7] is 2, 0 and 1. In this order, no
    other earlier input shares more tokens with an input than the one directly before it.
    """
    # Big-endian bytes have the same order as the numbers, and are compared faster.
    return sorted(range(len(inputs)), key=lambda index: inputs[index].astype(">u4").tobytes())


def _last_targets(tokens: Ints, path: Ints, count: int) -> Ints:
    """Return the position before each of the last tokens of a sequence, and the token.

    For example, the last two of the tokens [5, 6, 7] with the path [0, 1] are [[0, 6], [1, 7]].

    Args:
        tokens: The tokens of the sequence.
        path: The positions of all tokens but the last.
        count: The number of targets.

    Returns:
        Positions and tokens, shape [count, 2].
    """
    first = len(path) - count
    return np.stack([path[first:], tokens[first + 1 :]], axis=1)


def _split_by_request(target_indices: Ints, num_targets: Sequence[int]) -> tuple[Ints, ...]:
    """Split the target indices of all requests into one array for each request.

    For example, [0, 4, 1, 0, 2, 3] becomes [0, 4], [1] and [0, 2, 3] if the three requests have 2,
    1 and 3 targets.
    """
    ends = np.cumsum(num_targets)
    # NumPy also returns an array of what follows the last end, which is empty.
    return tuple(np.split(target_indices, ends)[:-1])


class _TrieBuilder:
    """Numbers the positions of a trie while inputs are added in lexicographic order.

    For example, the input [5, 6, 7] gets the positions [0, 1, 2]. The input [5, 8] after it shares
    position 0 and gets the positions [0, 3].

    Attributes:
        tokens: For each input, the tokens of the positions that it added.
        depths: For each input, the depths of these positions.
    """

    def __init__(self, max_positions: int) -> None:
        """Create an empty trie, i.e. a prefix tree of token sequences.

        Args:
            max_positions: The most positions that the trie can get, which is the number of tokens
                of all inputs.
        """
        self._num_positions = 0
        # Each list gets an array for each input: the tokens of the positions that the input adds
        # to the trie, and their depths, i.e. their distances from the first token. NumPy cannot
        # concatenate an empty list, so both begin with an empty array.
        self.tokens = [_EMPTY]
        self.depths = [_EMPTY]
        # For each position, one more than the number of its last descendant. The number is filled
        # in when no later input can add a descendant to the position.
        self._subtree_ends = np.empty(max_positions, dtype=np.int64)
        self._previous_tokens = _EMPTY
        self._previous_path = _EMPTY

    def add(self, tokens: Ints) -> Ints:
        """Add an input and return the position of each of its tokens.

        After the input [5, 6, 7] with the positions [0, 1, 2], the input [5, 8] gets [0, 3].

        Args:
            tokens: The tokens of the input. They must not sort before the tokens of the last input.

        Returns:
            The positions, shape [tokens].
        """
        overlap = min(len(self._previous_tokens), len(tokens))
        num_shared = _first_true(self._previous_tokens[:overlap] != tokens[:overlap])
        shared_path = self._previous_path[:num_shared]
        # Inputs are sorted, so no later one comes back to the rest of the previous path. The
        # subtrees of its positions end here.
        completed_path = self._previous_path[num_shared:]
        self._subtree_ends[completed_path] = self._num_positions

        # The tokens that are not shared get new positions.
        num_new = len(tokens) - num_shared
        new_positions = np.arange(self._num_positions, self._num_positions + num_new)
        self._num_positions += num_new
        self.tokens.append(tokens[num_shared:])
        self.depths.append(np.arange(num_shared, len(tokens)))

        self._previous_tokens = tokens
        self._previous_path = np.concatenate([shared_path, new_positions])
        return self._previous_path

    def finish(self) -> Ints:
        """Return the end of each position's subtree, after all inputs were added."""
        # No input follows, so the subtrees of the last path are complete.
        self._subtree_ends[self._previous_path] = self._num_positions
        return self._subtree_ends[: self._num_positions]


@dataclass(frozen=True)
class PassRange:
    """The consecutive positions of a trie that one forward pass computes."""

    start: int
    """The first position of the pass."""

    stop: int
    """The number after the last position of the pass."""

    ancestors: Ints
    """The ancestors of position ``start``, from the root down, shape [depth of start]."""

    def with_ancestors(self) -> Ints:
        """Return the ancestors followed by the positions of the pass, in ascending order."""
        return np.concatenate([self.ancestors, np.arange(self.start, self.stop)])

    def next_ancestors(self, trie: TokenTrie) -> Ints:
        """Return the ancestors of position ``stop``, with which the next pass begins.

        All of them are in this pass or among its ancestors, because positions are in preorder.
        """
        positions = self.with_ancestors()
        ancestors: Ints = positions[trie.subtree_ends[positions] > self.stop]
        return ancestors


def next_pass_range(
    trie: TokenTrie, start: int, ancestors: Ints, max_tokens: int, max_targets: int
) -> PassRange:
    """Choose the consecutive positions that the next forward pass computes.

    The pass takes as many positions as both limits allow. If it would then end within a tree, it
    ends before this tree instead, unless the tree is its first or too large for any pass.

    Args:
        trie: The trie to compute.
        start: The first position that is not computed yet.
        ancestors: The ancestors of ``start``, from the root down.
        max_tokens: The most positions of the pass. With 0, the pass has one position.
        max_targets: The most positions of the pass that targets follow, at least 1. The model
            computes logits only at these positions.

    Returns:
        The range from ``start`` on, of one position or more.
    """
    max_tokens = max(1, max_tokens)
    stop = min(len(trie), start + max_tokens)
    # Several targets may follow one position, which needs its logits only once.
    positions_with_logits = np.unique(trie.target_positions[trie.targets_between(start, stop)])
    if len(positions_with_logits) > max_targets:
        # The pass ends before the first position that exceeds the limit.
        stop = int(positions_with_logits[max_targets])
    return PassRange(start, _stop_before_root(trie, start, stop, max_tokens), ancestors)


def _stop_before_root(trie: TokenTrie, start: int, stop: int, max_tokens: int) -> int:
    """Move the end of a pass back to the last root in it, if the end would cut a tree.

    A tree is a root (a position of depth 0) with its descendants. For example, if trees of 3
    positions begin at 0, 3 and 6, a pass from 0 that may hold 5 positions ends before 3.

    Args:
        trie: The trie to compute.
        start: The first position of the pass.
        stop: The number after the last position that the pass may hold.
        max_tokens: How many positions a pass may hold.

    Returns:
        The number of the last root, or ``stop`` if the end cuts no tree or the cut is unavoidable.
    """
    if stop == len(trie) or trie.depths[stop] == 0:
        return stop
    # A root at the start cannot become the end, because the pass would be empty.
    first = start + 1
    later_roots = first + np.flatnonzero(trie.depths[first:stop] == 0)
    if not len(later_roots):
        return stop
    last_root = int(later_roots[-1])
    # A tree that is too large for any pass is cut anyway.
    is_too_large = trie.subtree_ends[last_root] - last_root > max_tokens
    return stop if is_too_large else last_root


@dataclass(frozen=True)
class QueryBlock:
    """Consecutive query positions whose attention is computed together.

    Positions are numbered from 0 at the first ancestor of the pass.
    """

    queries: Ints
    """The number and the depth of each query, shape [2, queries]."""

    keys: Ints
    """Number, depth and end of the subtree of each key, shape [3, keys].

    The keys are the ancestors of the first query and the queries themselves, in order of depth.
    """

    @property
    def num_queries(self) -> int:
        """The number of positions that attend to others."""
        return int(self.queries.shape[1])

    @property
    def num_keys(self) -> int:
        """The number of positions that may be attended to."""
        return int(self.keys.shape[1])

    @property
    def is_whole_chain(self) -> bool:
        """Whether the block is one unbranched path from a root, i.e. needs only a causal mask."""
        _, depths = self.queries
        # In a path, each position is a child of the one before it, i.e. one deeper.
        is_unbranched = bool(np.all(np.diff(depths) == 1))
        # A path from a root has no ancestors, so the keys are the queries themselves.
        return is_unbranched and self.num_keys == self.num_queries


def split_into_query_blocks(trie: TokenTrie, pass_range: PassRange) -> list[QueryBlock]:
    """Split a pass into blocks of queries, each with the keys that its queries may attend to.

    A query is a position that the pass computes. Its keys are the position itself and its
    ancestors. Blocks number the ancestors of the pass and then its positions from 0 on. If a pass
    computes the positions 10, 11 and 12 with the ancestors 2 and 7, for example, the ancestors get
    the numbers 0 and 1, and the positions get 2, 3 and 4.

    Args:
        trie: The trie that the pass belongs to.
        pass_range: The positions that one forward pass computes.

    Returns:
        The blocks, in the order of their queries. Together they hold each position of the pass
        once as a query.
    """
    positions = pass_range.with_ancestors()
    depths = trie.depths[positions]
    # The first position that the pass computes is numbered after all ancestors.
    first_query = len(pass_range.ancestors)
    # Every subtree, even that of an ancestor, ends within or after the pass. Its end therefore
    # moves by the same distance as the positions of the pass.
    subtree_ends = trie.subtree_ends[positions] - pass_range.start + first_query

    query_blocks = []
    for start, stop in _join_short_runs(_find_runs(depths, first_query), depths):
        # A position before the block is an ancestor if its subtree reaches beyond the start.
        ancestors = np.flatnonzero(subtree_ends[:start] > start)
        queries = np.arange(start, stop)
        keys = np.concatenate([ancestors, queries])
        query_blocks.append(
            QueryBlock(
                queries=np.stack([queries, depths[queries]]),
                keys=np.stack([keys, depths[keys], subtree_ends[keys]]),
            )
        )
    return query_blocks


def _find_runs(depths: Ints, first: int) -> list[tuple[int, int]]:
    """Return the start and the end of each run, i.e. sequence in which each position has one child.

    For example, positions of the depths [0, 1, 2, 1] have the runs (0, 3) and (3, 4).

    Args:
        depths: The depth of each position, shape [positions].
        first: The position at which the first run starts.
    """
    # A run ends wherever the next position is not a child of this one.
    starts = first + 1 + np.flatnonzero(np.diff(depths[first:]) != 1)
    return list(itertools.pairwise([first, *starts.tolist(), len(depths)]))


def _join_short_runs(runs: Sequence[tuple[int, int]], depths: Ints) -> list[tuple[int, int]]:
    """Join neighbouring short runs of one tree, so that there are fewer attention calls.

    A run is an unbranched sequence of positions. For example, the runs (0, 5), (5, 8) and (8, 200)
    of one tree become (0, 8) and (8, 200), because only the third is long.

    Args:
        runs: The start and the end of each run, in order.
        depths: The depth of each position, 0 at the root of a tree, shape [positions].

    Returns:
        The start and the end of each joined run, in order.
    """
    joined: list[tuple[int, int]] = []
    # Nothing comes before the first run.
    is_previous_short = False
    for start, stop in runs:
        # A long run stays alone, because its attention needs no mask and is then faster.
        is_short = stop - start < LONG_RUN
        # A run that begins at a root is of another tree, and attends to no earlier position.
        is_in_tree = depths[start] > 0
        can_join = is_previous_short and is_short and is_in_tree
        if can_join and stop - joined[-1][0] <= MAX_JOINED_QUERIES:
            first_start, _ = joined[-1]
            joined[-1] = (first_start, stop)
        else:
            joined.append((start, stop))
        is_previous_short = is_short
    return joined
