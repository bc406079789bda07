"""FACTOR for chat models through lm_eval: local models, and real servers with and without
log-probabilities."""

from __future__ import annotations

import csv
import json
import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest

from lm_factuality.benchmarks.factor_chat.metrics import LETTERS_CAUTION
from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.harness.answers import first_word_logprobs
from lm_factuality.models.hf_tree import HFTree
from tests.benchmarks.factor_chat.oracle import ROWS, TASK, TRUE, Oracle
from tests.conftest import TASKS, example_row
from tests.judges.server import Act, JudgeServer


@pytest.fixture
def oracle(monkeypatch) -> Iterator[Any]:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    opened: list[Oracle] = []

    def start(kind: str = "gives") -> Oracle:
        opened.append(Oracle(kind))
        return opened[-1]

    yield start
    for each in opened:
        each.server.close()


def ask(
    evaluate: Any,
    server: JudgeServer,
    client: str = "local-chat-completions",
    num_concurrent: int = 8,
    **options: Any,
) -> dict[str, Any]:
    path = "completions" if client == "local-completions" else "chat/completions"
    arguments = {
        "model": "m",
        "base_url": f"{server.base_url}/{path}",
        "num_concurrent": num_concurrent,
        "max_retries": 1,
        "tokenizer_backend": None,
    }
    options.setdefault("apply_chat_template", client != "local-completions")
    return evaluate(client, [TASK], model_args=arguments, limit=ROWS, **options)


@pytest.mark.parametrize(
    "client", ["local-chat-completions", "openai-chat-completions", "local-completions"]
)
def test_a_server_that_gives_log_probabilities(client, evaluate, oracle):
    server = oracle("gives five" if client == "local-completions" else "gives").server
    found = ask(evaluate, server, client)
    results, metadata = found["results"][TASK], found["configs"][TASK]["metadata"]
    assert (metadata["answers"], metadata["answers_read"]) == ("auto", "logprobs")
    assert (
        results["chat_acc,none"]
        == results["pairwise_acc,none"]
        == results["auroc,none"]
        == results["all_right,none"]
        == 1
    )
    assert results["unscored,none"] == results["unreadable,none"] == 0
    for sample in found["samples"][TASK]:
        gold = sample["doc"]["gold"]
        assert sample["auroc"][gold] == pytest.approx(0.9)
        assert all(
            0.2 <= chance < 0.21 for place, chance in enumerate(sample["auroc"]) if place != gold
        )
    assert len(server.bodies) == 4 * ROWS  # each once
    assert 1 < server.busiest <= 8


def test_no_concurrency_means_one_request_at_a_time(evaluate, oracle):
    server = oracle().server
    assert ask(evaluate, server, num_concurrent=0)["results"][TASK]["chat_acc,none"] == 1
    assert server.busiest == 1


def test_a_server_that_has_fewer_alternatives_is_asked_for_fewer(evaluate, oracle):
    server = oracle("gives five").server
    assert ask(evaluate, server)["results"][TASK]["chat_acc,none"] == 1
    assert [body["top_logprobs"] for body in server.bodies].count(5) == 4 * ROWS


@pytest.mark.parametrize("kind", ["refuses", "forbids", "silent"])
def test_a_server_without_log_probabilities_is_read_by_its_words(kind, evaluate, oracle, caplog):
    server = oracle(kind).server
    with caplog.at_level(logging.WARNING):
        found = ask(evaluate, server)
    assert found["configs"][TASK]["metadata"]["answers_read"] == "words"
    assert found["results"][TASK]["chat_acc,none"] == found["results"][TASK]["all_right,none"] == 1
    assert all(set(sample["auroc"]) == {0.0, 1.0} for sample in found["samples"][TASK])
    assert (
        sum("what the model writes is read instead" in each.message for each in caplog.records) == 1
    )
    answered = [body for body in server.bodies if kind == "silent" or "logprobs" not in body]
    assert len(answered) == 4 * ROWS  # what was answered before is not asked again


@pytest.mark.parametrize("kind", ["refuses", "silent"])
def test_log_probabilities_that_are_asked_for_and_not_there_are_an_error(kind, evaluate, oracle):
    with pytest.raises(
        ModelError, match="the server gives no log-probabilities of answers .*answers=words"
    ):
        ask(evaluate, oracle(kind).server, metadata={"answers": "logprobs"})


def test_a_client_of_another_form_reads_the_texts_of_its_replies(evaluate, oracle, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-real-key")
    running = oracle()
    known, gold = running.reply, sorted(TRUE)[0]

    def reply(prompt: str, attempt: int) -> Act:
        blocks = [
            {"type": "thinking"}
            if gold in prompt
            else {"type": "text", "text": known(prompt, attempt).text}
        ]
        return Act(raw=json.dumps({"content": blocks}).encode())

    running.server.script = reply
    found = ask(evaluate, running.server, "anthropic-chat-completions")
    assert found["configs"][TASK]["metadata"]["answers_read"] == "words"
    assert found["results"][TASK]["chat_acc,none"] == 1
    (reason,) = [sample["unscored"] for sample in found["samples"][TASK] if sample["unscored"]]
    assert "the server gave no usable answer: KeyError" in reason
    assert not any("logprobs" in body for body in running.server.bodies)
    with pytest.raises(
        ModelError, match="AnthropicChat reads no log-probabilities; pass --metadata answers=words"
    ):
        ask(
            evaluate, running.server, "anthropic-chat-completions", metadata={"answers": "logprobs"}
        )


def test_words_ask_for_no_log_probabilities_and_what_is_unreadable_is_counted(evaluate, oracle):
    running = oracle()
    known, gold = running.reply, sorted(TRUE)[0]
    running.server.script = lambda prompt, attempt: (
        Act(text="Hard to say.") if gold in prompt else known(prompt, attempt)
    )
    found = ask(evaluate, running.server, metadata={"answers": "words"})
    results = found["results"][TASK]
    assert not any("logprobs" in body for body in running.server.bodies)
    assert results["unscored,none"] == 1
    assert results["unreadable,none"] == pytest.approx(1 / (4 * ROWS))
    assert (
        results["chat_acc,none"],
        results["chat_acc_worst,none"],
        results["chat_acc_best,none"],
    ) == (1, 0.8, 1)
    (reason,) = [sample["unscored"] for sample in found["samples"][TASK] if sample["unscored"]]
    assert reason == "question 0: none of True, False alone"


def test_a_request_that_fails_costs_its_row_alone(evaluate, oracle):
    running = oracle()
    known, gold = running.reply, sorted(TRUE)[0]
    running.server.script = lambda prompt, attempt: (
        Act(status=500) if gold in prompt else known(prompt, attempt)
    )
    found = ask(evaluate, running.server)
    reasons = [sample["unscored"] for sample in found["samples"][TASK] if sample["unscored"]]
    assert reasons == ["question 0: the server gave no usable answer: HTTP 500"]


def test_a_server_that_is_gone_ends_the_run(evaluate, oracle):
    running = oracle()
    running.server.script = lambda prompt, attempt: Act(status=500)
    with pytest.raises(
        ModelError, match="the first questions got no answer; the first one: .* HTTP 500"
    ):
        ask(evaluate, running.server)
    with pytest.raises(ModelError, match="8 requests in a row failed, the last with HTTP 500"):
        ask(evaluate, running.server, metadata={"answers": "words"})


def test_a_chat_server_without_messages_is_an_error(evaluate, oracle):
    with pytest.raises(ModelError, match="pass --apply_chat_template"):
        ask(evaluate, oracle().server, apply_chat_template=False)


def test_a_run_that_was_broken_off_goes_on_where_it_ended(evaluate, oracle, tmp_path):
    running = oracle()
    found = [
        ask(evaluate, running.server, use_cache=str(tmp_path / "cache"))["results"][TASK][
            "chat_acc,none"
        ]
        for _ in range(2)
    ]
    assert found == [1, 1]
    assert len(running.server.bodies) == 4 * ROWS


def test_letters_are_asked_in_every_rotation_with_a_warning(evaluate, oracle, caplog):
    running = oracle()
    running.server.script = lambda prompt, attempt: Act(text="B")
    with caplog.at_level(logging.WARNING):
        found = ask(evaluate, running.server, metadata={"protocol": "letters"})
    results = found["results"][TASK]
    assert (results["chat_acc,none"], results["prompt_acc,none"], results["pairwise_acc,none"]) == (
        0,
        0.25,
        0.5,
    )
    assert [results[f"position_{letter},none"] for letter in "ABCD"] == [0, 1, 0, 0]
    assert found["configs"][TASK]["metadata"]["caution"] == LETTERS_CAUTION
    assert sum(LETTERS_CAUTION in each.message for each in caplog.records) == 1
    prompts = [body["messages"][-1]["content"] for body in running.server.bodies]
    assert len(set(prompts)) == 4 * ROWS


def test_no_two_choices_are_in_one_prompt(evaluate, oracle):
    running = oracle()
    samples = ask(evaluate, running.server)["samples"][TASK]
    asked = [body["messages"][-1]["content"] for body in running.server.bodies]
    for sample in samples:
        choices = [choice.strip() for choice in sample["doc"]["choices"]]
        for prompt in asked:
            after = prompt.split("Next sentence:\n")[1]
            assert sum(choice in after for choice in choices) <= 1


@pytest.fixture(scope="module")
def local(checkpoint):
    from lm_eval.models.huggingface import HFLM

    options = {"pretrained": str(checkpoint), "device": "cpu", "dtype": "float32", "batch_size": 4}
    return {"hf": HFLM(**options), "hf-tree": HFTree(**options)}


@pytest.mark.parametrize("protocol", ["statements", "letters"])
def test_local_models_are_scored_by_the_log_likelihoods_of_the_words(protocol, evaluate, local):
    found = {
        name: evaluate(model, [TASK], limit=2, metadata={"protocol": protocol})
        for name, model in local.items()
    }
    samples = {name: each["samples"][TASK] for name, each in found.items()}
    assert found["hf"]["configs"][TASK]["metadata"]["answers_read"] == "logprobs"
    for one, other in zip(*samples.values(), strict=True):
        assert one["auroc"] == pytest.approx(other["auroc"], abs=1e-4)
    model = local["hf"]
    (prompt, words, *_) = samples["hf"][0]["arguments"][0]
    for word, logprob in zip(words, samples["hf"][0]["filtered_resps"][0].logprobs, strict=True):
        expected = 0.0
        for text in (word, f" {word}"):
            tokens = [model.tok_encode(each) for each in (prompt, prompt + text)]
            context, rest = tokens[0], tokens[1][len(tokens[0]) :]
            ((value, _),) = model._loglikelihood_tokens([(None, context, rest)], disable_tqdm=True)
            expected += math.exp(value)
        assert math.exp(logprob) == pytest.approx(expected, rel=1e-3)


def test_a_prompt_that_does_not_fit_is_unscored_and_never_cut(
    evaluate, local, write_rows, tmp_path
):
    rows = [
        example_row(turncated_prefixes="The library opened in 1870. " * repeats)
        for repeats in (1, 200)
    ]
    write_rows(rows)
    base = TASKS / "factor" / "_factor_chat.yaml"
    (tmp_path / "mine.yaml").write_text(
        f"include: {base}\ntask: mine\ndataset_path: rows.jsonl\n", encoding="utf-8"
    )
    samples = evaluate(local["hf-tree"], ["mine"], tmp_path)["samples"]["mine"]
    assert [sample["unscored"] for sample in samples] == [
        None,
        "question 0: the prompt is longer than the model's window",
    ]


@pytest.mark.parametrize(
    ("answer", "unscored", "pairwise"), [("True", 0, 0.5), ("Perhaps", 2, None)]
)
def test_a_model_that_only_writes_is_read_by_its_words(answer, unscored, pairwise, evaluate):
    results = evaluate("constant-answer", [TASK], model_args={"answer": answer}, limit=2)[
        "results"
    ][TASK]
    assert results["unscored,none"] == unscored
    assert pairwise is None or results["pairwise_acc,none"] == pairwise


def test_the_group_is_the_unweighted_mean_of_its_three(evaluate, tmp_path):
    for name, count in (("wiki", 2), ("news", 3), ("expert", 4)):
        with (tmp_path / f"{name}_factor.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, example_row())
            writer.writeheader()
            writer.writerows(
                example_row(completion=f"It fell in {1800 + number} ,then rose .")
                for number in range(count)
            )
    found = evaluate(
        "constant-answer",
        ["factor_chat", "expert_factor_chat"],
        model_args={"answer": "True"},
        metadata={"data_dir": str(tmp_path)},
    )
    assert found["groups"]["factor_chat"]["pairwise_acc,none"] == 0.5
    assert (
        "Next sentence:\nIt fell in 1800,then rose.\n"
        in found["samples"]["expert_factor_clean_chat"][0]["arguments"][0][0]
    )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"protocol": "paper"},
            "metadata.protocol is 'paper'; expected 'statements' or 'letters'",
        ),
        (
            {"answers": "both"},
            "metadata.answers is 'both'; expected 'auto', 'logprobs' or 'words'",
        ),
        ({"spacing": "none"}, "spacing"),
    ],
)
def test_wrong_settings_are_errors_before_anything_runs(metadata, message, evaluate):
    with pytest.raises(ConfigError, match=message):
        evaluate("constant-answer", [TASK], model_args={"answer": "True"}, metadata=metadata)


def test_validate_shows_what_is_asked(capsys):
    from lm_factuality.cli.main import main

    assert main(["validate", TASK]) == 0
    shown = capsys.readouterr().out
    assert "sample_factor_chat: sound; 432 rows, 1728 requests" in shown
    assert "Answer with one word, True or False." in shown


@pytest.mark.parametrize(
    ("alternatives", "expected"),
    [
        (
            [("True", -0.1), (" true", -3.0), ("\u0120TRUE", -4.0), ("The", -1.0)],
            (math.log(math.exp(-0.1) + math.exp(-3) + math.exp(-4)), None),
        ),
        ([("False", -1.0), ("True", -2.0)], (-2.0, -1.0)),
        ([("The", -0.1), ("Tr", -1.0)], None),
        ([], None),
    ],
)
def test_the_first_token_is_read_over_case_and_white_space(alternatives, expected):
    found = first_word_logprobs(alternatives, ("True", "False"))
    assert found == (expected if expected is None else pytest.approx(expected))
