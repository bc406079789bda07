"""The scores of one response, all read from the same matrix of judgements.

Every denominator is the number of facts, as in the equations of sections 3.1 and 4.1: an irrelevant
fact is not a supported one, and counts against the response (the people of section 4.2 mark it;
``irrelevant`` counts them). A fact without a verdict is in no score; ``worst`` and ``best`` count
it as not supported and as supported."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, Outcome

NO_PAGE = "no page"  # begins the reason of a judgement by an entity of which nothing is known
GAMMA = 10  # facts from which a response is not too short (Min et al., 2023)
BiographyKind = Literal[
    "one_bio_one_entity", "one_bio_many_entities", "many_bios_many_entities", "other"
]


@dataclass(frozen=True)
class Scores:
    """Of a response with facts. Those read from groups are None if the facts could not be grouped;
    then ``d_factscore_worst`` is 0 and ``d_factscore_best`` that of FActScore. ``num_entities``
    counts the entities that facts are attributed to (see ``attributed``); ``unscored`` the facts
    without a verdict in FActScore, ``unscored_grouped`` in D-FActScore. ``kind`` is the type of
    section 2.4; ``other`` is what it does not name: no entity, or several biographies of one.
    ``difference`` is FActScore minus D-FActScore over the facts that have a verdict in both, so
    never below 0; under ``protocol: code`` of the scores as they are. Of ``candidates`` to link
    with, ``without_page`` have no page."""

    facts: int
    factscore: float | None
    factscore_worst: float
    factscore_best: float
    factscore_penalised: float | None
    d_factscore: float | None
    d_factscore_worst: float
    d_factscore_best: float
    difference: float | None
    num_biographies: int | None
    num_entities: int
    kind: BiographyKind | None
    irrelevant: int
    unscored: int
    unscored_grouped: int
    candidates: int
    without_page: int

    @property
    def facts_per_response(self) -> int:
        return self.facts

    @property
    def one_bio_many_entities(self) -> float | None:
        """1 if people are merged, 0 if not; None if the facts could not be grouped."""
        return None if self.kind is None else float(self.kind == "one_bio_many_entities")


def score(judged: JudgedBiography, protocol: str = "paper") -> Scores | None:
    """The scores of a response; None if it has no facts. Under ``protocol: code`` the groups lack
    the first fact, so D-FActScore is over the facts in groups, a group without any counts among the
    biographies, and a response without a fact in a group has no D-FActScore; a fact is attributed
    to the entity that supports most facts of the response."""
    if not judged.facts:
        return None
    whole = [of_any(row) for row in judged.matrix]
    grouped = of_groups(judged)
    plain, plain_worst, plain_best = share(whole)
    linked, linked_worst, linked_best = share(grouped) if grouped else (None, 0.0, plain_best)
    gap = difference(judged)
    if protocol == "code":
        gap = None if plain is None or linked is None else plain - linked
    entities = len({entity for entity in attributed(judged, protocol) if entity is not None})
    bios = len(judged.groups) or None
    return Scores(
        facts=len(judged.facts),
        factscore=plain,
        factscore_worst=plain_worst,
        factscore_best=plain_best,
        factscore_penalised=None if plain is None else plain * length_penalty(len(judged.facts)),
        d_factscore=linked,
        d_factscore_worst=linked_worst,
        d_factscore_best=linked_best,
        difference=gap,
        num_biographies=bios,
        num_entities=entities,
        kind=None if bios is None else kind_of(bios, entities),
        irrelevant=whole.count("irrelevant"),
        unscored=whole.count("unscored"),
        unscored_grouped=grouped.count("unscored") if grouped else len(whole),
        candidates=len(judged.entities),
        without_page=sum(
            all(map(is_without_page, column)) for column in zip(*judged.matrix, strict=True)
        ),
    )


def length_penalty(facts: int) -> float:
    """exp(1 - gamma / facts) below gamma = 10 facts, else 1 (Min et al., 2023)."""
    return 1.0 if facts >= GAMMA else math.exp(1 - GAMMA / facts)


def of_any(row: Sequence[Judgement]) -> Outcome:
    """What all pages together say of a fact: supported if any supports it; unscored if one has no
    verdict, for it might have; irrelevant if most of the others say so; not supported if no
    candidate has a page; unscored without any candidate."""
    outcomes = Counter(judgement.outcome for judgement in row if not is_without_page(judgement))
    if outcomes["supported"]:
        return "supported"
    if outcomes["unscored"] or not row:
        return "unscored"
    return "irrelevant" if outcomes["irrelevant"] > outcomes["not_supported"] else "not_supported"


def of_groups(judged: JudgedBiography) -> list[Outcome]:
    """What the page of its individual's entity says of each fact that is in a group, in the order
    of groups. Where the individual has no entity a fact is not supported, or unscored if a page
    that might be the one has no verdict."""
    found: list[Outcome] = []
    for group, entity in zip(judged.groups, judged.links, strict=True):
        for row in (judged.matrix[fact] for fact in group):
            outcome = of_any(row) if entity is None else row[entity].outcome
            found.append("not_supported" if entity is None and outcome == "supported" else outcome)
    return found


def difference(judged: JudgedBiography) -> float | None:
    """FActScore minus D-FActScore over the facts that have a verdict in both; None if there are
    none."""
    numbers = [fact for group in judged.groups for fact in group]
    pairs = [
        (of_any(judged.matrix[fact]), own)
        for fact, own in zip(numbers, of_groups(judged), strict=True)
    ]
    both = [pair for pair in pairs if "unscored" not in pair]
    lost = sum(anywhere == "supported" != own for anywhere, own in both)
    return lost / len(both) if both else None


def share(outcomes: Sequence[Outcome]) -> tuple[float | None, float, float]:
    """Supported facts over those with a verdict, None if there are none; and over all, at worst and
    at best."""
    supported, unscored, total = (
        outcomes.count("supported"),
        outcomes.count("unscored"),
        len(outcomes),
    )
    scored = total - unscored
    return supported / scored if scored else None, supported / total, (supported + unscored) / total


def attributed(judged: JudgedBiography, protocol: str = "paper") -> list[int | None]:
    """The entity that each fact is from (section 2.4): among those whose pages support it, its own
    individual's; else that of another individual; else the one retrieved first. Under ``protocol:
    code`` the one that supports most facts of the response; of equals the one that supports the
    earliest fact, then the first in the alphabet."""
    own = {
        fact: entity
        for group, entity in zip(judged.groups, judged.links, strict=True)
        for fact in group
    }
    linked = {entity for entity in judged.links if entity is not None}
    alphabet = sorted(range(len(judged.entities)), key=judged.entities.__getitem__)
    counts = Counter(
        entity for row in judged.matrix for entity in alphabet if row[entity].outcome == "supported"
    )
    commonest = {
        entity: place for place, (entity, _) in enumerate(counts.most_common())
    }  # equals stay in the order of counting

    def rank(fact: int, entity: int) -> tuple[int, ...]:
        if protocol == "code":
            return (commonest[entity],)
        return entity != own.get(fact), entity not in linked, entity

    supporting = [
        [entity for entity, each in enumerate(row) if each.outcome == "supported"]
        for row in judged.matrix
    ]
    return [
        min(each, key=partial(rank, fact), default=None) for fact, each in enumerate(supporting)
    ]


def kind_of(biographies: int, entities: int) -> BiographyKind:
    if biographies == 1:
        return (
            "one_bio_many_entities"
            if entities > 1
            else "one_bio_one_entity"
            if entities == 1
            else "other"
        )
    return "many_bios_many_entities" if entities > 1 else "other"


def is_without_page(judgement: Judgement) -> bool:
    """Whether the entity has no page, so that nobody was asked."""
    return judgement.reason.startswith(NO_PAGE) and not judgement.evidence
