"""hf-tree gives hf's scores, whatever the requests and the architecture, and computes fewer
positions for them."""

from __future__ import annotations

import logging

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoTokenizer

from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree.batches import Batch, batch_query_blocks
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import PassBudget, build_tested_engine, score_trie
from lm_factuality.models.tree.trie import build_trie
from tests.models.architectures import (
    ARCHITECTURES,
    POSITIONS,
    UNSHARED,
    VOCABULARY,
    build,
    forest_of,
    largest_difference,
    score_in_passes,
    some_requests,
    tree_and_plain,
)
from tests.tiny_models import save_t5


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_has_hf_scores(name, checkpoint):
    tree, plain = tree_and_plain(build(name), checkpoint)
    requests = some_requests(VOCABULARY, POSITIONS, 60)
    expected = plain._loglikelihood_tokens(requests, True)
    answers = tree._loglikelihood_tokens(requests, True)
    assert isinstance(tree.engine, PackedEngine)
    assert largest_difference(answers, expected, requests) < 1e-4
    assert [greedy for _, greedy in answers] == [greedy for _, greedy in expected]
    # Small passes cut the trie elsewhere.
    answers = score_in_passes(requests, tree.engine, PassBudget(5, 2))
    assert largest_difference(answers, expected, requests) < 1e-4


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "mistral-sliding", "gemma2-softcap", "gpt-oss-sinks", "llama4-chunks"]
)
def test_blocks_that_attend_at_once_as_on_a_gpu_have_the_same_scores(name, checkpoint, monkeypatch):
    sizes: list[int] = []

    def batch_as_on_a_gpu(blocks, most_keys, device):
        assert most_keys == 0, "on a CPU each alone"
        batches, rows = batch_query_blocks(blocks, 2000)
        sizes.extend(batch.queries.shape[1] for batch in batches)
        return batches, rows

    tree, plain = tree_and_plain(build(name), checkpoint, batch_size=40)
    requests = some_requests(VOCABULARY, POSITIONS, 60)
    expected = plain._loglikelihood_tokens(requests, True)
    monkeypatch.setattr("lm_factuality.models.tree.packed.batch_query_blocks", batch_as_on_a_gpu)
    monkeypatch.setattr(tree, "_cores", lambda: 1)
    answers = tree._loglikelihood_tokens(requests, True)
    assert largest_difference(answers, expected, requests) < 1e-4
    assert max(sizes) > 2
    answers = score_in_passes(requests, tree.engine, PassBudget(130, 100))
    assert largest_difference(answers, expected, requests) < 1e-4


@pytest.mark.parametrize("name", UNSHARED)
def test_what_cannot_be_shared_is_scored_as_hf_does_with_one_warning(name, checkpoint, caplog):
    tree, plain = tree_and_plain(build(name), checkpoint)
    requests = some_requests(VOCABULARY, POSITIONS, 8)
    with caplog.at_level(logging.WARNING, "lm_factuality"):
        for _ in range(2):
            found = tree._loglikelihood_tokens(requests, True)
    assert largest_difference(found, plain._loglikelihood_tokens(requests, True), requests) < 1e-4
    assert tree.engine is None
    assert sum("cannot share positions" in record.message for record in caplog.records) == 1


def test_an_encoder_decoder_is_scored_as_hf_does(tmp_path, checkpoint):
    folder = str(save_t5(tmp_path, AutoTokenizer.from_pretrained(checkpoint)))
    requests = [Instance("loglikelihood", {}, ("A keeper", " of the library."), 0)]
    options = {"pretrained": folder, "device": "cpu", "batch_size": 1}
    expected = HFLM(**options).loglikelihood(requests, disable_tqdm=True)
    found = HFTree(**options).loglikelihood(requests, disable_tqdm=True)
    assert [logprob for logprob, _ in found] == pytest.approx([logprob for logprob, _ in expected])


def test_an_engine_that_sees_the_wrong_keys_is_not_chosen(monkeypatch):
    model = build("llama")
    with torch.inference_mode():
        assert build_tested_engine(model, VOCABULARY, POSITIONS) is not None
        monkeypatch.setattr(Batch, "is_ancestor", lambda batch: batch.keys[0][:, None, :] >= 0)
        assert build_tested_engine(model, VOCABULARY, POSITIONS) is None


def test_generation_still_uses_the_models_own_attention(checkpoint):
    tree, plain = tree_and_plain(build("llama"), checkpoint)
    tree._loglikelihood_tokens(some_requests(VOCABULARY, POSITIONS, 4), True)
    request = Instance("generate_until", {}, ("ab", {"until": ["zzz"], "max_gen_toks": 5}), 0)
    assert tree.generate_until([request], disable_tqdm=True) == plain.generate_until(
        [request], disable_tqdm=True
    )


@pytest.fixture(scope="module")
def pair(request):
    """Both models from a real checkpoint with a real tokenizer."""
    from tests.conftest import TASKS

    options = {
        "pretrained": str(TASKS / "sample" / "models" / "smaller"),
        "device": "cpu",
        "dtype": "float32",
    }
    return HFTree(**options, batch_size=3), HFLM(**options, batch_size=3, logits_cache=False)


def test_five_hundred_requests_of_mixed_shapes(pair):
    tree, plain = pair
    requests = some_requests(plain.vocab_size, plain.max_length + 40, 500, seed=1)
    assert any(
        len(context) + len(continuation) > plain.max_length + 1
        for _, context, continuation in requests
    )
    found, expected = (
        tree._loglikelihood_tokens(requests, True),
        plain._loglikelihood_tokens(requests, True),
    )
    assert largest_difference(found, expected, requests) < 1e-4
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


def test_texts_through_lm_evals_own_request_types(pair):
    tree, plain = pair
    arguments = [
        ("", "The library opened."),
        ("", " a"),
        ("The library opened. ", "It closed."),
        ("One\n", "Two"),
        ("The library opened in 1870.", " Its first keeper was a sailor."),
        ("x " * 700, "the end"),
    ]
    requests = [Instance("loglikelihood", {}, each, index) for index, each in enumerate(arguments)]
    found, expected = (lm.loglikelihood(requests, disable_tqdm=True) for lm in (tree, plain))
    for one, other in zip(found, expected, strict=True):
        assert one[0] == pytest.approx(other[0], abs=1e-3)
        assert one[1] == other[1]
    texts = [
        Instance("loglikelihood_rolling", {}, (text,), 0) for text in ("A keeper.", "word " * 1500)
    ]
    for one, other in zip(
        *(lm.loglikelihood_rolling(texts, True) for lm in (tree, plain)), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.1)])
def test_half_precision_is_near_full_precision(pair, dtype, tolerance):
    requests = some_requests(pair[1].vocab_size, 100, 40)
    expected = pair[1]._loglikelihood_tokens(requests, True)
    half = HFTree(pretrained=pair[0].pretrained, device="cpu", dtype=dtype, batch_size="auto")
    assert isinstance(half.engine, PackedEngine)
    assert (
        largest_difference(half._loglikelihood_tokens(requests, True), expected, requests)
        < tolerance
    )


def test_memory_that_runs_out_halves_the_pass_and_goes_on(caplog):
    model = build("gpt2")
    longest: list[int] = []

    def limited(module, args, kwargs):
        size = kwargs["input_ids"].numel()
        longest.append(size)
        if size > 12:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    requests = some_requests(VOCABULARY, POSITIONS, 30)
    trie = forest_of(requests)
    with torch.inference_mode():
        expected = score_trie(trie, PackedEngine(model), PassBudget(1000, 1000))
        model.register_forward_pre_hook(limited, with_kwargs=True)
        budget = PassBudget(100, 100)
        found = score_trie(trie, PackedEngine(model), budget)
        assert budget.tokens == 12
        assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
        assert "out of memory; going on with 12 tokens" in caplog.text
        model.register_forward_pre_hook(
            lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")), with_kwargs=True
        )
        with pytest.raises(RuntimeError, match="out of memory"):
            score_trie(trie, PackedEngine(model), PassBudget(4, 4))


def test_errors_that_are_not_about_memory_are_raised():
    model = build("gpt2")
    model.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match="shapes differ"), torch.inference_mode():
        score_trie(build_trie([[1, 2, 3]], [1]), PackedEngine(model), PassBudget(10, 10))


def test_every_distinct_position_is_computed_once(pair):
    tree, _ = pair
    computed = []
    handle = tree.model.register_forward_pre_hook(
        lambda module, args, kwargs: computed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    requests = some_requests(tree.vocab_size, 60, 50)
    assert tree.engine is not None
    computed.clear()
    tree._loglikelihood_tokens(requests, True)
    handle.remove()
    inputs = [context + continuation[:-1] for _, context, continuation in requests]
    assert sum(computed) == len({tuple(each[: n + 1]) for each in inputs for n in range(len(each))})


def test_multiple_choice_tasks_of_lm_eval_and_its_response_cache(evaluate, tmp_path, pair):
    """A task in the manner of hellaswag, with few-shot examples, so that all rows share a
    beginning."""
    rows = [
        f'{{"ctx": "The keeper of house {n} went", "endings": ["to the port.", "home.", "away at night."], "label": {n % 3}}}'
        for n in range(12)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "swag.yaml").write_text(
        f"task: swag\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path / 'rows.jsonl'}}}}}\n"
        "output_type: multiple_choice\ntest_split: test\nfewshot_split: test\nnum_fewshot: 3\ndoc_to_text: ctx\n"
        'doc_to_choice: endings\ndoc_to_target: label\ntarget_delimiter: " "\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n',
        encoding="utf-8",
    )
    tree, plain = pair
    cache = {"use_cache": str(tmp_path / "cache")}
    runs = [
        evaluate(lm, ["swag"], include=tmp_path, **more)
        for lm, more in ((plain, {}), (tree, cache), (tree, cache))
    ]
    scores = [[sample["resps"] for sample in run["samples"]["swag"]] for run in runs]
    for other in scores[1:]:
        for one, two in zip(scores[0], other, strict=True):
            assert [float(choice[0][0]) for choice in two] == pytest.approx(
                [float(choice[0][0]) for choice in one], abs=1e-3
            )
    assert runs[1]["results"] == runs[2]["results"]
