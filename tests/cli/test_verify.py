"""``lm-factuality verify`` with the lexical judge, as a user types it."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from lm_factuality.ground.errors import ConfigError, DataError, FactualityError
from tests.conftest import run_command
from tests.judges.server import Act, JudgeServer

SUPPORTED_PAIR = {
    "claim": "The Old Bridge opened in 1870.",
    "passages": ["The Old Bridge opened in 1870, built of stone."],
}
CONTRADICTED_PAIR = {
    "claim": "The Old Bridge opened in 1923.",
    "passages": [{"title": "Old Bridge", "text": "It opened in 1870."}],
}
PAIR_WITHOUT_PASSAGES = {"claim": "Nobody knows.", "passages": []}


@pytest.fixture
def verify_pairs(tmp_path):
    """Return a function that verifies pairs with the lexical judge, and returns the verdicts.

    Its arguments are the pairs, each as a mapping or as a line of text, and further options of the
    command. It returns None if the command writes nothing.
    """

    def run(pairs, *arguments):
        pairs_path = tmp_path / "pairs.jsonl"
        verdicts_path = tmp_path / "out" / "verdicts.jsonl"
        lines = [pair if isinstance(pair, str) else json.dumps(pair) for pair in pairs]
        pairs_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths = ["--pairs", str(pairs_path), "--out", str(verdicts_path)]
        store = ["--store", str(tmp_path / "answers.sqlite")]
        assert run_command("verify", *paths, *store, "--judge", "lexical", *arguments) == 0
        if not verdicts_path.exists():
            return None
        text = verdicts_path.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    return run


def test_a_claim_with_the_words_of_its_passage_is_supported(verify_pairs):
    """The lexical judge compares the words of claims and passages."""
    pair = {
        "claim": "The Old Bridge opened in 1870.",
        "passages": ["The Old Bridge opened in 1870, built of stone."],
    }

    (record,) = verify_pairs([pair])

    assert record["verdict"] == "supported"
    assert json.loads(record["said"][0])["verdict"] == "supported"


def test_a_claim_that_equals_its_passage_is_supported(verify_pairs):
    (record,) = verify_pairs([{"claim": "Ärger", "passages": [{"text": "Ärger"}]}])

    assert record["verdict"] == "supported"


def test_mismatched_number_is_named_as_the_reason(verify_pairs):
    passages = ["The Old Bridge opened in 1870."]
    pair_with_same_number = {"claim": "The Old Bridge opened in 1870.", "passages": passages}
    pair_with_other_number = {"claim": "The Old Bridge opened in 1923.", "passages": passages}

    same_number, other_number = verify_pairs([pair_with_same_number, pair_with_other_number])

    assert other_number["verdict"] == "not_supported"
    assert other_number["score"] < same_number["score"]
    assert "not in the passages: 1923" in other_number["reason"]


def test_a_claim_without_passages_is_unscored(verify_pairs):
    """The judge has nothing to read, which does not make the claim wrong."""
    (record,) = verify_pairs([{"claim": "Nobody knows.", "passages": []}])

    assert record["verdict"] == "unscored"
    assert record["score"] is None
    assert record["reason"] == "no evidence"
    assert record["said"] == []


def test_a_verdict_keeps_all_fields_of_its_pair(verify_pairs):
    """A user may add fields, such as an id, to a pair."""
    pair = {
        "id": 7,
        "claim": "The Old Bridge opened in 1870.",
        "passages": [{"title": "Old Bridge", "text": "It opened in 1870."}],
        "my_field": {"a": [1]},
    }

    (record,) = verify_pairs([pair])

    assert record.keys() - pair.keys() == {"verdict", "score", "reason", "said"}
    assert {key: record[key] for key in pair} == pair


def test_a_summary_is_printed(verify_pairs, capsys):
    """Of four pairs two are supported, one is not and one is unscored."""
    verify_pairs([SUPPORTED_PAIR, SUPPORTED_PAIR, CONTRADICTED_PAIR, PAIR_WITHOUT_PASSAGES])

    output = capsys.readouterr().out
    assert "4 pairs judged by lexical" in output
    assert "supported" in output
    assert "no evidence" in output
    # 2 of 4, or 3 of 4
    assert "50.0% if none of the unscored pairs is, 75.0% if all are" in output


def test_a_dry_run_writes_nothing(verify_pairs, capsys):
    """The judge would be asked about three pairs, since the fourth has no passages."""
    pairs = [
        {"claim": "It opened in 1870.", "passages": ["It opened in 1870."]},
        {"claim": "It opened in 1923.", "passages": ["It opened in 1870."]},
        {"claim": "It is of stone.", "passages": ["It is built of stone."]},
        {"claim": "Nobody knows.", "passages": []},
    ]

    records = verify_pairs(pairs, "--dry-run")

    output = capsys.readouterr().out
    assert records is None
    assert "Nothing was sent" in output
    assert "no model, so no tokens" in output
    assert "Total: 3 requests (0 more are stored)" in output


def test_bad_lines_are_reported_before_the_judge_is_asked(verify_pairs, tmp_path):
    """A question costs money, and a user can correct all lines at once."""
    sound_pair = {"claim": "It is old.", "passages": ["It is old."]}
    bad_lines = {
        "{": "not JSON",
        "[]": "found []",
        '{"passages": []}': "claim is missing",
        '{"claim": 3, "passages": []}': "claim is 3",
        '{"claim": "x"}': "passages is missing",
        '{"claim": "x", "passages": "p"}': "passages is 'p'",
        '{"claim": "x", "passages": ["p", 3]}': "passages[1]",
        '{"claim": "x", "passages": [{"title": "t"}]}': "passages[0]",
        '{"claim": "\\ud800", "passages": ["p"]}': "surrogate",
        json.dumps({**sound_pair, "verdict": "mine", "reason": ""}): "has verdict, reason already",
    }
    empty_line = ""

    with pytest.raises(DataError) as error:
        verify_pairs([sound_pair, empty_line, *bad_lines])

    *problems, last_line = str(error.value).splitlines()
    expected_messages = list(bad_lines.values())
    assert len(problems) == len(expected_messages)
    for position, problem in enumerate(problems):
        line_number = position + 3  # the bad lines follow a sound and an empty one
        assert f"pairs.jsonl:{line_number}:" in problem
        assert expected_messages[position] in problem
    assert last_line.startswith("Nothing was asked")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "answers.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--judge", "lexicla"], "lexical", id="unknown judge"),
        pytest.param(
            ["--pairs", "no_such.jsonl"], "no_such.jsonl: no such file", id="missing file"
        ),
        pytest.param(["--max-cost", "2"], "max_cost", id="highest cost without prices"),
    ],
)
def test_an_impossible_option_is_refused(verify_pairs, arguments, message):
    with pytest.raises(FactualityError, match=message):
        verify_pairs([SUPPORTED_PAIR], *arguments)


def test_a_folder_as_output_is_refused(verify_pairs, tmp_path):
    """The verdicts are written to one file."""
    with pytest.raises(ConfigError, match="is a folder"):
        verify_pairs([SUPPORTED_PAIR], "--out", str(tmp_path))


def test_an_output_below_a_file_is_refused(verify_pairs, tmp_path):
    """The error comes before the judge is asked and paid."""
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match="cannot be written"):
        verify_pairs([SUPPORTED_PAIR], "--out", str(tmp_path / "file" / "verdicts.jsonl"))


@pytest.fixture
def true_server():
    """Return a server whose model gives "True" a log-probability of -0.5, and "False" of -1."""
    token = {"token": "True", "logprob": -0.5, "top_logprobs": [{"token": "False", "logprob": -1}]}
    with closing(JudgeServer()) as server:
        server.script = lambda prompt, attempt: Act(text="True", logprobs={"content": [token]})
        yield server


@pytest.fixture
def logprobs_judge(true_server, tmp_path):
    """Return the YAML of a judge that asks ``true_server`` for log-probabilities."""
    path = tmp_path / "server.yaml"
    content = {
        "backend": "openai",
        "model": "m",
        "base_url": true_server.base_url,
        "verdicts": "logprobs",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_the_probability_of_true_is_the_score(verify_pairs, logprobs_judge):
    """The server gives "True" the log-probability -0.5 and "False" -1, so "True" is likelier."""
    (record,) = verify_pairs([SUPPORTED_PAIR], "--judge", logprobs_judge)

    assert record["verdict"] == "supported"
    assert 0.5 < record["score"] < 1
    assert "by log-probabilities: true " in record["reason"]
    assert record["said"] == ["True"]


def test_a_pair_without_passages_is_not_asked_about(verify_pairs, logprobs_judge, true_server):
    (record,) = verify_pairs([PAIR_WITHOUT_PASSAGES], "--judge", logprobs_judge)

    assert record["reason"] == "no evidence"
    assert not true_server.bodies


def test_a_dry_run_asks_no_log_probabilities(verify_pairs, logprobs_judge, true_server):
    """A user wants to know the cost before anything is paid."""
    verify_pairs([CONTRADICTED_PAIR], "--judge", logprobs_judge, "--dry-run")

    assert not true_server.bodies
