"""Draws the fictional world of the sample: people, towns and institutions with facts.

All modules of this folder start from `build_world`, which draws the same world from the same seed
on every machine. ``world.yaml`` holds the parts of names, the values of facts, and the facts that
an entity of each kind has.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_factuality.ground.packages import load_yaml

Fact = str | int | bool
"""The value of an attribute: a name or a thing, a year, or whether something holds."""

Pools = dict[str, Sequence[str]]
"""The values that can stand in each other's place, by the name of their pool."""

NUM_PEOPLE = 160
NUM_TOWNS = 32
NUM_INSTITUTIONS = 28
NUM_SHARED_NAMES = 18  # each of which two people bear

_DATA: Mapping[str, Any] = load_yaml(__package__, "world.yaml")
_PROFESSIONS: Mapping[str, str] = _DATA["professions"]


@dataclass(frozen=True)
class Entity:
    """A person, a town or an institution, which has an article in the encyclopedia."""

    entity_id: str
    """A letter for its kind and a number, such as ``P007``."""

    kind: str
    """``person``, ``town`` or ``institution``."""

    name: str
    """Its name, which two people can share."""

    title: str
    """The title of its article, which nobody shares."""

    gender: str
    """``female``, ``male`` or ``neuter``, which decides its pronouns."""

    weight: float
    """How often the training text describes it, relative to other entities."""

    facts: Mapping[str, Fact]
    """What is true of it, by attribute."""


@dataclass(frozen=True)
class World:
    """All entities, and all values that their facts can have."""

    seed: int
    """The seed that it was drawn from."""

    entities: tuple[Entity, ...]
    """The people, then the towns, then the institutions."""

    pools: Pools
    """The values of facts that are strings."""

    def possible_values(self, attribute: str) -> Sequence[str]:
        """Return the values that an attribute can have."""
        return self.pools[_DATA["pool_of"].get(attribute, attribute)]

    def bearers(self, name: str) -> tuple[Entity, ...]:
        """Return the entities that bear a name, which are several if people share it."""
        return tuple(entity for entity in self.entities if entity.name == name)


@dataclass(frozen=True)
class _NamedPerson:
    """A person before the rest of the facts is drawn."""

    name: str
    """The name, which one other person can share."""

    title: str
    """The name, with the profession in brackets if the name is shared."""

    gender: str
    """``female`` or ``male``."""

    profession: str
    """A profession that differs from that of a namesake."""


def build_world(seed: int = 0) -> World:
    """Draw the world of a seed.

    The order of draws decides all files of the sample, so it must not change.
    """
    generator = random.Random(seed)
    names = _NameGenerator(generator)
    towns = names.draw_several("town", NUM_TOWNS)
    pools: Pools = dict(_DATA["pools"])
    pools["town"] = towns
    pools["region"] = names.draw_several("region", 8)
    pools["river"] = names.draw_several("river", 20)
    pools["institution"] = [
        f"{town} {generator.choice(pools['house'])}" for town in towns[:NUM_INSTITUTIONS]
    ]
    people = _name_people(generator, names)
    # Teachers, spouses and founders have no article. They are few, so that a model meets each of
    # them often enough to confuse them.
    pools["person"] = [names.draw_full_name() for _ in range(60)]

    entities = [
        _draw_person(generator, number, person, pools) for number, person in enumerate(people)
    ]
    # A work is made of an adjective and a thing, so the works exist only now.
    pools["work"] = [str(person.facts["work"]) for person in entities]
    for kind in ("town", "institution"):
        for number, name in enumerate(pools[kind]):
            entities.append(_draw_place(generator, kind, number, name, pools))
    return World(seed, tuple(entities), pools)


class _NameGenerator:
    """Draws invented names that can be pronounced, and no name twice."""

    def __init__(self, generator: random.Random) -> None:
        """Take the source of randomness."""
        self._generator = generator
        self._used_names: set[str] = set()

    def draw(self, kind: str) -> str:
        """Draw a name.

        Args:
            kind: What the name is for, which decides its ending: ``surname``, ``town``, ``river``,
                ``region``, or ``female`` or ``male`` for a first name.
        """
        parts = (_DATA["onsets"], _DATA["vowels"], _DATA["codas"], _DATA["endings"][kind])
        while True:
            name = "".join(self._generator.choice(part) for part in parts).capitalize()
            if name not in self._used_names:
                self._used_names.add(name)
                return name

    def draw_several(self, kind: str, count: int) -> list[str]:
        """Draw a number of names of a kind."""
        return [self.draw(kind) for _ in range(count)]

    def draw_full_name(self) -> str:
        """Draw a first name and a surname."""
        gender = self._generator.choice(("female", "male"))
        return f"{self.draw(gender)} {self.draw('surname')}"


def _name_people(generator: random.Random, names: _NameGenerator) -> list[_NamedPerson]:
    """Draw names, genders and professions of all people, in random order."""
    surnames = names.draw_several("surname", 120)
    first_names = {gender: names.draw_several(gender, 30) for gender in ("female", "male")}
    people: dict[str, _NamedPerson] = {}
    while len(people) < NUM_PEOPLE - NUM_SHARED_NAMES:
        gender = generator.choice(("female", "male"))
        name = f"{generator.choice(first_names[gender])} {generator.choice(surnames)}"
        if name not in people:
            profession = generator.choice(list(_PROFESSIONS))
            people[name] = _NamedPerson(name, name, gender, profession)

    named_people = list(people.values())
    for index in generator.sample(range(len(named_people)), NUM_SHARED_NAMES):
        person = named_people[index]
        # Titles of namesakes name the profession, so the professions have to differ.
        profession = generator.choice([job for job in _PROFESSIONS if job != person.profession])
        named_people[index] = _with_profession(person, person.profession)
        named_people.append(_with_profession(person, profession))
    generator.shuffle(named_people)
    return named_people


def _with_profession(person: _NamedPerson, profession: str) -> _NamedPerson:
    """Return a person of the same name and gender, whose title names a profession."""
    title = f"{person.name} ({profession})"
    return replace(person, title=title, profession=profession)


def _draw_person(
    generator: random.Random, number: int, person: _NamedPerson, pools: Pools
) -> Entity:
    """Draw the facts of a person, in whose life the years follow one another."""
    birth_year = generator.randint(1700, 1800)
    first_institution, second_institution = generator.sample(pools["institution"], 2)
    mentor, spouse = generator.sample(pools["person"], 2)
    facts: dict[str, Fact] = {
        "name": person.name,
        "profession": person.profession,
        "work_kind": _PROFESSIONS[person.profession],
        "birth_year": birth_year,
        "inst1": first_institution,
        "inst2": second_institution,
        "mentor": mentor,
        "spouse": spouse,
        "year1": birth_year + generator.randint(20, 26),
    }
    _draw_facts(generator, "person", pools, facts)
    return Entity(
        entity_id=f"P{number:03d}",
        kind="person",
        name=person.name,
        title=person.title,
        gender=person.gender,
        weight=_weight(number),
        facts=facts,
    )


def _draw_place(
    generator: random.Random, kind: str, number: int, name: str, pools: Pools
) -> Entity:
    """Draw the facts of a town or an institution."""
    facts: dict[str, Fact] = {}
    _draw_facts(generator, kind, pools, facts)
    return Entity(
        entity_id=f"{kind[0].upper()}{number:03d}",
        kind=kind,
        name=name,
        title=name,
        gender="neuter",
        weight=_weight(number),
        facts=facts,
    )


def _draw_facts(generator: random.Random, kind: str, pools: Pools, facts: dict[str, Fact]) -> None:
    """Draw the facts that ``world.yaml`` lists for a kind of entity.

    Args:
        generator: The source of randomness.
        kind: The kind of the entity.
        pools: The values of facts that are strings.
        facts: The facts that were drawn before. Gets the new ones.
    """
    for attribute, values in _DATA["facts"][kind].items():
        if values == "yes or no":
            facts[attribute] = generator.random() < 0.5
        elif isinstance(values, str):
            facts[attribute] = " ".join(generator.choice(pools[pool]) for pool in values.split())
        elif isinstance(values, list):
            facts[attribute] = generator.randint(*values)
        else:
            ((earlier_attribute, years_later),) = values.items()
            facts[attribute] = int(facts[earlier_attribute]) + generator.randint(*years_later)


def _weight(rank: int) -> float:
    """Return the weight of an entity by its rank among those of its kind, which starts at 0.

    The weights have a long tail: the training text describes the hundredth entity about a fifth as
    often as the first.
    """
    return float((1 + rank) ** -0.35)
