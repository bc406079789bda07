"""What is known of the published files: data, shown by the report and on a page of the
documentation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.real.known import to_table
from bench.real.model import NAME
from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL
from factor_gen.audit.read import read_benchmark
from lm_factuality.benchmarks import find_source
from lm_factuality.benchmarks.factor import metrics as known
from lm_factuality.report.build import build_report
from lm_factuality.results.read import read_results_file
from tests.conftest import REPOSITORY
from tests.report.results import factor_task, write_results

CASES = [
    (source, spacing)
    for source, spacings in known.KNOWN.items()
    for spacing, found in spacings.items()
    if isinstance(found, dict)
]


def result(folder, source: str | None, spacing: str | None):
    task = factor_task([True, False])
    task["metadata"]["data"] = {
        "git_blob": "0",
        **({"source": source} if source else {"file": "mine.csv"}),
    }
    task["metadata"]["spacing"] = spacing
    return read_results_file(write_results(folder, {"expert_factor": task})).tasks[0]


@pytest.mark.parametrize(("source", "spacing"), CASES)
def test_every_entry_is_of_a_published_file_and_whole(tmp_path, source, spacing):
    found = known.known_of(result(tmp_path, source, spacing))
    assert found is not None
    assert found["rows"] <= find_source(source).rows
    assert found["lot"] < 25 < 50 < found["classifier_pairs"]
    assert found["central"] > 80


@pytest.mark.parametrize(
    ("source", "spacing"), [(None, None), ("wiki_factor", None), ("news_factor", "normalised")]
)
def test_nothing_is_said_of_other_files(tmp_path, source, spacing):
    assert known.known_of(result(tmp_path, source, spacing)) is None


def test_a_task_that_does_not_say_its_spacing_is_as_published(tmp_path):
    task = result(tmp_path, "expert_factor", None)
    assert known.known_of(task)["only_true_spaced"] == 148
    assert (
        known.known_of(replace(task, metadata={**task.metadata, "spacing": "normalised"}))[
            "only_true_spaced"
        ]
        == 0
    )


def test_the_most_central_choice_is_as_the_audit_has_it(shared, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))
    audit = audit_rows(read_benchmark("expert_factor").rows)
    assert (
        round(100 * audit.baseline(CENTRAL).accuracy, 1)
        == known.KNOWN["expert_factor"]["published"]["central"]
    )


def test_the_report_says_it_of_a_published_file_alone(tmp_path):
    for number, source in enumerate(("expert_factor", None)):
        result(tmp_path / str(number), source, None)
        build_report([tmp_path / str(number)], tmp_path / f"report{number}")
    said, unsaid = (
        (tmp_path / f"report{number}" / "factor.html").read_text(encoding="utf-8")
        for number in (0, 1)
    )
    assert "the true one in 84.3%" in said
    assert "148 rows only the true completion" in " ".join(said.split())
    assert "most central" not in unsaid


def test_the_page_has_the_same_table():
    assert to_table(known.KNOWN, NAME) in (REPOSITORY / "docs" / "known.md").read_text(
        encoding="utf-8"
    )
