"""The scores of one response, all read from the same matrix of judgements, and those of a set.

Every denominator is the number of facts, as in the equations of sections 3.1 and 4.1: an irrelevant
fact is not a supported one, and counts against the response (the people of section 4.2 mark it;
``irrelevant`` counts them). A fact without a verdict is in no score; ``worst`` and ``best`` count
it as not supported and as supported.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, Outcome
from lm_factuality.benchmarks.declaration import (
    DIFFERENCE,
    PRECISION,
    SHARE,
    Score,
    bounds_of,
    interval_of,
)
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.scores import statistics
from lm_factuality.scores.statistics import (
    MEAN,
    Aggregation,
    average,
    clustered_stderr,
    defined,
    mean,
)

NO_PAGE = "no page"  # begins the reason of a judgement by an entity of which nothing is known
GAMMA = 10  # facts from which a response is not too short (Min et al., 2023)
BiographyKind = Literal[
    "one_bio_one_entity", "one_bio_many_entities", "many_bios_many_entities", "other"
]


@dataclass(frozen=True)
class Scores:
    """The scores of a response with facts.

    Those read from groups are None if the facts could not be grouped. Then ``d_factscore_worst`` is
    0 and ``d_factscore_best`` that of FActScore.
    """

    facts: int
    factscore: float | None
    factscore_worst: float
    factscore_best: float
    factscore_penalised: float | None
    d_factscore: float | None
    d_factscore_worst: float
    d_factscore_best: float
    difference: float | None
    """FActScore minus D-FActScore over the facts that have a verdict in both, so never below 0.
    Under ``protocol: code`` the difference of the scores as they are."""

    num_biographies: int | None
    num_entities: int
    """The entities that facts are attributed to (see `attributed`)."""

    kind: BiographyKind | None
    """The type of section 2.4. ``other`` is what it does not name: no entity, or several
    biographies of one."""

    irrelevant: int
    unscored: int
    """Facts without a verdict in FActScore."""

    unscored_grouped: int
    """Facts without a verdict in D-FActScore."""

    candidates: int
    """The entities to link with."""

    without_page: int
    """The candidates without a page."""

    @property
    def facts_per_response(self) -> int:
        return self.facts

    @property
    def one_bio_many_entities(self) -> float | None:
        """1 if people are merged, 0 if not; None if the facts could not be grouped."""
        return None if self.kind is None else float(self.kind == "one_bio_many_entities")


def score(judged: JudgedBiography, protocol: str = "paper") -> Scores | None:
    """Score a response.

    Under ``protocol: code`` the groups lack the first fact. So D-FActScore is over the facts in
    groups, a group without any counts among the biographies, and a response without a fact in a
    group has no D-FActScore.

    Returns:
        The scores, or None if the response has no facts.
    """
    if not judged.facts:
        return None
    whole = [of_any(row) for row in judged.matrix]
    grouped_by_fact = of_groups(judged)
    grouped = list(grouped_by_fact.values())
    plain, plain_worst, plain_best = share(whole)
    linked, linked_worst, linked_best = share(grouped) if grouped else (None, 0.0, plain_best)
    if protocol == "code":
        gap = None if plain is None or linked is None else plain - linked
    else:
        pairs = [(whole[fact], outcome) for fact, outcome in grouped_by_fact.items()]
        gap = average(
            anywhere == "supported" != own
            for anywhere, own in pairs
            if "unscored" not in (anywhere, own)
        )
    entities = len({entity for entity in attributed(judged, protocol) if entity is not None})
    biographies = len(judged.groups) or None
    columns = zip(*judged.matrix, strict=True)
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
        num_biographies=biographies,
        num_entities=entities,
        kind=None if biographies is None else kind_of(biographies, entities),
        irrelevant=whole.count("irrelevant"),
        unscored=whole.count("unscored"),
        unscored_grouped=grouped.count("unscored") if grouped else len(whole),
        candidates=len(judged.entities),
        without_page=sum(all(map(is_without_page, column)) for column in columns),
    )


def length_penalty(facts: int) -> float:
    """Return exp(1 - gamma / facts) below gamma = 10 facts, else 1 (Min et al., 2023)."""
    return 1.0 if facts >= GAMMA else math.exp(1 - GAMMA / facts)


def of_any(row: Sequence[Judgement]) -> Outcome:
    """Return what all pages together say of a fact.

    It is supported if any page supports it, and unscored if one has no verdict, for it might have.
    It is irrelevant if most of the others say so, not supported if no candidate has a page, and
    unscored without any candidate.
    """
    outcomes = Counter(judgement.outcome for judgement in row if not is_without_page(judgement))
    if outcomes["supported"]:
        return "supported"
    if outcomes["unscored"] or not row:
        return "unscored"
    return "irrelevant" if outcomes["irrelevant"] > outcomes["not_supported"] else "not_supported"


def of_groups(judged: JudgedBiography) -> dict[int, Outcome]:
    """Return what the page of its individual's entity says of each fact, in the order of groups.

    Where the individual has no entity a fact is not supported, or unscored if a page that might be
    the one has no verdict.
    """
    outcomes: dict[int, Outcome] = {}
    for fact, entity in entity_by_fact(judged).items():
        row = judged.matrix[fact]
        outcome = of_any(row) if entity is None else row[entity].outcome
        is_of_nobody = entity is None and outcome == "supported"
        outcomes[fact] = "not_supported" if is_of_nobody else outcome
    return outcomes


def entity_by_fact(judged: JudgedBiography) -> dict[int, int | None]:
    """Return the entity of each fact that is in a group, in the order of groups."""
    entities: dict[int, int | None] = {}
    for group, entity in zip(judged.groups, judged.links, strict=True):
        entities |= dict.fromkeys(group, entity)
    return entities


def share(outcomes: Sequence[Outcome]) -> tuple[float | None, float, float]:
    """Return supported facts over those with a verdict, and over all at worst and at best."""
    total = len(outcomes)
    supported = outcomes.count("supported")
    unscored = outcomes.count("unscored")
    value = supported / (total - unscored) if total > unscored else None
    return value, supported / total, (supported + unscored) / total


def attributed(judged: JudgedBiography, protocol: str = "paper") -> list[int | None]:
    """Return the entity that each fact is from (section 2.4).

    Among those whose pages support it, this is its own individual's, else that of another
    individual, else the one retrieved first. Under ``protocol: code`` it is the one that supports
    most facts of the response; of equals the one that supports the earliest fact, then the first in
    the alphabet.
    """
    supporting = [
        [entity for entity, cell in enumerate(row) if cell.outcome == "supported"]
        for row in judged.matrix
    ]
    if protocol == "code":
        by_title = [sorted(entities, key=judged.entities.__getitem__) for entities in supporting]
        # Equals stay in the order of counting.
        commonest = [entity for entity, _ in Counter(chain.from_iterable(by_title)).most_common()]
        return [min(entities, key=commonest.index, default=None) for entities in supporting]
    own = entity_by_fact(judged)
    return [
        min(
            entities,
            key=lambda entity: (entity != own.get(fact), entity not in judged.links, entity),
            default=None,
        )
        for fact, entities in enumerate(supporting)
    ]


def kind_of(biographies: int, entities: int) -> BiographyKind:
    if entities > 1:
        return "one_bio_many_entities" if biographies == 1 else "many_bios_many_entities"
    return "one_bio_one_entity" if biographies == entities == 1 else "other"


def is_without_page(judgement: Judgement) -> bool:
    """Whether the entity has no page, so that nobody was asked."""
    return judgement.reason.startswith(NO_PAGE) and not judgement.evidence


def why_unscored(judged: JudgedBiography, scores: Scores | None) -> str | None:
    """Return why a response that is no abstention has not all scores; None if it has."""
    if judged.ungrouped is not None:
        return f"not grouped: {judged.ungrouped}"
    if scores is not None and scores.factscore is None:
        return "no fact has a verdict"
    if scores is not None and scores.d_factscore is None:
        return (
            "no fact in a group has a verdict" if any(judged.groups) else "no fact left in a group"
        )
    return judged.problem


_BIOGRAPHIES = "individuals that a reader sees in a response"
_ENTITIES = "people about whom a response says something true"
_MERGED = "responses with one biography of several entities"
D_FACTSCORE = Score("d_factscore", MEAN, PRECISION, "D-FActScore")
_FACTSCORE = Score("factscore", MEAN, PRECISION, "FActScore")
SCORES = (
    D_FACTSCORE,
    _FACTSCORE,
    Score(
        "difference",
        MEAN,
        DIFFERENCE,
        "Gap",
        False,
        100.0,
        1,
        "FActScore minus D-FActScore",
    ),
    Score("num_biographies", MEAN, None, "Biographies", None, 1, 2, _BIOGRAPHIES),
    Score("num_entities", MEAN, None, "Entities", None, 1, 2, _ENTITIES),
    Score("one_bio_many_entities", MEAN, SHARE, "People merged", False, note=_MERGED),
    Score("facts_per_response", MEAN, None, "Facts a response", None, 1, 1),
    Score("respond_ratio", MEAN, SHARE, "Answered"),
    Score("factscore_penalised", MEAN, PRECISION),
    *_FACTSCORE.bounds(),
    *D_FACTSCORE.bounds(),
    Score("unscored", Aggregation(statistics.how_many), higher=False),
)
MEANS = (  # of `Scores`, in the order of tables
    *("factscore", "factscore_penalised", "d_factscore", "difference"),
    *("num_biographies", "num_entities", "facts_per_response", "one_bio_many_entities"),
)
_TOTALS = ("facts", "irrelevant", "unscored", "unscored_grouped", "candidates", "without_page")


def row_metrics(judged: JudgedBiography, protocol: str = "paper") -> dict[str, Any]:
    """Return a response's part in every mean; None where it has none.

    At ``worst`` what has no verdict is not supported, at ``best`` it is, a whole response too. An
    abstention is in neither.
    """
    scores = score(judged, protocol)
    unscored = why_unscored(judged, scores)
    metrics = {name: getattr(scores, name, None) for name in MEANS}
    bounds = bounds_of("factscore", 0.0, 1.0) | bounds_of("d_factscore", 0.0, 1.0)
    for name, extreme in bounds.items():
        metrics[name] = None if judged.abstained else getattr(scores, name, extreme)
    # Of a model that never ended thinking it is not known whether there is an answer.
    metrics["respond_ratio"] = None if unscored == UNFINISHED else not judged.abstained
    return {**to_outcomes(metrics, judged.generation.name), "unscored": unscored}


def to_outcomes(
    metrics: Mapping[str, float | None], cluster: str
) -> dict[str, statistics.Outcome | None]:
    """Return each number that is not None with the cluster of its response."""
    return {
        name: None if value is None else statistics.Outcome(value, cluster)
        for name, value in metrics.items()
    }


def summarise(biographies: Sequence[JudgedBiography], protocol: str = "paper") -> dict[str, Any]:
    """Return the scores of a set, as JSON. What is not defined is null.

    Returns:
        Each of ``MEANS`` and ``respond_ratio`` as `means_of` has it; how many responses abstain or
        are unscored, and why; facts by outcome; responses by type; and ``without_page``: how many
        ``candidates`` have no page, and of how many ``responses`` none has.
    """
    rows = [row_metrics(judged, protocol) for judged in biographies]
    totals: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    without_page = 0
    for scores in filter(None, (score(judged, protocol) for judged in biographies)):
        totals.update({name: getattr(scores, name) for name in _TOTALS})
        if scores.kind is not None:
            kinds[scores.kind] += 1
        without_page += 0 < scores.candidates == scores.without_page
    reasons: Counter[str] = Counter()
    for row in rows:
        reason = row["unscored"]
        if reason is not None:
            # Of a long reason what is not particular to one response.
            reasons[reason.split(": ", 1)[0] if len(reason) > 60 else reason] += 1
    return {
        **means_of(rows, (*MEANS, "respond_ratio"), SCORES),
        "responses": len(rows),
        "abstained": sum(judged.abstained for judged in biographies),
        "unscored": {
            "responses": reasons.total(),
            "facts": totals["unscored"],
            "facts_in_groups": totals["unscored_grouped"],
            "reasons": dict(reasons.most_common()),
        },
        "facts": totals["facts"],
        "irrelevant_facts": totals["irrelevant"],
        "types": dict(kinds.most_common()),
        "candidates": totals["candidates"],
        "without_page": {"candidates": totals["without_page"], "responses": without_page},
    }


def means_of(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], scores: Sequence[Score]
) -> dict[str, dict[str, Any]]:
    """Return the means of metrics over all rows.

    Args:
        rows: The metrics of each response.
        names: The metrics to average.
        scores: The scores of the benchmark, whose measures bound the intervals.

    Returns:
        By name the ``value``, the ``stderr`` clustered by name, the 95% ``interval``, the number of
        ``responses``, and ``worst`` and ``best`` where rows have them.
    """
    measures = {score.name: score.measure for score in scores}
    means: dict[str, dict[str, Any]] = {}
    for name in names:
        values = [row[name] for row in rows]
        value = mean(values)
        stderr = clustered_stderr(values)
        responses = len(values) - values.count(None)
        interval = interval_of(measures.get(name), value, stderr, responses)
        means[name] = {
            "value": defined(value),
            "stderr": defined(stderr),
            "interval": interval and list(interval),
            "responses": responses,
        }
        for bound, end in bounds_of(name, "worst", "best").items():
            if rows and bound in rows[0]:
                means[name][end] = defined(mean([row[bound] for row in rows]))
    return means
