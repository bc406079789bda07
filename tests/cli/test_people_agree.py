"""``lm-factuality people agree`` as a user types it."""

from __future__ import annotations

import json

import pytest

from lm_factuality.cli import main
from tests.conftest import REPOSITORY

HEADER = "model,index,factscore,d_factscore,num_biographies,num_entities"
PEOPLE = [("llama", i, 0.9, 0.5 + 0.1 * i, 1 + i % 2, 2) for i in range(4)] + [
    ("tulu", i, 0.8, 0.1 * i, 1, 1 + i % 2) for i in range(4)
]


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(
        "\n".join([HEADER, *(",".join(map(str, row)) for row in PEOPLE)]), encoding="utf-8"
    )
    return path


@pytest.fixture
def results(tmp_path):
    """One file a model; llama's D-FActScore is 0.1 higher than people's, tulu's the other way
    round."""
    paths = []
    for model in ("llama", "tulu"):
        lines = [
            {
                "index": i,
                "name": f"n{i}",
                "factscore": fs,
                "num_biographies": bio,
                "num_entities": ent,
                "d_factscore": d + 0.1 if model == "llama" else 0.5 - d,
            }
            for each, i, fs, d, bio, ent in PEOPLE
            if each == model
        ]
        paths.append(tmp_path / f"verdicts_{model}.jsonl")
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return paths


def test_tables(people, results, tmp_path, capsys):
    arguments = [
        "--auto",
        f"llama={results[0]}",
        f"tulu={results[1]}",
        "--json",
        str(tmp_path / "out.json"),
    ]
    figures = str(REPOSITORY / "configs" / "reproduce" / "people_figures.yaml")
    assert main(["people", "agree", "--human", str(people), *arguments, "--with", figures]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for row in (
        "llama people 4 65.0 90.0 1.50 2.00",
        "llama judge 4 75.0 90.0",
        "ChatGPT people, table 3a 92.1 98.3 2.2 2.3",
    ):
        assert row in output
    assert "Overall, table 5 0.751 0.927" in output
    cells = {
        (each["table"], *each["row"], each["column"]): each["measure"]["value"]
        for each in json.loads((tmp_path / "out.json").read_text())
    }
    assert cells["correlations", "llama", "D-FActScore"] == pytest.approx(1)
    assert cells["correlations", "tulu", "D-FActScore"] == pytest.approx(-1)
    assert cells["correlations", "tulu", "Biographies"] is None
    assert cells["correlations", "Overall", "Biographies"] == pytest.approx(1)
    assert cells["ranks", "D-FActScore"] == 1.0


def test_decisions_beside_people(shared, people, capsys):
    decisions = shared / "data" / "ambigbio" / "decisions"
    arguments = [
        f"{name}={decisions / file}__ambig.json.gz"
        for name, file in (("llama", "llama2-13b-chat"), ("tulu", "chatgpt-0301"))
    ]
    assert main(["people", "agree", "--human", str(people), "--auto", *arguments]) == 0
    assert "llama judge 4 " in " ".join(capsys.readouterr().out.split())


def test_one_file_is_of_the_one_model(people, results, capsys):
    lines = people.read_text(encoding="utf-8").split("\n")
    people.write_text(
        "\n".join(line for line in lines if not line.startswith("tulu")), encoding="utf-8"
    )
    assert main(["people", "agree", "--human", str(people), "--auto", str(results[0])]) == 0
    assert "llama judge 4 75.0 90.0" in " ".join(capsys.readouterr().out.split())
    assert main(["people", "agree", "--human", str(people), "--auto", *map(str, results)]) == 1
    assert "no results of 'llama'" in capsys.readouterr().err


def test_the_authors_annotations_are_a_source(people, results, tmp_path, monkeypatch, capsys):
    """By its name, from a folder of data; a column that is called otherwise is told with those that
    are there."""
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "human_eval_result.csv"
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(file.parent))
    arguments = [
        "people",
        "agree",
        "--human",
        "ambigbio_people",
        "--auto",
        f"llama={results[0]}",
        f"tulu={results[1]}",
    ]
    file.write_text(people.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(arguments) == 0
    file.write_text("Model,Idx,FS\nllama,0,1\n", encoding="utf-8")
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "human_eval_result.csv: no column index or name, model, factscore, d_factscore" in error
    assert "found Model, Idx, FS" in error
    assert "--columns YAML" in error
    columns = {"model": "Model", "index": "Idx", "name": None, "factscore": "FS"}
    columns |= dict.fromkeys(("d_factscore", "num_biographies", "num_entities"))
    (tmp_path / "columns.yaml").write_text(json.dumps(columns), encoding="utf-8")
    file.write_text("Model,Idx,FS\nllama,0,1\nllama,1,0.5\n", encoding="utf-8")
    assert main([*arguments, "--columns", str(tmp_path / "columns.yaml")]) == 0
    assert "llama people 2 75.0" in " ".join(capsys.readouterr().out.split())


def test_either_a_sheet_or_measurements(people, capsys):
    for arguments in (
        [],
        ["--human", str(people)],
        ["--human", str(people), "--auto", "x", "--key", "k"],
    ):
        assert main(["people", "agree", *arguments]) == 1
        assert (
            "expected --key and --labels of a sheet, or --human and --auto"
            in capsys.readouterr().err
        )
