"""FACTOR for chat models through lm_eval: local models, and servers with and without
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
from lm_factuality.harness.context import EvaluationRun, begin_run
from lm_factuality.models.hf_tree import HFTree
from tests.benchmarks.factor_chat.oracle import ROWS, TASK, TRUE, Oracle
from tests.conftest import TASKS, example_row
from tests.judges.server import Act, JudgeServer

NUM_QUESTIONS = 4 * ROWS
"""The number of requests of a run: one for each of a row's four choices."""

HARD_SENTENCE = sorted(TRUE)[0]
"""A true sentence whose question some servers of this file fail to answer."""


@pytest.fixture
def start_oracle(monkeypatch) -> Iterator[Any]:
    """Return a function that starts a server that knows all answers, of a kind of `Oracle`."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    oracles: list[Oracle] = []

    def start(kind: str = "gives") -> Oracle:
        oracles.append(Oracle(kind))
        return oracles[-1]

    yield start
    for oracle in oracles:
        oracle.server.close()


def run_task(
    evaluate: Any,
    server: JudgeServer,
    client: str = "local-chat-completions",
    num_concurrent: int = 8,
    **options: Any,
) -> dict[str, Any]:
    """Run the task on a server through a client of lm_eval, and return lm_eval's output."""
    is_chat = client != "local-completions"
    path = "chat/completions" if is_chat else "completions"
    arguments = {
        "model": "m",
        "base_url": f"{server.base_url}/{path}",
        "num_concurrent": num_concurrent,
        "max_retries": 1,
        "tokenizer_backend": None,
    }
    options.setdefault("apply_chat_template", is_chat)
    return evaluate(client, [TASK], model_args=arguments, limit=ROWS, **options)


def results_of(output: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of the task."""
    return output["results"][TASK]


def metadata_of(output: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded settings of the task."""
    return output["configs"][TASK]["metadata"]


def unscored_reasons(output: dict[str, Any]) -> list[str]:
    """Return the reason of each unscored row."""
    return [sample["unscored"] for sample in output["samples"][TASK] if sample["unscored"]]


def fail_on_hard_sentence(oracle: Oracle, failure: Act) -> None:
    """Let a server answer the questions about one sentence with ``failure``."""
    correct_reply = oracle.reply

    def reply(prompt: str, attempt: int) -> Act:
        return failure if HARD_SENTENCE in prompt else correct_reply(prompt, attempt)

    oracle.server.script = reply


@pytest.fixture(params=["local-chat-completions", "openai-chat-completions", "local-completions"])
def output_with_logprobs(request, evaluate, start_oracle):
    """Return a run on a server that gives log-probabilities, and the server."""
    kind = "gives five" if request.param == "local-completions" else "gives"
    server = start_oracle(kind).server
    return run_task(evaluate, server, request.param), server


def test_all_right_answers_give_perfect_scores(output_with_logprobs):
    """The server answers every question rightly, so nothing but the reading could lower a score."""
    output, _ = output_with_logprobs

    results = results_of(output)
    for score in ("chat_acc", "pairwise_acc", "auroc", "all_right"):
        assert results[f"{score},none"] == 1
    assert results["unscored,none"] == 0
    assert results["unreadable,none"] == 0


def test_choice_probability_is_the_servers_probability_of_true(output_with_logprobs):
    """The server gives 0.9 to "True" for a true sentence, and a little over 0.2 otherwise."""
    output, _ = output_with_logprobs

    assert metadata_of(output)["answers"] == "auto"
    assert metadata_of(output)["answers_read"] == "logprobs"
    for sample in output["samples"][TASK]:
        # A row's value of the AUROC is the list of its choices' probabilities.
        probabilities = list(sample["auroc"])
        true_probability = probabilities.pop(sample["doc"]["gold"])
        assert true_probability == pytest.approx(0.9)
        for false_probability in probabilities:
            assert 0.2 <= false_probability < 0.21


def test_each_question_is_sent_once_and_concurrently(output_with_logprobs):
    """The trial questions that find out about log-probabilities are not paid for twice."""
    _, server = output_with_logprobs

    assert len(server.bodies) == NUM_QUESTIONS
    assert 1 < server.busiest <= 8


def test_zero_concurrency_sends_one_request_at_a_time(evaluate, start_oracle):
    """lm_eval reads ``num_concurrent=0`` as one request at a time, and so does the suite."""
    server = start_oracle().server

    output = run_task(evaluate, server, num_concurrent=0)

    assert results_of(output)["chat_acc,none"] == 1
    assert server.busiest == 1


def test_server_refusing_20_alternatives_is_asked_for_5(evaluate, start_oracle):
    """Some servers show 20 alternatives of a token, and others at most 5."""
    server = start_oracle("gives five").server

    output = run_task(evaluate, server)

    assert results_of(output)["chat_acc,none"] == 1
    numbers_of_alternatives = [body["top_logprobs"] for body in server.bodies]
    assert numbers_of_alternatives.count(5) == NUM_QUESTIONS


@pytest.mark.parametrize("kind", ["refuses", "forbids", "silent"])
def test_answer_words_are_read_without_log_probabilities(kind, evaluate, start_oracle, caplog):
    """A server may refuse log-probabilities, forbid them, or just leave them out."""
    server = start_oracle(kind).server

    with caplog.at_level(logging.WARNING):
        output = run_task(evaluate, server)

    assert metadata_of(output)["answers_read"] == "words"
    assert results_of(output)["chat_acc,none"] == 1
    assert results_of(output)["all_right,none"] == 1
    # A word is certain, so each probability is 0 or 1.
    for sample in output["samples"][TASK]:
        assert set(sample["auroc"]) == {0.0, 1.0}
    warning = "what the model writes is read instead"
    assert sum(warning in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("kind", ["refuses", "silent"])
def test_trial_answers_are_reused_without_log_probabilities(kind, evaluate, start_oracle):
    """The user pays for answers, so the trial's are read as words and not asked for again."""
    server = start_oracle(kind).server

    run_task(evaluate, server)

    # A server that refuses log-probabilities answers only the requests without them.
    answered = [body for body in server.bodies if kind == "silent" or "logprobs" not in body]
    assert len(answered) == NUM_QUESTIONS


@pytest.mark.parametrize("kind", ["refuses", "silent"])
def test_missing_required_log_probabilities_are_an_error(kind, evaluate, start_oracle):
    """``answers=logprobs`` forbids reading words instead, and the error says how to allow it."""
    server = start_oracle(kind).server

    message = "the server gives no log-probabilities of answers .*answers=words"
    with pytest.raises(ModelError, match=message):
        run_task(evaluate, server, metadata={"answers": "logprobs"})


@pytest.fixture
def anthropic_server(start_oracle, monkeypatch):
    """Return a server with Anthropic's form of replies, which only thinks about one sentence."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-real-key")
    oracle = start_oracle()
    correct_reply = oracle.reply

    def reply(prompt: str, attempt: int) -> Act:
        block = {"type": "text", "text": correct_reply(prompt, attempt).text}
        if HARD_SENTENCE in prompt:
            block = {"type": "thinking"}
        return Act(raw=json.dumps({"content": [block]}).encode())

    oracle.server.script = reply
    return oracle.server


def test_anthropic_answers_are_read_as_words(evaluate, anthropic_server):
    """The reply about one sentence has thinking but no text, and leaves its row unscored."""
    output = run_task(evaluate, anthropic_server, "anthropic-chat-completions")

    assert metadata_of(output)["answers_read"] == "words"
    assert results_of(output)["chat_acc,none"] == 1
    (reason,) = unscored_reasons(output)
    assert "the server gave no usable answer: KeyError" in reason
    assert not any("logprobs" in body for body in anthropic_server.bodies)


def test_an_anthropic_server_cannot_give_required_log_probabilities(evaluate, anthropic_server):
    """Anthropic's replies hold no log-probabilities, so the run stops and names the way out."""
    message = "AnthropicChat reads no log-probabilities; pass --metadata answers=words"
    with pytest.raises(ModelError, match=message):
        run_task(
            evaluate,
            anthropic_server,
            "anthropic-chat-completions",
            metadata={"answers": "logprobs"},
        )


def test_an_unreadable_word_leaves_its_row_unscored(evaluate, start_oracle):
    """One answer about one of five rows is neither True nor False."""
    oracle = start_oracle()
    fail_on_hard_sentence(oracle, Act(text="Hard to say."))

    output = run_task(evaluate, oracle.server, metadata={"answers": "words"})

    results = results_of(output)
    assert unscored_reasons(output) == ["question 0: hedged"]
    assert results["unscored,none"] == 1
    assert results["unreadable,none"] == pytest.approx(1 / NUM_QUESTIONS)
    assert results["chat_acc,none"] == 1
    assert results["chat_acc_worst,none"] == 0.8  # four of five rows
    assert results["chat_acc_best,none"] == 1


def test_answers_by_words_request_no_log_probabilities(evaluate, start_oracle):
    """With ``answers=words``, no trial finds out whether the server has log-probabilities."""
    server = start_oracle().server

    run_task(evaluate, server, metadata={"answers": "words"})

    assert not any("logprobs" in body for body in server.bodies)


def test_schema_answers_are_requested_and_read(evaluate, start_oracle):
    """A JSON schema in each request allows only the two words."""
    server = start_oracle().server
    correct_reply = server.script

    def reply_in_json(prompt: str, attempt: int) -> Act:
        return Act(text=json.dumps({"answer": correct_reply(prompt, attempt).text}))

    server.script = reply_in_json

    output = run_task(evaluate, server, metadata={"answers": "schema"})

    assert results_of(output)["chat_acc,none"] == 1
    assert metadata_of(output)["answers_read"] == "schema"
    for body in server.bodies:
        schema = body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["answer"]["enum"] == ["True", "False"]


def test_a_local_model_takes_no_schema(evaluate):
    """Only servers can hold a model to a JSON schema, so ``answers=schema`` needs a server."""
    with pytest.raises(ModelError, match="takes no JSON schema"):
        evaluate(
            "constant-answer",
            [TASK],
            model_args={"answer": "True"},
            metadata={"answers": "schema"},
            limit=1,
        )


def test_a_failed_request_leaves_only_its_row_unscored(evaluate, start_oracle):
    """One error of the server must not end a run that has other answers to score."""
    oracle = start_oracle()
    fail_on_hard_sentence(oracle, Act(status=500))

    output = run_task(evaluate, oracle.server)

    reason = "question 0: the server gave no usable answer: HTTP 500"
    assert unscored_reasons(output) == [reason]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        pytest.param(
            "auto",
            "the first questions got no answer; the first one: .* HTTP 500",
            id="in the trial of log-probabilities",
        ),
        pytest.param(
            "words",
            "8 requests in a row failed, the last with HTTP 500",
            id="after eight failures in a row",
        ),
    ],
)
def test_permanently_failing_server_ends_the_run(evaluate, start_oracle, answers, message):
    """A run on a dead server would only wait, and end with nothing scored."""
    oracle = start_oracle()
    oracle.server.script = lambda prompt, attempt: Act(status=500)

    with pytest.raises(ModelError, match=message):
        run_task(evaluate, oracle.server, metadata={"answers": answers})


def test_a_chat_server_without_a_chat_template_is_an_error(evaluate, start_oracle):
    """Chat servers take messages, which lm_eval makes only with ``--apply_chat_template``."""
    server = start_oracle().server

    with pytest.raises(ConfigError, match="add --apply_chat_template"):
        run_task(evaluate, server, apply_chat_template=False)


def test_a_second_run_takes_all_answers_from_the_cache(evaluate, start_oracle, tmp_path):
    """With ``use_cache``, the second run sends no request: the server has got one per question."""
    server = start_oracle().server
    cache = str(tmp_path / "cache")
    run_task(evaluate, server, use_cache=cache)

    output = run_task(evaluate, server, use_cache=cache)

    assert results_of(output)["chat_acc,none"] == 1
    assert len(server.bodies) == NUM_QUESTIONS


@pytest.fixture
def letters_run(evaluate, start_oracle):
    """Return a run of the protocol ``letters`` on a model that always says B, and the server."""
    # A warning is logged once in a run.
    begin_run(EvaluationRun())
    oracle = start_oracle()
    oracle.server.script = lambda prompt, attempt: Act(text="B")
    output = run_task(evaluate, oracle.server, metadata={"protocol": "letters"})
    return output, oracle.server


def test_always_answering_b_gives_zero_accuracy(letters_run):
    """Each row is asked in four rotations, so B stands once for each of its four choices."""
    output, _ = letters_run

    results = results_of(output)
    assert results["chat_acc,none"] == 0  # all four choices get the same score
    assert results["prompt_acc,none"] == 1 / 4  # B is the true choice in one of four prompts
    assert results["pairwise_acc,none"] == 1 / 2  # the true choice ties with each other one
    assert [results[f"position_{letter},none"] for letter in "ABCD"] == [0, 1, 0, 0]


def test_letter_questions_cover_all_four_rotations(letters_run):
    """Each choice gets each letter once, so all prompts differ and none is asked twice."""
    _, server = letters_run

    distinct_prompts = {body["messages"][-1]["content"] for body in server.bodies}
    num_rows, num_rotations = 5, 4
    assert len(distinct_prompts) == num_rows * num_rotations


def test_letter_protocol_gives_a_warning(letters_run, caplog):
    """With all choices in one prompt, a model can guess the true one by their likeness."""
    output, _ = letters_run

    assert metadata_of(output)["caution"] == LETTERS_CAUTION
    # The fixture ran the task, so pytest has the messages in the records of the setup.
    warnings = [record.message for record in caplog.get_records("setup")]
    assert sum(LETTERS_CAUTION in warning for warning in warnings) == 1


def test_true_false_prompts_show_only_one_choice(evaluate, start_oracle):
    """Choices differ in a few words, so comparing them would give the true one away."""
    server = start_oracle().server

    output = run_task(evaluate, server)

    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    questions = [prompt.split("Next sentence:\n")[1] for prompt in prompts]
    for sample in output["samples"][TASK]:
        choices = [choice.strip() for choice in sample["doc"]["choices"]]
        for question in questions:
            assert sum(choice in question for choice in choices) <= 1


@pytest.fixture(scope="module")
def hf(checkpoint):
    """Return lm_eval's model ``hf`` with a tiny checkpoint."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(checkpoint), device="cpu", dtype="float32", batch_size=4)


@pytest.fixture(scope="module")
def hf_tree(checkpoint):
    """Return the model ``hf-tree`` with the same checkpoint."""
    return HFTree(pretrained=str(checkpoint), device="cpu", dtype="float32", batch_size=4)


@pytest.mark.parametrize("protocol", ["statements", "letters"])
def test_hf_and_hf_tree_give_the_same_probabilities(protocol, evaluate, hf, hf_tree):
    """``hf-tree`` is only faster than lm_eval's ``hf``: it computes shared prefixes once."""
    settings = {"protocol": protocol}

    hf_output = evaluate(hf, [TASK], limit=2, metadata=settings)
    tree_output = evaluate(hf_tree, [TASK], limit=2, metadata=settings)

    assert metadata_of(hf_output)["answers_read"] == "logprobs"
    # A row's value of the AUROC is the list of its choices' probabilities.
    hf_rows = [sample["auroc"] for sample in hf_output["samples"][TASK]]
    tree_rows = [sample["auroc"] for sample in tree_output["samples"][TASK]]
    for hf_probabilities, tree_probabilities in zip(hf_rows, tree_rows, strict=True):
        assert hf_probabilities == pytest.approx(tree_probabilities, abs=1e-4)


@pytest.mark.parametrize("protocol", ["statements", "letters"])
def test_the_probability_of_a_word_includes_the_word_after_a_space(protocol, evaluate, hf):
    """A model may begin its answer with "True" or with " True": both count as the same answer."""
    output = evaluate(hf, [TASK], limit=1, metadata={"protocol": protocol})

    (sample,) = output["samples"][TASK]
    prompt, words, *_ = sample["arguments"][0]
    logprobs = sample["filtered_resps"][0].logprobs
    for word, logprob in zip(words, logprobs, strict=True):
        without_space = continuation_probability(hf, prompt, word)
        after_space = continuation_probability(hf, prompt, f" {word}")
        assert math.exp(logprob) == pytest.approx(without_space + after_space, rel=1e-3)


def continuation_probability(model: Any, prompt: str, continuation: str) -> float:
    """Return the probability that a model goes on with a text after a prompt."""
    prompt_tokens = model.tok_encode(prompt)
    tokens = model.tok_encode(prompt + continuation)
    request = (None, prompt_tokens, tokens[len(prompt_tokens) :])
    ((logprob, _),) = model._loglikelihood_tokens([request], disable_tqdm=True)
    return math.exp(logprob)


def test_oversized_prompt_is_unscored_and_not_truncated(evaluate, hf_tree, write_rows, tmp_path):
    """A model whose prompt is cut from the left would answer without the context."""
    prefix = "The library opened in 1870. "
    long_prefix = prefix * 200
    write_rows(
        [
            example_row(turncated_prefixes=prefix),
            example_row(turncated_prefixes=long_prefix),
        ]
    )
    included = TASKS / "factor" / "_factor_chat.yaml"
    yaml = f"include: {included}\ntask: mine\ndataset_path: rows.jsonl\n"
    (tmp_path / "mine.yaml").write_text(yaml, encoding="utf-8")

    samples = evaluate(hf_tree, ["mine"], tmp_path)["samples"]["mine"]

    assert [sample["unscored"] for sample in samples] == [
        None,
        "question 0: the prompt is longer than the model's window",
    ]


def test_constant_answer_is_right_in_half_of_the_pairs(evaluate):
    """ "True" to every question ties the truth with each contradiction, which counts half."""
    output = evaluate("constant-answer", [TASK], model_args={"answer": "True"}, limit=2)

    assert results_of(output)["unscored,none"] == 0
    assert results_of(output)["pairwise_acc,none"] == 0.5


def test_answer_outside_the_options_is_unscored(evaluate):
    """ "Perhaps" is neither True nor False, so both rows of the run stay without a score."""
    output = evaluate("constant-answer", [TASK], model_args={"answer": "Perhaps"}, limit=2)

    assert results_of(output)["unscored,none"] == 2


@pytest.fixture
def published_data(tmp_path):
    """Return a folder that stands in for the published files, with 2, 3 and 4 rows."""
    for name, num_rows in (("wiki", 2), ("news", 3), ("expert", 4)):
        rows = [
            example_row(completion=f"It fell in {1800 + number} ,then rose .")
            for number in range(num_rows)
        ]
        with (tmp_path / f"{name}_factor.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return tmp_path


def test_group_score_is_the_mean_of_its_tasks(evaluate, published_data):
    """ "True" to every question gives 0.5 in each task, since each pair is a tie."""
    output = evaluate(
        "constant-answer",
        ["factor_chat"],
        model_args={"answer": "True"},
        metadata={"data_dir": str(published_data)},
    )

    # A constant answer is right in half of the pairs of every task.
    assert output["groups"]["factor_chat"]["pairwise_acc,none"] == 0.5


def test_the_clean_task_has_no_spaces_before_punctuation(evaluate, published_data):
    """The published Expert-FACTOR has "It fell in 1800 ,then rose ." and the like."""
    output = evaluate(
        "constant-answer",
        ["factor_chat"],
        model_args={"answer": "True"},
        metadata={"data_dir": str(published_data)},
    )

    first_sample = output["samples"]["expert_factor_clean_chat"][0]
    prompt, *_ = first_sample["arguments"][0]
    assert "Next sentence:\nIt fell in 1800,then rose.\n" in prompt


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"protocol": "paper"},
            "metadata.protocol is 'paper'; expected 'statements' or 'letters'",
            id="protocol",
        ),
        pytest.param(
            {"answers": "both"},
            "metadata.answers is 'both'; expected 'auto', 'logprobs', 'words' or 'schema'",
            id="answers",
        ),
        pytest.param({"spacing": "none"}, "spacing", id="spacing"),
    ],
)
def test_a_wrong_setting_is_refused(metadata, message, evaluate):
    """A misspelt setting would otherwise run with the default, and nobody would notice."""
    with pytest.raises(ConfigError, match=message):
        evaluate("constant-answer", [TASK], model_args={"answer": "True"}, metadata=metadata)


def test_validate_shows_a_question(capsys):
    """``validate`` needs no model: it counts the rows and requests, and prints the first prompt."""
    from lm_factuality.cli.main import main

    exit_code = main(["validate", TASK])

    printed = capsys.readouterr().out
    assert exit_code == 0
    # Each of 432 rows has four choices.
    assert "sample_factor_chat: sound; 432 rows, 1728 requests" in printed
    assert "Answer with one word, True or False." in printed


@pytest.mark.parametrize(
    ("alternatives", "expected"),
    [
        pytest.param(
            # U+0120 marks a space in the tokens of GPT-2.
            [("True", -0.1), (" true", -3.0), ("\u0120TRUE", -4.0), ("The", -1.0)],
            (math.log(math.exp(-0.1) + math.exp(-3) + math.exp(-4)), None),
            id="case and spaces do not matter",
        ),
        pytest.param([("False", -1.0), ("True", -2.0)], (-2.0, -1.0), id="both words"),
    ],
)
def test_word_log_probabilities_are_read_from_the_first_token(alternatives, expected):
    """Probabilities of a word's spellings are added, and a word that is not listed has None."""
    logprobs = first_word_logprobs(alternatives, ("True", "False"))

    assert logprobs == pytest.approx(expected)


@pytest.mark.parametrize(
    "alternatives",
    [
        pytest.param([("The", -0.1), ("Tr", -1.0)], id="other words"),
        pytest.param([], id="no alternatives"),
    ],
)
def test_incomplete_words_among_first_tokens_give_no_log_probabilities(alternatives):
    """A token such as "Tr" could go on in many ways, so only whole words count."""
    assert first_word_logprobs(alternatives, ("True", "False")) is None
