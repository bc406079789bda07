"""The request type on real models of several kinds: what is scored, what is counted, and what is
left unscored."""

from __future__ import annotations

import logging
import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_factuality.ground.errors import ModelError
from tests.conftest import example_row
from tests.tiny_models import CompletionsServer, save_gpt2, save_opt, save_t5

ROWS = [
    example_row(doc_id="a"),
    example_row(doc_id="a", turncated_prefixes="A headline\n"),
    example_row(doc_id="b", turncated_prefixes="Two spaces.  "),
    example_row(doc_id="b", turncated_prefixes="Answer:"),
    example_row(doc_id="c", turncated_prefixes=""),
]


@pytest.fixture
def tokenizer(checkpoint):
    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def task(write_rows, factor_yaml, tmp_path):
    """Writes rows and a task on them; gives the folder to include."""

    def write(rows=ROWS, **metadata):
        write_rows(rows)
        factor_yaml("t", dataset_path="rows.jsonl", metadata=metadata)
        return tmp_path

    return write


def hf(folder, **arguments):
    return {"pretrained": str(folder), "dtype": "float32", **arguments}


def by_hand(folder, prefix: str, completion: str) -> tuple[float, int]:
    """Mean log-probability and tokens of a completion, with nothing of the suite or lm_eval."""
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder),
    )
    if prefix.endswith(" "):
        prefix, completion = prefix[:-1], " " + completion
    ids = tokenizer(prefix + completion)["input_ids"]
    count = len(ids) - len(tokenizer(prefix)["input_ids"])
    if not prefix:  # the model's first token stands before it
        first = tokenizer.bos_token_id
        ids = ids if ids[0] == first else [first, *ids]
        count = len(ids) - 1
    with torch.no_grad():
        logits = model.eval()(torch.tensor([ids])).logits[0].log_softmax(-1)
    scores = [logits[i - 1, ids[i]].item() for i in range(len(ids) - count, len(ids))]
    return sum(scores) / count, count


@pytest.mark.parametrize("save", [save_gpt2, save_opt])
def test_causal_models_get_the_scores_worked_out_by_hand(save, tokenizer, task, evaluate, tmp_path):
    folder = save(tmp_path / "model", tokenizer)
    results = evaluate("hf", ["t"], task(join="authors"), hf(folder), batch_size=3)
    for sample, row in zip(results["samples"]["t"], ROWS, strict=True):
        names = ("completion", "contradiction_0", "contradiction_1", "contradiction_2")
        expected = [by_hand(folder, row["turncated_prefixes"], row[name]) for name in names]
        assert sample["factor_num_tokens"] == [count for _, count in expected]
        assert sample["factor_mean_logprob"] == pytest.approx(
            [mean for mean, _ in expected], abs=1e-5
        )
        assert sample["unscored"] is None


def test_encoder_decoders_are_scored_too(tokenizer, task, evaluate, tmp_path):
    folder = save_t5(tmp_path / "model", tokenizer)
    results = evaluate("hf", ["t"], task(ROWS[:2]), hf(folder, backend="seq2seq"))
    assert results["results"]["t"]["unscored,none"] == 0
    assert results["samples"]["t"][0]["factor_num_tokens"][0] == len(
        tokenizer(" " + ROWS[0]["completion"])["input_ids"]
    )


def test_a_model_that_overflows_is_unscored_and_never_right(tokenizer, task, evaluate, tmp_path):
    folder = save_gpt2(tmp_path / "model", tokenizer, value=math.nan)
    results = evaluate("hf", ["t"], task(), hf(folder))["results"]["t"]
    assert results["factor_acc,none"] == "N/A"
    assert results["unscored,none"] == len(ROWS)
    assert (results["factor_acc_worst,none"], results["factor_acc_best,none"]) == (0.0, 1.0)


def test_long_prefixes_lose_their_beginning_and_long_completions_are_unscored(
    tokenizer, task, evaluate, tmp_path
):
    folder = save_gpt2(tmp_path / "model", tokenizer)
    rows = [
        example_row(turncated_prefixes="word " * 400),
        example_row(turncated_prefixes="word " * 20, doc_id="d2"),
    ]
    samples = evaluate("hf", ["t"], task(rows), hf(folder))["samples"]["t"]
    assert [bool(sample["truncated"]) for sample in samples] == [True, False]

    samples = evaluate("hf", ["t"], task(rows, window=40), hf(folder))["samples"]["t"]
    assert [bool(sample["truncated"]) for sample in samples] == [True, True]
    assert samples[0]["factor_mean_logprob"] == pytest.approx(
        samples[1]["factor_mean_logprob"]
    )  # both see the same 40 tokens

    samples = evaluate("hf", ["t"], task(rows), hf(folder), metadata={"window": "null"})["samples"][
        "t"
    ]
    assert samples[0]["arguments"][0][2] is None  # as --metadata window=null arrives
    assert [bool(sample["truncated"]) for sample in samples] == [
        True,
        False,
    ]  # the model's own limit

    samples = evaluate("hf", ["t"], task(rows, window=5), hf(folder))["samples"]["t"]
    assert "more than a window of 5 has room for" in samples[0]["unscored"]
    assert samples[0]["factor_acc"] is None


def test_without_a_tokenizer_factor_acc_is_absent_and_the_reason_printed(task, evaluate, caplog):
    with caplog.at_level(logging.WARNING):
        results = evaluate("surface-baseline", ["t"], task(), {"rule": "random"})["results"]["t"]
    assert "factor_acc is absent" in caplog.text
    assert not [name for name in results if name.startswith("factor_")]
    assert "truncated,none" not in results
    assert {"acc,none", "acc_stderr,none", "acc_bytes,none"} <= set(results)


def test_answers_are_cached_and_never_taken_for_another_models(
    tokenizer, task, evaluate, tmp_path, monkeypatch
):
    from lm_eval.models.huggingface import HFLM

    calls = []
    original = HFLM._loglikelihood_tokens
    monkeypatch.setattr(
        HFLM,
        "_loglikelihood_tokens",
        lambda lm, requests, **k: calls.append(len(requests)) or original(lm, requests, **k),
    )
    first, second = (
        save_gpt2(tmp_path / name, tokenizer, seed) for seed, name in enumerate(("one", "two"))
    )
    cache = str(tmp_path / "cache" / "answers")
    scores = [
        [
            sample["factor_mean_logprob"]
            for sample in evaluate("hf", ["t"], task(), hf(folder), use_cache=cache)["samples"]["t"]
        ]
        for folder in (first, first, second)
    ]
    assert calls == [20, 20]
    assert scores[0] == scores[1] != scores[2]


class TestServers:
    @pytest.fixture
    def folder(self, tokenizer, tmp_path):
        return save_gpt2(tmp_path / "model", tokenizer)

    @pytest.fixture
    def serve(self, folder):
        servers = []

        def start(**options):
            servers.append(CompletionsServer(folder, **options))
            return servers[-1]

        yield start
        for server in servers:
            server.close()

    def arguments(self, server, folder, **more):
        return {
            "model": "tiny",
            "base_url": server.url,
            "tokenizer": str(folder),
            "tokenizer_backend": "huggingface",
            "max_retries": 1,
            "max_length": 256,
            **more,
        }

    @pytest.mark.parametrize("concurrent", [1, 4])
    def test_a_server_gives_the_scores_of_the_model_it_serves(
        self, serve, folder, task, evaluate, concurrent
    ):
        include = task(ROWS[:4])
        local = evaluate("hf", ["t"], include, hf(folder))
        remote = evaluate(
            "local-completions",
            ["t"],
            include,
            self.arguments(serve(), folder, num_concurrent=concurrent),
        )
        for one, other in zip(local["samples"]["t"], remote["samples"]["t"], strict=True):
            assert one["factor_num_tokens"] == other["factor_num_tokens"]
            assert one["factor_mean_logprob"] == pytest.approx(
                other["factor_mean_logprob"], abs=1e-5
            )
        assert local["results"]["t"]["factor_acc,none"] == remote["results"]["t"]["factor_acc,none"]

    def test_a_request_that_always_fails_costs_its_row_not_the_run(
        self, serve, folder, task, evaluate, tokenizer
    ):
        poison = tokenizer(" south.")["input_ids"]
        server = serve(
            fails=lambda prompt: (
                prompt[: len(tokenizer("Answer:")["input_ids"])]
                == tokenizer("Answer:")["input_ids"]
                and prompt[-len(poison) :] == poison
            )
        )
        results = evaluate(
            "local-completions", ["t"], task(ROWS[:4]), self.arguments(server, folder)
        )
        assert results["results"]["t"]["unscored,none"] == 1
        assert [bool(sample["unscored"]) for sample in results["samples"]["t"]] == [
            False,
            False,
            False,
            True,
        ]
        assert (
            "choice 3: the server gave no usable answer" in results["samples"]["t"][3]["unscored"]
        )
        assert (
            results["results"]["t"]["factor_acc_best,none"]
            > results["results"]["t"]["factor_acc_worst,none"]
        )

    @pytest.mark.parametrize("status", [500, 401])
    def test_a_server_that_answers_nothing_ends_the_run_with_a_sentence(
        self, serve, folder, task, evaluate, status
    ):
        server = serve(fails=lambda prompt: True, status=status)
        with pytest.raises(ModelError, match="8 requests in a row failed"):
            evaluate("local-completions", ["t"], task(), self.arguments(server, folder))

    def test_a_server_without_a_tokenizer_says_what_to_pass(self, serve, folder, task, evaluate):
        arguments = {
            **self.arguments(serve(), folder),
            "tokenizer": None,
            "tokenizer_backend": "none",
        }
        with pytest.raises(
            ModelError, match="pass tokenizer=PATH_OR_NAME and tokenizer_backend=huggingface"
        ):
            evaluate("local-completions", ["t"], task(), arguments)

    def test_a_chat_server_is_refused(self, serve, folder, task, evaluate):
        with pytest.raises(ModelError, match="use local-completions"):
            evaluate("local-chat-completions", ["t"], task(), self.arguments(serve(), folder))

    def test_a_server_that_turns_down_many_requests_is_still_there(
        self, serve, folder, task, evaluate
    ):
        server = serve(fails=lambda prompt: True, status=400)
        results = evaluate("local-completions", ["t"], task(), self.arguments(server, folder))
        assert results["results"]["t"]["unscored,none"] == len(ROWS)

    def test_a_first_token_that_the_client_leaves_out_is_warned_of(
        self, serve, tokenizer, task, evaluate, tmp_path, caplog
    ):
        folder = save_opt(tmp_path / "opt", tokenizer)
        server = CompletionsServer(folder)
        with caplog.at_level(logging.WARNING):
            evaluate("local-completions", ["t"], task(ROWS[:1]), self.arguments(server, folder))
        assert "add_bos_token=True" in caplog.text
        remote = evaluate(
            "local-completions",
            ["t"],
            task(ROWS[:4]),
            self.arguments(server, folder, add_bos_token=True),
        )
        local = evaluate("hf", ["t"], task(ROWS[:4]), hf(folder))
        server.close()
        for one, other in zip(local["samples"]["t"], remote["samples"]["t"], strict=True):
            assert one["factor_mean_logprob"] == pytest.approx(
                other["factor_mean_logprob"], abs=1e-5
            )


@pytest.mark.parametrize(
    ("model", "more", "is_warned"),
    [("hf", {}, True), ("hf", {"softmax_dtype": "float32"}, False), ("hf-tree", {}, False)],
)
def test_sums_that_are_rounded_to_half_precision_are_warned_of(
    model, more, is_warned, task, evaluate, checkpoint, caplog
):
    with caplog.at_level(logging.WARNING):
        found = evaluate(
            model, ["t"], include=task(), model_args={**hf(checkpoint), "dtype": "bfloat16", **more}
        )
    assert ("add softmax_dtype=float32" in caplog.text) == is_warned
    sums = [float(answer[0][0]) for sample in found["samples"]["t"] for answer in sample["resps"]]
    assert all(torch.tensor(each).bfloat16().item() == each for each in sums) == is_warned
