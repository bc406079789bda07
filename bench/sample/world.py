"""The world: people, towns and institutions with facts, drawn from one seed.

A fact is an attribute of an entity: a string (a name, a thing), an int (a year) or a bool
(something that holds of the entity or does not). ``world.yaml`` has the parts of names, the values
of facts, and which facts an entity of each kind has.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_factuality.ground.packages import load_yaml

Fact = str | int | bool
Pools = Mapping[str, Sequence[str]]

NUM_PEOPLE, NUM_TOWNS, NUM_INSTITUTIONS = 160, 32, 28
SHARED_NAMES = 18  # people who bear the name of somebody else


_PARTS: Mapping[str, Any] = load_yaml(__package__, "world.yaml")
_PROFESSIONS: Mapping[str, str] = _PARTS["professions"]


@dataclass(frozen=True)
class Entity:
    """Something that has an article.

    ``kind`` is person, town or institution; ``title`` is unique, ``name`` need not be; ``gender``
    is female, male or neuter; ``weight`` says how often the training text speaks of it, relative to
    the others.
    """

    entity_id: str
    kind: str
    name: str
    title: str
    gender: str
    weight: float
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class World:
    """All entities, and every value that occurs for a kind of fact."""

    seed: int
    entities: tuple[Entity, ...]
    pools: Pools

    def pool(self, attribute: str) -> Sequence[str]:
        """The values that could stand in the place of ``attribute``."""
        return self.pools[_PARTS["pool_of"].get(attribute, attribute)]

    def named(self, name: str) -> tuple[Entity, ...]:
        """Everyone who bears ``name``: more than one for a shared name."""
        return tuple(entity for entity in self.entities if entity.name == name)


def build_world(seed: int = 0) -> World:
    """The world of ``seed``: the same one on every machine."""
    rng = random.Random(seed)
    names = _Names(rng)
    towns = names.draw("town", NUM_TOWNS)
    pools: dict[str, Sequence[str]] = {**_PARTS["pools"], "town": towns}
    pools["region"] = names.draw("region", 8)
    pools["river"] = names.draw("river", 20)
    pools["institution"] = [
        f"{town} {rng.choice(pools['house'])}" for town in towns[:NUM_INSTITUTIONS]
    ]
    people = _name_people(rng, names)
    # Teachers, spouses and founders have no article: each is one value among a limited number.
    pools["person"] = [
        f"{names.new(rng.choice(('female', 'male')))} {names.new('surname')}" for _ in range(60)
    ]
    entities = [
        Entity(
            f"P{i:03d}",
            "person",
            name,
            title,
            gender,
            _weight(i),
            _person(rng, name, profession, pools),
        )
        for i, (name, title, gender, profession) in enumerate(people)
    ]
    for kind in ("town", "institution"):
        entities += [
            Entity(
                f"{kind[0].upper()}{i:03d}",
                kind,
                name,
                name,
                "neuter",
                _weight(i),
                _facts(rng, kind, pools),
            )
            for i, name in enumerate(pools[kind])
        ]
    pools["work"] = [str(entity.facts["work"]) for entity in entities if entity.kind == "person"]
    return World(seed, tuple(entities), pools)


def _weight(rank: int) -> float:
    """A long tail: the hundredth entity is told of about a fifth as often as the first."""
    return float((1 + rank) ** -0.35)


class _Names:
    """Draws invented names that can be pronounced, each once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def new(self, kind: str) -> str:
        """A name with one of the endings of ``kind``: surname, town, river, region, or female or
        male for a given name."""
        while True:
            parts = (_PARTS["onsets"], _PARTS["vowels"], _PARTS["codas"], _PARTS["endings"][kind])
            name = "".join(self._rng.choice(part) for part in parts).capitalize()
            if name not in self._taken:
                self._taken.add(name)
                return name

    def draw(self, kind: str, count: int) -> list[str]:
        return [self.new(kind) for _ in range(count)]


def _name_people(rng: random.Random, names: _Names) -> list[tuple[str, str, str, str]]:
    """(name, title, gender, profession) of everyone; namesakes differ in profession, as their
    titles say."""
    surnames = names.draw("surname", 120)
    given = {gender: names.draw(gender, 30) for gender in ("female", "male")}
    people: list[tuple[str, str, str, str]] = []
    seen: set[str] = set()
    while len(people) < NUM_PEOPLE - SHARED_NAMES:
        gender = rng.choice(("female", "male"))
        name = f"{rng.choice(given[gender])} {rng.choice(surnames)}"
        if name not in seen:
            seen.add(name)
            people.append((name, name, gender, rng.choice(list(_PROFESSIONS))))
    for index in rng.sample(range(len(people)), SHARED_NAMES):
        name, _, gender, job = people[index]
        other = rng.choice([profession for profession in _PROFESSIONS if profession != job])
        people[index] = (name, f"{name} ({job})", gender, job)
        people.append((name, f"{name} ({other})", gender, other))
    rng.shuffle(people)
    return people


def _person(rng: random.Random, name: str, profession: str, pools: Pools) -> dict[str, Fact]:
    """A life in which the years follow one another."""
    birth = rng.randint(1700, 1800)
    first, second = rng.sample(pools["institution"], 2)
    mentor, spouse = rng.sample(pools["person"], 2)
    known: dict[str, Fact] = {
        "name": name,
        "profession": profession,
        "work_kind": _PROFESSIONS[profession],
    }
    known |= {
        "birth_year": birth,
        "inst1": first,
        "inst2": second,
        "mentor": mentor,
        "spouse": spouse,
    }
    return _facts(rng, "person", pools, {**known, "year1": birth + rng.randint(20, 26)})


def _facts(
    rng: random.Random, kind: str, pools: Pools, known: Mapping[str, Fact] | None = None
) -> dict[str, Fact]:
    """The facts that ``world.yaml`` lists for ``kind``, besides those ``known`` before."""
    facts = dict(known or {})
    for attribute, values in _PARTS["facts"][kind].items():
        if values == "yes or no":
            facts[attribute] = rng.random() < 0.5
        elif isinstance(values, str):
            facts[attribute] = " ".join(rng.choice(pools[pool]) for pool in values.split())
        elif isinstance(values, list):
            facts[attribute] = rng.randint(*values)
        else:
            ((earlier, span),) = values.items()
            facts[attribute] = int(facts[earlier]) + rng.randint(*span)
    return facts
