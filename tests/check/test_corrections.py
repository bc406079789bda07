"""Corrections are read strictly: all problems at once, and no correction is used if one is wrong."""

from __future__ import annotations

import csv

import pytest

from lm_factuality.check.corrections import CORRECTION_COLUMNS, Correction, read_corrections
from lm_factuality.ground.errors import DataError
from lm_factuality.people.labels import COLUMNS

CORRECTION = Correction(
    answer="q7",
    start=0,
    end=26,
    claim='The bridge "opened", in 1870.',
    verdict="contradicted",
    person="Ana",
    note="it was\n1871",
)


def write_csv(path, *rows, columns=CORRECTION_COLUMNS):
    """Write corrections with changed cells as a CSV file, and return its path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**vars(CORRECTION), **row} for row in rows)
    return path


def refusal_of(path):
    """Return the error that reading a file raises."""
    with pytest.raises(DataError) as error:
        read_corrections(path)
    return str(error.value)


def test_a_correction_is_read_as_it_was_written(tmp_path):
    path = write_csv(tmp_path / "corrections.csv", {})

    assert read_corrections(path) == [CORRECTION]


def test_a_note_may_be_missing(tmp_path):
    columns = [column for column in CORRECTION_COLUMNS if column != "note"]
    path = write_csv(tmp_path / "corrections.csv", {}, columns=columns)

    (correction,) = read_corrections(path)

    assert correction.note == ""


def test_two_people_may_correct_one_claim(tmp_path):
    path = write_csv(tmp_path / "corrections.csv", {}, {"person": "Ben"})

    assert [correction.person for correction in read_corrections(path)] == ["Ana", "Ben"]


def test_columns_are_called_as_those_of_labels():
    assert {"answer", "person", "note"} <= {*CORRECTION_COLUMNS} & {*COLUMNS}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verdict": "wrong"}, "verdict is 'wrong'"),
        ({"answer": ""}, "answer"),
        ({"person": " "}, "person"),
        ({"start": "first"}, "start is 'first'"),
        ({"start": -1}, "start is '-1'"),
        ({"end": ""}, "end is ''"),
        ({"start": 30}, "the claim ends at 26, before its start at 30"),
    ],
)
def test_a_wrong_cell_is_refused_with_its_line(tmp_path, change, problem):
    path = write_csv(tmp_path / "corrections.csv", change)

    message = refusal_of(path)

    assert f"{path}:2: " in message
    assert problem in message


def test_all_problems_are_listed_at_once(tmp_path):
    path = write_csv(tmp_path / "corrections.csv", {"verdict": "wrong"}, {"start": "x"})

    message = refusal_of(path)

    assert "verdict" in message
    assert "start" in message
    assert "no correction is used" in message


def test_a_person_corrects_a_claim_once(tmp_path):
    path = write_csv(tmp_path / "corrections.csv", {"note": ""}, {"note": ""})

    message = refusal_of(path)

    assert f"{path}:3: 'Ana' corrects this claim again, as in {path}:2" in message


def test_a_file_without_corrections_is_refused(tmp_path):
    path = write_csv(tmp_path / "corrections.csv")

    assert "no rows" in refusal_of(path)
