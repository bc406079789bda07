"""The declaration of a benchmark: its scores, data, judge, report page, checks and questions.

Each benchmark declares one `Benchmark` (see ``docs/add_a_benchmark.md``). Runs, reports,
comparisons and leaderboards read everything that they need to know about a benchmark from there.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
from lm_factuality.scores.statistics import MEAN, TOTAL, Aggregation, count_present

if TYPE_CHECKING:
    from lm_factuality.benchmarks.chosen import ReportRuns
    from lm_factuality.benchmarks.judged import JudgedMethod

Bound = TypeVar("Bound")

Sample = Mapping[str, Any]
"""A line of lm_eval's samples file."""

KeptRow = Mapping[str, Any]
"""The parts of a sample from which it can be scored again."""

KeptRows = Sequence[KeptRow]

_FILE_NAME = re.compile(r"[a-z][a-z0-9_]*")

_RESERVED_NAMES = ("index", "compare", "samples", "other")
"""The pages that every report has, and the kind of tasks that are not of this package."""

_MAIN_PROTOCOLS = ("paper", "code", "fixed", "statements")
"""The protocols whose scores are the benchmark's main ones, so that labels do not name them."""


@dataclass(frozen=True)
class ScoreRange:
    """The values that a score can have. Its 95% interval stays within them."""

    low: float = 0.0
    """The lowest value."""

    high: float = 1.0
    """The highest value."""


SHARE = ACCURACY = F1 = ERROR_RATE = ScoreRange()
DIFFERENCE = ScoreRange(-1.0)
NOT_NEGATIVE = ScoreRange(high=math.inf)


@dataclass(frozen=True)
class Score:
    """A number that the tasks of a benchmark report."""

    name: str
    """Its name in lm_eval's results. A trailing ``*`` stands for every metric that begins so."""

    aggregation: Aggregation
    """How the values of all rows become one number and its standard error."""

    value_range: ScoreRange | None = None
    """The values that it can have. None for counts, and for worst and best cases."""

    label: str = ""
    """Its name in tables. Scores without a label are in no table."""

    higher_is_better: bool | None = True
    """Whether higher is better, or None if neither is."""

    display_factor: float = 100.0
    """The number that values are multiplied by in tables."""

    decimals: int = 1
    """The number of decimals in tables."""

    note: str = ""
    """An explanation that tables show."""

    comparable_if_equal: str = ""
    """Another score, such as the number of tokens.

    Two runs are compared in this score only if they are equal in that one.
    """

    @property
    def bounded_aggregation(self) -> Aggregation:
        """The aggregation, which also knows the lowest and the highest value of the score."""
        # Scores without a range are counts, or log-probabilities, which are negative.
        value_range = self.value_range or NOT_NEGATIVE
        return replace(self.aggregation, low=value_range.low, high=value_range.high)

    def covers(self, name: str) -> bool:
        """Return whether a metric of a results file is this score, or matches its ``*``."""
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return name == self.name

    def format_value(self, value: float | None) -> str:
        """Write a value as tables show it: 0.4837 becomes ``48.4``, and None becomes ``-``."""
        if value is None:
            return "-"
        # Adding zero turns the -0.0 that rounding can give into 0.0.
        displayed = round(self.display_factor * value, self.decimals) + 0.0
        return f"{displayed:.{self.decimals}f}".replace("-", "−")

    def format_interval(self, low: float, high: float) -> str:
        """Write an interval as tables show it: ``45.1 – 51.6``, or ``−3.0 to 1.2``."""
        # A dash next to a minus sign is hard to read.
        separator = "to" if low < 0 else "–"
        return f"{self.format_value(low)} {separator} {self.format_value(high)}"

    def with_k_label(self, metadata_of_runs: Iterable[Mapping[str, Any]]) -> Score:
        """Return this score with the K of its runs in its label: ``F1@K`` becomes ``F1@64``.

        Args:
            metadata_of_runs: The metadata of each run. Its ``k`` lists the numbers K, of which the
                first is that of this score. If runs differ, or do not say, the label stays.
        """
        if not self.label.endswith("@K"):
            return self
        distinct_k = list(set(map(first_k, metadata_of_runs)))
        runs_agree = len(distinct_k) == 1 and distinct_k[0] is not None
        if not runs_agree:
            return self
        return replace(self, label=f"{self.label.removesuffix('K')}{distinct_k[0]}")

    def worst_and_best(self) -> tuple[Score, ...]:
        """Return two scores: this one if all unscored items were wrong, and if all were right.

        They are computed from the values of all rows as this score is, and have no standard error.
        `worst_and_best_of` gives the values of a row their names.
        """
        # Without a function for it, a bound has no standard error.
        aggregation = Aggregation(self.aggregation.value)
        return tuple(
            Score(f"{self.name}_{case}", aggregation, higher_is_better=self.higher_is_better)
            for case in ("worst", "best")
        )

    @property
    def unit(self) -> str:
        """The unit of displayed values: ``%``, ``points`` for differences, or empty for others."""
        if self.display_factor != 100:
            return ""
        return "points" if self.value_range == DIFFERENCE else "%"

    @property
    def title_with_unit(self) -> str:
        """The label with the unit, such as ``Accuracy, %``."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def column(self) -> Column:
        """The column of a table that shows this score."""
        return Column(self.title_with_unit, numeric=True, title=self.note or None)


def first_k(metadata: Mapping[str, Any]) -> int | None:
    """Return the first of the numbers K in the metadata of a run, or None if there is none."""
    k_values = metadata.get("k")
    # Files of others may lack the key, or hold something else under it.
    if not isinstance(k_values, list) or not k_values:
        return None
    return k_values[0] if isinstance(k_values[0], int) else None


def load_scores(package: str, **aggregations: Aggregation) -> tuple[Score, ...]:
    """Read the scores of a benchmark from the file ``scores.yaml`` in its package.

    The file holds the fields of each `Score` under its name. The aggregation is ``mean`` unless
    stated, and ``bounds: true`` adds the worst and the best case.

    Args:
        package: The package of the benchmark.
        **aggregations: The aggregations that the file may name besides ``mean``, ``total`` and
            ``count``, which counts the rows that have a value.

    Example:
        ``factor_acc: {label: Accuracy, value_range: [0.0, 1.0], bounds: true}`` gives the scores
        ``factor_acc``, ``factor_acc_worst`` and ``factor_acc_best``.
    """
    # A benchmark cannot redefine these three.
    aggregations |= {"mean": MEAN, "total": TOTAL, "count": Aggregation(count_present)}
    scores: list[Score] = []
    for name, entry in load_yaml(package, "scores.yaml").items():
        # These three keys of the file need conversion.
        fields = dict(entry)
        has_bounds = fields.pop("bounds", False)
        aggregation = aggregations[fields.pop("aggregation", "mean")]
        low_and_high = fields.pop("value_range", None)
        value_range = ScoreRange(*low_and_high) if low_and_high else None

        # The other keys, such as the label, are fields of Score.
        score = Score(name, aggregation, value_range, **fields)
        scores.append(score)
        if has_bounds:
            scores += score.worst_and_best()
    return tuple(scores)


def worst_and_best_of(name: str, worst: Bound, best: Bound) -> dict[str, Bound]:
    """Name two values after the worst and the best case of a score.

    Example:
        ``("f1", 0.2, 0.6)`` gives ``{"f1_worst": 0.2, "f1_best": 0.6}``.
    """
    return {f"{name}_worst": worst, f"{name}_best": best}


def find_score(scores: Iterable[Score], name: str) -> Score | None:
    """Return the first score that a metric of a results file belongs to, or None."""
    for score in scores:
        if score.covers(name):
            return score
    return None


def undeclared_score(name: str) -> Score:
    """Make a score for a metric that no benchmark declares. Tables show its values unchanged."""
    return Score(
        name,
        Aggregation(math.fsum),
        label=name,
        higher_is_better=None,
        display_factor=1,
        decimals=4,
    )


class Rescorer(NamedTuple):
    """The functions that score the saved samples of a task again."""

    row_metrics: Callable[[KeptRow], dict[str, Any]]
    """Returns the metrics of a row, by name."""

    record_problem: Callable[[KeptRow], str | None] = lambda row: None
    """Says which part of a judge's record does not follow from the judge's output, if any."""


class SamplePages(NamedTuple):
    """Pages that a benchmark adds to the report, one for the samples of each run."""

    folder: str
    """The folder of the pages in the report."""

    make_page: Callable[[TaskResult, str], str]
    """Returns the HTML of a page. Its arguments are the run's task and the title of the page."""


@dataclass(frozen=True)
class SampleDisplay:
    """How the report shows the samples of a benchmark, and compares two models by them."""

    make_row: Callable[[TaskResult, Sample], SampleRow]
    """Makes the row of a sample."""

    outcome_labels: tuple[str, str, str, str] = ("right", "wrong", "unscored", "other")
    """The words for rows that are right, wrong, unscored, and none of these."""

    margin_label: str = "margin"
    """The word for the margin of a row."""

    facet_label: str = "Facet"
    """The word for the groups that rows are in, such as error types."""

    right_count_label: str = "Rows right"
    """The words for the number of rows that a model has right."""

    find_extra_score: Callable[[str], Score | None] = lambda name: None
    """Returns a score of ``SampleRow.score_counts`` that no table shows, by its name."""

    pooled_counts: Callable[[Sample], Mapping[str, Counts]] = lambda sample: {}
    """Returns the counts of a sample in the scores that are not compared row by row.

    People's answers correct these scores as well.
    """

    script: Path | None = None
    """A ``page.js`` that draws a row (see ``report/scripts/rows.js``).

    Without one, the report lists the texts of the row.
    """

    custom_page: SamplePages | None = None
    """Pages about the samples of a run that the benchmark makes itself."""


@dataclass(frozen=True)
class Run:
    """A task of a results file, to be compared with others."""

    file: ResultsFile
    task: TaskResult

    notes: tuple[str, ...] = ()
    """The conditions in which the run differs from others, such as a limit of rows."""

    scored_rows: Mapping[str, ScoredRows] = field(default_factory=dict)
    """The rows that count for each score, by the score's name.

    It is empty without samples, and if a newer run of the same model replaces this one.
    """

    @property
    def label(self) -> str:
        """The label of the model, with the protocol if it is not a main one."""
        return f"{self.file.label}, protocol {self.protocol}" if self.protocol else self.file.label

    @property
    def protocol(self) -> str:
        """The protocol, or an empty text if it gives the benchmark's main scores."""
        # Tasks without protocols follow the paper.
        protocol = str(self.task.metadata.get("protocol", "paper"))
        # Answers in a JSON schema are not comparable with others.
        if self.task.metadata.get("answers") == "schema":
            return f"{protocol} with a JSON schema"
        return "" if protocol in _MAIN_PROTOCOLS else protocol


@dataclass(frozen=True)
class PublishedScores:
    """The scores of a model that a paper or a website has published."""

    __pydantic_config__ = FORBID

    model: Text
    """The name of the model on the Hub."""

    task: Text

    scores: Mapping[str, Number]
    """The values by metric. Shares are in percent."""

    where: Text
    """The place of publication, such as ``table 2``."""

    protocol: str = ""

    decoding: str = ""
    """The decoding method, or empty for plain decoding.

    It is lm_eval's ``--model`` with its options in the form of run labels, such as ``hf-dola
    formula=code layers=low``, or another name.
    """

    @property
    def label(self) -> str:
        """The name of the model with decoding and protocol, such as ``gpt2 (hf-dola)``."""
        label = self.model
        # Plain decoding is the usual case, so the label does not name it.
        if self.decoding:
            label += f" ({self.decoding})"
        if self.protocol:
            label += f", protocol {self.protocol}"
        return label


class ComparisonTable(NamedTuple):
    """A table for the terminal."""

    title: str

    columns: Sequence[str]
    """The headings. A column whose heading starts with ``#`` holds numbers."""

    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def count_scored_rows(task: TaskResult) -> int:
    """Return how many rows of a task have a score, out of the ``effective`` rows that were run."""
    # The count of a run may be of items such as facts, of which there can be more than rows.
    return max(0, task.effective - task.unscored)


def count_answered_rows(task: TaskResult, metric: str) -> int:
    """Return how many rows count for a score, in tasks whose model may decline to answer.

    Results state only the share of rows that the model answers, from which the number follows. With
    100 rows, of which 4 are unscored, and a share of 0.9, 86 rows count.

    Args:
        task: A task with the metric ``respond_ratio``, the share of rows that the model answers.
        metric: The name of the score.

    Returns:
        The number of rows that have a score and in which the model answers. For ``respond_ratio``
        itself, rows without an answer count as well.
    """
    num_scored = count_scored_rows(task)
    respond_ratio = number_of(task.metrics.get("respond_ratio"))
    if respond_ratio is None or metric == "respond_ratio":
        return num_scored
    # The ratio times the number of rows that were run is a whole number, up to rounding errors.
    num_declined = round((1 - respond_ratio) * task.effective)
    return max(0, num_scored - num_declined)


@dataclass(frozen=True)
class Scoring:
    """The scores of a benchmark, and how they are computed again from saved samples."""

    scores: tuple[Score, ...]
    """Every number that its tasks report."""

    headlines: tuple[str, ...]
    """The names of the main scores. The first one that a task reports is its headline."""

    keep_row: Callable[[Sample], KeptRow]
    """Takes from a sample the parts from which it can be scored again."""

    make_rescorer: Callable[[TaskResult, KeptRows], Rescorer]
    """Makes the functions that score the kept rows of a task again."""

    guess_baseline: Callable[[TaskResult, str], float | None] = lambda task, metric: None
    """Returns the value of a score for guessing on a task's rows, or None if it is not known."""

    count_rows: Callable[[TaskResult, str], int] = lambda task, metric: count_scored_rows(task)
    """Returns the number of rows that count for a score. By default, these are the scored rows."""

    unit: str = "rows"
    """The word for several samples."""

    unscored_unit: str = "rows"
    """The word for the items that the count of unscored items counts."""


@dataclass(frozen=True)
class Data:
    """The data that a benchmark reads, and the settings that change its scores."""

    sources: tuple[Source, ...] = ()
    """The published files."""

    settings: tuple[str, ...] = ()
    """The keys of a task's metadata that change a score."""

    model_outputs: tuple[str, ...] = ()
    """The keys of a document that hold outputs of the evaluated model."""


@dataclass(frozen=True)
class JudgeRole:
    """The decisions that a judge makes in the tasks of a benchmark."""

    make_method: Callable[[Mapping[str, Any]], JudgedMethod]
    """Makes the method from the settings in a task's metadata."""

    steps: tuple[JudgedStep, ...] = ()
    """The steps that the judge decides. A certificate can apply to each."""

    prompts: Path | None = None
    """The folder of the judge's prompts, for benchmarks outside this package."""


@dataclass(frozen=True)
class Page:
    """The part of the report that shows a benchmark."""

    lead: str = ""
    """The first sentence of the page."""

    name: str = ""
    """The page that the benchmark is on. By default, this is the benchmark's kind."""

    sections: Callable[[ReportRuns], Sequence[Markup]] | None = None
    """Makes the sections from the runs of the report.

    By default, there is one table of the shown scores for each task.
    """

    samples: SampleDisplay | None = None
    """How samples are shown. Without it, no sample can be browsed and no rows are paired."""


@dataclass(frozen=True)
class Comparing:
    """How the runs of a benchmark are compared, in addition to their main scores."""

    notes: Callable[[ResultsFile, TaskResult], Iterable[str]] | None = None
    """Returns the conditions in which a run differs from others, besides its data and limits."""

    tables: Callable[[Sequence[Run]], Iterable[ComparisonTable]] | None = None
    """Makes tables of all runs in addition to those of the main scores."""

    shown_with_kind: str | None = None
    """The kind of the benchmark whose comparison shows this benchmark's main score."""


@dataclass(frozen=True)
class Checks:
    """How others can check the claims of a run of a benchmark."""

    audit: Callable[[ExpectedRun], RequestAudit] = PromptAudit
    """Checks that the model was asked the prompts of the documents.

    By default, the prompt of a document is under ``text``.
    """

    certifiable: tuple[CertifiableSetting, ...] = ()
    """The settings in which the data of this benchmark certify a judge."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, composed of parts that each have defaults."""

    kind: str
    """Its name in results files."""

    title: str
    """Its name for readers."""

    scoring: Scoring
    data: Data = Data()

    judging: JudgeRole | None = None
    """The role of the judge, or None if no judge decides anything."""

    page: Page = Page()
    comparing: Comparing = Comparing()
    checks: Checks = Checks()

    people: People | None = None
    """How people answer questions in the judge's place."""

    order: int = 100
    """Its place in lists. Lower numbers come first."""

    def __post_init__(self) -> None:
        """Check the declaration, and register the judge's prompts.

        Raises:
            ConfigError: The kind or the page cannot be the name of a file, two scores have the
                same name, or a headline is none of the scores.
        """
        self._check_scores()
        # Kinds and pages become names of files in reports, some of which are taken.
        for field_name, value in (("kind", self.kind), ("page name", self.page_name)):
            if not _FILE_NAME.fullmatch(value) or value in _RESERVED_NAMES:
                raise ConfigError(
                    f"benchmark {self.kind!r}: {field_name}: found {value!r}; expected small"
                    f" letters, digits and underscores; not {', '.join(_RESERVED_NAMES)}"
                )
        if self.judging is not None and self.judging.prompts is not None:
            register_prompts(self.kind, self.judging.prompts)

    def _check_scores(self) -> None:
        """Check that each score has a name of its own, and that all headlines are scores.

        Raises:
            ConfigError: Two scores share a name, there is no headline, or one is not declared.
        """
        name_counts = Counter(score.name for score in self.scoring.scores)
        for name, count in name_counts.items():
            if count > 1:
                # The second score of this name would never be found.
                raise ConfigError(f"benchmark {self.kind!r}: two scores are called {name!r}")

        headlines = self.scoring.headlines
        unknown_headlines = [name for name in headlines if self.find_score(name) is None]
        if unknown_headlines or not headlines:
            raise ConfigError(
                f"benchmark {self.kind!r}: headlines: found {headlines}; expected some of"
                f" {', '.join(name_counts)}"
            )

    @property
    def page_name(self) -> str:
        """The name of the report's page that shows the benchmark."""
        return self.page.name or self.kind

    def find_score(self, name: str) -> Score | None:
        """Return the declared score that a metric of a results file belongs to, or None."""
        return find_score(self.scoring.scores, name)

    def certification_statuses(self, metadata: Mapping[str, Any]) -> list[CertificationStatus]:
        """Look up what is known about the quality of a run's judge.

        Args:
            metadata: The metadata of the run's task.

        Returns:
            One status per judged step, or none if no judge took part.
        """
        # Results of runs without a judge have no judge_config.
        if self.judging is None or not metadata.get("judge_config"):
            return []
        statuses = []
        for step in self.judging.steps:
            # Results without the setting are of versions that had one method.
            if step.method in ("", metadata.get("method", "stepwise")):
                statuses.append(step.certification_status(metadata))
        return statuses

    @property
    def table_scores(self) -> tuple[Score, ...]:
        """The scores that tables show, in order."""
        return tuple(score for score in self.scoring.scores if score.label)

    def aggregation_by_metric(
        self, endings_by_prefix: Mapping[str, Sequence[str]]
    ) -> dict[str, Aggregation]:
        """Return how the values of each metric become one number, by the metric's name.

        A score whose name ends in ``*`` stands for several metrics. A task says which ones it has.

        Args:
            endings_by_prefix: The endings of these metrics, by the name of the score without the
                ``*``.

        Example:
            For the score ``f1_at_*``, ``{"f1_at_": ["64", "178"]}`` gives the metrics ``f1_at_64``
            and ``f1_at_178``.
        """
        aggregations = {}
        for score in self.scoring.scores:
            if not score.name.endswith("*"):
                aggregations[score.name] = score.bounded_aggregation
                continue
            # All metrics that a score with a star stands for are computed in the same way.
            prefix = score.name.removesuffix("*")
            for ending in endings_by_prefix[prefix]:
                aggregations[prefix + ending] = score.bounded_aggregation
        return aggregations

    def metric_list_problems(self, metric_list: object) -> Iterator[str]:
        """Yield what is wrong in the ``metric_list`` of a task's YAML.

        The list may state the metrics of the benchmark, but not change them.

        Args:
            metric_list: The value from the YAML: names, or mappings with ``metric`` and
                ``higher_is_better``. None if the YAML has none.
        """
        if metric_list is None:
            return
        # A mapping would be read as a list of its keys.
        if not isinstance(metric_list, list):
            kind = type(metric_list).__name__
            yield f"metric_list: found a {kind}, expected a list of metrics"
            return

        for entry in metric_list:
            # lm_eval takes a bare name or a mapping.
            metric = entry if isinstance(entry, Mapping) else {"metric": entry}
            problem = self._metric_problem(metric)
            if problem:
                yield f"metric_list: {problem}"

    def _metric_problem(self, metric: Mapping[str, Any]) -> str:
        """Say how an entry of a ``metric_list`` differs from the declared score.

        Args:
            metric: The entry, such as ``{"metric": "f1", "higher_is_better": True}``.

        Returns:
            The problem as a phrase, or an empty string.
        """
        name = str(metric.get("metric"))
        score = self.find_score(name)
        if score is None:
            known_names = [known_score.name for known_score in self.scoring.scores]
            hint = did_you_mean(name, known_names)
            return f"no score {name!r}{hint}; known: {', '.join(known_names)}"
        # An entry that leaves the direction out states nothing wrong.
        direction = metric.get("higher_is_better", score.higher_is_better)
        if direction == score.higher_is_better:
            return ""
        return f"higher_is_better of {name} is {score.higher_is_better}, not {direction}"

    def higher_is_better_by_metric(self, names: Sequence[str]) -> dict[str, bool]:
        """Return whether higher is better, by the name of the metric.

        Args:
            names: The metrics. The result lacks those that are not declared, and those that say
                nothing about quality, such as a number of facts: lm_eval has no entry for them.
        """
        directions = {}
        for name in names:
            score = self.find_score(name)
            if score is not None and score.higher_is_better is not None:
                directions[name] = score.higher_is_better
        return directions
