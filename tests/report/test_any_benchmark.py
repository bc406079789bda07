"""Reports show a benchmark of another package, and browse and compare its rows if it has some."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lm_factuality import benchmarks
from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    Benchmark,
    Page,
    Rescorer,
    SampleDisplay,
    Score,
    Scoring,
)
from lm_factuality.benchmarks.rows import SampleRow, mean_counts, row_key
from lm_factuality.report.build import build_report
from lm_factuality.scores.statistics import Aggregation, mean
from tests.report.conftest import HOSTILE, open_page_at
from tests.report.results import factor_task, write_results
from tests.report.test_browser import texts, wait
from tests.report.test_build import data_of, pages_of, read

CAPITALS = Benchmark(
    kind="capitals",
    title="Capitals",
    scoring=Scoring(
        headlines=("capital_acc",),
        scores=(
            Score("capital_acc", Aggregation(mean), ACCURACY, "Accuracy"),
            Score("unscored", Aggregation(mean)),
        ),
        keep_row=dict,
        make_rescorer=lambda task, rows: Rescorer(dict),
        unscored_unit="answers",
    ),
)


def to_row(result, sample):
    """Return a sample as reports show it: texts about its country, the answer and two scores."""
    country = sample["doc"]["country"]
    is_right = sample["capital_acc"]
    return SampleRow(
        key=row_key(sample, country),
        cluster=country,
        title=country,
        doc={"id": country, "country": country, "known": ["one", "two"]},
        outcome="right" if is_right else "wrong",
        margin=is_right,
        facets=(),
        detail={"its_answer": sample["answer"]},
        score_counts={"capital_acc": mean_counts(is_right), "of_vowels": mean_counts(is_right)},
    )


@pytest.fixture
def declare(monkeypatch):
    """Return a function that declares a benchmark as an installed package does."""

    class EntryPoint:
        name = "capitals"
        value = "capitals:BENCHMARK"
        dist = None

        def __init__(self, benchmark):
            self.benchmark = benchmark

        def load(self):
            return self.benchmark

    def declare_benchmark(benchmark):
        benchmarks.all_benchmarks.cache_clear()
        monkeypatch.setattr(benchmarks, "entry_points", lambda group: [EntryPoint(benchmark)])

    yield declare_benchmark
    benchmarks.all_benchmarks.cache_clear()


def write_run(folder, model, accuracies):
    """Write a run on the capitals, of the accuracy of each row, and on FACTOR."""
    samples = [
        {
            "doc_id": number,
            "doc": {"country": f"{HOSTILE} {number}"},
            "filter": "none",
            "capital_acc": accuracy,
            "answer": f"answer {number}",
        }
        for number, accuracy in enumerate(accuracies)
    ]
    task = {
        "results": {"capital_acc,none": sum(accuracies) / 3, "unscored,none": 2.0},
        "samples": samples,
        "metadata": {"suite_version": "0.2.0", "benchmark": "capitals"},
    }
    tasks = {"capitals": task, "my_factor": factor_task([True, False])}
    write_results(folder, tasks, model)


@pytest.fixture
def capitals_runs(runs):
    """Write the runs of two models, of which the first is right more often."""
    write_run(runs / "r0", "org/m0", [1.0, 1.0, 0.0])
    write_run(runs / "r1", "org/m1", [1.0, 0.0, 0.0])
    return runs


def test_scores_have_a_page_without_declaring_a_page(capitals_runs, out, declare):
    """A package has to declare only its scores; the models have 2 of 3 and 1 of 3 rows right."""
    declare(CAPITALS)

    build_report([capitals_runs], out)

    page = read(out, "capitals.html")
    assert "capitals.html" in pages_of(out)
    assert "66.7" in read(out, "index.html")
    assert "<h1>Capitals</h1>" in page
    assert re.search(r"66\.7.*33\.3", page, re.DOTALL)
    assert "<small>answers</small>" in page


def test_page_of_another_benchmark_follows_pages_of_the_suite(capitals_runs, out, declare):
    declare(CAPITALS)

    build_report([capitals_runs], out)

    pages = ("index.html", "factor.html", "capitals.html", "compare.html", "samples.html")
    assert pages_of(out) == pages


def test_samples_without_declared_rows_are_not_browsable(capitals_runs, out, declare):
    """The report does not know what the fields of the samples mean."""
    declare(CAPITALS)

    build_report([capitals_runs], out)

    assert '"capitals"' not in read(out, "samples.html")


def test_models_are_compared_by_the_counts_of_declared_rows(capitals_runs, out, declare):
    """The score ``of_vowels`` is compared as well, although no results file has it."""
    page = Page(samples=SampleDisplay(to_row))
    declare(replace(CAPITALS, page=page))

    build_report([capitals_runs], out)

    comparisons = data_of(out, "pairs.m0")["m1"]["t0"]
    value_of_m0, value_of_m1, difference = 0.666667, 0.333333, 0.333333
    assert [comparison[:4] for comparison in comparisons] == [
        ["capital_acc", value_of_m0, value_of_m1, difference],
        ["of_vowels", value_of_m0, value_of_m1, difference],
    ]


def test_page_can_have_a_custom_name_and_sentence(capitals_runs, out, declare):
    """The sentence says what the benchmark asks."""
    page = Page(samples=SampleDisplay(to_row), name="places", lead="Where is it?")
    declare(replace(CAPITALS, page=page))

    build_report([capitals_runs], out)

    assert "Where is it?" in read(out, "places.html")


def test_rows_without_a_view_are_shown_as_plain_texts(capitals_runs, out, declare, browser):
    """Each text has the name of its key as heading, and markup in it is shown as text."""

    def to_row_of_three_texts(result, sample):
        doc = {"id": "the row", "country": HOSTILE, "known": ["one", "two"]}
        return replace(to_row(result, sample), doc=doc, detail={"its_answer": "Paris"})

    declare(replace(CAPITALS, page=Page(samples=SampleDisplay(to_row_of_three_texts))))
    build_report([capitals_runs], out)
    samples_page = (out / "samples.html").as_uri()

    open_page_at(browser, f"{samples_page}#task=t0&model=m0")

    wait(browser, lambda: browser.find_elements("css selector", ".side .part"))
    assert texts(browser, ".side .part h4") == ["Country", "Known", "Its answer"]
    country, _known, answer = browser.find_elements("css selector", ".side .part")
    assert HOSTILE in country.get_attribute("textContent")
    assert "Paris" in answer.text
    # The hostile text has an image, which must not become one of the page.
    assert not browser.find_elements("css selector", "main img")
