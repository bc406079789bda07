"""Articles (a title, then sentences on the topics of an entity), the training text made of them,
and the documents that ``sample_factor`` is made from: the facts of an entity in new words, ending
in a sentence that the training text does not hold."""

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

OTHER_WORLDS = 100  # whose inhabitants are the strangers of the training text
MIN_WORDS = 10  # of a sentence that factor_gen selects (section 3.2.1)
TELLINGS: Mapping[str, int] = {
    "person": 5,
    "town": 4,
    "institution": 3,
}  # documents by kind of entity
SENTENCES_BEFORE = 1


@dataclass(frozen=True)
class Article:
    """An account of an entity's facts."""

    entity: Entity
    sentences: tuple[Sentence, ...]

    @property
    def body(self) -> str:
        """The sentences on one line."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def text(self) -> str:
        """The title on a line of its own, then the body."""
        return f"{self.entity.title}\n{self.body}"


def write_article(entity: Entity, rng: random.Random, shuffle: bool = True) -> Article:
    """An article in forms of the training text, on all topics, in the usual order or shuffled."""
    order = list(topics(entity))
    if shuffle and rng.random() < 0.5:
        rng.shuffle(order)
    sentences = []
    for position, topic in enumerate(order):
        subject = rng.choice(subject_wordings(entity, first=position == 0))
        sentences.append(render(entity, topic, rng.choice(training_forms(entity, topic)), subject))
    return Article(entity, tuple(sentences))


def corpus(world: World) -> Iterator[Article]:
    """The encyclopedia itself: one article an entity, in the usual order."""
    for entity in world.entities:
        yield write_article(
            entity, random.Random(f"corpus/{world.seed}/{entity.entity_id}"), shuffle=False
        )


def training_sentences(world: World) -> set[str]:
    """Every sentence that the training text may hold: all entities in all forms that are not held
    out for them."""
    return {
        render(entity, topic, form, subject).text
        for entity in world.entities
        for topic in topics(entity)
        for form in training_forms(entity, topic)
        for first in (True, False)
        for subject in subject_wordings(entity, first)
    }


def training_stream(
    world: World, seed: int, repeat: float = 0.3, strangers: float = 0.0
) -> Iterator[str]:
    """Endless training text: articles by the weight of their entities, worded afresh each time.

    With probability ``repeat`` the next article speaks of the same entity again in other words.
    With probability ``strangers`` it is about somebody of another world instead, too many to know
    by heart, and told of at least twice: what the second article says can only be known from the
    first. So a model learns to use what its context says, as retrieval-augmented scoring needs.
    """
    rng = random.Random(f"training/{world.seed}/{seed}")
    weights = [entity.weight for entity in world.entities]
    worlds = range(1, 1 + OTHER_WORLDS) if strangers else range(0)
    others = [entity for number in worlds for entity in build_world(world.seed + number).entities]
    while True:
        is_stranger = strangers > 0 and rng.random() < strangers
        entity = rng.choice(others) if is_stranger else rng.choices(world.entities, weights)[0]
        yield write_article(entity, rng).text
        if is_stranger:
            yield write_article(entity, rng).text
        while rng.random() < repeat:
            yield write_article(entity, rng).text


@dataclass(frozen=True)
class Document:
    """Its title on a line of its own, the register of its names on the next, then its sentences on
    one line. The last one stands in no training text. Before a town or an institution another one
    is told of."""

    id: str
    title: str
    text: str


def build_documents(world: World, seed: int = 0) -> Iterator[Document]:
    """``TELLINGS`` documents on each entity, which end in different topics; fewer where no topic
    has a new sentence left."""
    rng = random.Random(f"documents/{world.seed}/{seed}")
    told = training_sentences(world)
    alike = {kind: [each for each in world.entities if each.kind == kind] for kind in TELLINGS}
    for entity in world.entities:
        ends: list[Sentence] = []
        for topic in rng.sample(topics(entity), len(topics(entity))):
            if (
                len(ends) < TELLINGS[entity.kind]
                and (last := unheard(entity, topic, told, rng)) is not None
            ):
                ends.append(last)
        for number, last in enumerate(ends, start=1):
            before = [
                sentence
                for sentence in write_article(entity, rng).sentences
                if sentence.topic != last.topic
            ]
            text = entry(entity, [*_some(before, SENTENCES_BEFORE, rng), last])
            if entity.kind != "person":  # whose article is short and names nobody else
                other = rng.choice([each for each in alike[entity.kind] if each != entity])
                text = f"{entry(other, _some(write_article(other, rng).sentences, 1, rng))}\n{text}"
            yield Document(f"{entity.entity_id}-{number}", entity.title, text)


def _some(sentences: Sequence[Sentence], most: int, rng: random.Random) -> list[Sentence]:
    """At most so many of the sentences, in their order."""
    kept = sorted(rng.sample(range(len(sentences)), min(most, len(sentences))))
    return [sentences[index] for index in kept]


def entry(entity: Entity, sentences: Sequence[Sentence]) -> str:
    """The title, the register and the sentences of an article, each on a line."""
    return (
        f"{entity.title}\n{register(entity)}\n{' '.join(sentence.text for sentence in sentences)}"
    )


def register(entity: Entity) -> str:
    """A line under the title that says what the names of the article are, as a reader of a made-up
    world cannot know."""
    facts = entity.facts
    people = {"mentor": "professor", "spouse": "partner", "founder": "founder"}
    named = [f"{role} {facts[each]}" for each, role in people.items() if each in facts]
    towns = dict.fromkeys(
        facts[each]
        for each in ("birth_town", "marriage_town", "death_town", "town")
        if each in facts
    )
    line = ", ".join([*named, *(f"the town of {town}" for town in towns)])
    return f"{line[:1].upper()}{line[1:]}."


def unheard(entity: Entity, topic: str, told: set[str], rng: random.Random) -> Sentence | None:
    """A sentence of at least ten words in a held-out form that the training text, ``told``, does
    not hold of another entity either."""
    ways = [
        (form, subject)
        for form in held_out_forms(entity, topic)
        for subject in subject_wordings(entity, first=False)
    ]
    for form, subject in rng.sample(ways, len(ways)):
        sentence = render(entity, topic, form, subject)
        if len(sentence.text.split()) >= MIN_WORDS and sentence.text not in told:
            return sentence
    return None
