"""The results of an audit, and the figures that the paper gives for the published benchmarks.

The modules of `factor_gen.audit` fill these records, and ``--json`` writes them by field name.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_factuality.benchmarks.rows import finite_json
from lm_factuality.ground.console import format_interval
from lm_factuality.ground.packages import load_yaml
from lm_factuality.scores.intervals import mean_interval

SURFACE = "surface"
LEARNED = "learned"
COMPARES = "compares the choices"
"""The family of baselines that does not count against a benchmark.

A language model scores each choice by itself, so that it cannot compare them.
"""

PAPER: Mapping[str, Any] = load_yaml(__package__, "audit.yaml")
"""The paper's figures on the published benchmarks, by table and benchmark."""

FEWEST = 10
"""How many documents a baseline must have scored to be tested."""
LEAST_EFFECT = 0.02
"""The share of pairs won above a half from which a baseline counts as a leak."""


@dataclass(frozen=True)
class ChoiceScores:
    """The scores that a blind baseline gives to all choices. It picks the greatest in each row."""

    name: str

    family: str
    """What the baseline looks at: `SURFACE`, `LEARNED` or `COMPARES`."""

    values: Sequence[Sequence[float] | None]
    """The scores of the choices of each row; None for a row that it cannot score."""

    forward_values: Sequence[Sequence[float] | None] | None = None
    """The scores that the test for chance uses instead, for a baseline that learns.

    Here each row is scored after learning from the folds before its own. In ``values`` any two rows
    were learned from each other, so that they are right or wrong together more often than by
    chance: on rows of News-FACTOR whose true completion was drawn at random, 10% of tests said
    "above chance, p < 0.05".
    """


@dataclass(frozen=True)
class EstimatedShare:
    """A share, such as 0.25, with its 95% interval, clustered by document."""

    value: float

    low: float | None
    """The lower end of the interval, None if all rows are of one document."""

    high: float | None
    """The upper end."""

    @classmethod
    def of(cls, outcomes: Sequence[float], documents: Sequence[str]) -> "EstimatedShare":
        """Estimate the mean of outcomes.

        Args:
            outcomes: The outcome of each row, from 0 to 1. NaN if it has none.
            documents: The document of each row.
        """
        values = [None if math.isnan(outcome) else outcome for outcome in outcomes]
        scored = [value for value in values if value is not None]
        share = sum(scored) / len(scored) if scored else math.nan
        low, high = mean_interval(values, documents) or (None, None)
        return cls(share, low, high)

    @property
    def interval(self) -> str:
        """The interval as text, such as ``20.1% - 29.9%``."""
        return format_interval((self.low, self.high))


@dataclass(frozen=True)
class BlindBaseline:
    """How often a blind baseline prefers the true completion."""

    name: str

    family: str
    """What the baseline looks at: `SURFACE`, `LEARNED` or `COMPARES`."""

    rows: int
    """How many rows it scored."""

    pairs_won: EstimatedShare
    """The share of contradictions with a lower score than the true completion of their row.

    Chance is 50%.
    """

    rows_won: EstimatedShare
    """The share of rows in which all contradictions have a lower score.

    Chance is the audit's ``guess_baseline``.
    """

    p_value: float
    """The one-sided p-value of the test whether ``pairs_won`` is above a half.

    NaN if the baseline scored fewer than `FEWEST` documents.
    """

    corrected_p_value: float
    """The p-value after Holm's correction for the number of baselines that count."""

    @property
    def effect(self) -> float:
        """The share of pairs won above a half."""
        return self.pairs_won.value - 0.5

    @property
    def is_above_chance(self) -> bool:
        """Whether it wins more than half of the pairs, at the 5% level after correction."""
        return self.corrected_p_value < 0.05

    @property
    def is_leak(self) -> bool:
        """Whether it counts against the benchmark, which then gives true completions away.

        It must win 52% of pairs or more, beyond chance, and must score each choice by itself, as a
        language model does.
        """
        # In a large benchmark, even a tiny effect is above chance.
        is_large = self.effect >= LEAST_EFFECT
        return self.family != COMPARES and self.is_above_chance and is_large


@dataclass(frozen=True)
class Flag:
    """A reason to look at a row."""

    index: int
    """The index of the row in the benchmark."""

    location: str
    """The file and the line of the row."""

    reason: str


@dataclass(frozen=True)
class Distance:
    """The edit distances in words between contradictions and their true completions."""

    mean: float

    deviation: float
    """The standard deviation."""

    pairs: int
    """How many contradictions were measured."""


@dataclass(frozen=True)
class JudgedProperty:
    """The share of contradictions that have a property of table 2, as a judge sees them."""

    name: str
    """``non-factual``, ``fluent`` or ``self-consistent``."""

    scored: int
    """How many contradictions the judge scored."""

    share: EstimatedShare
    """The share of the scored contradictions that have the property."""

    unscored: Mapping[str, int]
    """How many contradictions have no score, by reason."""


@dataclass(frozen=True)
class BenchmarkAudit:
    """How well the true completions of a benchmark can be found without reading the prefixes."""

    rows: int

    documents: int

    sampled: int
    """How many rows the baselines and the guess baseline were computed on."""

    guess_baseline: EstimatedShare
    """The accuracy of a model that knows nothing, i.e. that gives each word a random weight."""

    even_chance: float
    """The accuracy by chance if the choices had no words in common: 25% of four choices."""

    baselines: tuple[BlindBaseline, ...]

    flags: tuple[Flag, ...]

    distance: Distance

    types: Mapping[str, int]
    """How many contradictions the file states to be of each error type."""

    notes: tuple[str, ...] = ()
    """What the audit left out, and why."""

    def baseline(self, name: str) -> BlindBaseline:
        """Return the baseline with a name.

        Raises:
            KeyError: There is none.
        """
        return {baseline.name: baseline for baseline in self.baselines}[name]

    @property
    def leaks(self) -> list[BlindBaseline]:
        """The baselines that count against the benchmark, because they win too many pairs."""
        return [baseline for baseline in self.baselines if baseline.is_leak]

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the names of the leaks as JSON values, with null for NaN."""
        # JSON has no NaN.
        content: dict[str, Any] = finite_json(dataclasses.asdict(self))
        content["leaks"] = [leak.name for leak in self.leaks]
        return content
