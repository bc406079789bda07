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


def make_trial(claim, passage, labels):
    """Return a trial of one claim and passage, which stands in the data once for each label."""
    question = ClaimQuestion(claim, (Evidence("bridge", "Bridge", passage),))
    claims = []
    for number, label in enumerate(labels):
        claims.append(LabelledClaim(question, label, f"claim {number}"))
    data = {"file": "claims.csv", "git_blob": "0" * 40, "is_published": False}
    return ClaimTrial(claims, data, None)


@pytest.fixture
def lexical(tmp_path):
    """Open the offline judge."""
    with Judge.open(JudgeConfig("lexical", "lexical"), tmp_path / "store.sqlite") as judge:
        yield judge


def test_a_disagreement_has_label_verdict_reason_and_evidence(lexical):
    """A person needs these to decide whether the judge or the label is right."""
    trial = make_trial(
        claim="Harrow Bridge was opened in 1872.",
        passage="Harrow Bridge was opened in 1871.",
        labels=["supported", "contradicted"],
    )

    disagreements = trial.disagreements(lexical)

    # The judge finds both claims contradicted, so it disagrees with the first label only.
    assert len(disagreements) == 1
    case = disagreements[0]
    assert case.text == "Harrow Bridge was opened in 1872."
    assert case.label == "supported"
    assert case.verdict == "contradicted"
    assert "1871" in case.reason
    assert case.evidence == (("Bridge", "Harrow Bridge was opened in 1871."),)


@pytest.mark.parametrize(
    ("who_is_right", "expected_recall", "expected_claims"),
    [
        pytest.param("judge", {"contradicted": 1.0}, 2, id="the label becomes the verdict"),
        pytest.param("label", {"supported": 0.0, "contradicted": 1.0}, 2, id="the label stays"),
        pytest.param("neither", {"contradicted": 1.0}, 1, id="the claim is left out"),
    ],
)
def test_people_correct_the_label_of_a_case(
    lexical, who_is_right, expected_recall, expected_claims
):
    """A wrong label must not count against a judge that is right."""
    trial = make_trial(
        claim="Harrow Bridge was opened in 1872.",
        passage="Harrow Bridge was opened in 1871.",
        labels=["supported", "contradicted"],
    )
    case = trial.disagreements(lexical)[0]  # the first label, which says "supported"

    scores = trial.measure(lexical, {case.id: who_is_right})["scores"]["ALL"]

    assert scores["recall"] == expected_recall
    num_claims = 0
    for counts in scores["confusion"].values():
        num_claims += sum(counts.values())
    assert num_claims == expected_claims


def write_answers_of_ann(folder, answer):
    """Write the file that the page of the cases exports if Ann gives one answer to all cases."""
    sheet = re.search(r'"sheet": ?"(\w+)"', (folder / "cases.html").read_text())[1]
    cases = (folder / "cases.jsonl").read_text().splitlines()
    path = folder / "Ann.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sheet", "number", "question", "answer", "person", "note"])
        for number in range(1, len(cases) + 1):
            rows.writerow([sheet, number, "right", answer, "Ann", ""])
    return path


def swap_painter_and_sailor(text):
    """Give the facts of the painter to the sailor, and the other way round."""
    text = text.replace("(sailor)", "(nobody)").replace("(painter)", "(sailor)")
    return text.replace("(nobody)", "(painter)")


def give_all_facts_to_the_painter(text):
    """Put the facts of both people into one group."""
    return text.replace("(sailor)", "(painter)")


wrong_labels_of_each_step = pytest.mark.parametrize(
    ("step", "make_wrong"),
    [
        ("decomposition", swap_painter_and_sailor),
        ("grouping", give_all_facts_to_the_painter),
        ("linking", swap_painter_and_sailor),
        ("verification", swap_painter_and_sailor),
    ],
)


@wrong_labels_of_each_step
def test_every_disagreement_of_judge_and_label_is_a_case(files, tmp_path, step, make_wrong):  # noqa: F811
    """People then decide for each case whether the judge or the label is right."""
    labels = tmp_path / "decisions.json"
    labels.write_text(make_wrong(labels.read_text()))
    folder = tmp_path / "cases"
    out = tmp_path / "certificate.json"

    certify("lexical", step, files, "--cases", str(folder), "--out", str(out))

    scores = json.loads(out.read_text())["scores"]["ALL"]
    num_disagreements = scores["fp"] + scores["fn"]
    cases = (folder / "cases.jsonl").read_text().splitlines()
    assert num_disagreements > 0
    assert len(cases) == num_disagreements


@wrong_labels_of_each_step
def test_judge_has_no_errors_if_people_call_it_right_in_all_cases(
    files,  # noqa: F811
    tmp_path,
    step,
    make_wrong,
):
    """The certificate has the scores by the labels and those by the labels that Ann corrected."""
    labels = tmp_path / "decisions.json"
    labels.write_text(make_wrong(labels.read_text()))
    folder = tmp_path / "cases"
    out = tmp_path / "certificate.json"
    certify("lexical", step, files, "--cases", str(folder), "--out", str(out))
    scores_by_labels = json.loads(out.read_text())["scores"]["ALL"]
    answers = write_answers_of_ann(folder, answer="judge")

    certify("lexical", step, files, "--adjudicated", str(answers), "--out", str(out))

    certificate = json.loads(out.read_text())
    adjudicated = certificate["adjudicated"]
    num_cases = scores_by_labels["fp"] + scores_by_labels["fn"]
    assert certificate["scores"]["ALL"] == scores_by_labels
    assert adjudicated["people"] == ["Ann"]
    assert adjudicated["right"] == {"judge": num_cases}
    assert adjudicated["scores"]["ALL"]["fp"] == 0
    assert adjudicated["scores"]["ALL"]["fn"] == 0


def test_settings_without_cases_refuse_a_case_file(capsys, tmp_path):
    """A user who asks for a file of cases must learn that there will be none."""
    folder = str(tmp_path / "cases")

    exit_code = main(["certify", "--judge", "lexical", "--sample", "--cases", folder])

    assert exit_code != 0
    assert "not for --setting segment_doc, but for biographies_" in capsys.readouterr().err


def test_certificate_also_has_the_scores_of_page_verification(files, tmp_path, capsys):  # noqa: F811
    """Asking about a whole page costs less, and the certificate shows what it loses."""
    out = tmp_path / "certificate.json"

    certify("lexical", "verification", files, "--also-verify", "page", "--out", str(out))

    scores_by_page = json.loads(out.read_text())["also_measured"]
    assert scores_by_page["verify"] == "page"
    assert "balanced_accuracy" in scores_by_page["scores"]["ALL"]
    assert "With verify: page" in capsys.readouterr().out
