"""``factor-gen audit`` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from factor_gen.cli import main
from tests.conftest import TASKS
from tests.factor_gen.audit.rows import on_true, synthetic

_NAMES = [
    "doc_id",
    "turncated_prefixes",
    "completion",
    "contradiction_0",
    "contradiction_1",
    "contradiction_2",
]


def _records(count: int = 40) -> list[dict[str, Any]]:
    """Rows of the authors' columns in which the true one has a space before its full stop, and what
    other tools add."""
    rows = synthetic(count, on_true(lambda text: text.replace(".", " .")))
    return [
        {
            **dict(zip(_NAMES, (row.doc_id, row.prefix, *row.choices), strict=True)),
            "contradiction_0_type": "entity",
            "contradiction_1_type": "entity",
            "contradiction_2_type": "link",
            "contradiction_0_edit": "a -> b",
            "note": ' "x", NA ',
        }
        for row in rows
    ]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "leaky.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(_records(1)[0]))
        writer.writeheader()
        writer.writerows(_records())
    return path


def test_everything_found_is_printed_and_written(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = tmp_path / "all.json"

    code = main(["audit", str(table), "--json", str(everything)])

    assert code == 0
    assert "gives true completions away: most words" in capsys.readouterr().out
    found = json.loads(everything.read_text(encoding="utf-8"))
    assert "most spaces before punctuation" in found["leaks"]
    assert found["types"] == {"entity": 80, "link": 40}
    assert found["flags"][0]["location"].startswith("leaky.csv:")


def test_strict_fails_where_something_is_found(table: Path, tmp_path: Path) -> None:
    sound = tmp_path / "sound.csv"
    sound.write_text(table.read_text(encoding="utf-8").replace(" .", "."), encoding="utf-8")

    assert main(["audit", str(table), "--strict"]) == 1
    assert main(["audit", str(sound), "--strict"]) == 0


def test_a_task_yaml(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = tmp_path / "leaky.yaml"
    content = {
        "include": str(TASKS / "factor" / "_factor.yaml"),
        "task": "leaky",
        "dataset_path": table.name,
    }
    task.write_text(yaml.safe_dump(content), encoding="utf-8")
    everything = tmp_path / "all.json"
    options = ["--sample", "20", "--json", str(everything), "--verbose"]
    assert main(["audit", str(task), *options]) == 0
    assert all(
        each["rows"] == 20
        for each in json.loads(everything.read_text(encoding="utf-8"))["baselines"]
    )
    shown = capsys.readouterr().out
    assert "20 of 40 rows" in shown
    (entities,) = (line.split() for line in shown.splitlines() if line.strip().startswith("entity"))
    assert entities[1] == "66.7%"  # the file's own types


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "missing.csv: no such file"),
        (["rows.txt"], "is not a task, group, YAML or data file"),
        (["no_such_factor"], "is not a task, group, YAML or data file"),
        (["felm_segment_cot"], "no FACTOR task"),
        (["{folder}"], "is not a task, group, YAML or data file"),
        (["{table}", "--types"], "--types asks a judge: name it by --judge"),
    ],
)
def test_errors_say_what_to_do(
    table: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["audit", *(each.format(table=table, folder=table.parent) for each in arguments)]) == 1
    )
    assert message in capsys.readouterr().err


def test_the_published_name_is_found_in_the_data_folder(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))
    assert main(["audit", "expert_factor", "--sample", "60"]) == 0
    short = capsys.readouterr().out.splitlines()
    assert len(short) == 3  # the conclusion first
    assert short[0].startswith("expert_factor: gives true completions away: ")
    assert main(["audit", "expert_factor", "--sample", "60", "--verbose"]) == 0
    assert "148" in capsys.readouterr().out


def test_lines_that_cannot_be_read_are_named(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(table.read_text(encoding="utf-8") + "one,two\n", encoding="utf-8")
    assert main(["audit", str(table), "--sample", "20", "--verbose"]) == 0
    assert "lines that cannot be read and are left out: 1" in capsys.readouterr().out
