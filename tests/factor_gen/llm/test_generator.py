"""The stage ``generate`` with a judge's model: recorded answers through a real HTTP server."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from factor_gen.generate.llm import LLMGenerator
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, ERROR_TYPES, LINK, PREDICATE, Example
from factor_gen.settings import GenerateSettings
from factor_gen.stages import Stage
from lm_factuality.errors import BackendDown, ConfigError
from tests.judges.server import Act, JudgeServer

PREFIX = "The mill was sold in 1903. Edwin wanted to tear the old wheel down. "
COMPLETION = "She left the valley before the council met, and she never came back."
RECORDED = {  # by what a prompt of the type says, the answer to it
    "names (a person": '1. Change: "valley" to "harbour".\nContradiction: She left the harbour before the council met, and she never came back.\n'
    '2. Change: "mill" to "farm".\nContradiction: She left the farm before the council met, and she never came back.\n'
    '3. Change: "council" to "court".\nContradiction: She left the valley before the court met , and she never came back.',
    "replace a verb": 'Sure.\n1. Change: "never came" to "often came".\nContradiction: She left the valley before the council met, and she often came back.',
    "when or where": "I cannot change the time of this event.",
    "Find a pronoun": '1. Pronoun: She\nChange: "She" to "Edwin" and "she" to "he".\nContradiction: Edwin left the valley before the council met, and he never came back.\n'
    '2. Pronoun: she\nChange: "She" to "They"',
    "link its events": '1. Change: "before" to "after".\nContradiction: She left the valley after the council met, and she never came back.\n'
    '2. Change: "before" to "after".\nContradiction: She left the valley after the council met, and she never came back.',
}  # fmt: skip


def recorded(prompt: str, attempt: int) -> Act:
    if "choir" in prompt.rpartition("##")[2]:
        return Act(text="NA")
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

    def make(seed: int = 0, judge: dict | None = None, **settings) -> LLMGenerator:
        content = {
            "backend": "openai",
            "model": "small-judge",
            "base_url": server.base_url,
            "max_retries": 0,
            **(judge or {}),
        }
        (tmp_path / "my_judge.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        settings = {"judge": "my_judge.yaml", **settings}
        opened.append(LLMGenerator(GenerateSettings(**settings), tmp_path, seed, store=tmp_path / "answers"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


EXAMPLE = Example("a", PREFIX, COMPLETION, ERROR_TYPES)


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
        found.candidates[2].text == "She left the valley before the court met, and she never came back."
    )  # spaced as it was
    assert dict(found.lost) == {
        "llm: no contradiction after the plan": 1, "llm: planned words not in the completion": 1, "llm: refused": 1,
        "llm: repeated": 1,
    }  # fmt: skip
    assert len(server.bodies) == 5


def test_prompts_hold_the_near_context_but_that_of_links_the_sentence_alone(open_generator, server):
    long = Example("a", "word " * 500 + "\nlast of it. ", COMPLETION, (ENTITY, LINK))
    open_generator(context=10, per_type=7).run([long])
    entity, link = sorted(
        (body["messages"][-1]["content"] for body in server.bodies), key=lambda prompt: "Sentence:" in prompt
    )
    assert f"Context: {'word ' * 7}last of it.\nCompletion: {COMPLETION}" in entity
    assert entity.endswith(f"Completion: {COMPLETION}")
    assert "Write 7 different" in entity
    assert "word" not in link.rpartition("##")[2]
    assert link.endswith(f"Sentence: {COMPLETION}")


def test_only_the_types_of_an_example_are_asked_for(open_generator, server):
    unused = Example("b", unused="select: empty")
    found = open_generator().run([unused, Example("a", PREFIX, COMPLETION, (LINK,)), unused])
    assert [each.doc_id for each in found] == ["b", "a", "b"]
    assert found[0] == unused
    assert {each.type for each in found[1].candidates} == {LINK}
    assert len(server.bodies) == 1


def test_an_example_of_which_nothing_can_be_read_is_dropped_with_its_losses(open_generator):
    (found,) = open_generator().run([Example("a", PREFIX, "The choir has eighteen members.", (LINK, CIRCUMSTANCE))])
    assert found.unused == "generate: no contradiction could be read"
    assert dict(found.lost) == {"llm: NA": 2}
    assert not found.completion


def test_a_second_run_asks_nothing_and_gives_the_same(open_generator, server):
    examples = [EXAMPLE, Example("b", PREFIX, "The choir has eighteen members.", (LINK,))]
    first = open_generator().run(examples)
    asked = len(server.bodies)
    again = open_generator(seed=1)
    assert again.run(examples) == first
    assert again.run(examples[1:]) == first[1:]  # whatever else is in the shard
    assert len(server.bodies) == asked == 6


def test_several_samples_of_each_prompt_are_read_together(open_generator, server):
    (found,) = open_generator(judge={"samples": 2}).run([Example("a", PREFIX, COMPLETION, (PREDICATE,))])
    assert len(server.bodies) == 2
    assert len(found.candidates) == 1
    assert dict(found.lost) == {"llm: repeated": 1}


def test_errors_are_counted_and_asked_again(open_generator, server):
    server.script = lambda prompt, attempt: (
        Act(status=400, text="no") if "Find a pronoun" in prompt else recorded(prompt, attempt)
    )
    (found,) = open_generator().run([Example("a", PREFIX, COMPLETION, (COREFERENCE, LINK))])
    assert dict(found.lost) == {"llm: backend error": 1, "llm: repeated": 1}
    server.script = recorded
    (found,) = open_generator().run([Example("a", PREFIX, COMPLETION, (COREFERENCE, LINK))])
    assert {each.type for each in found.candidates} == {COREFERENCE, LINK}


def test_a_server_that_is_down_stops_the_build(open_generator, server):
    server.script = lambda prompt, attempt: Act(kind="reset")
    with pytest.raises(BackendDown):
        open_generator().run(
            [Example(str(number), PREFIX, f"{COMPLETION} {number}.", ERROR_TYPES) for number in range(20)]
        )


def test_the_fingerprint_knows_what_changes_answers_and_no_secret(open_generator, tmp_path, monkeypatch):
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
    (tmp_path / "own" / "link.jinja").write_text("link its events: {{ completion }}", encoding="utf-8")
    own = open_generator(prompts="own")
    changed = {name for name, found in own.fingerprint["prompts"].items() if found != first["prompts"][name]}
    assert changed == {LINK}
    assert own.run([EXAMPLE])[0].candidates


def test_settings_that_cannot_be_used_are_refused(tmp_path, open_generator):
    with pytest.raises(ConfigError, match="generator to rules"):
        LLMGenerator(GenerateSettings(), tmp_path, 0)
    with pytest.raises(ConfigError, match="lexical judge writes no text"):
        LLMGenerator(GenerateSettings(judge="lexical"), tmp_path, 0)
    with pytest.raises(ConfigError, match="no judge is called 'openai-srever'; did you mean openai-server"):
        LLMGenerator(GenerateSettings(judge="openai-srever"), tmp_path, 0)
    with pytest.raises(ConfigError, match="nowhere.yaml"):
        LLMGenerator(GenerateSettings(judge="nowhere.yaml"), tmp_path, 0)
    with pytest.raises(ConfigError, match="no template there; expected some of circumstance.jinja"):
        open_generator(prompts="nowhere")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "entitty.jinja").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="no prompt is called 'entitty'; did you mean entity"):
        open_generator(prompts="own")


def test_a_build_with_recorded_answers_ends_in_a_benchmark(server, tmp_path, monkeypatch, capsys):
    """From a text to the rows that lm_eval reads, by the command."""
    from factor_gen.cli import main

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    judge = {"backend": "openai", "model": "small-judge", "base_url": server.base_url}
    (tmp_path / "my_judge.yaml").write_text(yaml.safe_dump(judge), encoding="utf-8")
    (tmp_path / "mill.txt").write_text(PREFIX + COMPLETION, encoding="utf-8")
    build = {
        "corpus": "mill.txt", "select": {"position": "last"}, "generate": {"generator": "llm", "judge": "my_judge.yaml"},
        "filter": "none", "workers": 1,
    }  # fmt: skip
    (tmp_path / "mill.yaml").write_text(yaml.safe_dump(build), encoding="utf-8")
    for out in ("one", "two"):
        assert main(["build", str(tmp_path / "mill.yaml"), "--out", str(tmp_path / out)]) == 0
    asked = len(server.bodies)
    with (tmp_path / "one" / "mill.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["completion"] == COMPLETION
    written = "".join(RECORDED.values())
    for number in range(3):
        old, new = row[f"contradiction_{number}_edit"].split("; ")[0].split(" -> ")
        assert f'"{old}" to "{new}"' in written
        assert row[f"contradiction_{number}"] != COMPLETION
    assert (tmp_path / "one" / "mill.csv").read_bytes() == (tmp_path / "two" / "mill.csv").read_bytes()
    assert asked == len(set(server.attempts)) <= 5  # the second build asked nothing
    assert capsys.readouterr().out


def test_the_examples_in_the_prompts_parse_by_their_own_rules():
    """What the prompts show as good answers has to be good."""
    from factor_gen.generate.llm.generator import PROMPTS_FOLDER
    from factor_gen.generate.llm.parse import parse
    from judges.answers import Answer

    for path in sorted(Path(PROMPTS_FOLDER).glob("*.jinja")):
        _, *shown, _ = path.read_text(encoding="utf-8").split("##\n")
        assert shown
        for each in shown:
            before, _, rest = each.partition("Sentence: " if path.stem == LINK else "Completion: ")
            completion, _, answer = rest.partition("\n")
            found = parse(Answer(answer, "stop"), completion, path.stem)
            numbered = sum(line[:1].isdigit() for line in answer.splitlines())
            assert len(found.candidates) == numbered, (path.name, completion, found.lost)
            assert dict(found.lost) == ({} if numbered else {"llm: NA": 1})
            assert path.stem == LINK or before.startswith("Context: ")
