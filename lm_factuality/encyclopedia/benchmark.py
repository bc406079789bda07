"""FACTOR rows from the encyclopedia: a true sentence in a form held out of the training text, and three
minimally edited false ones (paper, sections 3.1 and 3.2.4)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from lm_factuality.encyclopedia.articles import training_sentences, write_article
from lm_factuality.encyclopedia.render import Sentence, held_out_forms, render, subject_wordings
from lm_factuality.encyclopedia.world import Entity, World, error_type

NUM_CONTRADICTIONS = 3
MIN_WORDS = 10  # section 3.2.1
_COREFERENCE_SHARE = 0.12  # of sentences with a pronoun; the paper's sets have 2 to 4% of such contradictions
_YEAR_RANGE = 12


@dataclass(frozen=True)
class Contradiction:
    """A false completion: its text, its error type, and the edit that made it."""

    text: str
    error_type: str
    edit: str


@dataclass(frozen=True)
class Example:
    """One row of ``doc_id``, a telling of its own; ``prefix`` ends in the white space that separates it from ``completion``."""

    doc_id: str
    title: str
    prefix: str
    completion: str
    contradictions: tuple[Contradiction, ...]


def build_examples(world: World, num_documents: int, rows_per_document: int, seed: int = 0) -> Iterator[Example]:
    """Rows on ``num_documents`` entities, ``rows_per_document`` from one telling of each article.

    Raises:
        ValueError: the world has fewer entities than documents are asked for.
    """
    if num_documents > len(world.entities):
        raise ValueError(f"{num_documents} documents asked for, the world has {len(world.entities)} entities")
    rng = random.Random(f"benchmark/{world.seed}/{seed}")
    told = training_sentences(world)
    for entity in sorted(rng.sample(world.entities, num_documents), key=lambda entity: entity.entity_id):
        article = write_article(entity, rng)
        for position in sorted(rng.sample(range(len(article.sentences)), rows_per_document)):
            sentence = _unheard(entity, article.sentences[position].topic, position == 0, told, rng)
            if sentence is None:
                continue
            false = choose(candidates(world, entity, sentence, rng), rng)
            types = {contradiction.error_type for contradiction in false}
            if len(false) == NUM_CONTRADICTIONS and len(types) > 1:
                before = "".join(f"{earlier.text} " for earlier in article.sentences[:position])
                yield Example(
                    f"{entity.entity_id}-anew", entity.title, f"{entity.title}\n{before}", sentence.text, false
                )


def _unheard(entity: Entity, topic: str, first: bool, told: set[str], rng: random.Random) -> Sentence | None:
    """A sentence of at least ten words in a held-out form, which the training text does not hold of another entity either."""
    ways = [(form, subject) for form in held_out_forms(entity, topic) for subject in subject_wordings(entity, first)]
    for form, subject in rng.sample(ways, len(ways)):
        sentence = render(entity, topic, form, subject)
        if len(sentence.text.split()) >= MIN_WORDS and sentence.text not in told:
            return sentence
    return None


def candidates(world: World, entity: Entity, sentence: Sentence, rng: random.Random) -> list[Contradiction]:
    """False versions of ``sentence``, each wrong in one fact, link or referent."""
    found = []
    for index, piece in enumerate(sentence.pieces):
        if piece.slot in ("", "pronoun"):
            continue
        if piece.alternative:
            wrong, kind = [piece.alternative], "link" if piece.slot == "link" else "predicate"
        else:
            wrong = other_values(world, entity, piece.slot, rng)
            kind = error_type(piece.slot, entity.facts[piece.slot])
        for text in wrong:
            found.append(_replaced(sentence, {index: text}, kind))
    swaps = {i: piece.alternative for i, piece in enumerate(sentence.pieces) if piece.slot == "pronoun"}
    if swaps and entity.gender != "neuter" and rng.random() < _COREFERENCE_SHARE:
        found.append(_replaced(sentence, swaps, "coreference"))
    return found


def choose(found: list[Contradiction], rng: random.Random) -> tuple[Contradiction, ...]:
    """Three contradictions, one a type while types last; fewer if there are not three."""
    rest = rng.sample(found, len(found))
    chosen: list[Contradiction] = []
    while rest and len(chosen) < NUM_CONTRADICTIONS:
        used = {contradiction.error_type for contradiction in chosen}
        pick = next((each for each in rest if each.error_type not in used), rest[0])
        rest.remove(pick)
        chosen.append(pick)
    return tuple(chosen)


def other_values(world: World, entity: Entity, attribute: str, rng: random.Random) -> list[str]:
    """Two values that ``attribute`` could have but has not, none of them told of ``entity`` elsewhere."""
    true = entity.facts[attribute]
    if isinstance(true, int):
        low, high = true - _YEAR_RANGE, true + _YEAR_RANGE
        if entity.kind == "person" and attribute not in ("birth_year", "death_year"):
            low, high = max(low, int(entity.facts["birth_year"]) + 18), min(high, int(entity.facts["death_year"]))
        return [str(year) for year in rng.sample([year for year in range(low, high + 1) if year != true], 2)]
    told = {str(value) for value in entity.facts.values()}
    return rng.sample([value for value in world.pool(attribute) if value not in told], 2)


def _replaced(sentence: Sentence, texts: dict[int, str], kind: str) -> Contradiction:
    edit = "; ".join(f"{sentence.pieces[index].text} -> {text}" for index, text in texts.items())
    return Contradiction(sentence.with_texts(texts), kind, edit)
