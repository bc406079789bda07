"""Submissions whose scores people's labels correct: packed, checked, ranked and refused."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import asdict, replace

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.site.board import render_pages, to_board
from lm_factuality.leaderboard.site.entries import to_entry
from lm_factuality.leaderboard.submission import read_submission
from lm_factuality.people.labels import COLUMNS, read_key
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.leaderboard.conftest import MODEL
from tests.leaderboard.reseal import seal_files

TASK = "sample_felm_gen"
RATE = "segment_error_rate"


@pytest.fixture(scope="session")
def labelled_sheet(sample_run, tmp_path_factory):
    """Return the key of a sheet of 40 answers, and the labels of a person.

    The person finds no error in the items of an even number, and an error in the others.
    """
    folder = tmp_path_factory.mktemp("labels")
    sheet = make_sheet(read_pool([sample_run], TASK), 40, ("verdict",), seed=2)
    *_, key_path = write_sheet(sheet, folder / "sheet.html", csv_only=True)
    labels_path = folder / "labels.csv"
    answers = {item.number: item.options[item.number % 2] for item in sheet.key.items}
    write_labels(labels_path, sheet.key, answers)
    return key_path, labels_path


def write_labels(path, key, answers):
    """Write a person's answers to the items of a sheet, by their number."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for item in key.items:
            answer = answers[item.number]
            writer.writerow((key.sheet, item.number, item.question, answer, "Ana", ""))


@pytest.fixture(scope="session")
def corrected(sample_run, certificate, labelled_sheet, tmp_path_factory):
    """Pack a submission with labels, and return its folder, which tests do not change."""
    key, labels = labelled_sheet
    options = PackOptions(MODEL, certificate=certificate, key=key, labels=(labels,))
    return pack([sample_run], options, tmp_path_factory.mktemp("submissions"))


@pytest.fixture
def copied(corrected, tmp_path):
    """Return a copy of the submission with labels, which a test may change."""
    return shutil.copytree(corrected, tmp_path / "submission")


def refusals(folder):
    """Return the reasons to refuse a submission, by code."""
    return {refusal.code: refusal.sentence for refusal in check_submission(folder).refusals}


def test_a_submission_with_labels_is_accepted(corrected):
    """The submission has the labels and the key of their sheet, so that others can check them."""
    submission = read_submission(corrected)

    assert submission.key == "sheet.key.json"
    assert submission.labels == ("labels.csv",)
    assert refusals(corrected) == {}


@pytest.fixture
def corrected_entry(corrected):
    """Return the entry of a leaderboard for the submission with labels."""
    return to_entry(check_submission(corrected).evidence, "one", "0" * 64)


def test_a_submission_is_ranked_by_the_corrected_interval(corrected, corrected_entry):
    """People's labels correct a score for the errors of its judge."""
    expected = check_submission(corrected).evidence.tasks[TASK].task.corrected[RATE]

    score = corrected_entry.scores[TASK]

    assert score.figure.corrected == expected
    assert score.sort_value == expected.value
    assert score.sort_value != score.figure.value
    assert score.interval == (expected.low, expected.high)


def test_the_corrected_score_is_shown(corrected_entry):
    """It is shown in the table of the board and on the page of the model."""
    pages = dict(render_pages(to_board([corrected_entry]), "", {}))

    corrected_percent = 100 * corrected_entry.scores[TASK].sort_value
    assert f"corrected <b>{corrected_percent:.1f}</b>" in pages["index.html"]
    model_page = pages[f"models/{corrected_entry.slug}.html"]
    assert f"corrected <b>{corrected_percent:.1f}</b>" in model_page


def test_corrected_score_that_does_not_follow_from_the_labels_is_refused(copied):
    """The check computes the corrected share of segments with errors again from the labels."""
    (path,) = copied.glob("corrected_*.json")
    content = json.loads(path.read_text())
    content["scores"]["segment_error_rate"].update(value=0.01, low=0.0)
    path.write_text(json.dumps(content))
    seal_files(copied)  # so that the hash of the changed file is right

    assert "give other corrected scores" in refusals(copied)["CORRECTION_CHANGED"]


def test_changed_labels_are_refused(copied):
    """The corrected score of the submission does not follow from the changed labels."""
    key = read_key(copied / "sheet.key.json")
    labels_without_errors = {item.number: "factual" for item in key.items}
    write_labels(copied / "labels.csv", key, labels_without_errors)
    seal_files(copied)  # so that the hash of the changed file is right

    assert "give other corrected scores" in refusals(copied)["CORRECTION_CHANGED"]


def test_missing_labels_are_refused(copied):
    """Nobody could compute the correction again."""
    (copied / "labels.csv").unlink()

    assert "FILE_MISSING" in refusals(copied)


def test_sheet_of_hand_picked_samples_is_refused(sample_run, certificate, labelled_sheet, tmp_path):
    """A forger could choose samples on which the model is right; here one sample is left out."""
    key_path, _labels_path = labelled_sheet
    key = read_key(key_path)
    unit_to_leave_out = key.items[0].unit
    kept_items = [item for item in key.items if item.unit != unit_to_leave_out]
    items = tuple(replace(item, number=number) for number, item in enumerate(kept_items, start=1))
    forged_key = replace(key, items=items).with_sheet_id()
    forged_key_path = tmp_path / "chosen.key.json"
    forged_key_path.write_text(json.dumps(asdict(forged_key)))
    forged_labels = tmp_path / "chosen.csv"
    write_labels(forged_labels, forged_key, {item.number: item.options[0] for item in items})
    options = PackOptions(
        MODEL, certificate=certificate, key=forged_key_path, labels=(forged_labels,)
    )

    message = "the samples on its sheet are not those that its seed draws"
    with pytest.raises(DataError, match=message):
        pack([sample_run], options, tmp_path / "out")


def test_a_key_without_labels_is_refused(sample_run, certificate, labelled_sheet, tmp_path):
    """The key says which answers people labelled, but not how."""
    key, _ = labelled_sheet
    options = PackOptions(MODEL, certificate=certificate, key=key)

    with pytest.raises(ConfigError, match="--key and --labels: give both"):
        pack([sample_run], options, tmp_path)


def test_a_submission_without_labels_is_accepted(honest):
    submission = read_submission(honest)

    assert submission.key is None
    assert submission.labels == ()
    assert refusals(honest) == {}
