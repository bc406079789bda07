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
from tests.people.conftest import answers

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
    ana_labels = answers(sheet.key, "Ana")
    ben_labels = answers(sheet.key, "Ben")
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


def test_agreement_is_printed_beside_published_figures(agree_command, capsys):
    """A reader can tell whether an agreement is as high as in papers."""
    exit_code = main([*agree_command, "--with", str(PUBLISHED_FIGURES)])

    assert exit_code == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "segment all" in output
    assert "segment science" in output
    assert "Ana again" in output
    assert "(people together) (judge)" in output
    assert "91.3" in output  # a published figure
    assert "Shares count items by their weights" in output


@pytest.fixture
def written_cells(agree_command, tmp_path):
    """Return the measures that the command writes as JSON, by table, row and column."""
    path = tmp_path / "agreement.json"
    assert main([*agree_command, "--json", str(path)]) == 0
    return {
        (cell["table"], *cell["row"], cell["column"]): cell["measure"]
        for cell in json.loads(path.read_text())
    }


@pytest.mark.parametrize("partner", ["(judge)", "Ana again"])
def test_full_agreement_is_written_as_one(written_cells, partner):
    """Ana says what the judge says, and repeats her answers."""
    agreement = written_cells["pairs", "segment", "all", "Ana", partner, "agreement, %"]

    assert agreement["value"] == 1


def test_partial_agreement_is_written_as_a_share(written_cells):
    """Ben differs from Ana on every ninth item."""
    agreement = written_cells["pairs", "segment", "all", "Ana", "Ben", "agreement, %"]

    assert 0.5 < agreement["value"] < 1


def test_people_and_judge_have_the_same_mean_if_the_majority_agrees_with_the_judge(written_cells):
    """Items on which Ana and Ben differ have no majority and are left out."""
    means = {}
    for cells, measure in written_cells.items():
        if cells[0] == "means" and cells[-1] == "Segments with errors":
            _table, _model, who, _column = cells
            means[who] = measure["value"]

    # Two people decide an item only if both agree, and Ana agrees with the judge.
    assert means["people"] == means["judge"]
    assert means["judge"] > 0


def test_results_with_changed_samples_are_refused(runs, label_options, tmp_path, capsys):
    """Labels were given to other texts, so a comparison would mean nothing."""
    changed_runs = tmp_path / "changed"
    shutil.copytree(runs, changed_runs)
    for samples_path in changed_runs.rglob("samples_gen_*.jsonl"):
        samples_path.write_text(samples_path.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    exit_code = main(["people", "agree", *label_options, "--results", str(changed_runs)])

    assert exit_code == 1
    assert "without the samples of the sheet's gen (SHA-256" in capsys.readouterr().err
