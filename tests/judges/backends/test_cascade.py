"""A classifier first, a model behind a server where it is unsure."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace

import pytest

from judges.config import load_judge_config
from judges.judge import Judge
from judges.verify import Pair, verify
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.harness.samples import verdict_of
from tests.judges.inference.test_support import TEXT
from tests.judges.server import Act, JudgeServer

CLAIMS = [
    f"She {verb} {thing}."
    for verb in ("taught at", "flew", "was not")
    for thing in ("the school", "mail", "islands", "north")
]
PAIRS = [Pair(claim, (TEXT,)) for claim in CLAIMS]


@pytest.fixture
def server():
    """Says of every claim that it is supported; of facts in a sentence that there is one."""

    def reply(prompt: str, attempt: int) -> Act:
        return Act(
            text=json.dumps({"reason": "so it says", "verdict": "supported", "probability": 0.95})
        )

    with closing(JudgeServer(reply)) as running:
        yield running


@pytest.fixture
def cascade(write_judge, server):
    def write(**keys):
        write_judge()
        write_judge(
            "gpt",
            backend="openai",
            model="small-judge",
            base_url=server.base_url,
            decoding={"max_tokens": 77},
            samples=1,
        )
        content = {
            "first": "minicheck.yaml",
            "second": "gpt.yaml",
            "unsure_between": [0.2, 0.8],
            **keys,
        }
        return write_judge(
            "both",
            backend="cascade",
            **{name: each for name, each in content.items() if each is not None},
        )

    return write


def alone(write_judge, tmp_path) -> list[float]:
    with Judge.open(load_judge_config(write_judge()), tmp_path / "alone.sqlite") as judge:
        answers = judge.ask("verify", [pair.subject for pair in PAIRS], "asking")
    return [json.loads(answer.text)["probability"] for (answer,) in answers]


def test_the_second_is_asked_only_where_the_first_is_unsure(cascade, write_judge, server, tmp_path):
    chances = alone(write_judge, tmp_path)
    low, high = sorted(chances)[3], sorted(chances)[8]
    with Judge.open(
        load_judge_config(cascade(unsure_between=[low, high])), tmp_path / "a.sqlite"
    ) as judge:
        found = verify(judge, PAIRS)
        usage = judge.usage
    unsure = [low <= chance < high for chance in chances]
    assert sum(unsure) == len(server.bodies) == 5
    assert server.bodies[0]["max_tokens"] == 77
    for each, chance, is_unsure in zip(found, chances, unsure, strict=True):
        assert each.reason.startswith(
            "gpt: so it says" if is_unsure else "minicheck: probability of support"
        )
        assert each.verdict == ("supported" if is_unsure or chance >= 0.5 else "not_supported")
    assert (usage.calls, usage.prompt_tokens) == (len(CLAIMS) + 5, 50)


def test_answers_of_both_are_on_disk_under_their_own_names(cascade, server, tmp_path):
    store, path = tmp_path / "a.sqlite", cascade()
    with Judge.open(load_judge_config(path), store) as judge:
        first = verify(judge, PAIRS)
    asked = len(server.bodies)
    with Judge.open(load_judge_config(path), store) as judge:
        assert verify(judge, PAIRS) == first
        assert judge.usage.calls == 0
    with Judge.open(load_judge_config(tmp_path / "gpt.yaml"), store) as judge:
        verify(judge, PAIRS)
        assert (judge.usage.stored, judge.usage.calls) == (asked, len(PAIRS) - asked)
    with Judge.open(load_judge_config(cascade(unsure_between=[0.0, 1.0])), store) as judge:
        verify(judge, PAIRS)
        assert judge.usage.calls == 0  # whatever the band, both have answered all of it


def test_a_plan_is_bounded_by_asking_the_second_everything(cascade, server, tmp_path):
    with Judge.open(load_judge_config(cascade()), tmp_path / "a.sqlite") as judge:
        plan = judge.plan(lambda offline_judge: verify(offline_judge, PAIRS))
    with Judge.open(load_judge_config(tmp_path / "gpt.yaml"), tmp_path / "b.sqlite") as judge:
        most = judge.plan(lambda offline_judge: verify(offline_judge, PAIRS))
    assert (plan.estimate.calls, plan.estimate.max_completion_tokens) == (
        len(PAIRS),
        77 * len(PAIRS),
    )
    assert plan.estimate.prompt_tokens == most.estimate.prompt_tokens
    assert plan.estimate.counted_by.endswith("if minicheck is never sure")
    assert not server.bodies


def test_the_money_of_a_run_is_that_of_the_second(cascade, write_judge, server, tmp_path):
    path = cascade(unsure_between=[0.0, 1.0])
    prices = {"prompt": 0.0, "completion": 1000.0}  # a tenth of a cent a token
    write_judge(
        "gpt",
        backend="openai",
        model="small-judge",
        base_url=server.base_url,
        decoding={"max_tokens": 77},
        prices=prices,
    )
    config = replace(load_judge_config(path), max_cost=0.05)  # as --max-cost does
    with (
        Judge.open(config, tmp_path / "a.sqlite") as judge,
        pytest.raises(BackendDownError, match=r"max_cost of \$0\.05 leaves no room"),
    ):
        verify(judge, PAIRS)
    assert not server.bodies


def test_what_the_first_cannot_answer_goes_to_the_second(evaluate, cascade, server):
    """Biographies need facts and groups, of which a classifier knows nothing."""

    def reply(prompt: str, attempt: int) -> Act:
        if "verdict" in prompt:
            return Act(text='{"reason": "so it says", "verdict": "supported", "probability": 1}')
        return Act(
            text='{"groups": [[1]]}'
            if '"groups"' in prompt
            else '{"facts": ["Ada Lind was a painter."]}'
        )

    server.script = reply
    metadata, answer = (
        {"judge": str(cascade(unsure_between=[0.5, 0.5]))},
        {"answer": "She was a painter [1]."},
    )
    output = evaluate(
        "constant-answer", ["sample_ambigbio"], model_args=answer, metadata=metadata, limit=1
    )
    record = verdict_of(output["samples"]["sample_ambigbio"][0])
    assert record["unscored"] is None
    assert "minicheck: probability of support" in json.dumps(record)
    judge = output["configs"]["sample_ambigbio"]["metadata"]["judge_config"]
    assert (judge["backend"], judge["first"]["name"], judge["second"]["model"]) == (
        "cascade",
        "minicheck",
        "small-judge",
    )
    assert judge["unsure_between"] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"second": None},
            r"a cascade needs first: JUDGE.yaml, second: JUDGE.yaml, and unsure_between",
        ),
        ({"unsure_between": None}, r"a cascade needs first"),
        ({"first": "inner.yaml"}, "a cascade cannot be part of another cascade"),
        ({"second": "inner.yaml"}, "a cascade cannot be part of another cascade"),
        ({"first": "gpt.yaml"}, "name a classifier or lexical as first"),
        ({"second": "words.yaml"}, "remove verdicts and verify from second"),
        ({"second": "pages.yaml"}, "remove verdicts and verify from second"),
        ({"unsure_between": [0.8, 0.2]}, "expected the lower probability first"),
        ({"unsure_between": [0.2, 1.8]}, "unsure_between"),
        ({"unsure_between": "sometimes"}, "unsure_between"),
        (
            {"decoding": {"max_tokens": 5}},
            "backend cascade: unknown key 'decoding'",
        ),
        ({"second": "gone.yaml"}, "no judge is called 'gone.yaml'"),
    ],
)
def test_nonsense_is_refused(keys, message, cascade, write_judge, server):
    cascade()
    write_judge("words", backend="openai", model="m", base_url=server.base_url, verdicts="logprobs")
    write_judge("pages", backend="openai", model="m", base_url=server.base_url, verify="page")
    # Its second judge is a classifier, so that it gives probabilities.
    inner = cascade(second="minicheck.yaml")
    inner.rename(inner.with_name("inner.yaml"))
    with pytest.raises(ConfigError, match=re.escape(message) if "(" in message else message):
        load_judge_config(cascade(**keys))


def test_the_key_of_the_second_is_wanted_before_anything_is_asked(
    evaluate, cascade, write_judge, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_judge("far", backend="openai", model="m", base_url="https://judge.example.com/v1")
    metadata = {"judge": str(cascade(second="far.yaml"))}
    with pytest.raises(ConfigError, match="wants a key"):
        evaluate(
            "constant-answer",
            ["sample_felm_gen"],
            model_args={"answer": "x"},
            metadata=metadata,
            limit=1,
        )
