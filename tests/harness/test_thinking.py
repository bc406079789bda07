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

PLAIN = "{% for each in messages %}{{ each.content }}{% endfor %}{% if add_generation_prompt %}\n{% endif %}"
THINKS = "{#<think>#}" + PLAIN
OPENS = PLAIN + "<think>\n"
TASKS = ["sample_felm", "sample_felm_gen", "sample_ambigbio", "sample_factor_generation"]
THOUGHT = [
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
HARMONY = [
    "<|channel|>analysis<|message|>",
    *THOUGHT[1:-1],
    "<|end|><|start|>assistant<|channel|>final<|message|>",
]


@pytest.fixture
def generate(tmp_path, evaluate, monkeypatch):
    """A row of each task, answered by a model that says ``pieces``; gives lm_eval's output."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    made = []

    def start(
        pieces, tasks=TASKS, template=THINKS, special=(), metadata=None, model_args=None, **options
    ):
        folder = save_reciter(tmp_path / f"model_{len(made)}", pieces, template, special)
        made.append(folder)
        model_args = {"pretrained": str(folder), "dtype": "float32", **(model_args or {})}
        options = {
            "apply_chat_template": template is not None,
            "limit": 1,
            "log_samples": True,
            **options,
        }
        return evaluate(
            "hf", tasks, model_args=model_args, metadata=metadata or {}, batch_size=1, **options
        )

    return start


def scores(output):
    """All that was measured."""
    return {
        task: {name: each for name, each in found.items() if "," in name}
        for task, found in output["results"].items()
    }


def written(output):
    """(what was written, what was read) of the texts in all samples."""
    return [
        (text, read)
        for samples in output["samples"].values()
        for sample in samples
        for text, read in zip(sample["resps"][0], sample["filtered_resps"], strict=False)
    ]


def test_thoughts_change_no_score(generate):
    plain, thinking = generate(ANSWER), generate(THOUGHT + ANSWER)
    found, expected = scores(thinking), scores(plain)
    del (
        found["sample_factor_generation"],
        expected["sample_factor_generation"],
    )  # which has the model's log-probabilities
    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)
    assert (
        expected["sample_felm"]["unscored,none"]
        == expected["sample_ambigbio"]["unscored,judge"]
        == 0
    )
    for task in TASKS:
        assert thinking["configs"][task]["metadata"]["thinking_tokens"] == 4096
        for sample, other in zip(thinking["samples"][task], plain["samples"][task], strict=True):
            assert all(text.startswith("".join(THOUGHT)) for text in sample["resps"][0])
            assert [text.removeprefix("".join(THOUGHT)) for text in sample["resps"][0]] == other[
                "resps"
            ][0]
            assert str(sample["filtered_resps"]) == str(other["filtered_resps"])


@pytest.mark.parametrize(
    ("pieces", "template", "metadata", "tasks"),
    [
        ([*THOUGHT[:-2], "Who is it?\n"], THINKS, {"thinking_tokens": 30}, TASKS),
        (
            ["Who is it?\n", "So who?\n", "Who is it?\n"],
            OPENS,
            {"thinking_tokens": 30},
            TASKS[1:2],
        ),  # opened in the prompt
        (THOUGHT[:-1], THINKS, {}, TASKS[1:2]),  # it ends of its own
        (THOUGHT + ANSWER, THINKS, {"thinking_tokens": 0}, TASKS[:1]),  # a stop of the task ends it
    ],
)
def test_an_unfinished_thought_is_unscored(generate, pieces, template, metadata, tasks):
    output = generate(
        pieces,
        template=template,
        metadata=metadata,
        tasks=tasks,
        gen_kwargs={"max_gen_toks": 8, "until": ["Question:"]},
    )
    rows = {task: output["samples"][task][0] for task in tasks}
    for task in tasks[:3]:
        assert rows[task]["unscored"] == UNFINISHED
        assert {
            each for name, each in scores(output)[task].items() if name.startswith("unscored,")
        } == {1}
    if tasks == TASKS:
        biography, generations = rows["sample_ambigbio"], rows["sample_factor_generation"]
        assert biography["respond_ratio"] is None
        assert verdict_of(biography)["abstained"] is False
        assert (biography["d_factscore_worst"], biography["d_factscore_best"]) == (0, 1)
        assert verdict_of(generations)["reasons"] == [UNFINISHED] * 3
        assert verdict_of(generations)["marks"] == [None] * 3
    if "sample_felm_gen" in tasks:
        assert (
            rows["sample_felm_gen"]["no_answer"],
            rows["sample_felm_gen"]["response_error_rate_worst"],
        ) == (None, [1, 1])


@pytest.mark.parametrize(
    ("pieces", "special", "model_args"),
    [
        (["[THINK]", *THOUGHT[1:-1], "[/THINK]"], ["[THINK]", "[/THINK]"], {}),
        (HARMONY, [], {}),
        (["Let me see.\n\nInstruction:", "###"], [], {"think_end_token": "###"}),
        (["Let me see.\n\nInstruction:", "###"], ["###"], {"think_end_token": 258}),
        (THOUGHT, [], {"think_end_token": "</think>", "enable_thinking": True}),
    ],
)
def test_marks_of_other_models(generate, pieces, special, model_args):
    """Special tokens, a model's own end of a thought, and one that lm_eval would strip itself."""
    template = "{#[THINK]#}" + PLAIN
    output = generate([*pieces, *ANSWER], TASKS[1:2], template, special, model_args=model_args)
    ((text, record),) = written(output)
    record = json.loads(record)
    assert text.endswith("".join(ANSWER))
    assert "".join(record["segments"]).replace(" ", "") == "".join(ANSWER).replace(" ", "").replace(
        "\n", ""
    )
    assert output["configs"]["sample_felm_gen"]["metadata"]["thinking_tokens"] == 4096


def test_limits_are_those_of_the_answer(generate):
    longer, thought = [*ANSWER, "\n\nInstruction:", " Name another."], "".join(THOUGHT)
    for limits, end in (({"until": ["\nInstruction:", "who?"]}, "\n"), ({"max_gen_toks": 3}, None)):
        answer = "".join(ANSWER[: 3 if end is None else 4]) + (end or "")
        for pieces in (longer, THOUGHT + longer):
            output = generate(pieces, TASKS[1:2], gen_kwargs=limits)
            ((text, _),) = written(output)
            assert text.removeprefix(thought) == answer
            (arguments,) = output["samples"]["sample_felm_gen"][0]["arguments"]
            assert {name: arguments[1][name] for name in limits} == limits
            assert arguments[2] == 4096


def test_a_model_without_marks_is_asked_as_ever(generate):
    output = generate(ANSWER, TASKS[1:2], PLAIN)
    assert "thinking_tokens" not in output["configs"]["sample_felm_gen"]["metadata"]
    assert len(output["samples"]["sample_felm_gen"][0]["arguments"][0]) == 2


def test_what_does_not_fit_the_window_is_refused(generate):
    with pytest.raises(
        ModelError,
        match=r"thinking_tokens=20000: .* the model's window of 16384; pass --metadata .* at most 1\d{4}",
    ):
        generate(ANSWER, TASKS[1:2], metadata={"thinking_tokens": 20000})


@pytest.mark.parametrize(
    ("metadata", "has_template", "tokens"),
    [
        ({}, True, 0),
        ({"thinking_tokens": 7}, False, 7),
        ({"thinking_tokens": 0, "enable_thinking": True}, True, 0),
        ({"enable_thinking": True}, False, 4096),
        ({"enable_thinking": False, "think_end_token": "</think>"}, True, 0),
        (
            {"chat_template_args": {"enable_thinking": False}, "think_end_token": "</think>"},
            True,
            0,
        ),
        ({"think_end_token": "</think>"}, True, 4096),
        ({"pretrained": "no/such-model"}, True, 0),
    ],
)
def test_whether_a_model_thinks(metadata, has_template, tokens):
    assert thinking_tokens("t", metadata, has_template) == tokens


@pytest.mark.parametrize("given", [-1, "many", 1.5, True, 10**9])
def test_a_setting_that_is_no_number_of_tokens(given):
    with pytest.raises(
        ConfigError, match=f"t: metadata.thinking_tokens: found {given!r}, expected a whole number"
    ):
        thinking_tokens("t", {"thinking_tokens": given}, False)


class Written(LM):
    """A model without a tokenizer that has written this."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.asked = text, []

    def generate_until(self, requests):
        self.asked += [each.args for each in requests]
        return [self.text for _ in requests]

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def test_a_model_without_a_tokenizer_and_a_response_cache():
    lm = Written("<think>a\nb</think>" + "word " * 20)
    request = Instance(
        "", {}, ("p", {"max_gen_toks": 5, "until": ["\n"], "do_sample": False}, 9), 0
    )
    lm.cache_hook.dbdict = {}
    assert answers_until(lm, [request]) == [
        "<think>a\nb</think>" + "word " * 4
    ]  # four bytes a token
    assert lm.asked == [
        ("p", {"max_gen_toks": 14, "until": [], "do_sample": False, "temperature": 0.0})
    ]
    assert answers_until(lm, [request]) == ["<think>a\nb</think>" + "word " * 4]
    assert len(lm.asked) == 1
    sampled = Instance("", {}, ("p", {"max_gen_toks": 5, "do_sample": True, "temperature": 1.0}), 0)
    assert answers_until(lm, [sampled, sampled]) == [lm.text] * 2
    assert len(lm.asked) == 3


@pytest.fixture
def server(monkeypatch) -> Iterator[JudgeServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    running = JudgeServer()
    yield running
    running.close()


@pytest.mark.parametrize(
    ("message", "finish_reason", "written_", "unscored"),
    [
        ({"content": "<think>Question: who?</think>" + "".join(ANSWER)}, "stop", None, None),
        ({"content": "".join(ANSWER), "reasoning_content": "Who?"}, "stop", None, None),
        ({"content": None, "reasoning_content": "Who?"}, "length", "<think>Who?", UNFINISHED),
        ({"content": None, "reasoning": "Who?"}, "length", "<think>Who?", UNFINISHED),
        ({"content": ""}, "stop", "", "no answer: empty"),
    ],
)
def test_chat_servers(
    evaluate, server, tmp_path, monkeypatch, message, finish_reason, written_, unscored
):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    server.script = lambda prompt, attempt: Act(raw=json.dumps({"choices": [choice]}).encode())
    client = {
        "model": "m",
        "base_url": f"{server.base_url}/chat/completions",
        "tokenizer_backend": None,
    }
    options = {
        "metadata": {"thinking_tokens": 100},
        "apply_chat_template": True,
        "limit": 1,
        "gen_kwargs": {"until": ["Question:"]},
    }
    output = evaluate("local-chat-completions", TASKS[1:2], model_args=client, **options)
    (body,) = server.bodies
    assert (body["max_tokens"], body["stop"]) == (1024 + 100, [])
    ((text, record),) = written(output)
    record = json.loads(record)
    assert text == (message["content"] if written_ is None else written_)
    assert record["unscored"] == unscored or unscored is None


@pytest.mark.parametrize(("kind", "answers"), [("refuses", "words"), ("silent", "auto")])
def test_words_of_chat_servers(kind, answers, evaluate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    oracle = Oracle(kind)
    known = oracle.reply
    oracle.server.script = lambda *asked: _thinking(known(*asked))
    client = {
        "model": "m",
        "base_url": f"{oracle.server.base_url}/chat/completions",
        "tokenizer_backend": None,
    }
    options = {
        "metadata": {"thinking_tokens": 100, "answers": answers},
        "apply_chat_template": True,
        "limit": 2,
    }
    output = evaluate(
        "local-chat-completions", ["sample_factor_chat"], model_args=client, **options
    )
    oracle.server.close()
    assert output["results"]["sample_factor_chat"]["chat_acc,none"] == 1
    assert {
        (body["max_tokens"], *body["stop"])
        for body in oracle.server.bodies
        if "logprobs" not in body
    } == {(116,)}
    assert sum("logprobs" not in body for body in oracle.server.bodies) == 8
    assert len(output["samples"]["sample_factor_chat"][0]["arguments"][0]) == 5


def _thinking(act: Act) -> Act:
    return replace(act, text=f"<think>True?\n\nText: or False?</think>{act.text}\n\nText: False")
