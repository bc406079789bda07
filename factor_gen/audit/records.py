"""What an audit finds, and what the paper measured on the published files beside it."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_factuality.benchmarks.rows import finite_json
from lm_factuality.ground.console import format_interval
from lm_factuality.ground.packages import load_yaml

SURFACE = "surface"
LEARNED = "learned"
COMPARES = "compares the choices"
"""This family does not count against the file; the others do."""

PAPER: Mapping[str, Any] = load_yaml(__package__, "audit.yaml")
"""What the paper measured on the published files, by table and file."""

FEWEST = 10
"""Documents: fewer say little about others, so that nothing is tested."""
LEAST_EFFECT = 0.02
"""Pairs won above a half, as a share: what is less is a slight leak."""


@dataclass(frozen=True)
class ChoiceScores:
    """What a baseline says of each choice of each row, the greatest being its answer."""

    name: str
    family: str
    values: Sequence[Sequence[float] | None]
    """None for a row that it cannot score."""
    forward_values: Sequence[Sequence[float] | None] | None = None
    """Of a baseline that learns: each row scored by what was learned in the folds before its own.

    The test is made of these. In ``values`` any two rows were learned of each other, so that by
    chance alone they are right or wrong together too often: on rows of News-FACTOR with true ones
    drawn by lot, 10% of tests said "above chance, p < 0.05".
    """


@dataclass(frozen=True)
class EstimatedShare:
    """A share with its 95% interval, by bootstrap over documents."""

    value: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """The interval for a table."""
        return format_interval((self.low, self.high))


@dataclass(frozen=True)
class BlindBaseline:
    """How often a baseline prefers the true completion."""

    name: str
    family: str
    rows: int
    """How many it scored."""
    pairs: EstimatedShare
    """Of contradictions, those that it puts below the true completion; chance is a half."""
    picks: EstimatedShare
    """Of rows, those in which it puts all contradictions below; beside the file's floor."""
    p: float
    """One-sided, of the randomisation test of ``pairs`` against a half.

    NaN, as ``corrected``, if there are fewer documents than `FEWEST`.
    """
    corrected: float
    """Holm's, of all baselines that count together."""

    @property
    def effect(self) -> float:
        """The share of pairs won above a half."""
        return self.pairs.value - 0.5

    @property
    def is_above_chance(self) -> bool:
        """Whether it wins more than half of the pairs, at 95% after correction."""
        return self.corrected < 0.05


@dataclass(frozen=True)
class Flag:
    """Why a row should be looked at."""

    index: int
    """Its place among the rows audited."""
    location: str
    reason: str


@dataclass(frozen=True)
class Distance:
    """The edit distance in words between contradictions and their completions."""

    mean: float
    deviation: float
    pairs: int


@dataclass(frozen=True)
class Property:
    """What a judge says of one property of table 2."""

    name: str
    scored: int
    share: EstimatedShare
    """Of the contradictions scored."""
    unscored: Mapping[str, int]
    """How many were not scored, by reason."""


@dataclass(frozen=True)
class BenchmarkAudit:
    """What a benchmark gives away."""

    rows: int
    documents: int
    sampled: int
    """Rows that the baselines and the floor are of."""
    floor: EstimatedShare
    """Of rows, those that word weights drawn by lot get right: what knowing nothing scores."""
    even: float
    """What the floor would be if the choices had nothing to do with each other: 25% of four."""
    baselines: tuple[BlindBaseline, ...]
    flags: tuple[Flag, ...]
    distance: Distance
    types: Mapping[str, int]
    """Contradictions by the type that the file says they are of."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    def baseline(self, name: str) -> BlindBaseline:
        """Return the baseline of that name; KeyError if there is none."""
        return {baseline.name: baseline for baseline in self.baselines}[name]

    @property
    def leaks(self) -> list[BlindBaseline]:
        """The baselines that count and are above chance by `LEAST_EFFECT` or more."""
        return [
            baseline
            for baseline in self.baselines
            if baseline.family != COMPARES
            and baseline.is_above_chance
            and baseline.effect >= LEAST_EFFECT
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON has it; what is not a number is null."""
        content: dict[str, Any] = finite_json(dataclasses.asdict(self))
        return content | {"leaks": [leak.name for leak in self.leaks]}
