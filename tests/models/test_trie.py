"""The trie of tokens: nothing twice, nothing lost, and any cut into passes sees the same
paths."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lm_factuality.models.tree.batches import batch_query_blocks
from lm_factuality.models.tree.trie import build_trie, next_pass_range, split_into_query_blocks


def some_requests(seed: int, count: int = 60) -> list[tuple[list[int], int]]:
    """Token sequences that share beginnings, nest and repeat, and how many of their last tokens are
    asked for."""
    rng = random.Random(seed)
    stems = [[rng.randrange(5) for _ in range(rng.randint(1, 30))] for _ in range(6)]
    requests = []
    for _ in range(count):
        stem = rng.choice(stems)
        sequence = stem[: rng.randint(1, len(stem))] + [
            rng.randrange(5) for _ in range(rng.randint(1, 12))
        ]
        requests.append((sequence, rng.randint(1, len(sequence) - 1)))
    return [*requests, requests[0]]


def paths(trie) -> list[list[int]]:
    """Of each position, its path and itself, by the parent that the depths give."""
    found: list[list[int]] = []
    for position, depth in enumerate(trie.depths):
        parent = (
            next((p for p in range(position - 1, -1, -1) if trie.depths[p] == depth - 1), None)
            if depth
            else None
        )
        found.append([*([] if parent is None else found[parent]), position])
    return found


@pytest.mark.parametrize("seed", range(2))
def test_a_position_stands_for_every_input_that_begins_like_it(seed):
    requests = some_requests(seed)
    trie = build_trie(*map(list, zip(*requests, strict=True)))
    beginnings = {
        tuple(sequence[: n + 1]) for sequence, _ in requests for n in range(len(sequence) - 1)
    }
    found = [tuple(int(trie.tokens[p]) for p in path) for path in paths(trie)]
    assert sorted(found) == sorted(beginnings)  # each once: a repeated one would make this longer
    for (sequence, count), targets in zip(requests, trie.targets_by_request, strict=True):
        assert trie.target_tokens[targets].tolist() == sequence[-count:]
        for offset, position in enumerate(trie.target_positions[targets]):
            assert found[position] == tuple(sequence[: len(sequence) - count + offset])
    pairs = list(zip(trie.target_positions.tolist(), trie.target_tokens.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("max_tokens", "max_targets"), [(1, 1), (7, 100), (50, 4), (10_000, 10_000)]
)
@pytest.mark.parametrize("most_keys", [0, 200])
def test_every_cut_sees_the_paths_of_the_forest(seed, max_tokens, max_targets, most_keys):
    trie = build_trie(*map(list, zip(*some_requests(seed), strict=True)))
    expected = paths(trie)
    start, path, seen = 0, np.empty(0, dtype=np.int64), []
    while start < len(trie):
        pass_range = next_pass_range(trie, start, path, max_tokens, max_targets)
        assert 0 < pass_range.stop - pass_range.start <= max_tokens
        assert (
            len(set(trie.target_positions[trie.targets_between(start, pass_range.stop)].tolist()))
            <= max_targets
        )
        assert pass_range.ancestors.tolist() == expected[start][:-1]
        numbers = [*pass_range.ancestors.tolist(), *range(pass_range.start, pass_range.stop)]
        batches, rows = batch_query_blocks(split_into_query_blocks(trie, pass_range), most_keys)
        found = [
            (numbers[query], [numbers[key] for key, is_on in zip(keys, some, strict=True) if is_on])
            for batch in batches
            for queries, keys, allowed in zip(
                batch.queries[0],
                batch.keys[0],
                batch.is_ancestor(),
                strict=True,
            )
            for query, some in zip(queries, allowed, strict=True)
        ]
        for row in rows:
            query, allowed = found[row]
            assert allowed == expected[query]
            seen.append(query)
        assert most_keys or len(rows) == len(found)  # nothing is filled up
        start, path = pass_range.stop, pass_range.next_ancestors(trie)
    assert seen == list(range(len(trie)))


def test_a_pass_ends_where_a_tree_ends_if_the_next_one_fits_a_pass():
    trie = build_trie([[1, 1, 1, 9], [2, 2, 2, 9], [3, 3, 3, 9]], [1, 1, 1])
    pass_range = next_pass_range(trie, 0, np.empty(0, dtype=np.int64), 5, 10)
    assert (pass_range.start, pass_range.stop) == (0, 3)


def test_nothing_to_score_is_an_empty_forest():
    assert len(build_trie([], [])) == 0


@pytest.mark.parametrize(
    ("sequences", "stem"),
    [([[1, 2], [3, 4]], 0), ([[1, 2, 3]], 2), ([[1, 2, 3], [1, 4, 3]], 1), ([], 0)],
)
def test_the_stem_is_what_comes_before_the_first_branch(sequences, stem):
    assert build_trie(sequences, [1] * len(sequences)).common_length == stem
