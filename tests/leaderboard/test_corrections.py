"""Scores of a submission that people's labels correct: packed, checked, ranked, and refused where
they do not follow."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.site.board import render_pages, to_board
from lm_factuality.leaderboard.site.entries import to_entry
from lm_factuality.leaderboard.submission import read_submission
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.leaderboard.conftest import MODEL
from tests.leaderboard.reseal import seal_files

TASK, RATE = "sample_felm_gen", "segment_error_rate"


@pytest.fixture(scope="session")
def labels(sample_run, tmp_path_factory):
    """The key of a sheet of 40 answers, and the labels of somebody who finds every second segment
    right."""
    folder = tmp_path_factory.mktemp("labels")
    sheet = make_sheet(read_pool([sample_run], TASK), 40, ("verdict",), seed=2)
    *_, key = write_sheet(sheet, folder / "sheet.html", csv_only=True)
    path = folder / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sheet", "number", "question", "answer", "person", "note"))
        for entry in read_key(key).items:
            writer.writerow(
                (
                    sheet.key.sheet,
                    entry.number,
                    entry.question,
                    entry.options[entry.number % 2],
                    "Ana",
                    "",
                )
            )
    return key, path


@pytest.fixture(scope="session")
def corrected(sample_run, certificate, labels, tmp_path_factory):
    key, path = labels
    out = tmp_path_factory.mktemp("submissions")
    return pack(
        [sample_run], PackOptions(MODEL, certificate=certificate, key=key, labels=(path,)), out
    )


@pytest.fixture
def copied(corrected, tmp_path):
    return shutil.copytree(corrected, tmp_path / "submission")


def refusals(folder):
    return {each.code: each.sentence for each in check_submission(folder).refusals}


def test_what_is_packed_is_accepted_and_ranked_by_the_corrected_interval(corrected):
    submission = read_submission(corrected)
    assert (submission.key, submission.labels) == ("sheet.key.json", ("labels.csv",))
    checked = check_submission(corrected)
    assert not checked.refusals, checked.refusals
    entry = to_entry(checked.evidence, "one", "0" * 64)
    score = entry.scores[TASK]
    found = checked.evidence.tasks[TASK].task.corrected[RATE]
    assert score.figure.corrected == found
    assert score.sort_value == found.value != score.figure.value
    assert score.interval == (found.low, found.high)
    board = to_board([entry])
    shown = f"corrected <b>{100 * found.value:.1f}</b>"
    found = dict(render_pages(board, ""))
    assert shown in found["index.html"]
    assert shown in found[f"models/{entry.slug}.html"]


def change(folder, name, **changes):
    path = next(folder.glob(name))
    content = json.loads(path.read_text())
    for key, value in changes.items():
        content["scores"][RATE][key] = value
    path.write_text(json.dumps(content))


def test_a_better_score_than_labels_give_is_refused(copied):
    change(copied, "corrected_*.json", value=0.01, low=0.0)
    seal_files(copied)
    assert "give other corrected scores" in refusals(copied)["CORRECTION_CHANGED"]


def test_labels_that_were_changed_are_refused(copied):
    path = copied / "labels.csv"
    path.write_text(
        path.read_text().replace("knowledge", "factual").replace(",untyped,", ",factual,")
    )
    lines = path.read_text().splitlines()
    first = next(entry for entry in read_key(copied / "sheet.key.json").items)
    path.write_text(
        "\n".join([lines[0], lines[1].replace(first.options[1], first.options[0]), *lines[2:]])
        + "\n"
    )
    seal_files(copied)
    assert "give other corrected scores" in refusals(copied)["CORRECTION_CHANGED"]


def test_a_file_that_was_not_packed_is_refused(copied):
    (copied / "labels.csv").unlink()
    assert "FILE_MISSING" in refusals(copied)


def test_a_key_of_samples_that_were_chosen_is_refused(sample_run, certificate, labels, tmp_path):
    """A sheet without some of the samples that its seed draws, made whole again as the suite makes
    keys."""
    key, path = labels
    from dataclasses import asdict, replace

    known = read_key(key)
    kept = [entry for entry in known.items if entry.unit != known.items[0].unit]
    chosen = replace(
        known, items=tuple(replace(entry, number=number) for number, entry in enumerate(kept, 1))
    ).with_sheet_id()
    (tmp_path / "chosen.key.json").write_text(json.dumps(asdict(chosen)))
    rows = [line.split(",") for line in path.read_text().splitlines()]
    said = {row[1]: row[3] for row in rows[1:]}
    lines = [
        f"{chosen.sheet},{number},{entry.question},{said[str(entry.number)]},Ana,"
        for number, entry in enumerate(kept, 1)
    ]
    (tmp_path / "chosen.csv").write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    options = PackOptions(
        MODEL,
        certificate=certificate,
        key=tmp_path / "chosen.key.json",
        labels=(tmp_path / "chosen.csv",),
    )
    with pytest.raises(
        DataError, match="the samples on its sheet are not those that its seed draws"
    ):
        pack([sample_run], options, tmp_path / "out")


def test_a_key_without_labels_is_an_error(sample_run, certificate, labels, tmp_path):
    with pytest.raises(ConfigError, match="--key and --labels: give both"):
        pack([sample_run], PackOptions(MODEL, certificate=certificate, key=labels[0]), tmp_path)


def test_submissions_without_corrections_stay_as_they_were(honest):
    submission = read_submission(honest)
    assert (submission.key, submission.labels) == (None, ())
    assert not check_submission(honest).refusals
