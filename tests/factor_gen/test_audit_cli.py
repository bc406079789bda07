"""The command ``factor-gen audit``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from factor_gen.cli import main
from tests.conftest import TASKS
from tests.factor_gen.audit.rows import edit_completion, synthetic_rows


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a file of 40 rows in which the true completion often has a space before its full stop.

    The file has the authors' columns, and columns that other tools may add.
    """
    records = []
    for row in synthetic_rows(40, edit_completion(lambda text: text.replace(".", " ."))):
        completion, *contradictions = row.choices
        record = {
            "doc_id": row.doc_id,
            "turncated_prefixes": row.prefix,
            "completion": completion,
        }
        for number, contradiction in enumerate(contradictions):
            record[f"contradiction_{number}"] = contradiction
        record["contradiction_0_type"] = "entity"
        record["contradiction_1_type"] = "entity"
        record["contradiction_2_type"] = "link"
        record["contradiction_0_edit"] = "a -> b"
        record["note"] = ' "x", NA '
        records.append(record)

    path = tmp_path / "leaky.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return path


def test_the_audit_prints_its_conclusion(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A space before the full stop splits it off, so that true completions have the most words."""
    exit_code = main(["audit", str(table)])

    assert exit_code == 0
    assert "gives true completions away: most words" in capsys.readouterr().out


def test_the_audit_writes_leaks_types_and_flags_as_json(table: Path, tmp_path: Path) -> None:
    """Each of the 40 rows has two entity errors and a link error."""
    path = tmp_path / "all.json"

    main(["audit", str(table), "--json", str(path)])

    audit = json.loads(path.read_text(encoding="utf-8"))
    assert "most spaces before punctuation" in audit["leaks"]
    assert audit["types"] == {"entity": 40 * 2, "link": 40 * 1}
    assert audit["flags"][0]["location"].startswith("leaky.csv:")


def test_strict_audit_fails_on_a_leak(table: Path) -> None:
    """A script stops the publication of such a benchmark by the exit code."""
    exit_code = main(["audit", str(table), "--strict"])

    assert exit_code == 1


def test_strict_audit_passes_without_leaks(table: Path, tmp_path: Path) -> None:
    """With ``--strict``, scripts can refuse a benchmark that leaks.

    Here the planted spaces are removed.
    """
    sound = tmp_path / "sound.csv"
    sound.write_text(table.read_text(encoding="utf-8").replace(" .", "."), encoding="utf-8")

    exit_code = main(["audit", str(sound), "--strict"])

    assert exit_code == 0


@pytest.fixture
def task(table: Path, tmp_path: Path) -> Path:
    """Return the YAML of a task of lm_eval that reads the table."""
    content = {
        "include": str(TASKS / "factor" / "_factor.yaml"),
        "task": "leaky",
        "dataset_path": table.name,
    }
    path = tmp_path / "leaky.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_the_yaml_of_a_task_can_be_audited_with_a_sample(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users know their task by its YAML; a sample is quicker."""
    path = tmp_path / "all.json"

    exit_code = main(["audit", str(task), "--sample", "20", "--json", str(path), "--verbose"])

    assert exit_code == 0
    assert "20 of 40 rows" in capsys.readouterr().out
    audit = json.loads(path.read_text(encoding="utf-8"))
    assert {baseline["rows"] for baseline in audit["baselines"]} == {20}


def test_a_verbose_audit_prints_the_error_types_of_the_file(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of the three contradictions of each row are entity errors, which makes 66.7%."""
    main(["audit", str(task), "--sample", "20", "--verbose"])

    lines = capsys.readouterr().out.splitlines()
    [entity_line] = [line for line in lines if line.strip().startswith("entity")]
    _error_type, share, *_ = entity_line.split()
    assert share == "66.7%"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing.csv", "missing.csv: no such file"),
        ("rows.txt", "is not a task, group, YAML or data file"),
        ("no_such_factor", "is not a task, group, YAML or data file"),
        ("felm_segment_cot", "no FACTOR task"),
    ],
)
def test_unsuitable_target_is_refused(
    target: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names what is expected, or that the task is of another benchmark."""
    exit_code = main(["audit", target])

    assert exit_code == 1
    assert message in capsys.readouterr().err


@pytest.fixture
def task_with_a_loop(table: Path) -> Path:
    """Return the YAML of a task on the table, whose template has a loop."""
    path = table.with_name("looped.yaml")
    config = {
        "include": str(TASKS / "factor" / "_factor.yaml"),
        "task": "looped",
        "dataset_path": str(table),
        "task_alias": "{% for digit in [1] %}{{ digit }}{% endfor %}",
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_task_with_code_is_refused_without_the_option(
    task_with_a_loop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Templates of strangers can do more than read columns."""
    exit_code = main(["audit", str(task_with_a_loop)])

    assert exit_code == 1
    assert "add --run-code" in capsys.readouterr().err


def test_task_with_code_is_audited_with_the_option(task_with_a_loop: Path) -> None:
    """A template with a loop is refused otherwise, since a YAML may come from somebody else."""
    exit_code = main(["audit", str(task_with_a_loop), "--sample", "20", "--run-code"])

    assert exit_code == 0


def test_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark in a folder is audited by one of its files."""
    exit_code = main(["audit", str(tmp_path)])

    assert exit_code == 1
    assert "is not a task, group, YAML or data file" in capsys.readouterr().err


def test_error_types_need_a_judge(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file states its writer's types, and the option asks for an independent opinion."""
    exit_code = main(["audit", str(table), "--types"])

    assert exit_code == 1
    assert "--types asks a judge: name it by --judge" in capsys.readouterr().err


@pytest.fixture
def published_data(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the names of published benchmarks stand for the files in the folder of the data."""
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))


@pytest.mark.usefixtures("published_data")
def test_a_published_benchmark_is_audited_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The three lines of the summary begin with the conclusion, here that the benchmark leaks."""
    exit_code = main(["audit", "expert_factor", "--sample", "60"])

    lines = capsys.readouterr().out.splitlines()
    assert exit_code == 0
    assert len(lines) == 3
    assert lines[0].startswith("expert_factor: gives true completions away: ")


@pytest.mark.usefixtures("published_data")
def test_a_verbose_audit_prints_how_many_rows_are_flagged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All 236 rows are looked at for flags. The sample is only for baselines."""
    exit_code = main(["audit", "expert_factor", "--sample", "60", "--verbose"])

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert exit_code == 0
    assert "rows to look at: 152 of 236" in lines
    [spacing_line] = [
        line
        for line in lines
        if line.startswith("only the true one has a space before punctuation")
    ]
    assert " 148 62.7% " in spacing_line


def test_unreadable_lines_are_counted(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An audit of half of a file must say so."""
    with table.open("a", encoding="utf-8") as file:
        file.write("one,two\n")

    exit_code = main(["audit", str(table), "--sample", "20", "--verbose"])

    assert exit_code == 0
    assert "lines that cannot be read and are left out: 1" in capsys.readouterr().out
