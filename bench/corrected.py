"""Simulates how often the 95% intervals of corrected scores contain the truth.

    python -m bench.corrected

Responses are drawn from published ones: FELM's with their segments and errors, and those of
D-FActScore's released decisions, in clusters of one name. The published labels and decisions stand
for what people would say, so the truth is known: it is the score of everything that is drawn from.
A simulated judge finds a share of the errors, and takes a share of the right items for errors. Some
responses are labelled, the score is corrected, and all of this is repeated.
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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks import make_judged_method
from lm_factuality.benchmarks.biographies.decisions import match_texts, read_decisions
from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
from lm_factuality.benchmarks.biographies.released import released_d_factscore, released_factscore
from lm_factuality.ground.console import print_table
from lm_factuality.scores.intervals import Z95, Floats, score_gradient
from lm_factuality.scores.ppi import Units, correct_by_labels
from lm_factuality.scores.statistics import ratio
from tests.conftest import REPOSITORY

Numbers = NDArray[np.int_]

DATA = REPOSITORY.parent / "shared" / "data"
"""The folder with the published data."""

NUM_RESPONSES = 4000
"""About how many responses a trial draws."""

_RELEASED_DECISIONS = "chatgpt-0301__no-ambig.json.gz"
_RELEASED_GENERATIONS = "generations_chatgpt-0301.json.gz"
_NUM_RELEASED_LABELS = 100


@dataclass(frozen=True)
class Pool:
    """Published responses to draw from. Those of one cluster stand side by side."""

    errors: Numbers
    """The number of errors in each response."""

    items: Numbers
    """The number of items in each response: segments or facts."""

    cluster_sizes: Numbers
    """The number of responses in each cluster."""

    def draw(self, generator: np.random.Generator, count: int) -> Draw:
        """Draw about ``count`` responses, as whole clusters with replacement."""
        num_clusters = round(count * len(self.cluster_sizes) / len(self.items))
        drawn = generator.integers(len(self.cluster_sizes), size=num_clusters)
        sizes = self.cluster_sizes[drawn]
        first_indices = (np.cumsum(self.cluster_sizes) - self.cluster_sizes)[drawn]
        clusters = np.repeat(np.arange(num_clusters), sizes)
        # A response's index is that of its cluster's first response plus its rank in the cluster.
        first_positions = np.cumsum(sizes) - sizes
        ranks = np.arange(len(clusters)) - first_positions[clusters]
        return Draw(first_indices[clusters] + ranks, clusters)


class Draw(NamedTuple):
    """Responses drawn from a pool."""

    indices: Numbers
    """The index of each response in the pool."""

    clusters: Numbers
    """The number of each response's cluster, from 0. A cluster drawn twice has two numbers."""


@cache
def felm_pool(data: Path = DATA) -> Pool:
    """Read FELM's responses. Each is a cluster of its own, and its items are segments."""
    with (data / "felm" / "all.jsonl").open(encoding="utf-8") as lines:
        labels_by_row = [json.loads(line)["labels"] for line in lines]
    errors = np.array([labels.count(False) for labels in labels_by_row])
    items = np.array([len(labels) for labels in labels_by_row])
    return Pool(errors, items, np.ones(len(items), int))


@cache
def biographies_pool(data: Path = DATA) -> Pool:
    """Read the biographies of D-FActScore's released decisions, in clusters of one name.

    Items are facts. An error is a fact that the page of its own individual does not support.
    """
    rows = []
    for path in sorted((data / "ambigbio" / "decisions").glob("*.gz")):
        # All files have the same names in the same order.
        for name, response in enumerate(read_decisions(path).responses):
            if response is not None and response.grouped:
                num_errors = sum(not fact.is_supported for fact in response.grouped)
                rows.append((name, num_errors, len(response.grouped)))
    names, errors, items = np.array(sorted(rows)).T
    return Pool(errors, items, np.unique(names, return_counts=True)[1])


class ErrorRates(NamedTuple):
    """How a judge errs."""

    recall: float
    """The share of errors that the judge finds."""

    false_alarms: float
    """The share of right items that the judge takes for errors."""


@dataclass(frozen=True)
class SimulatedJudge:
    """A judge that counts errors in responses."""

    rates: ErrorRates
    """How it errs."""

    rates_of_long: ErrorRates | None = None
    """How it errs in the longer half of the responses, if that differs."""

    varies: bool = False
    """Whether it is better at some responses than at others."""

    def count_errors(
        self, generator: np.random.Generator, errors: Numbers, items: Numbers
    ) -> Numbers:
        """Return how many errors the judge counts in each response.

        Args:
            generator: The source of randomness.
            errors: The true number of errors in each response.
            items: The number of items in each response.
        """
        is_long = items > np.median(items)
        rates_of_long = self.rates_of_long or self.rates
        recall = np.where(is_long, rates_of_long.recall, self.rates.recall)
        false_alarms = np.where(is_long, rates_of_long.false_alarms, self.rates.false_alarms)
        if self.varies:
            # Between 0 and 1 with a mean of one half, so that the means of both rates stay.
            skill = generator.beta(1.5, 1.5, len(errors))
            recall = np.clip(recall + 0.3 * (2 * skill - 1), 0, 1)
            false_alarms = np.clip(2 * false_alarms * skill, 0, 1)
        found = generator.binomial(errors, recall)
        return np.asarray(found + generator.binomial(items - errors, false_alarms))


JUDGES = {
    "good": SimulatedJudge(ErrorRates(0.9, 0.03)),
    "lenient": SimulatedJudge(ErrorRates(0.4, 0.01)),
    "strict": SimulatedJudge(ErrorRates(0.95, 0.2)),
    "better on long ones": SimulatedJudge(ErrorRates(0.5, 0.3), ErrorRates(0.9, 0.05)),
    "varying": SimulatedJudge(ErrorRates(0.7, 0.1), varies=True),
    "near chance": SimulatedJudge(ErrorRates(0.35, 0.3)),
}
"""The simulated judges by name."""


def _error_counts(errors: Numbers, items: Numbers) -> Floats:
    """Return (errors, items) of each response, for the share of items with errors."""
    return np.stack([errors, items], axis=1).astype(float)


def _response_counts(errors: Numbers, items: Numbers) -> Floats:
    """Return (whether it has an error, 1) of each response, for the share of such responses."""
    return np.stack([errors > 0, np.ones(len(items))], axis=1).astype(float)


def _factuality_counts(errors: Numbers, items: Numbers) -> Floats:
    """Return (share of items without error, 1) of each response, for the mean of these shares."""
    return np.stack([1 - errors / items, np.ones(len(items))], axis=1)


class SimulatedScore(NamedTuple):
    """A score whose truth is known."""

    read_pool: Callable[[Path], Pool]
    """Reads the responses to draw from, from the folder with the published data."""

    counts: Callable[[Numbers, Numbers], Floats]
    """Turns errors and items into a part and a whole per response. The score is part / whole."""


SCORES = {
    "segments with errors": SimulatedScore(felm_pool, _error_counts),
    "responses with errors": SimulatedScore(felm_pool, _response_counts),
    "D-FActScore": SimulatedScore(biographies_pool, _factuality_counts),
}
"""The simulated scores by name."""

STRATIFIED = "stratified"
"""The way of drawing labels by whether the judge finds an error in the response."""

SAMPLINGS = ("random", STRATIFIED)
"""The ways in which responses are drawn for labelling."""


@dataclass(frozen=True)
class Setting:
    """What is simulated many times."""

    score: str
    """The name of the score."""

    judge: str
    """The name of the judge."""

    num_labels: int
    """How many responses are labelled."""

    sampling: str
    """How these are drawn."""


def all_settings() -> list[Setting]:
    """Return every combination of a score, a judge, a number of labels and a sampling."""
    return [Setting(*parts) for parts in product(SCORES, JUDGES, (50, 200), SAMPLINGS)]


@dataclass(frozen=True)
class Coverage:
    """What intervals did in all trials, as shares and means."""

    corrected: float
    """The share of trials in which the corrected interval contains the truth."""

    uncorrected: float
    """The share of trials in which the interval of the judge's own score contains the truth."""

    bias: float
    """The mean of the corrected score less the truth."""

    judge_weight: float
    """The mean of lambda, by which the judge's counts are weighted."""

    width: float
    """The mean width of the corrected interval."""

    width_of_labels: float
    """The mean width of the interval from the labels alone (a lambda of 0)."""


def simulate(setting: Setting, trials: int, data: Path = DATA, seed: int = 0) -> Coverage:
    """Draw responses and labels many times, and count how often intervals contain the truth.

    Args:
        setting: What to simulate. It has random numbers of its own.
        trials: The number of trials.
        data: The folder with the published data.
        seed: The seed of the random numbers.
    """
    score = SCORES[setting.score]
    pool = score.read_pool(data)
    truth = _score_of(score.counts(pool.errors, pool.items))
    generator = np.random.default_rng([seed, zlib.crc32(_name_for_seed(setting).encode())])
    results = []
    for _ in range(trials):
        units = _draw_units(generator, pool, setting)
        results.append(_try_interval(units, truth))
    return Coverage(*np.mean(results, axis=0).tolist())


def _name_for_seed(setting: Setting) -> str:
    """Return the text of a setting that its random numbers depend on."""
    # Other names of the fields would change the published figures.
    return (
        f"Setting(score={setting.score!r}, judge={setting.judge!r},"
        f" labels={setting.num_labels!r}, draw={setting.sampling!r})"
    )


def _draw_units(generator: np.random.Generator, pool: Pool, setting: Setting) -> Units:
    """Draw responses, let the judge count their errors, and label some of them."""
    draw = pool.draw(generator, NUM_RESPONSES)
    errors = pool.errors[draw.indices]
    items = pool.items[draw.indices]
    judged_errors = JUDGES[setting.judge].count_errors(generator, errors, items)

    strata = np.zeros(len(items), int)
    if setting.sampling == STRATIFIED:
        strata = (judged_errors > 0).astype(int)
    num_strata = int(strata.max()) + 1
    is_labelled = np.zeros(len(items), bool)
    weights = np.ones(len(items))
    for stratum in range(num_strata):
        members = np.flatnonzero(strata == stratum)
        num_labels = min(len(members), setting.num_labels // num_strata)
        is_labelled[generator.choice(members, num_labels, replace=False)] = True
        weights[members] = len(members) / max(1, num_labels)

    counts = SCORES[setting.score].counts
    judge_counts = counts(judged_errors, items)
    return Units(judge_counts, counts(errors, items), is_labelled, draw.clusters, strata, weights)


def _try_interval(units: Units, truth: float) -> tuple[float, ...]:
    """Correct a score, and return the fields of `Coverage` for this one trial."""
    corrected = correct_by_labels(units, ratio_of_sums, 0, 1)
    labels_alone = correct_by_labels(units, ratio_of_sums, 0, 1, judge_weight=0.0)
    assert corrected is not None
    assert labels_alone is not None
    judge_score = _score_of(units.judge_counts)
    is_near = abs(judge_score - truth) <= Z95 * _stderr_of_judge(units)
    return (
        corrected.low <= truth <= corrected.high,
        is_near,
        corrected.value - truth,
        corrected.judge_weight,
        corrected.high - corrected.low,
        labels_alone.high - labels_alone.low,
    )


def ratio_of_sums(sums: Sequence[float]) -> float:
    """Return the first of two sums divided by the second."""
    return ratio(sums[0], sums[1])


def _score_of(counts: Floats) -> float:
    """Return the score of all responses from their counts, of shape (responses, 2)."""
    return ratio_of_sums(counts.sum(axis=0).tolist())


def _stderr_of_judge(units: Units) -> float:
    """Return the clustered standard error of the judge's score, as results have it."""
    gradient = score_gradient(ratio_of_sums, units.judge_counts.sum(axis=0))
    contributions = np.bincount(units.clusters, units.judge_counts @ gradient)
    num_clusters = len(contributions)
    squares = float(((contributions - contributions.mean()) ** 2).sum())
    return math.sqrt(num_clusters / (num_clusters - 1) * squares)


class ReleasedScore(NamedTuple):
    """How often corrected intervals contain a released score."""

    name: str
    """The name of the score."""

    num_responses: int
    """The number of responses."""

    released: float
    """The released score of all responses."""

    by_judge: float
    """The score by the offline judge."""

    coverage: Coverage
    """What the intervals from random labels did."""


def simulate_released(
    num_labels: int, draws: int, store: Path, data: Path = DATA, seed: int = 0
) -> list[ReleasedScore]:
    """Correct the offline judge by released decisions on ChatGPT's biographies, again and again.

    The released decisions are taken for what people would say.

    Args:
        num_labels: The number of labelled responses in each draw.
        draws: The number of draws.
        store: The file for the judge's answers.
        data: The folder with the published data.
        seed: The seed of the draws.

    Returns:
        The coverage for FActScore and for D-FActScore.
    """
    folder = data / "ambigbio"
    decisions = read_decisions(folder / "decisions" / _RELEASED_DECISIONS)
    generations = read_generations([folder / _RELEASED_GENERATIONS])
    matches = list(match_texts(decisions.responses, generations))
    docs = [generation_to_doc(generation) for _, generation in matches]
    texts = [(generation.output,) for _, generation in matches]
    with Judge.open(load_judge_config("lexical"), store) as judge:
        records = make_judged_method("ambigbio", {}).judge(judge, docs, texts)
    names = [generation.name for _, generation in matches]
    clusters = np.unique(names, return_inverse=True)[1]

    results = []
    released_scores = {"factscore": released_factscore, "d_factscore": released_d_factscore}
    for name, released_score in released_scores.items():
        people_counts = _mean_counts([released_score(response) for response, _ in matches])
        judge_counts = _mean_counts([(record["scores"] or {}).get(name) for record in records])
        truth = _score_of(people_counts)
        generator = np.random.default_rng(seed)
        trials = []
        for _ in range(draws):
            is_labelled = np.zeros(len(matches), bool)
            is_labelled[generator.choice(len(matches), num_labels, replace=False)] = True
            one_stratum = np.zeros(len(matches), int)
            equal_weights = np.ones(len(matches))
            units = Units(
                judge_counts, people_counts, is_labelled, clusters, one_stratum, equal_weights
            )
            trials.append(_try_interval(units, truth))
        coverage = Coverage(*np.mean(trials, axis=0).tolist())
        results.append(ReleasedScore(name, len(matches), truth, _score_of(judge_counts), coverage))
    return results


def _mean_counts(values: Sequence[float | None]) -> Floats:
    """Return (value, 1) of each response, or (0, 0) without a value, for the mean of the values."""
    return np.array([(0.0, 0.0) if value is None else (value, 1.0) for value in values])


def simulate_all(trials: int, settings: Sequence[Setting]) -> Iterator[tuple[Setting, Coverage]]:
    """Simulate several settings, with a progress bar."""
    for setting in tqdm(settings, "simulating", unit=" settings", delay=2):
        yield setting, simulate(setting, trials)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of all settings or of the released decisions, and return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m bench.corrected",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=1000,
        metavar="N",
        help="trials of each setting (default: %(default)s)",
    )
    parser.add_argument(
        "--labels",
        type=int,
        choices=(50, 200),
        help="only the settings with so many labels (default: both)",
    )
    parser.add_argument(
        "--released",
        action="store_true",
        help="correct the offline judge by released decisions instead (two minutes)",
    )
    arguments = parser.parse_args(argv)
    if arguments.released:
        _print_released(arguments.trials)
        return 0
    settings = [
        setting
        for setting in all_settings()
        if arguments.labels is None or setting.num_labels == arguments.labels
    ]
    _print_settings(settings, arguments.trials)
    return 0


def _print_settings(settings: Sequence[Setting], trials: int) -> None:
    """Simulate some settings, and print a table with a row for each."""
    rows = []
    num_outside = 0
    for setting, coverage in simulate_all(trials, settings):
        num_outside += not 0.93 <= round(coverage.corrected, 3) <= 0.97
        row = (
            setting.score,
            setting.judge,
            str(setting.num_labels),
            setting.sampling,
            *_coverage_cells(coverage),
        )
        # Those who wait see what is known so far.
        tqdm.write("  ".join(row), file=sys.stderr)
        rows.append(row)
    columns = ("score", "judge", "#labels", "drawn", *_COVERAGE_COLUMNS)
    notes = [
        f"{trials} trials of each setting with about {NUM_RESPONSES} responses.",
        _WIDTH_NOTE,
        f"Outside 93 to 97%: {num_outside} of {len(rows)} settings.",
    ]
    print_table("How often 95% intervals contain the truth", columns, rows, notes)


def _print_released(draws: int) -> None:
    """Correct the offline judge by released decisions, and print a table with both scores."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "answers.sqlite"
        scores = simulate_released(_NUM_RELEASED_LABELS, draws, store)
    rows = []
    for score in scores:
        rows.append(
            (
                score.name,
                str(score.num_responses),
                f"{100 * score.released:.1f}",
                f"{100 * score.by_judge:.1f}",
                *_coverage_cells(score.coverage),
            )
        )
    columns = ("score", "#responses", "#released", "#judge", *_COVERAGE_COLUMNS)
    notes = [f"{draws} draws of the labels.", _WIDTH_NOTE]
    title = f"{_NUM_RELEASED_LABELS} labelled responses, the offline judge"
    print_table(title, columns, rows, notes)


_COVERAGE_COLUMNS = (
    "#corrected contains, %",
    "#uncorrected, %",
    "#bias, points",
    "#lambda",
    "#width",
)
_WIDTH_NOTE = "width: as a share of the width of the interval from the same labels alone."


def _coverage_cells(coverage: Coverage) -> tuple[str, ...]:
    """Return the cells of the columns that all tables have."""
    return (
        f"{100 * coverage.corrected:.1f}",
        f"{100 * coverage.uncorrected:.1f}",
        f"{100 * coverage.bias:+.2f}",
        f"{coverage.judge_weight:.2f}",
        f"{coverage.width / coverage.width_of_labels:.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
