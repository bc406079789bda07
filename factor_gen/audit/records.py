"""What an audit finds, and what the paper measured on the published files beside it."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_factuality.benchmarks.rows import finite_values
from lm_factuality.ground.packages import load_yaml

SURFACE = "surface"
LEARNED = "learned"
COMPARES = "compares the choices"

_TABLES: Mapping[str, Any] = load_yaml(__package__, "audit.yaml")
FAMILIES: Mapping[str, str] = _TABLES["families"]
"""What each kind of baseline knows, and whether it counts against the file."""
FILES: Sequence[str] = _TABLES["files"]
"""The published files, of which the paper measured what follows."""
PROPERTIES: Mapping[str, Sequence[float]] = _TABLES["properties"]
DISTANCES: Sequence[tuple[float, float]] = _TABLES["distances"]
TYPES: Mapping[str, Sequence[float]] = _TABLES["types"]

COUNTED = (SURFACE, LEARNED)
"""The families that count against the file."""
TESTED = (COUNTED, (COMPARES,))
"""The families whose p-values are corrected together."""
FEWEST = 10
"""Documents: fewer say little about others, so that nothing is tested."""
LEAST_EFFECT = 0.02
"""Pairs won above a half, as a share: what is less is a slight leak."""


@dataclass(frozen=True)
class Scores:
    """What a baseline says of each choice of each row, the greatest being its answer."""

    name: str
    family: str
    values: Sequence[Sequence[float] | None]
    """None for a row that it cannot score."""
    forward: Sequence[Sequence[float] | None] | None = None
    """Of a baseline that learns: each row scored by what was learned in the folds before its own.

    The test is made of these. In ``values`` any two rows were learned of each other, so that by
    chance alone they are right or wrong together too often: on rows of News-FACTOR with true ones
    drawn by lot, 10% of tests said "above chance, p < 0.05".
    """


@dataclass(frozen=True)
class Baseline:
    """How often a baseline prefers the true completion.

    Intervals are 95%, by bootstrap over documents. Documents that share a text are one.
    """

    name: str
    family: str
    rows: int
    """How many it scored."""
    documents: int
    """Of how many documents these are."""
    wins: float
    """The share of contradictions that it puts below the true completion; chance is a half."""
    wins_low: float
    wins_high: float
    accuracy: float
    """The share of rows in which it puts all contradictions below; beside the file's `Floor`."""
    low: float
    high: float
    p: float
    """One-sided, of the randomisation test of ``wins`` against a half.

    NaN, as ``corrected``, if there are fewer documents than `FEWEST`.
    """
    corrected: float | None = None
    """Holm's of the families that are tested together; None where the family is not tested."""

    @property
    def effect(self) -> float:
        """The share of pairs won above a half."""
        return self.wins - 0.5

    @property
    def is_above_chance(self) -> bool:
        """Whether it wins more than half of the pairs, at 95% after correction."""
        return self.corrected is not None and self.corrected < 0.05


@dataclass(frozen=True)
class Floor:
    """What knowing nothing scores among all choices of a row."""

    accuracy: float
    """Of word weights drawn by lot."""
    low: float
    high: float
    even: float
    """What it would be if the choices had nothing to do with each other: 25% of four."""


@dataclass(frozen=True)
class Flag:
    """Why a row should be looked at."""

    index: int
    """Its place among the rows audited."""
    location: str
    reason: str
    detail: str = ""


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
    share: float
    """Of the contradictions scored; its 95% interval is by bootstrap over documents."""
    low: float
    high: float
    unscored: Mapping[str, int] = field(default_factory=dict)
    """How many were not scored, by reason."""


@dataclass(frozen=True)
class Audit:
    """What a benchmark gives away."""

    rows: int
    documents: int
    unscorable: int
    """Rows that no model can be scored on."""
    sampled: int
    """Rows that the baselines and the floor are of."""
    floor: Floor
    baselines: tuple[Baseline, ...]
    flags: tuple[Flag, ...]
    distance: Distance
    types: Mapping[str, int]
    """Contradictions by the type that the file says they are of."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""
    properties: tuple[Property, ...] = ()

    def baseline(self, name: str) -> Baseline:
        """Return the baseline of that name; KeyError if there is none."""
        return {baseline.name: baseline for baseline in self.baselines}[name]

    @property
    def leaks(self) -> tuple[str, ...]:
        """The baselines that count and are above chance by `LEAST_EFFECT` or more."""
        return tuple(leak.name for leak in self._above_chance() if leak.effect >= LEAST_EFFECT)

    @property
    def slight(self) -> tuple[str, ...]:
        """The baselines that would count were they not above chance by so little."""
        return tuple(leak.name for leak in self._above_chance() if leak.effect < LEAST_EFFECT)

    def _above_chance(self) -> list[Baseline]:
        return [
            baseline
            for baseline in self.baselines
            if baseline.is_above_chance and baseline.family in COUNTED
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON has it; what is not a number is null."""
        content: dict[str, Any] = finite_values(dataclasses.asdict(self))
        for values, baseline in zip(content["baselines"], self.baselines, strict=True):
            values["above_chance"] = baseline.is_above_chance
        content["families"] = dict(FAMILIES)
        content["leaks"] = list(self.leaks)
        content["slight"] = list(self.slight)
        return content
