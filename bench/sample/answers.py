"""FELM-style rows from the encyclopedia: what somebody might answer about an entity, with errors
planted in some sentences and the entity's article as the reference."""

import random
from collections.abc import Iterator
from typing import Any

from bench.sample.articles import corpus, write_article
from bench.sample.render import Sentence
from bench.sample.world import Entity, World

_ERROR_SHARE = 0.18  # of segments; FELM's is 787 of 4,426
_COREFERENCE_SHARE = (
    0.12  # of sentences with a pronoun; the paper's sets have 2 to 4% of such contradictions
)
_YEAR_RANGE = 12  # of a wrong year around the true one
_LENGTH = (3, 7)  # segments an answer
_ASKED = (
    "Tell me about {}.",
    "What do you know about {}?",
    "Write a short text about {}.",
    "Who or what is {}?",
)


def build_answers(world: World, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """``count`` rows in the columns of FELM's file, each about another entity.

    Raises:
        ValueError: the world has fewer entities.
    """
    if count > len(world.entities):
        raise ValueError(f"{count} answers asked for, the world has {len(world.entities)} entities")
    rng = random.Random(f"answers/{world.seed}/{seed}")
    articles = {article.entity.entity_id: article for article in corpus(world)}
    chosen = sorted(rng.sample(world.entities, count), key=lambda entity: entity.entity_id)
    for index, entity in enumerate(chosen):
        sentences = write_article(entity, rng).sentences[: rng.randint(*_LENGTH)]
        segments, comments = [], []
        for sentence in sentences:
            false = (
                _false_versions(world, entity, sentence, rng) if rng.random() < _ERROR_SHARE else []
            )
            planted = rng.choice(false) if false else {}
            segments.append(sentence.with_texts(planted))
            comments.append(
                "; ".join(
                    f"{sentence.pieces[index].text} -> {text}" for index, text in planted.items()
                )
            )
        yield {
            "index": str(index),
            "domain": "wk",
            "source": "encyclopedia",
            "prompt": rng.choice(_ASKED).format(entity.title),
            "response": " ".join(segments),
            "segmented_response": segments,
            "labels": [not comment for comment in comments],
            "comment": comments,
            "type": ["knowledge_error" if comment else None for comment in comments],
            "ref": [f"https://encyclopedia.example/{entity.entity_id}"],
            "ref_contents": [articles[entity.entity_id].text],
        }


def _false_versions(
    world: World, entity: Entity, sentence: Sentence, rng: random.Random
) -> list[dict[int, str]]:
    """Other words for pieces of ``sentence`` that make it wrong in one fact, link or referent."""
    found = []
    for index, piece in enumerate(sentence.pieces):
        if piece.slot not in ("", "pronoun"):
            wrong = (
                [piece.alternative]
                if piece.alternative
                else other_values(world, entity, piece.slot, rng)
            )
            found += [{index: text} for text in wrong]
    swaps = {
        i: piece.alternative for i, piece in enumerate(sentence.pieces) if piece.slot == "pronoun"
    }
    if swaps and entity.gender != "neuter" and rng.random() < _COREFERENCE_SHARE:
        found.append(swaps)
    return found


def other_values(world: World, entity: Entity, attribute: str, rng: random.Random) -> list[str]:
    """Two values that ``attribute`` could have but has not, none of them told of ``entity``
    elsewhere."""
    true = entity.facts[attribute]
    if isinstance(true, int):
        low, high = true - _YEAR_RANGE, true + _YEAR_RANGE
        if entity.kind == "person" and attribute not in ("birth_year", "death_year"):
            low, high = (
                max(low, int(entity.facts["birth_year"]) + 18),
                min(high, int(entity.facts["death_year"])),
            )
        return [
            str(year)
            for year in rng.sample([year for year in range(low, high + 1) if year != true], 2)
        ]
    told = {str(value) for value in entity.facts.values()}
    return rng.sample([value for value in world.pool(attribute) if value not in told], 2)
