"""Comparisons of two models, as ``compare`` prints them."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from lm_factuality.benchmarks.declaration import undeclared_score
from lm_factuality.benchmarks.pairs import PairedDifference
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.results import compare
from lm_factuality.results.compare import _pair_cells, compare_runs, read_runs
from lm_factuality.scores.intervals import Interval
from lm_factuality.scores.paired import holm
from tests.report.results import factor_task, felm_task, write_results


def compare_pairs(folder, scores=None):
    """Return the comparisons of two models by (score, A, B), and the notes of all tables.

    A comparison is a row of the printed table: its cells by the headings of their columns.
    """
    comparisons = {}
    notes = []
    for table in compare_runs(read_runs([folder])[0], [], scores):
        notes += table.notes
        if "better" in table.columns:
            for score, model_a, model_b, *cells in table.rows:
                # A "#" before a heading means that the column is aligned to the right.
                columns = [column.removeprefix("#") for column in table.columns[3:]]
                comparisons[score, model_a, model_b] = dict(zip(columns, cells, strict=True))
    return comparisons, notes


def write_run(folder, model, *, right, wrong):
    """Write a run of FACTOR in which a model is right on the first rows and wrong on the others.

    Args:
        folder: The folder of results.
        model: The name of the model. Its run has a folder of this name.
        right: The number of rows on which it is right.
        wrong: The number of rows on which it is wrong.
    """
    outcomes = [True] * right + [False] * wrong
    write_results(folder / model, {"t": factor_task(outcomes)}, model)


def test_every_pair_of_models_is_compared_on_their_shared_rows(tmp_path):
    write_run(tmp_path, "org/a", right=24, wrong=56)
    write_run(tmp_path, "org/b", right=28, wrong=52)
    write_run(tmp_path, "org/c", right=32, wrong=48)

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc"])

    assert list(comparisons) == [
        ("factor_acc", "org/a", "org/b"),
        ("factor_acc", "org/a", "org/c"),
        ("factor_acc", "org/b", "org/c"),
    ]
    assert {comparison["rows"] for comparison in comparisons.values()} == {"80"}


def test_a_note_explains_which_difference_can_be_detected(tmp_path):
    """A reader sees how large a difference must be to be found in so many rows."""
    write_run(tmp_path, "org/a", right=24, wrong=56)
    write_run(tmp_path, "org/b", right=28, wrong=52)

    _, notes = compare_pairs(tmp_path, ["factor_acc"])

    assert any("(1.96 + 0.84) / 1.96 times half of the interval" in note for note in notes)


def test_pairs_are_shown_task_by_task(tmp_path, monkeypatch):
    """If a later task cannot be compared, the tables of the earlier ones are shown all the same."""
    for model in ("org/a", "org/b"):
        tasks = {"t1": factor_task([True, False]), "t2": factor_task([True, False])}
        write_results(tmp_path / model, tasks, model)
    runs, _ = read_runs([tmp_path])
    make_table = compare._pair_table

    def make_table_unless_t2(benchmark, task, *arguments):
        if task == "t2":
            raise DataError("t2 cannot be compared")
        return make_table(benchmark, task, *arguments)

    monkeypatch.setattr(compare, "_pair_table", make_table_unless_t2)

    tables = compare_runs(runs, [])
    _scores_of_each_run = next(tables)
    pairs_on_t1 = next(tables)

    assert pairs_on_t1.title == "\nPairs of models on t1, row by row"
    with pytest.raises(DataError, match="t2 cannot be compared"):
        _pairs_on_t2 = next(tables)


def test_p_values_are_corrected_for_all_pairs(tmp_path):
    """With many pairs, some differ by chance alone."""
    generator = random.Random(0)
    for model, probability_right in (("org/a", 0.30), ("org/b", 0.35), ("org/c", 0.40)):
        outcomes = [generator.random() < probability_right for _ in range(80)]
        write_results(tmp_path / model, {"t": factor_task(outcomes)}, model)

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc"])

    p_values = [float(comparison["p"]) for comparison in comparisons.values()]
    corrected_p_values = [float(comparison["p, Holm"]) for comparison in comparisons.values()]
    # The table rounds.
    assert corrected_p_values == pytest.approx(holm(p_values), abs=0.002)
    assert corrected_p_values != p_values


def test_the_better_model_is_named_if_the_difference_is_significant(tmp_path):
    write_run(tmp_path, "org/a", right=30, wrong=10)
    write_run(tmp_path, "org/b", right=4, wrong=36)

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc"])

    comparison = comparisons["factor_acc", "org/a", "org/b"]
    assert comparison["A - B"] == "+65.0"  # 30/40 - 4/40, in points
    assert comparison["better"] == "A"


def test_second_model_is_named_if_it_is_better(tmp_path):
    write_run(tmp_path, "org/a", right=4, wrong=36)
    write_run(tmp_path, "org/b", right=30, wrong=10)

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc"])

    assert comparisons["factor_acc", "org/a", "org/b"]["better"] == "B"


def test_no_model_is_better_if_they_differ_in_a_single_row(tmp_path):
    """They are right on 30 and on 29 of the same 40 rows."""
    write_run(tmp_path, "org/a", right=30, wrong=10)
    write_run(tmp_path, "org/b", right=29, wrong=11)

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc"])

    comparison = comparisons["factor_acc", "org/a", "org/b"]
    assert comparison["p"] == "1.000"
    assert comparison["better"] == ""


def test_no_model_is_better_in_a_score_without_a_direction():
    """More words are neither better nor worse."""
    significant = PairedDifference(
        score_a=12.0,
        score_b=9.0,
        difference=3.0,
        interval=Interval(2.8, 3.2),
        p_value=0.0,
        shared_rows=40,
        shared_clusters=40,
        adjusted_p_value=0.0,
    )

    cells = _pair_cells(significant, undeclared_score("num_words"))

    _difference, _interval, _p_value, _corrected_p_value, better, *_ = cells
    assert better == ""


def test_four_models_are_compared_by_headline_and_further_scores_are_listed(tmp_path):
    """The six pairs of four models with all scores would fill the screen."""
    for model in ("org/a", "org/b", "org/c", "org/d"):
        write_run(tmp_path, model, right=30, wrong=10)

    comparisons, notes = compare_pairs(tmp_path)

    other_scores = "acc, acc_bytes, margin, factor_acc_vs_entity, factor_acc_vs_predicate"
    assert {score for score, _, _ in comparisons} == {"factor_acc"}
    assert f"Other scores by --scores: {other_scores}" in notes


def test_four_models_are_compared_by_the_scores_that_the_user_names(tmp_path):
    for model in ("org/a", "org/b", "org/c", "org/d"):
        write_run(tmp_path, model, right=30, wrong=10)

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc_vs_entity", "acc"])

    assert {score for score, _, _ in comparisons} == {"factor_acc_vs_entity", "acc"}


def test_scores_of_pooled_counts_are_compared(tmp_path):
    """F1 is computed from the counts of all rows together, and is not a mean over rows."""
    write_results(tmp_path / "a", {"t": felm_task(["Answer: 2"] * 30)}, "org/a")
    write_results(tmp_path / "b", {"t": felm_task(["Answer: 1,2", "Answer: 1"] * 15)}, "org/b")

    comparisons, _ = compare_pairs(tmp_path)

    comparison = comparisons["segment_f1", "org/a", "org/b"]
    assert comparison["p"] == "<0.001"
    assert comparison["better"] == "A"


def test_margins_are_compared_only_between_models_with_the_same_number_of_tokens(tmp_path):
    """A margin is per token, so models with different tokenizers cannot be compared by it."""

    def write_run_with_margin(model, margin, num_tokens):
        task = factor_task([True] * 30 + [False] * 10)
        task["samples"] = [{**sample, "margin": margin} for sample in task["samples"]]
        task["results"]["margin,none"] = margin
        task["results"]["factor_num_tokens,none"] = num_tokens
        write_results(tmp_path / model, {"t": task}, model)

    write_run_with_margin("org/a", margin=0.0, num_tokens=10.0)
    write_run_with_margin("org/b", margin=0.1, num_tokens=10.0)
    write_run_with_margin("org/c", margin=0.2, num_tokens=12.0)

    comparisons, _ = compare_pairs(tmp_path, ["margin", "factor_acc"])

    pairs_by_score = defaultdict(list)
    for score, model_a, model_b in comparisons:
        pairs_by_score[score].append((model_a, model_b))
    assert pairs_by_score["margin"] == [("org/a", "org/b")]
    assert pairs_by_score["factor_acc"] == [
        ("org/a", "org/b"),
        ("org/a", "org/c"),
        ("org/b", "org/c"),
    ]


def test_a_run_without_samples_is_named_and_not_compared(tmp_path):
    """The p-value of a difference is computed from single rows, which the samples hold."""
    task = factor_task([True] * 30 + [False] * 10)
    write_results(tmp_path / "a", {"t": task}, "org/a", with_samples=True)
    write_results(tmp_path / "b", {"t": task}, "org/b", with_samples=False)

    comparisons, notes = compare_pairs(tmp_path)

    assert comparisons == {}
    assert (
        "t: without samples (--log_samples) and scored rows no difference can be tested: org/b"
        in notes
    )


def test_samples_of_an_older_run_are_not_read(tmp_path):
    """Only the newest run of a model counts, so a damaged older one does no harm."""
    wrong = {"t": factor_task([True] * 4 + [False] * 36)}
    right = {"t": factor_task([True] * 30 + [False] * 10)}
    write_results(tmp_path, wrong, "org/a", date="2026-01-01T00-00-00.000001")
    write_results(tmp_path, right, "org/a", date="2026-01-01T00-00-00.000002")
    write_results(tmp_path, right, "org/b", date="2026-01-01T00-00-00.000003")
    samples_of_older_run = tmp_path / "samples_t_2026-01-01T00-00-00.000001.jsonl"
    samples_of_older_run.write_text("not JSON", encoding="utf-8")

    comparisons, _ = compare_pairs(tmp_path, ["factor_acc"])

    comparison = comparisons["factor_acc", "org/a", "org/b"]
    assert comparison["A - B"] == "+0.0"
    assert comparison["p"] == "1.000"


@pytest.mark.parametrize(
    ("score", "message"),
    [
        pytest.param(
            "factor_ac",
            "--scores: no rows have a score 'factor_ac'; did you mean factor_acc",
            id="unknown",
        ),
        pytest.param(
            "factor_mean_logprob",
            "factor_mean_logprob",
            id="a score by which models cannot be compared",
        ),
    ],
)
def test_a_score_that_no_rows_have_is_refused(tmp_path, score, message):
    write_run(tmp_path, "org/a", right=30, wrong=10)

    with pytest.raises(ConfigError, match=message):
        compare_pairs(tmp_path, [score])


def test_samples_of_another_task_are_refused(tmp_path):
    """Rows of another task say nothing about the difference in this one."""
    write_results(tmp_path, {"t": factor_task([True] * 30 + [False] * 10)}, "org/a")
    (samples_path,) = tmp_path.glob("samples_t_*.jsonl")
    samples_path.write_text('{"doc_id": 3, "doc": {}}\n', encoding="utf-8")

    with pytest.raises(DataError, match=r"doc_id 3: not a sample of a factor task.*--log_samples"):
        read_runs([tmp_path])
