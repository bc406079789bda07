"""Leaving rows unscored never gives a better rank, by the rule and on the site."""

from __future__ import annotations

import html
import json
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lm_factuality.benchmarks.chosen import score_figure
from lm_factuality.benchmarks.factor.metrics import SCORES as FACTOR
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN as METHOD
from lm_factuality.benchmarks.felm_gen.judging import SCORES as FELM_GEN
from lm_factuality.leaderboard.site.board import to_board
from lm_factuality.leaderboard.site.build import BOARD_FILE, build_site
from lm_factuality.leaderboard.site.entries import RankedScore, _score_if_unscored_are_wrong
from lm_factuality.scores.statistics import Outcome
from tests.conftest import task_result
from tests.leaderboard.conftest import Forger
from tests.leaderboard.reseal import read_rows, reseal, write_rows
from tests.leaderboard.site.conftest import make_entry

ROWS = 24  # of each model
LAST = 10**6  # a rank behind all others


def factor_score(rows, unscored_rows):
    """Return the accuracy of rows, as lm_eval would aggregate it.

    Args:
        rows: Whether each row is right, and the number of its document.
        unscored_rows: The numbers of the rows that are unscored.
    """
    values = {"factor_acc": [], "factor_acc_worst": [], "factor_acc_best": [], "unscored": []}
    for number, (is_right, document) in enumerate(rows):
        is_hidden = number in unscored_rows
        cluster = str(document)
        values["factor_acc"].append(None if is_hidden else Outcome(is_right, cluster))
        values["factor_acc_worst"].append(Outcome(is_right and not is_hidden, cluster))
        values["factor_acc_best"].append(Outcome(is_right or is_hidden, cluster))
        values["unscored"].append("hidden" if is_hidden else None)
    return ranked_score("factor", "factor_acc", FACTOR, values, higher=True)


def felm_gen_score(rows, unscored_rows):
    """Return the share of segments with errors, as lm_eval would aggregate it.

    Args:
        rows: Whether each segment of each row has an error, and the number of the row's document.
        unscored_rows: The numbers of the rows that are unscored.
    """
    values = defaultdict(list)
    for number, (have_errors, _) in enumerate(rows):
        is_hidden = number in unscored_rows
        record = {
            "domain": "wk",
            "segments": ["x"] * len(have_errors),
            "no_answer": None,
            "errors": None
            if is_hidden
            else ["knowledge" if error else None for error in have_errors],
            "unscored": "hidden" if is_hidden else None,
        }
        for name, value in METHOD.row_metrics({}, record).items():
            if name.startswith("segment_error_rate") or name == "unscored":
                values[name].append(value)
    return ranked_score("felm_gen", "segment_error_rate", FELM_GEN, values, higher=False)


def ranked_score(kind, metric, scores, values, higher):
    """Return the score that a leaderboard ranks by, or None if no row is scored.

    Args:
        kind: The kind of the benchmark.
        metric: The name of the score.
        scores: All scores of the benchmark.
        values: The value of each row, by the name of the score.
        higher: Whether a higher score is better.
    """
    aggregations = {score.name: score.aggregation for score in scores}
    metrics = {name: aggregations[name].value(column) for name, column in values.items()}
    stderrs = {metric: aggregations[metric].stderr(values[metric])}
    num_rows = len(values["unscored"])
    task = task_result("sample_factor", kind, num_rows, metrics=metrics, stderrs=stderrs)
    figure = score_figure(task, metric)
    if figure is None:
        return None
    return RankedScore(
        task="sample_factor",
        kind=kind,
        figure=figure,
        higher_is_better=higher,
        judge=None,
        steps=(),
        items=0,
        score_if_unscored_wrong=_score_if_unscored_are_wrong(figure, higher),
        answers_hash="",
    )


def place_of(score, rivals):
    """Return the rank of a model and its line in the table, which a better place has lower.

    Args:
        score: The score of the model. Without one (None), both numbers are `LAST`.
        rivals: The scores of the other models.
    """
    entries = [
        make_entry(f"acme/rival{number}", rival, folder=f"r{number}", leaderboard="sample")
        for number, rival in enumerate(rivals)
    ]
    if score is not None:
        entries.append(make_entry("acme/own", score, folder="own", leaderboard="sample"))
    (table,) = to_board(entries).tables
    for line, row in enumerate(table.rows):
        if row.model == "acme/own":
            return row.scores["sample_factor"].rank or LAST, line
    return LAST, LAST


factor_rows = st.tuples(st.booleans(), st.integers(0, 7))
felm_gen_rows = st.tuples(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 7))
row_numbers = st.sets(st.integers(0, ROWS - 1))


@pytest.mark.parametrize(
    ("make_score", "row"),
    [(factor_score, factor_rows), (felm_gen_score, felm_gen_rows)],
    ids=["factor", "felm_gen"],
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_marking_rows_unscored_never_improves_a_rank(make_score, row, data):
    """A model could otherwise climb by giving no answer where it expects to be wrong."""
    all_rows = st.lists(row, min_size=ROWS, max_size=ROWS)
    own_rows = data.draw(all_rows)
    rivals = []
    for _ in range(data.draw(st.integers(1, 4))):
        rival = make_score(data.draw(all_rows), data.draw(row_numbers))
        if rival is not None:
            rivals.append(rival)
    assume(rivals)
    unscored_rows = data.draw(row_numbers)
    more_unscored_rows = unscored_rows | data.draw(row_numbers)

    place = place_of(make_score(own_rows, unscored_rows), rivals)
    place_with_more_unscored_rows = place_of(make_score(own_rows, more_unscored_rows), rivals)

    # A better place has a lower rank or, with the same rank, a lower line in the table.
    assert place_with_more_unscored_rows >= place


def test_a_score_with_unscored_rows_and_no_worst_case_has_no_interval():
    """The worst case is the score that the model would have if its unscored rows were wrong."""
    rows = [(document % 2 == 0, document) for document in range(10)]  # every second row is right
    score = factor_score(rows, unscored_rows={3})

    score_without_worst_case = replace(score, score_if_unscored_wrong=None)

    assert score.interval is not None
    assert score_without_worst_case.interval is None


def forge(folder, honest, name, num_improved, num_hidden=0):
    """Forge a submission in which a model of another name is right on more rows.

    Args:
        folder: Where to write it.
        honest: The submission to forge.
        name: The name of the model.
        num_improved: How many rows of FACTOR become right.
        num_hidden: How many rows that are still wrong become unscored.
    """
    forger = Forger(Path(shutil.copytree(honest, folder)))
    forger.change_submission(lambda submission: submission["model"].update(name=name))
    samples_path = forger.samples("sample_factor")
    rows = read_rows(samples_path)
    wrong_rows = [row for row in rows if row["factor_acc"] != 1.0]
    for number, row in enumerate(wrong_rows[: num_improved + num_hidden]):
        responses = row["filtered_resps"]
        responses[row["doc"]["gold"]][0] = "-1.5" if number < num_improved else "nan"
        row["resps"] = [[response] for response in responses]
    write_rows(samples_path, rows)
    reseal(folder)


class BuiltSite(NamedTuple):
    """The site of two models, as the page of its leaderboard and the same data as JSON."""

    page: str
    leaderboard: dict[str, Any]

    @property
    def models(self) -> dict[str, Any]:
        """Return the models of the leaderboard by name."""
        return {model["model"]: model for model in self.leaderboard["models"]}

    @property
    def own_factor_score(self) -> dict[str, Any]:
        """Return the score on FACTOR of ``acme/own``, the model with unscored rows."""
        scores = self.models["acme/own"]["scores"]
        (score,) = [score for score in scores if score["task"] == "sample_factor"]
        return score


@pytest.fixture(scope="module")
def sites_by_unscored(honest, tmp_path_factory):
    """Build sites on which ``acme/own`` has 0, 4 and 17 unscored rows, and ``acme/rival`` none."""
    folder = tmp_path_factory.mktemp("hiding")
    sites = {}
    for num_unscored in (0, 4, 17):
        submissions = folder / str(num_unscored)
        site = folder / f"site{num_unscored}"
        forge(submissions / "rival", honest, "acme/rival", num_improved=56)
        forge(submissions / "own", honest, "acme/own", num_improved=20, num_hidden=num_unscored)
        build_site(submissions, site)
        board = json.loads((site / BOARD_FILE).read_text(encoding="utf-8"))
        assert board["refused"] == []
        page = html.unescape((site / "index.html").read_text(encoding="utf-8"))
        sites[num_unscored] = BuiltSite(page, board["leaderboards"][0])
    return sites


def test_more_unscored_rows_give_no_better_rank_on_the_site(sites_by_unscored):
    """All rows that the model leaves unscored are rows on which it is wrong."""
    rank_with_0 = sites_by_unscored[0].own_factor_score["rank"]
    rank_with_4 = sites_by_unscored[4].own_factor_score["rank"]
    rank_with_17 = sites_by_unscored[17].own_factor_score["rank"]

    assert rank_with_0 <= rank_with_4 <= rank_with_17


def test_hiding_rows_raises_the_score_over_scored_rows(sites_by_unscored):
    """Models are therefore not ranked by the score over scored rows."""
    score_with_0 = sites_by_unscored[0].own_factor_score["value"]
    score_with_4 = sites_by_unscored[4].own_factor_score["value"]
    score_with_17 = sites_by_unscored[17].own_factor_score["value"]

    assert score_with_0 < score_with_4 < score_with_17


@pytest.mark.parametrize("num_unscored", [0, 4, 17])
def test_unscored_rows_are_counted_on_the_site(sites_by_unscored, num_unscored):
    """FACTOR's sample has 432 rows, of which 5% may be unscored."""
    site = sites_by_unscored[num_unscored]

    assert site.own_factor_score["unscored"] == num_unscored
    assert site.own_factor_score["n"] == 432
    assert site.own_factor_score["items"] == 432
    assert site.leaderboard["max_unscored"] == 0.05


def test_page_shows_the_actual_and_allowed_unscored_share(sites_by_unscored):
    page = sites_by_unscored[17].page

    assert "17 unscored (3.9%), ranked by" in page  # 17 of 432 rows
    assert "At most 5% of a task's responses may be unscored" in page


# The models acme/own and acme/rival are forged from one run. Only some of their log-probabilities
# on FACTOR differ, and their answers to the other tasks are the same.


@pytest.mark.parametrize("num_unscored", [0, 4, 17])
def test_submission_names_another_submission_with_the_same_answers(sites_by_unscored, num_unscored):
    """The files cannot show which of the two came first, so each names the other."""
    models = sites_by_unscored[num_unscored].models

    assert models["acme/own"]["same_answers_as"] == ["acme/rival"]
    assert models["acme/rival"]["same_answers_as"] == ["acme/own"]


def test_the_page_names_a_model_with_the_same_answers(sites_by_unscored):
    """The answers of acme/own and acme/rival differ on FACTOR alone, as both are from one run."""
    page = sites_by_unscored[17].page

    assert "The same answers as acme/rival" in page
    assert "The same answers as acme/own" in page
