"""``hf-tree`` gives the scores of lm_eval's ``hf``, and computes what requests share once."""

from __future__ import annotations

import json
import logging

import pytest
import torch
import yaml
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
    answers_of,
    assert_same_answers,
    build_model,
    build_trie_of_requests,
    largest_difference,
    load_hf,
    load_tree,
    logprobs_of,
    make_requests,
    score_in_passes,
)
from tests.tiny_models import save_t5


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tree_scores_equal_hf_scores_for_every_architecture(name, checkpoint):
    """Users may replace ``hf`` by ``hf-tree`` only if no score changes."""
    model = build_model(name)
    tree = load_tree(model, checkpoint)
    hf = load_hf(model, checkpoint)
    requests = make_requests(60)
    expected = answers_of(hf, requests)

    answers = answers_of(tree, requests)

    assert isinstance(tree.engine, PackedEngine)
    assert_same_answers(answers, expected, requests)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_small_passes_change_no_score(name, checkpoint):
    """A GPU with little memory computes a text in several passes.

    Positions must still see all before.
    """
    model = build_model(name)
    tree = load_tree(model, checkpoint)
    hf = load_hf(model, checkpoint)
    requests = make_requests(60)
    expected = answers_of(hf, requests)

    logprobs = score_in_passes(requests, tree.engine, PassBudget(tokens=5, targets=2))

    assert largest_difference(logprobs, logprobs_of(expected), requests) < 1e-4


@pytest.fixture
def batch_sizes(monkeypatch) -> list[int]:
    """Let branches of the trie attend in batches on the CPU, as they do on a GPU.

    Return the list of the numbers of branches in the batches that are made from now on.
    """
    sizes = []

    def batch_as_on_a_gpu(blocks, max_keys, device):
        assert max_keys == 0, "the CPU makes no batches by itself"
        batches, rows = batch_query_blocks(blocks, 2000)
        sizes.extend(batch.queries.shape[1] for batch in batches)
        return batches, rows

    monkeypatch.setattr("lm_factuality.models.tree.packed.batch_query_blocks", batch_as_on_a_gpu)
    monkeypatch.setattr(HFTree, "_cores", lambda self: 1)
    return sizes


ATTENTION_KINDS = pytest.mark.parametrize(
    "name", ["gpt2", "llama", "mistral-sliding", "gemma2-softcap", "gpt-oss-sinks", "llama4-chunks"]
)


@ATTENTION_KINDS
def test_batched_branches_score_as_in_hf(name, checkpoint, batch_sizes):
    """Branches of unequal length are padded, and padding must not be seen."""
    model = build_model(name)
    tree = load_tree(model, checkpoint, batch_size=40)
    hf = load_hf(model, checkpoint)
    requests = make_requests(60)
    expected = answers_of(hf, requests)

    answers = answers_of(tree, requests)

    assert max(batch_sizes) > 2, "no batch has several branches"
    assert_same_answers(answers, expected, requests)


@ATTENTION_KINDS
def test_batched_branches_in_small_passes_score_as_in_hf(name, checkpoint, batch_sizes):
    """A batch may hold parts of branches, whose beginnings earlier passes have computed."""
    model = build_model(name)
    tree = load_tree(model, checkpoint)
    hf = load_hf(model, checkpoint)
    requests = make_requests(60)
    expected = answers_of(hf, requests)

    logprobs = score_in_passes(requests, tree.engine, PassBudget(tokens=130, targets=100))

    assert max(batch_sizes) > 1, "no batch has several branches"
    assert largest_difference(logprobs, logprobs_of(expected), requests) < 1e-4


@pytest.mark.parametrize("name", UNSHARED)
def test_models_without_shared_positions_score_as_in_hf(name, checkpoint):
    """Nobody can tell their attention which positions to see, so ``hf`` scores them."""
    model = build_model(name)
    tree = load_tree(model, checkpoint)
    hf = load_hf(model, checkpoint)
    requests = make_requests(8)
    expected = answers_of(hf, requests)

    answers = answers_of(tree, requests)

    assert tree.engine is None
    assert_same_answers(answers, expected, requests)


@pytest.mark.parametrize("name", UNSHARED)
def test_warning_about_unshared_positions_appears_once(name, checkpoint, caplog):
    """The user should know why scoring is slow, but not for each batch."""
    tree = load_tree(build_model(name), checkpoint)
    requests = make_requests(8)

    with caplog.at_level(logging.WARNING, "lm_factuality"):
        answers_of(tree, requests)
        answers_of(tree, requests)

    messages = [record.message for record in caplog.records]
    assert sum("cannot share positions" in message for message in messages) == 1


def test_encoder_decoder_scores_as_in_hf(tmp_path, checkpoint):
    """Its decoder has no shared beginning, so ``hf-tree`` leaves it to ``hf``."""
    folder = save_t5(tmp_path, AutoTokenizer.from_pretrained(checkpoint))
    options = {"pretrained": str(folder), "device": "cpu", "batch_size": 1}
    requests = [Instance("loglikelihood", {}, ("A keeper", " of the library."), 0)]
    expected = HFLM(**options).loglikelihood(requests, disable_tqdm=True)

    answers = HFTree(**options).loglikelihood(requests, disable_tqdm=True)

    assert logprobs_of(answers) == pytest.approx(logprobs_of(expected))


def test_engine_with_wrong_scores_is_not_used(monkeypatch):
    """A model with an unknown kind of attention must not get wrong scores silently."""
    model = build_model("llama")
    with torch.inference_mode():
        assert build_tested_engine(model, VOCABULARY, POSITIONS) is not None

        # Every position now sees all others.
        def is_any_key(batch):
            return batch.keys[0][:, None, :] >= 0

        monkeypatch.setattr(Batch, "is_ancestor", is_any_key)
        engine = build_tested_engine(model, VOCABULARY, POSITIONS)

    assert engine is None


def test_generation_after_scoring_uses_the_models_own_attention(checkpoint):
    """The engine replaces the model's attention, and has to put it back."""
    model = build_model("llama")
    tree = load_tree(model, checkpoint)
    hf = load_hf(model, checkpoint)
    request = Instance("generate_until", {}, ("ab", {"until": ["zzz"], "max_gen_toks": 5}), 0)
    expected = hf.generate_until([request], disable_tqdm=True)
    answers_of(tree, make_requests(4))

    texts = tree.generate_until([request], disable_tqdm=True)

    assert texts == expected


@pytest.fixture(scope="module")
def options_of_real_model(checkpoint) -> dict:
    """Return the arguments of a model with trained weights and a real tokenizer."""
    return {"pretrained": str(checkpoint), "device": "cpu", "dtype": "float32", "batch_size": 3}


@pytest.fixture(scope="module")
def real_tree(options_of_real_model) -> HFTree:
    """Return ``hf-tree`` with a real model."""
    return HFTree(**options_of_real_model)


@pytest.fixture(scope="module")
def real_hf(options_of_real_model) -> HFLM:
    """Return ``hf`` with the same model."""
    return HFLM(**options_of_real_model, logits_cache=False)


def test_real_model_scores_many_requests_as_in_hf(real_tree, real_hf):
    """Models with random weights may hide errors that trained ones show."""
    longest = real_hf.max_length + 40  # so some requests are longer than the model can see
    requests = make_requests(500, real_hf.vocab_size, longest, seed=1)
    lengths = [len(context) + len(continuation) for _, context, continuation in requests]
    assert max(lengths) > real_hf.max_length + 1
    expected = answers_of(real_hf, requests)

    answers = answers_of(real_tree, requests)

    assert_same_answers(answers, expected, requests)


@pytest.mark.parametrize(
    ("context", "continuation"),
    [
        pytest.param("", "The library opened.", id="no context"),
        pytest.param("", " a", id="no context and one token"),
        pytest.param("The library opened. ", "It closed.", id="space before"),
        pytest.param("One\n", "Two", id="line break before"),
        pytest.param(
            "The library opened in 1870.", " Its first keeper was a sailor.", id="space after"
        ),
        pytest.param("x " * 700, "the end", id="longer than the model can see"),
    ],
)
def test_text_requests_score_as_in_hf(real_tree, real_hf, context, continuation):
    """Where context and continuation meet, tokens depend on the spaces of both."""
    requests = [Instance("loglikelihood", {}, (context, continuation), 0)]
    (expected_logprob, expected_greedy), *_ = real_hf.loglikelihood(requests, disable_tqdm=True)

    (logprob, is_greedy), *_ = real_tree.loglikelihood(requests, disable_tqdm=True)

    assert logprob == pytest.approx(expected_logprob, abs=1e-3)
    assert is_greedy == expected_greedy


def test_whole_texts_score_as_in_hf(real_tree, real_hf):
    """Perplexity tasks score texts without any context."""
    texts = ["A keeper.", "word " * 1500]  # the second needs several windows
    requests = [Instance("loglikelihood_rolling", {}, (text,), 0) for text in texts]
    expected = real_hf.loglikelihood_rolling(requests, disable_tqdm=True)

    logprobs = real_tree.loglikelihood_rolling(requests, disable_tqdm=True)

    assert logprobs == pytest.approx(expected, rel=1e-5)


def test_half_precision_scores_are_near_full_precision_scores(real_hf, options_of_real_model):
    """Large models run in bfloat16, which has about three digits."""
    options = {**options_of_real_model, "dtype": "bfloat16", "batch_size": "auto"}
    tree = HFTree(**options)
    requests = make_requests(40, real_hf.vocab_size, longest=100)
    expected = answers_of(real_hf, requests)

    answers = answers_of(tree, requests)

    assert isinstance(tree.engine, PackedEngine)
    assert largest_difference(logprobs_of(answers), logprobs_of(expected), requests) < 0.1


def fail_forward_passes(model, error: Exception, most_tokens: int = 0) -> None:
    """Let the forward passes of a model fail.

    Args:
        model: The model.
        error: The error that a pass raises.
        most_tokens: Passes of at most so many tokens succeed.
    """

    def check_size(module, args, kwargs):
        if kwargs["input_ids"].numel() > most_tokens:
            raise error

    model.register_forward_pre_hook(check_size, with_kwargs=True)


def test_pass_is_halved_until_it_fits_into_memory(caplog):
    """Nobody can foresee how much memory a pass needs, and a run must not end for it."""
    model = build_model("gpt2")
    trie = build_trie_of_requests(make_requests(30))
    with torch.inference_mode():
        expected = score_trie(trie, PackedEngine(model), PassBudget(tokens=1000, targets=1000))
        memory_error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        # Passes of more than 12 tokens do not fit.
        fail_forward_passes(model, memory_error, most_tokens=12)
        budget = PassBudget(tokens=100, targets=100)

        scores = score_trie(trie, PackedEngine(model), budget)

    assert budget.tokens == 12  # by halves: 100, 50, 25, 12
    assert "out of memory; going on with 12 tokens" in caplog.text
    assert scores.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("out of memory", id="out of memory with one token"),
        pytest.param("shapes differ", id="another error"),
    ],
)
def test_unrelated_errors_are_raised_without_halving(message):
    """Halving for ever would hide the error."""
    model = build_model("gpt2")
    fail_forward_passes(model, RuntimeError(message))
    trie = build_trie([[1, 2, 3]], num_targets=[1])

    with pytest.raises(RuntimeError, match=message), torch.inference_mode():
        score_trie(trie, PackedEngine(model), PassBudget(tokens=4, targets=4))


def test_shared_prefixes_are_computed_once(real_tree):
    """This is what makes ``hf-tree`` fast: the choices of a row share their prefix."""
    requests = make_requests(50, real_tree.vocab_size, longest=60)
    beginnings = set()
    for _, context, continuation in requests:
        inputs = context + continuation[:-1]  # the last token is scored and not seen
        for length in range(1, len(inputs) + 1):
            beginnings.add(tuple(inputs[:length]))
    assert real_tree.engine is not None  # the trial of the engine is over
    pass_sizes = []
    hook = real_tree.model.register_forward_pre_hook(
        lambda module, args, kwargs: pass_sizes.append(kwargs["input_ids"].numel()),
        with_kwargs=True,
    )

    answers_of(real_tree, requests)
    hook.remove()

    assert sum(pass_sizes) == len(beginnings)


@pytest.fixture
def multiple_choice_folder(tmp_path):
    """Return a folder with the task ``endings``, in the manner of hellaswag.

    Its few-shot examples make all rows begin alike.
    """
    rows = [
        {
            "context": f"The keeper of house {number} went",
            "endings": ["to the port.", "home.", "away at night."],
            "label": number % 3,
        }
        for number in range(12)
    ]
    rows_path = tmp_path / "rows.jsonl"
    rows_path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    content = {
        "task": "endings",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(rows_path)}},
        "output_type": "multiple_choice",
        "test_split": "test",
        "fewshot_split": "test",
        "num_fewshot": 3,
        "doc_to_text": "context",
        "doc_to_choice": "endings",
        "doc_to_target": "label",
        "target_delimiter": " ",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    (tmp_path / "endings.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return tmp_path


def logprobs_of_choices(output: dict) -> list[float]:
    """Return the log-likelihood of each choice of each row."""
    logprobs = []
    for sample in output["samples"]["endings"]:
        for response in sample["resps"]:
            logprob, _ = response[0]
            logprobs.append(float(logprob))
    return logprobs


def test_lm_eval_multiple_choice_task_scores_as_in_hf(
    evaluate, multiple_choice_folder, real_tree, real_hf
):
    """``hf-tree`` is of use for tasks of others, too."""
    expected = evaluate(real_hf, ["endings"], multiple_choice_folder)

    output = evaluate(real_tree, ["endings"], multiple_choice_folder)

    expected_logprobs = logprobs_of_choices(expected)
    assert logprobs_of_choices(output) == pytest.approx(expected_logprobs, abs=1e-3)


def test_cached_responses_give_the_same_results(
    evaluate, multiple_choice_folder, real_tree, tmp_path
):
    """lm_eval's ``--use_cache`` stores answers by request, so their order has to be right."""
    cache = str(tmp_path / "cache")
    output = evaluate(real_tree, ["endings"], multiple_choice_folder, use_cache=cache)

    cached_output = evaluate(real_tree, ["endings"], multiple_choice_folder, use_cache=cache)

    assert cached_output["results"] == output["results"]
    assert logprobs_of_choices(cached_output) == pytest.approx(
        logprobs_of_choices(output), abs=1e-3
    )


def test_progress_counts_answers_while_a_group_is_scored(checkpoint, monkeypatch):
    """The progress bar would otherwise stand still until all requests are answered."""
    tree = load_tree(build_model("gpt2"), checkpoint)
    requests = make_requests(60)
    counts = []
    monkeypatch.setattr(tree, "count_answered", counts.append)

    answers_of(tree, requests)

    assert len(counts) > 0
    assert sum(counts) == pytest.approx(len(requests))
