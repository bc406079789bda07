"""The stage ``generate`` with the model of a judge, whose answers come from a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

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
from lm_factuality.ground.errors import BackendDownError, ConfigError
from tests.judges.server import Act, JudgeServer

PREFIX = "The mill was sold in 1903. Edwin wanted to tear the old wheel down. "
COMPLETION = "She left the valley before the council met, and she never came back."

OpenGenerator = Callable[..., LLMGenerator]
"""Opens the stage with a judge that asks the server of the test."""


def write_item(edits: Mapping[str, str], contradiction: str) -> dict[str, Any]:
    """Return a contradiction in the form that the prompts ask for.

    Args:
        edits: The new words by the words of the completion that they replace, the plan.
        contradiction: The sentence.
    """
    edit_items = [{"old": old, "new": new} for old, new in edits.items()]
    return {"edits": edit_items, "contradiction": contradiction}


def write_answer(*items: Mapping[str, Any]) -> str:
    """Return the answer of a model that writes these contradictions."""
    return json.dumps({"contradictions": items})


ENTITY_ANSWER = write_answer(
    write_item(
        {"valley": "harbour"},
        "She left the harbour before the council met, and she never came back.",
    ),
    # The mill is not in the completion.
    write_item(
        {"mill": "farm"}, "She left the farm before the council met, and she never came back."
    ),
    # A space before the comma, as the completion does not have it.
    write_item(
        {"council": "court"}, "She left the valley before the court met , and she never came back."
    ),
)
PREDICATE_ANSWER = "Sure. " + write_answer(
    write_item(
        {"never came": "often came"},
        "She left the valley before the council met, and she often came back.",
    )
)
REFUSAL = "I cannot change the time of this event."
COREFERENCE_ANSWER = write_answer(
    write_item(
        {"She": "Edwin", "she": "he"},
        "Edwin left the valley before the council met, and he never came back.",
    ),
    # A plan without a sentence.
    write_item({"she": "They"}, ""),
)
LINK_ITEM = write_item(
    {"before": "after"}, "She left the valley after the council met, and she never came back."
)

ANSWERS = {
    "names (a person": ENTITY_ANSWER,
    "replace a verb": PREDICATE_ANSWER,
    "when or where": REFUSAL,
    "Find a pronoun": COREFERENCE_ANSWER,
    # The same contradiction twice.
    "link its events": write_answer(LINK_ITEM, LINK_ITEM),
}
"""The answer to the prompt of each error type, by words that only this prompt has."""


def answer_by_type(prompt: str, attempt: int) -> Act:
    """Answer a prompt with the recorded answer of its type, or with none about the choir."""
    sentence_to_edit = prompt.rpartition("##")[2]
    if "choir" in sentence_to_edit:
        return Act(text=write_answer())
    for words, answer in ANSWERS.items():
        if words in prompt:
            return Act(text=answer)
    raise AssertionError(f"no answer to {prompt}")


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """Return a server that gives the recorded answers, until a test sets another script."""
    server = JudgeServer(answer_by_type)
    yield server
    server.close()


@pytest.fixture
def open_generator(
    server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenGenerator]:
    """Return a function that opens the stage, whose answers are kept in one store.

    The function takes settings of the stage and, as ``judge``, other keys of the judge's YAML.
    """
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    generators = []

    def open_with(judge: Mapping[str, Any] | None = None, **settings: Any) -> LLMGenerator:
        """Write the YAML of a judge, and open the stage with it."""
        content = {
            "backend": "openai",
            "model": "small-judge",
            "base_url": server.base_url,
            "max_retries": 0,
            **(judge or {}),
        }
        (tmp_path / "my_judge.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        generate = GenerateSettings(judge="my_judge.yaml", **settings)
        generator = LLMGenerator(generate, tmp_path, store=tmp_path / "answers")
        generators.append(generator)
        return generator

    yield open_with
    for generator in generators:
        generator.close()


EXAMPLE = Example("a", PREFIX, COMPLETION, ERROR_TYPES)
"""A sentence that has something to edit for every error type."""


def edits_by_type(example: Example) -> list[tuple[str, str]]:
    """Return the error type and the edit of each contradiction of an example, in order."""
    return [(candidate.type, candidate.edit) for candidate in example.candidates]


def test_contradictions_of_every_type_are_read(open_generator: OpenGenerator) -> None:
    [example] = open_generator().run([EXAMPLE])

    assert edits_by_type(example) == [
        (PREDICATE, "never came -> often came"),
        (ENTITY, "valley -> harbour"),
        (ENTITY, "council -> court"),
        (COREFERENCE, "She -> Edwin; she -> he"),
        (LINK, "before -> after"),
    ]


def test_a_contradiction_gets_the_spacing_of_the_completion(open_generator: OpenGenerator) -> None:
    """Otherwise a space before a comma would give away that a model wrote it."""
    [example] = open_generator().run([EXAMPLE])

    texts = [candidate.text for candidate in example.candidates]
    assert "She left the valley before the court met, and she never came back." in texts


def test_what_cannot_be_read_in_the_answers_is_counted(open_generator: OpenGenerator) -> None:
    [example] = open_generator().run([EXAMPLE])

    assert example.lost == {
        "llm: no contradiction after the plan": 1,
        "llm: planned words not in the completion": 1,
        "llm: no JSON object": 1,
        "llm: repeated": 1,
    }


def test_each_type_is_asked_once_and_an_answer_without_json_once_more(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    open_generator().run([EXAMPLE])

    # Five types, and the refusal a second time.
    assert len(server.bodies) == 6


def test_every_request_asks_the_server_for_the_json_schema(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    open_generator().run([EXAMPLE])

    assert {body["response_format"]["type"] for body in server.bodies} == {"json_schema"}


LONG_PREFIX = "word " * 500 + "\nlast of it. "


def sent_prompt(server: JudgeServer) -> str:
    """Return the only prompt that was sent to a server."""
    [body] = server.bodies
    return body["messages"][-1]["content"]


def test_a_prompt_has_the_last_words_before_the_sentence(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    example = Example("a", LONG_PREFIX, COMPLETION, (ENTITY,))

    open_generator(context=10).run([example])

    # "last of it." has three of the ten words.
    context = "word " * 7 + "last of it."
    assert sent_prompt(server).endswith(f"Context: {context}\nCompletion: {COMPLETION}")


def test_a_prompt_asks_for_as_many_contradictions_as_the_setting_says(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    open_generator(per_type=7).run([Example("a", PREFIX, COMPLETION, (ENTITY,))])

    assert "Write 7 different" in sent_prompt(server)


def test_the_prompt_about_links_has_the_sentence_alone(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    open_generator(context=10).run([Example("a", LONG_PREFIX, COMPLETION, (LINK,))])

    sentence_to_edit = sent_prompt(server).rpartition("##")[2]
    assert "word" not in sentence_to_edit
    assert sentence_to_edit.endswith(f"Sentence: {COMPLETION}")


def test_an_example_without_a_readable_contradiction_is_dropped(
    open_generator: OpenGenerator,
) -> None:
    choir = Example("a", PREFIX, "The choir has eighteen members.", (LINK, CIRCUMSTANCE))

    [example] = open_generator().run([choir])

    assert example.unused == "generate: no contradiction could be read"
    assert example.lost == {"llm: none to be made": 2}
    assert not example.completion


def test_several_samples_of_a_prompt_are_read_together(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    example = Example("a", PREFIX, COMPLETION, (PREDICATE,))

    [result] = open_generator(judge={"samples": 2}).run([example])

    # Both samples are the same, so that the second counts as repeated.
    assert len(server.bodies) == 2
    assert len(result.candidates) == 1
    assert result.lost == {"llm: repeated": 1}


def write_prompts(folder: Path, content: object) -> None:
    """Write prompts of the paper's form into ``prompts.yaml``."""
    (folder / "prompts.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


NUMBERED_ANSWER = (
    '1. Change: "valley" to "harbour". Contradiction: She left the harbour before the council met,'
    " and she never came back.\n"
    "2. Change: “council” to “court”. Additional changes: “left” to “reached”.\n"
    "Contradiction: She reached the valley before the court met, and she never came back.\n"
    '##\n1. Change: "x"'
)
"""An answer of the paper's form, after which the model goes on with an example of its own."""


@pytest.fixture
def numbered_generator(
    open_generator: OpenGenerator, server: JudgeServer, tmp_path: Path
) -> LLMGenerator:
    """Return a stage with prompts of the paper's form about entities and links."""
    prompts = {
        "entity": "Write numbered ones.\n##\nContext: {context}\nCompletion: {completion}\n",
        "link": "numbered LINK: {completion}",
    }
    write_prompts(tmp_path, prompts)

    def answer_numbered(prompt: str, attempt: int) -> Act:
        """Answer prompts of the paper's form with numbered lines, and others in JSON."""
        if "numbered LINK" in prompt:
            return Act(text="NA")
        if "numbered" in prompt:
            return Act(text=NUMBERED_ANSWER)
        return answer_by_type(prompt, attempt)

    server.script = answer_numbered
    return open_generator(prompts="prompts.yaml")


def test_answers_to_prompts_of_the_papers_form_are_read(numbered_generator: LLMGenerator) -> None:
    [example] = numbered_generator.run([EXAMPLE])

    edits = [candidate.edit for candidate in example.candidates if candidate.type == ENTITY]
    assert edits == ["valley -> harbour", "council -> court; left -> reached"]


def test_types_without_a_prompt_of_the_users_are_asked_with_ours(
    numbered_generator: LLMGenerator,
) -> None:
    [example] = numbered_generator.run([EXAMPLE])

    assert (PREDICATE, "never came -> often came") in edits_by_type(example)


def test_the_context_and_the_completion_are_put_into_prompts_of_the_papers_form(
    numbered_generator: LLMGenerator, server: JudgeServer
) -> None:
    numbered_generator.run([EXAMPLE])

    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert sorted(prompt for prompt in prompts if "numbered" in prompt) == [
        f"Write numbered ones.\n##\nContext: {PREFIX.strip()}\nCompletion: {COMPLETION}",
        f"numbered LINK: {COMPLETION}",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            {"entity": "Write some."},
            "found 'entity': 'Write some.'; expected one of predicate",
            id="no place for the completion",
        ),
        pytest.param({"noun": "{completion}"}, "found 'noun'", id="no error type"),
        pytest.param(["{completion}"], "expected one of predicate, entity", id="a list"),
    ],
)
def test_prompts_that_cannot_be_used_are_refused(
    open_generator: OpenGenerator, tmp_path: Path, content: object, message: str
) -> None:
    write_prompts(tmp_path, content)

    with pytest.raises(ConfigError, match=message):
        open_generator(prompts="prompts.yaml")


TWO_EXAMPLES = [
    Example("a", PREFIX, COMPLETION, (COREFERENCE, LINK, ENTITY)),
    Example("b", PREFIX, COMPLETION, (PREDICATE,)),
]
"""Two sentences for which four prompts are sent."""


def fail_if(words: str, status: int, text: str) -> Callable[[str, int], Act]:
    """Return a script that fails for prompts with some words, and answers all others.

    Args:
        words: The words.
        status: The HTTP status of the failure.
        text: The message of the failure.
    """

    def answer_or_fail(prompt: str, attempt: int) -> Act:
        """Fail if a prompt has the words, and answer it otherwise."""
        if words in prompt:
            return Act(status=status, text=text)
        return answer_by_type(prompt, attempt)

    return answer_or_fail


def test_a_failed_request_stops_the_stage(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    server.script = fail_if("Find a pronoun", 503, "overloaded")
    problem = r"1 of 4 requests failed, the first because: HTTP 503.*; what was answered is kept"

    with pytest.raises(BackendDownError, match=problem):
        open_generator().run(TWO_EXAMPLES)


def test_only_failed_requests_are_sent_again(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    server.script = fail_if("Find a pronoun", 503, "overloaded")
    with pytest.raises(BackendDownError):
        open_generator().run(TWO_EXAMPLES)
    server.script = answer_by_type

    [first, _] = open_generator().run(TWO_EXAMPLES)

    assert {candidate.type for candidate in first.candidates} == {COREFERENCE, LINK, ENTITY}
    assert sorted(server.attempts.values()) == [1, 1, 1, 2]


def test_an_example_is_dropped_if_the_server_refuses_its_only_request(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    server.script = fail_if("replace a verb", 400, "violent")

    [_, second] = open_generator().run(TWO_EXAMPLES)

    assert second.unused == "generate: the server refused all requests"
    assert second.lost == {"llm: refused by the server": 1}


def test_a_refused_request_does_not_change_other_examples(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    server.script = fail_if("replace a verb", 400, "violent")

    [first, _] = open_generator().run(TWO_EXAMPLES)

    assert not first.unused
    assert "llm: refused by the server" not in first.lost


def test_a_server_that_refuses_most_requests_stops_the_stage(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """Then the requests are wrong, not the texts."""

    def refuse_most(prompt: str, attempt: int) -> Act:
        """Answer the prompt about verbs, and refuse all others."""
        if "replace a verb" in prompt:
            return answer_by_type(prompt, attempt)
        return Act(status=400, text="no such parameter")

    server.script = refuse_most
    problem = r"3 of 4 requests failed, .* HTTP 400: .*; change the judge's YAML"

    with pytest.raises(BackendDownError, match=problem):
        open_generator().run(TWO_EXAMPLES)


def test_the_fingerprint_has_no_key(
    open_generator: OpenGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "k-secret-123")

    fingerprint = open_generator(judge={"api_key_env": "MY_KEY"}).fingerprint

    assert "secret" not in json.dumps(fingerprint)


def test_the_fingerprint_has_the_prompt_of_every_type(open_generator: OpenGenerator) -> None:
    assert set(open_generator().fingerprint["prompts"]) == set(ERROR_TYPES)


def test_the_number_of_parallel_requests_does_not_change_the_fingerprint(
    open_generator: OpenGenerator,
) -> None:
    fingerprint = open_generator().fingerprint

    assert open_generator(judge={"concurrency": 3}).fingerprint == fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"judge": {"model": "large-judge"}},
        {"judge": {"decoding": {"temperature": 0.5}}},
        {"per_type": 2},
        {"context": 5},
    ],
)
def test_a_setting_that_changes_the_answers_changes_the_fingerprint(
    open_generator: OpenGenerator, changes: Mapping[str, Any]
) -> None:
    fingerprint = open_generator().fingerprint

    assert open_generator(**changes).fingerprint != fingerprint


@pytest.fixture
def template_folder(tmp_path: Path) -> Path:
    """Return a folder with a template of the user's, about links."""
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "link.jinja").write_text("link its events: {{ completion }}", encoding="utf-8")
    return folder


def test_a_template_of_the_users_changes_the_fingerprint_of_its_type_only(
    open_generator: OpenGenerator, template_folder: Path
) -> None:
    our_prompts = open_generator().fingerprint["prompts"]

    prompts = open_generator(prompts=template_folder.name).fingerprint["prompts"]

    changed_types = {name for name in prompts if prompts[name] != our_prompts[name]}
    assert changed_types == {LINK}


def test_a_template_of_the_users_is_sent(
    open_generator: OpenGenerator, template_folder: Path, server: JudgeServer
) -> None:
    example = Example("a", PREFIX, COMPLETION, (LINK,))

    [result] = open_generator(prompts=template_folder.name).run([example])

    assert sent_prompt(server) == f"link its events: {COMPLETION}"
    assert edits_by_type(result) == [(LINK, "before -> after")]


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        pytest.param(None, "generator to rules", id="none"),
        pytest.param("lexical", "lexical judge writes no text", id="without a model"),
        pytest.param(
            "openai-srever",
            "no judge is called 'openai-srever'; did you mean openai-server",
            id="a wrong name",
        ),
        pytest.param("nowhere.yaml", "nowhere.yaml", id="a missing file"),
    ],
)
def test_a_judge_that_cannot_write_contradictions_is_refused(
    tmp_path: Path, judge: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        LLMGenerator(GenerateSettings(judge=judge), tmp_path)


def test_a_missing_folder_of_templates_is_refused(open_generator: OpenGenerator) -> None:
    with pytest.raises(ConfigError, match="no template there; expected some of circumstance.jinja"):
        open_generator(prompts="nowhere")


def test_a_template_for_no_error_type_is_refused(
    open_generator: OpenGenerator, template_folder: Path
) -> None:
    (template_folder / "entitty.jinja").write_text("", encoding="utf-8")

    with pytest.raises(ConfigError, match="no prompt is called 'entitty'; did you mean entity"):
        open_generator(prompts=template_folder.name)
