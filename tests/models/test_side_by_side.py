"""Branches of a trie that several threads score give the scores of one thread."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree import scorer
from lm_factuality.models.tree.logits import TargetScores, UnsupportedModelError
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import PassBudget, score_in_threads, score_trie
from lm_factuality.models.tree.trie import TokenTrie, build_trie
from tests.models.architectures import (
    VOCABULARY,
    answers_of,
    build_model,
    logprobs_of,
    make_requests,
)

NUM_CORES = 3
ONE_PASS = PassBudget(tokens=10_000, targets=10_000)  # more than any trie here has
SMALL_PASSES = PassBudget(tokens=300, targets=300)  # for all threads together


@pytest.fixture(autouse=True)
def three_cores(monkeypatch) -> Iterator[None]:
    """Let PyTorch use three cores, and let eight tokens be enough work for a thread.

    At the end, check that the code under test has left PyTorch's number of threads as it was.
    """
    original_count = torch.get_num_threads()
    monkeypatch.setattr(scorer, "_MIN_TOKENS_PER_THREAD", 8)
    torch.set_num_threads(NUM_CORES)
    yield
    count = torch.get_num_threads()
    torch.set_num_threads(original_count)
    assert count == NUM_CORES


def make_trie(common_length: int, num_contexts: int = 40, num_targets: int = 2) -> TokenTrie:
    """Build a trie of random sequences, of which every four have the same context.

    Args:
        common_length: The number of tokens that all sequences begin with.
        num_contexts: The number of contexts, each of 1 to 29 more tokens.
        num_targets: How many tokens at the end of a sequence are scored, where it has so many.
    """
    generator = random.Random(common_length)

    def draw_tokens(number: int) -> list[int]:
        return [generator.randrange(VOCABULARY) for _ in range(number)]

    common_tokens = draw_tokens(common_length)
    sequences = []
    for _ in range(num_contexts):
        context = draw_tokens(generator.randrange(1, 30))
        for _ in range(4):
            sequences.append([*common_tokens, *context, *draw_tokens(3)])
    return build_trie(sequences, [min(num_targets, len(tokens) - 1) for tokens in sequences])


def score(trie: TokenTrie, engine: PackedEngine, budget: PassBudget) -> TargetScores:
    """Score a trie in the thread that calls this."""
    # Turning off gradients holds only for the thread that does it.
    with torch.inference_mode():
        return score_trie(trie, engine, budget)


@pytest.fixture
def threads_of_engine(monkeypatch) -> set[int]:
    """Return the set of the threads in which an engine runs from now on."""
    thread_ids = set()
    run = PackedEngine.run

    def record_and_run(*arguments):
        thread_ids.add(threading.get_ident())
        return run(*arguments)

    monkeypatch.setattr(PackedEngine, "run", record_and_run)
    return thread_ids


@pytest.mark.parametrize("common_length", [0, 1, 4])
@pytest.mark.parametrize(
    "num_targets",
    [
        pytest.param(2, id="targets at the end"),
        pytest.param(40, id="targets among the common tokens too"),
    ],
)
def test_several_threads_give_the_same_scores_as_one(common_length, num_targets, threads_of_engine):
    """Branches are computed at the same time, and must not see each other's positions."""
    model = build_model("llama")
    trie = make_trie(common_length, num_targets=num_targets)
    expected = score(trie, PackedEngine(model), ONE_PASS)
    threads_of_engine.clear()  # forget the thread of this test, which has just run an engine

    scores = score_in_threads(trie, PackedEngine(model), SMALL_PASSES, score, cores=NUM_CORES)

    assert len(threads_of_engine) > 1
    assert threading.get_ident() not in threads_of_engine
    assert scores.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert np.array_equal(scores.is_likeliest, expected.is_likeliest)


@pytest.mark.parametrize(
    ("trie", "max_tokens"),
    [
        # Each thread would compute the common tokens again.
        pytest.param(make_trie(common_length=400), 3000, id="long common beginning"),
        pytest.param(make_trie(common_length=0, num_contexts=1), 3000, id="few tokens"),
        pytest.param(make_trie(common_length=0), 9, id="small passes"),
    ],
)
def test_small_work_runs_in_the_calling_thread(trie, max_tokens, threads_of_engine):
    """Starting threads takes longer than they save."""
    engine = PackedEngine(build_model("llama"))

    score_in_threads(trie, engine, PassBudget(max_tokens, max_tokens), score, cores=NUM_CORES)

    assert threads_of_engine == {threading.get_ident()}


def test_original_attention_is_restored_after_scoring():
    """Each thread's engine replaces the attention of the one model that they share."""
    model = build_model("llama")
    attention = model.config._attn_implementation
    trie = make_trie(common_length=0)

    score_in_threads(trie, PackedEngine(model), SMALL_PASSES, score, cores=NUM_CORES)

    assert model.config._attn_implementation == attention


def test_original_attention_is_restored_after_an_error():
    """``hf-tree`` falls back to the model itself, which must then work as before."""
    model = build_model("llama")
    attention = model.config._attn_implementation
    trie = make_trie(common_length=0)

    def fail(*_):
        raise UnsupportedModelError("no such attention")

    model.register_forward_pre_hook(fail)

    with pytest.raises(UnsupportedModelError):
        score_in_threads(trie, PackedEngine(model), SMALL_PASSES, score, cores=NUM_CORES)

    assert model.config._attn_implementation == attention


def test_hf_tree_uses_the_thread_count_of_pytorch(checkpoint, threads_of_engine):
    """Users limit the cores by PyTorch's number of threads, as for any other model."""
    tree = HFTree(pretrained=str(checkpoint), device="cpu", dtype="float32", batch_size=8)
    assert tree.engine is not None
    requests = make_requests(30)

    torch.set_num_threads(1)
    answers_of_one_core = answers_of(tree, requests)
    threads_with_one_core = set(threads_of_engine)
    torch.set_num_threads(NUM_CORES)
    answers_of_three_cores = answers_of(tree, requests)

    assert threads_with_one_core == {threading.get_ident()}
    assert len(threads_of_engine) > 2
    assert logprobs_of(answers_of_three_cores) == pytest.approx(
        logprobs_of(answers_of_one_core), abs=1e-4
    )
