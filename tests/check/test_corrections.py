"""Corrections are read strictly, and those that belong to a claim count in place of its verdict."""

from __future__ import annotations

import csv
import json
from dataclasses import fields

import pytest

from lm_factuality.check.corrections import Correction, apply_corrections, read_corrections
from lm_factuality.check.results import CheckResult
from lm_factuality.ground.errors import DataError
from lm_factuality.people.labels import COLUMNS
from tests.check.checked import answer_of

CORRECTION_COLUMNS = [field.name for field in fields(Correction)]
CORRECTION = Correction(
    answer="q7",
    start=0,
    end=26,
    claim='The bridge "opened", in 1870.',
    verdict="contradicted",
    person="Ana",
    note="it was\n1871",
)


def correction_row(**changed_cells):
    """Return the cells of `CORRECTION`, some of them changed."""
    return {**vars(CORRECTION), **changed_cells}


def write_csv(path, *rows, columns=CORRECTION_COLUMNS):
    """Write the cells of corrections as a CSV file, and return its path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def refusal_of(path):
    """Return the error that reading a file raises."""
    with pytest.raises(DataError) as error:
        read_corrections(path)
    return str(error.value)


def test_written_correction_is_read_back(tmp_path):
    """The claim has quotation marks and the note has a line break, which CSV has to escape."""
    path = write_csv(tmp_path / "corrections.csv", correction_row())

    assert read_corrections(path) == [CORRECTION]


def test_file_saved_by_the_page_is_read(tmp_path):
    """The page saves corrections as JSON Lines."""
    path = tmp_path / "corrections.jsonl"
    path.write_text(json.dumps(vars(CORRECTION)) + "\n", encoding="utf-8")

    assert read_corrections(path) == [CORRECTION]


def test_a_note_may_be_missing(tmp_path):
    """A person need not give a reason."""
    columns = [column for column in CORRECTION_COLUMNS if column != "note"]
    path = write_csv(tmp_path / "corrections.csv", correction_row(), columns=columns)

    (correction,) = read_corrections(path)

    assert correction.note == ""


def test_two_people_may_correct_one_claim(tmp_path):
    path = write_csv(
        tmp_path / "corrections.csv", correction_row(person="Ana"), correction_row(person="Ben")
    )

    assert [correction.person for correction in read_corrections(path)] == ["Ana", "Ben"]


def test_columns_are_named_like_columns_of_labels():
    """People who label rows for another command find the same names."""
    shared_columns = {*CORRECTION_COLUMNS} & {*COLUMNS}
    assert {"answer", "person", "note"} <= shared_columns


@pytest.mark.parametrize(
    ("changed_cell", "problem"),
    [
        ({"verdict": "wrong"}, "verdict is 'wrong'"),
        ({"answer": ""}, "answer"),
        ({"person": " "}, "person"),
        ({"start": "first"}, "start is 'first'"),
        ({"start": -1}, "start is '-1'"),
        ({"end": ""}, "end is ''"),
        ({"start": 30, "end": 26}, "the claim ends at 26, before its start at 30"),
    ],
)
def test_a_wrong_cell_is_refused_with_its_line(tmp_path, changed_cell, problem):
    """The header is line 1, so the only correction is line 2."""
    path = write_csv(tmp_path / "corrections.csv", correction_row(**changed_cell))

    message = refusal_of(path)

    assert f"{path}:2: " in message
    assert problem in message


def test_all_problems_are_listed_at_once(tmp_path):
    """A person can correct the whole file at once."""
    path = write_csv(
        tmp_path / "corrections.csv", correction_row(verdict="wrong"), correction_row(start="x")
    )

    message = refusal_of(path)

    assert "verdict" in message
    assert "start" in message
    assert "no correction is used" in message


def test_repeated_correction_by_one_person_is_refused(tmp_path):
    """The suite cannot know which of two corrections should count."""
    row = correction_row(person="Ana", note="")
    path = write_csv(tmp_path / "corrections.csv", row, row)

    message = refusal_of(path)

    assert f"{path}:3: 'Ana' corrects this claim again, as in {path}:2" in message


def test_a_file_without_corrections_is_refused(tmp_path):
    """A user who chose the wrong file would believe that the corrections count."""
    path = write_csv(tmp_path / "corrections.csv")

    assert "no rows" in refusal_of(path)


# ---- what corrections change ----


def correction_of(claim, verdict="supported", answer="a", start=0, person="Ana", note=""):
    """Return a correction of a claim, by default by Ana of the first claim in the answer "a"."""
    return Correction(
        answer=answer,
        start=start,
        end=start + len(claim),
        claim=claim,
        verdict=verdict,
        person=person,
        note=note,
    )


def check_of(*sentences):
    """Return a check of one answer, "a", whose claims are given with the verdicts of the judge."""
    return CheckResult((answer_of("a", *sentences),))


def test_correction_replaces_the_verdict_and_keeps_the_judges_verdict():
    checked = check_of(("It opened in 1875.", "contradicted"), ("It has arches.", "supported"))
    correction = correction_of("It opened in 1875.", "supported", note="a typing error")

    result = apply_corrections(checked, [correction])

    corrected_claim, _ = result.claims
    assert corrected_claim.verdict == "supported"
    assert corrected_claim.judged == "contradicted"
    assert corrected_claim.person == "Ana"
    assert corrected_claim.note == "a typing error"
    assert result.num_corrected == 1


def test_a_correction_changes_the_share_of_supported_claims():
    checked = check_of(("It opened in 1875.", "contradicted"), ("It has arches.", "supported"))

    result = apply_corrections(checked, [correction_of("It opened in 1875.", "supported")])

    assert result.share_supported == 2 / 2
    assert result.as_judged().share_supported == 1 / 2


@pytest.mark.parametrize(
    ("answer", "claim"),
    [
        pytest.param("lost", "It opened in 1875.", id="an answer that was not checked"),
        pytest.param("a", "Nobody says this.", id="a claim that the answer does not have"),
    ],
)
def test_correction_without_a_claim_is_named(answer, claim):
    """The user should know that a correction, perhaps of an older answer, does not count."""
    checked = check_of(("It opened in 1875.", "contradicted"))

    result = apply_corrections(checked, [correction_of(claim, answer=answer, person="Ana")])

    problem = result.problems[-1]
    assert result.num_corrected == 0
    assert answer in problem
    assert claim in problem
    assert "Ana" in problem


def test_agreeing_corrections_are_merged():
    checked = check_of(("It opened in 1875.", "contradicted"))
    correction_by_ana = correction_of("It opened in 1875.", "supported", person="Ana")
    correction_by_ben = correction_of("It opened in 1875.", "supported", person="Ben")

    result = apply_corrections(checked, [correction_by_ana, correction_by_ben])

    (claim,) = result.claims
    assert claim.verdict == "supported"
    assert claim.person == "Ana, Ben"


def test_disagreeing_corrections_keep_the_judges_verdict():
    """No person is preferred to another."""
    checked = check_of(("It opened in 1875.", "contradicted"))
    correction_by_ana = correction_of("It opened in 1875.", "supported", person="Ana")
    correction_by_ben = correction_of("It opened in 1875.", "not_found", person="Ben")

    result = apply_corrections(checked, [correction_by_ana, correction_by_ben])

    (claim,) = result.claims
    assert claim.verdict == "contradicted"
    assert "Ana, Ben disagree" in result.problems[-1]


def test_repeated_claim_is_corrected_by_position():
    """The text alone does not tell which of the two claims is meant."""
    checked = check_of(("It opened.", "not_found"), ("It opened.", "not_found"))
    start_of_second_claim = len("It opened. ")
    correction = correction_of("It opened.", "supported", start=start_of_second_claim)

    result = apply_corrections(checked, [correction])

    assert [claim.verdict for claim in result.claims] == ["not_found", "supported"]


def test_moved_claim_keeps_its_correction():
    """A later answer may begin with another sentence, which moves the claim."""
    checked = check_of(("It opened in 1875.", "contradicted"))
    correction = correction_of("It opened in 1875.", "supported", start=400)

    result = apply_corrections(checked, [correction])

    (claim,) = result.claims
    assert claim.verdict == "supported"
