"""Write ``ppi_reference.json``: what ppi-python 0.2.3 computes for small cases.

The tests compare with that file, because ppi-python and what it needs take 650 MB. To write it
again, run ``pip install --target FOLDER ppi-python==0.2.3`` and then
``PYTHONPATH=FOLDER python -P tests/scores/ppi_reference.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import ppi_py
from scipy.stats import norm

Z_95 = norm.ppf(0.975)  # half the width of a 95% interval, in standard errors


def make_case(
    name: str,
    *,
    seed: int,
    num_labelled: int,
    num_unlabelled: int,
    error_rate: float,
    recall: float,
    false_alarm_rate: float,
) -> dict[str, Any]:
    """Draw a case at random, and let ppi-python estimate its mean.

    Args:
        name: The name of the case.
        seed: The seed of the random numbers.
        num_labelled: How many units people labelled.
        num_unlabelled: How many units only the judge saw.
        error_rate: The share of units with an error.
        recall: The share of these in which the judge finds it.
        false_alarm_rate: The share of the other units in which the judge finds one.
    """
    random = np.random.default_rng(seed)
    num_units = num_labelled + num_unlabelled
    truth = random.binomial(1, error_rate, num_units)
    judged_where_wrong = random.binomial(1, recall, num_units)
    judged_where_right = random.binomial(1, false_alarm_rate, num_units)
    judged = np.where(truth == 1, judged_where_wrong, judged_where_right).astype(float)
    people = truth[:num_labelled].astype(float)
    judged_labelled = judged[:num_labelled]
    judged_unlabelled = judged[num_labelled:]

    def estimate(weight: float | None) -> dict[str, float]:
        """Estimate the mean with a weight of the judge, or with the best one (None)."""
        arguments = (people, judged_labelled, judged_unlabelled)
        value = ppi_py.ppi_mean_pointestimate(*arguments, lam=weight)
        low, high = ppi_py.ppi_mean_ci(*arguments, alpha=0.05, lam=weight)
        return {"value": float(value[0]), "stderr": float((high - low)[0] / 2 / Z_95)}

    # ppi-python finds the best weight within its estimate and does not return it.
    pilot = ppi_py.ppi_mean_pointestimate(people, judged_labelled, judged_unlabelled, lam=1)
    best_weight = ppi_py.ppi._calc_lam_glm(
        people - pilot,
        judged_labelled - pilot,
        judged_unlabelled - pilot,
        np.eye(1),
        clip=True,
    )
    return {
        "name": name,
        "people": people.astype(int).tolist(),
        "judged_labelled": judged_labelled.astype(int).tolist(),
        "judged_unlabelled": judged_unlabelled.astype(int).tolist(),
        "given": [{"lambda": weight, **estimate(weight)} for weight in (0.0, 0.5, 0.9)],
        "tuned": {"lambda": float(best_weight), **estimate(None)},
    }


def make_all_cases() -> list[dict[str, Any]]:
    """Make the cases that the tests read."""
    return [
        make_case(
            "good",
            seed=1,
            num_labelled=100,
            num_unlabelled=900,
            error_rate=0.3,
            recall=0.9,
            false_alarm_rate=0.05,
        ),
        make_case(
            "lenient",
            seed=2,
            num_labelled=100,
            num_unlabelled=900,
            error_rate=0.3,
            recall=0.4,
            false_alarm_rate=0.01,
        ),
        make_case(
            "near chance",
            seed=3,
            num_labelled=100,
            num_unlabelled=900,
            error_rate=0.4,
            recall=0.35,
            false_alarm_rate=0.3,
        ),
        make_case(
            "few labels",
            seed=4,
            num_labelled=40,
            num_unlabelled=1000,
            error_rate=0.5,
            recall=0.8,
            false_alarm_rate=0.2,
        ),
    ]


if __name__ == "__main__":
    content = {"made_by": "ppi-python 0.2.3", "cases": make_all_cases()}
    path = Path(__file__).with_name("ppi_reference.json")
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")
