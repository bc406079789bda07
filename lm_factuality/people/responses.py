"""Whether a judge measures of a response what people measure.

These are tables 3 and 5 of Chiang and Lee (2024).

The command `people agree` calls it, with the labels of a sheet or with people's measurements.
"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scipy.stats import kendalltau, pearsonr

from lm_factuality.benchmarks.asked import Measured
from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import sha256_of
from lm_factuality.people.agreement import Cell, count_cell
from lm_factuality.people.correct import label_samples
from lm_factuality.people.labels import Key, Labels
from lm_factuality.results.read import read_results_files
from lm_factuality.scores.agreement import Measure
from lm_factuality.scores.statistics import average, defined

OVERALL = "Overall"
"""The row of a table that is about the responses of all models."""


@dataclass(frozen=True)
class Response:
    """A response as people measured it and as the judge did."""

    people: Measured
    judge: Measured

    @property
    def model(self) -> str:
        return self.people.model


@dataclass(frozen=True)
class Matched:
    """The responses that both sides measured, and how many only one side did."""

    responses: list[Response]
    only_people: int
    only_judge: int


def read_responses(paths: Sequence[Path], key: Key, labels: Labels) -> list[Response]:
    """Read what the responses of a sheet's runs score, where people's labels decide that.

    Raises:
        DataError: ``paths`` lack samples that the sheet was drawn from.
    """
    models = {(source.task, source.samples_sha256): source.model for source in key.sources}
    responses = []
    for file in read_results_files(paths):
        for task in file.tasks:
            sha256 = sha256_of(task.samples) if task.samples else ""
            model = models.pop((task.task, sha256), None)
            if model is None:
                continue
            for sample in label_samples(task, key, labels).samples:
                if sample.is_asked and sample.people is not None:
                    people = _measured(model, sample.people)
                    responses.append(Response(people, _measured(model, sample.judged)))
    if models:
        missing = [f"{task or 'a data file'} (SHA-256 {sha256[:12]})" for task, sha256 in models]
        raise DataError(
            f"{', '.join(map(str, paths))}: without the samples of the sheet's"
            f" {', '.join(missing)}; give these runs' results"
        )
    return responses


def _measured(model: str, parts: Mapping[str, Counts]) -> Measured:
    """Return the scores that are a sum over a number."""
    ratios = {
        name: counts[0] / counts[1]
        for name, counts in parts.items()
        if len(counts) == 2 and counts[1]
    }
    return Measured(model, "", "", ratios)


def match(people: Sequence[Measured], judge: Sequence[Measured]) -> Matched:
    """Match the measurements of both sides by model and index.

    Where one side has no indexes, they are matched by model and name. The measurements of several
    people are averaged.

    Raises:
        DataError: The judge has not measured a model, or has measured a response twice. Or the
            sides have no response in common, or different names under one index.
    """
    by_index = all(measured.index for measured in (*people, *judge))
    of_people = _by_response(people, by_index)
    of_judge = _by_response(judge, by_index)
    models = dict.fromkeys(model for model, _ in of_people)
    judged_models = dict.fromkeys(model for model, _ in of_judge)
    unknown = [repr(model) for model in models if model not in judged_models]
    if unknown:
        raise DataError(
            f"no results of {', '.join(unknown)}, only of {', '.join(map(repr, judged_models))};"
            " name the model of a results file as people call it: --auto MODEL=FILE"
        )
    responses = []
    problems = []
    kind = "index" if by_index else "name"
    for response, measured in of_people.items():
        judged = of_judge.get(response, [])
        where = f"{response[0]}, {kind} {response[1]!r}"
        if not judged:
            continue
        if len(judged) > 1:
            problems.append(f"{len(judged)} results of {where}; give one run per model")
        names = sorted({each.name for each in (*measured, *judged) if each.name})
        if len(names) > 1:
            problems.append(
                f"{where}: {' and '.join(map(repr, names))}; give the judged responses' indexes"
            )
        means = {
            metric: average(each.values.get(metric) for each in measured)
            for metric in measured[0].values
        }
        responses.append(Response(replace(measured[0], values=means), judged[0]))
    refuse(problems, "rows")
    if not responses:
        examples = [" ".join(map(repr, next(iter(side)))) for side in (of_people, of_judge)]
        raise DataError(
            f"people and results have no response in common: people measured {examples[0]}, the"
            f" results have {examples[1]}"
        )
    of_these_models = sum(model in models for model, _ in of_judge)
    return Matched(responses, len(of_people) - len(responses), of_these_models - len(responses))


def _by_response(
    measurements: Sequence[Measured], by_index: bool
) -> dict[tuple[str, str], list[Measured]]:
    """Group measurements by model, and by index or name.

    Names are the same if only spaces, case and the encoding of accents differ.
    """
    groups: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for measured in measurements:
        name = " ".join(unicodedata.normalize("NFC", measured.name).casefold().split())
        response = measured.index if by_index else name
        if not response:
            raise DataError(
                f"a response of {measured.model} has no name, and the other side no indexes: add"
                " one or the other"
            )
        groups[measured.model, response].append(replace(measured, name=name))
    return groups


def compare_responses(responses: Sequence[Response], scores: Sequence[Score]) -> Iterator[Cell]:
    """Compare people and judge over the responses that both have measured.

    Yields:
        The means of both by model; Pearson's r of the responses by model and of all together; and
        Kendall's tau-b, which says whether both rank the models alike.
    """
    models = list(dict.fromkeys(response.model for response in responses))
    for model in models:
        number = sum(response.model == model for response in responses)
        yield count_cell("means", (model, "people"), "responses", number)
        yield count_cell("means", (model, "judge"), "responses", number)
    for score in scores:
        pairs = {model: _pairs(responses, score.name, [model]) for model in models}
        means: dict[str, list[float]] = {"people": [], "judge": []}
        for model, values in pairs.items():
            for side, column in zip(means, zip(*values, strict=True), strict=False):
                mean = sum(column) / len(column)
                means[side].append(mean)
                measure = Measure(mean, None, None, len(column))
                times = int(score.times)
                yield Cell("means", (model, side), score.label, measure, times, score.digits)
        if not means["people"]:
            continue  # Nobody measured this score.
        pairs[OVERALL] = _pairs(responses, score.name, models)
        for model, values in pairs.items():
            yield Cell("correlations", (model,), score.label, correlate(values), 1, 3)
        tau = math.nan
        if len(means["people"]) > 1:
            tau = float(kendalltau(means["people"], means["judge"], variant="b").statistic)
        ranks = Measure(defined(tau), None, None, len(means["people"]))
        yield Cell("ranks", (), score.label, ranks, 1, 2)


def _pairs(
    responses: Sequence[Response], score: str, models: Sequence[str]
) -> list[tuple[float, float]]:
    """Return what people and the judge measured of each response that has both values."""
    pairs = []
    for response in responses:
        people = response.people.values.get(score)
        judge = response.judge.values.get(score)
        if response.model in models and people is not None and judge is not None:
            pairs.append((people, judge))
    return pairs


def correlate(pairs: Sequence[tuple[float, float]]) -> Measure:
    """Return Pearson's r with its 95% interval (Fisher's z).

    It is not defined for fewer than three responses, or where one side always says the same. The
    interval takes four responses.
    """
    if len(pairs) < 3 or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return Measure(None, None, None, len(pairs))
    result = pearsonr(*zip(*pairs, strict=True))
    low, high = map(float, result.confidence_interval()) if len(pairs) > 3 else (None, None)
    return Measure(float(result.statistic), low, high, len(pairs))
