"""Writes ``ppi_reference.json``: what ppi-python 0.2.3 makes of small cases, so that the tests do
without it (with what it needs it takes 650 MB). Run: ``pip install --target FOLDER
ppi-python==0.2.3``, then ``PYTHONPATH=FOLDER python -P THIS_FILE``."""

import json
from pathlib import Path

import numpy as np
import ppi_py
from scipy.stats import norm


def case(
    name: str, seed: int, labelled: int, unlabelled: int, rate: float, found: float, alarms: float
) -> dict:
    random = np.random.default_rng(seed)
    truth = random.binomial(1, rate, labelled + unlabelled)
    judged = np.where(
        truth == 1, random.binomial(1, found, len(truth)), random.binomial(1, alarms, len(truth))
    )
    people, own, rest = (
        truth[:labelled].astype(float),
        judged[:labelled].astype(float),
        judged[labelled:].astype(float),
    )

    def estimate(weight: float | None) -> dict:
        value = ppi_py.ppi_mean_pointestimate(people, own, rest, lam=weight)
        low, high = ppi_py.ppi_mean_ci(people, own, rest, alpha=0.05, lam=weight)
        return {"value": float(value[0]), "stderr": float((high - low)[0] / 2 / norm.ppf(0.975))}

    pilot = people - ppi_py.ppi_mean_pointestimate(people, own, rest, lam=1)
    others = (
        own - ppi_py.ppi_mean_pointestimate(people, own, rest, lam=1),
        rest - ppi_py.ppi_mean_pointestimate(people, own, rest, lam=1),
    )
    weight = ppi_py.ppi._calc_lam_glm(pilot, *others, np.eye(1), clip=True)
    return {
        "name": name,
        "people": people.astype(int).tolist(),
        "judged_labelled": own.astype(int).tolist(),
        "judged_unlabelled": rest.astype(int).tolist(),
        "given": [{"lambda": each, **estimate(each)} for each in (0.0, 0.5, 0.9)],
        "tuned": {"lambda": float(weight), **estimate(None)},
    }


CASES = [
    case("good", 1, 100, 900, 0.3, 0.9, 0.05),
    case("lenient", 2, 100, 900, 0.3, 0.4, 0.01),
    case("near chance", 3, 100, 900, 0.4, 0.35, 0.3),
    case("few labels", 4, 40, 1000, 0.5, 0.8, 0.2),
]

if __name__ == "__main__":
    content = {"made_by": "ppi-python 0.2.3", "cases": CASES}
    Path(__file__).with_name("ppi_reference.json").write_text(
        json.dumps(content) + "\n", encoding="utf-8"
    )
