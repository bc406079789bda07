"""What a sentence claims, of whom its claims hold, and made-up answers whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench.sample.articles import Article
from bench.sample.render import Sentence
from bench.sample.world import Entity
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import read_lines, to_model

Kind: TypeAlias = Literal["one", "merged", "apart", "leaking", "errors", "abstained"]

# What a claim is about: who says that Ada Berg praised her first attempts says nothing of a
# namesake whom somebody else praised.
ABOUT: Mapping[str, str] = load_yaml(__package__, "biographies.yaml")["about"]
NOT_CLAIMED = ("", "pronoun", "link")


@dataclass(frozen=True)
class Claim:
    """One piece of information: the ``words`` of the sentence that tell ``attribute``, and the
    titles of those of whom it holds in the encyclopedia (of nobody, where an error was planted)."""

    attribute: str
    words: str
    supported_by: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """An article as a judge can know it: whose it is, and which attributes it tells."""

    entity: Entity
    text: str
    told: frozenset[str]

    @classmethod
    def of(cls, article: Article) -> Page:
        return cls(article.entity, article.body, frozenset(attributes(article.sentences)))

    def says(self, attribute: str, value: str) -> bool:
        """Whether ``attribute`` is told and is ``value``; a profession may be told by the title
        alone."""
        entity = self.entity
        if attribute == "profession":
            return entity.facts["profession"] == value and (
                value in self.text or value in entity.title
            )
        return attribute in self.told and str(entity.facts[attribute]) == value


@dataclass(frozen=True)
class BiographySentence:
    """A sentence of an answer, without its citations. A reader takes it to be about ``individual``
    (counted from 0); it was written from the facts of ``entity`` (a title). Both are None for a
    remark that says nothing of anybody. ``cites`` are the passages that it cites, ``told_in`` those
    that support it; both count from 1."""

    text: str
    individual: int | None
    entity: str | None
    claims: tuple[Claim, ...] = ()
    cites: tuple[int, ...] = ()
    told_in: tuple[int, ...] = ()


@dataclass(frozen=True)
class Biography:
    """An answer, and what is true of it; ``index`` is its place in the file."""

    index: str
    name: str
    kind: Kind
    sentences: tuple[BiographySentence, ...]
    passages: tuple[Mapping[str, str], ...] = ()
    output: str = ""

    @property
    def question(self) -> str:
        return f"Tell me a bio of {self.name}"

    @property
    def abstained(self) -> bool:
        return self.kind == "abstained"

    def to_question(self) -> dict[str, Any]:
        """The row of ALCE's format that asks a model."""
        return {"question": self.question, "docs": [dict(passage) for passage in self.passages]}

    def to_row(self) -> dict[str, Any]:
        """The row of ALCE's format that holds an answer."""
        return {"index": self.index, **self.to_question(), "output": self.output}

    def to_truth(self) -> dict[str, Any]:
        """The line of the truth file; scores are shares from 0 to 1, null for an answer without
        facts."""
        about = {
            "index": self.index,
            "name": self.name,
            "kind": self.kind,
            "abstained": self.abstained,
        }
        return {
            **about,
            **true_scores(self.sentences),
            "sentences": [asdict(sentence) for sentence in self.sentences],
        }


def read_biographies(path: Path) -> list[Biography]:
    """Those of ``sample_ambigbio_truth.jsonl``, without passages and output."""
    return read_lines(path, partial(to_model, Biography), "expected made-up biographies")


def true_scores(sentences: Sequence[BiographySentence]) -> dict[str, float | int | None]:
    """``factscore``: the share of claims that hold of anybody in the passages; ``d_factscore``: of
    the one entity that holds most claims of their individual (equation 1 of the paper); numbers of
    biographies, of entities written about, and of claims (``facts``)."""
    claims = [claim for sentence in sentences for claim in sentence.claims]
    individuals = dict.fromkeys(
        each.individual for each in sentences if each.individual is not None
    )
    held = 0
    for individual in individuals:
        own = [
            claim for each in sentences if each.individual == individual for claim in each.claims
        ]
        titles = {title for claim in own for title in claim.supported_by}
        held += max(
            (sum(title in claim.supported_by for claim in own) for title in titles), default=0
        )
    return {
        "factscore": sum(bool(claim.supported_by) for claim in claims) / len(claims)
        if claims
        else None,
        "d_factscore": held / len(claims) if claims else None,
        "num_biographies": len(individuals),
        "num_entities": len({each.entity for each in sentences if each.entity is not None}),
        "facts": len(claims),
    }


def attributes(sentences: Sequence[Sentence]) -> list[str]:
    """The attributes that ``sentences`` tell, in order."""
    return [
        piece.slot
        for sentence in sentences
        for piece in sentence.pieces
        if piece.slot not in NOT_CLAIMED
    ]


def claims_of(
    entity: Entity,
    sentence: Sentence,
    changed: Mapping[int, str],
    pages: Sequence[Page],
    states_profession: bool = False,
) -> tuple[Claim, ...]:
    """The claims of ``sentence``, rendered from the facts of ``entity`` with other words in the
    pieces ``changed``.

    A claim holds of the one on a page if the page says the same, also of what the claim is about.
    """
    said: dict[str, str] = {}
    words: dict[str, str] = {}
    if states_profession:
        said["profession"] = words["profession"] = str(entity.facts["profession"])
    for index, piece in enumerate(sentence.pieces):
        if piece.slot not in NOT_CLAIMED:
            true = entity.facts[piece.slot]
            wrong: object = (not true) if isinstance(true, bool) else changed.get(index)
            said[piece.slot] = str(wrong if index in changed else true)
            words[piece.slot] = changed.get(index, piece.text)
    claims = []
    for attribute, value in said.items():
        needed = {attribute: value}
        if (anchor := ABOUT.get(attribute, "")) in said:
            needed[anchor] = said[anchor]
        holders = tuple(
            page.entity.title for page in pages if all(page.says(*item) for item in needed.items())
        )
        claims.append(Claim(attribute, words[attribute], holders))
    return tuple(claims)
