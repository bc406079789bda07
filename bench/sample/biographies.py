"""Writes made-up answers to "Tell me a bio of NAME" together with what is true of them.

``bench.sample.build`` writes them to the files of ``sample_ambigbio``. A name belongs to one person
or to two, and a question about it comes with five passages, as a retriever might find them. There
are answers of each kind that D-FActScore tells apart:

- ``one``: a biography of one person, and all of it is true.
- ``merged``: a biography of one person for the reader, which tells facts of two or three people.
- ``apart``: a biography of each of two people, whom the text tells apart.
- ``leaking``: the same, but each biography tells some facts of the other person.
- ``errors``: a biography of one person or of each of two, with planted errors.
- ``abstained``: the model says that it found nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bench.sample.answers import draw_wrong_values
from bench.sample.articles import Article, build_encyclopedia
from bench.sample.claims import (
    Biography,
    BiographySentence,
    Kind,
    Page,
    claims_of,
    told_attributes,
)
from bench.sample.render import FRAMES, Replacements, Sentence, render, subject_wordings
from bench.sample.world import Entity, World
from lm_factuality.ground.packages import load_yaml

NUM_PASSAGES = 5
NUM_UNSHARED_NAMES = 14

_WORDS = load_yaml(__package__, "biographies.yaml")
# The probability that a name has an answer of a kind. It always has the other kinds.
_KIND_SHARES: Mapping[Kind, float] = {"leaking": 0.4, "errors": 0.6, "abstained": 0.25}
_FEWEST_TOPICS = 4  # of a biography, after its opening
_MOST_TOPICS = 7
# Of sentences, word for word as the article has them: about as many as in published answers.
_COPIED_SHARE = 0.6
_UNCITED_SHARE = 0.08  # of sentences
_MISCITED_SHARE = 0.05  # of sentences
_WRONG_SHARE = 0.35  # of sentences in an answer with errors
_REMARK_SHARE = 0.08  # of answers, which end in a sentence about the documents
_RELATIVE_SHARE = 0.9  # of merged answers, which also tell facts of a relative
_OWN_LINE_SHARE = 0.4  # of second biographies


@dataclass(frozen=True)
class _Source:
    """What a model can find out about a name."""

    namesakes: tuple[Article, ...]
    """The articles about the people who bear the name."""

    relative: Article | None
    """Half an article about somebody of the same surname and gender, if there is anybody."""

    passages: tuple[Mapping[str, str], ...]
    """The ``title`` and the ``text`` of each passage that the model is given."""

    pages: tuple[Page, ...]
    """What the passages say, by person."""

    def find_passages(self, article: Article, attributes: set[str]) -> tuple[int, ...]:
        """Return the numbers, from 1, of the passages that tell any of some attributes.

        Args:
            article: The article from which the passages were cut.
            attributes: The attributes.
        """
        texts = [line.text for line in article.sentences if told_attributes(line) & attributes]
        numbers = []
        for number, passage in enumerate(self.passages, start=1):
            is_of_article = passage["title"] == article.entity.title
            if is_of_article and any(text in passage["text"] for text in texts):
                numbers.append(number)
        return tuple(numbers)


def build_biographies(world: World, seed: int = 0) -> Iterator[Biography]:
    """Yield the answers, of which those about the same name follow each other.

    Args:
        world: The world of the people.
        seed: The seed of the answers.
    """
    generator = random.Random(f"biographies/{world.seed}/{seed}")
    articles = {article.entity.entity_id: article for article in build_encyclopedia(world)}
    names = sorted({entity.name for entity in world.entities if entity.kind == "person"})
    shared_names = [name for name in names if len(world.bearers(name)) > 1]
    unshared_names = [name for name in names if name not in shared_names]
    number = 0
    for name in [*shared_names, *generator.sample(unshared_names, NUM_UNSHARED_NAMES)]:
        kinds = _draw_kinds(name in shared_names, generator)
        source = _draw_source(world, articles, name, generator)
        for kind in kinds:
            yield _Writer(world, source, generator).write(str(number), name, kind)
            number += 1


def _draw_kinds(is_shared: bool, generator: random.Random) -> list[Kind]:
    """Draw the kinds of the answers about a name."""
    kinds: list[Kind] = ["one", "merged", "apart"] if is_shared else ["one"]
    for kind, share in _KIND_SHARES.items():
        # Answers about a name that nobody shares are not confused, but can have errors.
        is_possible = is_shared or kind == "errors"
        if is_possible and generator.random() < share:
            kinds.append(kind)
    return kinds


def _draw_source(
    world: World, articles: Mapping[str, Article], name: str, generator: random.Random
) -> _Source:
    """Draw the passages that a retriever might find for a name.

    They are both halves of the articles about the people of that name, and then the first halves of
    articles about others until there are `NUM_PASSAGES`: first about a relative.
    """
    namesakes = [articles[entity.entity_id] for entity in world.bearers(name)]
    generator.shuffle(namesakes)
    halves = [half for article in namesakes for half in _cut_in_halves(article)]
    people = [
        entity for entity in world.entities if entity.kind == "person" and entity.name != name
    ]
    relatives = [person for person in people if _are_related(person, namesakes[0].entity)]
    strangers = [person for person in people if person not in relatives]
    others = generator.sample(strangers, NUM_PASSAGES)
    fillers = []
    relative = None
    if relatives:
        relative, _ = _cut_in_halves(articles[generator.choice(relatives).entity_id])
        fillers.append(relative)
    for person in others:
        first_half, _ = _cut_in_halves(articles[person.entity_id])
        fillers.append(first_half)
    fillers = fillers[: NUM_PASSAGES - len(halves)]

    generator.shuffle(halves)
    passages = [
        {"title": article.entity.title, "text": article.body} for article in [*halves, *fillers]
    ]
    pages = [Page.from_article(article) for article in [*namesakes, *fillers]]
    return _Source(tuple(namesakes), relative, tuple(passages), tuple(pages))


def _are_related(first: Entity, second: Entity) -> bool:
    """Return whether two people have the same surname and gender."""
    has_same_surname = first.name.split()[-1] == second.name.split()[-1]
    return has_same_surname and first.gender == second.gender


def _cut_in_halves(article: Article) -> tuple[Article, Article]:
    """Return the first and the second half of an article."""
    middle = (len(article.sentences) + 1) // 2
    return (
        replace(article, sentences=article.sentences[:middle]),
        replace(article, sentences=article.sentences[middle:]),
    )


class _Writer:
    """Writes one answer."""

    def __init__(self, world: World, source: _Source, generator: random.Random) -> None:
        """Begin an answer.

        Args:
            world: The world of the people.
            source: What a model can find out about the name.
            generator: The source of randomness.
        """
        self._world = world
        self._source = source
        self._generator = generator
        self._sentences: list[BiographySentence] = []
        self._has_errors = False
        self._line_break: int | None = None  # the number of sentences before it

    def write(self, index: str, name: str, kind: Kind) -> Biography:
        """Write an answer of a kind about a name, which gets an index in the file."""
        if kind == "abstained":
            output = self._generator.choice(_WORDS["abstentions"]).format(name=name)
        else:
            self._has_errors = kind == "errors"
            self._write_sentences(kind)
            output = self._format_output()
        sentences = tuple(self._sentences)
        return Biography(index, name, kind, sentences, self._source.passages, output)

    def _write_sentences(self, kind: Kind) -> None:
        """Write the biographies of an answer, and perhaps a remark."""
        first, *others = self._source.namesakes
        is_about_two = kind in ("apart", "leaking")
        if kind == "errors" and others:
            is_about_two = self._generator.random() < 0.5

        if kind == "merged":
            self._write_merged()
        elif is_about_two:
            self._write_two(first, others[0], is_leaking=kind == "leaking")
        else:
            self._write_biography(first, individual=0)
        if self._generator.random() < _REMARK_SHARE:
            pronoun = "her" if first.entity.gender == "female" else "him"
            remark = self._generator.choice(_WORDS["remarks"])
            text = remark.format(o="them" if is_about_two else pronoun)
            self._sentences.append(BiographySentence(text, individual=None, entity=None))

    def _write_merged(self) -> None:
        """Write one biography, each of whose topics is told of only one person.

        So nothing in the text shows that it mixes people.
        """
        generator = self._generator
        first, *others = self._source.namesakes
        opening_attributes = self._open(first, individual=0)
        relative = self._source.relative
        if relative is not None and generator.random() < _RELATIVE_SHARE:
            others.append(relative)
        # The biography is one topic longer, because it has to tell of several people.
        count = generator.randint(_FEWEST_TOPICS + 1, _MOST_TOPICS + 1)
        for topic in self._draw_topics(first, opening_attributes, count):
            tellers = [article for article in others if topic in article.sentence_by_topic]
            # The first person is told of less often, because the opening tells of them too.
            weights = [2] + [3] * len(tellers)
            (article,) = generator.choices([first, *tellers], weights)
            self._tell(article, topic, individual=0)

    def _write_two(self, first: Article, second: Article, is_leaking: bool) -> None:
        """Write biographies of two people, each of which can tell facts of the other person."""
        self._write_biography(first, individual=0, borrowed=second if is_leaking else None)
        if self._generator.random() < _OWN_LINE_SHARE:
            self._line_break = len(self._sentences)
        self._write_biography(second, individual=1, borrowed=first if is_leaking else None)

    def _write_biography(
        self, article: Article, individual: int, borrowed: Article | None = None
    ) -> None:
        """Write an opening, and then a sentence on each of some topics.

        Args:
            article: The article about the person.
            individual: The number of the individual, from 0.
            borrowed: An article about somebody else, of whom one or two topics are told.
        """
        count = self._generator.randint(_FEWEST_TOPICS, _MOST_TOPICS)
        opening_attributes = self._open(article, individual)
        topics = self._draw_topics(article, opening_attributes, count)
        borrowed_topics: list[str] = []
        if borrowed is not None:
            borrowed_topics = self._generator.sample(topics, self._generator.randint(1, 2))
        for topic in topics:
            if borrowed is not None and topic in borrowed_topics:
                self._tell(borrowed, topic, individual)
            else:
                self._tell(article, topic, individual)

    def _draw_topics(self, article: Article, attributes: set[str], count: int) -> list[str]:
        """Draw up to a number of topics of an article, and keep their order.

        Args:
            article: The article.
            attributes: What the answer tells already. No topic tells any of it again.
            count: The number of topics.
        """
        topics = [
            sentence.topic
            for sentence in article.sentences
            if not told_attributes(sentence) & attributes
        ]
        chosen = self._generator.sample(topics, min(count, len(topics)))
        return [topic for topic in topics if topic in chosen]

    def _open(self, article: Article, individual: int) -> set[str]:
        """Write the first sentence about an individual, and return the attributes that it tells."""
        entity = article.entity
        profession = str(entity.facts["profession"])
        states_profession = Page.from_article(article).says("profession", profession)
        form = self._generator.choice(_WORDS["further_openings" if individual else "openings"])
        if not states_profession:
            # All these openings tell the profession, which nobody could find in this article.
            form = "{name} was born in {birth_year} at {birth_town} to a family of {parents}."
        subject = entity.name
        first_form = article.sentences[0].form
        if "{S}" in first_form and self._generator.random() < _COPIED_SHARE:
            form = first_form
            if states_profession:
                name = f"Another {entity.name}" if individual else entity.name
                indefinite_article = "an" if profession[0] in "aeiou" else "a"
                subject = f"{name}, {indefinite_article} {profession},"
        sentence = render(entity, "birth", form, subject)
        self._add(article, sentence, individual, states_profession)
        return told_attributes(sentence)

    def _tell(self, article: Article, topic: str, individual: int) -> None:
        """Write a sentence on a topic.

        It is copied from the article, or has another form that tells no more than the article.

        Args:
            article: The article about the person whose facts it tells.
            topic: The topic.
            individual: The individual whom the sentence seems to describe.
        """
        entity = article.entity
        generator = self._generator
        original = article.sentence_by_topic[topic]
        forms = FRAMES[entity.kind][topic]
        subjects = subject_wordings(entity, is_first=False)
        subject = generator.choice(subjects)
        may_copy = True
        if article is self._source.relative:
            # The first name of a relative would show that the biography mixes people.
            may_copy = entity.name not in original.text
            forms = [form for form in forms if "{name}" not in form]
            subject = generator.choice([words for words in subjects if words != entity.name])

        if generator.random() < _COPIED_SHARE and may_copy:
            self._add(article, original, individual)
            return
        sentences = [render(entity, topic, form, subject) for form in forms]
        attributes = told_attributes(*article.sentences)
        candidates = [line for line in sentences if told_attributes(line) <= attributes]
        self._add(article, generator.choice(candidates), individual)

    def _add(
        self,
        article: Article,
        sentence: Sentence,
        individual: int,
        states_profession: bool = False,
    ) -> None:
        """Add a sentence to the answer, with citations and perhaps an error.

        Args:
            article: The article about the person whose facts it tells.
            sentence: The sentence without errors.
            individual: The individual whom the sentence seems to describe.
            states_profession: Whether it also claims the profession.
        """
        entity = article.entity
        errors: Replacements = {}
        if self._has_errors and self._generator.random() < _WRONG_SHARE:
            errors = self._plant_error(entity, sentence)
        claims = claims_of(entity, sentence, errors, self._source.pages, states_profession)
        passages = self._source.find_passages(article, {claim.attribute for claim in claims})
        self._sentences.append(
            BiographySentence(
                text=sentence.with_texts(errors),
                individual=individual,
                entity=entity.title,
                claims=claims,
                cites=self._draw_citations(passages),
                told_in=() if errors else passages,
            )
        )

    def _plant_error(self, entity: Entity, sentence: Sentence) -> Replacements:
        """Draw wrong words for one fact of a sentence, which then holds of nobody in the passages.

        Returns:
            The words, or nothing if every fact becomes one of somebody else.
        """
        indices = [index for index, piece in enumerate(sentence.pieces) if piece.tells_fact]
        for index in self._generator.sample(indices, len(indices)):
            attribute = sentence.pieces[index].slot
            words = sentence.pieces[index].alternative
            if not words:
                words, _ = draw_wrong_values(self._world, entity, attribute, self._generator)
            errors = {index: words}
            claims = claims_of(entity, sentence, errors, self._source.pages)
            if not any(claim.supported_by for claim in claims if claim.attribute == attribute):
                return errors
        return {}

    def _draw_citations(self, passages: tuple[int, ...]) -> tuple[int, ...]:
        """Draw the passages that a sentence cites: mostly those that support it."""
        draw = self._generator.random()
        if draw < _UNCITED_SHARE:
            return ()
        if draw < _UNCITED_SHARE + _MISCITED_SHARE:
            wrong = [number for number in range(1, NUM_PASSAGES + 1) if number not in passages]
            return (self._generator.choice(wrong),)
        return passages

    def _format_output(self) -> str:
        """Return the sentences with their citations: ``[1][2]``, or in a third ``[1, 2]``."""
        separator = self._generator.choice(("][", "][", ", "))
        output = ""
        for number, sentence in enumerate(self._sentences):
            if number > 0:
                output += "\n\n" if number == self._line_break else " "
            if sentence.cites:
                # Citations stand before the full stop.
                citations = separator.join(str(passage) for passage in sentence.cites)
                output += f"{sentence.text[:-1]} [{citations}]."
            else:
                output += sentence.text
        return output
