"""Correct the scores of a run for the errors of its judge, by the labels of people.

`lm_factuality.scores.ppi` has the estimator. The command `people correct` and leaderboards call
`correct`; `people agree` calls `label_samples`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lm_factuality import __version__
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.declaration import Score, ScoreRange
from lm_factuality.benchmarks.pairs import sample_row_of, score_of_sums
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import Corrected, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import Key, Labels, read_key, read_labels
from lm_factuality.people.sheet import asked_about, units_of_run
from lm_factuality.results.read import Correction
from lm_factuality.scores.ppi import Units, correct_by_labels

FEWEST_LABELS = 10
"""Labelled samples with a part in a score, from which on the score is corrected."""

_UNSCORED = "without a verdict, and with nothing to ask people"
_UNDECIDED = (
    "drawn, but people do not decide all of their items (skipped, tied, not answered or not asked)"
)


class NotCorrectedError(Exception):
    """A score that labels cannot correct. The text says why."""


@dataclass(frozen=True)
class LabelledSample:
    """A sample of a run, with its parts in the scores by the name of the score."""

    cluster: str
    stratum: str
    weight: float
    """One over the probability with which it was drawn."""

    is_asked: bool
    """Whether people can be asked about it. If not, they agree with the judge."""

    judged: Mapping[str, Counts]
    people: Mapping[str, Counts] | None
    """The parts if people had been the judge; None unless their labels decide all its items."""


@dataclass(frozen=True)
class LabelledRun:
    """The samples of a run, and how many are left out of corrected scores, by the reason."""

    samples: list[LabelledSample]
    left_out: dict[str, int]


def correct(result: TaskResult, key_file: Path, label_files: Sequence[Path]) -> Correction:
    """Correct the scores of a task by the labels on a sheet that was drawn from its samples.

    Raises:
        DataError: A file cannot be read, the sheet is of other samples, or the labels decide no
            sample.
    """
    key = read_key(key_file)
    run = label_samples(result, key, read_labels(label_files, key))
    if not any(sample.is_asked and sample.people for sample in run.samples):
        reasons = [f"{count} {reason}" for reason, count in run.left_out.items()]
        raise DataError(
            f"{', '.join(map(str, label_files))}: decide no sample of {result.task}:"
            f" {'; '.join(reasons) or 'none of its samples was drawn'}"
        )
    benchmark = find_benchmark(result.kind)
    assert benchmark is not None  # label_samples() refuses others.
    assert benchmark.people is not None
    names: set[str] = set()
    for sample in run.samples:
        names.update(sample.judged, sample.people or ())
    scores: dict[str, Corrected] = {}
    without: dict[str, str] = {}
    for name in sorted(names & result.metrics.keys() - set(benchmark.people.unaffected_scores)):
        score = benchmark.find_score(name)
        if score is None or score.value_range is None:
            continue
        try:
            scores[name] = _correct_score(score, score.value_range, name, run)
        except NotCorrectedError as error:
            without[name] = str(error)
    return Correction(
        suite_version=__version__,
        task=result.task,
        samples=sha256_of(result.samples or Path()),
        key=sha256_of(key_file),
        labels=tuple(map(sha256_of, label_files)),
        scores=scores,
        left_out=run.left_out,
        without=without,
    )


def label_samples(result: TaskResult, key: Key, labels: Labels) -> LabelledRun:
    """Put the labels beside the samples of a task.

    Raises:
        DataError: The sheet was not drawn from these samples, or people can be asked about none.
    """
    asked = asked_about(result)
    if asked is None or result.samples is None:
        raise DataError(f"{result.task}: has no samples that people can be asked about")
    people, shown = asked
    source = _source_of(result.task, result.samples, key)
    weights = {item.unit: item.weight for item in key.items if item.source == source}

    samples = []
    left_out: Counter[str] = Counter()
    units = units_of_run(result, key.sources[source].model)
    for unit, sample in zip(units, read_samples(result.samples), strict=True):
        row = sample_row_of(result, shown, sample)
        is_asked = bool(unit.items)
        labelled_sample = None
        if not is_asked:
            labelled_sample = sample
            left_out[_UNSCORED] += row.outcome == "unscored"
        elif unit.key in weights:
            decided = labels.majority_answers.get((source, unit.key), {})
            labelled_sample = people.relabel(result, sample, decided)
            left_out[_UNDECIDED] += labelled_sample is None
        parts = None
        if labelled_sample is not None:
            labelled_row = sample_row_of(result, shown, labelled_sample)
            parts = {**labelled_row.score_counts, **shown.pooled_counts(labelled_sample)}
        samples.append(
            LabelledSample(
                cluster=unit.cluster,
                # Samples that nobody is asked about are never drawn: they are a stratum apart.
                stratum=f"{is_asked} {unit.stratum(key.stratify)}",
                weight=weights.get(unit.key, 1.0),
                is_asked=is_asked,
                judged={**row.score_counts, **shown.pooled_counts(sample)},
                people=parts,
            )
        )
    return LabelledRun(samples, dict(+left_out))


def _source_of(task: str, samples: Path, key: Key) -> int:
    """Return the place of a samples file among the sources of a sheet."""
    sha256 = sha256_of(samples)
    for place, source in enumerate(key.sources):
        if (source.task, source.samples_sha256) == (task, sha256):
            return place
    sources = [
        f"{source.samples or source.file} ({source.samples_sha256[:12]})" for source in key.sources
    ]
    raise DataError(
        f"{samples}: sheet {key.sheet} was not drawn from these samples (SHA-256 {sha256[:12]}),"
        f" but from {listed(sources)}; give the results that the sheet was made of, as they were"
    )


def _correct_score(score: Score, measure: ScoreRange, name: str, run: LabelledRun) -> Corrected:
    """Return the corrected score.

    Raises:
        NotCorrectedError: There is none. The text says why.
    """
    samples = run.samples
    judged = [sample.judged.get(name, ()) for sample in samples]
    people = [(sample.people or {}).get(name, ()) for sample in samples]
    labelled = 0
    for sample, *parts in zip(samples, judged, people, strict=True):
        has_part = any(map(any, parts))
        labelled += sample.people is not None and sample.is_asked and has_part
    if labelled < FEWEST_LABELS:
        raise NotCorrectedError(
            f"people's answers decide {labelled} of its samples, expected {FEWEST_LABELS} at least"
        )
    zeros = (0.0,) * max(map(len, [*judged, *people]))
    clusters = [sample.cluster for sample in samples]
    strata = [sample.stratum for sample in samples]
    units = Units(
        judge_counts=np.array([counts or zeros for counts in judged]),
        people_counts=np.array([counts or zeros for counts in people]),
        is_labelled=np.array([sample.people is not None for sample in samples]),
        clusters=np.unique(clusters, return_inverse=True)[1],
        strata=np.unique(strata, return_inverse=True)[1],
        weights=np.array([sample.weight for sample in samples]),
    )
    estimated = correct_by_labels(
        units, score_of_sums(score, len(zeros)), measure.low, measure.high
    )
    if estimated is None:
        raise NotCorrectedError("not defined on these labels, or all of them are of one cluster")
    return Corrected(
        value=estimated.value,
        low=estimated.low,
        high=estimated.high,
        stderr=estimated.stderr,
        how=f"by people's answers on {labelled} of {len(samples)} samples",
        weight=estimated.judge_weight,
        labelled=labelled,
        units=len(samples),
        unscored=run.left_out.get(_UNSCORED, 0),
    )
