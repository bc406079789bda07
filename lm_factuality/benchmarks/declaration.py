"""What a benchmark declares of itself, once: results, report, exports, comparisons and leaderboards
read it here. A benchmark is a folder here (or of another package, see ``docs/add_a_benchmark.md``)
whose module ``benchmark`` holds a ``Benchmark`` called ``BENCHMARK``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from judges.templates import register_prompts
from lm_factuality.benchmarks.asked import People
from lm_factuality.benchmarks.audit import Audit, Expected, PromptAudit
from lm_factuality.benchmarks.certifiable import Certifiable, JudgedStep, Stated
from lm_factuality.benchmarks.rows import Counts, SampleRow
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.html import Column
from lm_factuality.ground.published import Source
from lm_factuality.harness.generation import Generation
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.scores.statistics import Aggregation, score_interval

if TYPE_CHECKING:
    from markupsafe import Markup

    from lm_factuality.benchmarks.chosen import Chosen, Entry
    from lm_factuality.benchmarks.pairs import Scored

Sample = Mapping[str, Any]  # a line of lm_eval's samples file
Row = Mapping[str, Any]  # what is kept of a sample to score it again
Rows = Sequence[Row]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = (
    "index",
    "compare",
    "samples",
    "other",
)  # pages of every report, and the kind of lm_eval's own tasks


@dataclass(frozen=True)
class Measure:
    """What kind of number a score is: the ``family`` that scores of other benchmarks share
    (accuracy, f1, perplexity, ...), its ``unit``, and the least and the most that it can be."""

    family: str
    unit: str = "proportion"
    low: float = 0.0
    high: float = 1.0


ACCURACY, F1, PRECISION, RECALL = (
    Measure("accuracy"),
    Measure("f1"),
    Measure("precision"),
    Measure("recall"),
)
BALANCED_ACCURACY, ERROR_RATE, SHARE = (
    Measure("balanced_accuracy"),
    Measure("error_rate"),
    Measure("share"),
)
PERPLEXITY = Measure("perplexity", "perplexity", 1.0, math.inf)
BITS_PER_BYTE = Measure("bits_per_byte", "bits", 0.0, math.inf)
DIFFERENCE = Measure("difference", "proportion", -1.0, 1.0)


def interval_of(
    measure: Measure | None, value: float, stderr: float, n: int
) -> tuple[float, float] | None:
    """The 95% interval of a score of ``n`` rows. What has no measure is a count, or as negative as
    a log-probability."""
    low, high = (
        (measure.low, measure.high) if measure else (0.0 if value >= 0 else -math.inf, math.inf)
    )
    return score_interval(value, stderr, low, high, n)


@dataclass(frozen=True)
class Score:
    """A number that the tasks of a benchmark report. ``name`` is lm_eval's; one that ends in ``*``
    stands for all that begin so. ``aggregation`` makes it of the values of all rows. ``measure`` is
    None for counts, worst and best cases. ``label`` is what tables call it, empty for what they do
    not show. ``higher`` says whether higher is better, None if neither is. A value is shown
    ``times`` as large, with ``digits`` decimals and in ``unit``. ``alike`` names a score, such as
    the number of tokens, that two runs must have alike to be compared in this one. ``of_sums``
    makes it of ``Samples.sums``."""

    name: str
    aggregation: Aggregation
    measure: Measure | None = None
    label: str = ""
    higher: bool | None = True
    times: float = 100.0
    digits: int = 1
    note: str = ""
    unit: str = "%"
    alike: str = ""
    of_sums: Callable[[Sequence[float]], float] | None = None

    def covers(self, name: str) -> bool:
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name

    def write(self, value: float) -> str:
        # Adding zero makes a zero of what is rounded to a negative one.
        return f"{round(self.times * value, self.digits) + 0.0:.{self.digits}f}".replace("-", "−")

    def between(self, low: float, high: float) -> str:
        return f"{self.write(low)} {'to' if low < 0 else '–'} {self.write(high)}"

    def bounds(self) -> tuple[Score, Score]:
        """The worst and the best case: the score if all unscored items were wrong, or right.

        Both are made of the values of all rows as the score is, and have no standard error.
        `bounds_of` names the values of a row.
        """
        aggregation = Aggregation(self.aggregation.value)
        worst, best = bounds_of(self.name, aggregation, aggregation).items()
        return Score(*worst, higher=self.higher), Score(*best, higher=self.higher)

    @property
    def titled(self) -> str:
        return f"{self.label}, {self.unit}" if self.times == 100 else self.label

    @property
    def column(self) -> Column:
        return Column(self.titled, True, self.note or None)


def bounds_of(name: str, worst: Any, best: Any) -> dict[str, Any]:
    """What belongs to the worst and the best case of a score, such as the values of a row."""
    return {f"{name}_worst": worst, f"{name}_best": best}


def is_bound(name: str) -> bool:
    """Whether a score is the worst or the best case of another one."""
    return name.endswith(("_worst", "_best"))


def wrong_metrics(scores: Sequence[Score], listed: Any) -> Iterator[str]:
    """What is not so in the ``metric_list`` of a task's YAML, which may state the metrics and
    cannot change them."""
    if listed is not None and not isinstance(listed, list):
        yield f"metric_list: found a {type(listed).__name__}, expected a list of metrics"
        return
    for each in listed or ():
        name = each.get("metric") if isinstance(each, Mapping) else each
        score = next(
            (score for score in scores if isinstance(name, str) and score.covers(name)), None
        )
        if score is None:
            known = [score.name for score in scores]
            yield (
                f"metric_list: no score {name!r}{did_you_mean(str(name), known)}; known:"
                f" {', '.join(known)}"
            )
        elif (
            isinstance(each, Mapping) and each.get("higher_is_better", score.higher) != score.higher
        ):
            yield (
                f"metric_list: higher_is_better of {name} is {score.higher}, not"
                f" {each['higher_is_better']}"
            )


class Recount(NamedTuple):
    """How the metrics of a row that was kept are found again, by name. ``unfounded`` says what of a
    judge's record does not follow from the response and from what the judge wrote, if anything."""

    row_metrics: Callable[[Row], dict[str, Any]]
    unfounded: Callable[[Row], str | None] = lambda row: None


def undeclared(name: str) -> Score:
    """A score that no benchmark declares, to be shown as it is."""
    return Score(name, Aggregation(math.fsum), label=name, higher=None, times=1, digits=4)


@dataclass(frozen=True)
class Samples:
    """How the report shows the samples of a benchmark, in its browser and where two models are
    compared.

    ``outcomes`` are the words for rows that are right, wrong, unscored, and none of these;
    ``margin`` is by how much one is; ``facet`` is what the facets of rows are called; with
    ``is_partition`` every row has exactly one. ``right`` counts the rows that a model has right.
    ``compared`` gives the scores that ``SampleRow.parts`` has beside the shown ones. ``sums`` are
    the parts of a row in scores that are not compared row by row, and that people's answers correct
    all the same. ``script`` is a ``page.js`` that draws a row (see ``report/scripts/rows.js``;
    without one its texts are listed). ``own_pages`` is a folder, and what makes the HTML of a page
    on the samples of one run, which is written there."""

    row: Callable[[TaskResult, Sample], SampleRow]
    outcomes: tuple[str, str, str, str] = ("right", "wrong", "unscored", "other")
    margin: str = "margin"
    facet: str = "Facet"
    is_partition: bool = False
    right: str = "Rows right"
    compared: Callable[[str], Score | None] = lambda name: None
    sums: Callable[[Sample], Mapping[str, Counts]] = lambda sample: {}
    script: Path | None = None
    own_pages: tuple[str, Callable[[Entry], str]] | None = None


@dataclass(frozen=True)
class Run:
    """A task of a results file, to be compared with others; ``notes`` say what sets it apart.
    ``scored`` is what its rows contribute to each score, empty without samples and where a newer
    run of the same model replaces it."""

    file: ResultsFile
    task: TaskResult
    notes: tuple[str, ...] = ()
    scored: Mapping[str, Scored] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.file.label + (f", protocol {self.protocol}" if self.protocol else "")

    @property
    def protocol(self) -> str:
        """The protocol, if its scores are not to be taken for those of the benchmark's own
        protocols, else empty."""
        found = str(self.task.metadata.get("protocol", "paper"))
        return "" if found in ("paper", "code", "fixed", "statements") else found


@dataclass(frozen=True)
class Published:
    """A published ``value`` of ``metric`` for ``model`` (its name on the Hub) on ``task``, shares
    in per cent, and where it stands. ``decoding`` is lm_eval's ``--model`` with its options as
    labels of runs have them (``hf-dola formula=code layers=low``), or another name of the method,
    empty where the model is scored as it is."""

    model: str
    task: str
    metric: str
    value: float
    where: str
    protocol: str = ""
    decoding: str = ""

    @property
    def label(self) -> str:
        decoding, protocol = (
            self.decoding and f" ({self.decoding})",
            self.protocol and f", protocol {self.protocol}",
        )
        return f"{self.model}{decoding}{protocol}"


class Table(NamedTuple):
    """A table for the terminal; a column whose name starts with ``#`` holds numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def scored_of(task: TaskResult) -> int:
    """How many rows have a score. Items that are counted otherwise than in rows can be more than
    these."""
    return max(0, task.effective - int(number_of(task.metrics.get("unscored")) or 0))


def answered(task: TaskResult, metric: str) -> int:
    """The same where a model may decline: the rows that are answered and have a score; of the share
    of answers all rows."""
    share = number_of(task.metrics.get("respond_ratio"))
    declined = (
        0 if share is None or metric == "respond_ratio" else round((1 - share) * task.effective)
    )
    return max(0, scored_of(task) - declined)


@dataclass(frozen=True)
class Scoring:
    """Which scores a benchmark has, and how they are computed again from saved samples."""

    scores: tuple[Score, ...]
    """Every number that its tasks report."""

    headlines: tuple[str, ...]
    """The scores that the benchmark is about. The first one that a task has counts."""

    keep: Callable[[Sample], Row]
    """Takes from a sample what is needed to score it again."""

    recount: Callable[[TaskResult, Rows], Recount]
    """Says how the kept rows of a task are scored again."""

    floor: Callable[[TaskResult, str], float | None] = lambda task, metric: None
    """What guessing scores on a task's rows, or None if that is not known."""

    counted: Callable[[TaskResult, str], int] = lambda task, metric: scored_of(task)
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
class Judging:
    """What a judge decides in the tasks of a benchmark."""

    generation: Callable[[Mapping[str, Any]], Generation]
    """Makes the judged method from the settings in a task's metadata."""

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

    sections: Callable[[Chosen], Sequence[Markup]] | None = None
    """Makes the sections. By default, there is one table of the shown scores for each task."""

    samples: Samples | None = None
    """How samples are shown. Without it, no sample can be browsed and no rows are paired."""


@dataclass(frozen=True)
class Comparing:
    """What sets the runs of a benchmark apart when they are compared."""

    notes: Callable[[ResultsFile, TaskResult], Iterable[str]] | None = None
    """Says what sets a run apart besides its data and limits."""

    comparison: Callable[[Sequence[Run]], list[Table]] | None = None
    """Makes tables besides those of the headlines, out of all runs."""

    shown_beside: str | None = None
    """The kind of the benchmark whose comparison shows this one's headline."""


@dataclass(frozen=True)
class Checks:
    """How others can check what a run of a benchmark claims."""

    audit: Callable[[Expected], Audit] = PromptAudit
    """Tells a leaderboard whether the model was asked what the documents say. By default, it was
    asked the prompt under ``text``."""

    certifiable: tuple[Certifiable, ...] = ()
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
    judging: Judging | None = None
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
        for name in (self.kind, self.page_name):
            if not _NAME.fullmatch(name) or name in _RESERVED:
                expected = (
                    f"small letters, digits and underscores, and none of {', '.join(_RESERVED)}"
                )
                raise ConfigError(
                    f"benchmark {self.kind!r}: {name!r} cannot be its kind or page; expected"
                    f" {expected}"
                )
        names = [score.name for score in self.scoring.scores]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ConfigError(f"benchmark {self.kind!r}: two scores are called {repeated[0]!r}")
        missing = [name for name in self.scoring.headlines if self.score(name) is None]
        if missing or not self.scoring.headlines:
            problem = f"{missing[0]!r}, which is none of its scores" if missing else "none"
            raise ConfigError(
                f"benchmark {self.kind!r}: headlines: found {problem}; expected some of"
                f" {', '.join(names)}"
            )
        if self.judging is not None and self.judging.prompts is not None:
            register_prompts(self.kind, self.judging.prompts)

    @property
    def page_name(self) -> str:
        """The page of the report that shows the benchmark."""
        return self.page.name or self.kind

    def score(self, name: str) -> Score | None:
        return next((each for each in self.scoring.scores if each.covers(name)), None)

    def certified(self, metadata: Mapping[str, Any]) -> list[Stated]:
        """What is known of the judge of a run, by the steps that it decides.

        Args:
            metadata: The metadata of the run's task.

        Returns:
            One statement per judged step, or none if no judge decided.
        """
        if self.judging is None or not metadata.get("judge_config"):
            return []
        return [step.stated(metadata) for step in self.judging.steps]

    @property
    def shown(self) -> tuple[Score, ...]:
        """The scores that tables show, the headline first."""
        return tuple(score for score in self.scoring.scores if score.label)

    def aggregations(self, **families: Sequence[str]) -> dict[str, Aggregation]:
        """How each metric becomes one number, by its name. ``families`` has the members of a score
        ``NAME*``, by ``NAME``."""
        found: dict[str, Aggregation] = {}
        for score in self.scoring.scores:
            base = score.name.removesuffix("*")
            members = (
                [base] if base == score.name else [f"{base}{member}" for member in families[base]]
            )
            found |= dict.fromkeys(members, score.aggregation)
        return found

    def wrong_metrics(self, listed: Any) -> Iterator[str]:
        return wrong_metrics(self.scoring.scores, listed)

    def higher_is_better(self, names: Sequence[str]) -> dict[str, bool]:
        """As lm_eval wants it, for those of ``names`` of which it can be said."""
        found = {name: self.score(name) for name in names}
        return {
            name: score.higher
            for name, score in found.items()
            if score is not None and score.higher is not None
        }
