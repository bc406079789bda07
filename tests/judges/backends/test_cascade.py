"""A cascade: a classifier first, and a model behind a server where the classifier is unsure."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import pytest

from judges.config import load_judge_config
from judges.judge import Judge
from judges.verify import Pair, verify
from lm_factuality.cli import main
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.harness.samples import verdict_of
from tests.judges.inference.examples import TEXT
from tests.judges.server import Act, JudgeServer

SUPPORTED_REPLY = json.dumps({"reason": "so it says", "verdict": "supported", "probability": 0.95})


@pytest.fixture
def server():
    """Run a server that says of every claim that it is supported."""
    with closing(JudgeServer(lambda prompt, attempt: Act(text=SUPPORTED_REPLY))) as judge_server:
        yield judge_server


@pytest.fixture
def write_server_judge(write_judge, server):
    """Return a function that writes the YAML of a judge behind ``server``."""

    def write(name="gpt", **changes):
        keys = {"model": "small-judge", "base_url": server.base_url, **changes}
        return write_judge(name, backend="openai", **keys)

    return write


@pytest.fixture
def write_cascade(write_judge, write_classifier, write_server_judge):
    """Return a function that writes the YAML of a cascade and of its two judges.

    Keyword arguments change keys of the cascade. A key that is None is left out.
    """

    def write(name="both", **changes):
        write_classifier()
        write_server_judge()
        keys = {"first": "minicheck.yaml", "second": "gpt.yaml", "unsure_between": [0.2, 0.8]}
        keys.update(changes)
        keys = {key: value for key, value in keys.items() if value is not None}
        return write_judge(name, backend="cascade", **keys)

    return write


@pytest.fixture
def open_judge(tmp_path):
    """Return a function that opens the judge of a YAML, always with the same store of answers."""

    def open_from_yaml(path):
        return Judge.open(load_judge_config(path), tmp_path / "answers.sqlite")

    return open_from_yaml


def pairs_of(*claims: str) -> list[Pair]:
    """Return each claim with a passage about Ada Lind."""
    return [Pair(claim, (TEXT,)) for claim in claims]


def test_the_second_judge_decides_where_the_first_is_unsure(
    write_cascade, open_judge, set_probabilities
):
    """The reason names the judge that decided. The second judge supports every claim."""
    set_probabilities({"It is old.": 0.19, "It is long.": 0.2, "It is blue.": 0.8})

    with open_judge(write_cascade(unsure_between=[0.2, 0.8])) as judge:
        verifications = verify(judge, pairs_of("It is old.", "It is long.", "It is blue."))

    verdicts = [verification.verdict for verification in verifications]
    reasons = [verification.reason for verification in verifications]
    assert verdicts == ["not_supported", "supported", "supported"]
    assert reasons == [
        "minicheck: probability of support 0.190",
        "gpt: so it says",
        "minicheck: probability of support 0.800",
    ]


def test_the_second_judge_is_not_asked_where_the_first_is_sure(
    write_cascade, open_judge, server, set_probabilities
):
    """Sparing the expensive judge is what a cascade is for."""
    set_probabilities({"It is old.": 0.1, "It is long.": 0.5, "It is blue.": 0.9})

    with open_judge(write_cascade(unsure_between=[0.2, 0.8])) as judge:
        verify(judge, pairs_of("It is old.", "It is long.", "It is blue."))

    assert len(server.bodies) == 1
    assert "It is long." in str(server.bodies[0]["messages"])
    assert judge.usage.calls == 3 + 1
    assert judge.usage.prompt_tokens == 10  # the server counts 10 tokens in each prompt


def test_the_second_judge_answers_with_its_own_settings(
    write_cascade, write_server_judge, open_judge, server
):
    path = write_cascade(unsure_between=[0.0, 1.0])  # the first judge is never sure
    write_server_judge("gpt", decoding={"max_tokens": 77})

    with open_judge(path) as judge:
        verify(judge, pairs_of("She flew mail."))

    assert server.bodies[0]["max_tokens"] == 77


def test_a_later_cascade_finds_the_answers_of_both_judges_in_the_store(
    write_cascade, open_judge, set_probabilities
):
    """A repeated run must be free for both judges."""
    set_probabilities({"It is old.": 0.1, "It is long.": 0.5})
    path = write_cascade(unsure_between=[0.2, 0.8])
    pairs = pairs_of("It is old.", "It is long.")
    with open_judge(path) as judge:
        verifications = verify(judge, pairs)

    with open_judge(path) as later_judge:
        later_verifications = verify(later_judge, pairs)

    assert later_verifications == verifications
    assert later_judge.usage.calls == 0


def test_answers_of_the_second_judge_are_stored_under_its_own_name(
    write_cascade, open_judge, set_probabilities, tmp_path
):
    """The second judge can use the answers without the cascade."""
    set_probabilities({"It is old.": 0.1, "It is long.": 0.5, "It is blue.": 0.9})
    pairs = pairs_of("It is old.", "It is long.", "It is blue.")
    with open_judge(write_cascade(unsure_between=[0.2, 0.8])) as cascade:
        verify(cascade, pairs)

    with open_judge(tmp_path / "gpt.yaml") as second_judge:
        verify(second_judge, pairs)

    assert second_judge.usage.stored == 1  # the cascade has asked it about "It is long."
    assert second_judge.usage.calls == 2


def test_a_cascade_with_another_band_finds_the_answers_of_both_judges(
    write_cascade, open_judge, set_probabilities, tmp_path
):
    """A user who tries several bands pays only for claims that no band before has sent."""
    set_probabilities({"It is old.": 0.1, "It is long.": 0.5})
    pairs = pairs_of("It is old.", "It is long.")
    with open_judge(write_cascade(unsure_between=[0.2, 0.8])) as cascade:
        verify(cascade, pairs)
    with open_judge(tmp_path / "gpt.yaml") as second_judge:
        verify(second_judge, pairs)

    # In this band the first judge is never sure, so that the second is asked everything.
    with open_judge(write_cascade(unsure_between=[0.0, 1.0])) as wide_cascade:
        verify(wide_cascade, pairs)

    assert wide_cascade.usage.calls == 0


def test_plan_assumes_that_the_second_judge_is_always_asked(
    write_cascade, write_server_judge, open_judge, server, tmp_path
):
    """How often the first judge is unsure is unknown before it is asked."""
    path = write_cascade()
    write_server_judge("gpt", decoding={"max_tokens": 77})
    pairs = pairs_of("She flew mail.", "She taught at the school.")

    with open_judge(path) as cascade:
        plan = cascade.plan(lambda judge: verify(judge, pairs))
    with open_judge(tmp_path / "gpt.yaml") as second_judge:
        plan_of_second = second_judge.plan(lambda judge: verify(judge, pairs))

    assert plan.estimate.calls == 2
    assert plan.estimate.max_completion_tokens == 2 * 77
    assert plan.estimate.prompt_tokens == plan_of_second.estimate.prompt_tokens
    assert plan.estimate.counted_by.endswith("if minicheck is never sure")
    assert server.bodies == []


def test_the_budget_of_a_cascade_limits_its_second_judge(
    write_cascade, write_server_judge, server, tmp_path
):
    """Only the second judge costs money, so that is where ``--max-cost`` applies."""
    path = write_cascade(unsure_between=[0.0, 1.0])  # the first judge is never sure
    # An answer may cost 0.08 USD: it has at most 80 tokens, for 1,000 USD a million.
    write_server_judge(
        "gpt", decoding={"max_tokens": 80}, prices={"prompt": 0.0, "completion": 1000.0}
    )
    limited_config = replace(load_judge_config(path), max_cost=0.05)  # as --max-cost does

    with (
        Judge.open(limited_config, tmp_path / "answers.sqlite") as judge,
        pytest.raises(BackendDownError, match=r"max_cost of \$0\.05 leaves no room"),
    ):
        verify(judge, pairs_of("She flew mail."))

    assert server.bodies == []


@pytest.fixture
def judged_biography(evaluate, write_cascade, server):
    """Return lm_eval's output for one biography that a cascade judged.

    A biography is split into facts and groups, which a classifier cannot do. The band is empty, so
    that the classifier alone verifies the facts.
    """

    def answer_by_question(prompt: str, attempt: int) -> Act:
        if "verdict" in prompt:
            return Act(text=SUPPORTED_REPLY)
        if '"groups"' in prompt:
            return Act(text='{"groups": [[1]]}')
        return Act(text='{"facts": ["Ada Lind was a painter."]}')

    server.script = answer_by_question
    return evaluate(
        "constant-answer",
        ["sample_ambigbio"],
        model_args={"answer": "She was a painter [1]."},
        metadata={"judge": str(write_cascade(unsure_between=[0.5, 0.5]))},
        limit=1,
    )


def test_second_judge_answers_questions_the_first_cannot(judged_biography):
    """A classifier cannot split a text into facts or group them, but it can verify the facts."""
    verdict = verdict_of(judged_biography["samples"]["sample_ambigbio"][0])

    assert verdict["unscored"] is None
    # The second judge has split the text. The reply of the server is in the fixture.
    assert verdict["facts"] == [{"text": "Ada Lind was a painter.", "sentence": 0}]
    # The first judge has verified the fact by the pages of three people.
    reasons = [verification["reason"] for verification in verdict["matrix"][0]]
    assert len(reasons) == 3
    for reason in reasons:
        assert reason.startswith("minicheck: probability of support")


def test_results_describe_both_judges_of_a_cascade(judged_biography):
    """A reader of results must be able to make the same cascade."""
    judge = judged_biography["configs"]["sample_ambigbio"]["metadata"]["judge_config"]

    assert judge["backend"] == "cascade"
    assert judge["first"]["name"] == "minicheck"
    assert judge["second"]["model"] == "small-judge"
    assert judge["unsure_between"] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("unsure_between", "verdict", "judge_name"),
    [
        pytest.param([0.0, 0.0], "supported", "minicheck", id="the first is never unsure"),
        pytest.param([0.0, 1.0], "contradicted", "gpt", id="the first is always unsure"),
    ],
)
def test_check_asks_the_second_judge_where_the_first_is_unsure(
    write_cascade, write_classifier, server, tmp_path, unsure_between, verdict, judge_name
):
    """A claim goes to the second judge if its probability lies between the two bounds."""
    finding = {"number": 1, "reason": "it says otherwise", "verdict": "contradicted"}
    server.script = lambda prompt, attempt: Act(text=json.dumps({"verdicts": [finding]}))
    cascade = write_cascade(unsure_between=unsure_between)
    write_classifier(threshold=0.1)  # the tiny classifier supports every claim
    (tmp_path / "document.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "answer.txt").write_text("She taught at the school.", encoding="utf-8")
    command = ["check", str(tmp_path / "answer.txt"), "--knowledge", str(tmp_path / "document.txt")]

    exit_code = main([*command, "--judge", str(cascade), "--out", str(tmp_path / "out")])

    claim = json.loads((tmp_path / "out" / "claims.jsonl").read_text(encoding="utf-8"))
    assert exit_code == 0
    assert claim["verdict"] == verdict
    assert claim["reason"].startswith(f"{judge_name}: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"second": None},
            "a cascade needs first: JUDGE.yaml, second: JUDGE.yaml, and unsure_between",
        ),
        ({"unsure_between": None}, "a cascade needs first"),
        ({"first": "inner.yaml"}, "a cascade cannot be part of another cascade"),
        ({"second": "inner.yaml"}, "a cascade cannot be part of another cascade"),
        ({"first": "gpt.yaml"}, "name a classifier or lexical as first"),
        # The second judge is asked the whole question and replies in words.
        ({"second": "logprobs.yaml"}, "remove verdicts and verify from second"),
        ({"second": "pages.yaml"}, "remove verdicts and verify from second"),
        ({"unsure_between": [0.8, 0.2]}, "expected the lower probability first"),
        ({"unsure_between": [0.2, 1.8]}, "unsure_between"),
        ({"unsure_between": "sometimes"}, "unsure_between"),
        ({"decoding": {"max_tokens": 5}}, "backend cascade: unknown key 'decoding'"),
        ({"second": "gone.yaml"}, "no judge is called 'gone.yaml'"),
    ],
)
def test_invalid_cascade_is_refused(write_cascade, write_server_judge, changes, message):
    """Each mistake would otherwise show only after the first judge was asked everything."""
    write_server_judge("logprobs", verdicts="logprobs")
    write_server_judge("pages", verify="page")
    # A cascade of two classifiers, so that it gives probabilities.
    write_cascade("inner", second="minicheck.yaml")
    path = write_cascade(**changes)

    with pytest.raises(ConfigError, match=message):
        load_judge_config(path)


def test_a_missing_key_of_the_second_judge_is_refused_before_the_run(
    evaluate, write_cascade, write_server_judge, monkeypatch
):
    """The first judge may work for hours before the second is needed."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_server_judge("far", base_url="https://judge.example.com/v1")
    metadata = {"judge": str(write_cascade(second="far.yaml"))}

    with pytest.raises(ConfigError, match="wants a key"):
        evaluate(
            "constant-answer",
            ["sample_felm_gen"],
            model_args={"answer": "x"},
            metadata=metadata,
            limit=1,
        )
