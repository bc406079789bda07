"""Whether a judge measures of a response what people measure.

These are tables 3 and 5 of Chiang and Lee (2024), by the labels of a sheet.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import pearsonr

from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.people.agreement import AgreementCell, count_cell
from lm_factuality.people.correct import label_samples
from lm_factuality.people.labels import Key, Labels
from lm_factuality.results.read import read_results_files
from lm_factuality.scores.agreement import Measure

OVERALL = "Overall"
"""The row of a table that is about the responses of all models."""


@dataclass(frozen=True)
class Response:
    """A response of a model, and what people and the judge measured of it, by score."""

    model: str
    people: Mapping[str, float]
    judge: Mapping[str, float]


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
                    people = _ratios(sample.people)
                    responses.append(Response(model, people, _ratios(sample.judged)))
    if models:
        missing = [f"{task or 'a data file'} (SHA-256 {sha256[:12]})" for task, sha256 in models]
        raise DataError(
            f"{', '.join(map(str, paths))}: without the samples of the sheet's"
            f" {', '.join(missing)}; give these runs' results"
        )
    return responses


def _ratios(parts: Mapping[str, Counts]) -> dict[str, float]:
    """Return the scores that are a sum over a number."""
    return {
        name: counts[0] / counts[1]
        for name, counts in parts.items()
        if len(counts) == 2 and counts[1]
    }


def compare_responses(
    responses: Sequence[Response], scores: Sequence[Score]
) -> Iterator[AgreementCell]:
    """Compare people and judge over the responses that both have measured.

    Yields:
        The means of both by model, and Pearson's r of the responses by model and of all together.
    """
    groups: dict[str, list[Response]] = defaultdict(list)
    for response in responses:
        groups[response.model].append(response)
    for model, of_model in groups.items():
        for side in ("people", "judge"):
            yield count_cell("means", (model, side), "responses", len(of_model))
    groups[OVERALL] = list(responses)
    for score in scores:
        for model, of_model in groups.items():
            pairs = []
            for response in of_model:
                if score.name in response.people and score.name in response.judge:
                    pairs.append((response.people[score.name], response.judge[score.name]))
            if not pairs:
                continue  # Nobody measured this score.
            yield AgreementCell("correlations", (model,), score.label, correlate(pairs), 1, 3)
            if model == OVERALL:
                continue
            for side, column in zip(("people", "judge"), zip(*pairs, strict=True), strict=True):
                measure = Measure(sum(column) / len(column), None, None, len(column))
                form = (int(score.display_factor), score.decimals)
                yield AgreementCell("means", (model, side), score.label, measure, *form)


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
