"""Judges that think: fields of servers, models of lm_eval, and room to think, set or found
wanting."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lm_eval.api.registry import get_model

from judges.answers import Answer
from judges.backends.api_client import client_class
from judges.backends.server import parse_reply
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, is_cut_off_in_thought
from judges.templates import prompt_names
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.thinking import content_of, thoughts_kept, without_thinking
from tests.judges.server import Act, JudgeServer
from tests.tiny_models import save_reciter

PROMPT_NAME = prompt_names()[0]  # whichever comes first: the tests put their own text there


@pytest.fixture
def own_prompt(tmp_path: Path) -> dict[str, Path]:
    """Return the ``prompts`` of a judge's config with "{{ claim }}" in place of a prompt."""
    (tmp_path / "own.jinja").write_text("{{ claim }}", encoding="utf-8")
    return {PROMPT_NAME: tmp_path / "own.jinja"}


def choice(finish_reason: str = "stop", **message: object) -> dict:
    """One of the "choices" in a server's reply, with the fields of its message."""
    return {"message": message, "finish_reason": finish_reason}


@pytest.mark.parametrize(
    ("reply_choice", "text"),
    [
        (choice(content="Yes.", reasoning_content="Hm."), "Yes."),
        (choice(content="<think>Hm.</think>Yes."), "<think>Hm.</think>Yes."),
        (choice(content="", reasoning="Hm."), ""),
        (choice(content=None, refusal="No."), "No."),
    ],
)
def test_the_text_of_a_reply_is_its_content_or_refusal(reply_choice, text):
    """Thoughts belong to the text only if the server writes them into it."""
    assert content_of(reply_choice) == text


@pytest.mark.parametrize(
    ("reply_choice", "text", "is_cut_off"),
    [
        (choice("length", content=None, reasoning_content="Hm."), "<think>Hm.", True),
        (choice("length", content="", reasoning="Hm."), "<think>Hm.", True),
        # Some servers hide the thoughts.
        (choice("length", content=""), "<think>", True),
        (choice("length", content="Ye", reasoning="Hm."), "Ye", False),
    ],
)
def test_thought_without_an_answer_is_cut_off_in_thought(reply_choice, text, is_cut_off):
    """More tokens can help such a reply, so the answer is marked by an open ``<think>``.

    A server may send the thoughts in a field of their own, or hide them.
    """
    answer = parse_reply(json.dumps({"choices": [reply_choice]}), "chat")

    assert content_of(reply_choice) == text
    assert answer.text == text
    assert is_cut_off_in_thought(answer) is is_cut_off


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_thoughts_of_a_reply_are_kept_apart_from_its_text(field):
    """Servers use one of two names for the field."""
    reply = {"choices": [choice(content="Yes.", **{field: "Hm."})]}

    answer = parse_reply(json.dumps(reply), "chat")

    assert answer.text == "Yes."
    assert answer.reasoning == "Hm."


@pytest.mark.parametrize(
    ("answer", "is_cut_off"),
    [
        (Answer("<think>Hm", "length"), True),
        (Answer("<think>Hm"), True),  # a client of lm_eval does not say why it ended
        (Answer("<think>Hm", "stop"), False),  # more tokens would not help
        (Answer("<think>Hm</think>Ye", "length"), False),
        (Answer("Ye", "length"), False),
        (Answer(None, "length", error="no"), False),
    ],
)
def test_truncated_thought_is_recognized(answer, is_cut_off):
    """A truncated answer opened a thought and did not close it, and the model did not stop."""
    assert is_cut_off_in_thought(answer) is is_cut_off


@pytest.fixture
def thinking_server(server: JudgeServer) -> JudgeServer:
    """Return a server whose model needs 1000 tokens to answer "hard".

    The model never comes to an end with "never", and answers "plain" without thinking. The server
    refuses "broken" with 1000 tokens or more.
    """

    def think(prompt: str, attempt: int) -> Act:
        has_room = server.bodies[-1]["max_tokens"] >= 1000
        if prompt == "broken" and has_room:
            return Act(status=400, text="too long")
        if prompt == "plain":
            return Act(text="Yes.")
        if prompt == "never" or not has_room:
            return Act(text=f"<think>{prompt}?", finish_reason="length")
        usage = {"prompt_tokens": 10, "completion_tokens": 900}
        return Act(text=f"<think>{prompt}?</think>Yes.", usage=usage)

    server.script = think
    return server


@pytest.fixture
def ask_without_thoughts(thinking_server, config, own_prompt, tmp_path):
    """Return a function that asks about claims, and returns the texts without thoughts.

    It takes the setting ``thinking_tokens`` of the judge. All calls share a store of answers.
    """

    def ask(claims: list[str], thinking_tokens: int | None) -> list[str | None]:
        judge_config = config(
            prompts=own_prompt,
            thinking_tokens=thinking_tokens,
            concurrency=1,
            prices={"prompt": 1, "completion": 1},
        )
        with Judge.open(judge_config, store=tmp_path / "answers.sqlite") as judge:
            subjects = [{"claim": claim} for claim in claims]
            answers = [answer for (answer,) in judge.ask(PROMPT_NAME, subjects, "asking")]
        return [without_thinking(answer.text) if answer.text else "an error" for answer in answers]

    return ask


@pytest.mark.parametrize(
    ("thinking_tokens", "max_tokens_sent", "expected_texts"),
    [
        # Answers of 512 tokens that end in a thought are asked for again with 4,096 more.
        pytest.param(
            None, [512] * 4 + [512 + 4096] * 3, ["Yes.", "Yes.", None, None], id="default"
        ),
        pytest.param(0, [512] * 4, ["Yes.", None, None, None], id="no room"),
        pytest.param(2000, [512 + 2000] * 4, ["Yes.", "Yes.", None, "an error"], id="2000 tokens"),
    ],
)
def test_truncated_thought_is_retried_with_more_tokens(
    thinking_server, ask_without_thoughts, thinking_tokens, max_tokens_sent, expected_texts
):
    """The model thinks about some questions for longer than an answer may be."""
    # The model answers "plain" at once and "hard" with 1,000 tokens. It never comes to an end with
    # "never", and refuses "broken" with 1,000 tokens or more.
    claims = ["plain", "hard", "never", "broken"]

    texts = ask_without_thoughts(claims, thinking_tokens)

    assert texts == expected_texts
    assert [body["max_tokens"] for body in thinking_server.bodies] == max_tokens_sent


@pytest.mark.parametrize(
    ("thinking_tokens", "num_sent_again"),
    [
        pytest.param(None, 1, id="default"),
        pytest.param(0, 0, id="no room"),
        pytest.param(2000, 1, id="2000 tokens"),
    ],
)
def test_later_judge_repeats_only_refused_requests(
    thinking_server, ask_without_thoughts, thinking_tokens, num_sent_again
):
    """Answers that end in a thought are stored as well, and only a refused call has no answer."""
    # Of these claims, the server refuses "broken" if it may answer with 1,000 tokens or more.
    claims = ["plain", "hard", "never", "broken"]
    texts = ask_without_thoughts(claims, thinking_tokens)
    num_sent = len(thinking_server.bodies)

    later_texts = ask_without_thoughts(claims, thinking_tokens)

    assert later_texts == texts
    assert len(thinking_server.bodies) == num_sent + num_sent_again


def test_retry_with_thinking_tokens_must_fit_the_budget(
    thinking_server, config, own_prompt, tmp_path
):
    prices = {"prompt": 0.0, "completion": 1000.0}  # USD for a million tokens
    judge_config = config(prompts=own_prompt, prices=prices, max_cost=1.0, concurrency=1)
    store = tmp_path / "answers.sqlite"

    with (
        Judge.open(judge_config, store) as judge,
        pytest.raises(BackendDownError, match="max_cost"),
    ):
        judge.ask(PROMPT_NAME, [{"claim": "hard"}], "asking")

    # The first call, of 512 tokens, costs at most 0.51 of 1 USD. With room to think, a call has
    # 4,608 tokens and may cost 4.61 USD.
    assert [body["max_tokens"] for body in thinking_server.bodies] == [512]


def test_thinking_tokens_are_read_from_the_yaml(tmp_path):
    """The description goes into results, where it says how much room a judge had."""
    path = tmp_path / "judge.yaml"
    path.write_text("backend: openai\nmodel: m\nthinking_tokens: 8000\n", encoding="utf-8")

    judge_config = load_judge_config(path)

    assert judge_config.thinking_tokens == 8000
    assert judge_config.describe()["thinking_tokens"] == 8000


def test_thinking_tokens_of_a_backend_that_does_not_think_are_refused(tmp_path):
    """The lexical judge compares words, and the key would do nothing."""
    path = tmp_path / "judge.yaml"
    path.write_text("backend: lexical\nthinking_tokens: 8000\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="backend lexical: unknown key 'thinking_tokens'"):
        load_judge_config(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"thinking_tokens": 1, "verdicts": "logprobs"}, "the first token"),
        ({"thinking_tokens": -1}, "thinking_tokens"),
    ],
    ids=["with log-probabilities", "negative"],
)
def test_impossible_thinking_tokens_are_refused(config, settings, message):
    """A verdict by log-probabilities is read from the first token, before any thought could end."""
    with pytest.raises(ConfigError, match=message):
        config(**settings)


def reciting_judge(folder: Path, pieces: list[str], **settings: Any) -> JudgeConfig:
    """Return a judge whose model recites ``pieces``, each of which is one token.

    The chat template of the model opens a thought at the end of the prompt.
    """
    template = "{{ messages[0].content }}<think>\n"
    save_reciter(folder, pieces, template, special=["</think>"])
    return JudgeConfig(
        "local",
        "lm_eval",
        model="hf",
        model_args={"pretrained": str(folder), "device": "cpu"},
        apply_chat_template=True,
        **settings,
    )


@pytest.mark.parametrize(
    ("pieces", "expected_text", "expected_answer"),
    [
        pytest.param(
            ["Who", " is", " it", "?", "</think>", "Yes."],
            "<think>Who is it?</think>Yes.",
            "Yes.",
            id="thought ends",
        ),
        pytest.param(
            ["Who", " is", " it", "?", "Yes."],
            "<think>Who is it?Yes.",
            None,
            id="thought does not end",
        ),
    ],
)
def test_lm_eval_model_is_asked_again_with_more_tokens_if_its_thought_is_cut_off(
    own_prompt, tmp_path, pieces, expected_text, expected_answer
):
    """The first answer has three tokens, which all belong to the thought."""
    judge_config = reciting_judge(
        tmp_path / "model", pieces, prompts=own_prompt, decoding={"max_tokens": 3}
    )

    with Judge.open(judge_config, store=tmp_path / "answers.sqlite") as judge:
        ((answer,),) = judge.ask(PROMPT_NAME, [{"claim": "a"}], "asking")

    assert judge.usage.calls == 2
    assert answer.text == expected_text
    assert without_thinking(answer.text) == expected_answer


def test_thoughts_are_kept_only_inside_the_context_manager():
    """A model of lm_eval cuts its thoughts off at ``think_end_token``, which is taken from it.

    The judge needs the thoughts, and with the tag ``</think>``, to see whether an answer ended in
    them. Afterwards the model is as before.
    """
    lm = SimpleNamespace(think_end_token="<end>", tokenizer=None)
    attributes_before = dict(vars(lm))

    with thoughts_kept(lm) as with_known_tags:
        end_token_inside = lm.think_end_token
        text = with_known_tags("a<end>b")

    assert end_token_inside is None
    assert text == "a</think>b"
    assert vars(lm) == attributes_before


@pytest.mark.parametrize("model_type", ["local-completions", "local-chat-completions"])
def test_clients_of_servers_know_the_end_mark_of_the_user(model_type):
    """lm_eval's client of completions servers drops the argument ``think_end_token``."""
    lm = client_class(get_model(model_type))(
        model="m",
        base_url="http://127.0.0.1:9/v1",
        tokenizer_backend=None,
        think_end_token="[done]",
    )

    with thoughts_kept(lm) as with_known_tags:
        text = with_known_tags("a[done]b")

    assert text == "a</think>b"
