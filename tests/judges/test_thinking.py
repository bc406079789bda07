"""Judges that think: fields of servers, models of lm_eval, and room to think, set or found
wanting."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from judges.answers import Answer
from judges.backends.server import parse_reply
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, is_cut_off_in_thought
from judges.templates import prompt_names
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.thinking import content_of, thoughts_kept, without_thinking
from tests.judges.server import Act
from tests.tiny_models import save_reciter


@pytest.fixture
def own_prompt(tmp_path: Path) -> dict[str, Path]:
    """Some prompt of the suite, replaced by one with a variable."""
    (tmp_path / "own.jinja").write_text("{{ claim }}", encoding="utf-8")
    return {prompt_names()[0]: tmp_path / "own.jinja"}


def choice(finish_reason: str = "stop", **message: object) -> dict:
    return {"message": message, "finish_reason": finish_reason}


HIDDEN = {"completion_tokens_details": {"reasoning_tokens": 7}}


@pytest.mark.parametrize(
    ("given", "usage", "text"),
    [
        (choice(content="Yes.", reasoning_content="Hm."), None, "Yes."),
        (choice(content="<think>Hm.</think>Yes."), None, "<think>Hm.</think>Yes."),
        (choice("length", content="Ye", reasoning="Hm."), None, "Ye"),
        (choice("length", content=None, reasoning_content="Hm."), None, "<think>Hm."),
        (choice("length", content="", reasoning="Hm."), None, "<think>Hm."),
        (choice("length", content=""), HIDDEN, "<think>"),
        (choice("length", content=""), {"completion_tokens_details": None}, ""),
        (choice("length", content=None), 7, None),
        (choice(content="", reasoning="Hm."), HIDDEN, ""),
        (choice(content=None, refusal="No."), None, "No."),
    ],
)
def test_replies_with_thoughts_in_fields_of_their_own(given, usage, text):
    assert content_of(given, usage) == text
    if text and given["finish_reason"] == "length":
        answer = parse_reply(json.dumps({"choices": [given], "usage": usage}), "chat")
        assert (answer.text, is_cut_off_in_thought(answer)) == (text, text.startswith("<think>"))


@pytest.mark.parametrize(
    ("answer", "is_so"),
    [
        (Answer("<think>Hm", "length"), True),
        (Answer("<think>Hm"), True),  # a client of lm_eval does not say why it ended
        (Answer("<think>Hm", "stop"), False),  # more tokens would not help
        (Answer("<think>Hm</think>Ye", "length"), False),
        (Answer("Ye", "length"), False),
        (Answer(None, "length", error="no"), False),
    ],
)
def test_what_is_cut_off_in_a_thought(answer, is_so):
    assert is_cut_off_in_thought(answer) is is_so


def thinks(prompt: str, attempt: int, body: dict) -> Act:
    """Needs 1,000 tokens to answer; to one question never comes to an end, and another breaks the
    server when it may be long."""
    is_long = body["max_tokens"] >= 1000
    if prompt == "broken" and is_long:
        return Act(status=400, text="too long")
    if prompt == "plain":
        return Act(text="Yes.")
    if is_long and prompt != "never":
        return Act(
            text=f"<think>{prompt}?</think>Yes.",
            usage={"prompt_tokens": 10, "completion_tokens": 900},
        )
    return Act(text=f"<think>{prompt}?", finish_reason="length")


QUESTIONS = ["plain", "hard", "never", "broken"]


@pytest.mark.parametrize(
    ("room", "sent", "answers"),
    [
        (None, [512] * 4 + [4608] * 3, ["Yes.", "Yes.", None, None]),
        (0, [512] * 4, ["Yes.", None, None, None]),
        (2000, [2512] * 4, ["Yes.", "Yes.", None, ...]),
    ],
)
def test_room_to_think(server, config, own_prompt, tmp_path, room, sent, answers):
    server.script = lambda prompt, attempt: thinks(prompt, attempt, server.bodies[-1])
    judge_config = config(
        prompts=own_prompt,
        thinking_tokens=room,
        concurrency=1,
        prices={"prompt": 1, "completion": 1},
    )
    subjects = [{"claim": each} for each in QUESTIONS]
    for attempt in range(2):  # the second time all is on disk
        with Judge.open(judge_config, store=tmp_path / "a.sqlite") as judge:
            found = [each for (each,) in judge.ask(next(iter(own_prompt)), subjects, "asking")]
        said = [... if each.text is None else without_thinking(each.text) for each in found]
        assert said == answers
        assert attempt or [body["max_tokens"] for body in server.bodies] == sent
    kept = sum(each is not ... for each in answers)
    assert len(server.bodies) == len(sent) + (
        1 if room is None else 4 - kept
    )  # an error is no answer, and asked again


def test_the_budget_has_the_tokens_to_think(server, config, own_prompt, tmp_path):
    """A call with room to think may cost more than is left: it is not sent."""
    from lm_factuality.ground.errors import BackendDownError

    server.script = lambda prompt, attempt: thinks(prompt, attempt, server.bodies[-1])
    prices = {"prompt": 0.0, "completion": 1000.0}  # a tenth of a cent a token
    judge_config = config(prompts=own_prompt, prices=prices, max_cost=1.0, concurrency=1)
    with (
        Judge.open(judge_config, store=tmp_path / "a.sqlite") as judge,
        pytest.raises(BackendDownError, match="max_cost of"),
    ):
        judge.ask(next(iter(own_prompt)), [{"claim": "hard"}], "asking")
    assert [body["max_tokens"] for body in server.bodies] == [512]


def test_settings(tmp_path, config):
    path = tmp_path / "judge.yaml"
    path.write_text("backend: openai\nmodel: m\nthinking_tokens: 8000\n", encoding="utf-8")
    assert load_judge_config(path).thinking_tokens == 8000
    assert load_judge_config(path).describe()["thinking_tokens"] == 8000
    path.write_text("backend: lexical\nthinking_tokens: 8000\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="backend lexical: unknown key 'thinking_tokens'"):
        load_judge_config(path)
    with pytest.raises(ConfigError, match="the first token"):
        config(thinking_tokens=1, verdicts="logprobs")
    with pytest.raises(ConfigError, match="thinking_tokens"):
        config(thinking_tokens=-1)


@pytest.mark.parametrize("ends", [["</think>"], []])
def test_a_model_of_lm_eval(own_prompt, tmp_path, ends):
    """Its template opens the thought in the prompt, which does not end within three tokens."""
    pieces = ["Who", " is", " it", "?", *ends, "Yes."]
    folder = save_reciter(
        tmp_path / "model", pieces, "{{ messages[0].content }}<think>\n", special=["</think>"]
    )
    options = {
        "model": "hf",
        "apply_chat_template": True,
        "prompts": own_prompt,
        "decoding": {"max_tokens": 3},
    }
    config = JudgeConfig(
        "local", "lm_eval", model_args={"pretrained": str(folder), "device": "cpu"}, **options
    )
    with Judge.open(config, store=tmp_path / "a.sqlite") as judge:
        ((answer,),) = judge.ask(next(iter(own_prompt)), [{"claim": "a"}], "asking")
        assert answer.text == "<think>" + "".join(pieces)
        assert without_thinking(answer.text) == ("Yes." if ends else None)
        assert judge.usage.calls == 2


def test_what_is_changed_of_a_model_is_put_back():
    lm = SimpleNamespace(think_end_token="<end>", tokenizer=None)
    before = dict(vars(lm))
    with thoughts_kept(lm) as known:
        assert lm.think_end_token is None
        assert known("a<end>b") == "a</think>b"
    assert vars(lm) == before
