"""Scores of few rows and rows without a score, on the pages and in the terminal."""

from __future__ import annotations

import pytest

from lm_factuality.benchmarks.chosen import MIN_CLUSTERS
from lm_factuality.cli import main
from lm_factuality.report.build import build_report
from tests.report.results import factor_task, felm_task, write_results
from tests.report.test_build import read, rows_of_tables, text_of_page


@pytest.fixture(autouse=True)
def least_documents_of_users(of_few_rows, monkeypatch):
    """Restore the number of documents that a score needs, which other tests lower."""
    monkeypatch.setattr("lm_factuality.benchmarks.chosen.MIN_CLUSTERS", MIN_CLUSTERS)


@pytest.fixture
def four_and_five_rows(runs):
    """Write a run of two tasks without errors, one of 4 rows and one of 5."""
    assert MIN_CLUSTERS == 5
    write_results(runs, {"few": factor_task([True] * 4), "enough": factor_task([True] * 5)})
    return runs


@pytest.mark.parametrize("page", ["index.html", "factor.html"])
def test_pages_withhold_a_score_of_four_rows_but_not_its_interval(four_and_five_rows, out, page):
    """The model is right on all rows, and a score of 100% on four rows would mislead."""
    build_report([four_and_five_rows], out)

    cells = [cell for row in rows_of_tables(read(out, page)) for cell in row]
    assert "100.0 56.6 – 100.0" in cells  # five rows: the score and its interval
    assert "– 51.0 – 100.0" in cells  # four rows: a dash in place of the score, and the interval
    assert "100.0 51.0 – 100.0" not in cells
    text = text_of_page(out, page)
    assert text.count("Too few documents") == 1
    assert "100.0 – 100.0" not in text


def test_compare_withholds_a_score_of_four_rows_but_not_its_interval(four_and_five_rows, capsys):
    """The model is right on all rows, and a score of 100% on four rows would mislead."""
    exit_code = main(["compare", str(four_and_five_rows)])

    output = capsys.readouterr().out
    assert exit_code == 0
    assert "100.0   56.6 – 100.0" in output  # five rows: the score and its interval
    assert "too few documents   51.0 – 100.0" in output  # four rows


@pytest.mark.parametrize("page", ["index.html", "felm.html"])
def test_pages_note_data_that_is_not_published(runs, out, page):
    """Scores on other data cannot be compared with published ones."""
    task = felm_task(["Answer: 2"] * 13)
    task["metadata"]["data"] = {
        "source": "felm",
        "is_published": False,
        "rows": 13,
        "published_rows": 847,
        "git_blob": "ab",
    }
    write_results(runs, {"my_felm": task})

    build_report([runs], out)

    note = "not the published file: 13 rows of 847, git blob ab"
    assert note in text_of_page(out, page)


@pytest.mark.parametrize("page", ["index.html", "felm.html"])
def test_pages_note_truncated_rows(runs, out, page):
    """Scores on texts that were cut cannot be compared with published ones."""
    task = felm_task(["Answer: 2"] * 13)
    task["results"]["truncated,none"] = 1.0  # row
    write_results(runs, {"my_felm": task})

    build_report([runs], out)

    note = "1 row longer than the window, whose beginning was cut off"
    assert note in text_of_page(out, page)


def test_page_counts_unscored_rows_by_their_reason(runs, out):
    """Three answers have no answer line, and the reason says which option may help."""
    write_results(runs, {"my_felm": felm_task(["Answer: 2"] * 10 + ["I do not know."] * 3)})

    build_report([runs], out)

    reason = "no answer line (try --apply_chat_template, or a larger --gen_kwargs max_gen_toks=N)"
    row = ["my_felm", "org/small-125m", reason, "3"]
    assert row in rows_of_tables(read(out, "felm.html"))
