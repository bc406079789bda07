"""What a report says of scores of few rows, of rows without a score, and of intervals: the same
everywhere."""

from __future__ import annotations

import pytest

from lm_factuality.benchmarks.chosen import LEAST_ROWS
from lm_factuality.cli import main
from lm_factuality.report.build import build_report
from tests.report.results import factor_task, felm_task, write_results
from tests.report.test_build import read, text_of


@pytest.fixture(autouse=True)
def as_users_have_it(of_few_rows, monkeypatch):
    monkeypatch.setattr("lm_factuality.benchmarks.chosen.LEAST_ROWS", LEAST_ROWS)


def test_below_ten_rows_a_score_is_withheld_and_its_interval_is_not(tmp_path, capsys):
    assert LEAST_ROWS == 10
    write_results(
        tmp_path / "r", {"few": factor_task([True] * 9), "enough": factor_task([True] * 10)}
    )
    build_report([tmp_path / "r"], tmp_path / "out")
    for page in ("index.html", "factor.html"):
        shown = text_of(read(tmp_path / "out", page))
        assert "too few 9 rows, a score needs 10 70.1 – 100.0" in shown
        assert "100.0 72.2 – 100.0" in shown
        assert "100.0 – 100.0" not in shown
    assert main(["compare", str(tmp_path / "r")]) == 0
    output = capsys.readouterr().out
    assert "too few rows   70.1 – 100.0" in output
    assert "100.0   72.2 – 100.0" in output


def test_reasons_of_unscored_rows_are_counted_and_notes_stand_on_the_page(tmp_path):
    task = felm_task(["Answer: 2"] * 10 + ["I do not know."] * 3)
    task["results"] |= {"truncated,none": 1.0}
    task["metadata"] |= {
        "data": {"is_upstream": False, "rows": 13, "upstream_rows": 847, "git_blob": "ab"}
    }
    write_results(tmp_path / "r", {"my_felm": task})
    build_report([tmp_path / "r"], tmp_path / "out")
    for page in ("index.html", "felm.html"):
        shown = text_of(read(tmp_path / "out", page))
        assert "not the published file: 13 rows of 847, git blob ab" in shown
        assert "1 row longer than the window, whose beginning was cut off" in shown
    assert (
        "my_felm org/small-125m no answer line (try --apply_chat_template, or a larger --gen_kwargs max_gen_toks=N) 3"
        in text_of(read(tmp_path / "out", "felm.html"))
    )
