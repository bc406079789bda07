"""Trees that several threads compute at once have the scores that one has, and leave the process as
it was."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import torch

from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree import scorer
from lm_factuality.models.tree.logits import UnsupportedModelError
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import PassBudget, score_in_threads, score_trie
from lm_factuality.models.tree.trie import build_trie
from tests.models.architectures import VOCABULARY, build


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    """And passes so small that a few tokens are worth a thread."""
    before = torch.get_num_threads()
    monkeypatch.setattr(scorer, "_MIN_TOKENS_PER_THREAD", 8)
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)


def some(stem: int, count: int = 40, length: int = 30) -> list[list[int]]:
    """Four sequences a beginning, which follows a stem that all share."""
    draw = random.Random(stem)

    def tokens(number: int) -> list[int]:
        return [draw.randrange(VOCABULARY) for _ in range(number)]

    shared = tokens(stem)
    return [
        [*shared, *begun, *tokens(3)]
        for begun in (tokens(draw.randrange(1, length)) for _ in range(count))
        for _ in range(4)
    ]


def scored(trie, engine, budget):
    with torch.inference_mode():
        return score_trie(trie, engine, budget)


def counted(engine, monkeypatch) -> set[int]:
    """The threads in which an engine of its class runs."""
    used: set[int] = set()
    run = type(engine).run
    monkeypatch.setattr(
        type(engine), "run", lambda *given: used.add(threading.get_ident()) or run(*given)
    )
    return used


@pytest.mark.parametrize("stem", [0, 1, 4])
@pytest.mark.parametrize("asked", [2, 40])  # of 40, those on the stem are as well
def test_the_scores_are_those_of_one_thread(stem, asked, monkeypatch):
    model, sequences = build("llama"), some(stem)
    trie = build_trie(sequences, [min(asked, len(each) - 1) for each in sequences])
    with torch.inference_mode():
        expected = score_trie(trie, PackedEngine(model), PassBudget(10_000, 10_000))
    engine = PackedEngine(model)
    used = counted(engine, monkeypatch)
    found = score_in_threads(trie, engine, PassBudget(300, 300), scored, 3)
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert np.array_equal(found.greedy, expected.greedy)
    assert len(used) > 1
    assert threading.get_ident() not in used


@pytest.mark.parametrize(("stem", "count", "budget"), [(400, 40, 3000), (0, 1, 3000), (0, 40, 9)])
def test_one_thread_does_what_is_not_worth_sharing(stem, count, budget, monkeypatch):
    trie = build_trie(sequences := some(stem, count), [2] * len(sequences))
    engine = PackedEngine(build("llama"))
    used = counted(engine, monkeypatch)
    score_in_threads(trie, engine, PassBudget(budget, budget), scored, 3)
    assert used == {threading.get_ident()}


def test_the_model_has_its_own_attention_again(monkeypatch):
    model = build("llama")
    before = model.config._attn_implementation
    trie = build_trie(sequences := some(0), [2] * len(sequences))
    score_in_threads(trie, PackedEngine(model), PassBudget(300, 300), scored, 3)
    assert model.config._attn_implementation == before
    model.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(UnsupportedModelError("no")))
    with pytest.raises(UnsupportedModelError):
        score_in_threads(trie, PackedEngine(model), PassBudget(300, 300), scored, 3)
    assert model.config._attn_implementation == before


def test_hf_tree_shares_its_batches_out(checkpoint, monkeypatch):
    tree = HFTree(pretrained=str(checkpoint), device="cpu", dtype="float32", batch_size=8)
    draw = random.Random(0)
    requests = [(("", ""), [draw.randrange(100) for _ in range(30)], [1, 2]) for _ in range(30)]
    used = counted(tree.engine, monkeypatch)
    found = tree._loglikelihood_tokens(requests, True)
    assert len(used) > 1
    torch.set_num_threads(1)
    assert [logprob for logprob, _ in found] == pytest.approx(
        [each for each, _ in tree._loglikelihood_tokens(requests, True)], abs=1e-4
    )
    torch.set_num_threads(3)
