"""The scores of one judged biography, and what a set of them reports besides means.

`method` scores every response with this module, and the reports read the names of the scores here.

Every denominator is the number of facts, as in the equations of sections 3.1 and 4.1. An irrelevant
fact is therefore not a supported one and counts against the response. A fact without a verdict is
in no score. The scores ``..._worst`` and ``..._best`` count it as not supported and as supported.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

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

NO_PAGE = "no page"  # The reason of a judgement begins so if the entity has no page.
GAMMA = 10  # Responses with fewer facts than this are penalised (Min et al., 2023).
MERGED = "one_bio_many_entities"
_LONGEST_REASON = 60  # characters
_RESAMPLES = 2000

BiographyScores: TypeAlias = JsonObject
"""The scores of a response with facts, by the names that `score_biography` lists."""

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
    Score("unscored", Aggregation(statistics.count_present), higher_is_better=False),
)
MEANS = (  # in the order of tables
    *("factscore", "factscore_penalised", "d_factscore", "difference"),
    *("num_biographies", "num_entities", "facts_per_response", MERGED),
)
_EXTREMES = worst_and_best_of("factscore", 0.0, 1.0) | worst_and_best_of("d_factscore", 0.0, 1.0)


def score_biography(judged: JudgedBiography, protocol: str = "paper") -> BiographyScores | None:
    """Compute FActScore, D-FActScore and the counts of one judged biography.

    Args:
        judged: The biography after all steps.
        protocol: ``paper`` or ``code``. Under ``code`` the first fact of a response is in no group,
            as in the authors' code. D-FActScore then leaves this fact out, and a group that has
            no other fact still counts as a biography.

    Returns:
        None if the response has no facts. Otherwise a dict with:

        - ``factscore`` (section 3.1) and ``d_factscore`` (section 4.1), fractions or None, each
          also with ``_worst`` and ``_best``. Without groups ``d_factscore`` is None.
        - ``factscore_penalised``: FActScore times the penalty for few facts.
        - ``difference``: FActScore minus D-FActScore. Under ``paper`` both are taken over the facts
          that have a verdict in both scores.
        - ``num_biographies``: the number of fact groups, or None if there are none.
        - ``num_entities``: the number of entities that `attributed_entities` finds.
        - ``kind``: the response type of section 2.4, or None without groups.
        - ``facts``, and how many of them are ``irrelevant``, have no verdict in FActScore
          (``unscored``), and have none in D-FActScore (``unscored_grouped``).
        - ``candidates``: the number of candidate entities, and how many are ``without_page``.
    """
    if not judged.facts:
        return None
    num_facts = len(judged.facts)
    outcomes = [outcome_by_any_page(row) for row in judged.matrix]
    factscores = _supported_shares("factscore", outcomes)
    factscore = factscores["factscore"]

    # D-FActScore looks at the page of one entity, FActScore at all pages.
    linked_outcomes = outcomes_by_linked_entity(judged)
    linked_values = list(linked_outcomes.values())
    d_factscores: dict[str, float | None] = {
        "d_factscore": None,
        # No grouping can support more facts than FActScore at its best.
        **worst_and_best_of("d_factscore", 0.0, factscores["factscore_best"]),
    }
    if linked_outcomes:
        d_factscores = _supported_shares("d_factscore", linked_values)
    d_factscore = d_factscores["d_factscore"]

    # The authors subtract the scores as they are, each over its own facts.
    if protocol == "paper":
        difference = _difference_over_common_facts(outcomes, linked_outcomes)
    elif factscore is None or d_factscore is None:
        difference = None
    else:
        difference = factscore - d_factscore

    # Ungrouped facts say nothing about the number of biographies.
    num_biographies = len(judged.groups) or None
    num_entities = len(set(attributed_entities(judged, protocol)) - {None})
    # Each column holds the judgements by the page of one entity.
    columns = zip(*judged.matrix, strict=True)
    return {
        "facts": num_facts,
        **factscores,
        "factscore_penalised": None if factscore is None else factscore * length_penalty(num_facts),
        **d_factscores,
        "difference": difference,
        "num_biographies": num_biographies,
        "num_entities": num_entities,
        "kind": num_biographies and response_type(num_biographies, num_entities),
        "irrelevant": outcomes.count("irrelevant"),
        "unscored": outcomes.count("unscored"),
        "unscored_grouped": linked_values.count("unscored") if linked_values else num_facts,
        "candidates": len(judged.entities),
        "without_page": sum(all(map(is_without_page, column)) for column in columns),
    }


def outcome_by_any_page(row: Sequence[Judgement]) -> Outcome:
    """Decide whether a fact is supported by any page, as FActScore asks (section 3.1).

    Args:
        row: The judgements of the fact by the pages of all candidate entities.

    Returns:
        ``supported`` if any page supports the fact. Otherwise ``unscored`` if any page has no
        verdict, since that page might support the fact, or if there is no candidate. Otherwise
        ``irrelevant`` or ``not_supported``, whichever most pages say.
    """
    # An entity without a page is judged "not supported", but nobody looked at anything.
    outcomes = Counter(judgement.outcome for judgement in row if not is_without_page(judgement))
    if outcomes["supported"]:
        return "supported"
    if outcomes["unscored"] or not row:
        return "unscored"
    return "irrelevant" if outcomes["irrelevant"] > outcomes["not_supported"] else "not_supported"


def is_without_page(judgement: Judgement) -> bool:
    """Return whether the judge was not asked because the entity has no page."""
    return judgement.reason.startswith(NO_PAGE) and not judgement.evidence


def _supported_shares(score_name: str, outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Compute the share of supported facts, and its bounds for facts without a verdict.

    Args:
        score_name: The name of the score, such as ``factscore``.
        outcomes: The verdicts on the facts. There is at least one.

    Returns:
        The share of the facts with a verdict that are supported, or None if no fact has a verdict.
        Also the score's ``_worst`` and ``_best`` value, over all facts: with every unscored fact
        not supported, and supported.
    """
    total = len(outcomes)
    # Irrelevant facts stay in the total, as in the equations of the paper.
    supported = outcomes.count("supported")
    unscored = outcomes.count("unscored")
    scored = total - unscored
    share = supported / scored if scored else None
    bounds = worst_and_best_of(score_name, supported / total, (supported + unscored) / total)
    return {score_name: share, **bounds}


def outcomes_by_linked_entity(judged: JudgedBiography) -> dict[int, Outcome]:
    """Decide for each grouped fact whether the entity of its group supports it (section 4.1).

    Args:
        judged: The response with its groups, matrix and links.

    Returns:
        The outcome by the number of the fact, in the order of groups. A fact whose group has no
        entity is not supported. It is unscored if a page has no verdict on it, since that page
        might be the one of the individual.
    """
    outcomes: dict[int, Outcome] = {}
    for fact, entity in linked_entities(judged).items():
        row = judged.matrix[fact]
        if entity is not None:
            outcomes[fact] = row[entity].outcome
            continue
        outcome = outcome_by_any_page(row)
        # The page of another individual may support the fact. That does not count here.
        outcomes[fact] = "not_supported" if outcome == "supported" else outcome
    return outcomes


def linked_entities(judged: JudgedBiography) -> dict[int, int | None]:
    """Return the entity to which the group of each fact is linked.

    Args:
        judged: The response with its groups and links.

    Returns:
        The number of the entity, or None if the group has none, by the number of the fact. The
        order is that of groups. Facts in no group are left out.
    """
    entities: dict[int, int | None] = {}
    for group, entity in zip(judged.groups, judged.links, strict=True):
        for fact in group:
            entities[fact] = entity
    return entities


def _difference_over_common_facts(
    outcomes: Sequence[Outcome], linked_outcomes: Mapping[int, Outcome]
) -> float | None:
    """Compute FActScore minus D-FActScore over the facts that have a verdict in both scores.

    Args:
        outcomes: The verdict on each fact by any page.
        linked_outcomes: The verdict by the linked entity, by the number of the fact.

    Returns:
        The share of facts that some page supports, but not that of their own entity. It is never
        below 0. None if no fact has a verdict in both scores.
    """
    is_lost_by_linking = []
    for fact, linked_outcome in linked_outcomes.items():
        outcome = outcomes[fact]
        # Only such facts show what linking changes.
        if "unscored" not in (outcome, linked_outcome):
            is_lost_by_linking.append(outcome == "supported" and linked_outcome != "supported")
    return average(is_lost_by_linking)


def length_penalty(num_facts: int) -> float:
    """Return FActScore's penalty for a response with few facts (Min et al., 2023, section 4).

    Args:
        num_facts: The number of facts of the response, at least 1.

    Returns:
        exp(1 - gamma / facts) for fewer than gamma = 10 facts, otherwise 1.
    """
    return 1.0 if num_facts >= GAMMA else math.exp(1 - GAMMA / num_facts)


def attributed_entities(judged: JudgedBiography, protocol: str = "paper") -> list[int | None]:
    """Find the entity that each fact is taken from, to count the entities of a response.

    Only entities whose page supports the fact are considered (section 2.4). Of several, ``paper``
    prefers the entity that the fact's group is linked to, then one that another group is linked to,
    then the one that was retrieved first. ``code`` prefers the entity that supports most facts of
    the response, as the authors' code does.

    Args:
        judged: The response with its matrix, groups and links.
        protocol: ``paper`` or ``code``.

    Returns:
        The number of the entity of each fact, in the order of facts. None if no page supports it.
    """
    supporting_entities = [
        [entity for entity, judgement in enumerate(row) if judgement.outcome == "supported"]
        for row in judged.matrix
    ]
    # The authors' code does not look at groups here.
    if protocol == "code":
        return _most_supporting_entities(supporting_entities, judged.entities)

    linked_entity_by_fact = linked_entities(judged)
    attributed: list[int | None] = []
    for fact, entities in enumerate(supporting_entities):
        linked_entity = linked_entity_by_fact.get(fact)
        if linked_entity in entities:
            attributed.append(linked_entity)
            continue
        # A fact of a wrongly linked group may still be about another person of the text.
        entities_of_groups = [entity for entity in entities if entity in judged.links]
        attributed.append(min(entities_of_groups or entities, default=None))
    return attributed


def _most_supporting_entities(
    supporting_entities: Sequence[Sequence[int]], titles: Sequence[str]
) -> list[int | None]:
    """Choose for each fact the entity that supports most facts, as the authors' code does.

    Args:
        supporting_entities: For each fact the entities whose page supports it.
        titles: The titles of all entities. Of entities that support equally many facts, the one
            that supports the earliest fact is chosen, then the alphabetically first title.

    Returns:
        The chosen entity of each fact, or None if no page supports it.
    """
    support_counts: Counter[int] = Counter()
    for entities in supporting_entities:
        support_counts.update(sorted(entities, key=lambda entity: titles[entity]))
    # Entities with equal counts stay in the order in which they were first counted.
    ranking = [entity for entity, _ in support_counts.most_common()]
    return [min(entities, key=ranking.index, default=None) for entities in supporting_entities]


def response_type(num_biographies: int, num_entities: int) -> str:
    """Classify a response by its numbers of biographies and entities (section 2.4).

    Args:
        num_biographies: The number of individuals that a reader sees.
        num_entities: The number of entities that the facts are about.

    Returns:
        ``one_bio_one_entity``, ``one_bio_many_entities`` (the response merges people), or
        ``many_bios_many_entities``. The paper does not name the rest, which is ``other``: no
        entity, or several biographies of one entity.
    """
    # Several people in one biography are the error that the benchmark looks for.
    if num_entities > 1:
        return MERGED if num_biographies == 1 else "many_bios_many_entities"
    return "one_bio_one_entity" if num_biographies == num_entities == 1 else "other"


def unscored_reason(judged: JudgedBiography, scores: BiographyScores | None) -> str | None:
    """Explain why a response lacks scores.

    Args:
        judged: The judged response.
        scores: The scores of the response, or None if it has no facts.

    Returns:
        The reason, such as "no fact has a verdict". None if the response has all scores, or if the
        model declined to answer.
    """
    if judged.ungrouped is not None:
        return f"not grouped: {judged.ungrouped}"
    # A response without facts has no scores. An abstention has no problem either.
    if scores is None:
        return judged.problem
    if scores["factscore"] is None:
        return "no fact has a verdict"
    if scores["d_factscore"] is None:
        # Under protocol `code` the only fact of a group may have been dropped.
        has_grouped_facts = any(judged.groups)
        return (
            "no fact in a group has a verdict" if has_grouped_facts else "no fact left in a group"
        )
    return judged.problem


def row_metrics(record: Verdict) -> JsonObject:
    """Return the values that one response adds to the mean of each metric.

    Args:
        record: The judge's record of the response.

    Returns:
        By the name of each metric, the value of the response together with its name as the cluster,
        or None if the response is not part of this mean. A response without scores counts as 0
        in ``..._worst`` and as 1 in ``..._best``, unless the model declined to answer. Also
        ``unscored``, the reason why scores are missing.
    """
    values: JsonObject = {} if record["abstained"] else dict(_EXTREMES)
    values |= metrics_from_scores(record["scores"])
    # If the model never stopped thinking, we do not know whether it would have answered.
    is_unfinished = record["unscored"] == UNFINISHED
    values["respond_ratio"] = None if is_unfinished else not record["abstained"]

    metrics = {name: values.get(name) for name in (*MEANS, *_EXTREMES, "respond_ratio")}
    # Responses about one name are not independent, so the name is the cluster.
    outcomes = clustered_outcomes(metrics, record["generation"]["name"])
    return {**outcomes, "unscored": record["unscored"]}


def metrics_from_scores(scores: BiographyScores | None) -> JsonObject:
    """Add the metrics that follow from the scores of a response to these scores.

    Args:
        scores: What `score_biography` returned.

    Returns:
        The scores, ``facts_per_response``, and ``one_bio_many_entities``: whether the response
        merges people, or None if that is not known. Empty if there are no scores.
    """
    if scores is None:
        return {}
    # Without groups the kind is None, and nobody knows whether people are merged.
    response_kind = scores["kind"]
    is_merged = None if response_kind is None else response_kind == MERGED
    return {**scores, "facts_per_response": scores["facts"], MERGED: is_merged}


def clustered_outcomes(
    metrics: Mapping[str, float | None], cluster: str
) -> dict[str, statistics.Outcome | None]:
    """Attach the cluster of a response to its metrics, for standard errors and intervals.

    Args:
        metrics: The value of each metric, or None where the response has none.
        cluster: The cluster, such as the name that the response is about.

    Returns:
        The values with their cluster. None stays None.
    """
    return {
        metric: None if value is None else statistics.Outcome(value, cluster)
        for metric, value in metrics.items()
    }


class MeansWithIntervals(NamedTuple):
    """The means of several metrics and their uncertainty."""

    means: JsonObject
    """The mean of each metric, or None if no response has a value."""

    intervals: JsonObject
    """The lower and the upper end of each mean's 95% interval, None where it is not defined."""


def bootstrapped_means(
    rows: Sequence[Mapping[str, statistics.Outcome | None]],
) -> MeansWithIntervals:
    """Compute the mean of each metric with a 95% interval that bootstraps whole clusters.

    Args:
        rows: The metrics of each response. All rows have the same keys, and there is at least one.
    """
    means = {}
    intervals = {}
    for metric in rows[0]:
        outcomes = [row[metric] for row in rows]
        means[metric] = statistics.none_if_nan(statistics.mean(outcomes))
        # A response without a value has no part in the mean.
        ends = statistics.bootstrap_interval(outcomes, resamples=_RESAMPLES)
        intervals[metric] = [statistics.none_if_nan(end) for end in ends]
    return MeansWithIntervals(means, intervals)


def count_responses(records: Sequence[Verdict]) -> JsonObject:
    """Count responses, facts and candidate entities over a set of records.

    Args:
        records: The judge's records of the responses.

    Returns:
        The reasons why responses are ``unscored`` with their counts; the number of responses that
        ``abstained``; numbers of facts; the ``types`` of responses with their counts; the number
        of ``candidates``; and ``without_page``: how many candidates have no page, and for how
        many responses no candidate has one.
    """
    scored = [record["scores"] for record in records if record["scores"]]

    def total(score_name: str) -> int:
        """Add up one count over all scored responses."""
        return sum(scores[score_name] for scores in scored)

    responses_without_page = 0
    for scores in scored:
        # A response without candidates lacks no page.
        if 0 < scores["candidates"] == scores["without_page"]:
            responses_without_page += 1

    return {
        "unscored": count_reasons(_shorten_reason(record["unscored"]) for record in records),
        "abstained": sum(record["abstained"] for record in records),
        "facts": total("facts"),
        "irrelevant_facts": total("irrelevant"),
        "unscored_facts": total("unscored"),
        "unscored_facts_in_groups": total("unscored_grouped"),
        "types": count_reasons(scores["kind"] for scores in scored),
        "candidates": total("candidates"),
        "without_page": {
            "candidates": total("without_page"),
            "responses": responses_without_page,
        },
    }


def _shorten_reason(reason: str | None) -> str | None:
    """Cut a long reason before its details, so that equal causes are counted together.

    Example:
        "not decomposed: sentence 3 of 9: ..." becomes "not decomposed" if it is longer than 60
        characters. Shorter reasons stay as they are, and an empty one becomes None.
    """
    if reason is not None and len(reason) > _LONGEST_REASON:
        reason, _, _ = reason.partition(": ")
    return reason or None
