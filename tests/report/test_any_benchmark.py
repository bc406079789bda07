"""A benchmark that is only declared has its place in a report; with rows it is browsed and
compared."""

from __future__ import annotations

import json
import re
import time
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
from tests.report.conftest import HOSTILE
from tests.report.results import factor_task, write_results
from tests.report.test_build import pages_of

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
    doc, right = sample["doc"], sample["capital_acc"]
    parts = {"capital_acc": mean_counts(right), "of_vowels": mean_counts(right)}
    texts = {"id": doc["country"], "country": doc["country"], "known": ["one", "two"]}
    return SampleRow(
        row_key(sample, doc["country"]),
        doc["country"],
        doc["country"],
        texts,
        "right" if right else "wrong",
        right,
        (),
        {"its_answer": sample["answer"]},
        parts,
    )


@pytest.fixture
def declare(monkeypatch):
    """Declares the benchmark as an installed package does."""

    class Point:
        name, value, dist = "capitals", "capitals:BENCHMARK", None

        def __init__(self, declared):
            self.load = lambda: declared

    def add(declared):
        benchmarks.all_benchmarks.cache_clear()
        monkeypatch.setattr(benchmarks, "entry_points", lambda group: [Point(declared)])

    yield add
    benchmarks.all_benchmarks.cache_clear()


def write_runs(folder):
    for number, right in enumerate(([1.0, 1.0, 0.0], [1.0, 0.0, 0.0])):
        samples = [
            {
                "doc_id": place,
                "doc": {"country": f"{HOSTILE} {place}"},
                "filter": "none",
                "capital_acc": each,
                "answer": f"answer {place}",
            }
            for place, each in enumerate(right)
        ]
        task = {
            "results": {"capital_acc,none": sum(right) / 3, "unscored,none": 2.0},
            "samples": samples,
            "metadata": {"suite_version": "0.2.0", "benchmark": "capitals"},
        }
        write_results(
            folder / f"r{number}",
            {"capitals": task, "my_factor": factor_task([True, False])},
            f"org/m{number}",
        )


def test_without_a_page_of_its_own_it_has_its_scores(tmp_path, declare):
    declare(CAPITALS)
    write_runs(tmp_path)
    build_report([tmp_path], tmp_path / "out")
    assert pages_of(tmp_path / "out") == (
        "index.html",
        "factor.html",
        "capitals.html",
        "compare.html",
        "samples.html",
    )
    overview, page = (
        (tmp_path / "out" / name).read_text(encoding="utf-8")
        for name in ("index.html", "capitals.html")
    )
    assert "66.7" in overview
    assert "<h1>Capitals</h1>" in page
    assert re.search(r"66\.7.*33\.3", page, re.DOTALL)
    assert "<small>answers</small>" in page
    assert '"capitals"' not in (tmp_path / "out" / "samples.html").read_text(encoding="utf-8")


def test_with_rows_it_is_browsed_and_compared(tmp_path, declare):
    page = Page(samples=SampleDisplay(to_row), name="places", lead="Where is it?")
    declare(replace(CAPITALS, page=page))
    write_runs(tmp_path)
    build_report([tmp_path], tmp_path / "out")
    assert "Where is it?" in (tmp_path / "out" / "places.html").read_text(encoding="utf-8")
    found = json.loads(
        re.search(r",(\{.*\})\);", (tmp_path / "out" / "data" / "pairs.m0.js").read_text())[1]
    )
    assert [row[:4] for row in found["m1"]["t0"]] == [
        ["capital_acc", 0.666667, 0.333333, 0.333333],
        ["of_vowels", 0.666667, 0.333333, 0.333333],
    ]


def test_rows_without_a_view_are_their_texts(tmp_path, declare, browser):
    declare(replace(CAPITALS, page=Page(samples=SampleDisplay(to_row))))
    write_runs(tmp_path)
    build_report([tmp_path], tmp_path / "out")
    browser.get(f"{(tmp_path / 'out' / 'samples.html').as_uri()}#task=t0&model=m0")
    end = time.monotonic() + 5
    while not browser.find_elements("css selector", ".side .part") and time.monotonic() < end:
        time.sleep(0.03)
    parts = browser.find_elements("css selector", ".side .part")
    assert [part.find_element("css selector", "h4").text for part in parts] == [
        "Country",
        "Known",
        "Its answer",
    ]
    assert f"{HOSTILE} 0" in parts[0].get_attribute("textContent")
    assert "answer 0" in parts[2].text
    assert not browser.find_elements("css selector", "main img")
