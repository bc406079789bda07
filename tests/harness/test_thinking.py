"""Models that think, through lm_eval: tiny checkpoints that recite, in every task that asks for
texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.samples import verdict_of
from lm_factuality.harness.thinking import answers_until, thinking_tokens
from tests.benchmarks.factor_chat.oracle import Oracle
from tests.judges.server import Act, JudgeServer
from tests.tiny_models import save_reciter

PLAIN = (
    "{% for each in messages %}{{ each.content }}{% endfor %}"
    "{% if add_generation_prompt %}\n{% endif %}"
)
"""A chat template without reasoning."""

NAMES_REASONING = "{#<think>#}" + PLAIN
"""A chat template that names the mark of reasoning, so that the suite detects it."""

OPENS_REASONING = PLAIN + "<think>\n"
"""A chat template that opens the reasoning in the prompt."""

FELM, FELM_GEN, AMBIGBIO, FACTOR_GENERATION = TASKS = [
    "sample_felm",
    "sample_felm_gen",
    "sample_ambigbio",
    "sample_factor_generation",
]
# The reasoning and the answer are lists of pieces, each of which is a token of the tiny models.
# The reasoning contains texts at which tasks stop, such as "Question:".
REASONING = [
    "<think>",
    "Who is it?\n",
    "Question: who?\n",
    "\nInstruction: none.\n",
    "Answer: 3\n",
    "So be it.",
    "</think>",
]
ANSWER = [
    "Sven Falk was a painter ",
    "and sailed to the northern islands. ",
    "He taught at a school.\n",
    "Answer: 1",
]
HARMONY_REASONING = [
    "<|channel|>analysis<|message|>",
    *REASONING[1:-1],
    "<|end|><|start|>assistant<|channel|>final<|message|>",
]
"""The same reasoning in the format of gpt-oss."""


@pytest.fixture
def generate(tmp_path, evaluate, monkeypatch):
    """Return a function that lets a tiny model recite pieces of text as its answer to each task.

    It runs one row of each task, and returns lm_eval's output.
    """
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    folders = []

    def run_tasks(
        pieces,
        tasks=TASKS,
        template=NAMES_REASONING,
        special=(),
        metadata=None,
        model_args=None,
        **options,
    ):
        folder = save_reciter(tmp_path / f"model_{len(folders)}", pieces, template, special)
        folders.append(folder)
        model_args = {"pretrained": str(folder), "dtype": "float32", **(model_args or {})}
        options.setdefault("apply_chat_template", True)
        return evaluate(
            "hf",
            tasks,
            model_args=model_args,
            metadata=metadata or {},
            batch_size=1,
            limit=1,
            log_samples=True,
            **options,
        )

    return run_tasks


def metrics_of(output, task):
    """Return the metrics of a task, without what else lm_eval stores beside them."""
    return {name: value for name, value in output["results"][task].items() if "," in name}


def single_text(output):
    """Return the text that the model wrote for a task with one row, and what was read from it."""
    (samples,) = output["samples"].values()
    (sample,) = samples
    (text,) = sample["resps"][0]
    (read,) = sample["filtered_resps"]
    return text, read


# Metrics of open generation include log-probabilities, which depend on the length of the text.
@pytest.mark.parametrize("task", [FELM, FELM_GEN, AMBIGBIO])
def test_reasoning_changes_no_score(generate, task):
    """Only the answer is scored, so a model gains or loses nothing by thinking aloud."""
    plain_output = generate(ANSWER, [task])
    reasoning_output = generate(REASONING + ANSWER, [task])

    metrics = metrics_of(reasoning_output, task)
    expected_metrics = metrics_of(plain_output, task)
    assert json.dumps(metrics, sort_keys=True) == json.dumps(expected_metrics, sort_keys=True)


def test_an_answer_after_reasoning_is_scored(generate):
    """If no answer were read, the tests of unfinished reasoning would pass too."""
    output = generate(REASONING + ANSWER, [FELM, AMBIGBIO])

    assert output["results"][FELM]["unscored,none"] == 0
    assert output["results"][AMBIGBIO]["unscored,judge"] == 0


def test_samples_keep_the_reasoning_but_scoring_ignores_it(generate):
    """A reader of samples sees how the model came to its answer."""
    plain_samples = generate(ANSWER)["samples"]
    reasoning_samples = generate(REASONING + ANSWER)["samples"]

    for task in TASKS:
        (plain_sample,) = plain_samples[task]
        (reasoning_sample,) = reasoning_samples[task]
        expected_texts = ["".join(REASONING) + text for text in plain_sample["resps"][0]]
        assert reasoning_sample["resps"][0] == expected_texts
        # What is scored may hold NaN, which does not equal itself, so it is compared as text.
        assert str(reasoning_sample["filtered_resps"]) == str(plain_sample["filtered_resps"])


def test_results_state_the_tokens_for_reasoning(generate):
    """A score may depend on how long the model could think."""
    output = generate(REASONING + ANSWER)

    for task in TASKS:
        assert output["configs"][task]["metadata"]["thinking_tokens"] == 4096  # the default


@pytest.fixture
def unfinished_output(generate):
    """Return a run of all tasks on a model whose reasoning does not end in 30 tokens."""
    return generate(
        [*REASONING[:-2], "Who is it?\n"],
        metadata={"thinking_tokens": 30},
        gen_kwargs={"max_gen_toks": 8, "until": ["Question:"]},
    )


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("sample_felm", "unscored,none"),
        ("sample_felm_gen", "unscored,judge"),
        ("sample_ambigbio", "unscored,judge"),
    ],
)
def test_unfinished_reasoning_is_unscored(unfinished_output, task, metric):
    """The model ran out of tokens before it answered, which is neither right nor wrong."""
    (sample,) = unfinished_output["samples"][task]

    assert sample["unscored"] == UNFINISHED
    assert unfinished_output["results"][task][metric] == 1


def test_biography_with_unfinished_reasoning_is_not_an_abstention(unfinished_output):
    """The model has not said that it does not know, so the response may have any score."""
    (sample,) = unfinished_output["samples"][AMBIGBIO]
    assert sample["respond_ratio"] is None
    assert verdict_of(sample)["abstained"] is False
    assert sample["d_factscore_worst"] == 0
    assert sample["d_factscore_best"] == 1


def test_answer_with_unfinished_reasoning_is_not_a_refusal(unfinished_output):
    """The model has not said that it will not answer, so at worst its response is wrong."""
    (sample,) = unfinished_output["samples"][FELM_GEN]
    assert sample["no_answer"] is None
    assert sample["response_error_rate_worst"] == [1, 1]


def test_generations_with_unfinished_reasoning_have_no_marks(unfinished_output):
    """A judge would take the thoughts for the text of the three generations."""
    (sample,) = unfinished_output["samples"][FACTOR_GENERATION]
    # The task takes three generations of each row.
    assert verdict_of(sample)["reasons"] == [UNFINISHED] * 3
    assert verdict_of(sample)["marks"] == [None] * 3


@pytest.mark.parametrize(
    ("task", "pieces", "template", "metadata"),
    [
        pytest.param(
            FELM_GEN,
            ["Who is it?\n", "So who?\n", "Who is it?\n"],
            OPENS_REASONING,
            {"thinking_tokens": 30},
            id="opened in the prompt",
        ),
        pytest.param(
            FELM_GEN, REASONING[:-1], NAMES_REASONING, {}, id="the text ends before the end mark"
        ),
        pytest.param(
            FELM,
            REASONING + ANSWER,
            NAMES_REASONING,
            {"thinking_tokens": 0},
            id="a stop text of the task ends it",
        ),
    ],
)
def test_reasoning_without_its_end_mark_is_unscored(generate, task, pieces, template, metadata):
    """A stop text, or the model's own end, may come before the thought is closed."""
    gen_kwargs = {"max_gen_toks": 8, "until": ["Question:"]}

    output = generate(pieces, [task], template, metadata=metadata, gen_kwargs=gen_kwargs)

    (sample,) = output["samples"][task]
    assert sample["unscored"] == UNFINISHED


@pytest.mark.parametrize(
    ("reasoning", "special", "model_args"),
    [
        pytest.param(
            ["[THINK]", *REASONING[1:-1], "[/THINK]"],
            ["[THINK]", "[/THINK]"],
            {},
            id="special tokens",
        ),
        pytest.param(HARMONY_REASONING, [], {}, id="gpt-oss"),
        pytest.param(
            ["Let me see.\n\nInstruction:", "###"],
            [],
            {"think_end_token": "###"},
            id="an end mark of the user",
        ),
        pytest.param(
            ["Let me see.\n\nInstruction:", "###"],
            ["###"],
            {"think_end_token": 258},
            id="an end mark by the number of its token",
        ),
        pytest.param(
            REASONING,
            [],
            {"think_end_token": "</think>", "enable_thinking": True},
            id="a mark that lm_eval would remove itself",
        ),
    ],
)
def test_reasoning_in_other_formats_is_recognised(generate, reasoning, special, model_args):
    """Models mark their thoughts with other words than ``<think>``, too."""
    # The template names a mark in a comment, by which the suite knows that the model reasons.
    template = "{#[THINK]#}" + PLAIN

    output = generate(
        [*reasoning, *ANSWER],
        tasks=[FELM_GEN],
        template=template,
        special=special,
        model_args=model_args,
    )

    text, record = single_text(output)
    answer = "".join(ANSWER)
    assert text.endswith(answer)
    # Segments leave out the spaces between sentences.
    segments = "".join(json.loads(record)["segments"])
    assert segments.replace(" ", "") == "".join(answer.split())
    metadata = output["configs"][FELM_GEN]["metadata"]
    assert metadata["thinking_tokens"] == 4096  # the default


with_and_without_reasoning = pytest.mark.parametrize(
    "reasoning", [[], REASONING], ids=["plain", "reasoning"]
)


@with_and_without_reasoning
def test_token_limit_applies_to_the_answer_and_not_to_the_reasoning(generate, reasoning):
    """Benchmarks limit answers, and a long thought would leave no room for one."""
    # Each piece is a token of the model.
    answer = ["Sven Falk ", "was a painter ", "and sailed ", "to the islands."]

    output = generate([*reasoning, *answer], [FELM_GEN], gen_kwargs={"max_gen_toks": 3})

    text, _ = single_text(output)
    assert text.removeprefix("".join(REASONING)) == "Sven Falk was a painter and sailed "


@with_and_without_reasoning
def test_stop_text_ends_the_answer_and_not_the_reasoning(generate, reasoning):
    """The stop text "who?" occurs in the reasoning, and "\\nInstruction:" in both."""
    answer = ["Sven Falk was a painter.", "\n\nInstruction:", " Name another."]
    gen_kwargs = {"until": ["\nInstruction:", "who?"]}

    output = generate([*reasoning, *answer], [FELM_GEN], gen_kwargs=gen_kwargs)

    text, _ = single_text(output)
    assert text.removeprefix("".join(REASONING)) == "Sven Falk was a painter.\n"


def test_request_to_a_reasoning_model_has_the_limits_of_answer_and_reasoning(generate):
    gen_kwargs = {"max_gen_toks": 3, "until": ["who?"]}

    output = generate(REASONING + ANSWER, [FELM_GEN], gen_kwargs=gen_kwargs)

    (sample,) = output["samples"][FELM_GEN]
    ((_prompt, generation_options, thinking_limit),) = sample["arguments"]
    assert generation_options["max_gen_toks"] == 3
    assert generation_options["until"] == ["who?"]
    assert thinking_limit == 4096  # the default


def test_requests_to_a_non_reasoning_model_have_no_reasoning_limit(generate):
    """Requests to such a model stay those of lm_eval: a prompt and generation arguments."""
    output = generate(ANSWER, [FELM_GEN], PLAIN)

    (sample,) = output["samples"][FELM_GEN]
    ((prompt, generation_options),) = sample["arguments"]  # and no limit of reasoning
    assert isinstance(prompt, str)
    assert "max_gen_toks" in generation_options
    assert "thinking_tokens" not in output["configs"][FELM_GEN]["metadata"]


def test_reasoning_limit_beyond_the_window_is_refused(generate):
    """The message says how much there is room for."""
    message = (
        r"thinking_tokens=20000: .* the model's window of 16384; pass --metadata .* at most 1\d{4}"
    )
    with pytest.raises(ModelError, match=message):
        generate(ANSWER, [FELM_GEN], metadata={"thinking_tokens": 20000})


@pytest.mark.parametrize(
    ("metadata", "has_template", "tokens"),
    [
        pytest.param({}, True, 0, id="no setting"),
        pytest.param({"thinking_tokens": 7}, False, 7, id="a number of the user"),
        pytest.param(
            {"thinking_tokens": 0, "enable_thinking": True}, True, 0, id="the user says 0"
        ),
        pytest.param({"enable_thinking": True}, False, 4096, id="thinking is on"),
        pytest.param(
            {"enable_thinking": False, "think_end_token": "</think>"},
            True,
            0,
            id="thinking is off",
        ),
        pytest.param(
            {"chat_template_args": {"enable_thinking": False}, "think_end_token": "</think>"},
            True,
            0,
            id="thinking is off in the template",
        ),
        pytest.param({"think_end_token": "</think>"}, True, 4096, id="an end mark"),
        pytest.param({"pretrained": "no/such-model"}, True, 0, id="unknown model"),
    ],
)
def test_model_settings_decide_whether_reasoning_is_expected(metadata, has_template, tokens):
    """The user's number counts first, then whether thinking is off, on, or has an end mark."""
    assert thinking_tokens("t", metadata, has_template) == tokens


@pytest.mark.parametrize("value", [-1, "many", 1.5, True, 10**9])
def test_thinking_tokens_must_be_a_whole_number(value):
    """Python would take True for 1 token."""
    message = f"t: metadata.thinking_tokens: found {value!r}, expected a whole number"
    with pytest.raises(ConfigError, match=message):
        thinking_tokens("t", {"thinking_tokens": value}, False)


class Reciter(LM):
    """A model without a tokenizer that writes the same text for each request."""

    def __init__(self, text: str) -> None:
        """Set the text."""
        super().__init__()
        self.text = text
        self.requests = []

    def generate_until(self, requests):
        """Write the text for each request, and remember the requests."""
        self.requests += [request.args for request in requests]
        return [self.text] * len(requests)

    def loglikelihood(self, requests):
        """Refuse to score."""
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


GREEDY = {"max_gen_toks": 5, "until": ["\n"], "do_sample": False}
SAMPLED = {"max_gen_toks": 5, "do_sample": True, "temperature": 1.0}
RECITED_REASONING = "<think>a\nb</think>"


@pytest.fixture
def reciter():
    """Return a model that reasons, then writes twenty words."""
    return Reciter(RECITED_REASONING + "word " * 20)


def test_text_is_cut_at_four_bytes_per_token_without_a_tokenizer(reciter):
    """The answer may have five tokens, which are about twenty bytes of English text."""
    num_thinking_tokens = 9
    request = Instance("", {}, ("p", GREEDY, num_thinking_tokens), 0)

    (text,) = answers_until(reciter, [request])

    options = {"max_gen_toks": 5 + 9, "until": [], "do_sample": False, "temperature": 0.0}
    assert text == RECITED_REASONING + "word " * 4  # twenty bytes
    assert reciter.requests == [("p", options)]


def test_every_sampled_answer_is_requested(reciter):
    """Samples differ, so the first one cannot stand for both."""
    request = Instance("", {}, ("p", SAMPLED, 0), 0)

    texts = answers_until(reciter, [request, request])

    assert texts == [reciter.text] * 2
    assert len(reciter.requests) == 2


@pytest.fixture
def server(monkeypatch) -> Iterator[JudgeServer]:
    """Return a server of a chat model."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    started = JudgeServer()
    yield started
    started.close()


@pytest.fixture
def ask_server(server, evaluate, tmp_path, monkeypatch):
    """Return a function that runs a row of FELM-gen on a server with one reply."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))

    def run_task(message, finish_reason="stop"):
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        reply = Act(raw=json.dumps({"choices": [choice]}).encode())
        server.script = lambda prompt, attempt: reply
        return evaluate(
            "local-chat-completions",
            [FELM_GEN],
            model_args=client_arguments(server),
            metadata={"thinking_tokens": 100},
            apply_chat_template=True,
            limit=1,
            gen_kwargs={"until": ["Question:"]},
        )

    return run_task


def client_arguments(server):
    """Return the arguments of lm_eval's client for a server."""
    return {
        "model": "m",
        "base_url": f"{server.base_url}/chat/completions",
        "tokenizer_backend": None,
    }


def test_server_token_limit_includes_reasoning_and_answer(server, ask_server):
    """Servers count the tokens of both together, and have one limit."""
    ask_server({"content": "".join(ANSWER)})

    (request,) = server.bodies
    # FELM-gen asks for 1,024 tokens. A stop text could end the reasoning, so none is sent.
    assert request["max_tokens"] == 1024 + 100
    assert request["stop"] == []


def test_server_answer_is_not_truncated_at_stop_texts(ask_server):
    """The text "Question:" within the thought would otherwise end the answer."""
    content = "<think>Question: who?</think>" + "".join(ANSWER)

    text, _ = single_text(ask_server({"content": content}))

    assert text == content


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_separate_server_reasoning_is_saved_in_think_tags(ask_server, key):
    """Servers differ in the key under which they send thoughts."""
    text, _ = single_text(ask_server({"content": "".join(ANSWER), key: "Who?"}))

    assert text == "<think>Who?</think>" + "".join(ANSWER)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_server_reasoning_without_an_answer_is_unscored(ask_server, key):
    """The tokens ran out before the answer, so the model may still know it."""
    output = ask_server({"content": None, key: "Who?"}, finish_reason="length")

    text, record = single_text(output)
    assert text == "<think>Who?"
    assert json.loads(record)["unscored"] == UNFINISHED


def test_empty_server_answer_is_unscored(ask_server):
    """The reply has neither an answer nor a thought, so nothing tells why."""
    text, record = single_text(ask_server({"content": ""}))

    assert text == ""
    assert json.loads(record)["unscored"] == "no answer: empty"


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        pytest.param("refuses", "words", id="words are asked for"),
        pytest.param("silent", "auto", id="no log-probabilities come"),
    ],
)
def test_word_after_server_reasoning_is_read(kind, answers, evaluate, monkeypatch):
    """Two rows have four choices each, and every choice is a request."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    oracle = Oracle(kind)
    correct_reply = oracle.reply
    oracle.server.script = lambda *request: with_reasoning(correct_reply(*request))

    output = evaluate(
        "local-chat-completions",
        ["sample_factor_chat"],
        model_args=client_arguments(oracle.server),
        metadata={"thinking_tokens": 100, "answers": answers},
        apply_chat_template=True,
        limit=2,
    )
    oracle.server.close()

    requests_for_words = [body for body in oracle.server.bodies if "logprobs" not in body]
    first_sample, _ = output["samples"]["sample_factor_chat"]
    assert output["results"]["sample_factor_chat"]["chat_acc,none"] == 1
    assert len(requests_for_words) == 2 * 4
    for request in requests_for_words:
        assert request["max_tokens"] == 16 + 100
        assert request["stop"] == []
    assert len(first_sample["arguments"][0]) == 5


def with_reasoning(act: Act) -> Act:
    """Put reasoning before a reply, and another question after it."""
    return replace(act, text=f"<think>True?\n\nText: or False?</think>{act.text}\n\nText: False")
