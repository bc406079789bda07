import json

from lm_factuality.leaderboard.site.board import board_json
from tests.leaderboard.site.conftest import board_of, entry, refused, score


def test_rows_are_ordered_by_rank_then_score() -> None:
    board = board_of(
        [entry("a/low", score(0.5)), entry("a/tied", score(0.8)), entry("a/best", score(0.81))]
    )
    (table,) = board.tables
    assert [(row.model, row.scores["wiki_factor"].rank) for row in table.rows] == [
        ("a/best", 1),
        ("a/tied", 1),
        ("a/low", 3),
    ]


def test_unscored_rows_win_no_rank() -> None:
    """0.80 ± 0.02 is surely better than 0.75 ± 0.02, but comes behind it if its unscored rows could
    all be wrong."""
    sure = board_of([entry("a/one", score(0.8)), entry("a/two", score(0.75))])
    unsure = board_of(
        [entry("a/one", score(0.8, unscored=9, worst=0.72, best=0.81)), entry("a/two", score(0.75))]
    )
    assert [
        [row.scores["wiki_factor"].rank for row in board.tables[0].rows] for board in (sure, unsure)
    ] == [[1, 2], [1, 2]]
    assert [[row.model for row in board.tables[0].rows] for board in (sure, unsure)] == [
        ["a/one", "a/two"],
        ["a/two", "a/one"],
    ]


def test_revisions_precisions_and_backends_are_rows_of_their_own() -> None:
    entries = [
        entry("a/one", score(0.8)),
        entry("a/one", score(0.8), revision="f" * 40),
        entry("a/one", score(0.8), dtype="float32"),
        entry("a/one", score(0.8), backend="hf-ralm"),
    ]
    assert len(board_of(entries).tables[0].rows) == 4


def test_of_one_model_the_newest_counts() -> None:
    old = entry("a/one", score(0.9), folder="old", date="2026-01-01T00:00:00+00:00")
    new = entry("a/one", score(0.8), folder="new", date="2026-02-01T00:00:00+00:00")
    board = board_of([old, new])
    assert [row.folder for row in board.tables[0].rows] == ["new"]
    assert [each.folder for each in board.models[0]] == ["new", "old"]


def test_a_leaderboard_each_in_the_order_of_the_papers() -> None:
    felm = score(0.4, task="felm_segment_cot", kind="felm", metric="segment_f1")
    board = board_of(
        [
            entry("a/one", felm, leaderboard="felm"),
            entry("a/one", score(0.8)),
            entry("a/two", score(0.7)),
        ]
    )
    assert [(table.rules.name, table.rules.title, len(table.rows)) for table in board.tables] == [
        ("factor", "FACTOR", 2),
        ("felm", "FELM", 1),
    ]
    assert len(board.models) == 2


def test_tasks_stand_as_in_the_rules_and_may_be_missing() -> None:
    full = entry("a/full", score(0.5, task="expert_factor"), score(0.5))
    board = board_of([entry("a/part", score(0.9, task="expert_factor")), full])
    assert board.tables[0].tasks == ("wiki_factor", "expert_factor")
    assert [row.model for row in board.tables[0].rows] == [
        "a/full",
        "a/part",
    ]  # without the first task it comes last


def test_lower_is_better_for_error_rates() -> None:
    scores = [
        score(value, task="felm_gen", kind="felm_gen", metric="segment_error_rate", higher=False)
        for value in (0.1, 0.5)
    ]
    board = board_of(
        [
            entry("a/bad", scores[1], leaderboard="felm_gen"),
            entry("a/good", scores[0], leaderboard="felm_gen"),
        ]
    )
    assert [(row.model, row.scores["felm_gen"].rank) for row in board.tables[0].rows] == [
        ("a/good", 1),
        ("a/bad", 2),
    ]


def test_refused_ones_are_never_ranked() -> None:
    board = board_of([entry("a/one", score(0.8)), refused("x", ("LIMIT_RUN", "run it whole"))])
    assert [row.model for row in board.tables[0].rows] == ["a/one"]
    assert [each.folder for each in board.refused] == ["x"]


def test_json_for_others() -> None:
    board = board_of(
        [
            entry("a/one", score(0.8, unscored=3, worst=0.7, best=0.9)),
            refused("x", ("LIMIT_RUN", "run it whole")),
        ]
    )
    found = json.loads(json.dumps(board_json(board)))
    ((model,),) = [table["models"] for table in found["leaderboards"]]
    (first,) = model["scores"]
    assert (
        first
        | {"value": 0.8, "rank": 1, "unscored": 3, "task": "wiki_factor", "metric": "factor_acc"}
        == first
    )
    assert model | {"model": "a/one", "weights": "open weights", "sha256": "ab" * 32} == model
    assert found["refused"] == [
        {
            "folder": "x",
            "model": "acme/forged",
            "problems": [{"code": "LIMIT_RUN", "sentence": "run it whole"}],
        }
    ]
    assert "95% interval" in found["rank_rule"]
