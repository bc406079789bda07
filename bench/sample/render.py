"""Renders sentences from forms and facts, and records which words tell which fact.

The other modules of this folder write all their sentences with it. ``frames.yaml`` holds the forms
of sentences and explains their slots.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bench.sample.world import Entity
from lm_factuality.ground.packages import load_yaml

FRAMES: Mapping[str, Mapping[str, Sequence[str]]] = load_yaml(__package__, "frames.yaml")
"""All forms of sentences, by kind of entity and topic."""

NUM_HELD_OUT = 2  # forms of a topic that the training text never uses for an entity
PRONOUN = "pronoun"
LINK = "link"

Replacements: TypeAlias = Mapping[int, str]
"""New texts of some pieces of a sentence, by the index of the piece."""

_SLOT = re.compile(r"\{([^{}]+)\}")
_ARTICLE_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_PRONOUNS: Mapping[str, Mapping[str, str]] = {
    "female": {"s": "she", "p": "her", "o": "her", "p_cap": "Her"},
    "male": {"s": "he", "p": "his", "o": "him", "p_cap": "His"},
    "neuter": {"s": "it", "p": "its", "o": "it", "p_cap": "Its"},
}
_OPPOSITE_GENDER: Mapping[str, str] = {"female": "male", "male": "female", "neuter": "neuter"}
# These say who or what is meant, and claim nothing.
_IDENTIFYING_SLOTS = ("name", "profession", "work_kind")


@dataclass(frozen=True)
class Piece:
    """Some words of a sentence that belong together."""

    text: str
    """The words."""

    slot: str = ""
    """The attribute that they tell, `PRONOUN`, `LINK`, or nothing if they claim nothing."""

    alternative: str = ""
    """The opposite words, if the form or the gender of the entity gives them."""

    @property
    def tells_fact(self) -> bool:
        """Whether the words tell an attribute of the entity."""
        return self.slot not in ("", PRONOUN, LINK)


@dataclass(frozen=True)
class Sentence:
    """A sentence about an entity."""

    topic: str
    """The topic of its form."""

    form: str
    """The form that it fills."""

    pieces: tuple[Piece, ...]
    """Its words, in order."""

    @property
    def text(self) -> str:
        """All its words."""
        return self.with_texts({})

    def with_texts(self, replacements: Replacements) -> str:
        """Return the text of the sentence after some pieces are replaced.

        Forms write ``a`` before all words. It becomes ``an`` before a vowel.
        """
        texts = [replacements.get(index, piece.text) for index, piece in enumerate(self.pieces)]
        return _ARTICLE_BEFORE_VOWEL.sub(r"\1n ", "".join(texts))


def topics(entity: Entity) -> tuple[str, ...]:
    """Return the topics of an article about an entity, in their usual order."""
    return tuple(FRAMES[entity.kind])


def held_out_forms(entity: Entity, topic: str) -> tuple[str, ...]:
    """Return the forms of a topic that the training text never uses for an entity.

    The benchmark asks about the facts of the entity in these forms, so that a model cannot answer
    with a sentence that it has memorised.
    """
    generator = random.Random(f"{entity.entity_id}/{topic}")
    return tuple(generator.sample(FRAMES[entity.kind][topic], NUM_HELD_OUT))


def training_forms(entity: Entity, topic: str) -> tuple[str, ...]:
    """Return the forms of a topic in which the training text tells the facts of an entity."""
    held_out = held_out_forms(entity, topic)
    return tuple(form for form in FRAMES[entity.kind][topic] if form not in held_out)


def subject_wordings(entity: Entity, is_first: bool) -> Sequence[str]:
    """Return the subjects that a sentence about an entity can have.

    Args:
        entity: The entity.
        is_first: Whether it is the first sentence, in which a person is named in full.

    Returns:
        The subjects. One that stands twice is drawn twice as often.
    """
    if entity.kind == "person":
        if is_first:
            return (entity.name,)
        pronoun = _PRONOUNS[entity.gender]["s"].capitalize()
        surname = entity.name.split()[-1]
        return (pronoun, pronoun, surname, entity.name)
    if entity.kind == "town":
        return (entity.name, f"The town of {entity.name}")
    return (f"The {entity.name}",)


def render(entity: Entity, topic: str, form: str, subject: str) -> Sentence:
    """Fill a form with the facts of an entity.

    Args:
        entity: The entity.
        topic: The topic of the form.
        form: The form, such as ``"{S} died in {death_year} at {death_town}."``
        subject: The words in place of ``{S}``.

    Raises:
        KeyError: The form names an attribute that the entity does not have.
    """
    pieces: list[Piece] = []
    end = 0
    for match in _SLOT.finditer(form):
        if match.start() > end:
            pieces.append(Piece(form[end : match.start()]))
        pieces.append(_fill_slot(entity, match[1], subject))
        end = match.end()
    if end < len(form):
        pieces.append(Piece(form[end:]))
    return Sentence(topic, form, tuple(pieces))


def _fill_slot(entity: Entity, slot: str, subject: str) -> Piece:
    """Return the piece that fills a slot of a form, which is written here without its braces."""
    pronouns = _PRONOUNS[entity.gender]
    opposite_pronouns = _PRONOUNS[_OPPOSITE_GENDER[entity.gender]]
    if slot == "S":
        if subject.lower() == pronouns["s"]:
            return Piece(subject, PRONOUN, opposite_pronouns["s"].capitalize())
        return Piece(subject)
    if slot in pronouns:
        return Piece(pronouns[slot], PRONOUN, opposite_pronouns[slot])
    if slot.startswith(">"):
        true_link, false_link = slot[1:].split("|")
        return Piece(true_link, LINK, false_link)
    if "?" in slot:
        attribute, wordings = slot.split("?")
        wording, opposite = wordings.split("|")
        if not entity.facts[attribute]:
            wording, opposite = opposite, wording
        return Piece(wording, attribute, opposite)
    text = str(entity.facts[slot])
    return Piece(text) if slot in _IDENTIFYING_SLOTS else Piece(text, slot)
