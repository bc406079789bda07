"""The command ``check``: what it prints and writes, and its exit codes."""

from __future__ import annotations

import csv
import json

import datasets
import pandas
import pytest

from lm_factuality import api
from lm_factuality.cli import main
from lm_factuality.ground.errors import DataError

TRUE = "The mill at Grayport was built in 1402."
WRONG_YEAR = "The mill at Grayport was built in 1502."
UNKNOWN = "Queen Adela composed forty songs about whales."


@pytest.fixture
def check(documents, tmp_path):
    """Return a function that checks answers and returns the exit code.

    It writes the answers to ``answers.jsonl``, to the questions "Question 0?", "Question 1?" etc.
    """

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
    """The document says that the mill was built in 1402, and says nothing about a queen."""
    out = tmp_path / "out"

    exit_code = check(
        "The mill at Grayport was built in 1402.",
        "The mill at Grayport was built in 1502.",
        "Queen Adela composed forty songs about whales.",
        options=["--out", str(out)],
    )

    verdicts = {claim["claim"]: claim["verdict"] for claim in read_claims(out)}
    assert exit_code == 0
    assert verdicts == {
        "The mill at Grayport was built in 1402.": "supported",
        "The mill at Grayport was built in 1502.": "contradicted",
        "Queen Adela composed forty songs about whales.": "not_found",
    }


def test_a_claim_has_its_place_in_the_answer_and_its_evidence(check, tmp_path):
    """Programs mark the claim in the answer, and show the passage that decided."""
    out = tmp_path / "out"
    answer = "Hello! The mill at Grayport was built in 1402."

    check(answer, options=["--out", str(out)])

    (claim,) = read_claims(out)
    deciding_evidence = claim["evidence"][claim["deciding"]]
    assert answer[claim["start"] : claim["end"]] == "The mill at Grayport was built in 1402."
    assert deciding_evidence["document"] == "mill.md"
    assert "The mill at Grayport was built in 1402." in deciding_evidence["passage"]


def test_the_summary_counts_claims_and_refusals(check, tmp_path):
    """A refusal has no claims, so it does not change the share of supported claims, 1 of 2."""
    out = tmp_path / "out"
    refusal = "I'm sorry, I can't help with that."

    check(TRUE, WRONG_YEAR, refusal, options=["--out", str(out)])

    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["supported"] == 0.5
    assert summary["claims"] == {"supported": 1, "contradicted": 1, "not_found": 0, "unscored": 0}
    assert summary["answers"] == 3
    assert summary["refusals"] == 1


def test_the_page_names_the_documents_without_the_folders_of_the_machine(
    check, tmp_path, documents
):
    """Users send the page to other people."""
    out = tmp_path / "out"

    check(TRUE, options=["--out", str(out)])

    page = (out / "index.html").read_text(encoding="utf-8")
    assert f'title="{documents.name}">Checked against {documents.name}, ' in page
    assert str(tmp_path) not in page


def test_each_answer_has_a_row_with_its_counts(check, tmp_path):
    out = tmp_path / "out"

    check(TRUE, WRONG_YEAR, options=["--out", str(out)])

    with (out / "answers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    true_answer, wrong_answer = rows
    assert true_answer["answer"] == "a0"
    assert true_answer["supported"] == "1"
    assert true_answer["contradicted"] == "0"
    assert wrong_answer["answer"] == "a1"
    assert wrong_answer["supported"] == "0"
    assert wrong_answer["contradicted"] == "1"


def test_screen_shows_a_contradicted_claim_with_the_sentence_that_contradicts_it(
    documents, tmp_path, capsys
):
    (documents / "mill.md").write_text("The mill at Grayport was built in 1402.", encoding="utf-8")
    answers = tmp_path / "answers.txt"
    answers.write_text("The mill at Grayport was built in 1502.", encoding="utf-8")

    main(["check", str(answers), "--knowledge", str(documents)])

    screen = capsys.readouterr().out
    assert "contradicted: The mill at Grayport was built in 1502." in screen
    assert "mill.md: The mill at Grayport was built in 1402." in screen


def test_screen_counts_omitted_claims(check, capsys):
    """None of the twelve claims is in the document, and the screen lists ten of them."""
    check(" ".join(f"Queen Adela composed {number} songs." for number in range(12)))

    assert "... and 2 claims more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fail_under", "code", "reason"),
    [("50", 0, ""), ("51", 1, "supported: 50.0%, expected 51% or more")],
)
def test_the_exit_code_says_whether_enough_claims_are_supported(
    check, capsys, fail_under, code, reason
):
    """One of two claims is supported, which is 50%."""
    exit_code = check(TRUE, WRONG_YEAR, options=["--fail-under", fail_under])

    assert exit_code == code
    assert reason in capsys.readouterr().err


def test_missing_knowledge_exits_with_code_2(check, capsys, tmp_path):
    """The exit code 1 means that too few claims are supported."""
    options = ["--knowledge", str(tmp_path / "nowhere")]

    exit_code = check(TRUE, options=options)

    assert exit_code == 2
    assert "nowhere" in capsys.readouterr().err


def test_answers_without_evidence_are_an_error(tmp_path, capsys):
    """The message says which option names the evidence."""
    path = tmp_path / "answers.txt"
    path.write_text(TRUE, encoding="utf-8")

    exit_code = main(["check", str(path)])

    assert exit_code == 2
    assert "--knowledge docs/" in capsys.readouterr().err


def write_answer(path, answer_id, question, answer):
    """Write a file of one answer, and return its path as a text."""
    row = {"id": answer_id, "question": question, "answer": answer}
    path.write_text(json.dumps(row), encoding="utf-8")
    return str(path)


def test_two_systems_are_compared_by_question(documents, tmp_path, capsys):
    """The answers have different ids, but both answer the question "When?"."""
    first = write_answer(tmp_path / "first.jsonl", "a0", "When?", TRUE)
    second = write_answer(tmp_path / "second.jsonl", "x", "When?", WRONG_YEAR)

    main(["check", first, "--against", second, "--knowledge", str(documents)])

    assert "1 question in both: supported 100.0% and 0.0%" in capsys.readouterr().out


def test_changed_claims_between_two_answer_files_are_shown(documents, tmp_path, capsys):
    """The document says 1402, so a claim of the first file is supported and of the second not."""
    true_claim = "The mill at Grayport was built in 1402."
    wrong_claim = "The mill at Grayport was built in 1502."
    first = write_answer(tmp_path / "first.jsonl", "a0", "When?", true_claim)
    second = write_answer(tmp_path / "second.jsonl", "x", "When?", wrong_claim)

    main(["check", first, "--against", second, "--knowledge", str(documents)])

    screen = capsys.readouterr().out
    assert f"supported in {first}: {true_claim}" in screen
    assert f"contradicted in {second}: {wrong_claim}" in screen


def test_changed_claims_are_written(check, tmp_path):
    """The claims about the mill are paired, and the claim about the queen is in one file only."""
    out = tmp_path / "out"
    second = write_answer(
        tmp_path / "second.jsonl", "x", "Question 0?", answer=f"{WRONG_YEAR} {UNKNOWN}"
    )

    check(TRUE, options=["--against", second, "--out", str(out)])

    pair, single = map(json.loads, (out / "changes.jsonl").read_text("utf-8").splitlines())
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert pair["first"]["claim"] == TRUE
    assert pair["second"]["claim"] == WRONG_YEAR
    assert single["first"] is None
    assert single["second"]["verdict"] == "not_found"
    assert summary["about"]["against"]["questions"] == 1


def test_saved_corrections_are_applied(check, tmp_path, capsys):
    """The judge finds one of two claims supported, and Ana corrects the verdict on the other."""
    out = tmp_path / "out"
    corrections = tmp_path / "corrections.jsonl"
    place = {"answer": "a1", "start": 0, "end": len(WRONG_YEAR), "claim": WRONG_YEAR}
    corrections.write_text(json.dumps({**place, "verdict": "supported", "person": "Ana"}))
    options = ["--corrections", str(corrections), "--fail-under", "100", "--out", str(out)]

    exit_code = check(TRUE, WRONG_YEAR, options=options)

    _, corrected_claim = read_claims(out)
    assert exit_code == 0
    assert "1 verdict corrected or confirmed; as judged, 50.0% supported" in capsys.readouterr().out
    assert corrected_claim["verdict"] == "supported"
    assert corrected_claim["judged"] == "contradicted"


def test_damaged_corrections_are_an_error(check, tmp_path, capsys):
    """If they were left out, the work of a person would be lost."""
    corrections = tmp_path / "corrections.jsonl"
    corrections.write_text('{"answer": "a0"}')

    exit_code = check(TRUE, options=["--corrections", str(corrections)])

    assert exit_code == 2
    assert "no correction is used" in capsys.readouterr().err


def test_example_is_checked_by_default(capsys, tmp_path):
    """The example shows a new user what a check is, and what to type next."""
    exit_code = main(["check", "--store", str(tmp_path / "store.sqlite")])

    screen = capsys.readouterr().out
    assert exit_code == 0
    assert "6 answers" in screen
    assert "contradicted: A book can be kept for six weeks." in screen
    assert "1 refusal" in screen
    assert screen.endswith("lm-factuality check answers.csv --knowledge docs/ --out checked\n")


@pytest.mark.parametrize("option", ["--knowledge", "--search", "--against", "--corrections"])
def test_the_example_is_not_checked_against_other_documents(capsys, tmp_path, option):
    """The user has probably forgotten to name the answers."""
    exit_code = main(["check", option, str(tmp_path)])

    assert exit_code == 2
    assert "name the answers" in capsys.readouterr().err


ROWS = [{"question": "When?", "answer": TRUE}, {"question": "When?", "answer": WRONG_YEAR}]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([TRUE, WRONG_YEAR], id="texts"),
        pytest.param(ROWS, id="dictionaries"),
        pytest.param(iter(ROWS), id="iterator"),
        pytest.param(pandas.DataFrame(ROWS), id="data frame"),
        pytest.param(datasets.Dataset.from_list(ROWS), id="dataset"),
    ],
)
def test_python_checks_answers_of_any_container(documents, tmp_path, answers):
    checked = api.check(answers, knowledge=documents)

    heading, supported_line, *_ = repr(checked).splitlines()
    assert isinstance(checked.claims, pandas.DataFrame)
    assert checked.claims["verdict"].tolist() == ["supported", "contradicted"]
    assert heading == "2 claims of 2 answers"
    assert supported_line.split()[:3] == ["supported", "1", "50.0%"]


def test_result_of_a_check_in_python_counts_unread_answers(documents, tmp_path):
    """The empty answer must not count as an answer without errors."""
    checked = api.check([TRUE, ""], knowledge=documents)

    heading, *_, last_line = repr(checked).splitlines()
    assert heading == "1 claim of 2 answers"
    assert last_line.split() == ["answers", "not", "read", "1"]


def test_check_in_python_applies_corrections(documents, tmp_path):
    """The answer has no id, so its number, "1", is its id."""
    place = {"answer": "1", "start": 0, "end": len(WRONG_YEAR), "claim": WRONG_YEAR}
    corrections = tmp_path / "corrections.jsonl"
    corrections.write_text(json.dumps({**place, "verdict": "supported", "person": "Ana"}))

    checked = api.check([WRONG_YEAR], knowledge=documents, corrections=[corrections])

    assert checked.claims["verdict"].tolist() == ["supported"]


def test_python_finds_damaged_corrections_before_it_reads_documents(tmp_path):
    """It takes long to read many documents; here the folder of documents does not exist."""
    corrections = tmp_path / "corrections.jsonl"
    corrections.write_text('{"answer": "a0"}')

    with pytest.raises(DataError, match="no correction is used"):
        api.check([TRUE], knowledge=tmp_path / "nowhere", corrections=[corrections])
