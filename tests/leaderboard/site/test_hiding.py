"""Leaving rows unscored never wins a rank: by the rule over random submissions, and through the
site of real ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_factuality.benchmarks.chosen import ScoreFigure, score_figure
from lm_factuality.benchmarks.factor.metrics import SCORES as FACTOR
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN as METHOD
from lm_factuality.benchmarks.felm_gen.judging import SCORES as FELM_GEN
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.leaderboard.site.build import BOARD_FILE, build_site
from lm_factuality.leaderboard.site.entries import RankedScore, _score_if_unscored_are_wrong
from lm_factuality.scores.statistics import Outcome
from tests.conftest import task_result
from tests.leaderboard.conftest import Forger
from tests.leaderboard.reseal import read_rows, reseal, write_rows
from tests.leaderboard.site.conftest import board_of, entry

ROWS = 24


def factor_score(rows: list[tuple[bool, int]], hidden: set[int]) -> RankedScore | None:
    """Accuracy of rows (right, document), as lm_eval would aggregate it."""
    values: dict[str, list[Any]] = {
        name: [] for name in ("factor_acc", "factor_acc_worst", "factor_acc_best", "unscored")
    }
    for number, (is_right, document) in enumerate(rows):
        is_hidden = number in hidden
        values["factor_acc"].append(None if is_hidden else Outcome(is_right, str(document)))
        values["factor_acc_worst"].append(Outcome(is_right and not is_hidden, str(document)))
        values["factor_acc_best"].append(Outcome(is_right or is_hidden, str(document)))
        values["unscored"].append("hidden" if is_hidden else None)
    return aggregated("factor", "factor_acc", FACTOR, values, higher=True)


def felm_gen_score(rows: list[tuple[list[bool], int]], hidden: set[int]) -> RankedScore | None:
    """Share of segments with errors of rows (whether each segment has one, _)."""
    values: dict[str, list[Any]] = {}
    for number, (wrong, _) in enumerate(rows):
        record: Any = {"domain": "wk", "segments": ["x"] * len(wrong), "no_answer": None}
        errors = [("knowledge" if each else None) for each in wrong]
        record |= (
            {"errors": None, "unscored": "hidden"}
            if number in hidden
            else {"errors": errors, "unscored": None}
        )
        for name, value in METHOD.row_metrics({}, record).items():
            values.setdefault(name, []).append(value)
    kept = {
        name: each
        for name, each in values.items()
        if name.startswith("segment_error_rate") or name == "unscored"
    }
    return aggregated("felm_gen", "segment_error_rate", FELM_GEN, kept, higher=False)


def aggregated(
    kind: str, metric: str, scores: Any, values: dict[str, list[Any]], higher: bool
) -> RankedScore | None:
    by_name = {score.name: score.aggregation for score in scores}
    metrics = {name: by_name[name].value(each) for name, each in values.items()}
    stderrs = {metric: by_name[metric].stderr(values[metric])}
    count = len(next(iter(values.values())))
    task = task_result("sample_factor", kind, count, metrics=metrics, stderrs=stderrs)
    found = score_figure(task, metric)
    return None if found is None else _scored(found, task, higher)


def _scored(found: ScoreFigure, task: TaskResult, higher: bool) -> RankedScore:
    return RankedScore(
        task="sample_factor",
        kind=task.kind,
        figure=found,
        higher=higher,
        judge=None,
        steps=(),
        items=0,
        score_if_unscored_wrong=_score_if_unscored_are_wrong(found, higher),
        answers="",
    )


def place_of(score: RankedScore | None, rivals: list[RankedScore]) -> tuple[int, int]:
    """The rank of a model among ``rivals``, and its line in the table; last without a rank."""
    entries = [
        entry(f"acme/rival{number}", each, folder=f"r{number}", leaderboard="sample")
        for number, each in enumerate(rivals)
    ]
    own = [entry("acme/own", score, folder="own", leaderboard="sample")] if score else []
    (table,) = board_of([*entries, *own]).tables
    for line, row in enumerate(table.rows):
        if row.model == "acme/own":
            return row.scores["sample_factor"].rank or 10**6, line
    return 10**6, 10**6


truth = st.tuples(st.booleans(), st.integers(0, 7))
segments = st.tuples(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 7))
numbers = st.sets(st.integers(0, ROWS - 1))


@pytest.mark.parametrize(
    ("make", "row"), [(factor_score, truth), (felm_gen_score, segments)], ids=["factor", "felm_gen"]
)
def test_marking_rows_unscored_never_improves_a_rank(make: Any, row: Any) -> None:
    models = st.lists(st.lists(row, min_size=ROWS, max_size=ROWS), min_size=1, max_size=4)

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(row, min_size=ROWS, max_size=ROWS),
        models,
        numbers,
        numbers,
        st.lists(numbers, min_size=4, max_size=4),
    )
    def check(own: Any, others: Any, first: set[int], more: set[int], theirs: Any) -> None:
        rivals = [
            found
            for other, hidden in zip(others, theirs, strict=False)
            if (found := make(other, hidden))
        ]
        if rivals:
            before, after = (
                place_of(make(own, hidden), rivals) for hidden in (first, first | more)
            )
            assert after >= before

    check()


def test_without_a_worst_case_hidden_rows_have_no_rank() -> None:
    made = factor_score([(number % 2 == 0, number) for number in range(10)], {3})
    assert made is not None
    assert made.interval is not None
    assert replace(made, score_if_unscored_wrong=None).interval is None


def forged(folder: Path, honest: Path, right: int, hidden: int, name: str) -> None:
    """A copy with ``right`` more rows right, and ``hidden`` of those that are still wrong
    unscored."""
    forger = Forger(Path(shutil.copytree(honest, folder)))
    forger.change_submission(lambda said: said["model"].update(name=name))
    path = forger.samples("sample_factor")
    rows = read_rows(path)
    for row in [each for each in rows if each["factor_acc"] != 1.0][: right + hidden]:
        said, gold = row["filtered_resps"], row["doc"]["gold"]
        said[gold] = [("-1.5" if right > 0 else "nan"), *said[gold][1:]]
        row["resps"], right = [[each] for each in said], right - 1
    write_rows(path, rows)
    reseal(folder)


def test_through_the_site_of_real_submissions(honest: Path, tmp_path: Path) -> None:
    found: dict[int, tuple[int, float]] = {}
    for hidden in (0, 4, 17):
        submissions = tmp_path / str(hidden)
        forged(submissions / "rival", honest, 56, 0, "acme/rival")
        forged(submissions / "own", honest, 20, hidden, "acme/own")
        build_site(submissions, tmp_path / f"site{hidden}")
        content = json.loads((tmp_path / f"site{hidden}" / BOARD_FILE).read_text(encoding="utf-8"))
        assert content["refused"] == []
        (table,) = content["leaderboards"]
        assert table["max_unscored"] == 0.05
        models = {each["model"]: each for each in table["models"]}
        own = models["acme/own"]
        (score,) = [each for each in own["scores"] if each["task"] == "sample_factor"]
        found[hidden] = score["rank"], score["value"]
        # The rest of both submissions is one run's.
        assert own["same_answers_as"] == ["acme/rival"]
        assert models["acme/rival"]["same_answers_as"] == ["acme/own"]
        assert (score["unscored"], score["items"]) == (hidden, score["n"])
    page = (tmp_path / "site17" / "index.html").read_text(encoding="utf-8")
    assert f"17 unscored ({17 / score['n']:.1%}), ranked by" in page
    assert "At most 5% of a task&#39;s responses may be unscored" in page.replace("'", "&#39;")
    assert "The same answers as acme/rival" in page
    ranks, values = zip(*found.values(), strict=True)
    assert list(ranks) == sorted(ranks)
    assert list(values) == sorted(set(values))  # though the score over what is left goes up
