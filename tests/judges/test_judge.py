"""A judge from its config to its answers, over HTTP and in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges.answers import Answer
from judges.judge import Judge
from judges.templates import prompt_names
from lm_factuality.ground.errors import ConfigError
from tests.judges.server import Act

PROMPT_NAME = prompt_names()[0]  # whichever comes first: the tests put their own text in its place


@pytest.fixture
def open_judge(server, config, tmp_path: Path):
    """Return a function that opens a judge which asks "Is this true: CLAIM".

    All judges of a test share one store. An example is ``open_judge(system="Be brief.")``.
    """
    (tmp_path / "own.jinja").write_text("Is this true: {{ claim }}", encoding="utf-8")
    server.script = lambda prompt, attempt: Act(text=f"{prompt}? answer {attempt}")

    def make(**changes):
        judge_config = config(prompts={PROMPT_NAME: tmp_path / "own.jinja"}, **changes)
        return Judge.open(judge_config, store=tmp_path / "answers.sqlite")

    return make


def ask(judge: Judge, *claims: str, samples: int | None = None) -> list[list[Answer]]:
    """Ask a judge about each claim, and return its samples. Their number may be the judge's."""
    subjects = [{"claim": claim} for claim in claims]
    return judge.ask(PROMPT_NAME, subjects, "asking", samples=samples)


def test_every_subject_gets_its_own_samples(open_judge):
    """The judge is asked twice about each claim, and both samples are drawn independently."""
    with open_judge(samples=2) as judge:
        a_samples, b_samples = ask(judge, "a", "b")

    first_a, second_a = a_samples
    first_b, second_b = b_samples
    assert first_a != second_a
    assert first_b.text.startswith("Is this true: b?")
    assert second_b.text.startswith("Is this true: b?")


def test_a_repeated_subject_is_asked_once(open_judge):
    with open_judge() as judge:
        a_samples, _, repeated_a_samples = ask(judge, "a", "b", "a", samples=2)

    assert a_samples == repeated_a_samples
    assert judge.usage.calls == 4  # two samples of "a" and two of "b"
    assert judge.usage.prompt_tokens == 4 * 10  # the server counts 10 tokens each time


def test_a_request_for_fewer_samples_is_answered_from_the_store(open_judge):
    with open_judge() as judge:
        ((first_sample, _),) = ask(judge, "a", samples=2)
        ((only_sample,),) = ask(judge, "a", samples=1)

    assert only_sample == first_sample
    assert judge.usage.calls == 2
    assert judge.usage.stored == 1


def test_plan_counts_only_answers_not_yet_stored(open_judge):
    def ask_three_times(judge: Judge) -> list[list[Answer]]:
        return ask(judge, "a", "b", "a", samples=2)

    with open_judge() as judge:
        plan_before = judge.plan(ask_three_times)
        ask_three_times(judge)
        plan_after = judge.plan(ask_three_times)

    assert plan_before.to_send == 4  # two samples of "a" and two of "b"
    assert plan_after.to_send == 0


def test_a_later_judge_finds_the_answers_in_the_store(open_judge):
    """A user who runs the command again pays nothing."""
    with open_judge() as judge:
        answers = ask(judge, "a", "b", samples=2)

    with open_judge() as later_judge:
        plan = later_judge.plan(lambda planned_judge: ask(planned_judge, "a", "b", samples=2))
        later_answers = ask(later_judge, "a", "b", samples=2)

    assert plan.to_send == 0
    assert later_answers == answers
    assert later_judge.usage.calls == 0
    assert later_judge.usage.stored == 4


def test_the_system_text_and_the_limit_of_tokens_are_sent(server, open_judge):
    """Both change what a judge answers, so they must arrive as the user wrote them."""
    with open_judge(system="Be brief.") as judge:
        judge.ask(PROMPT_NAME, [{"claim": "a"}], "asking", max_tokens=7)

    body = server.bodies[0]
    assert body["max_tokens"] == 7
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_judge_is_named_by_its_config_and_its_server(server, open_judge):
    """Results show the name, and answers are stored under the identity."""
    with open_judge() as judge:
        assert judge.name == "test"
        assert judge.identity == f"openai:127.0.0.1:{server.port}/v1:chat:small-judge"


def test_incomplete_subject_is_refused_before_the_first_request(server, open_judge):
    """A mistake in a prompt must cost nothing."""
    with open_judge() as judge, pytest.raises(ConfigError):
        judge.ask(PROMPT_NAME, [{"claim": "a"}, {}], "asking")

    assert not server.attempts
