"""``python -m bench.corrected``: whether corrected scores hold the truth as often as their
intervals say.

Responses are drawn from published ones: FELM's with its segments and errors, and those of
D-FActScore's released decisions, in clusters of one name. What the labels and decisions say is what
people would say, so the truth is known: the score of everything that is drawn from. A made-up judge
finds a share of the errors and calls a share of what is right an error, some labels are drawn, and
the score is corrected, again and again. The uncorrected interval is the judge's own, clustered as
in the results.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks import make_judged_method
from lm_factuality.benchmarks.biographies.decisions import match_texts, read_decisions
from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
from lm_factuality.benchmarks.biographies.released import released_d_factscore, released_factscore
from lm_factuality.ground.console import print_table
from lm_factuality.scores.paired import score_gradient
from lm_factuality.scores.ppi import Estimate, Units, correct_by_labels
from lm_factuality.scores.statistics import Z95
from tests.conftest import REPOSITORY

DATA = REPOSITORY.parent / "shared" / "data"
UNITS = 4000


@dataclass(frozen=True)
class Pool:
    """Responses to draw from: ``errors`` of so many ``items`` of each, those of a cluster together;
    ``sizes`` of the clusters."""

    errors: np.ndarray
    items: np.ndarray
    sizes: np.ndarray

    def draw(self, random: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The places of about so many responses in whole clusters, drawn with replacement, and the
        clusters that they are in."""
        chosen = random.integers(
            len(self.sizes), size=round(number * len(self.sizes) / len(self.items))
        )
        sizes, starts = self.sizes[chosen], (np.cumsum(self.sizes) - self.sizes)[chosen]
        clusters = np.repeat(np.arange(len(chosen)), sizes)
        return np.arange(len(clusters)) + (starts - np.cumsum(sizes) + sizes)[clusters], clusters


@cache
def felm(data: Path = DATA) -> Pool:
    """FELM's responses, each its own cluster: segments with errors."""
    with (data / "felm" / "all.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    counts = np.array(
        [(sum(not label for label in row["labels"]), len(row["labels"])) for row in rows]
    )
    return Pool(counts[:, 0], counts[:, 1], np.ones(len(rows), int))


@cache
def biographies(data: Path = DATA) -> Pool:
    """The responses of D-FActScore's released decisions, in clusters of a name: facts that their
    own entity does not support."""
    found = [
        (name, sum(not fact.is_supported for fact in response.grouped), len(response.grouped))
        for path in sorted((data / "ambigbio" / "decisions").glob("*.gz"))
        for name, response in enumerate(read_decisions(path).responses)
        if response is not None and response.grouped
    ]
    names, errors, items = np.array(sorted(found)).T
    return Pool(errors, items, np.unique(names, return_counts=True)[1])


@dataclass(frozen=True)
class MadeUp:
    """A judge who finds a share ``found`` of the errors and calls a share ``alarms`` of what is
    right one; in the longer half of the responses these are ``long``; with ``varies`` it is better
    at some responses than at others."""

    found: float
    alarms: float
    long: tuple[float, float] | None = None
    varies: bool = False

    def judge(
        self, random: np.random.Generator, errors: np.ndarray, items: np.ndarray
    ) -> np.ndarray:
        """How many errors it counts in each response."""
        is_long = items > np.median(items)
        found, alarms = (
            np.where(is_long, *pair)
            for pair in zip(
                self.long or (self.found, self.alarms), (self.found, self.alarms), strict=True
            )
        )
        if self.varies:
            skill = random.beta(1.5, 1.5, len(errors))
            found, alarms = (
                np.clip(found + 0.3 * (2 * skill - 1), 0, 1),
                np.clip(2 * alarms * skill, 0, 1),
            )
        return random.binomial(errors, found) + random.binomial(items - errors, alarms)


JUDGES = {
    "good": MadeUp(0.9, 0.03),
    "lenient": MadeUp(0.4, 0.01),
    "strict": MadeUp(0.95, 0.2),
    "better on long ones": MadeUp(0.5, 0.3, (0.9, 0.05)),
    "varying": MadeUp(0.7, 0.1, varies=True),
    "near chance": MadeUp(0.35, 0.3),
}
Counts = Callable[[np.ndarray, np.ndarray], np.ndarray]
SCORES: dict[str, tuple[Callable[[Path], Pool], Counts]] = {
    "segments with errors": (felm, lambda errors, items: np.stack([errors, items], axis=1)),
    "responses with errors": (
        felm,
        lambda errors, items: np.stack([errors > 0, np.ones(len(items))], axis=1),
    ),
    "D-FActScore": (
        biographies,
        lambda errors, items: np.stack([1 - errors / items, np.ones(len(items))], axis=1),
    ),
}
DRAWS = ("random", "stratified")  # by whether the judge finds an error


@dataclass(frozen=True)
class Setting:
    score: str
    judge: str
    labels: int
    draw: str


SETTINGS = tuple(Setting(*each) for each in product(SCORES, JUDGES, (50, 200), DRAWS))


@dataclass(frozen=True)
class Outcome:
    """Of all trials: the shares in which the interval of the corrected score holds the truth, and
    that of the judge's; the means of the corrected score less the truth, of lambda, and of the
    widths beside those from labels alone (lambda 0)."""

    covered: float
    uncorrected: float
    bias: float
    weight: float
    width: float
    alone: float


def ratio(sums: Sequence[float]) -> float:
    return sums[0] / sums[1] if sums[1] else math.nan


def draw_units(
    random: np.random.Generator, pool: Pool, counts: Counts, judge: MadeUp, labels: int, draw: str
) -> Units:
    """About ``UNITS`` responses in whole clusters, as the judge and as people see them, some of
    them labelled."""
    places, clusters = pool.draw(random, UNITS)
    errors, items = pool.errors[places], pool.items[places]
    marked = judge.judge(random, errors, items)
    strata = (marked > 0).astype(int) if draw == "stratified" else np.zeros(len(places), int)
    labelled, weights = np.zeros(len(places), bool), np.ones(len(places))
    for stratum in range(strata.max() + 1):
        members = np.flatnonzero(strata == stratum)
        number = min(len(members), labels // (strata.max() + 1))
        labelled[random.choice(members, number, replace=False)] = True
        weights[members] = len(members) / max(1, number)
    return Units(
        counts(marked, items).astype(float),
        counts(errors, items).astype(float),
        labelled,
        clusters,
        strata,
        weights,
    )


def uncorrected(units: Units) -> tuple[float, float]:
    """The judge's score and its clustered standard error."""
    sums = units.judge_counts.sum(axis=0)
    adds = np.bincount(units.clusters, units.judge_counts @ score_gradient(ratio, sums))
    return ratio(sums.tolist()), math.sqrt(
        len(adds) / (len(adds) - 1) * float(((adds - adds.mean()) ** 2).sum())
    )


def simulate(setting: Setting, trials: int, data: Path = DATA, seed: int = 0) -> Outcome:
    """``trials`` times, from a seed of the setting's own."""
    read, counts = SCORES[setting.score]
    pool = read(data)
    truth = ratio(counts(pool.errors, pool.items).sum(axis=0).tolist())
    random = np.random.default_rng([seed, zlib.crc32(repr(setting).encode())])
    found = []
    for _ in range(trials):
        units = draw_units(
            random, pool, counts, JUDGES[setting.judge], setting.labels, setting.draw
        )
        corrected, alone = (
            correct_by_labels(units, ratio, 0, 1),
            correct_by_labels(units, ratio, 0, 1, judge_weight=0.0),
        )
        assert isinstance(corrected, Estimate)
        assert isinstance(alone, Estimate)
        value, stderr = uncorrected(units)
        holds = corrected.low <= truth <= corrected.high, abs(value - truth) <= Z95 * stderr
        widths = corrected.high - corrected.low, alone.high - alone.low
        found.append((*holds, corrected.value - truth, corrected.judge_weight, *widths))
    return Outcome(*np.mean(found, axis=0).tolist())


def released(
    labels: int, draws: int, store: Path, data: Path = DATA, seed: int = 0
) -> list[tuple[str, int, float, float, Outcome]]:
    """The lexical judge on ChatGPT's biographies whose decisions were released, which are taken for
    what people say: of FActScore and D-FActScore the number of responses, the released score of all
    of them, the judge's, and how often the corrected interval from ``labels`` responses holds the
    released one."""
    found = list(
        match_texts(
            read_decisions(
                data / "ambigbio" / "decisions" / "chatgpt-0301__no-ambig.json.gz"
            ).responses,
            read_generations([data / "ambigbio" / "generations_chatgpt-0301.json.gz"]),
        )
    )
    task = make_judged_method("ambigbio", {})
    docs, texts = (
        [generation_to_doc(generation) for _, generation in found],
        [(generation.output,) for _, generation in found],
    )
    with Judge.open(load_judge_config("lexical"), store) as judge:
        records = task.judge(judge, docs, texts)
    names = np.unique([generation.name for _, generation in found], return_inverse=True)[1]
    rows = []
    for name, truth_of in (
        ("factscore", released_factscore),
        ("d_factscore", released_d_factscore),
    ):
        people = _parts([truth_of(response) for response, _ in found])
        judged = _parts([(record["scores"] or {}).get(name) for record in records])
        truth, said = (ratio(each.sum(axis=0).tolist()) for each in (people, judged))
        random, outcomes = np.random.default_rng(seed), []
        for _ in range(draws):
            labelled = np.zeros(len(found), bool)
            labelled[random.choice(len(found), labels, replace=False)] = True
            units = Units(
                judged, people, labelled, names, np.zeros(len(found), int), np.ones(len(found))
            )
            corrected, alone = (
                correct_by_labels(units, ratio, 0, 1),
                correct_by_labels(units, ratio, 0, 1, judge_weight=0.0),
            )
            assert corrected is not None
            assert alone is not None
            value, stderr = uncorrected(units)
            holds = corrected.low <= truth <= corrected.high, abs(value - truth) <= Z95 * stderr
            widths = corrected.high - corrected.low, alone.high - alone.low
            outcomes.append((*holds, corrected.value - truth, corrected.judge_weight, *widths))
        rows.append((name, len(found), truth, said, Outcome(*np.mean(outcomes, axis=0).tolist())))
    return rows


def _parts(values: Sequence[float | None]) -> np.ndarray:
    return np.array([(0.0, 0.0) if value is None else (value, 1.0) for value in values])


def simulations(
    trials: int, settings: Sequence[Setting] = SETTINGS
) -> Iterator[tuple[Setting, Outcome]]:
    for setting in tqdm(settings, "simulating", unit=" settings", delay=2):
        yield setting, simulate(setting, trials)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.corrected", description=__doc__)
    parser.add_argument(
        "--trials",
        type=int,
        default=1000,
        metavar="N",
        help="of each setting (default %(default)s)",
    )
    parser.add_argument(
        "--labels", type=int, choices=(50, 200), help="only settings with so many (default: both)"
    )
    parser.add_argument(
        "--released",
        action="store_true",
        help="the offline judge on released decisions instead (two minutes)",
    )
    given = parser.parse_args(argv)
    if given.released:
        return _print_released(given.trials)
    chosen = [each for each in SETTINGS if given.labels in (None, each.labels)]
    rows = []
    for setting, found in simulations(given.trials, chosen):
        shares = (f"{100 * each:.1f}" for each in (found.covered, found.uncorrected))
        numbers = (
            f"{100 * found.bias:+.2f}",
            f"{found.weight:.2f}",
            f"{found.width / found.alone:.2f}",
        )
        row = (setting.score, setting.judge, str(setting.labels), setting.draw, *shares, *numbers)
        tqdm.write("  ".join(row), file=sys.stderr)
        rows.append(row)
    columns = (
        "score",
        "judge",
        "#labels",
        "drawn",
        "#corrected holds, %",
        "#uncorrected, %",
        "#bias, points",
        "#lambda",
        "#width",
    )
    outside = sum(not 93 <= float(row[4]) <= 97 for row in rows)
    notes = [
        f"{given.trials} trials of each setting with about {UNITS} responses; width: beside the interval from the same labels alone.",
        f"Outside 93 to 97%: {outside} of {len(rows)} settings.",
    ]
    print_table("How often 95% intervals hold the truth", columns, rows, notes)
    return 0


def _print_released(draws: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = released(100, draws, Path(folder) / "answers.sqlite")
    lines = []
    for name, number, truth, said, found in rows:
        shares = (f"{100 * each:.1f}" for each in (truth, said, found.covered, found.uncorrected))
        widths = (
            f"{100 * found.bias:+.2f}",
            f"{found.weight:.2f}",
            f"{found.width / found.alone:.2f}",
        )
        lines.append((name, str(number), *shares, *widths))
    columns = (
        "score",
        "#responses",
        "#released",
        "#judge",
        "#corrected holds, %",
        "#uncorrected, %",
        "#bias",
        "#lambda",
        "#width",
    )
    print_table(
        "100 labelled responses, the offline judge",
        columns,
        lines,
        [f"{draws} draws of the labels."],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
