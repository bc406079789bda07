"""The tables of a leaderboard: their order, their ranks, and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from lm_factuality.leaderboard.site.board import board_json, to_board
from tests.leaderboard.site.conftest import make_entry, make_score, refuse


def test_rows_are_ordered_by_rank_and_then_by_score():
    """Models whose intervals overlap, such as 0.81 ± 0.02 and 0.80 ± 0.02, share a rank."""
    low = make_entry("acme/low", make_score(0.50, half_width=0.02))
    tied = make_entry("acme/tied", make_score(0.80, half_width=0.02))
    best = make_entry("acme/best", make_score(0.81, half_width=0.02))

    (table,) = to_board([low, tied, best]).tables

    ranks = [row.scores["wiki_factor"].rank for row in table.rows]
    assert [row.model for row in table.rows] == ["acme/best", "acme/tied", "acme/low"]
    assert ranks == [1, 1, 3]


def test_models_with_separate_intervals_have_different_ranks():
    better = make_entry("acme/better", make_score(0.80, half_width=0.02))
    worse = make_entry("acme/worse", make_score(0.75, half_width=0.02))

    (table,) = to_board([better, worse]).tables

    ranks = [row.scores["wiki_factor"].rank for row in table.rows]
    assert [row.model for row in table.rows] == ["acme/better", "acme/worse"]
    assert ranks == [1, 2]


def test_unscored_rows_are_ranked_as_wrong_answers():
    """A model must not gain a rank by leaving difficult rows unscored."""
    score_with_unscored_rows = make_score(
        0.80, half_width=0.02, unscored=9, score_if_unscored_wrong=0.72
    )
    score_without_unscored_rows = make_score(0.75, half_width=0.02)
    partly_unscored = make_entry("acme/partly-unscored", score_with_unscored_rows)
    fully_scored = make_entry("acme/fully-scored", score_without_unscored_rows)

    (table,) = to_board([partly_unscored, fully_scored]).tables

    ranks = [row.scores["wiki_factor"].rank for row in table.rows]
    assert [row.model for row in table.rows] == ["acme/fully-scored", "acme/partly-unscored"]
    assert ranks == [1, 2]


def test_each_revision_precision_and_backend_of_a_model_has_a_row():
    """Their results may differ, so a reader has to choose between them."""
    entries = [
        make_entry("acme/one", make_score(0.8)),
        make_entry("acme/one", make_score(0.8), revision="f" * 40),
        make_entry("acme/one", make_score(0.8), dtype="float32"),
        make_entry("acme/one", make_score(0.8), backend="hf-ralm"),
    ]

    (table,) = to_board(entries).tables

    assert len(table.rows) == 4


def test_only_the_newest_submission_of_a_model_is_ranked():
    """A model must not take two places in the table."""
    score = make_score(0.8)
    old = make_entry("acme/one", score, folder="old", date="2026-01-01T00:00:00+00:00")
    new = make_entry("acme/one", score, folder="new", date="2026-02-01T00:00:00+00:00")

    (table,) = to_board([old, new]).tables

    assert [row.folder for row in table.rows] == ["new"]


def test_all_submissions_of_a_model_are_listed_from_the_newest():
    """The page of a model shows its older submissions, which the table leaves out."""
    score = make_score(0.8)
    old = make_entry("acme/one", score, folder="old", date="2026-01-01T00:00:00+00:00")
    new = make_entry("acme/one", score, folder="new", date="2026-02-01T00:00:00+00:00")

    (submissions_of_model,) = to_board([old, new]).models

    assert [submission.folder for submission in submissions_of_model] == ["new", "old"]


def test_each_leaderboard_has_a_table_in_the_order_of_the_benchmarks():
    """FACTOR comes before FELM, although a FELM submission is the first entry."""
    felm_score = make_score(0.4, task="felm_segment_cot", kind="felm", metric="segment_f1")
    factor_score = make_score(0.8, task="wiki_factor", kind="factor", metric="factor_acc")
    entries = [
        make_entry("acme/one", felm_score, leaderboard="felm"),
        make_entry("acme/one", factor_score, leaderboard="factor"),
        make_entry("acme/two", factor_score, leaderboard="factor"),
    ]

    board = to_board(entries)

    factor_table, felm_table = board.tables
    assert factor_table.rules.title == "FACTOR"
    assert felm_table.rules.title == "FELM"
    assert len(factor_table.rows) == 2
    assert len(felm_table.rows) == 1
    assert len(board.models) == 2


def test_tasks_stand_in_the_order_of_the_rules():
    """The rules of FACTOR name ``wiki_factor`` first, and the submission names it last."""
    expert_score = make_score(0.5, task="expert_factor")
    wiki_score = make_score(0.5, task="wiki_factor")

    (table,) = to_board([make_entry("acme/one", expert_score, wiki_score)]).tables

    assert table.tasks == ("wiki_factor", "expert_factor")


def test_a_model_without_the_first_task_comes_last():
    """Models are ordered by their score on the first task, here ``wiki_factor``."""
    expert_only = make_entry("acme/expert-only", make_score(0.9, task="expert_factor"))
    both_tasks = make_entry(
        "acme/both-tasks",
        make_score(0.5, task="wiki_factor"),
        make_score(0.5, task="expert_factor"),
    )

    (table,) = to_board([expert_only, both_tasks]).tables

    assert [row.model for row in table.rows] == ["acme/both-tasks", "acme/expert-only"]


def test_missing_later_task_does_not_change_the_order():
    """Models are ordered by their score on the first task alone, here ``wiki_factor``."""
    wiki_only = make_entry("acme/wiki-only", make_score(0.9, task="wiki_factor"))
    both_tasks = make_entry(
        "acme/both-tasks",
        make_score(0.5, task="wiki_factor"),
        make_score(0.5, task="expert_factor"),
    )

    (table,) = to_board([both_tasks, wiki_only]).tables

    assert [row.model for row in table.rows] == ["acme/wiki-only", "acme/both-tasks"]


def test_models_with_the_same_answers_are_named():
    """Equal answers mean that one was copied, or that one model has two names."""
    shared_score = replace(make_score(0.5), answers_hash="digest of shared answers")
    unique_score = replace(make_score(0.5), answers_hash="digest of unique answers")
    entries = [
        make_entry("acme/g", shared_score),
        make_entry("acme/f", shared_score),
        make_entry("acme/e", shared_score),
        make_entry("acme/d", shared_score),
        make_entry("acme/c", shared_score),
        make_entry("acme/b", shared_score),
        make_entry("acme/a", shared_score),
        make_entry("acme/unique", unique_score),
    ]

    (table,) = to_board(entries).tables

    twins_by_model = {row.model: row.twins for row in table.rows}
    assert twins_by_model["acme/a"] == (
        "acme/b",
        "acme/c",
        "acme/d",
        "acme/e",
        "acme/f",
        "acme/g",
    )
    assert twins_by_model["acme/unique"] == ()


def test_a_low_error_rate_is_better_than_a_high_one():
    error_rate = {"task": "felm_gen", "kind": "felm_gen", "metric": "segment_error_rate"}
    high_error = make_score(0.5, higher_is_better=False, **error_rate)
    low_error = make_score(0.1, higher_is_better=False, **error_rate)
    entries = [
        make_entry("acme/high-error", high_error, leaderboard="felm_gen"),
        make_entry("acme/low-error", low_error, leaderboard="felm_gen"),
    ]

    (table,) = to_board(entries).tables

    ranks = [row.scores["felm_gen"].rank for row in table.rows]
    assert [row.model for row in table.rows] == ["acme/low-error", "acme/high-error"]
    assert ranks == [1, 2]


def test_refused_submissions_are_not_ranked():
    accepted = make_entry("acme/one", make_score(0.8))
    refused = refuse("submissions/x", ("LIMIT_RUN", "run it whole"))

    (table,) = to_board([accepted, refused]).tables

    assert [row.model for row in table.rows] == ["acme/one"]


def test_refused_submissions_are_listed_in_the_order_of_their_folders():
    later = refuse("submissions/y", ("LIMIT_RUN", "run it whole"))
    earlier = refuse("submissions/x", ("LIMIT_RUN", "run it whole"))

    board = to_board([later, earlier])

    assert [entry.folder for entry in board.refused] == ["submissions/x", "submissions/y"]


def board_as_json(*entries):
    """Return the JSON of a board with these entries, as another program would load it."""
    return json.loads(json.dumps(board_json(to_board(entries))))


def test_the_json_holds_each_score_with_its_rank():
    score = make_score(
        0.8, task="wiki_factor", metric="factor_acc", unscored=3, score_if_unscored_wrong=0.7
    )

    content = board_as_json(make_entry("acme/one", score))

    (leaderboard,) = content["leaderboards"]
    (model,) = leaderboard["models"]
    (score_content,) = model["scores"]
    assert score_content["task"] == "wiki_factor"
    assert score_content["metric"] == "factor_acc"
    assert score_content["value"] == 0.8
    assert score_content["rank"] == 1
    assert score_content["unscored"] == 3


def test_the_json_names_each_model_with_the_hash_of_its_submission():
    """Other programs can tell by the hash whether a submission has changed."""
    content = board_as_json(make_entry("acme/one", make_score(0.8), digest="ab" * 32))

    (leaderboard,) = content["leaderboards"]
    (model,) = leaderboard["models"]
    assert model["model"] == "acme/one"
    assert model["weights"] == "open weights"
    assert model["sha256"] == "ab" * 32


def test_the_json_states_the_rule_of_the_ranks():
    """Programs that read the JSON do not see the page, which states the rule as well."""
    content = board_as_json(make_entry("acme/one", make_score(0.8)))

    assert "95% interval" in content["rank_rule"]


def test_the_json_holds_refused_submissions_with_the_reasons():
    refused = refuse("submissions/x", ("LIMIT_RUN", "run it whole"))

    content = board_as_json(refused)

    assert content["refused"] == [
        {
            "folder": "submissions/x",
            "model": "acme/forged",
            "problems": [{"code": "LIMIT_RUN", "sentence": "run it whole"}],
        }
    ]
