"""A judge from its config to its answers, over HTTP and in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges.judge import Judge
from judges.templates import prompt_names
from lm_factuality.ground.errors import ConfigError
from tests.judges.server import Act


@pytest.fixture
def own_prompt(tmp_path: Path) -> dict[str, Path]:
    """Some prompt of the suite, replaced by one with a variable."""
    (tmp_path / "own.jinja").write_text("Is this true: {{ claim }}", encoding="utf-8")
    return {prompt_names()[0]: tmp_path / "own.jinja"}


def test_samples_by_subject_plan_and_usage(server, config, own_prompt, tmp_path: Path):
    server.script = lambda prompt, attempt: Act(text=f"{prompt}? answer {attempt}")
    (name,) = own_prompt
    subjects = [{"claim": "a"}, {"claim": "b"}, {"claim": "a"}]
    changed = config(prompts=own_prompt, samples=2, system="Be brief.")
    with Judge.open(changed, store=tmp_path / "a.sqlite") as judge:
        assert (
            judge.plan(lambda offline_judge: offline_judge.ask(name, subjects, "asking")).to_send
            == 4
        )
        answers = judge.ask(name, subjects, "asking")
        assert [len(each) for each in answers] == [2, 2, 2]
        assert answers[0] == answers[2]
        assert all(answer.text.startswith("Is this true: b?") for answer in answers[1])
        assert answers[0][0] != answers[0][1]
        assert judge.ask(name, subjects[:1], "asking", samples=1) == [answers[0][:1]]
        usage = judge.usage
        assert (usage.calls, usage.stored, usage.prompt_tokens) == (4, 1, 40)
        judge.ask(name, subjects[:1], "asking", samples=1, max_tokens=7)
        assert server.bodies[-1]["max_tokens"] == 7
        assert server.bodies[-1]["messages"][0] == {"role": "system", "content": "Be brief."}
        assert (judge.name, judge.identity) == (
            "test",
            f"openai:127.0.0.1:{server.port}/v1:chat:small-judge",
        )
    with Judge.open(changed, store=tmp_path / "a.sqlite") as again:
        assert (
            again.plan(lambda offline_judge: offline_judge.ask(name, subjects, "asking")).to_send
            == 0
        )
        assert again.ask(name, subjects, "asking") == answers
        assert (again.usage.calls, again.usage.stored) == (0, 4)


def test_a_prompt_that_lacks_a_variable_is_refused_before_anything_is_sent(
    server, config, own_prompt, tmp_path: Path
):
    with (
        Judge.open(config(prompts=own_prompt), store=tmp_path / "a.sqlite") as judge,
        pytest.raises(ConfigError),
    ):
        judge.ask(next(iter(own_prompt)), [{"claim": "a"}, {}], "asking")
    assert not server.attempts
