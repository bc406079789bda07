"""Compare the scores that people and the judge give to the same responses.

The command `lm-factuality people agree` prints these means and correlations, which tables 3 and 5
of Chiang and Lee (2024) also report.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.people.agreement import AgreementCell, count_cell
from lm_factuality.people.correct import label_samples
from lm_factuality.people.labels import Key, Labels
from lm_factuality.results.read import read_results_files
from lm_factuality.scores.agreement import Measure

OVERALL = "Overall"
"""The name of the row for the responses of all models together."""


@dataclass(frozen=True)
class Response:
    """The scores of one response of a model, by people and by the judge."""

    model: str
    """The label of the model that wrote the response."""

    people_scores: Mapping[str, float]
    """The scores by name that follow from people's majority answers."""

    judge_scores: Mapping[str, float]
    """The scores by name that follow from the judge's verdicts."""


class ScorePair(NamedTuple):
    """A score of one response."""

    people: float
    """The score that follows from people's answers."""

    judge: float
    """The score that follows from the judge's verdicts."""


def read_responses(paths: Sequence[Path], key: Key, labels: Labels) -> list[Response]:
    """Read the responses of a sheet's runs for which people answered enough to compute scores.

    Args:
        paths: The results files of the runs, or folders of them.
        key: The key of the sheet.
        labels: People's answers to the sheet.

    Returns:
        The responses, with their scores by people and by the judge.

    Raises:
        DataError: ``paths`` lack samples that the sheet was drawn from.
    """
    # A run of the sheet is known by its task and by the SHA-256 of its samples.
    models_by_run = {(source.task, source.samples_sha256): source.model for source in key.sources}
    runs_read: set[tuple[str, str]] = set()
    responses: list[Response] = []
    for file in read_results_files(paths):
        for task in file.tasks:
            run = (task.task, sha256_of(task.samples) if task.samples else "")
            # Several files may hold the same run.
            if run in models_by_run and run not in runs_read:
                runs_read.add(run)
                responses += _responses_of_run(task, models_by_run[run], key, labels)

    missing_runs = []
    for run in models_by_run:
        if run not in runs_read:
            task_name, sha256 = run
            missing_runs.append(f"{task_name or 'a data file'} (SHA-256 {sha256[:12]})")
    if missing_runs:
        file_names = ", ".join(map(str, paths))
        raise DataError(
            f"{file_names}: without the samples of the sheet's {', '.join(missing_runs)}; give"
            " these runs' results"
        )
    return responses


def _responses_of_run(task: TaskResult, model: str, key: Key, labels: Labels) -> Iterator[Response]:
    """Yield the responses of a run about which people answered all questions."""
    for sample in label_samples(task, key, labels).samples:
        if sample.is_asked and sample.people is not None:
            # Single responses have scores of their own only if these are ratios.
            yield Response(model, _divide_counts(sample.people), _divide_counts(sample.judged))


def _divide_counts(score_counts: Mapping[str, Counts]) -> dict[str, float]:
    """Compute the scores of a response that are a ratio of two counts.

    Scores of more than two counts, or with a denominator of 0, are left out.

    Example:
        ``{"factscore": (3, 4), "f1": (1, 0, 0, 2)}`` gives ``{"factscore": 0.75}``.
    """
    ratios = {}
    for name, counts in score_counts.items():
        if len(counts) == 2 and counts[1]:
            ratios[name] = counts[0] / counts[1]
    return ratios


def compare_responses(
    responses: Sequence[Response], scores: Sequence[Score]
) -> Iterator[AgreementCell]:
    """Compare the scores of people and of the judge over the responses that have both.

    Args:
        responses: The responses of all models.
        scores: The scores to compare.

    Yields:
        First the number of responses of each model. Then, for each score, Pearson's r between
        people and judge (by model and over all models) and the means of both (by model).
    """
    responses_by_model: dict[str, list[Response]] = defaultdict(list)
    for response in responses:
        responses_by_model[response.model].append(response)
    for model, model_responses in responses_by_model.items():
        for rater in ("people", "judge"):
            yield count_cell("means", (model, rater), "responses", len(model_responses))

    groups = {**responses_by_model, OVERALL: list(responses)}
    for score in scores:
        for model, model_responses in groups.items():
            pairs = _score_pairs(model_responses, score)
            if not pairs:
                continue
            correlation = correlate(pairs)
            yield AgreementCell(
                "correlations", (model,), score.label, correlation, times=1, digits=3
            )
            # Means over all models would say nothing about any of them.
            if model != OVERALL:
                yield from _mean_cells(model, pairs, score)


def _score_pairs(responses: Sequence[Response], score: Score) -> list[ScorePair]:
    """Collect a score of each response by people and by the judge, if it has both."""
    pairs = []
    for response in responses:
        people_score = response.people_scores.get(score.name)
        judge_score = response.judge_scores.get(score.name)
        if people_score is not None and judge_score is not None:
            pairs.append(ScorePair(people_score, judge_score))
    return pairs


def _mean_cells(model: str, pairs: Sequence[ScorePair], score: Score) -> Iterator[AgreementCell]:
    """Build two cells: the mean score of a model's responses by people, and that by the judge.

    Args:
        model: The label of the model.
        pairs: The score of each response.
        score: The declaration of the score, with the factor and the decimals to print it with.
    """
    means = {
        "people": sum(pair.people for pair in pairs) / len(pairs),
        "judge": sum(pair.judge for pair in pairs) / len(pairs),
    }
    for rater, mean in means.items():
        yield AgreementCell(
            table="means",
            row=(model, rater),
            column=score.label,
            measure=Measure(mean, None, None, len(pairs)),
            times=int(score.display_factor),
            digits=score.decimals,
        )


def correlate(pairs: Sequence[tuple[float, float]]) -> Measure:
    """Compute Pearson's r between the two numbers of each pair, with its 95% interval.

    Args:
        pairs: The scores of each response, by people and by the judge.

    Returns:
        The correlation, with the interval by Fisher's z transformation if there are four pairs.
        It is not defined for fewer than three pairs, or if one side is constant.
    """
    undefined = Measure(None, None, None, len(pairs))
    # A line through two points always fits, so their correlation says nothing.
    if len(pairs) < 3:
        return undefined
    people_scores, judge_scores = zip(*pairs, strict=True)
    # Pearson's r would divide by a standard deviation of zero.
    if len(set(people_scores)) == 1 or len(set(judge_scores)) == 1:
        return undefined

    from scipy.stats import pearsonr

    result = pearsonr(people_scores, judge_scores)
    correlation = float(result.statistic)
    # The standard error of Fisher's z is 1 / sqrt(n - 3), so three pairs have no interval.
    if len(pairs) == 3:
        return Measure(correlation, None, None, len(pairs))
    interval = result.confidence_interval()
    return Measure(correlation, float(interval.low), float(interval.high), len(pairs))
