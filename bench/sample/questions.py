"""Writes short questions about the encyclopedia in the format of SimpleQA.

``bench.sample.build`` writes them to ``sample_simpleqa.jsonl``. Each question is a sentence that
stops before a fact, and the fact is the answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.sample.articles import format_entry
from bench.sample.render import Sentence, render, subject_wordings, topics, training_forms
from bench.sample.world import Entity, World

_MIN_WORDS = 4  # before the fact, so that it is clear what is asked


def build_questions(world: World, count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Ask about one fact of each of several entities.

    Args:
        world: The world of the entities.
        count: The number of entities.
        seed: The seed of the questions.

    Yields:
        A row in the columns of SimpleQA: ``problem``, ``answer`` and ``topic``.
    """
    generator = random.Random(f"questions/{world.seed}/{seed}")
    for entity in generator.sample(world.entities, count):
        yield generator.choice(_questions_about(entity))


def _questions_about(entity: Entity) -> list[dict[str, str]]:
    """Return a question from each sentence about an entity that has a suitable fact."""
    subject = subject_wordings(entity, is_first=True)[0]
    questions = []
    for topic in topics(entity):
        for form in training_forms(entity, topic):
            sentence = render(entity, topic, form, subject)
            question = _ask_for_first_fact(entity, sentence)
            if question is not None:
                questions.append(question)
    return questions


def _ask_for_first_fact(entity: Entity, sentence: Sentence) -> dict[str, str] | None:
    """Return the question that a sentence becomes if it stops before its first fact.

    Returns:
        The question, or None if too few words come before the fact.
    """
    beginning = ""
    for piece in sentence.pieces:
        # A piece with an alternative tells only whether something holds.
        if piece.tells_fact and not piece.alternative:
            beginning = beginning.strip()
            if len(beginning.split()) < _MIN_WORDS:
                return None
            problem = f"{format_entry(entity, [])}{beginning}"
            return {"problem": problem, "answer": piece.text, "topic": entity.kind}
        beginning += piece.text
    return None
