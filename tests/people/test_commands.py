"""The command ``people agree`` as a user types it."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from lm_factuality.cli import main
from lm_factuality.people.labels import COLUMNS
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.conftest import REPOSITORY
from tests.people.conftest import labels_like_the_judge

PUBLISHED_FIGURES = REPOSITORY / "configs" / "reproduce" / "people_figures.yaml"


def write_labels(path, rows):
    """Write a file of labels."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def label_options(runs, tmp_path):
    """Return the options with a sheet's key and the labels of Ana and Ben.

    Ana agrees with the judge on every item, Ben on all but every ninth one.
    """
    sheet = make_sheet(read_pool([runs], "gen"), 22, ("verdict",), repeat=0.2, seed=2)
    *_, key = write_sheet(sheet, tmp_path / "sheet.html", csv_only=True)
    ana_labels = labels_like_the_judge(sheet.key, "Ana")
    ben_labels = labels_like_the_judge(sheet.key, "Ben")
    for label in ben_labels[3::9]:
        label["answer"] = "factual" if label["answer"] == "knowledge" else "knowledge"
    ana = tmp_path / "Ana.csv"
    ben = tmp_path / "Ben.csv"
    write_labels(ana, ana_labels)
    write_labels(ben, ben_labels)
    return ["--key", str(key), "--labels", str(ana), str(ben)]


@pytest.fixture
def agree_command(runs, label_options):
    """Return the command line that compares people and judge on the sheet and on whole answers."""
    return ["people", "agree", *label_options, "--by", "domain", "--results", str(runs)]


def test_agreement_is_printed_with_published_figures(agree_command, capsys):
    """A reader can see whether an agreement is as high as in papers."""
    exit_code = main([*agree_command, "--with", str(PUBLISHED_FIGURES)])

    assert exit_code == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "segment all Ana Ben" in output  # agreement of two people on all items
    assert "segment all Ana Ana again" in output  # and of one person with herself
    assert "segment science (people together) (judge)" in output  # and in a domain
    assert "91.3" in output  # a published figure
    assert "Shares count items by their weights" in output


@pytest.fixture
def written_cells(agree_command, tmp_path):
    """Return the cells of all tables, as the command writes them in JSON."""
    path = tmp_path / "agreement.json"
    assert main([*agree_command, "--json", str(path)]) == 0
    return json.loads(path.read_text())


def agreement_between(cells, first, second):
    """Return the share of all segments on which two people, or a person and the judge, agree."""
    for cell in cells:
        if (
            cell["table"] == "pairs"
            and cell["row"] == ["segment", "all", first, second]
            and cell["column"] == "agreement, %"
        ):
            return cell["measure"]["value"]
    raise AssertionError(f"no agreement between {first} and {second}")


def test_full_agreement_is_written_as_one(written_cells):
    """Ana says what the judge says, and gives the same answer to an item that is repeated."""
    assert agreement_between(written_cells, "Ana", "(judge)") == 1
    assert agreement_between(written_cells, "Ana", "Ana again") == 1


def test_partial_agreement_is_written_as_a_share(written_cells):
    """Ben differs from Ana on every ninth item, so they agree on about 8 of 9."""
    agreement = agreement_between(written_cells, "Ana", "Ben")

    assert 0.5 < agreement < 1


def mean_errors_of(cells, model, who):
    """Return the mean of a model's segments with errors, by "judge" or by "people"."""
    for cell in cells:
        if (
            cell["table"] == "means"
            and cell["row"] == [model, who]
            and cell["column"] == "Segments with errors"
        ):
            return cell["measure"]["value"]
    raise AssertionError(f"no mean of {model} by {who}")


def test_judge_and_people_have_equal_means_if_their_answers_are_equal(written_cells):
    """All answers that count equal the judge's: items on which Ana and Ben differ are left out."""
    mean_by_judge = mean_errors_of(written_cells, "org/hidden-1b", "judge")
    mean_by_people = mean_errors_of(written_cells, "org/hidden-1b", "people")

    assert mean_by_judge > 0
    assert mean_by_people == mean_by_judge


def test_results_with_changed_samples_are_refused(runs, label_options, tmp_path, capsys):
    """Labels were given to other texts, so a comparison would mean nothing."""
    changed_runs = tmp_path / "changed"
    shutil.copytree(runs, changed_runs)
    for samples_path in changed_runs.rglob("samples_gen_*.jsonl"):
        samples_path.write_text(samples_path.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    exit_code = main(["people", "agree", *label_options, "--results", str(changed_runs)])

    assert exit_code == 1
    assert "without the samples of the sheet's gen (SHA-256" in capsys.readouterr().err
