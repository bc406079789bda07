"""How many labels a width needs: held against the widths that corrected scores then have."""

from __future__ import annotations

import numpy as np
import pytest

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.ground.errors import DataError
from lm_factuality.people.correct import Row, plan_labels
from lm_factuality.scores.ppi import Units, estimate

SCORE = find_benchmark("ambigbio").score("d_factscore")
Z95 = 1.959964


def population(random, count=3000):
    """Judge and people on responses of two strata, in one of which the judge errs often."""
    hard = random.random(count) < 0.3
    people = random.beta(8, 2, count)
    judge = np.clip(
        people + np.where(hard, random.normal(-0.1, 0.3, count), random.normal(0, 0.05, count)),
        0,
        1,
    )
    return hard, people, judge


def rows(hard, people, judge, labelled):
    chance = {kind: labelled[hard == kind].mean() for kind in set(hard.tolist())}
    return [
        Row(
            str(place),
            "True hard" if h else "True easy",
            1 / max(chance[h], 1e-9),
            True,
            {SCORE.name: (j, 1.0)},
            {SCORE.name: (p, 1.0)} if own else None,
        )
        for place, (h, p, j, own) in enumerate(zip(hard, people, judge, labelled, strict=True))
    ]


def drawn(random, hard, counts):
    labelled = np.zeros(len(hard), dtype=bool)
    for kind, count in counts.items():
        labelled[random.choice(np.flatnonzero(hard == kind), count, replace=False)] = True
    return labelled


def width_of(found):
    units = [(row.judged[SCORE.name], (row.people or row.judged)[SCORE.name]) for row in found]
    judged, people = (np.array([each[side] for each in units]) for side in (0, 1))
    strata = np.unique([row.stratum for row in found], return_inverse=True)[1]
    labelled = np.array([row.people is not None for row in found])
    numbers = Units(
        judged,
        people,
        labelled,
        np.arange(len(found)),
        strata,
        np.array([row.weight for row in found]),
    )
    return 2 * Z95 * estimate(numbers, lambda sums: sums[0] / sums[1]).stderr


@pytest.mark.parametrize("width", [0.03, 0.02])
def test_the_planned_labels_give_the_planned_width(width):
    random = np.random.default_rng(5)
    hard, people, judge = population(random)
    first = rows(hard, people, judge, drawn(random, hard, {True: 60, False: 60}))
    plan = plan_labels(first, SCORE, width)
    assert plan.now == pytest.approx(width_of(first), rel=0.02)
    assert plan.now > width >= plan.reached > 0.97 * width
    counts = {kind: sum(plan.strata[name][1:]) for kind, name in ((True, "hard"), (False, "easy"))}
    widths = [width_of(rows(hard, people, judge, drawn(random, hard, counts))) for _ in range(8)]
    assert np.mean(widths) == pytest.approx(width, rel=0.1)
    hard_share, easy_share = (
        sum(plan.strata[name][1:]) / plan.strata[name][0] for name in ("hard", "easy")
    )
    assert hard_share > 1.5 * easy_share  # Neyman: more where the judge errs more


def test_no_labels_reach_what_all_do_not():
    random = np.random.default_rng(6)
    hard, people, judge = population(random, 200)
    plan = plan_labels(
        rows(hard, people, judge, drawn(random, hard, {True: 20, False: 20})), SCORE, 0.01
    )
    assert all(units == labelled + more for units, labelled, more in plan.strata.values())
    assert plan.reached > 0.01
    assert plan.reached == pytest.approx(
        2 * Z95 * people.std(ddof=1) / 200**0.5, rel=0.25
    )  # that of people on all


def test_samples_with_nothing_to_ask_are_in_no_stratum():
    random = np.random.default_rng(7)
    hard, people, judge = population(random, 400)
    found = rows(hard, people, judge, drawn(random, hard, {True: 30, False: 30}))
    same = Row("x", "False easy", 1.0, False, {SCORE.name: (1.0, 1.0)}, {SCORE.name: (1.0, 1.0)})
    plan = plan_labels([*found, same, same], SCORE, 0.05)
    assert set(plan.strata) == {"hard", "easy"}
    assert sum(units for units, _, _ in plan.strata.values()) == 400


def test_a_judge_who_was_right_so_far_still_needs_labels():
    """Of 20 labels none differs from the judge; the interval allows for errors that they do not
    show, and so does the plan."""
    people = np.arange(400) % 2.0
    plan = plan_labels(rows(np.zeros(400, bool), people, people, np.arange(400) < 20), SCORE, 0.12)
    assert plan.now > 0.12 >= plan.reached
    assert 0 < plan.strata["easy"][2] < 380
    with pytest.raises(DataError, match="people say the same of all these samples; label more"):
        plan_labels(
            rows(np.zeros(400, bool), np.ones(400), people, np.arange(400) < 20), SCORE, 0.12
        )


def test_too_few_labels_are_refused():
    random = np.random.default_rng(8)
    hard, people, judge = population(random, 50)
    with pytest.raises(DataError, match="d_factscore: not defined on these labels; label more"):
        plan_labels(
            rows(hard, people, judge, drawn(random, hard, {True: 1, False: 0})), SCORE, 0.05
        )
