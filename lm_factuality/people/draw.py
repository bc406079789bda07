"""Which units come onto a sheet, and in what order their items stand there."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lm_factuality.benchmarks.asked import Item, Unit
from lm_factuality.ground.errors import ConfigError, did_you_mean, listed
from lm_factuality.people.key import Stratum

_APART = 10  # items at least between an item and its repetition, where there are so many


@dataclass(frozen=True)
class Drawn:
    """A unit of a source, the stratum that it was drawn from and the probability with which it was."""

    source: int
    unit: Unit
    stratum: str
    probability: float


def draw(
    units: Sequence[tuple[int, Unit]], count: int, by: Sequence[str], rng: random.Random
) -> tuple[list[Drawn], list[Stratum]]:
    """``count`` of ``units`` in random order: from all alike, or from the strata that they fall into ``by``, as many from each as
    from any other that is large enough. Within a stratum each unit is as likely as another.

    Raises:
        ConfigError: more than there are, fewer than there are strata, or strata that the units do not have.
    """
    known = sorted({name for _, unit in units for name in unit.strata if any(each.strata.get(name) for _, each in units)})
    for name in by:
        if name not in known:
            raise ConfigError(f"--stratify {name!r}: expected {listed(known) or 'no strata'}{did_you_mean(name, known)}")
    if not 0 < count <= len(units):
        raise ConfigError(f"--rows {count}: expected 1 to {len(units)}, which is how many people can be asked about")
    strata: dict[str, list[tuple[int, Unit]]] = defaultdict(list)
    for source, unit in units:
        strata[" | ".join(unit.strata.get(name) or "none" for name in by)].append((source, unit))
    if count < len(strata):
        raise ConfigError(f"--rows {count}: there are {len(strata)} strata ({listed(sorted(strata))}); expected a row of each")
    drawn, counts, left = [], [], count
    for place, name in enumerate(sorted(strata, key=lambda each: (len(strata[each]), each))):  # small ones give all they have
        own = strata[name]
        share = min(len(own), left // (len(strata) - place))
        left -= share
        drawn += [Drawn(source, unit, name, share / len(own)) for source, unit in rng.sample(own, share)]
        counts.append(Stratum(name, len(own), share))
    rng.shuffle(drawn)
    return drawn, counts


@dataclass(frozen=True)
class Placed:
    """An item in its place on the sheet; ``repeats`` is the place of the same item before it."""

    drawn: Drawn
    item: Item
    repeats: int | None = None


def arrange(drawn: Sequence[Drawn], repeat: float, scatter: bool, rng: random.Random) -> list[Placed]:
    """All items in the order of the sheet: those of a unit together, so that its text is read once, or ``scatter``-ed. The share
    ``repeat`` of them, drawn at random from the first two thirds, comes a second time further on."""
    items = [(each, item) for each in drawn for item in each.unit.items]
    if scatter:
        rng.shuffle(items)
    wanted = round(repeat * len(items))
    again = rng.sample(range(max(wanted, 2 * len(items) // 3)), wanted)
    ends = {place: rng.uniform(min(place + _APART, len(items)), len(items)) for place in again}
    order = sorted(
        [(float(place), place, False) for place in range(len(items))] + [(ends[place], place, True) for place in again]
    )
    at = {place: number for number, (_, place, is_again) in enumerate(order) if not is_again}
    return [Placed(*items[place], at[place] if is_again else None) for _, place, is_again in order]
