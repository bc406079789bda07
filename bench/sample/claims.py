"""Says what sentences of made-up biographies claim, and of which entities the claims hold.

``bench.sample.biographies`` collects the claims while it writes the biographies, and
``bench.sample.build`` writes them to ``sample_ambigbio_truth.jsonl`` with the true scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench.sample.articles import Article
from bench.sample.render import Replacements, Sentence
from bench.sample.world import Entity
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import read_lines, to_model

Kind: TypeAlias = Literal["one", "merged", "apart", "leaking", "errors", "abstained"]
"""How a made-up answer mixes people and errors, as ``bench.sample.biographies`` explains."""

# A claim can hold only together with the claim that it is about. Two namesakes can both have been
# praised, but by different teachers.
_SUBJECT_OF: Mapping[str, str] = load_yaml(__package__, "biographies.yaml")["about"]


@dataclass(frozen=True)
class Claim:
    """One piece of information in a sentence."""

    attribute: str
    """What it tells of an entity."""

    words: str
    """The words of the sentence that tell it."""

    supported_by: tuple[str, ...]
    """The titles of the pages that say the same, which are none if an error was planted."""


@dataclass(frozen=True)
class Page:
    """What a judge can read about an entity."""

    entity: Entity
    """The entity."""

    text: str
    """The text of the page, without its title."""

    attributes: frozenset[str]
    """The attributes that the text tells."""

    @classmethod
    def from_article(cls, article: Article) -> Page:
        """Return the page of an article, or of a part of it."""
        return cls(article.entity, article.body, frozenset(told_attributes(*article.sentences)))

    def says_all(self, values: Mapping[str, str]) -> bool:
        """Return whether the page says that attributes have these values."""
        return all(self.says(attribute, value) for attribute, value in values.items())

    def says(self, attribute: str, value: str) -> bool:
        """Return whether the page says that an attribute has a value.

        The title of a page can tell a profession too.
        """
        if str(self.entity.facts.get(attribute)) != value:
            return False
        if attribute == "profession":
            return value in self.text or value in self.entity.title
        return attribute in self.attributes


@dataclass(frozen=True)
class BiographySentence:
    """A sentence of an answer."""

    text: str
    """The sentence without its citations."""

    individual: int | None
    """The individual whom a reader takes it to describe, from 0, or None for a remark."""

    entity: str | None
    """The title of the entity whose facts it tells, or None for a remark."""

    claims: tuple[Claim, ...] = ()
    """What it claims."""

    cites: tuple[int, ...] = ()
    """The numbers of the passages that it cites, from 1."""

    told_in: tuple[int, ...] = ()
    """The numbers of the passages that support it, from 1."""


@dataclass(frozen=True)
class Biography:
    """A made-up answer to the question about a name, and what is true of it."""

    index: str
    """Its place in the file, from 0."""

    name: str
    """The name."""

    kind: Kind
    """How it mixes people and errors."""

    sentences: tuple[BiographySentence, ...]
    """Its sentences, which are none if the model abstains."""

    passages: tuple[Mapping[str, str], ...] = ()
    """The ``title`` and the ``text`` of each passage that the model was given."""

    output: str = ""
    """The text of the answer, with citations."""

    @property
    def question(self) -> str:
        """The question that it answers."""
        return f"Tell me a bio of {self.name}"

    @property
    def abstained(self) -> bool:
        """Whether the model says that it found nothing."""
        return self.kind == "abstained"

    def to_question(self) -> dict[str, Any]:
        """Return the row of ALCE's format that asks a model."""
        return {"question": self.question, "docs": [dict(passage) for passage in self.passages]}

    def to_row(self) -> dict[str, Any]:
        """Return the row of ALCE's format that holds the answer."""
        return {"index": self.index, **self.to_question(), "output": self.output}

    def to_truth(self) -> dict[str, Any]:
        """Return the line of the file that holds what is true of the answer."""
        return {
            "index": self.index,
            "name": self.name,
            "kind": self.kind,
            "abstained": self.abstained,
            **true_scores(self.sentences),
            "sentences": [asdict(sentence) for sentence in self.sentences],
        }


def read_biographies(path: Path) -> list[Biography]:
    """Read ``sample_ambigbio_truth.jsonl``, which has no passages and no outputs.

    Raises:
        DataError: The file has something else.
    """
    return read_lines(path, partial(to_model, Biography), "expected made-up biographies")


def true_scores(sentences: Sequence[BiographySentence]) -> dict[str, float | int | None]:
    """Return the scores that a perfect judge gives to an answer.

    Returns:
        ``factscore``: the share of claims that hold of any entity. ``d_factscore``: the share of
        claims that hold of the entity of their individual, which is the one with most of the
        individual's claims (equation 1 of the paper). Both are from 0 to 1, or None for an answer
        without claims. ``num_biographies``, ``num_entities`` and ``facts``: the numbers of
        individuals, of entities whose facts are told, and of claims.
    """
    claims = [claim for sentence in sentences for claim in sentence.claims]
    entities = {sentence.entity for sentence in sentences if sentence.entity is not None}
    claims_by_individual: dict[int, list[Claim]] = {}
    for sentence in sentences:
        if sentence.individual is not None:
            claims_by_individual.setdefault(sentence.individual, []).extend(sentence.claims)

    num_supported = sum(bool(claim.supported_by) for claim in claims)
    num_of_entity = sum(map(_claims_of_best_entity, claims_by_individual.values()))
    return {
        "factscore": num_supported / len(claims) if claims else None,
        "d_factscore": num_of_entity / len(claims) if claims else None,
        "num_biographies": len(claims_by_individual),
        "num_entities": len(entities),
        "facts": len(claims),
    }


def _claims_of_best_entity(claims: Sequence[Claim]) -> int:
    """Return how many of an individual's claims hold of the entity of which most hold."""
    counts: Counter[str] = Counter()
    for claim in claims:
        counts.update(claim.supported_by)
    return max(counts.values(), default=0)


def told_attributes(*sentences: Sentence) -> set[str]:
    """Return the attributes that sentences tell."""
    pieces = [piece for sentence in sentences for piece in sentence.pieces]
    return {piece.slot for piece in pieces if piece.tells_fact}


def claims_of(
    entity: Entity,
    sentence: Sentence,
    errors: Replacements,
    pages: Sequence[Page],
    states_profession: bool = False,
) -> tuple[Claim, ...]:
    """Return the claims of a sentence.

    A claim holds of the entity of a page if the page says the same, and the same about the subject
    of the claim if the sentence names that.

    Args:
        entity: The entity whose facts the sentence tells.
        sentence: The sentence before errors are planted.
        errors: The wrong words of its pieces.
        pages: The pages of all entities of which claims can hold.
        states_profession: Whether the sentence also claims the entity's profession.
    """
    values: dict[str, str] = {}
    words: dict[str, str] = {}
    if states_profession:
        values["profession"] = words["profession"] = str(entity.facts["profession"])
    for index, piece in enumerate(sentence.pieces):
        if not piece.tells_fact:
            continue
        value = entity.facts[piece.slot]
        if index in errors:
            # A piece about something that holds or does not has words for each of both.
            value = not value if isinstance(value, bool) else errors[index]
        values[piece.slot] = str(value)
        words[piece.slot] = errors.get(index, piece.text)

    claims = []
    for attribute, value in values.items():
        needed = {attribute: value}
        subject = _SUBJECT_OF.get(attribute, "")
        if subject in values:
            needed[subject] = values[subject]
        titles = [page.entity.title for page in pages if page.says_all(needed)]
        claims.append(Claim(attribute, words[attribute], tuple(titles)))
    return tuple(claims)
