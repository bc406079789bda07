"""Disagreements of a judge with labels: their file and page, and the scores after corrections."""

import csv
import json
import re

import pytest

from judges.claims import ClaimQuestion, Evidence
from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.claim_trial import ClaimTrial, LabelledClaim
from lm_factuality.cli import main
from tests.benchmarks.biographies.test_certify import (  # noqa: F401  fixtures
    certify,
    files,
)

BRIDGE = (Evidence("bridge", "Bridge", "Harrow Bridge was opened in 1871. It has four arches."),)
WRONG_YEAR = "Harrow Bridge was opened in 1872."
DATA = {"file": "claims.csv", "git_blob": "0" * 40, "is_published": False}


@pytest.fixture
def trial():
    """Return a trial of two claims that the offline judge finds contradicted.

    The label of one says supported, so there is one disagreement.
    """
    labels = (("a", "supported"), ("b", "contradicted"))
    claims = [LabelledClaim(ClaimQuestion(WRONG_YEAR, BRIDGE), truth, key) for key, truth in labels]
    return ClaimTrial(claims, DATA, None)


@pytest.fixture
def lexical(tmp_path):
    """Open the offline judge."""
    with Judge.open(JudgeConfig("lexical", "lexical"), tmp_path / "store.sqlite") as judge:
        yield judge


def test_a_disagreement_has_label_verdict_reason_and_evidence(trial, lexical):
    """This is what a person needs to say who of the two is right."""
    (case,) = trial.disagreements(lexical)

    assert case.text == WRONG_YEAR
    assert case.label == "supported"
    assert case.verdict == "contradicted"
    assert "1871" in case.reason
    assert case.evidence == (("Bridge", BRIDGE[0].text),)


@pytest.mark.parametrize(
    ("ruling", "recalls", "expected_claims"),
    [
        pytest.param("judge", {"contradicted": 1.0}, 2, id="the label becomes the verdict"),
        pytest.param("label", {"supported": 0.0, "contradicted": 1.0}, 2, id="the label stays"),
        pytest.param("neither", {"contradicted": 1.0}, 1, id="the claim is left out"),
    ],
)
def test_people_correct_the_label_of_a_case(trial, lexical, ruling, recalls, expected_claims):
    """A judge that is right where the label is wrong should not lose by it."""
    (case,) = trial.disagreements(lexical)

    scores = trial.measure(lexical, {case.id: ruling})["scores"]["ALL"]

    assert scores["recall"] == recalls
    num_claims = 0
    for counts in scores["confusion"].values():
        num_claims += sum(counts.values())
    assert num_claims == expected_claims


def write_answers(folder, answer):
    """Write a person's answer to the page of the cases, as it exports them; return the file."""
    sheet = re.search(r'"sheet": ?"(\w+)"', (folder / "cases.html").read_text())[1]
    cases = (folder / "cases.jsonl").read_text().splitlines()
    path = folder / "Ann.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sheet", "number", "question", "answer", "person", "note"])
        for number in range(1, len(cases) + 1):
            rows.writerow([sheet, number, "right", answer, "Ann", ""])
    return path


def swap_entities(path, is_one_group):
    """Make released labels wrong: all are the painter's, or each is the other entity's."""
    text = path.read_text().replace("(sailor)", "(SWAPPED)")
    if not is_one_group:
        text = text.replace("(painter)", "(sailor)")
    path.write_text(text.replace("(SWAPPED)", "(painter)"))


@pytest.mark.parametrize("step", ["decomposition", "grouping", "linking", "verification"])
def test_a_judge_that_people_call_right_agrees_with_all_labels(files, tmp_path, step):  # noqa: F811
    """The released labels are made wrong, so that the judge disagrees with some."""
    folder = tmp_path / "cases"
    out = tmp_path / "certificate.json"
    swap_entities(tmp_path / "decisions.json", is_one_group=step == "grouping")
    certify("lexical", step, files, "--cases", str(folder), "--out", str(out))
    before = json.loads(out.read_text())["scores"]["ALL"]
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    assert len(cases) == before["fp"] + before["fn"] > 0

    answers = write_answers(folder, "judge")
    certify("lexical", step, files, "--adjudicated", str(answers), "--out", str(out))

    certificate = json.loads(out.read_text())
    after = certificate["adjudicated"]
    assert certificate["scores"]["ALL"] == before
    assert after["people"] == ["Ann"]
    assert after["right"] == {"judge": len(cases)}
    assert after["scores"]["ALL"]["fp"] == after["scores"]["ALL"]["fn"] == 0


def test_settings_without_cases_refuse_them(capsys, tmp_path):
    """An option that has no effect would leave the user waiting for a file."""
    folder = str(tmp_path / "cases")

    exit_code = main(["certify", "--judge", "lexical", "--sample", "--cases", folder])

    assert exit_code != 0
    assert "not for --setting segment_doc, but for biographies_" in capsys.readouterr().err


def test_a_certificate_has_both_ways_of_verifying(files, tmp_path, capsys):  # noqa: F811
    """Asking about a whole page costs less, and the certificate shows what it loses."""
    out = tmp_path / "certificate.json"

    certify("lexical", "verification", files, "--also-verify", "page", "--out", str(out))

    also = json.loads(out.read_text())["also_measured"]
    assert also["verify"] == "page"
    assert "balanced_accuracy" in also["scores"]["ALL"]
    assert "With verify: page" in capsys.readouterr().out
