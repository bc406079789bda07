"""What knowing nothing scores, against the closed form, and where it is shown."""

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from lm_factuality.benchmarks.chosen import score_figure
from lm_factuality.benchmarks.factor.metrics import NUM_DRAWS, guess_accuracy, guess_baseline_of
from lm_factuality.report.build import build_report
from lm_factuality.results.read import read_results_file
from tests.report.results import factor_task, write_results

TRUE = "the old bridge was opened in May"


def closed(choices, gold=0):
    """The probability that normal word weights put the true one above three others: an orthant
    probability (Sheppard, 1899)."""
    changes = []
    for choice in choices[:gold] + choices[gold + 1 :]:
        change = Counter(choices[gold].split())
        change.subtract(choice.split())
        changes.append(change)
    angles = []
    for one, other in combinations(changes, 2):
        dot = sum(one[word] * other[word] for word in one)
        lengths = math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
        angles.append(math.asin(min(1.0, dot / lengths)))
    return 1 / 8 + sum(angles) / (4 * math.pi)


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (("old>new", "bridge>tower", "May>June"), 1 / 8),  # apart: each lowers the sum by lot
        (
            ("May>June", "May>July", "May>April"),
            1 / 4,
        ),  # in one place: four words, one of which is the greatest
        (("May>June", "May>July", "old>new"), 1 / 8 + 1 / 24),
    ],
)
def test_the_closed_form_and_lots_agree(words, share):
    choices = [TRUE, *(TRUE.replace(*word.split(">")) for word in words)]
    assert closed(choices) == pytest.approx(share)
    drawn = [guess_accuracy(choices, 0, seed) for seed in range(200)]
    assert sum(drawn) / 200 == pytest.approx(
        share, abs=3 * (share * (1 - share) / (200 * NUM_DRAWS)) ** 0.5
    )


def test_words_in_another_order_tie_and_one_choice_among_two_is_a_half():
    assert guess_accuracy(["a b c", "c b a"], 0) == 0.5
    assert guess_accuracy(["a b c"] * 4, 2) == 0.25


def result(folder, metrics, source=None):
    task = factor_task([True, False])
    task["results"] |= {f"{name},none": value for name, value in metrics.items()}
    task["metadata"]["data"] = {
        "git_blob": "0",
        **({"source": source} if source else {"file": "mine.csv"}),
    }
    return read_results_file(write_results(folder, {"news_factor": task})).tasks[0]


def test_accuracies_have_the_guess_baseline_of_their_rows_and_pairs_a_half(tmp_path):
    measured = result(tmp_path / "a", {"guess_baseline": 0.17, "pairwise_acc": 0.8})
    names = ("factor_acc", "acc_bytes", "pairwise_acc", "factor_acc_vs_entity", "margin")
    assert [guess_baseline_of(measured, name) for name in names] == [0.17, 0.17, 0.5, 0.5, None]
    assert score_figure(measured, "pairwise_acc").guess_baseline == 0.5
    unknown = replace(measured, metrics={"factor_acc": 0.5})
    assert guess_baseline_of(unknown, "factor_acc") is None


def test_the_report_shows_it_beneath_the_score(tmp_path):
    result(tmp_path / "run", {"guess_baseline": 0.17})
    build_report([tmp_path / "run"], tmp_path / "report")
    page = (tmp_path / "report" / "factor.html").read_text(encoding="utf-8")
    assert ">guess baseline 17.0</small>" in page
