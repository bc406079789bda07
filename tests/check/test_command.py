"""The command ``check``: what it prints and writes, and its exit codes."""

from __future__ import annotations

import csv
import json

import pandas
import pytest

from lm_factuality import api
from lm_factuality.cli import main

TRUE = "The mill at Grayport was built in 1402."
WRONG_YEAR = "The mill at Grayport was built in 1502."
UNKNOWN = "Queen Adela composed forty songs about whales."


@pytest.fixture
def check(documents, tmp_path, monkeypatch):
    """Return a function that checks answers and returns the exit code."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "cache"))

    def run(*answers, options=()):
        path = tmp_path / "answers.jsonl"
        rows = [
            json.dumps({"id": f"a{number}", "question": f"Question {number}?", "answer": answer})
            for number, answer in enumerate(answers)
        ]
        path.write_text("\n".join(rows), encoding="utf-8")
        store = str(tmp_path / "store.sqlite")
        command = ["check", str(path), "--knowledge", str(documents), "--store", store, *options]
        return main(command)

    return run


def read_claims(folder):
    """Return the objects of ``claims.jsonl``."""
    lines = (folder / "claims.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_claims_are_supported_contradicted_or_not_found(check, tmp_path):
    out = tmp_path / "out"

    assert check(TRUE, WRONG_YEAR, UNKNOWN, options=["--out", str(out)]) == 0

    verdicts = {claim["claim"]: claim["verdict"] for claim in read_claims(out)}
    assert verdicts == {TRUE: "supported", WRONG_YEAR: "contradicted", UNKNOWN: "not_found"}


def test_a_claim_has_its_place_in_the_answer_and_its_evidence(check, tmp_path):
    out = tmp_path / "out"
    answer = f"Hello! {TRUE}"

    check(answer, options=["--out", str(out)])

    (claim,) = read_claims(out)
    assert answer[claim["start"] : claim["end"]] == TRUE
    assert claim["evidence"][claim["deciding"]]["document"] == "mill.md"
    assert TRUE in claim["evidence"][claim["deciding"]]["passage"]


def test_the_summary_counts_claims_and_refusals(check, tmp_path):
    out = tmp_path / "out"

    check(TRUE, WRONG_YEAR, "I'm sorry, I can't help with that.", options=["--out", str(out)])

    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["supported"] == 0.5
    assert summary["claims"] == {"supported": 1, "contradicted": 1, "not_found": 0, "unscored": 0}
    assert summary["answers"] == 3
    assert summary["refusals"] == 1


def test_answers_have_a_row_each(check, tmp_path):
    out = tmp_path / "out"

    check(TRUE, WRONG_YEAR, options=["--out", str(out)])

    with (out / "answers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["answer"], row["supported"], row["contradicted"]) for row in rows] == [
        ("a0", "1", "0"),
        ("a1", "0", "1"),
    ]


def test_the_screen_shows_the_worst_claims_with_the_sentence_that_contradicts_them(check, capsys):
    check(TRUE, WRONG_YEAR)

    screen = capsys.readouterr().out
    assert f"contradicted: {WRONG_YEAR}" in screen
    assert f"mill.md: {TRUE}" in screen


@pytest.mark.parametrize(("fail_under", "code"), [("50", 0), ("51", 1)])
def test_the_exit_code_says_whether_enough_claims_are_supported(check, fail_under, code):
    assert check(TRUE, WRONG_YEAR, options=["--fail-under", fail_under]) == code


def test_knowledge_that_is_missing_is_an_error_with_exit_code_2(check, capsys, tmp_path):
    options = ["--knowledge", str(tmp_path / "nowhere")]

    assert check(TRUE, options=options) == 2

    assert "nowhere" in capsys.readouterr().err


def test_answers_without_evidence_are_an_error(tmp_path, capsys):
    path = tmp_path / "answers.txt"
    path.write_text(TRUE, encoding="utf-8")

    assert main(["check", str(path)]) == 2

    assert "--knowledge docs/" in capsys.readouterr().err


def test_two_systems_are_compared_by_question(check, tmp_path, capsys):
    other = tmp_path / "other.jsonl"
    rows = [{"id": "x", "question": "Question 0?", "answer": WRONG_YEAR}]
    other.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    check(TRUE, TRUE, options=["--against", str(other)])

    assert "1 question in both: supported 100.0% and 0.0%" in capsys.readouterr().out


def test_without_answers_it_checks_the_example(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path))

    assert main(["check", "--store", str(tmp_path / "store.sqlite")]) == 0

    screen = capsys.readouterr().out
    assert "6 answers" in screen
    assert "contradicted: A book can be kept for six weeks." in screen
    assert "1 refusal" in screen


def test_python_checks_rows_of_a_data_frame(documents, tmp_path, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "cache"))
    answers = pandas.DataFrame({"question": ["When?", "When?"], "answer": [TRUE, WRONG_YEAR]})

    checked = api.check(answers, knowledge=documents)

    assert checked.claims["verdict"].tolist() == ["supported", "contradicted"]
    assert repr(checked).startswith("2 claims of 2 answers")
