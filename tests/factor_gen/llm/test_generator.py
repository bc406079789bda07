"""The stage ``generate`` with a judge's model: recorded answers through a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from factor_gen.generate.llm.generator import LLMGenerator
from factor_gen.records import (
    CIRCUMSTANCE,
    COREFERENCE,
    ENTITY,
    ERROR_TYPES,
    LINK,
    PREDICATE,
    Example,
)
from factor_gen.settings import GenerateSettings
from factor_gen.stages import Stage
from lm_factuality.ground.errors import BackendDownError, ConfigError
from tests.judges.server import Act, JudgeServer

PREFIX = "The mill was sold in 1903. Edwin wanted to tear the old wheel down. "
COMPLETION = "She left the valley before the council met, and she never came back."


def said(*entries: tuple[dict[str, str], str]) -> str:
    """A reply of contradictions, each ({old: new}, the sentence)."""
    items = [
        {"edits": [{"old": old, "new": new} for old, new in edits.items()], "contradiction": text}
        for edits, text in entries
    ]
    return json.dumps({"contradictions": items})


RECORDED = {  # by what a prompt of the type says, the answer to it
    "names (a person": said(
        (
            {"valley": "harbour"},
            "She left the harbour before the council met, and she never came back.",
        ),
        ({"mill": "farm"}, "She left the farm before the council met, and she never came back."),
        (
            {"council": "court"},
            "She left the valley before the court met , and she never came back.",
        ),
    ),
    "replace a verb": "Sure. "
    + said(
        (
            {"never came": "often came"},
            "She left the valley before the council met, and she often came back.",
        )
    ),
    "when or where": "I cannot change the time of this event.",
    "Find a pronoun": said(
        (
            {"She": "Edwin", "she": "he"},
            "Edwin left the valley before the council met, and he never came back.",
        ),
        ({"she": "They"}, ""),
    ),
    "link its events": said(
        *[
            (
                {"before": "after"},
                "She left the valley after the council met, and she never came back.",
            )
        ]
        * 2
    ),
}


def recorded(prompt: str, attempt: int) -> Act:
    if "choir" in prompt.rpartition("##")[2]:
        return Act(text=said())
    return Act(text=next(answer for words, answer in RECORDED.items() if words in prompt))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    running = JudgeServer(recorded)
    yield running
    running.close()


@pytest.fixture
def open_generator(server, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    opened: list[LLMGenerator] = []

    def make(judge: dict | None = None, **settings) -> LLMGenerator:
        content = {
            "backend": "openai",
            "model": "small-judge",
            "base_url": server.base_url,
            "max_retries": 0,
            **(judge or {}),
        }
        (tmp_path / "my_judge.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        settings = {"judge": "my_judge.yaml", **settings}
        opened.append(
            LLMGenerator(GenerateSettings(**settings), tmp_path, store=tmp_path / "answers")
        )
        return opened[-1]

    yield make
    for each in opened:
        each.close()


EXAMPLE = Example("a", PREFIX, COMPLETION, ERROR_TYPES)


def test_prompts_of_the_papers_form_come_from_a_file_and_their_answers_are_numbered(
    open_generator, server, tmp_path
):
    asked = []

    def numbered(prompt: str, attempt: int) -> Act:
        if "numbered" not in prompt:
            return recorded(prompt, attempt)
        asked.append(prompt)
        if "LINK" in prompt:
            return Act(text="NA")
        first = f'1. Change: "valley" to "harbour". Contradiction: {COMPLETION.replace("valley", "harbour")}\n'
        second = '2. Change: \u201ccouncil\u201d to \u201ccourt\u201d. Additional changes: "left" to "reached".\nContradiction: '
        return Act(
            text=first
            + second
            + COMPLETION.replace("council", "court").replace("left", "reached")
            + '\n##\n1. Change: "x"'
        )

    server.script = numbered
    texts = {
        "entity": "Write numbered ones.\n##\nContext: {context}\nCompletion: {completion}\n",
        "link": "numbered LINK: {completion}",
    }
    (tmp_path / "prompts.yaml").write_text(yaml.safe_dump(texts), encoding="utf-8")
    (found,) = open_generator(prompts="prompts.yaml").run([EXAMPLE])
    assert [each.edit for each in found.candidates if each.type == ENTITY] == [
        "valley -> harbour",
        "council -> court; left -> reached",
    ]
    assert [each.edit for each in found.candidates if each.type == PREDICATE] == [
        "never came -> often came"
    ]  # ours, in JSON
    assert sorted(asked) == [
        f"Write numbered ones.\n##\nContext: {PREFIX.strip()}\nCompletion: {COMPLETION}",
        f"numbered LINK: {COMPLETION}",
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"entity": "Write some."}, "found 'entity': 'Write some.'; expected one of predicate"),
        ({"noun": "{completion}"}, "found 'noun'"),
        (["{completion}"], "expected one of predicate, entity"),
    ],
)
def test_prompts_that_cannot_be_used_are_refused(open_generator, tmp_path, texts, message):
    (tmp_path / "prompts.yaml").write_text(yaml.safe_dump(texts), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        open_generator(prompts="prompts.yaml")


def test_each_type_is_asked_once_and_what_cannot_be_read_is_counted(open_generator, server):
    stage: Stage = open_generator()
    (found,) = stage.run([EXAMPLE])
    assert [(each.type, each.edit) for each in found.candidates] == [
        (PREDICATE, "never came -> often came"),
        (ENTITY, "valley -> harbour"),
        (ENTITY, "council -> court"),
        (COREFERENCE, "She -> Edwin; she -> he"),
        (LINK, "before -> after"),
    ]
    assert (
        found.candidates[2].text
        == "She left the valley before the court met, and she never came back."
    )  # spaced as it was
    assert dict(found.lost) == {
        "llm: no contradiction after the plan": 1,
        "llm: planned words not in the completion": 1,
        "llm: no JSON object": 1,
        "llm: repeated": 1,
    }
    assert len(server.bodies) == 5 + 1  # what was no JSON is asked for once more
    assert {body["response_format"]["type"] for body in server.bodies} == {"json_schema"}


def test_prompts_hold_the_near_context_but_that_of_links_the_sentence_alone(open_generator, server):
    long = Example("a", "word " * 500 + "\nlast of it. ", COMPLETION, (ENTITY, LINK))
    open_generator(context=10, per_type=7).run([long])
    entity, link = sorted(
        (body["messages"][-1]["content"] for body in server.bodies),
        key=lambda prompt: "Sentence:" in prompt,
    )
    assert f"Context: {'word ' * 7}last of it.\nCompletion: {COMPLETION}" in entity
    assert entity.endswith(f"Completion: {COMPLETION}")
    assert "Write 7 different" in entity
    assert "word" not in link.rpartition("##")[2]
    assert link.endswith(f"Sentence: {COMPLETION}")


def test_an_example_of_which_nothing_can_be_read_is_dropped_with_its_losses(open_generator):
    (found,) = open_generator().run(
        [Example("a", PREFIX, "The choir has eighteen members.", (LINK, CIRCUMSTANCE))]
    )
    assert found.unused == "generate: no contradiction could be read"
    assert dict(found.lost) == {"llm: none to be made": 2}
    assert not found.completion


def test_several_samples_of_each_prompt_are_read_together(open_generator, server):
    (found,) = open_generator(judge={"samples": 2}).run(
        [Example("a", PREFIX, COMPLETION, (PREDICATE,))]
    )
    assert len(server.bodies) == 2
    assert len(found.candidates) == 1
    assert dict(found.lost) == {"llm: repeated": 1}


TWO = [
    Example("a", PREFIX, COMPLETION, (COREFERENCE, LINK, ENTITY)),
    Example("b", PREFIX, COMPLETION, (PREDICATE,)),
]


def test_requests_that_fail_stop_the_stage_and_only_they_are_asked_again(open_generator, server):
    server.script = lambda prompt, attempt: (
        Act(status=503, text="overloaded")
        if "Find a pronoun" in prompt
        else recorded(prompt, attempt)
    )
    with pytest.raises(
        BackendDownError,
        match=r"1 of 4 requests failed, the first because: HTTP 503.*; what was answered is kept",
    ):
        open_generator().run(TWO)
    server.script = recorded
    found = open_generator().run(TWO)
    assert {each.type for each in found[0].candidates} == {COREFERENCE, LINK, ENTITY}
    assert sorted(server.attempts.values()) == [1, 1, 1, 2]


def test_a_request_that_is_refused_for_what_it_holds_is_lost(open_generator, server):
    server.script = lambda prompt, attempt: (
        Act(status=400, text="violent") if "replace a verb" in prompt else recorded(prompt, attempt)
    )
    first, second = open_generator().run(TWO)
    assert not first.unused
    assert "llm: refused by the server" not in first.lost
    assert second.unused == "generate: the server refused all requests"
    assert dict(second.lost) == {"llm: refused by the server": 1}


def test_where_most_requests_are_refused_the_judge_is_at_fault(open_generator, server):
    server.script = lambda prompt, attempt: (
        recorded(prompt, attempt)
        if "replace a verb" in prompt
        else Act(status=400, text="no such parameter")
    )
    with pytest.raises(
        BackendDownError, match=r"3 of 4 requests failed, .* HTTP 400: .*; change the judge's YAML"
    ):
        open_generator().run(TWO)


def test_the_fingerprint_knows_what_changes_answers_and_no_secret(
    open_generator, tmp_path, monkeypatch
):
    monkeypatch.setenv("MY_KEY", "k-secret-123")
    first = open_generator(judge={"api_key_env": "MY_KEY"}).fingerprint
    assert "secret" not in json.dumps(first)
    assert set(first["prompts"]) == set(ERROR_TYPES)
    assert open_generator(judge={"concurrency": 3}).fingerprint == open_generator().fingerprint
    for changes in (
        {"judge": {"model": "large-judge"}},
        {"judge": {"decoding": {"temperature": 0.5}}},
        {"per_type": 2},
        {"context": 5},
    ):
        assert open_generator(**changes).fingerprint != first
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link.jinja").write_text(
        "link its events: {{ completion }}", encoding="utf-8"
    )
    own = open_generator(prompts="own")
    changed = {
        name
        for name, found in own.fingerprint["prompts"].items()
        if found != first["prompts"][name]
    }
    assert changed == {LINK}
    assert own.run([EXAMPLE])[0].candidates


def test_settings_that_cannot_be_used_are_refused(tmp_path, open_generator):
    with pytest.raises(ConfigError, match="generator to rules"):
        LLMGenerator(GenerateSettings(), tmp_path)
    with pytest.raises(ConfigError, match="lexical judge writes no text"):
        LLMGenerator(GenerateSettings(judge="lexical"), tmp_path)
    with pytest.raises(
        ConfigError, match="no judge is called 'openai-srever'; did you mean openai-server"
    ):
        LLMGenerator(GenerateSettings(judge="openai-srever"), tmp_path)
    with pytest.raises(ConfigError, match="nowhere.yaml"):
        LLMGenerator(GenerateSettings(judge="nowhere.yaml"), tmp_path)
    with pytest.raises(ConfigError, match="no template there; expected some of circumstance.jinja"):
        open_generator(prompts="nowhere")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "entitty.jinja").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="no prompt is called 'entitty'; did you mean entity"):
        open_generator(prompts="own")
