"""What a certificate corrects, what it says where it does not, and that it is the certificate of
the run."""

import math

import numpy as np
import pytest

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.certified import by_certificate, correct
from lm_factuality.benchmarks.chosen import figure
from lm_factuality.harness.outputs import Corrected, TaskResult

GOOD = {"tp": 90, "fp": 20, "fn": 10, "tn": 180}


def task(counts=GOOD, metric="segment_error_rate", hashes=None, **changes):
    certificate = {
        "prompt_hashes": {"felm/segment_cot": "a"},
        "date": "2026-01-01",
        "scores": {"segment": counts, "response": counts, "unscored": {"responses": 0}},
        "unscored": 0,
        "intervals": {"segment": {"recall": [0.8, 0.98], "balanced_accuracy": [0.86, 0.94]}},
    }
    metadata = {
        "benchmark": "felm_gen",
        "judge_config": {
            "name": "j",
            "backend": "openai",
            "prompt_hashes": hashes or {"felm/segment_cot": "a"},
        },
        "judge_certificate": {"segment_cot": certificate},
    }
    values = {
        "metrics": {metric: 0.3, "segment_error_rate_math": 0.3},
        "stderrs": {metric: 0.02, "segment_error_rate_math": 0.02},
    }
    values |= changes
    return TaskResult(
        "t",
        "felm_gen",
        values["metrics"],
        values["stderrs"],
        100,
        100,
        metadata,
        {},
        "1",
        None,
        None,
    )


@pytest.mark.parametrize("metric", ["segment_error_rate", "response_error_rate"])
def test_rates_of_verdicts_are_corrected(metric):
    found = by_certificate(find_benchmark("felm_gen"), task(metric=metric), metric)
    assert isinstance(found, Corrected)
    assert found.value == pytest.approx((0.3 + 180.5 / 201 - 1) / (90.5 / 101 + 180.5 / 201 - 1))
    assert found.low < found.value < found.high
    assert found.stderr > 0.02
    assert found.weight is None
    assert "if the judge errs here as on the data of the certificate" in found.how
    assert figure(task(metric=metric), metric).corrected == found


def test_clusters_of_the_certificate_widen_the_interval():
    """Its intervals of segments know of responses; it gives none of responses."""
    benchmark = find_benchmark("felm_gen")
    segments, responses = (
        by_certificate(benchmark, task(metric=f"{each}_error_rate"), f"{each}_error_rate")
        for each in ("segment", "response")
    )
    assert segments.value == responses.value
    assert segments.stderr > responses.stderr


def test_a_judge_near_chance_corrects_nothing_and_says_so():
    found = figure(task({"tp": 30, "fp": 60, "fn": 70, "tn": 140}), "segment_error_rate")
    assert found.corrected is None
    assert "not clearly better than chance" in found.uncorrected
    assert "sensitivity 30.2%" in found.uncorrected


@pytest.mark.parametrize(
    "given",
    [
        task(hashes={"felm/segment_cot": "another"}),
        task(stderrs={}),
        task(metrics={"segment_error_rate": float("nan")}),
    ],
    ids=["other prompts", "no standard error", "not defined"],
)
def test_without_a_certificate_or_a_number_nothing_is_said(given):
    assert by_certificate(find_benchmark("felm_gen"), given, "segment_error_rate") is None


@pytest.mark.parametrize(
    "counts", [{}, {"tp": 1, "fp": 2, "fn": -1, "tn": 3}, {"tp": 0, "fp": 2, "fn": 0, "tn": 3}]
)
def test_counts_that_are_none_are_named(counts):
    assert "has no counts of both kinds of truth" in by_certificate(
        find_benchmark("felm_gen"), task(counts), "segment_error_rate"
    )


def test_the_rate_of_a_domain_is_not_corrected_by_the_certificate_of_all():
    assert by_certificate(find_benchmark("felm_gen"), task(), "segment_error_rate_math") is None


def test_rates_are_scores_of_their_benchmark_and_levels_of_their_certificates():
    for benchmark in all_benchmarks():
        for step in benchmark.judging.steps:
            assert all(benchmark.score(name) for name in step.rates)
            assert all(
                level in setting.levels
                for setting in step.settings
                for level in step.rates.values()
            )


def counts_of(tp, fp, fn, tn):
    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn}


def test_the_rate_is_that_of_rogan_and_gladen():
    """Of 40% errors a judge of sensitivity 0.8 and specificity 0.9 flags 0.4 * 0.8 + 0.6 * 0.1."""
    found = correct(0.38, 0.014, counts_of(800_000, 100_000, 200_000, 900_000), {}, "")
    assert found.value == pytest.approx(0.4, abs=1e-5)
    assert found.stderr == pytest.approx(0.014 / 0.7, rel=1e-2)


@pytest.mark.parametrize(("rate", "value"), [(0.05, 0.0), (0.9, 1.0)])
def test_a_rate_that_the_judge_cannot_have_found_is_cut(rate, value):
    found = correct(rate, 0.01, counts_of(80, 10, 20, 90), {}, "")
    assert found.value == value
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_narrower_intervals_than_those_of_independent_verdicts_change_nothing():
    plain, narrow = (
        correct(0.3, 0.01, GOOD, ends, "")
        for ends in ({}, {"recall": [0.9, 0.901], "balanced_accuracy": [0.9, 0.901]})
    )
    assert narrow == plain


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "rate", "certified"),
    [(0.8, 0.9, 0.2, 300), (0.95, 0.7, 0.05, 500), (0.6, 0.8, 0.5, 400), (0.9, 0.98, 0.9, 200)],
)
def test_intervals_hold_the_truth_in_93_to_98_percent(sensitivity, specificity, rate, certified):
    """Both uncertainties: 800 verdicts, and a certificate of so many units with an error rate of
    its own. The judge's own interval does not hold it."""
    random = np.random.default_rng(7)
    holds, uncorrected, trials = 0, 0, 1500
    for _ in range(trials):
        wrong = random.binomial(certified, 0.4)
        tp, tn = (
            random.binomial(wrong, sensitivity),
            random.binomial(certified - wrong, specificity),
        )
        judged = random.binomial(800, rate * sensitivity + (1 - rate) * (1 - specificity)) / 800
        stderr = math.sqrt(judged * (1 - judged) / 800)
        found = correct(
            judged, stderr, counts_of(tp, certified - wrong - tn, wrong - tp, tn), {}, ""
        )
        holds += found.low <= rate <= found.high
        uncorrected += abs(judged - rate) <= 1.96 * stderr
    assert 0.93 <= holds / trials <= 0.98
    assert uncorrected / trials < 0.5


def test_a_run_ends_with_what_its_certificate_corrects(capsys):
    from types import SimpleNamespace

    from lm_factuality.cli.outcome import print_corrected

    print_corrected([SimpleNamespace(tasks=(task(),))])
    shown = capsys.readouterr().out
    assert "t, segment_error_rate" in shown
    assert "30.0" in shown
    assert "24.9" in shown
    print_corrected([SimpleNamespace(tasks=(task({"tp": 30, "fp": 60, "fn": 70, "tn": 140}),))])
    assert "not clearly better than chance" in capsys.readouterr().out
    print_corrected([SimpleNamespace(tasks=(task(hashes={"felm/segment_cot": "another"}),))])
    assert capsys.readouterr().out == ""
