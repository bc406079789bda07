"""What an audit finds, and what the paper measured on the published files, to hold others
against."""

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
FILES: Sequence[str] = _TABLES["files"]  # those published, of which the paper measured what follows
PROPERTIES: Mapping[str, Sequence[float]] = _TABLES["properties"]
DISTANCES: Sequence[tuple[float, float]] = _TABLES["distances"]
TYPES: Mapping[str, Sequence[float]] = _TABLES["types"]

COUNTED = (SURFACE, LEARNED)
TESTED = (COUNTED, (COMPARES,))  # the families whose p is corrected, together for their number
FEWEST = 10  # documents: fewer say little about others, so that nothing is tested
LEAST_EFFECT = 0.02  # of pairs won above a half: what is less is a slight leak


@dataclass(frozen=True)
class Scores:
    """What a baseline says of each choice of each row, the greatest being its answer; None for a
    row that it cannot score. ``forward`` is what the test is made of where something is learned:
    each row scored by what was learned in the folds before its own. In ``values`` any two rows were
    learned of each other: by chance alone they are right together or wrong together too often (on
    rows of News-FACTOR with true ones drawn by lot 10% of tests said "above chance, p < 0.05")."""

    name: str
    family: str
    values: Sequence[Sequence[float] | None]
    forward: Sequence[Sequence[float] | None] | None = None


@dataclass(frozen=True)
class Baseline:
    """How often a baseline prefers the true completion. ``wins`` is the share of contradictions
    that it puts below the true completion (a tie is half of one), whose chance is a half in any
    file; ``accuracy`` the share of rows in which it puts all of them below, to be held against the
    file's :class:`Floor`. Both are means over the ``rows`` that it scored, of so many ``documents``
    (those that share a text being one), with 95% intervals (``..low``, ``..high``: bootstrap over
    documents). ``p`` is one-sided, of the randomisation test of ``wins`` against a half;
    ``corrected`` is Holm's of the families tested together (:data:`TESTED`), None where the family
    is not tested. Neither is a number if there are fewer documents than :data:`FEWEST`."""

    name: str
    family: str
    rows: int
    documents: int
    wins: float
    wins_low: float
    wins_high: float
    accuracy: float
    low: float
    high: float
    p: float
    corrected: float | None = None

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
    """What knowing nothing scores among all choices of a row: the ``accuracy`` of word weights
    drawn by lot, with its 95% interval. ``even`` is what it would be if the choices had nothing to
    do with each other (25% of four)."""

    accuracy: float
    low: float
    high: float
    even: float


@dataclass(frozen=True)
class Flag:
    """Why a row should be looked at. ``index`` is its place among the rows audited."""

    index: int
    location: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Distance:
    """Word edit distance between contradictions and their completions: mean and standard deviation
    over ``pairs``."""

    mean: float
    deviation: float
    pairs: int


@dataclass(frozen=True)
class Property:
    """What a judge says of one property of table 2: ``share`` of those contradictions scored that
    have it, with its 95% interval (bootstrap over documents), and why others are ``unscored``."""

    name: str
    scored: int
    share: float
    low: float
    high: float
    unscored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Audit:
    """What a benchmark gives away. ``rows`` counts all rows, ``unscorable`` those that no model can
    be scored on, ``sampled`` those that baselines were scored on and ``floor`` is of; flags,
    distance and types are of all rows. ``notes`` say what was left out and why."""

    rows: int
    documents: int
    unscorable: int
    sampled: int
    floor: Floor
    baselines: tuple[Baseline, ...]
    flags: tuple[Flag, ...]
    distance: Distance
    types: Mapping[str, int]
    notes: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()

    def baseline(self, name: str) -> Baseline:
        """The baseline of that name; KeyError if there is none."""
        return {each.name: each for each in self.baselines}[name]

    @property
    def leaks(self) -> tuple[str, ...]:
        """The names of baselines that count and are above chance by :data:`LEAST_EFFECT` or
        more."""
        return self._found(are_slight=False)

    @property
    def slight(self) -> tuple[str, ...]:
        """The names of baselines that would count were they not above chance by so little."""
        return self._found(are_slight=True)

    def _found(self, are_slight: bool) -> tuple[str, ...]:
        found = (each for each in self.baselines if each.is_above_chance and each.family in COUNTED)
        return tuple(each.name for each in found if (each.effect < LEAST_EFFECT) == are_slight)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON has it; what is not a number is null."""
        content: dict[str, Any] = finite_values(dataclasses.asdict(self))
        for values, each in zip(content["baselines"], self.baselines, strict=True):
            values["above_chance"] = each.is_above_chance
        content["families"] = dict(FAMILIES)
        content["leaks"], content["slight"] = list(self.leaks), list(self.slight)
        return content
