"""The trie of token sequences holds each beginning once, and can be cut into passes anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from lm_factuality.models.tree.batches import Batch, batch_query_blocks
from lm_factuality.models.tree.trie import (
    PassRange,
    TokenTrie,
    build_trie,
    next_pass_range,
    split_into_query_blocks,
)

NO_ANCESTORS = np.empty(0, dtype=np.int64)


class Request(NamedTuple):
    """A token sequence, and how many of its last tokens are to be scored."""

    tokens: list[int]
    num_targets: int


def make_requests(seed: int) -> list[Request]:
    """Make 60 random requests that share beginnings, and repeat the first one at the end.

    There are only five tokens, so that some sequences are the beginning of another.
    """
    generator = random.Random(seed)

    def draw_tokens(most: int) -> list[int]:
        return [generator.randrange(5) for _ in range(generator.randint(1, most))]

    stems = [draw_tokens(30) for _ in range(6)]
    requests = []
    for _ in range(60):
        stem = generator.choice(stems)
        tokens = stem[: generator.randint(1, len(stem))] + draw_tokens(12)
        requests.append(Request(tokens, generator.randint(1, len(tokens) - 1)))
    return [*requests, requests[0]]


def build_trie_of(requests: Sequence[Request]) -> TokenTrie:
    """Build the trie of requests."""
    return build_trie(
        [request.tokens for request in requests], [request.num_targets for request in requests]
    )


def paths_of(trie: TokenTrie) -> list[list[int]]:
    """Return for each position its ancestors, from the root down, and the position itself."""
    paths = []
    path = []
    for position, depth in enumerate(trie.depths):
        # Positions are in preorder, so the last path begins with the ancestors of the position.
        path = [*path[:depth], position]
        paths.append(path)
    return paths


def inputs_of(trie: TokenTrie) -> list[tuple[int, ...]]:
    """Return for each position the tokens from the root to it."""
    return [tuple(trie.tokens[path].tolist()) for path in paths_of(trie)]


@pytest.mark.parametrize("seed", range(2))
def test_every_distinct_prefix_has_one_position(seed):
    """Each position is one computation, which is done once for all requests that begin alike."""
    requests = make_requests(seed)
    beginnings = set()
    for request in requests:
        # The last token is only scored, so it needs no position.
        for length in range(1, len(request.tokens)):
            beginnings.add(tuple(request.tokens[:length]))

    trie = build_trie_of(requests)

    assert sorted(inputs_of(trie)) == sorted(beginnings)


@pytest.mark.parametrize("seed", range(2))
def test_each_target_is_scored_after_its_context(seed):
    """A token is scored at the position of the token before it."""
    requests = make_requests(seed)

    trie = build_trie_of(requests)

    inputs = inputs_of(trie)
    for request, targets in zip(requests, trie.targets_by_request, strict=True):
        first_target = len(request.tokens) - request.num_targets
        scored_tokens = trie.target_tokens[targets].tolist()
        texts_before = [inputs[position] for position in trie.target_positions[targets]]
        assert scored_tokens == request.tokens[first_target:]
        for length, text_before in enumerate(texts_before, start=first_target):
            assert text_before == tuple(request.tokens[:length])


def test_two_targets_of_one_request_are_scored_after_the_tokens_before_them():
    trie = build_trie([[5, 6, 7, 8]], num_targets=[2])

    inputs = inputs_of(trie)
    first_position, second_position = trie.target_positions
    assert trie.target_tokens.tolist() == [7, 8]
    assert inputs[first_position] == (5, 6)
    assert inputs[second_position] == (5, 6, 7)


@pytest.mark.parametrize("seed", range(2))
def test_targets_are_unique_and_ordered_by_position(seed):
    """A pass covers a range of positions, so its targets have to be a range, too."""
    trie = build_trie_of(make_requests(seed))

    positions = trie.target_positions.tolist()
    targets = list(zip(positions, trie.target_tokens.tolist(), strict=True))
    assert targets == sorted(set(targets))


def test_no_requests_give_an_empty_trie():
    """A task may have all answers in lm_eval's cache."""
    assert len(build_trie([], [])) == 0


@pytest.mark.parametrize(
    ("sequences", "common_length"),
    [
        pytest.param([[1, 2], [3, 4]], 0, id="other first tokens"),
        pytest.param([[1, 2, 3]], 2, id="one sequence without its last token"),
        pytest.param([[1, 2, 3], [1, 4, 3]], 1, id="same first token"),
        pytest.param([], 0, id="no sequence"),
    ],
)
def test_the_common_length_counts_the_tokens_before_the_first_branch(sequences, common_length):
    """Each group of branches repeats the common tokens, which is worth it only if these are few."""
    trie = build_trie(sequences, num_targets=[1] * len(sequences))

    assert trie.common_length == common_length


def cut_into_passes(trie: TokenTrie, max_tokens: int, max_targets: int) -> Iterator[PassRange]:
    """Yield the passes that compute all positions of a trie."""
    start = 0
    ancestors = NO_ANCESTORS
    while start < len(trie):
        pass_range = next_pass_range(trie, start, ancestors, max_tokens, max_targets)
        assert pass_range.start == start
        assert pass_range.stop > start, "the pass is empty"
        yield pass_range
        start = pass_range.stop
        ancestors = pass_range.next_ancestors(trie)


PASS_SIZES = pytest.mark.parametrize(
    ("max_tokens", "max_targets"),
    [
        pytest.param(1, 1, id="single positions"),
        pytest.param(7, 100, id="few tokens"),
        pytest.param(50, 4, id="few targets"),
        pytest.param(10_000, 10_000, id="one pass"),
    ],
)


@PASS_SIZES
@pytest.mark.parametrize("seed", range(2))
def test_passes_are_no_larger_than_allowed(seed, max_tokens, max_targets):
    """A larger pass could exceed the memory of the GPU."""
    trie = build_trie_of(make_requests(seed))

    for pass_range in cut_into_passes(trie, max_tokens, max_targets):
        targets = trie.targets_between(pass_range.start, pass_range.stop)
        positions_with_targets = set(trie.target_positions[targets].tolist())
        assert pass_range.stop - pass_range.start <= max_tokens
        assert len(positions_with_targets) <= max_targets


@PASS_SIZES
@pytest.mark.parametrize("seed", range(2))
def test_a_pass_knows_the_ancestors_of_its_first_position(seed, max_tokens, max_targets):
    """The pass needs the keys and values that earlier passes have computed for the ancestors."""
    trie = build_trie_of(make_requests(seed))
    paths = paths_of(trie)

    for pass_range in cut_into_passes(trie, max_tokens, max_targets):
        *ancestors, first_position = paths[pass_range.start]
        assert first_position == pass_range.start
        assert pass_range.ancestors.tolist() == ancestors


class Attention(NamedTuple):
    """A position that attends, and the positions that it attends to."""

    query: int
    keys: list[int]


def attention_of_batches(batches: Sequence[Batch], numbers: Sequence[int]) -> list[Attention]:
    """Return what each row of each batch attends to.

    Args:
        batches: The batches of a pass.
        numbers: The trie's position for each number of the pass.
    """
    rows = []
    for batch in batches:
        # The first row of queries and keys has their numbers.
        blocks = zip(batch.queries[0], batch.keys[0], batch.is_ancestor(), strict=True)
        for block_queries, block_keys, block_is_ancestor in blocks:
            for query, is_ancestor in zip(block_queries, block_is_ancestor, strict=True):
                keys = block_keys[is_ancestor].tolist()
                rows.append(Attention(numbers[query], [numbers[key] for key in keys]))
    return rows


@PASS_SIZES
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "max_keys",
    [pytest.param(0, id="a batch for each block"), pytest.param(200, id="blocks in batches")],
)
def test_every_position_attends_to_its_ancestors_and_itself(
    seed, max_tokens, max_targets, max_keys
):
    """A position that saw another branch would read a text that its request does not have."""
    trie = build_trie_of(make_requests(seed))
    paths = paths_of(trie)
    computed_positions = []

    for pass_range in cut_into_passes(trie, max_tokens, max_targets):
        # Other positions of the pass are hidden, as they belong to other branches.
        blocks = split_into_query_blocks(trie, pass_range)
        batches, rows = batch_query_blocks(blocks, max_keys)

        attention_rows = attention_of_batches(batches, pass_range.with_ancestors().tolist())
        for row in rows:
            attention = attention_rows[row]
            assert attention.keys == paths[attention.query]
            computed_positions.append(attention.query)
        if max_keys == 0:
            assert len(rows) == len(attention_rows), "a block that is alone has padding"

    assert computed_positions == list(range(len(trie)))


def test_pass_ends_at_a_tree_boundary_if_the_next_tree_fits_a_pass():
    """The pass could take five tokens, but ends behind the three tokens of the first tree.

    If it cut the second tree, the keys and values of that tree's first part would have to be kept.
    """
    # The sequences begin differently, so each is a tree. Its last token is scored and not read.
    trie = build_trie([[1, 1, 1, 9], [2, 2, 2, 9], [3, 3, 3, 9]], num_targets=[1, 1, 1])

    pass_range = next_pass_range(trie, 0, NO_ANCESTORS, max_tokens=5, max_targets=10)

    assert pass_range.start == 0
    assert pass_range.stop == 3
