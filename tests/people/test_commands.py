"""``people agree`` on the sheet of a run, as a user types them."""

from __future__ import annotations

import json
import shutil

import pytest

from lm_factuality.cli import main
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.conftest import REPOSITORY
from tests.people.conftest import answers


@pytest.fixture
def labelled(runs, tmp_path):
    """The key of a sheet of both models, and labels of two people, one of whom sees another thing
    in every ninth item."""
    sheet = make_sheet(read_pool([runs], "gen"), 22, ("verdict",), repeat=0.2, seed=2)
    *_, key = write_sheet(sheet, tmp_path / "sheet.html", csv_only=True)
    paths = []
    for person in ("Ana", "Ben"):
        lines = answers(sheet.key, person)
        for line in lines[3::9] if person == "Ben" else []:
            line["answer"] = "factual" if line["answer"] == "knowledge" else "knowledge"
        paths.append(tmp_path / f"{person}.csv")
        cells = [
            ",".join(
                str(line[name])
                for name in ("sheet", "number", "question", "answer", "person", "note")
            )
            for line in lines
        ]
        paths[-1].write_text(
            "\n".join(["sheet,number,question,answer,person,note", *cells]) + "\n", encoding="utf-8"
        )
    return ["--key", str(key), "--labels", *map(str, paths)]


def test_agreement_on_a_sheet(runs, labelled, tmp_path, capsys):
    arguments = [
        *labelled,
        "--by",
        "domain",
        "--results",
        str(runs),
        "--json",
        str(tmp_path / "out.json"),
    ]
    figures = str(REPOSITORY / "configs" / "reproduce" / "people_figures.yaml")
    assert main(["people", "agree", *arguments, "--with", figures]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for part in (
        "segment all",
        "segment science",
        "Ana again",
        "(people together) (judge)",
        "91.3",
        "Shares count items by their weights",
    ):
        assert part in output
    cells = {
        (each["table"], *each["row"], each["column"]): each["measure"]
        for each in json.loads((tmp_path / "out.json").read_text())
    }
    assert cells["pairs", "segment", "all", "Ana", "(judge)", "agreement, %"]["value"] == 1
    assert cells["pairs", "segment", "all", "Ana", "Ana again", "agreement, %"]["value"] == 1
    assert 0.5 < cells["pairs", "segment", "all", "Ana", "Ben", "agreement, %"]["value"] < 1
    means = {
        row[2]: measure["value"]
        for row, measure in cells.items()
        if row[0] == "means" and row[-1] == "Segments with errors"
    }
    assert (
        means["people"] == means["judge"] > 0
    )  # where most people decide, they say what the judge said


def test_changed_samples_are_refused(runs, labelled, tmp_path, capsys):
    shutil.copytree(runs, tmp_path / "changed")
    for samples in (tmp_path / "changed").rglob("samples_gen_*.jsonl"):
        samples.write_text(samples.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert main(["people", "agree", *labelled, "--results", str(tmp_path / "changed")]) == 1
    assert "without the samples of the sheet's gen (SHA-256" in capsys.readouterr().err
