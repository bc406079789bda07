"""What an audit finds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SURFACE = "surface"
LEARNED = "learned"
BLIND_LM = "language model, blind"
BY_LOT = "by lot"
COMPARES = "compares the choices"
SEES_PREFIX = "sees the prefix"
FAMILIES: Mapping[str, str] = {
    SURFACE: "one property of each choice by itself, nothing learned",
    LEARNED: "learned from the file's other documents, each choice scored by itself, without its prefix",
    BLIND_LM: "not counted against the file: what a sentence's own words make likely, what the model knows of the world included",
    BY_LOT: "not counted against the file: what knowing nothing scores. Less than chance where all contradictions are edits of "
    "the true completion, which is then the highest only if each edit happens to lower it",
    COMPARES: "not counted against the file: small edits of one sentence leave the sentence itself in their middle, so that "
    "whoever compares the choices with each other finds it; a model that scores them one by one does not",
    SEES_PREFIX: "not blind: what the file is meant to measure, to hold the same model without prefix against",
}
"""What each kind of baseline knows, and whether it counts against the file: the first two do."""


COUNTED = (SURFACE, LEARNED)


@dataclass(frozen=True)
class Scores:
    """What a baseline says of each choice of each row, the greatest being its answer; None for a row that it cannot score."""

    name: str
    family: str
    values: Sequence[Sequence[float] | None]


@dataclass(frozen=True)
class Baseline:
    """How often a baseline picks the true completion, ties broken by lot.

    ``accuracy`` with its 95% interval (``low``, ``high``: bootstrap over documents) and ``chance`` are shares of the ``rows``
    that it scored. ``p`` is one-sided, of the randomisation test against chance; ``corrected`` is Holm's of the baseline's
    family, None where the family is not tested.
    """

    name: str
    family: str
    rows: int
    accuracy: float
    low: float
    high: float
    chance: float
    p: float
    corrected: float | None = None

    @property
    def is_above_chance(self) -> bool:
        """Whether it is better than lot, at 95% after correction."""
        return self.corrected is not None and self.corrected < 0.05


@dataclass(frozen=True)
class Flag:
    """Why a row should be looked at. ``index`` is its place among the rows audited."""

    index: int
    location: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Distance:
    """Word edit distance between contradictions and their completions: mean and standard deviation over ``pairs``."""

    mean: float
    deviation: float
    pairs: int


@dataclass(frozen=True)
class Property:
    """What a judge says of one property of table 2: ``share`` of those contradictions scored that have it, with its 95% interval
    (bootstrap over documents), and why others are ``unscored``."""

    name: str
    scored: int
    share: float
    low: float
    high: float
    unscored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Audit:
    """What a benchmark gives away.

    ``rows`` counts all rows, ``unscorable`` those that no model can be scored on, ``sampled`` those that baselines were
    scored on; flags, distance and types are of all rows. ``headline`` names the stronger of the classifiers. ``notes`` say what
    was left out and why.
    """

    rows: int
    documents: int
    unscorable: int
    sampled: int
    baselines: tuple[Baseline, ...]
    headline: str
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
        """The names of baselines that count and are above chance."""
        return tuple(each.name for each in self.baselines if each.is_above_chance and each.family in COUNTED)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON has it; what is not a number is null."""
        content = _finite(dataclasses.asdict(self))
        for values, each in zip(content["baselines"], self.baselines, strict=True):
            values["above_chance"] = each.is_above_chance
        content["families"] = dict(FAMILIES)
        content["leaks"] = list(self.leaks)
        return content  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
