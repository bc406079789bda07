"""Sentences from forms and facts, with a record of which characters tell which fact."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.sample.world import Entity
from lm_factuality.ground.packages import load_yaml

FRAMES: Mapping[str, Mapping[str, Sequence[str]]] = load_yaml(__package__, "frames.yaml")
"""All sentence forms: kind of entity, then topic, then the forms."""
HELD_OUT = 2  # forms a topic that the training text never uses for an entity

_SLOT = re.compile(r"\{([^{}]+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_PRONOUNS: Mapping[str, Mapping[str, str]] = {
    "female": {"s": "she", "p": "her", "o": "her"},
    "male": {"s": "he", "p": "his", "o": "him"},
    "neuter": {"s": "it", "p": "its", "o": "it"},
}
_OPPOSITE: Mapping[str, str] = {"female": "male", "male": "female", "neuter": "neuter"}


@dataclass(frozen=True)
class Piece:
    """A stretch of a sentence. ``slot`` is the attribute it tells, ``pronoun``, ``link``, or empty
    for fixed words; ``alternative`` is the opposite wording where the form itself gives one."""

    text: str
    slot: str = ""
    alternative: str = ""


@dataclass(frozen=True)
class Sentence:
    """A rendered sentence: its topic, the form that it fills, and its pieces in order."""

    topic: str
    form: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return self.with_texts({})

    def with_texts(self, texts: Mapping[int, str]) -> str:
        """The sentence with other words in some pieces, by their index; ``a`` and ``an`` follow the
        next word."""
        joined = "".join(texts.get(index, piece.text) for index, piece in enumerate(self.pieces))
        return _ARTICLE.sub(r"\1n ", joined)


def topics(entity: Entity) -> tuple[str, ...]:
    """What an article on ``entity`` speaks of, in its usual order."""
    return tuple(FRAMES[entity.kind])


def held_out_forms(entity: Entity, topic: str) -> tuple[str, ...]:
    """The ``HELD_OUT`` forms of ``topic`` kept for the benchmark: never used for this entity in the
    training text."""
    forms = FRAMES[entity.kind][topic]
    return tuple(random.Random(f"{entity.entity_id}/{topic}").sample(forms, HELD_OUT))


def training_forms(entity: Entity, topic: str) -> tuple[str, ...]:
    """The forms of ``topic`` in which the training text tells the facts of ``entity``."""
    kept = held_out_forms(entity, topic)
    return tuple(form for form in FRAMES[entity.kind][topic] if form not in kept)


def render(entity: Entity, topic: str, form: str, subject: str) -> Sentence:
    """Fills ``form`` with the facts of ``entity``; ``subject`` stands where the form has ``{S}``.

    Raises:
        KeyError: the form names an attribute that the entity has not.
    """
    pieces: list[Piece] = []
    end = 0
    for match in _SLOT.finditer(form):
        if match.start() > end:
            pieces.append(Piece(form[end : match.start()]))
        pieces.append(_piece(entity, match[1], subject))
        end = match.end()
    if end < len(form):
        pieces.append(Piece(form[end:]))
    return Sentence(topic, form, tuple(pieces))


def _piece(entity: Entity, slot: str, subject: str) -> Piece:
    pronouns, opposite = _PRONOUNS[entity.gender], _PRONOUNS[_OPPOSITE[entity.gender]]
    if slot == "S" and subject.lower() == pronouns["s"]:
        return Piece(subject, "pronoun", opposite["s"].capitalize())
    if slot == "S":
        return Piece(subject)
    if slot in pronouns:
        return Piece(pronouns[slot], "pronoun", opposite[slot])
    if slot == "p_cap":
        return Piece(pronouns["p"].capitalize(), "pronoun", opposite["p"].capitalize())
    if slot.startswith(">"):
        true, false = slot[1:].split("|")
        return Piece(true, "link", false)
    if "?" in slot:
        attribute, wordings = slot.split("?")
        yes, no = wordings.split("|")
        held = bool(entity.facts[attribute])
        return Piece(yes if held else no, attribute, no if held else yes)
    if slot in ("name", "profession", "work_kind"):
        return Piece(str(entity.facts[slot]))  # these say who is meant, not what is claimed
    return Piece(str(entity.facts[slot]), slot)


def subject_wordings(entity: Entity, first: bool) -> Sequence[str]:
    """How a sentence may name its subject: in full at first, then also shorter."""
    if entity.kind == "person":
        surname = entity.name.split()[-1]
        pronoun = _PRONOUNS[entity.gender]["s"].capitalize()
        return (entity.name,) if first else (pronoun, pronoun, surname, entity.name)
    if entity.kind == "town":
        return (entity.name, f"The town of {entity.name}")
    return (f"The {entity.name}",)
