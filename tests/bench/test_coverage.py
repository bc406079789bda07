"""The simulation of intervals, with few replications (``make coverage`` has all of them)."""

import math
from functools import partial

import numpy as np
import pytest

from bench.coverage.__main__ import main, measure_families
from bench.coverage.calibrations import auroc_cells, draw_probabilities
from bench.coverage.cells import Cell, Replication, draw_sizes, measure
from bench.coverage.corrected import (
    Judge,
    Study,
    draw_labels,
    labels_by_verdict_cells,
    random_labels_cells,
    replicate,
)
from bench.coverage.counts import draw_counts
from bench.coverage.means import clustered_cells
from bench.coverage.tables import FAMILIES, Family, family_table, format_cell, worst_table
from lm_factuality.scores.calibration import calibration_error
from lm_factuality.scores.intervals import Interval
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "coverage.md"


def draw_normal(half_width, hidden=0.0):
    """Return a function that draws a value with the mean 0 and the standard deviation 1.

    Args:
        half_width: The distance of the value from both ends of its interval.
        hidden: The probability that the value has no interval.
    """

    def replicate(generator):
        value = generator.standard_normal()
        if generator.random() < hidden:
            return Replication(value, interval=None)
        return Replication(value, Interval(value - half_width, value + half_width))

    return replicate


def test_intervals_of_a_known_variance_contain_the_truth_in_95_percent():
    """1.96 standard deviations on both sides hold 95% of a normal distribution."""
    cell = measure(
        {"rows": "1"},
        truth=0.0,
        replicate=draw_normal(half_width=1.96),
        replications=2000,
    )

    assert cell.coverage == pytest.approx(0.95, abs=0.015)
    assert cell.width_ratio == pytest.approx(1, abs=0.05)
    assert cell.shown == 1


def test_intervals_of_no_width_never_contain_the_truth():
    """No draw is exactly the truth, 0."""
    cell = measure({"rows": "1"}, truth=0.0, replicate=draw_normal(half_width=0), replications=50)

    assert cell.coverage == 0


def test_coverage_counts_only_shown_intervals():
    """A hidden interval does not count as one that misses the truth."""
    # Nine standard deviations on both sides always contain the truth.
    cell = measure(
        {"rows": "1"},
        truth=0.0,
        replicate=draw_normal(half_width=9, hidden=0.8),
        replications=400,
    )

    assert cell.coverage == 1
    assert cell.shown == pytest.approx(1 - 0.8, abs=0.03)


def test_coverage_is_undefined_if_few_intervals_are_shown():
    """A handful of intervals says nothing about how often such intervals contain the truth."""
    cell = measure(
        {"rows": "1"},
        truth=0.0,
        replicate=draw_normal(half_width=1, hidden=0.99),
        replications=400,
    )

    assert math.isnan(cell.coverage)
    assert format_cell(cell).endswith("% shown")


def test_a_setting_gives_the_same_cell_in_every_run():
    """The setting seeds the random numbers, so that everybody gets the same tables."""
    draw = draw_normal(half_width=1)

    first = measure({"rows": "1"}, truth=0.0, replicate=draw, replications=100)
    again = measure({"rows": "1"}, truth=0.0, replicate=draw, replications=100)
    other_setting = measure({"rows": "2"}, truth=0.0, replicate=draw, replications=100)

    assert again == first
    assert other_setting.coverage != first.coverage


@pytest.mark.parametrize(
    ("coverage", "text"),
    [
        pytest.param(0.929, "92.9 ↓ (1.00)", id="too low"),
        pytest.param(0.93, "93.0 (1.00)", id="lowest that is wanted"),
        pytest.param(0.98, "98.0 (1.00)", id="highest that is wanted"),
        pytest.param(0.981, "98.1 ↑ (1.00)", id="too high"),
    ],
)
def test_cells_outside_of_93_to_98_percent_are_marked(coverage, text):
    cell = Cell(setting={}, coverage=coverage, width_ratio=1.0)

    assert format_cell(cell) == text


def test_cell_has_the_width_relative_to_the_baseline():
    """An interval from -1 to 1 is half as wide as a baseline of width 4."""

    def replicate_with_baseline(generator):
        return Replication(value=0.0, interval=Interval(-1, 1), baseline_width=4)

    cell = measure({"rows": "1"}, truth=0.0, replicate=replicate_with_baseline, replications=50)

    assert cell.width_to_baseline == 0.5


def test_a_table_over_judges_has_the_lowest_and_the_highest_coverage():
    """The brackets hold the smallest and the largest width as a ratio to the baseline's."""
    family = Family("labels", "Labels", random_labels_cells, across="wrong")
    cells = []
    for judge, coverage, width_to_baseline in [
        ("a", 0.95, 0.9),
        ("b", 0.92, 1.0),
        ("c", 0.99, 0.6),
    ]:
        cells.append(
            Cell(
                setting={"labels": "20", "wrong": "3%", "judge": judge},
                coverage=coverage,
                width_ratio=1.0,
                width_to_baseline=width_to_baseline,
            )
        )

    table = family_table(family, cells, over="judge")

    assert table.columns == ("#labels", "#wrong: 3%")
    # An arrow marks a coverage below 93% or above 98%.
    assert table.rows == [("20", "92.0 ↓ - 99.0 ↑ (0.60 - 1.00)")]


def test_cells_outside_of_93_to_98_percent_are_listed_from_the_worst():
    """Readers look for the settings in which intervals fail."""
    too_low = Cell({"responses": "10"}, coverage=0.80, width_ratio=1.0)
    slightly_too_high = Cell({"documents": "5"}, coverage=0.99, width_ratio=1.0)
    as_wanted = Cell({"documents": "10"}, coverage=0.95, width_ratio=1.0)
    cells_by_family = {family.name: [] for family in FAMILIES}
    cells_by_family["mean"] = [slightly_too_high, as_wanted]
    cells_by_family["f1"] = [too_low]

    table = worst_table(cells_by_family)

    settings = [row[1] for row in table.rows]
    assert settings == ["responses 10", "documents 5"]


def test_clusters_have_the_requested_mean_size():
    num_clusters = 20_000

    sizes = draw_sizes(np.random.default_rng(1), num_clusters, mean=10)

    assert sizes.mean() == pytest.approx(10, rel=0.03)
    assert sizes.min() >= 1


def test_counts_have_the_requested_shares():
    num_responses = 20_000

    counts = draw_counts(np.random.default_rng(1), num_responses, errors=0.3, sensitivity=0.7)

    units_of_each_response = counts.sum(axis=1)
    assert set(units_of_each_response) == {1, 2, 3, 4, 5}
    tp, fp, fn, tn = counts.sum(axis=0)
    share_of_errors = (tp + fn) / counts.sum()
    sensitivity = tp / (tp + fn)
    share_of_false_alarms = fp / (fp + tn)
    assert share_of_errors == pytest.approx(0.3, abs=0.01)
    assert sensitivity == pytest.approx(0.7, abs=0.02)
    assert share_of_false_alarms == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(("logit_factor", "error"), [(1, 0), (1.2, 0.024), (2, 0.075)])
def test_probabilities_have_the_documented_calibration_error(logit_factor, error):
    """A factor of 1 leaves the probabilities right, and a larger factor makes them too sure."""
    rows_of_documents = np.ones(100_000, int)  # one row in each document

    probabilities = draw_probabilities(np.random.default_rng(2), rows_of_documents, logit_factor)

    # The first option of each row is the true one.
    is_true = np.zeros(probabilities.shape)
    is_true[:, 0] = 1
    measured = calibration_error(probabilities.ravel(), is_true.ravel())
    assert measured == pytest.approx(error, abs=0.002)


def test_intervals_of_the_auroc_contain_the_truth():
    """With 20 replications, a true coverage of 95% is rarely measured below 70%."""
    cells = auroc_cells(replications=20)

    for cell in cells:
        assert cell.coverage > 0.7


@pytest.mark.parametrize(
    ("misses", "false_alarms", "share_of_wrong", "num_labels", "by_verdict", "cluster_size"),
    [
        (0.05, 0.05, 0.3, 50, False, 1),
        (0.4, 0.1, 0.3, 20, True, 1),
        (0.4, 0.1, 0.03, 200, True, 1),
        (0.8, 0.2, 0.98, 200, True, 1),
        (0.2, 0.2, 0.3, 50, False, 10),
    ],
)
def test_intervals_of_corrected_shares_contain_the_truth(
    misses, false_alarms, share_of_wrong, num_labels, by_verdict, cluster_size
):
    """The page claims that 93% or more do."""
    judge = Judge(misses, false_alarms)
    study = Study(judge, share_of_wrong, num_labels, by_verdict, cluster_size)

    cell = measure({}, share_of_wrong, partial(replicate, study=study), replications=300)

    # 93% less three standard errors of a share of 300 replications.
    assert cell.coverage >= 0.886


@pytest.mark.parametrize("share_of_wrong", [0.03, 0.3, 0.98])
def test_a_judge_near_chance_does_not_widen_intervals(share_of_wrong):
    """The baseline is the interval of the labels alone, without the judge."""
    judge = Judge(misses=0.4, false_alarms=0.4)
    study = Study(judge, share_of_wrong, num_labels=20, by_verdict=False)

    cell = measure({}, share_of_wrong, partial(replicate, study=study), replications=200)

    assert cell.width_to_baseline <= 1.02


def test_a_good_judge_narrows_intervals():
    """The baseline is the interval of the labels alone, without the judge."""
    judge = Judge(misses=0.05, false_alarms=0.05)
    study = Study(judge, share_of_wrong=0.3, num_labels=50, by_verdict=False)

    cell = measure({}, truth=0.3, replicate=partial(replicate, study=study), replications=50)

    assert cell.width_to_baseline < 0.6


@pytest.mark.parametrize(
    ("num_called_wrong", "num_labels", "expected_labels_of_called_wrong"),
    [
        pytest.param(300, 50, 25, id="half of the labels"),
        pytest.param(10, 50, 10, id="only 10 rows are called wrong"),
        pytest.param(990, 50, 40, id="only 10 rows are called right"),
        pytest.param(300, 1000, 300, id="all rows are labelled"),
    ],
)
def test_half_of_the_labels_are_on_rows_judged_wrong(
    num_called_wrong, num_labels, expected_labels_of_called_wrong
):
    """If there are fewer rows of one kind, all of them are labelled, and more of the other kind."""
    num_rows = 1000
    is_called_wrong = np.arange(num_rows) < num_called_wrong
    judge = Judge(misses=0.2, false_alarms=0.2)
    study = Study(judge, share_of_wrong=0.3, num_labels=num_labels, by_verdict=True)

    is_labelled = draw_labels(np.random.default_rng(1), study, is_called_wrong)

    assert is_labelled.sum() == num_labels
    assert is_labelled[is_called_wrong].sum() == expected_labels_of_called_wrong


def test_corrected_scores_are_simulated_in_144_settings():
    """docs/coverage.md states this number of settings for rows that are not in clusters."""
    cells = [*random_labels_cells(replications=1), *labels_by_verdict_cells(replications=1)]

    assert len(cells) == 144


def test_intervals_of_means_contain_the_truth():
    """With 100 replications, a true coverage of 95% is rarely measured below 88%."""
    cells = clustered_cells(replications=100)

    for cell in cells:
        assert cell.coverage > 0.88


def record_replications(replications):
    """Return a cell whose setting is the number of replications that were asked for."""
    return [Cell({"replications": f"{replications}"}, coverage=0.95, width_ratio=1.0)]


@pytest.mark.parametrize(
    ("asked_replications", "made_replications"),
    [
        pytest.param(30, "20", id="more than the family makes"),
        pytest.param(10, "10", id="fewer than the family makes"),
    ],
)
def test_a_slow_family_limits_its_replications(asked_replications, made_replications):
    """``make coverage`` must end within hours."""
    family = Family("slow", "Slow", record_replications, most_replications=20)

    families_with_cells = list(measure_families([family], replications=asked_replications))

    _, cells = families_with_cells[0]
    assert cells[0].setting["replications"] == made_replications


def test_command_replaces_only_the_measured_tables(tmp_path, capsys):
    """With only 20 replications, the perplexity table gets other numbers than the page has."""
    old_text = PAGE.read_text(encoding="utf-8")
    page = tmp_path / "coverage.md"
    page.write_text(old_text, encoding="utf-8")

    exit_code = main(["--only", "perplexity", "--replications", "20", "--out", str(page)])

    assert exit_code == 0
    assert "losses: skewed" in capsys.readouterr().out
    new_text = page.read_text(encoding="utf-8")
    assert len(new_text.splitlines()) == len(old_text.splitlines())
    new_lines = set(new_text.splitlines()) - set(old_text.splitlines())
    first_cells = sorted(line.split(" | ")[0] for line in new_lines)
    # The perplexity table has a line for 10, for 30 and for 100 documents.
    assert first_cells == ["| 10", "| 100", "| 30"]


@pytest.mark.parametrize("name", [*(family.name for family in FAMILIES), "summary", "worst"])
def test_the_page_has_a_place_for_every_table(name):
    """A table without its mark would not be written."""
    assert f"\n<!-- coverage: {name} -->\n\n| " in PAGE.read_text(encoding="utf-8")
