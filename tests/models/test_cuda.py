"""On a GPU: the scores of the CPU, whatever the architecture and the size of a pass, and a pass
that really is too large."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import AutoTokenizer

from factor_gen.filter_models import FluencyModel
from factor_gen.settings import FluencySettings
from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree.scorer import PassBudget
from tests.conftest import TASKS
from tests.models.architectures import (
    ARCHITECTURES,
    POSITIONS,
    VOCABULARY,
    build,
    largest_difference,
    score_in_passes,
    some_requests,
    tree_and_plain,
)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that PyTorch sees"
)
LARGER = str(TASKS / "sample" / "models" / "larger")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_has_the_scores_of_the_cpu(name, checkpoint):
    requests = some_requests(VOCABULARY, POSITIONS, 60)
    expected = tree_and_plain(build(name), checkpoint)[1]._loglikelihood_tokens(requests, True)
    tree, plain = tree_and_plain(build(name).to("cuda"), checkpoint)
    assert tree.device.type == "cuda"
    found = tree._loglikelihood_tokens(requests, True)
    assert tree.engine is not None
    assert largest_difference(found, expected, requests) < 1e-3
    assert (
        largest_difference(plain._loglikelihood_tokens(requests, True), expected, requests) < 1e-3
    )
    for budget in (PassBudget(5, 2), PassBudget(200, 100)):
        answers = score_in_passes(requests, tree.engine, budget)
        assert largest_difference(answers, expected, requests) < 1e-3


def many(count: int) -> list[tuple]:
    """Requests that share beginnings by fours, more of them than a pass holds."""
    draw = random.Random(0)

    def some(number: int) -> list[int]:
        return [draw.randrange(1000) for _ in range(number)]

    begun = [some(draw.randrange(20, 200)) for _ in range(count // 4)]
    return [(None, begin, some(draw.randrange(1, 20))) for begin in begun for _ in range(4)]


def test_memory_that_runs_out_halves_the_pass_and_the_scores_stay(caplog):
    tree = HFTree(pretrained=LARGER, device="cuda", dtype="float32", batch_size="auto")
    requests = many(4000)
    expected = tree._loglikelihood_tokens(requests, True)
    assert "out of memory" not in caplog.text
    torch.cuda.empty_cache()
    total, left = (
        torch.cuda.get_device_properties(0).total_memory,
        torch.cuda.memory_allocated() + 160 * 2**20,
    )
    torch.cuda.set_per_process_memory_fraction(left / total)
    try:
        found = tree._loglikelihood_tokens(requests, True)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "out of memory; going on with" in caplog.text
    assert largest_difference(found, expected, requests) < 1e-4


def test_the_fluency_filter_has_the_scores_of_the_cpu():
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    texts = [tokenizer.decode([*begin, *more]) for _, begin, more in many(40)]
    model = FluencyModel(FluencySettings(LARGER))
    found = model.mean_logprobs(texts, [""] * len(texts))
    model.model.to("cpu")
    assert found == pytest.approx(model.mean_logprobs(texts, [""] * len(texts)), abs=1e-4)
