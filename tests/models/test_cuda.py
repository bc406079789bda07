"""On a GPU, ``hf-tree`` and the fluency filter give the scores of the CPU."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedModel

from factor_gen.filter_models import FluencyModel
from factor_gen.settings import FluencySettings
from lm_factuality.models.hf_tree import HFTree, TokenRequest
from lm_factuality.models.tree.scorer import PassBudget
from tests.conftest import TASKS
from tests.models.architectures import (
    ARCHITECTURES,
    answers_of,
    build_model,
    largest_difference,
    load_hf,
    load_tree,
    logprobs_of,
    make_requests,
    score_in_passes,
)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU that PyTorch sees"
)
LARGER = str(TASKS / "sample" / "models" / "larger")


def score_by_hf(model: PreTrainedModel, checkpoint: Path, requests: list) -> list[float]:
    """Return the log-likelihood of each request from lm_eval's ``hf``."""
    return logprobs_of(answers_of(load_hf(model, checkpoint), requests))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tree_scores_on_gpu_equal_hf_scores_on_cpu(name, checkpoint):
    """Kernels of the GPU round in another way, by less than 0.001 per token."""
    requests = make_requests(60)
    expected = score_by_hf(build_model(name), checkpoint, requests)
    tree = load_tree(build_model(name).to("cuda"), checkpoint)

    logprobs = logprobs_of(answers_of(tree, requests))

    assert tree.device.type == "cuda"
    assert tree.engine is not None
    assert largest_difference(logprobs, expected, requests) < 1e-3


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_hf_scores_on_gpu_equal_hf_scores_on_cpu(name, checkpoint):
    """If this fails, the GPU computes a model wrongly without ``hf-tree``, too."""
    requests = make_requests(60)
    expected = score_by_hf(build_model(name), checkpoint, requests)

    logprobs = score_by_hf(build_model(name).to("cuda"), checkpoint, requests)

    assert largest_difference(logprobs, expected, requests) < 1e-3


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    ("max_tokens", "max_targets"),
    [pytest.param(5, 2, id="tiny passes"), pytest.param(200, 100, id="small passes")],
)
def test_small_gpu_passes_give_the_cpu_scores(name, max_tokens, max_targets, checkpoint):
    """A token in a later pass still has to attend to its text in earlier passes."""
    requests = make_requests(60)
    expected = score_by_hf(build_model(name), checkpoint, requests)
    tree = load_tree(build_model(name).to("cuda"), checkpoint)

    logprobs = score_in_passes(requests, tree.engine, PassBudget(max_tokens, max_targets))

    assert largest_difference(logprobs, expected, requests) < 1e-3


def make_long_requests(count: int) -> list[TokenRequest]:
    """Make random requests of which every four have the same context of 20 to 200 tokens."""
    generator = random.Random(0)

    def draw_tokens(number: int) -> list[int]:
        return [generator.randrange(1000) for _ in range(number)]

    contexts = [draw_tokens(generator.randrange(20, 200)) for _ in range(count // 4)]
    requests = []
    for context in contexts:
        for _ in range(4):
            requests.append((None, context, draw_tokens(generator.randrange(1, 20))))
    return requests


@pytest.fixture
def limit_gpu_memory():
    """Return a function that leaves PyTorch so many more bytes of the GPU's memory."""

    def limit(num_bytes: int) -> None:
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        allowed = torch.cuda.memory_allocated() + num_bytes
        torch.cuda.set_per_process_memory_fraction(allowed / total)

    yield limit
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_pass_is_halved_when_the_gpu_runs_out_of_memory(caplog, limit_gpu_memory):
    """On the CPU this is tested with a made-up error. Here PyTorch raises it."""
    tree = HFTree(pretrained=LARGER, device="cuda", dtype="float32", batch_size="auto")
    requests = make_long_requests(4000)
    expected = logprobs_of(answers_of(tree, requests))
    assert "out of memory" not in caplog.text
    limit_gpu_memory(160 * 2**20)  # less than one pass needs

    logprobs = logprobs_of(answers_of(tree, requests))

    assert "out of memory; going on with" in caplog.text
    assert largest_difference(logprobs, expected, requests) < 1e-4


def test_fluency_filter_gives_the_same_scores_on_gpu_and_cpu():
    """Which contradictions are kept must not depend on the machine."""
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    texts = []
    for _, context, continuation in make_long_requests(40):
        texts.append(tokenizer.decode([*context, *continuation]))
    no_prefixes = [""] * len(texts)
    fluency = FluencyModel(FluencySettings(LARGER))

    scores_on_gpu = fluency.score(texts, no_prefixes)
    fluency.model.to("cpu")
    scores_on_cpu = fluency.score(texts, no_prefixes)

    for on_gpu, on_cpu in zip(scores_on_gpu, scores_on_cpu, strict=True):
        assert on_gpu.logprobs == pytest.approx(on_cpu.logprobs, abs=1e-3)
