"""What a benchmark declares of itself, once; results, report, comparisons and leaderboards read it.

A benchmark is a folder beside this module, or of another package (see ``docs/add_a_benchmark.md``).
The module ``benchmark`` of the folder holds a `Benchmark` called ``BENCHMARK``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from judges.templates import register_prompts
from lm_factuality.benchmarks.asked import People
from lm_factuality.benchmarks.audit import ExpectedRun, PromptAudit, RequestAudit
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertificationStatus, JudgedStep
from lm_factuality.benchmarks.rows import Counts, SampleRow, ScoredRows
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.html import Column
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import Source
from lm_factuality.ground.settings import FORBID, Number, Text
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.scores.statistics import MEAN, TOTAL, Aggregation, count_present, score_interval

if TYPE_CHECKING:
    from lm_factuality.benchmarks.judged import JudgedMethod

Sample = Mapping[str, Any]
"""A line of lm_eval's samples file."""

KeptRow = Mapping[str, Any]
"""What is kept of a sample to score it again."""

KeptRows = Sequence[KeptRow]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = ("index", "compare", "samples", "other")
"""The pages of every report, and the kind of lm_eval's own tasks."""


@dataclass(frozen=True)
class ScoreRange:
    """What kind of number a score is."""

    low: float = 0.0
    """The lowest value that the score can have."""

    high: float = 1.0
    """The highest."""


SHARE = ACCURACY = F1 = PRECISION = RECALL = BALANCED_ACCURACY = ERROR_RATE = ScoreRange()
PERPLEXITY = ScoreRange(1.0, math.inf)
DIFFERENCE = ScoreRange(-1.0)


def confidence_interval(
    measure: ScoreRange | None, value: float, stderr: float, n: int
) -> tuple[float, float] | None:
    """Return the 95% interval of a score of ``n`` rows.

    What has no measure is a count, or as negative as a log-probability.
    """
    measure = measure or ScoreRange(0.0 if value >= 0 else -math.inf, math.inf)
    return score_interval(value, stderr, measure.low, measure.high, n)


@dataclass(frozen=True)
class Score:
    """A number that the tasks of a benchmark report."""

    name: str
    """Its name in lm_eval's results. A trailing ``*`` stands for every metric that begins so."""

    aggregation: Aggregation
    """How the values of all rows become one number and its standard error."""

    value_range: ScoreRange | None = None
    """None for counts, and for worst and best cases."""

    label: str = ""
    """What tables call it. Scores without a label are in no table."""

    higher_is_better: bool | None = True
    """Whether higher is better, or None if neither is."""

    display_factor: float = 100.0
    """What a value is multiplied by before it is shown."""

    decimals: int = 1
    """The number of decimals that are shown."""

    note: str = ""

    comparable_if_equal: str = ""
    """Another score, such as the number of tokens.

    Two runs are compared in this score only if they are equal in that one.
    """

    def covers(self, name: str) -> bool:
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name

    def format_value(self, value: float | None) -> str:
        """Return a value as tables show it, ``-`` where there is none."""
        if value is None:
            return "-"
        # Adding zero makes a zero of what is rounded to a negative one.
        return (
            f"{round(self.display_factor * value, self.decimals) + 0.0:.{self.decimals}f}".replace(
                "-", "−"
            )
        )

    def format_interval(self, low: float, high: float) -> str:
        return f"{self.format_value(low)} {'to' if low < 0 else '–'} {self.format_value(high)}"

    def worst_and_best(self) -> tuple[Score, Score]:
        """The worst and the best case: the score if all unscored items were wrong, or right.

        Both are made of the values of all rows as the score is, and have no standard error.
        `worst_and_best_of` names the values of a row.
        """
        aggregation = Aggregation(self.aggregation.value)
        worst, best = worst_and_best_of(self.name, aggregation, aggregation).items()
        return Score(*worst, higher_is_better=self.higher_is_better), Score(
            *best, higher_is_better=self.higher_is_better
        )

    @property
    def unit(self) -> str:
        """The unit of a value as it is shown; empty for what is no share."""
        if self.display_factor != 100:
            return ""
        return "points" if self.value_range == DIFFERENCE else "%"

    @property
    def title_with_unit(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def column(self) -> Column:
        return Column(self.title_with_unit, True, self.note or None)


def load_scores(package: str, **aggregations: Aggregation) -> tuple[Score, ...]:
    """Read the scores of a benchmark from ``scores.yaml`` in its package.

    The file has the fields of each `Score` by its name. A ``measure`` is a list of the fields of
    `ScoreRange`. ``bounds: true`` adds the worst and the best case.

    Args:
        **aggregations: What ``aggregation`` may name besides ``mean``, the default, ``total`` and
            ``count``, the number of reasons why rows are unscored.
    """
    aggregations |= {"mean": MEAN, "total": TOTAL, "count": Aggregation(count_present)}
    scores: list[Score] = []
    for name, fields in load_yaml(package, "scores.yaml").items():
        has_bounds = fields.pop("bounds", False)
        aggregation = aggregations[fields.pop("aggregation", "mean")]
        measure = fields.pop("value_range", None)
        score = Score(name, aggregation, measure and ScoreRange(*measure), **fields)
        scores += [score, *score.worst_and_best()] if has_bounds else [score]
    return tuple(scores)


def worst_and_best_of(name: str, worst: Any, best: Any) -> dict[str, Any]:
    """What belongs to the worst and the best case of a score, such as the values of a row."""
    return {f"{name}_worst": worst, f"{name}_best": best}


def is_bound_name(name: str) -> bool:
    """Whether a score is the worst or the best case of another one."""
    return name.endswith(("_worst", "_best"))


def find_score(scores: Iterable[Score], name: str) -> Score | None:
    return next((score for score in scores if score.covers(name)), None)


def undeclared_score(name: str) -> Score:
    """A score that no benchmark declares, to be shown as it is."""
    return Score(
        name,
        Aggregation(math.fsum),
        label=name,
        higher_is_better=None,
        display_factor=1,
        decimals=4,
    )


class Rescorer(NamedTuple):
    """How rows that were kept are scored again."""

    row_metrics: Callable[[KeptRow], dict[str, Any]]
    """Returns the metrics of a row by name."""

    record_problem: Callable[[KeptRow], str | None] = lambda row: None
    """Says what of a judge's record does not follow from what the judge wrote, if anything."""


@dataclass(frozen=True)
class SampleDisplay:
    """How the report shows the samples of a benchmark, and how two models are compared by them."""

    make_row: Callable[[TaskResult, Sample], SampleRow]
    """Makes the row of a sample."""

    outcome_labels: tuple[str, str, str, str] = ("right", "wrong", "unscored", "other")
    """The words for rows that are right, wrong, unscored, and none of these."""

    margin_label: str = "margin"
    """What the margin of a row is called."""

    facet_label: str = "Facet"
    """What the facets of rows are called."""

    right_count_label: str = "Rows right"
    """What the number of rows that a model has right is called."""

    find_extra_score: Callable[[str], Score | None] = lambda name: None
    """Returns a score that ``SampleRow.score_counts`` has besides the shown ones, by its name."""

    pooled_counts: Callable[[Sample], Mapping[str, Counts]] = lambda sample: {}
    """Returns the parts of a row in scores that are not compared row by row. People's answers
    correct them all the same."""

    script: Path | None = None
    """A ``page.js`` that draws a row (see ``report/scripts/rows.js``). Without one the texts of
    the row are listed."""

    custom_page: tuple[str, Callable[[TaskResult, str], str]] | None = None
    """A folder, and what makes the HTML of a page on the samples of a run, which is written there.
    It is given the task and the title of the page."""


@dataclass(frozen=True)
class Run:
    """A task of a results file, to be compared with others."""

    file: ResultsFile
    task: TaskResult

    notes: tuple[str, ...] = ()
    """What sets it apart."""

    scored_rows: Mapping[str, ScoredRows] = field(default_factory=dict)
    """What its rows contribute to each score. It is empty without samples, and where a newer run
    of the same model replaces this one."""

    @property
    def label(self) -> str:
        return self.file.label + (f", protocol {self.protocol}" if self.protocol else "")

    @property
    def protocol(self) -> str:
        """The protocol, or empty if its scores are those that the benchmark is about."""
        protocol = str(self.task.metadata.get("protocol", "paper"))
        return "" if protocol in ("paper", "code", "fixed", "statements") else protocol


@dataclass(frozen=True)
class PublishedScores:
    """Published scores of a model."""

    __pydantic_config__ = FORBID

    model: Text
    """The name of the model on the Hub."""

    task: Text

    scores: Mapping[str, Number]
    """By metric. Shares are in percent."""

    where: Text
    """Where the values stand."""

    protocol: str = ""

    decoding: str = ""
    """lm_eval's ``--model`` with its options as labels of runs have them, such as ``hf-dola
    formula=code layers=low``, or another name of the method. It is empty where the model is scored
    as it is."""

    @property
    def label(self) -> str:
        decoding = self.decoding and f" ({self.decoding})"
        protocol = self.protocol and f", protocol {self.protocol}"
        return f"{self.model}{decoding}{protocol}"


class ComparisonTable(NamedTuple):
    """A table for the terminal; a column whose name starts with ``#`` holds numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def count_scored_rows(task: TaskResult) -> int:
    """Return how many rows have a score.

    There can be more unscored items than rows where items are no rows.
    """
    return max(0, task.effective - task.unscored)


def count_answered_rows(task: TaskResult, metric: str) -> int:
    """Return how many rows are answered and have a score, where a model may decline to answer."""
    share = number_of(task.metrics.get("respond_ratio"))
    if share is None or metric == "respond_ratio":
        return count_scored_rows(task)
    return max(0, count_scored_rows(task) - round((1 - share) * task.effective))


@dataclass(frozen=True)
class Scoring:
    """Which scores a benchmark has, and how they are computed again from saved samples."""

    scores: tuple[Score, ...]
    """Every number that its tasks report."""

    headlines: tuple[str, ...]
    """The scores that the benchmark is about. The first one that a task has counts."""

    keep_row: Callable[[Sample], KeptRow]
    """Takes from a sample what is needed to score it again."""

    make_rescorer: Callable[[TaskResult, KeptRows], Rescorer]
    """Says how the kept rows of a task are scored again."""

    floor: Callable[[TaskResult, str], float | None] = lambda task, metric: None
    """What guessing scores on a task's rows, or None if that is not known."""

    count_rows: Callable[[TaskResult, str], int] = lambda task, metric: count_scored_rows(task)
    """The number of rows that a score is of. By default, these are the scored rows."""

    unit: str = "rows"
    """What a sample is called in the plural."""

    unscored_unit: str = "rows"
    """What the count of unscored items counts."""


@dataclass(frozen=True)
class Data:
    """Which data a benchmark reads, and which settings change its scores."""

    sources: tuple[Source, ...] = ()
    """The published files."""

    settings: tuple[str, ...] = ()
    """The keys of a task's metadata that change a score."""

    model_outputs: tuple[str, ...] = ()
    """The keys of a document that hold outputs of the evaluated model."""


@dataclass(frozen=True)
class JudgeRole:
    """What a judge decides in the tasks of a benchmark."""

    make_method: Callable[[Mapping[str, Any]], JudgedMethod]
    """Makes the `JudgedMethod` from the settings in a task's metadata."""

    steps: tuple[JudgedStep, ...] = ()
    """The decisions of the judge that a certificate can be about."""

    prompts: Path | None = None
    """The folder of the judge's prompts, for benchmarks outside this package."""


@dataclass(frozen=True)
class Page:
    """The part of the report that shows a benchmark."""

    lead: str = ""
    """The first sentence of the page."""

    name: str = ""
    """The page that the benchmark is on. By default, the page has the name of its kind."""

    sections: Callable[[Any], Sequence[Markup]] | None = None
    """Makes the sections from the runs of the report.

    By default, there is one table of the shown scores for each task.
    """

    samples: SampleDisplay | None = None
    """How samples are shown. Without it, no sample can be browsed and no rows are paired."""


@dataclass(frozen=True)
class Comparing:
    """What sets the runs of a benchmark apart when they are compared."""

    notes: Callable[[ResultsFile, TaskResult], Iterable[str]] | None = None
    """Says what sets a run apart besides its data and limits."""

    tables: Callable[[Sequence[Run]], Iterable[ComparisonTable]] | None = None
    """Makes tables of all runs besides those of the headlines."""

    shown_with_kind: str | None = None
    """The kind of the benchmark whose comparison shows this one's headline."""


@dataclass(frozen=True)
class Checks:
    """How others can check what a run of a benchmark claims."""

    audit: Callable[[ExpectedRun], RequestAudit] = PromptAudit
    """Tells a leaderboard whether the model was asked what the documents say. By default, it was
    asked the prompt under ``text``."""

    certifiable: tuple[CertifiableSetting, ...] = ()
    """The settings in which the data of this benchmark certify a judge."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, composed of parts that each have sensible defaults."""

    kind: str
    """Its name in results files."""

    title: str
    """Its name for readers."""

    scoring: Scoring
    data: Data = Data()
    judging: JudgeRole | None = None
    """None if no judge decides anything."""

    page: Page = Page()
    comparing: Comparing = Comparing()
    checks: Checks = Checks()
    people: People | None = None
    """What people are asked in the judge's place."""

    order: int = 100
    """Its place in lists. Lower numbers come first."""

    def __post_init__(self) -> None:
        """Check the names, and register the judge's prompts.

        Raises:
            ConfigError: The kind or the page cannot be the name of a file, two scores have the
                same name, or a headline is none of the scores.
        """
        scores = Counter(score.name for score in self.scoring.scores)
        name, times = scores.most_common(1)[0]
        headlines = self.scoring.headlines
        problem = ""
        if times > 1:
            problem = f"two scores are called {name!r}"
        elif not headlines or not all(map(self.find_score, headlines)):
            problem = f"headlines: found {headlines}; expected some of {', '.join(scores)}"
        for name in (self.kind, self.page_name):
            if not _NAME.fullmatch(name) or name in _RESERVED:
                expected = f"small letters, digits and underscores; not {', '.join(_RESERVED)}"
                problem = f"{name!r} cannot be its kind or page; expected {expected}"
        if problem:
            raise ConfigError(f"benchmark {self.kind!r}: {problem}")
        if self.judging is not None and self.judging.prompts is not None:
            register_prompts(self.kind, self.judging.prompts)

    @property
    def page_name(self) -> str:
        """The page of the report that shows the benchmark."""
        return self.page.name or self.kind

    def find_score(self, name: str) -> Score | None:
        return find_score(self.scoring.scores, name)

    def certification_statuses(self, metadata: Mapping[str, Any]) -> list[CertificationStatus]:
        """What is known of the judge of a run, by the steps that it decides.

        Args:
            metadata: The metadata of the run's task.

        Returns:
            One statement per judged step, or none if no judge decided.
        """
        if self.judging is None or not metadata.get("judge_config"):
            return []
        return [step.certification_status(metadata) for step in self.judging.steps]

    @property
    def table_scores(self) -> tuple[Score, ...]:
        """The scores that tables show, the headline first."""
        return tuple(score for score in self.scoring.scores if score.label)

    def aggregation_by_metric(self, **families: Sequence[str]) -> dict[str, Aggregation]:
        """How each metric becomes one number, by its name.

        Args:
            **families: The members of each score ``NAME*``, by ``NAME``.
        """
        aggregations = {}
        for score in self.scoring.scores:
            base = score.name.removesuffix("*")
            for member in families[base] if base != score.name else ("",):
                aggregations[base + member] = score.aggregation
        return aggregations

    def metric_list_problems(self, metric_list: Any) -> Iterator[str]:
        """Yield what is not true in the ``metric_list`` of a task's YAML.

        The list may state the metrics of the benchmark and cannot change them.
        """
        if not isinstance(metric_list, list | None):
            kind = type(metric_list).__name__
            yield f"metric_list: found a {kind}, expected a list of metrics"
            return
        names = [score.name for score in self.scoring.scores]
        for entry in metric_list or ():
            metric = entry if isinstance(entry, Mapping) else {"metric": entry}
            name = str(metric.get("metric"))
            score = self.find_score(name)
            if score is None:
                hint = f"{did_you_mean(name, names)}; known: {', '.join(names)}"
                yield f"metric_list: no score {name!r}{hint}"
            elif metric.get("higher_is_better", score.higher_is_better) != score.higher_is_better:
                direction = metric["higher_is_better"]
                yield (
                    f"metric_list: higher_is_better of {name} is {score.higher_is_better}, not"
                    f" {direction}"
                )

    def higher_is_better_by_metric(self, names: Sequence[str]) -> dict[str, bool]:
        """Whether higher is better, for those of ``names`` of which it can be said."""
        scores = {name: self.find_score(name) for name in names}
        return {
            name: score.higher_is_better
            for name, score in scores.items()
            if score and score.higher_is_better is not None
        }
