"""Correct the scores of a run for the errors of its judge, by the answers (labels) of people.

`lm_factuality.scores.ppi` has the estimator. The command `people correct` and leaderboards call
`correct_scores`, and `people agree` calls `label_samples`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lm_factuality import __version__
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.declaration import SampleDisplay, Score
from lm_factuality.benchmarks.pairs import sample_row_of, score_of_sums
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import Corrected, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import Key, Labels, read_key, read_labels
from lm_factuality.people.sheet import require_asked_samples, units_of_run
from lm_factuality.results.read import Correction
from lm_factuality.scores.intervals import Floats, Numbers
from lm_factuality.scores.ppi import Units, correct_by_labels

FEWEST_LABELS = 10
"""The smallest number of samples with people's answers from which a score is corrected."""

_UNSCORED = "without a verdict, and with nothing to ask people"
_UNDECIDED = (
    "drawn, but people do not decide all of their items (skipped, tied, not answered or not asked)"
)


class NotCorrectedError(DataError):
    """Scores cannot be corrected by people's answers. The text says why."""


@dataclass(frozen=True)
class LabelledSample:
    """A sample of a run, with what it adds to each score by the judge and by people."""

    cluster: str
    """The cluster for standard errors, such as the document of the sample."""

    stratum: str
    """The group of samples that the sample was drawn from."""

    weight: float
    """One over the probability with which the sample was drawn, or 1 if it was not drawn."""

    is_asked: bool
    """Whether people can be asked about the sample. If not, they agree with the judge."""

    judged: Mapping[str, Counts]
    """The counts in each score that follow from the judge's verdicts."""

    people: Mapping[str, Counts] | None
    """The counts in each score that follow from people's answers.

    It is None if people did not answer all questions about the sample.
    """


@dataclass(frozen=True)
class LabelledRun:
    """The samples of a run, with the judge's verdicts and people's answers."""

    samples: list[LabelledSample]
    """All samples of the run, also those that people were not asked about."""

    left_out: dict[str, int]
    """The number of samples that do not count in corrected scores, by the reason."""


def correct_scores(result: TaskResult, key_file: Path, label_files: Sequence[Path]) -> Correction:
    """Correct the scores of a judged task by people's answers to a sheet drawn from its samples.

    Args:
        result: The task of the run.
        key_file: The key of the sheet.
        label_files: The files with people's answers.

    Returns:
        The corrected scores, and why others have no correction.

    Raises:
        NotCorrectedError: People's answers decide no sample, or too few for each score.
        DataError: A file cannot be read, or the sheet is of other samples.
    """
    key = read_key(key_file)
    run = label_samples(result, key, read_labels(label_files, key))
    corrected: dict[str, Corrected] = {}
    reasons: dict[str, str] = {}
    for name, score in _correctable_scores(result, run.samples).items():
        try:
            corrected[name] = _correct_score(score, name, run)
        except NotCorrectedError as error:
            # One score can have too few labels where others have enough.
            reasons[name] = str(error)
    if not corrected:
        file_names = ", ".join(map(str, label_files))
        raise NotCorrectedError(f"{file_names}: {_describe_failure(result.task, run, reasons)}")
    # label_samples() has refused a task without samples.
    assert result.samples is not None
    # The fields samples, key and labels identify these files by their SHA-256.
    return Correction(
        suite_version=__version__,
        task=result.task,
        samples=sha256_of(result.samples),
        key=sha256_of(key_file),
        labels=tuple(map(sha256_of, label_files)),
        scores=corrected,
        left_out=run.left_out,
        without=reasons,
    )


def _describe_failure(task: str, run: LabelledRun, reason_by_score: Mapping[str, str]) -> str:
    """Describe why people's answers correct no score of a task.

    Args:
        task: The name of the task.
        run: The samples of the run.
        reason_by_score: Why each score that depends on people's answers has no correction.
    """
    if any(sample.is_asked and sample.people for sample in run.samples):
        reasons = [f"{name}: {reason}" for name, reason in reason_by_score.items()]
        problem = "; ".join(reasons) or "none of its scores depends on what people were asked"
        return f"no score of {task} can be corrected: {problem}"
    reasons = [f"{count} {reason}" for reason, count in run.left_out.items()]
    problem = "; ".join(reasons) or "none of its samples was drawn"
    return f"decide no sample of {task}: {problem}"


def _correctable_scores(result: TaskResult, samples: Sequence[LabelledSample]) -> dict[str, Score]:
    """Find the scores in a results file that depend on what people were asked, sorted by name.

    A score must have a range, which limits the interval of its correction.
    """
    benchmark = find_benchmark(result.kind)
    # label_samples() has refused tasks without questions for people.
    assert benchmark is not None
    assert benchmark.people is not None
    # A score may be defined only by people's answers, or only by the judge's verdicts.
    names: set[str] = set()
    for sample in samples:
        names.update(sample.judged)
        if sample.people is not None:
            names.update(sample.people)
    # Some scores, such as the length of a response, do not depend on the judge.
    names.difference_update(benchmark.people.unaffected_scores)

    scores = {}
    for name in sorted(names.intersection(result.metrics)):
        score = benchmark.find_score(name)
        if score is not None and score.value_range is not None:
            scores[name] = score
    return scores


def label_samples(result: TaskResult, key: Key, labels: Labels) -> LabelledRun:
    """Score each sample of a task twice: by the judge's verdicts, and by people's answers.

    Args:
        result: The task of the run.
        key: The key of a sheet that was drawn from the task's samples.
        labels: People's answers to the sheet.

    Returns:
        The samples. If there is nothing to ask about a sample, its scores by people are those of
        the judge. A sample that was not drawn, or not answered, has none by people.

    Raises:
        DataError: The sheet was not drawn from these samples, or people can be asked about none.
    """
    path, people, display = require_asked_samples(result)
    source = _find_source(result.task, path, key)
    # A unit is a sample with the questions about it. The sheet's key lists the drawn ones, with
    # one over the probability of each to be drawn.
    weights_of_drawn = {item.unit: item.weight for item in key.items if item.source == source}

    labelled_samples = []
    left_out: Counter[str] = Counter()
    units = units_of_run(result, key.sources[source].model)
    for unit, sample in zip(units, read_samples(path), strict=True):
        # Most samples of a large run are not drawn, and have no scores by people.
        people_counts = None
        is_asked = bool(unit.items)
        judge_counts = _score_counts(result, display, sample)
        if not is_asked:
            # No question is about this sample, so people would score it as the judge does.
            people_counts = judge_counts
            if sample_row_of(result, display, sample).outcome == "unscored":
                left_out[_UNSCORED] += 1
        elif unit.key in weights_of_drawn:
            answers = labels.majority_answers.get((source, unit.key), {})
            # The result is None if people answered only some of the questions about this sample.
            relabelled_sample = people.relabel(result, sample, answers)
            if relabelled_sample is None:
                left_out[_UNDECIDED] += 1
            else:
                people_counts = _score_counts(result, display, relabelled_sample)

        labelled_sample = LabelledSample(
            cluster=unit.cluster,
            # Samples without questions are never drawn, so their group has a name of its own, as
            # "False wrong" beside "True wrong".
            stratum=f"{is_asked} {unit.stratum(key.stratify)}",
            weight=weights_of_drawn.get(unit.key, 1.0),
            is_asked=is_asked,
            judged=judge_counts,
            people=people_counts,
        )
        labelled_samples.append(labelled_sample)
    return LabelledRun(labelled_samples, dict(left_out))


def _find_source(task: str, samples: Path, key: Key) -> int:
    """Return the index of a samples file among the files that a sheet was drawn from.

    Args:
        task: The name of the task.
        samples: The samples file. It may have been renamed, so it is found by its content.
        key: The key of the sheet, which has the task and the SHA-256 of each file (``sources``).

    Raises:
        DataError: The sheet was drawn from other samples.
    """
    sha256 = sha256_of(samples)
    for index, source in enumerate(key.sources):
        if source.task == task and source.samples_sha256 == sha256:
            return index
    # A sheet about data files has no samples, so the data files are named.
    sources = [
        f"{source.samples or source.file} ({source.samples_sha256[:12]})" for source in key.sources
    ]
    raise DataError(
        f"{samples} (SHA-256 {sha256[:12]}): sheet {key.sheet} was not drawn from these samples,"
        f" but from {listed(sources)}; give the results that the sheet was made of"
    )


def _score_counts(
    result: TaskResult, display: SampleDisplay, sample: Mapping[str, Any]
) -> dict[str, Counts]:
    """Return the counts that a sample adds to each score, such as ``{"accuracy": (1.0, 1.0)}``.

    Args:
        result: The task of the run.
        display: How the benchmark reads its samples.
        sample: The sample, scored by the judge or by people.
    """
    row = sample_row_of(result, display, sample)
    return {**row.score_counts, **display.pooled_counts(sample)}


def _correct_score(score: Score, name: str, run: LabelledRun) -> Corrected:
    """Correct one score of a run for the errors of its judge, with a 95% interval.

    Prediction-powered inference combines the judge's verdicts on all samples with people's answers
    on some of them.

    Args:
        score: The score, which has a range.
        name: The name in results files. A declaration such as ``error_*`` has several of them.
        run: The samples, by the judge and by people.

    Raises:
        NotCorrectedError: There are too few samples with people's answers, or the score is not
            defined on them.
    """
    num_labelled = len([sample for sample in run.samples if _is_labelled(sample, name)])
    if num_labelled < FEWEST_LABELS:
        raise NotCorrectedError(
            f"people's answers decide {num_labelled} of its samples, expected {FEWEST_LABELS} at"
            " least"
        )

    assert score.value_range is not None
    units = _to_units(run.samples, name)
    # The score is a function of sums over samples, such as a ratio of two sums.
    compute_score = score_of_sums(score, units.judge_counts.shape[1])
    estimate = correct_by_labels(
        units, compute_score, score.value_range.low, score.value_range.high
    )
    if estimate is None:
        raise NotCorrectedError("not defined on these labels, or all of them are of one cluster")
    return Corrected(
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        stderr=estimate.stderr,
        how=f"by people's answers on {num_labelled} of {len(run.samples)} samples",
        weight=estimate.judge_weight,
        labelled=num_labelled,
        units=len(run.samples),
        unscored=run.left_out.get(_UNSCORED, 0),
    )


def _is_labelled(sample: LabelledSample, score_name: str) -> bool:
    """Return whether people answered all questions about a sample that has a part in a score.

    A sample that adds only zeros to a score has no part in it. An answer without claims, for
    example, adds (0, 0) to the share of true claims.
    """
    if not sample.is_asked or sample.people is None:
        return False
    # One count other than 0 is enough, whether it follows from the judge or from people.
    counts = (*sample.judged.get(score_name, ()), *sample.people.get(score_name, ()))
    return any(counts)


def _to_units(samples: Sequence[LabelledSample], score_name: str) -> Units:
    """Arrange the samples of a run as arrays, from which the estimator corrects a score.

    Args:
        samples: The samples, by the judge and by people.
        score_name: The name of the score.

    Returns:
        Arrays with one row per sample. The two tables of counts have a column for each count of the
        score, such as (value, weight) for a mean. A sample without counts has a row of zeros.
    """
    judge_counts = [sample.judged.get(score_name, ()) for sample in samples]
    people_counts = [(sample.people or {}).get(score_name, ()) for sample in samples]
    num_columns = max(map(len, judge_counts + people_counts))
    return Units(
        judge_counts=_counts_table(judge_counts, num_columns),
        people_counts=_counts_table(people_counts, num_columns),
        is_labelled=np.array([sample.people is not None for sample in samples]),
        clusters=_number_names([sample.cluster for sample in samples]),
        strata=_number_names([sample.stratum for sample in samples]),
        weights=np.array([sample.weight for sample in samples]),
    )


def _counts_table(rows: Sequence[Counts], num_columns: int) -> Floats:
    """Arrange counts as a table. A row without counts gets zeros, which add nothing to a sum."""
    zeros = (0.0,) * num_columns
    return np.array([counts if counts else zeros for counts in rows])


def _number_names(names: Sequence[str]) -> Numbers:
    """Replace names by numbers from 0, in alphabetical order: ["b", "a", "b"] by [1, 0, 1]."""
    _, numbers = np.unique(names, return_inverse=True)
    return numbers
