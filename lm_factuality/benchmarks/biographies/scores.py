"""The scores of one response, all read from the same matrix of judgements, and those of a set.

Every denominator is the number of facts, as in the equations of sections 3.1 and 4.1: an irrelevant
fact is not a supported one, and counts against the response (the people of section 4.2 mark it;
``irrelevant`` counts them). A fact without a verdict is in no score; ``worst`` and ``best`` count
it as not supported and as supported.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, Outcome
from lm_factuality.benchmarks.declaration import (
    DIFFERENCE,
    PRECISION,
    SHARE,
    Score,
    worst_and_best_of,
)
from lm_factuality.benchmarks.judged import count_reasons
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import JsonObject, Verdict
from lm_factuality.scores import statistics
from lm_factuality.scores.statistics import MEAN, Aggregation, average

NO_PAGE = "no page"  # begins the reason of a judgement by an entity of which nothing is known
GAMMA = 10  # facts from which a response is not too short (Min et al., 2023)
MERGED = "one_bio_many_entities"

BiographyScores: TypeAlias = JsonObject
"""What a record says of a response with facts, by the names that `score` lists."""

D_FACTSCORE = Score("d_factscore", MEAN, PRECISION, "D-FActScore")
FACTSCORE = Score("factscore", MEAN, PRECISION, "FActScore")
SCORES: tuple[Score, ...] = (
    D_FACTSCORE,
    FACTSCORE,
    Score(
        "difference",
        MEAN,
        DIFFERENCE,
        "Gap",
        False,
        note="FActScore minus D-FActScore",
    ),
    Score(
        "num_biographies",
        MEAN,
        None,
        "Biographies",
        None,
        1,
        2,
        "individuals that a reader sees in a response",
    ),
    Score(
        "num_entities",
        MEAN,
        None,
        "Entities",
        None,
        1,
        2,
        "people about whom a response says something true",
    ),
    Score(
        MERGED,
        MEAN,
        SHARE,
        "People merged",
        False,
        note="responses with one biography of several entities",
    ),
    Score("facts_per_response", MEAN, None, "Facts a response", None, 1, 1),
    Score("respond_ratio", MEAN, SHARE, "Answered"),
    Score("factscore_penalised", MEAN, PRECISION),
    *FACTSCORE.worst_and_best(),
    *D_FACTSCORE.worst_and_best(),
    Score("unscored", Aggregation(statistics.how_many), higher_is_better=False),
)
MEANS = (  # in the order of tables
    *("factscore", "factscore_penalised", "d_factscore", "difference"),
    *("num_biographies", "num_entities", "facts_per_response", MERGED),
)
_EXTREMES = worst_and_best_of("factscore", 0.0, 1.0) | worst_and_best_of("d_factscore", 0.0, 1.0)


def score_biography(judged: JudgedBiography, protocol: str = "paper") -> BiographyScores | None:
    """Score a response.

    Under ``protocol: code`` the groups lack the first fact. So D-FActScore is over the facts in
    groups, a group without any counts among the biographies, and a response without a fact in a
    group has no D-FActScore.

    Returns:
        None if the response has no facts, else:

        - ``facts``: how many it has, of which so many are ``irrelevant``, have no verdict in
          FActScore (``unscored``) and none in D-FActScore (``unscored_grouped``)
        - ``factscore`` and ``d_factscore``, and both with ``_worst`` and ``_best``. If the facts
          could not be grouped, D-FActScore is None, 0 at worst, and at best that of FActScore.
        - ``factscore_penalised``: with the penalty for few facts
        - ``difference``: FActScore minus D-FActScore over the facts that have a verdict in both, so
          never below 0. Under ``protocol: code`` the difference of the scores as they are.
        - ``num_biographies`` (None if not grouped), and ``num_entities``, those that facts are
          attributed to (see `attributed`)
        - ``kind``: the type of section 2.4, see `kind_of`
        - ``candidates``: the entities to link with, of which so many are ``without_page``
    """
    if not judged.facts:
        return None
    whole = [outcome_by_any_page(row) for row in judged.matrix]
    grouped_by_fact = outcomes_by_linked_entity(judged)
    grouped = list(grouped_by_fact.values())
    plain = _shares("factscore", whole)
    factscore = plain["factscore"]
    if grouped:
        linked = _shares("d_factscore", grouped)
    else:
        linked = {
            "d_factscore": None,
            **worst_and_best_of("d_factscore", 0.0, plain["factscore_best"]),
        }
    d_factscore = linked["d_factscore"]
    if protocol == "code":
        gap = None if factscore is None or d_factscore is None else factscore - d_factscore
    else:
        pairs = [(whole[fact], outcome) for fact, outcome in grouped_by_fact.items()]
        gap = average(
            anywhere == "supported" != in_group
            for anywhere, in_group in pairs
            if "unscored" not in (anywhere, in_group)
        )
    facts = len(judged.facts)
    entities = len(set(attributed_entities(judged, protocol)) - {None})
    biographies = len(judged.groups) or None
    columns = zip(*judged.matrix, strict=True)
    return {
        "facts": facts,
        **plain,
        "factscore_penalised": None if factscore is None else factscore * length_penalty(facts),
        **linked,
        "difference": gap,
        "num_biographies": biographies,
        "num_entities": entities,
        "kind": biographies and response_type(biographies, entities),
        "irrelevant": whole.count("irrelevant"),
        "unscored": whole.count("unscored"),
        "unscored_grouped": grouped.count("unscored") if grouped else facts,
        "candidates": len(judged.entities),
        "without_page": sum(all(map(is_without_page, column)) for column in columns),
    }


def _shares(name: str, outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Return supported facts over those with a verdict, and over all at worst and at best."""
    total = len(outcomes)
    supported = outcomes.count("supported")
    unscored = outcomes.count("unscored")
    value = supported / (total - unscored) if total > unscored else None
    return {
        name: value,
        **worst_and_best_of(name, supported / total, (supported + unscored) / total),
    }


def length_penalty(facts: int) -> float:
    """Return exp(1 - gamma / facts) below gamma = 10 facts, else 1 (Min et al., 2023)."""
    return 1.0 if facts >= GAMMA else math.exp(1 - GAMMA / facts)


def outcome_by_any_page(row: Sequence[Judgement]) -> Outcome:
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


def is_without_page(judgement: Judgement) -> bool:
    """Whether the entity has no page, so that nobody was asked."""
    return judgement.reason.startswith(NO_PAGE) and not judgement.evidence


def outcomes_by_linked_entity(judged: JudgedBiography) -> dict[int, Outcome]:
    """Return what the page of its individual's entity says of each fact, in the order of groups.

    Where the individual has no entity a fact is not supported, or unscored if a page that might be
    the one has no verdict.
    """
    outcomes: dict[int, Outcome] = {}
    for fact, entity in linked_entities(judged).items():
        row = judged.matrix[fact]
        outcome = outcome_by_any_page(row) if entity is None else row[entity].outcome
        is_of_nobody = entity is None and outcome == "supported"
        outcomes[fact] = "not_supported" if is_of_nobody else outcome
    return outcomes


def linked_entities(judged: JudgedBiography) -> dict[int, int | None]:
    """Return the entity of each fact that is in a group, in the order of groups."""
    entities: dict[int, int | None] = {}
    for group, entity in zip(judged.groups, judged.links, strict=True):
        entities |= dict.fromkeys(group, entity)
    return entities


def attributed_entities(judged: JudgedBiography, protocol: str = "paper") -> list[int | None]:
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
    linked = linked_entities(judged)
    return [
        min(
            entities,
            key=lambda entity: (entity != linked.get(fact), entity not in judged.links, entity),
            default=None,
        )
        for fact, entities in enumerate(supporting)
    ]


def response_type(biographies: int, entities: int) -> str:
    """Return the type of a response (section 2.4).

    ``other`` is what the paper does not name: no entity, or several biographies of one.
    """
    if entities > 1:
        return MERGED if biographies == 1 else "many_bios_many_entities"
    return "one_bio_one_entity" if biographies == entities == 1 else "other"


def unscored_reason(judged: JudgedBiography, scores: BiographyScores | None) -> str | None:
    """Return why a response that is no abstention has not all scores; None if it has."""
    if judged.ungrouped is not None:
        return f"not grouped: {judged.ungrouped}"
    if scores is None:
        return judged.problem
    if scores["factscore"] is None:
        return "no fact has a verdict"
    if scores["d_factscore"] is None:
        return (
            "no fact in a group has a verdict" if any(judged.groups) else "no fact left in a group"
        )
    return judged.problem


def row_metrics(record: Verdict) -> JsonObject:
    """Return a response's part in every mean; None where it has none.

    At ``worst`` what has no verdict is not supported, at ``best`` it is, a whole response too. An
    abstention is in neither.
    """
    unscored = record["unscored"]
    values = {
        **({} if record["abstained"] else _EXTREMES),
        **metrics_from_scores(record["scores"]),
        # Of a model that never ended thinking it is not known whether there is an answer.
        "respond_ratio": None if unscored == UNFINISHED else not record["abstained"],
    }
    metrics = {name: values.get(name) for name in (*MEANS, *_EXTREMES, "respond_ratio")}
    return {**clustered_outcomes(metrics, record["generation"]["name"]), "unscored": unscored}


def metrics_from_scores(scores: BiographyScores | None) -> JsonObject:
    """Return the scores of a response, if it has any, by the names of metrics."""
    if scores is None:
        return {}
    is_merged = None if scores["kind"] is None else scores["kind"] == MERGED
    return {**scores, "facts_per_response": scores["facts"], MERGED: is_merged}


def clustered_outcomes(
    metrics: Mapping[str, float | None], cluster: str
) -> dict[str, statistics.Outcome | None]:
    """Return each number that is not None with the cluster of its response."""
    return {
        name: None if value is None else statistics.Outcome(value, cluster)
        for name, value in metrics.items()
    }


def bootstrapped_means(
    rows: Sequence[Mapping[str, statistics.Outcome | None]],
) -> tuple[JsonObject, JsonObject]:
    """Return the mean of each metric, and its 95% interval when whole clusters are drawn again."""
    means = {}
    intervals = {}
    for name in rows[0]:
        outcomes = [row[name] for row in rows]
        ends = statistics.bootstrap_interval(outcomes, resamples=2000)
        means[name] = statistics.defined(statistics.mean(outcomes))
        intervals[name] = [statistics.defined(end) for end in ends]
    return means, intervals


def count_responses(records: Sequence[Verdict]) -> JsonObject:
    """Count what no score tells of a set.

    Returns:
        Why responses are unscored, of a long reason what is not particular to one response; how
        many abstain; facts, and those that are irrelevant or have no verdict; responses by type;
        and ``without_page``: how many ``candidates`` have no page, and of how many ``responses``
        none has.
    """
    scored = [record["scores"] for record in records if record["scores"]]

    def total(name: str) -> int:
        return sum(scores[name] for scores in scored)

    without_page = sum(0 < scores["candidates"] == scores["without_page"] for scores in scored)
    reasons = [record["unscored"] or "" for record in records]
    short = [text.split(": ", 1)[0] if len(text) > 60 else text for text in reasons]
    return {
        "unscored": count_reasons(text or None for text in short),
        "abstained": sum(record["abstained"] for record in records),
        "facts": total("facts"),
        "irrelevant_facts": total("irrelevant"),
        "unscored_facts": total("unscored"),
        "unscored_facts_in_groups": total("unscored_grouped"),
        "types": count_reasons(scores["kind"] for scores in scored),
        "candidates": total("candidates"),
        "without_page": {"candidates": total("without_page"), "responses": without_page},
    }
