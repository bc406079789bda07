"""The stage ``generate`` with the model of a judge, whose answers come from a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from factor_gen.config import load_build
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
from factor_gen.stages import StageError, StageRunner, open_stage
from lm_factuality.ground.errors import BackendDownError, ConfigError
from tests.judges.server import Act, JudgeServer

PREFIX = "The mill was sold in 1903. Edwin wanted to tear the old wheel down. "
COMPLETION = "She left the valley before the council met, and she never came back."

OpenGenerator = Callable[..., LLMGenerator]
"""Opens the stage with a judge that asks the server of the test."""


def write_contradiction(error_type: str, **new_by_old: str) -> dict[str, Any]:
    """Return a contradiction in the form that the prompt asks for.

    Args:
        error_type: The kind of its error.
        new_by_old: The new words by the words of the completion that they replace.
    """
    edits = [{"old": old, "new": new} for old, new in new_by_old.items()]
    return {"type": error_type, "edits": edits}


def write_answer(*contradictions: Mapping[str, Any]) -> str:
    """Return the answer of a model that plans these contradictions."""
    return json.dumps({"contradictions": contradictions})


ANSWER = write_answer(write_contradiction(PREDICATE, never="often"))


def answer_about_the_valley(prompt: str, attempt: int) -> Act:
    """Plan a contradiction of the completion, and none of a sentence about the choir."""
    if "choir" in sentence_to_edit(prompt):
        return Act(text=write_answer())
    return Act(text=ANSWER)


def sentence_to_edit(prompt: str) -> str:
    """Return the end of a prompt, which has the context, the sentence and the error types."""
    return prompt.rpartition("##")[2]


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """Return a server that gives the recorded answers, until a test sets another script."""
    server = JudgeServer(answer_about_the_valley)
    yield server
    server.close()


@pytest.fixture
def open_generator(
    server: JudgeServer,
    write_judge: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OpenGenerator]:
    """Return a function that opens the stage, whose answers are kept in one store.

    The function takes settings of the stage and, as ``judge``, other keys of the judge's YAML.
    """
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    generators = []

    def open_with(judge: Mapping[str, Any] | None = None, **settings: Any) -> LLMGenerator:
        """Write the YAML of a judge, and open the stage with it."""
        path = write_judge(server.base_url, **(judge or {}))
        generate = GenerateSettings(judge=path.name, **settings)
        generator = LLMGenerator(generate, path.parent, store=tmp_path / "answers")
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


def test_contradictions_of_every_type_are_made(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    answer = write_answer(
        write_contradiction(PREDICATE, never="often"),
        write_contradiction(ENTITY, valley="harbour"),
        write_contradiction(COREFERENCE, She="Edwin", she="he"),
        write_contradiction(LINK, before="after"),
    )
    server.script = lambda prompt, attempt: Act(text=f"Sure. {answer}")
    completion = "She left the valley before the council met, and she never came back."

    [example] = open_generator().run([Example("a", PREFIX, completion, ERROR_TYPES)])

    assert edits_by_type(example) == [
        (PREDICATE, "never -> often"),
        (ENTITY, "valley -> harbour"),
        (COREFERENCE, "She -> Edwin; she -> he"),
        (LINK, "before -> after"),
    ]


def test_unusable_parts_of_answers_are_counted(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """A user sees how much of the paid answers was lost, and why."""
    answer = write_answer(
        write_contradiction(ENTITY, valley="harbour"),
        write_contradiction(ENTITY, valley="harbour"),
        write_contradiction(ENTITY, mill="farm"),
    )
    server.script = lambda prompt, attempt: Act(text=answer)
    completion = "She left the valley before the council met, and she never came back."
    example = Example("a", PREFIX, completion, types=(ENTITY, CIRCUMSTANCE))

    [result] = open_generator().run([example])

    assert result.lost == {
        "llm: repeated": 1,
        "llm: words that are not in the sentence": 1,
        "llm: no circumstance error to be made": 1,
    }


def test_the_check_shares_the_limit_on_cost(
    server: JudgeServer,
    write_judge: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first answer costs 1 USD, so that the limit allows no question of the check."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    # The check asks only about a sentence that has three contradictions.
    answer = write_answer(
        write_contradiction(PREDICATE, never="often"),
        write_contradiction(ENTITY, valley="harbour"),
        write_contradiction(LINK, before="after"),
    )
    usage = {"prompt_tokens": 10, "completion_tokens": 10_000}
    server.script = lambda prompt, attempt: Act(text=answer, usage=usage)
    prices = {"prompt": 0, "completion": 100}
    judge = write_judge(server.base_url, prices=prices, max_cost=1)
    config = tmp_path / "build.yaml"
    config.write_text(f"corpus: a.txt\ngenerate: {{generator: llm, judge: {judge.name}}}\n")

    with closing(StageRunner(load_build(config), open_stage)) as runner:
        examples = runner.run(["generate"], shard_number=0, examples=[EXAMPLE])
        with pytest.raises(StageError, match="max_cost of .1 leaves no room"):
            runner.run(["contradiction"], shard_number=0, examples=examples)

    assert len(server.bodies) == 1


def test_one_question_asks_for_all_error_types_of_a_sentence(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """A question for each type would send the text five times."""
    open_generator().run([EXAMPLE])

    assert sent_prompt(server).endswith(f"Make 6, up to 4 of a kind: {', '.join(ERROR_TYPES)}")


def test_all_questions_begin_with_the_same_instructions(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """A server computes an equal beginning of prompts only once."""
    open_generator().run(TWO_EXAMPLES)

    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    beginnings = {prompt.removesuffix(sentence_to_edit(prompt)) for prompt in prompts}
    assert len(prompts) == 2
    assert len(beginnings) == 1


def test_an_answer_without_json_is_asked_for_once_more(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """A second try often helps, and each try costs money."""
    server.script = lambda prompt, attempt: Act(text="I cannot change this event.")

    [example] = open_generator().run([EXAMPLE])

    assert len(server.bodies) == 2
    assert example.lost == {"llm: no JSON object": 1}


def test_request_and_token_counts_include_the_second_try(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """The first, unusable answer was paid for as well."""

    def answer_at_second_try(prompt: str, attempt: int) -> Act:
        """Answer without JSON until the prompt says that this cannot be used."""
        return Act(text=ANSWER if "cannot be used" in prompt else "No.")

    server.script = answer_at_second_try

    [example] = open_generator().run([EXAMPLE])

    use = example.model_use["generate"]
    assert use.requests == 2
    assert use.prompt_tokens > 0
    assert use.uncounted == 0


def test_request_has_the_json_schema_and_a_sufficient_token_limit(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """The judge's own limit of 64 tokens would cut every answer off."""
    open_generator(judge={"decoding": {"max_tokens": 64}}).run([EXAMPLE])

    [body] = server.bodies
    assert body["response_format"]["type"] == "json_schema"
    assert body["max_tokens"] == 700


def sent_prompt(server: JudgeServer) -> str:
    """Return the only prompt that was sent to a server."""
    [body] = server.bodies
    return body["messages"][-1]["content"]


def test_a_prompt_has_the_last_words_before_the_sentence(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """The last words say who "she" is, and the whole text would cost too much."""
    prefix = "word " * 500 + "The mill was hers. "
    example = Example("a", prefix, "She left the valley.", (ENTITY,))

    open_generator(context=6).run([example])

    beginning = "\nText: word word The mill was hers.\nSentence: She left the valley.\n"
    assert sentence_to_edit(sent_prompt(server)).startswith(beginning)


def test_an_example_without_a_usable_contradiction_is_dropped(
    open_generator: OpenGenerator,
) -> None:
    """The server makes no contradiction of a sentence about the choir."""
    choir = Example("a", PREFIX, "The choir has eighteen members.", (LINK, CIRCUMSTANCE))

    [example] = open_generator().run([choir])

    assert example.unused == "generate: the model made no contradiction that can be used"
    assert example.lost == {
        "llm: no circumstance error to be made": 1,
        "llm: no link error to be made": 1,
    }
    assert not example.completion


def test_several_samples_of_a_question_are_read_together(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    example = Example("a", PREFIX, COMPLETION, (PREDICATE,))
    server.script = lambda prompt, attempt: Act(
        text=write_answer(write_contradiction(PREDICATE, never="often"))
    )

    [result] = open_generator(judge={"samples": 2}).run([example])

    # Both samples are the same, so that the second counts as repeated.
    assert len(server.bodies) == 2
    assert len(result.candidates) == 1
    assert result.lost == {"llm: repeated": 1}


CHOIR = Example("b", PREFIX, "The choir never sang in the valley.", (PREDICATE,))
TWO_EXAMPLES = [EXAMPLE, CHOIR]
"""Two sentences, about each of which a question is sent."""


def fail_about_the_choir(status: int, text: str) -> Callable[[str, int], Act]:
    """Return a script that fails for a question about the choir, and answers all others.

    Args:
        status: The HTTP status of the failure.
        text: The message of the failure.
    """

    def answer_or_fail(prompt: str, attempt: int) -> Act:
        """Fail if the sentence is about the choir, and answer otherwise."""
        if "choir" in sentence_to_edit(prompt):
            return Act(status=status, text=text)
        return Act(text=ANSWER)

    return answer_or_fail


def test_a_failed_request_stops_the_stage(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """A server that is down would leave most sentences without contradictions."""
    server.script = fail_about_the_choir(503, "overloaded")
    problem = r"1 of 2 requests failed, the first because: HTTP 503.*; what was answered is kept"

    with pytest.raises(BackendDownError, match=problem):
        open_generator().run(TWO_EXAMPLES)


def test_only_failed_requests_are_sent_again(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """The server fails once for the sentence about the choir. The other answer is kept."""
    valley = Example("a", PREFIX, "She never left the valley.", (PREDICATE,))
    choir = Example("b", PREFIX, "The choir never sang.", (PREDICATE,))
    server.script = fail_about_the_choir(503, "overloaded")
    with pytest.raises(BackendDownError):
        open_generator().run([valley, choir])
    server.script = answer_about_the_valley

    [result, _] = open_generator().run([valley, choir])

    assert edits_by_type(result) == [(PREDICATE, "never -> often")]
    num_requests = {"valley": 0, "choir": 0}
    for prompt, attempts in server.attempts.items():
        num_requests["choir" if "choir" in sentence_to_edit(prompt) else "valley"] += attempts
    assert num_requests == {"valley": 1, "choir": 2}


def test_an_example_is_dropped_if_the_server_refuses_its_only_request(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """Some servers refuse texts about violence, and the others can go on."""
    server.script = fail_about_the_choir(400, "violent")

    [first, second] = open_generator().run(TWO_EXAMPLES)

    assert second.unused == "generate: the server refused all requests"
    assert second.lost == {"llm: refused by the server": 1}
    assert not first.unused


def test_a_server_that_refuses_every_request_stops_the_stage(
    open_generator: OpenGenerator, server: JudgeServer
) -> None:
    """Then the requests are probably wrong, and not the texts."""
    server.script = lambda prompt, attempt: Act(status=400, text="no such parameter")
    problem = r"2 of 2 requests failed, .* HTTP 400: .*; change the judge's YAML"

    with pytest.raises(BackendDownError, match=problem):
        open_generator().run(TWO_EXAMPLES)


def test_the_fingerprint_has_no_key(
    open_generator: OpenGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written into the manifest, which is published."""
    monkeypatch.setenv("MY_KEY", "k-secret-123")

    fingerprint = open_generator(judge={"api_key_env": "MY_KEY"}).fingerprint

    assert "secret" not in json.dumps(fingerprint)


def test_the_number_of_parallel_requests_does_not_change_the_fingerprint(
    open_generator: OpenGenerator,
) -> None:
    """The number of requests at once does not change any answer."""
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
    """If the fingerprint changes, shards of an earlier build are made again."""
    fingerprint = open_generator().fingerprint

    assert open_generator(**changes).fingerprint != fingerprint


def test_the_judges_yaml_may_replace_the_prompt(
    open_generator: OpenGenerator, tmp_path: Path, server: JudgeServer
) -> None:
    (tmp_path / "mine.jinja").write_text("Change this: {{ completion }}", encoding="utf-8")

    open_generator(judge={"prompts": {"edits": "mine.jinja"}}).run([EXAMPLE])

    assert sent_prompt(server) == f"Change this: {COMPLETION}"


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        pytest.param(None, "generator: rules", id="none"),
        pytest.param("lexical", "lexical judge writes no text", id="without a model"),
        pytest.param(
            "openai-srever",
            "no judge is called 'openai-srever'; did you mean openai-server",
            id="a wrong name",
        ),
        pytest.param("nowhere.yaml", "nowhere.yaml", id="a missing file"),
    ],
)
def test_unusable_judge_is_refused(tmp_path: Path, judge: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LLMGenerator(GenerateSettings(judge=judge), tmp_path)
