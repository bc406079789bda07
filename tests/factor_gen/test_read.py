"""The command ``factor-gen read``: blind sheets of several benchmarks, and what readers found."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from factor_gen.cli import main
from lm_factuality.people.labels import read_key
from tests.conftest import example_row

NUM_ROWS = 6
BUILD = 0
"""The number of the build in the key of a sheet, since it is the first benchmark."""
OTHER_BENCHMARK = 1


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
    """Return the name of a sheet with four rows of a build and four of another benchmark.

    Rules made the contradictions of the build, and a model those of the other benchmark.
    """
    build = write_benchmark(tmp_path / "secret_build" / "ours.csv", "rules/noun").parent
    other = write_benchmark(tmp_path / "secret_other.csv", "llm")
    out = tmp_path / "sheets" / "sheet"

    arguments = ["read", str(build), "--beside", str(other), "--rows", "4", "--out", str(out)]
    assert main(arguments) == 0
    return out


def read_lines(sheet: Path) -> list[dict[str, object]]:
    """Return the lines of a sheet for readers in a terminal."""
    text = sheet.with_suffix(".jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def answer(sheet: Path, person: str, verdict_by_generator: dict[str, str]) -> Path:
    """Answer all items of a sheet by the generator of the contradiction, and return the file."""
    path = sheet.parent / f"{person}.jsonl"
    lines = []
    for item in read_key(sheet.with_suffix(".key.json")).items:
        verdict = verdict_by_generator[item.strata["generator"]]
        label = {"id": f"{sheet_id(sheet)}-{item.number}", "verdict": verdict, "reason": "so"}
        lines.append(json.dumps(label) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def sheet_id(sheet: Path) -> str:
    """Return the id of a sheet."""
    return read_key(sheet.with_suffix(".key.json")).sheet


def report(sheet: Path, capsys: pytest.CaptureFixture[str], *labels: Path) -> str:
    """Return what the command prints about the answers of readers."""
    capsys.readouterr()
    arguments = ["read", "secret_build", "--out", str(sheet), "--labels", *map(str, labels)]
    assert main(arguments) == 0
    return capsys.readouterr().out


def bad_shares(report: str) -> dict[str, str]:
    """Return the shares of bad contradictions in a report.

    The keys name a benchmark and a group of its contradictions, such as ``build, type entity``.
    """
    # A line of the table has the path of a benchmark, a group, the number of contradictions that
    # were read, and the share of bad ones.
    line = re.compile(r"/secret_(build|other)(?:\.csv)?  +(\S.*?)  +\d+  +(\S+%)")
    return {f"{match[1]}, {match[2]}": match[3] for match in line.finditer(report)}


def test_sheet_has_equally_many_rows_of_each_benchmark(sheet):
    """The option ``--rows 4`` asks for four rows. An item is one of the three contradictions."""
    key = read_key(sheet.with_suffix(".key.json"))

    rows_of_build = {item.unit for item in key.items if item.source == BUILD}
    rows_of_other_benchmark = {item.unit for item in key.items if item.source == OTHER_BENCHMARK}
    assert len(rows_of_build) == 4
    assert len(rows_of_other_benchmark) == 4
    assert len(key.items) == (4 + 4) * 3


def test_sheet_hides_the_origin_of_rows(sheet):
    """Readers who know which sentences are ours would judge them otherwise.

    So names of files, generators and error types are left out, and so is the spacing of one
    benchmark.
    """
    for ending in (".html", ".csv", ".jsonl"):
        text = sheet.with_suffix(ending).read_text(encoding="utf-8")
        for word in ("secret", "rules/noun", "llm", "coreference", "sailors ."):
            assert word not in text


def test_lines_for_a_terminal_begin_with_the_question(sheet):
    """A program can show the question and its verdicts before the first item."""
    question, first_item, *_ = read_lines(sheet)

    verdicts = question["questions"]["verdict"]["verdicts"]
    assert set(verdicts) == {"good", "compatible", "not_fluent", "other", "skip"}
    assert first_item["id"] == f"{sheet_id(sheet)}-1"
    assert set(first_item["evidence"]) == {"The true sentence", "Text before"}


def test_the_report_has_the_share_of_bad_contradictions_of_each_group(sheet, capsys):
    """Ann calls all contradictions of the build bad, and all of the other benchmark good."""
    verdict_by_generator = {"rules/noun": "compatible", "llm": "good"}
    labels = answer(sheet, "ann", verdict_by_generator)

    text = report(sheet, capsys, labels)

    assert bad_shares(text) == {
        "build, all": "100.0%",
        "build, generator rules/noun": "100.0%",
        "build, type coreference": "100.0%",
        "build, type entity": "100.0%",
        "other, all": "0.0%",
        "other, generator llm": "0.0%",
        "other, type coreference": "0.0%",
        "other, type entity": "0.0%",
    }


def test_readers_have_equal_weight(sheet, capsys):
    """Both call the contradictions by rules bad. Only Ben calls those of the model bad."""
    ann = answer(sheet, "ann", {"rules/noun": "compatible", "llm": "good"})
    ben = answer(sheet, "ben", {"rules/noun": "not_fluent", "llm": "other"})

    shares = bad_shares(report(sheet, capsys, ann, ben))

    assert shares["build, all"] == "100.0%"
    assert shares["other, all"] == "50.0%"


def test_the_report_has_the_agreement_of_readers(sheet, capsys):
    """They agree on the build, which has half of the items. Two bad verdicts count as one."""
    ann = answer(sheet, "ann", {"rules/noun": "compatible", "llm": "good"})
    ben = answer(sheet, "ben", {"rules/noun": "not_fluent", "llm": "other"})

    text = report(sheet, capsys, ann, ben)

    # The columns are the question, the group, the items, the readers and the agreement in percent.
    assert re.search(r"verdict +all +24 +2 +50\.0 \(", text)


def test_answers_of_another_sheet_are_refused(sheet, capsys):
    """The numbers of its items stand for other sentences."""
    labels = answer(sheet, "ann", {"rules/noun": "good", "llm": "good"})
    labels.write_text(labels.read_text(encoding="utf-8").replace(sheet_id(sheet), "0" * 12))
    arguments = ["read", "secret_build", "--out", str(sheet), "--labels", str(labels)]

    exit_code = main(arguments)

    assert exit_code == 1
    assert f"sheet '000000000000', expected {sheet_id(sheet)}" in capsys.readouterr().err


def test_comparison_of_a_benchmark_with_itself_is_refused(tmp_path, capsys):
    """Readers compare the sentences of two benchmarks."""
    build = str(write_benchmark(tmp_path / "ours.csv", "llm"))

    exit_code = main(["read", build, "--beside", build])

    assert exit_code == 1
    assert "names a benchmark twice" in capsys.readouterr().err
