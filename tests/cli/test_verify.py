"""``lm-factuality verify`` with the lexical judge, as a user types it."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from lm_factuality.ground.errors import ConfigError, DataError, FactualityError
from tests.conftest import run_command
from tests.judges.server import Act, JudgeServer

PAIRS = [
    {
        "id": 7,
        "claim": "The Old Bridge opened in 1870.",
        "passages": ["The Old Bridge opened in 1870, built of stone."],
    },
    {
        "claim": "The Old Bridge opened in 1923.",
        "passages": [{"title": "Old Bridge", "text": "It opened in 1870."}],
        "x": {"y": [1]},
    },
    {"claim": "Nobody knows.", "passages": []},
    {"claim": "Ärger", "passages": [{"text": "Ärger"}]},
]


@pytest.fixture
def run(tmp_path):
    """Runs the command on lines; returns what it wrote."""

    def run(lines, *arguments):
        pairs, out = tmp_path / "pairs.jsonl", tmp_path / "out" / "verdicts.jsonl"
        pairs.write_text(
            "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines),
            encoding="utf-8",
        )
        base = [
            "--pairs",
            str(pairs),
            "--judge",
            "lexical",
            "--out",
            str(out),
            "--store",
            str(tmp_path / "answers.sqlite"),
        ]
        assert run_command("verify", *base, *arguments) == 0
        return (
            [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
            if out.exists()
            else None
        )

    return run


def test_verdict_score_and_reason_are_added(run, capsys):
    found = run(PAIRS)
    assert [each["verdict"] for each in found] == [
        "supported",
        "not_supported",
        "unscored",
        "supported",
    ]
    assert [
        {key: each[key] for key in each if key not in ("verdict", "score", "reason", "said")}
        for each in found
    ] == PAIRS
    assert found[0]["score"] > found[1]["score"]
    assert "not in the passages: 1923" in found[1]["reason"]
    assert (found[2]["score"], found[2]["reason"], found[2]["said"]) == (None, "no evidence", [])
    assert json.loads(found[0]["said"][0])["verdict"] == "supported"
    output = capsys.readouterr().out
    for text in (
        "4 pairs judged by lexical",
        "supported",
        "no evidence",
        "50.0% if none of the unscored pairs is, 75.0% if all are",
    ):
        assert text in output


def test_dry_run_writes_nothing(run, capsys):
    assert run(PAIRS, "--dry-run") is None
    output = capsys.readouterr().out
    assert "Nothing was sent" in output
    assert "no model, so no tokens" in output
    assert " 3 " in output  # the pair without passages is not asked


def test_all_bad_lines_are_reported_before_anything_is_asked(run, tmp_path):
    lines = [
        PAIRS[0],
        "{",
        "[]",
        {"passages": []},
        {"claim": 3, "passages": []},
        {"claim": "x"},
        "",
        {"claim": "x", "passages": "p"},
        {"claim": "x", "passages": ["p", 3]},
        {"claim": "x", "passages": [{"title": "t"}]},
        '{"claim": "\\ud800", "passages": ["p"]}',
        {**PAIRS[0], "verdict": "mine", "reason": ""},
    ]
    with pytest.raises(DataError) as caught:
        run(lines)
    reported = str(caught.value).splitlines()
    assert [int(line.split(".jsonl:")[1].split(":")[0]) for line in reported[:-1]] == [
        2,
        3,
        4,
        5,
        6,
        8,
        9,
        10,
        11,
        12,
    ]
    for number, said in enumerate(
        (
            "not JSON",
            "found []",
            "claim is missing",
            "claim is 3",
            "passages is missing",
            "passages is 'p'",
            "passages[1]",
            "passages[0]",
            "surrogate",
            "has verdict, reason already",
        )
    ):
        assert said in reported[number]
    assert reported[-1].startswith("Nothing was asked")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "answers.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--judge", "lexicla"], "lexical"),
        (["--pairs", "no_such.jsonl"], "no_such.jsonl: no such file"),
        (["--max-cost", "2"], "max_cost"),
    ],
)
def test_what_cannot_be_done_is_said(run, arguments, said):
    with pytest.raises(FactualityError, match=said):
        run(PAIRS, *arguments)


def test_an_output_that_cannot_be_written_is_said_before_anything_is_asked(run, tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        run(PAIRS, "--out", str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        run(PAIRS, "--out", str(tmp_path / "file" / "verdicts.jsonl"))


def test_the_probability_of_true_is_the_score(run, tmp_path):
    config = tmp_path / "server.yaml"
    token = {"token": "True", "logprob": -0.5, "top_logprobs": [{"token": "False", "logprob": -1}]}
    with closing(JudgeServer()) as server:
        server.script = lambda prompt, attempt: Act(text="True", logprobs={"content": [token]})
        content = {"backend": "openai", "model": "m", "base_url": server.base_url}
        config.write_text(json.dumps({**content, "verdicts": "logprobs"}), encoding="utf-8")
        run(PAIRS[1:2], "--judge", str(config), "--dry-run")
        assert not server.bodies
        found = run(PAIRS[:1] + PAIRS[2:3], "--judge", str(config))
    assert found[0]["verdict"] == "supported"
    assert 0.5 < found[0]["score"] < 1
    assert "by log-probabilities: true " in found[0]["reason"]
    assert found[0]["said"] == ["True"]
    assert found[1]["reason"] == "no evidence"
