"""Writes the articles of the fictional encyclopedia, the training text and the documents.

``bench.sample.build`` writes the encyclopedia and the documents to files, and
``bench.sample.train`` trains models on the training text. factor-gen makes ``sample_factor`` of
the documents: each tells facts of the training text in new words, and ends in a sentence that the
training text does not contain.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.sample.render import (
    Sentence,
    held_out_forms,
    render,
    subject_wordings,
    topics,
    training_forms,
)
from bench.sample.world import Entity, World, build_world

NUM_OTHER_WORLDS = 100  # whose entities are the strangers of the training text
MIN_WORDS = 10  # of a sentence that factor_gen selects (section 3.2.1)
DOCUMENTS_PER_ENTITY: Mapping[str, int] = {"person": 5, "town": 4, "institution": 3}
NUM_SENTENCES_BEFORE = 1  # between the title of a document and its last sentence

_PEOPLE_IN_REGISTER = {"mentor": "professor", "spouse": "partner", "founder": "founder"}
_TOWNS_IN_REGISTER = ("birth_town", "marriage_town", "death_town", "town")


@dataclass(frozen=True)
class Article:
    """An account of the facts of an entity."""

    entity: Entity
    """The entity."""

    sentences: tuple[Sentence, ...]
    """A sentence on each topic."""

    @property
    def sentence_by_topic(self) -> dict[str, Sentence]:
        """The sentences by their topic."""
        return {sentence.topic: sentence for sentence in self.sentences}

    @property
    def body(self) -> str:
        """The sentences on one line."""
        return _join(self.sentences)

    @property
    def text(self) -> str:
        """The title on a line of its own, then the body."""
        return f"{self.entity.title}\n{self.body}"


@dataclass(frozen=True)
class Document:
    """A document whose last sentence factor-gen turns into a row of ``sample_factor``."""

    id: str
    """The id of its entity, and the number of the document among those about the entity."""

    title: str
    """The title of its entity."""

    text: str
    """The title, the register of names and the sentences, on a line each.

    In a document about a place, three such lines about another place come first.
    """


def write_article(entity: Entity, generator: random.Random, shuffle: bool = True) -> Article:
    """Write an article on all topics of an entity, in forms of the training text.

    Args:
        entity: The entity.
        generator: The source of randomness.
        shuffle: Whether half of the articles have their topics in random order.
    """
    order = list(topics(entity))
    if shuffle and generator.random() < 0.5:
        generator.shuffle(order)
    sentences = []
    for position, topic in enumerate(order):
        subject = generator.choice(subject_wordings(entity, is_first=position == 0))
        form = generator.choice(training_forms(entity, topic))
        sentences.append(render(entity, topic, form, subject))
    return Article(entity, tuple(sentences))


def build_encyclopedia(world: World) -> Iterator[Article]:
    """Yield one article about each entity, with the topics in their usual order."""
    for entity in world.entities:
        generator = random.Random(f"corpus/{world.seed}/{entity.entity_id}")
        yield write_article(entity, generator, shuffle=False)


def training_stream(
    world: World, seed: int, repeat: float = 0.3, strangers: float = 0.0
) -> Iterator[str]:
    """Yield articles without end, which describe the facts in other words each time.

    An article about a stranger is followed by at least one more about the same stranger. There are
    too many strangers to know by heart, so a model can know what the second article says only from
    the first. Thus it learns to use its context, as scoring with retrieval needs.

    Args:
        world: The world whose entities are described, as often as their weights say.
        seed: The seed of the text.
        repeat: The probability that the next article describes the same entity again.
        strangers: The probability that an article describes an entity of another world.
    """
    generator = random.Random(f"training/{world.seed}/{seed}")
    weights = [entity.weight for entity in world.entities]
    foreign_entities = _entities_of_other_worlds(world) if strangers else []
    while True:
        is_stranger = strangers > 0 and generator.random() < strangers
        if is_stranger:
            entity = generator.choice(foreign_entities)
            yield write_article(entity, generator).text
        else:
            entity = generator.choices(world.entities, weights)[0]
        yield write_article(entity, generator).text
        while generator.random() < repeat:
            yield write_article(entity, generator).text


def _entities_of_other_worlds(world: World) -> list[Entity]:
    """Return the entities of the worlds of the next seeds."""
    entities: list[Entity] = []
    for number in range(1, NUM_OTHER_WORLDS + 1):
        entities.extend(build_world(world.seed + number).entities)
    return entities


def build_documents(world: World, seed: int = 0) -> Iterator[Document]:
    """Yield the documents of ``sample_factor``, up to `DOCUMENTS_PER_ENTITY` about each entity.

    Documents about the same entity end in sentences on different topics. An entity has fewer
    documents if few of its topics have a sentence that the training text does not contain.
    """
    generator = random.Random(f"documents/{world.seed}/{seed}")
    known_sentences = _training_sentences(world)
    for entity in world.entities:
        last_sentences = _draw_last_sentences(entity, known_sentences, generator)
        for number, last_sentence in enumerate(last_sentences, start=1):
            text = _write_document(world, entity, last_sentence, generator)
            yield Document(f"{entity.entity_id}-{number}", entity.title, text)


def _training_sentences(world: World) -> set[str]:
    """Return all sentences that the training text can contain."""
    sentences: set[str] = set()
    for entity in world.entities:
        subjects = {*subject_wordings(entity, is_first=True)}
        subjects.update(subject_wordings(entity, is_first=False))
        for topic in topics(entity):
            for form in training_forms(entity, topic):
                sentences.update(render(entity, topic, form, name).text for name in subjects)
    return sentences


def _draw_last_sentences(
    entity: Entity, known_sentences: set[str], generator: random.Random
) -> list[Sentence]:
    """Draw the last sentences of the documents about an entity, on different topics."""
    last_sentences: list[Sentence] = []
    for topic in generator.sample(topics(entity), len(topics(entity))):
        if len(last_sentences) == DOCUMENTS_PER_ENTITY[entity.kind]:
            break
        sentence = _draw_new_sentence(entity, topic, known_sentences, generator)
        if sentence is not None:
            last_sentences.append(sentence)
    return last_sentences


def _draw_new_sentence(
    entity: Entity, topic: str, known_sentences: set[str], generator: random.Random
) -> Sentence | None:
    """Draw a sentence in a held-out form that the training text does not contain.

    The training text can contain it about another entity, for which the form is not held out.

    Returns:
        A sentence of at least `MIN_WORDS` words, or None if there is none.
    """
    sentences = []
    for form in held_out_forms(entity, topic):
        for subject in subject_wordings(entity, is_first=False):
            sentences.append(render(entity, topic, form, subject))
    for sentence in generator.sample(sentences, len(sentences)):
        if len(sentence.text.split()) >= MIN_WORDS and sentence.text not in known_sentences:
            return sentence
    return None


def _write_document(
    world: World, entity: Entity, last_sentence: Sentence, generator: random.Random
) -> str:
    """Write the text of a document that ends in a sentence."""
    article = write_article(entity, generator)
    candidates = [line for line in article.sentences if line.topic != last_sentence.topic]
    sentences = _draw_in_order(candidates, NUM_SENTENCES_BEFORE, generator)
    text = format_entry(entity, [*sentences, last_sentence])
    if entity.kind == "person":
        return text

    # The article of a place is short and names no other entity, so another place comes first.
    same_kind = [place for place in world.entities if place.kind == entity.kind]
    neighbour = generator.choice([place for place in same_kind if place != entity])
    neighbour_sentences = write_article(neighbour, generator).sentences
    neighbour_entry = format_entry(neighbour, _draw_in_order(neighbour_sentences, 1, generator))
    return f"{neighbour_entry}\n{text}"


def _draw_in_order(
    sentences: Sequence[Sentence], most: int, generator: random.Random
) -> list[Sentence]:
    """Draw up to a number of sentences, and keep their order."""
    count = min(most, len(sentences))
    indices = generator.sample(range(len(sentences)), count)
    return [sentences[index] for index in sorted(indices)]


def format_entry(entity: Entity, sentences: Sequence[Sentence]) -> str:
    """Return the title of an entity, its register and some sentences, on a line each."""
    return f"{entity.title}\n{format_register(entity)}\n{_join(sentences)}"


def format_register(entity: Entity) -> str:
    """Return a line that says what the names in an article are.

    A reader of a fictional encyclopedia cannot know which names are people and which are towns.
    An example is ``Professor Storto Kanott, partner Dreskia Ciarer, the town of Prorholm.``
    """
    facts = entity.facts
    names = [f"{role} {facts[key]}" for key, role in _PEOPLE_IN_REGISTER.items() if key in facts]
    towns = [f"the town of {facts[key]}" for key in _TOWNS_IN_REGISTER if key in facts]
    # A town that occurs twice is named once.
    line = ", ".join([*names, *dict.fromkeys(towns)])
    return f"{line[:1].upper()}{line[1:]}."


def _join(sentences: Sequence[Sentence]) -> str:
    """Return sentences on one line."""
    return " ".join(sentence.text for sentence in sentences)
