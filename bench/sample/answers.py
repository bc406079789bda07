"""Writes rows as FELM has them: answers about entities, with errors in some of their segments.

``bench.sample.build`` writes the rows to ``sample_felm.jsonl``. The reference of a row is the
article of its entity in the encyclopedia.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from bench.sample.articles import build_encyclopedia, write_article
from bench.sample.render import PRONOUN, Replacements, Sentence
from bench.sample.world import Entity, World

_ERROR_SHARE = 0.18  # of segments, because 787 of FELM's 4,426 are wrong
# Of the sentences with a pronoun. The paper's sets have 2 to 4% of contradictions in coreference.
_COREFERENCE_SHARE = 0.12
_MOST_YEARS_OFF = 12  # between a wrong year and the true one
_ADULT_AGE = 18  # years, before which nothing happens in a life but the birth
_LENGTHS = (3, 7)  # the fewest and the most segments of an answer
_PROMPTS = (
    "Tell me about {}.",
    "What do you know about {}?",
    "Write a short text about {}.",
    "Who or what is {}?",
)


def build_answers(world: World, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield rows in the columns of FELM's file, each about another entity.

    Args:
        world: The world of the entities.
        count: The number of rows.
        seed: The seed of the rows.

    Raises:
        ValueError: The world has fewer entities than rows are wanted.
    """
    if count > len(world.entities):
        raise ValueError(f"{count} answers need as many entities; there are {len(world.entities)}")
    generator = random.Random(f"answers/{world.seed}/{seed}")
    articles = {article.entity.entity_id: article for article in build_encyclopedia(world)}
    entities = generator.sample(world.entities, count)
    entities.sort(key=lambda entity: entity.entity_id)
    for index, entity in enumerate(entities):
        sentences = write_article(entity, generator).sentences
        segments: list[str] = []
        comments: list[str] = []
        for sentence in sentences[: generator.randint(*_LENGTHS)]:
            errors = _draw_errors(world, entity, sentence, generator)
            segments.append(sentence.with_texts(errors))
            comments.append(_describe_errors(sentence, errors))
        yield {
            "index": str(index),
            "domain": "wk",
            "source": "encyclopedia",
            "prompt": generator.choice(_PROMPTS).format(entity.title),
            "response": " ".join(segments),
            "segmented_response": segments,
            "labels": [not comment for comment in comments],
            "comment": comments,
            "type": ["knowledge_error" if comment else None for comment in comments],
            "ref": [f"https://encyclopedia.example/{entity.entity_id}"],
            "ref_contents": [articles[entity.entity_id].text],
        }


def _draw_errors(
    world: World, entity: Entity, sentence: Sentence, generator: random.Random
) -> Replacements:
    """Draw the words that make a sentence wrong in one fact, link or pronoun.

    Returns:
        The words, which are none for most sentences.
    """
    if generator.random() >= _ERROR_SHARE:
        return {}

    candidates: list[Replacements] = []
    opposite_pronouns: dict[int, str] = {}
    for index, piece in enumerate(sentence.pieces):
        if piece.slot == PRONOUN:
            opposite_pronouns[index] = piece.alternative
        elif piece.alternative:
            candidates.append({index: piece.alternative})
        elif piece.slot:
            wrong_values = draw_wrong_values(world, entity, piece.slot, generator)
            candidates.extend({index: value} for value in wrong_values)
    # All pronouns of the sentence change together, so that it is about somebody else.
    can_change_pronouns = opposite_pronouns and entity.gender != "neuter"
    if can_change_pronouns and generator.random() < _COREFERENCE_SHARE:
        candidates.append(opposite_pronouns)
    return generator.choice(candidates) if candidates else {}


def _describe_errors(sentence: Sentence, errors: Replacements) -> str:
    """Return the true and the wrong words of a sentence, such as ``1745 -> 1751``."""
    changes = [f"{sentence.pieces[index].text} -> {text}" for index, text in errors.items()]
    return "; ".join(changes)


def draw_wrong_values(
    world: World, entity: Entity, attribute: str, generator: random.Random
) -> list[str]:
    """Draw two values that an attribute of an entity could have but does not have.

    Names are none of the entity's other facts. Years fit the life of a person.
    """
    true_value = entity.facts[attribute]
    if not isinstance(true_value, int):
        facts_as_text = {str(value) for value in entity.facts.values()}
        values = world.possible_values(attribute)
        return generator.sample([value for value in values if value not in facts_as_text], 2)

    earliest = true_value - _MOST_YEARS_OFF
    latest = true_value + _MOST_YEARS_OFF
    if entity.kind == "person" and attribute not in ("birth_year", "death_year"):
        earliest = max(earliest, int(entity.facts["birth_year"]) + _ADULT_AGE)
        latest = min(latest, int(entity.facts["death_year"]))
    wrong_years = [year for year in range(earliest, latest + 1) if year != true_value]
    return [str(year) for year in generator.sample(wrong_years, 2)]
