"""What is known of the published files: data, shown by the report and on a page of the
documentation."""

from __future__ import annotations

from bench.real.known import to_table
from bench.real.model import NAME
from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL
from factor_gen.audit.read import read_benchmark
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


def test_the_most_central_choice_is_as_the_audit_has_it(shared, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))
    audit = audit_rows(read_benchmark("expert_factor").rows)
    assert (
        round(100 * audit.baseline(CENTRAL).picks.value, 1)
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
