"""Made-up answers to "Tell me a bio of NAME" whose truth is known: whom they describe, which claims
hold, and how many people a reader sees.

Names are shared by two people (an ambiguous name) or by nobody. Each has five passages, as a
retriever might find them. Of each kind of answer that D-FActScore tells apart there are some:

``one``       one biography, one entity, all of it true ``merged``    one biography for the reader,
but of two or three people: each fact is true of one of them ``apart``     a biography for each of
two people, told apart in the text ``leaking``   two biographies told apart, but with facts of one
in the other ``errors``    one or two biographies with planted errors ``abstained`` the model says
that it found nothing
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.sample.answers import other_values
from bench.sample.articles import Article, corpus
from bench.sample.claims import (
    NOT_CLAIMED,
    Biography,
    BiographySentence,
    Kind,
    Page,
    attributes,
    claims_of,
)
from bench.sample.render import FRAMES, Sentence, render, subject_wordings
from bench.sample.world import Entity, World
from lm_factuality.ground.packages import load_yaml

PASSAGES = 5
_LENGTH = (4, 7)  # sentences a biography, or a half of a merged one
_COPIED = (
    0.6  # of sentences, word for word as a passage has them: about as much as in published answers
)
_UNCITED, _MISCITED = 0.08, 0.05  # of sentences
_REMARKED = 0.08  # of answers, which end in a sentence about the documents
_THIRD = 0.9  # of merged answers: facts of a third person, who has the surname only
_NEWLINE = 0.4  # of second biographies: on a line of their own
_WORDS = load_yaml(__package__, "biographies.yaml")
PLAIN_NAMES = 14  # that nobody shares
_SHARED_KINDS: tuple[Kind, ...] = ("one", "merged", "apart")
_SOMETIMES: Mapping[Kind, float] = {"leaking": 0.4, "errors": 0.6, "abstained": 0.25}


def build_biographies(world: World, seed: int = 0) -> Iterator[Biography]:
    """The answers, those to one question after another."""
    rng = random.Random(f"biographies/{world.seed}/{seed}")
    articles = {article.entity.entity_id: article for article in corpus(world)}
    number = 0
    for name, kinds in _assignments(world, rng):
        source = Source.find(world, articles, name, rng)
        for kind in kinds:
            sentences, output = Writer(world, source, rng).write(kind)
            yield Biography(str(number), name, kind, sentences, source.passages, output)
            number += 1


def _assignments(world: World, rng: random.Random) -> Iterator[tuple[str, tuple[Kind, ...]]]:
    people = [entity for entity in world.entities if entity.kind == "person"]
    shared = sorted({entity.name for entity in people if len(world.named(entity.name)) > 1})
    plain = rng.sample(
        sorted({entity.name for entity in people if len(world.named(entity.name)) == 1}),
        PLAIN_NAMES,
    )
    for name in shared:
        yield (
            name,
            (*_SHARED_KINDS, *(kind for kind, share in _SOMETIMES.items() if rng.random() < share)),
        )
    for name in plain:
        yield name, ("one", "errors") if rng.random() < _SOMETIMES["errors"] else ("one",)


@dataclass(frozen=True)
class Source:
    """What there is to tell about a name: those who bear it, a third of the same surname and gender
    (if there is one), the passages, and which sentences each holds."""

    namesakes: tuple[Article, ...]
    third: Article | None
    passages: tuple[Mapping[str, str], ...]
    pages: tuple[Page, ...]

    @classmethod
    def find(
        cls, world: World, articles: Mapping[str, Article], name: str, rng: random.Random
    ) -> Source:
        namesakes = [articles[entity.entity_id] for entity in world.named(name)]
        rng.shuffle(namesakes)
        first = namesakes[0].entity
        others = [
            entity for entity in world.entities if entity.kind == "person" and entity.name != name
        ]
        family = [entity for entity in others if entity.name.split()[-1] == name.split()[-1]]
        kin = [entity for entity in family if entity.gender == first.gender]
        others = rng.sample([entity for entity in others if entity not in kin], PASSAGES)
        third = _halves(articles[rng.choice(kin).entity_id])[0] if kin else None
        found = [_passage(half) for article in namesakes for half in _halves(article)]
        rng.shuffle(found)
        fillers = [
            *([third] if third else []),
            *(_halves(articles[entity.entity_id])[0] for entity in others),
        ]
        fillers = fillers[: PASSAGES - len(found)]
        found += map(_passage, fillers)
        pages = tuple(Page.of(article) for article in (*namesakes, *fillers))
        return cls(tuple(namesakes), third, tuple(found), pages)

    def told_in(self, title: str, needed: Sequence[str], article: Article) -> tuple[int, ...]:
        """The passages, counted from 1, with the sentences of ``article`` that tell what is
        ``needed``."""
        texts = [each.text for each in article.sentences if set(attributes([each])) & set(needed)]
        return tuple(
            number
            for number, passage in enumerate(self.passages, 1)
            if passage["title"] == title and any(text in passage["text"] for text in texts)
        )


def _halves(article: Article) -> tuple[Article, Article]:
    half = (len(article.sentences) + 1) // 2
    return Article(article.entity, article.sentences[:half]), Article(
        article.entity, article.sentences[half:]
    )


def _passage(article: Article) -> Mapping[str, str]:
    return {"title": article.entity.title, "text": article.body}


class Writer:
    """Writes one answer: ``write`` returns its sentences and its text with citations."""

    def __init__(self, world: World, source: Source, rng: random.Random) -> None:
        self._world, self._source, self._rng = world, source, rng
        self._sentences: list[BiographySentence] = []
        self._breaks: set[int] = set()  # sentences that begin a line
        self._is_faulty = False

    def write(self, kind: Kind) -> tuple[tuple[BiographySentence, ...], str]:
        first, *rest = self._source.namesakes
        rng = self._rng
        if kind == "abstained":
            return (), rng.choice(_WORDS["abstentions"]).format(name=first.entity.name)
        self._is_faulty = kind == "errors"
        is_double = bool(rest) and (
            kind in ("apart", "leaking") or (kind == "errors" and rng.random() < 0.5)
        )
        if kind == "merged":
            self._merged([first, *rest])
        elif is_double:
            leaks = kind == "leaking"
            self._biography(first, 0, borrowed=rest[0] if leaks else None)
            if rng.random() < _NEWLINE:
                self._breaks.add(len(self._sentences))
            self._biography(rest[0], 1, borrowed=first if leaks else None)
        else:
            self._biography(first, 0)
        if rng.random() < _REMARKED:
            pronoun = "them" if is_double else "her" if first.entity.gender == "female" else "him"
            self._sentences.append(
                BiographySentence(rng.choice(_WORDS["remarks"]).format(o=pronoun), None, None)
            )
        return tuple(self._sentences), self._text()

    def _biography(
        self, article: Article, individual: int, borrowed: Article | None = None
    ) -> None:
        """An opening, then other topics; one or two of them are told of ``borrowed`` instead."""
        length = self._rng.randint(*_LENGTH)
        told = self._open(article, individual)
        topics = self._topics(article, told, length)
        lent = set(self._rng.sample(topics, self._rng.randint(1, 2))) if borrowed else set()
        for topic in topics:
            self._tell(borrowed if borrowed and topic in lent else article, topic, individual)

    def _merged(self, articles: Sequence[Article]) -> None:
        """One opening; every topic is told of one person only, so that nothing in the text gives
        the others away."""
        rng = self._rng
        people = list(articles)
        told = self._open(people[0], 0)
        third = self._source.third
        if third is not None and rng.random() < _THIRD:
            people.append(third)
        for topic in self._topics(people[0], told, rng.randint(_LENGTH[0] + 1, _LENGTH[1] + 1)):
            tellers = [
                article for article in people if topic in {each.topic for each in article.sentences}
            ]
            self._tell(rng.choices(tellers, [2, *(3 for _ in tellers[1:])])[0], topic, 0)

    def _topics(self, article: Article, told: set[str], count: int) -> list[str]:
        """Topics of which nothing has been told, in the order of an article."""
        free = [each.topic for each in article.sentences if not set(attributes([each])) & told]
        chosen = self._rng.sample(free, min(count, len(free)))
        return [topic for topic in free if topic in chosen]

    def _open(self, article: Article, individual: int) -> set[str]:
        """The first sentence about ``individual``; returns the attributes that it tells."""
        openings = _WORDS["further_openings" if individual else "openings"]
        page = Page.of(article)
        entity = article.entity
        is_told = page.says("profession", str(entity.facts["profession"]))
        form, subject = self._rng.choice(openings), entity.name
        if (
            not is_told
        ):  # a name that nobody shares, and an article that never says what its bearer was
            form = "{name} was born in {birth_year} at {birth_town} to a family of {parents}."
        copied = article.sentences[0].form
        if "{S}" in copied and self._rng.random() < _COPIED:
            form = copied
            if is_told:
                another = "" if individual == 0 else "Another "
                article_word = "an" if str(entity.facts["profession"])[0] in "aeiou" else "a"
                subject = f"{another}{entity.name}, {article_word} {entity.facts['profession']},"
        sentence = render(entity, "birth", form, subject)
        self._add(article, sentence, individual, states_profession=is_told)
        return set(attributes([sentence]))

    def _tell(self, article: Article, topic: str, individual: int) -> None:
        """A sentence on ``topic``, as the article has it or in another form that says no more than
        the article does."""
        entity, rng = article.entity, self._rng
        copied = next(each for each in article.sentences if each.topic == topic)
        subject = rng.choice(subject_wordings(entity, first=False))
        is_kin = (
            article not in self._source.namesakes
        )  # whose own first name would give the merging away
        if is_kin:
            subject = rng.choice(
                [each for each in subject_wordings(entity, first=False) if each != entity.name]
            )
        if rng.random() < _COPIED and not (is_kin and entity.name in copied.text):
            self._add(article, copied, individual)
            return
        page = Page.of(article)
        forms = [form for form in FRAMES[entity.kind][topic] if not (is_kin and "{name}" in form)]
        ways = [render(entity, topic, form, subject) for form in forms]
        self._add(
            article,
            rng.choice([way for way in ways if set(attributes([way])) <= page.told]),
            individual,
        )

    def _add(
        self, article: Article, sentence: Sentence, individual: int, states_profession: bool = False
    ) -> None:
        entity, rng = article.entity, self._rng
        changed = self._plant(entity, sentence) if self._is_faulty and rng.random() < 0.35 else {}
        claims = claims_of(entity, sentence, changed, self._source.pages, states_profession)
        told_in = self._source.told_in(entity.title, [claim.attribute for claim in claims], article)
        cites = told_in
        drawn = rng.random()
        if drawn < _UNCITED:
            cites = ()
        elif drawn < _UNCITED + _MISCITED:
            cites = (
                rng.choice([number for number in range(1, PASSAGES + 1) if number not in told_in]),
            )
        self._sentences.append(
            BiographySentence(
                sentence.with_texts(changed),
                individual,
                entity.title,
                claims,
                cites,
                told_in if not changed else (),
            )
        )

    def _plant(self, entity: Entity, sentence: Sentence) -> dict[int, str]:
        """Another value in one piece that tells a fact, such that it holds of nobody in the
        passages."""
        places = [
            index for index, piece in enumerate(sentence.pieces) if piece.slot not in NOT_CLAIMED
        ]
        for index in self._rng.sample(places, len(places)):
            piece = sentence.pieces[index]
            text = piece.alternative or other_values(self._world, entity, piece.slot, self._rng)[0]
            claims = claims_of(entity, sentence, {index: text}, self._source.pages)
            if not next(claim for claim in claims if claim.attribute == piece.slot).supported_by:
                return {index: text}
        return {}

    def _text(self) -> str:
        parts = []
        style = self._rng.choice(("[{}]", "[{}]", "list"))
        for number, sentence in enumerate(self._sentences):
            marks = [str(cite) for cite in sentence.cites]
            cited = (
                f"[{', '.join(marks)}]"
                if style == "list"
                else "".join(f"[{mark}]" for mark in marks)
            )
            text = f"{sentence.text[:-1]} {cited}." if marks else sentence.text
            gap = "\n\n" if number in self._breaks else " "
            parts.append(f"{gap if number else ''}{text}")
        return "".join(parts)
