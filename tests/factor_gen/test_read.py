"""The command ``factor-gen read``: blind sheets of several benchmarks, and what readers found."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from factor_gen.cli import main
from lm_factuality.people.labels import read_key
from tests.conftest import example_row

NUM_ROWS = 6
VERDICTS = {"good", "compatible", "not_fluent", "other", "skip"}


def write_benchmark(path: Path, generator: str) -> Path:
    """Write a benchmark as factor-gen does, whose first contradiction is a coreference error."""
    columns = {f"contradiction_{number}_generator": generator for number in range(3)}
    types = dict(zip((f"contradiction_{n}_type" for n in range(3)), ["entity"] * 3, strict=True))
    types["contradiction_0_type"] = "coreference"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, example_row(**types, **columns))
        writer.writeheader()
        for number in range(NUM_ROWS):
            writer.writerow(
                example_row(
                    **types,
                    **columns,
                    doc_id=f"d{number}",
                    completion=f"Its {number} first keepers were sailors .",
                )
            )
    return path


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Return the name of a sheet with four rows of a build and four of another benchmark."""
    build = write_benchmark(tmp_path / "secret_build" / "ours.csv", "rules/noun").parent
    beside = write_benchmark(tmp_path / "secret_beside.csv", "llm")
    out = tmp_path / "sheets" / "sheet"

    arguments = ["read", str(build), "--beside", str(beside), "--rows", "4", "--out", str(out)]
    assert main(arguments) == 0
    return out


def read_lines(sheet: Path) -> list[dict[str, object]]:
    """Return the lines of a sheet for readers in a terminal."""
    text = sheet.with_suffix(".jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def answer(sheet: Path, person: str, verdicts: dict[str, str]) -> Path:
    """Answer all items of a sheet by the generator of the contradiction, and return the file."""
    path = sheet.parent / f"{person}.jsonl"
    lines = []
    for item in read_key(sheet.with_suffix(".key.json")).items:
        verdict = verdicts[item.strata["generator"]]
        label = {"id": f"{sheet_id(sheet)}-{item.number}", "verdict": verdict, "reason": "so"}
        lines.append(json.dumps(label) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def sheet_id(sheet: Path) -> str:
    """Return the id of a sheet."""
    return read_key(sheet.with_suffix(".key.json")).sheet


def report(sheet: Path, capsys: pytest.CaptureFixture[str], *labels: Path) -> str:
    """Return what the command prints of labels."""
    capsys.readouterr()
    arguments = ["read", "secret_build", "--out", str(sheet), "--labels", *map(str, labels)]
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_a_sheet_has_as_many_rows_of_each_benchmark(sheet):
    key = read_key(sheet.with_suffix(".key.json"))

    rows_of_source = {
        number: {item.unit for item in key.items if item.source == number} for number in (0, 1)
    }
    assert [len(rows) for rows in rows_of_source.values()] == [4, 4]
    assert len(key.items) == 2 * 4 * 3  # benchmarks, rows, contradictions


def test_nothing_that_readers_see_tells_the_origin(sheet):
    for ending in (".html", ".csv", ".jsonl"):
        text = sheet.with_suffix(ending).read_text(encoding="utf-8")
        for word in ("secret", "rules/noun", "llm", "coreference", "sailors ."):
            assert word not in text


def test_lines_for_a_terminal_begin_with_the_question(sheet):
    first_line, *items = read_lines(sheet)

    assert set(first_line["questions"]["verdict"]["verdicts"]) == VERDICTS
    assert items[0]["id"] == f"{sheet_id(sheet)}-1"
    assert set(items[0]["evidence"]) == {"The true sentence", "Text before"}


def test_the_report_has_the_share_of_bad_contradictions_by_source_type_and_generator(sheet, capsys):
    labels = answer(sheet, "ann", {"rules/noun": "compatible", "llm": "good"})

    lines = report(sheet, capsys, labels).splitlines()

    bad_shares = {}
    for line in lines:
        words = line.split()
        if "secret" in line and "%" in line:
            source = "beside" if "beside" in words[0] else "build"
            bad_shares[source, " ".join(words[1:-8])] = words[words.index("-") - 2]
    assert bad_shares == {
        ("build", "all"): "100.0%",
        ("build", "generator rules/noun"): "100.0%",
        ("build", "type coreference"): "100.0%",
        ("build", "type entity"): "100.0%",
        ("beside", "all"): "0.0%",
        ("beside", "generator llm"): "0.0%",
        ("beside", "type coreference"): "0.0%",
        ("beside", "type entity"): "0.0%",
    }


def test_two_readers_count_the_same_and_their_agreement_is_reported(sheet, capsys):
    ann = answer(sheet, "ann", {"rules/noun": "compatible", "llm": "good"})
    ben = answer(sheet, "ben", {"rules/noun": "not_fluent", "llm": "other"})

    text = report(sheet, capsys, ann, ben)

    all_of_beside = next(
        line for line in text.splitlines() if "secret_beside" in line and " all " in line
    )
    assert "50.0%" in all_of_beside
    # They agree that the rules' contradictions are bad, and not on the others.
    assert "50.0 (" in text.split("agreement")[1]


def test_answers_of_another_sheet_are_refused(sheet, capsys):
    labels = answer(sheet, "ann", {"rules/noun": "good", "llm": "good"})
    labels.write_text(labels.read_text(encoding="utf-8").replace(sheet_id(sheet), "0" * 12))

    arguments = ["read", "secret_build", "--out", str(sheet), "--labels", str(labels)]

    exit_code = main(arguments)

    assert exit_code == 1
    assert f"sheet '000000000000', expected {sheet_id(sheet)}" in capsys.readouterr().err


def test_a_benchmark_beside_itself_is_refused(tmp_path, capsys):
    build = str(write_benchmark(tmp_path / "ours.csv", "llm"))

    exit_code = main(["read", build, "--beside", build])

    assert exit_code == 1
    assert "names a benchmark twice" in capsys.readouterr().err
