"""Short questions from the encyclopedia: a sentence that stops before a fact, which is the answer."""

import random
from collections.abc import Iterator

from bench.sample.articles import entry
from bench.sample.render import Sentence, render, subject_wordings, topics, training_forms
from bench.sample.world import Entity, World

_LEAST_WORDS = 4  # before the fact, so that it is clear what is asked
_NO_FACTS = ("", "pronoun", "link")


def build_questions(world: World, count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Ask about one fact of each of ``count`` entities.

    Yields:
        A row in the columns of SimpleQA: ``problem``, ``answer`` and ``topic``.
    """
    rng = random.Random(f"questions/{world.seed}/{seed}")
    for entity in rng.sample(world.entities, count):
        options = list(_questions_on(entity))
        beginning, answer = rng.choice(options)
        yield {"problem": beginning, "answer": answer, "topic": entity.kind}


def _questions_on(entity: Entity) -> Iterator[tuple[str, str]]:
    """Every sentence on an entity, up to its first fact, and that fact."""
    subject = subject_wordings(entity, first=True)[0]
    for topic in topics(entity):
        for form in training_forms(entity, topic):
            sentence = render(entity, topic, form, subject)
            yield from _before_first_fact(entity, sentence)


def _before_first_fact(entity: Entity, sentence: Sentence) -> Iterator[tuple[str, str]]:
    for place, piece in enumerate(sentence.pieces):
        if piece.slot in _NO_FACTS or piece.alternative:
            continue
        beginning = "".join(earlier.text for earlier in sentence.pieces[:place]).strip()
        if len(beginning.split()) >= _LEAST_WORDS:
            yield f"{entry(entity, [])}{beginning}", piece.text
        return
