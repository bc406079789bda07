"""Which units come onto a sheet, and how probable it was that they do."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lm_factuality.benchmarks.asked import Unit
from lm_factuality.ground.errors import ConfigError, did_you_mean, listed
from lm_factuality.people.key import Stratum


@dataclass(frozen=True)
class Drawn:
    """A unit of a source, the stratum that it was drawn from and the probability with which it was."""

    source: int
    unit: Unit
    stratum: str
    probability: float


def stratum_of(unit: Unit, by: Sequence[str]) -> str:
    """The stratum that a unit is drawn from."""
    return " | ".join(unit.strata.get(name) or "none" for name in by)


def draw(
    units: Sequence[tuple[int, Unit]], count: int, by: Sequence[str], rng: random.Random
) -> tuple[list[Drawn], list[Stratum]]:
    """``count`` of ``units`` in random order: from all alike, or from the strata that they fall into ``by``, as many from each as
    from any other that is large enough. Within a stratum each unit is as likely as another.

    Raises:
        ConfigError: more than there are, fewer than there are strata, or strata that the units do not have.
    """
    known = sorted({name for _, unit in units for name, value in unit.strata.items() if value})
    if unknown := next((name for name in by if name not in known), None):
        raise ConfigError(f"--stratify {unknown!r}: expected {listed(known) or 'none'}{did_you_mean(unknown, known)}")
    if not 0 < count <= len(units):
        raise ConfigError(f"--rows {count}: expected 1 to {len(units)}, which is how many people can be asked about")
    strata: dict[str, list[tuple[int, Unit]]] = defaultdict(list)
    for source, unit in units:
        strata[stratum_of(unit, by)].append((source, unit))
    if count < len(strata):
        raise ConfigError(f"--rows {count}: there are {len(strata)} strata ({listed(sorted(strata))}); expected a row of each")
    drawn: list[Drawn] = []
    counts = []
    for place, name in enumerate(sorted(strata, key=lambda each: (len(strata[each]), each))):  # small ones give all they have
        own = strata[name]
        share = min(len(own), (count - len(drawn)) // (len(strata) - place))
        drawn += [Drawn(source, unit, name, share / len(own)) for source, unit in rng.sample(own, share)]
        counts.append(Stratum(name, len(own), share))
    rng.shuffle(drawn)
    return drawn, counts
