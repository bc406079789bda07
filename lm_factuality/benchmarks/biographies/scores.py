"""The scores of one judged biography, and what a set of them reports besides means.

`method` scores every response with this module, and the reports read the names of the scores here.

Every denominator is the number of facts, as in the equations of sections 3.1 and 4.1. An irrelevant
fact is therefore not a supported one and counts against the response. A fact without a verdict is
in no score. The scores ``..._worst`` and ``..._best`` count it as not supported and as supported.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from lm_factuality.benchmarks.biographies.types import (
    JudgedBiography,
    Judgement,
    Outcome,
    Protocol,
)
from lm_factuality.benchmarks.declaration import (
    Score,
    find_score,
    load_scores,
    worst_and_best_of,
)
from lm_factuality.benchmarks.judged import count_reasons
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import JsonObject, Verdict
from lm_factuality.scores import statistics
from lm_factuality.scores.statistics import Aggregation, average

NO_PAGE = "no page"  # The reason of a judgement begins so if the entity has no page.
GAMMA = 10  # Responses with fewer facts than this are penalised (Min et al., 2023).
# The type of a response that merges people, and the metric that is 1 for these responses.
MERGED_TYPE = "one_bio_many_entities"
MERGED_METRIC = MERGED_TYPE
_LONGEST_REASON = 60  # characters
BiographyScores: TypeAlias = JsonObject
"""The scores of a response with facts, by the names that `score_biography` lists."""

_YAML_SCORES = load_scores(__package__)
D_FACTSCORE, FACTSCORE = _YAML_SCORES[:2]
UNSCORED = Score("unscored", Aggregation(statistics.count_present), higher_is_better=False)
SCORES = (
    *_YAML_SCORES,
    *FACTSCORE.worst_and_best(),
    *D_FACTSCORE.worst_and_best(),
    UNSCORED,
)
"""All scores of AmbigBio."""

MEANS = (  # in the order of tables
    *("factscore", "factscore_penalised", "d_factscore", "difference"),
    *("contradicted", "no_evidence"),
    *("num_biographies", "num_entities", "facts_per_response", MERGED_METRIC),
)
# What a response without scores counts as, at worst and at best.
_BOUNDS_WITHOUT_SCORES = worst_and_best_of("factscore", 0.0, 1.0) | worst_and_best_of(
    "d_factscore", 0.0, 1.0
)


def score_biography(
    biography: JudgedBiography, protocol: Protocol = "paper"
) -> BiographyScores | None:
    """Compute FActScore, D-FActScore and the counts of one judged biography.

    Both scores are shares of supported facts. For FActScore, the page of any candidate entity may
    support a fact. For D-FActScore, it has to be the page of the entity to which the fact's group
    is linked.

    Args:
        biography: The biography after all steps.
        protocol: ``paper``, or ``code`` for the authors' code. Their code puts the first fact of a
            response into no group, so that D-FActScore leaves it out.

    Returns:
        None if the response has no facts. Otherwise the scores (fractions) and counts by name:

        - ``factscore`` and ``d_factscore``, None if no fact has a verdict, each also with
          ``_worst`` and ``_best``
        - ``factscore_penalised``: FActScore times the penalty for few facts
        - ``difference``: FActScore minus D-FActScore
        - ``num_biographies``, ``num_entities`` and ``kind``: see `_count_biographies_and_entities`
        - ``contradicted`` and ``no_evidence``: see `_shares_without_support`
        - ``facts``: the number of facts; the other counts are those of
          `_count_facts_and_candidates`
    """
    if not biography.facts:
        return None
    outcomes = [outcome_by_any_page(row) for row in biography.matrix]
    linked_outcome_by_fact = outcomes_by_linked_entity(biography)
    linked_outcomes = list(linked_outcome_by_fact.values())

    factscores = _supported_shares("factscore", outcomes)
    factscore = factscores["factscore"]
    penalised = None if factscore is None else factscore * length_penalty(len(outcomes))
    d_factscores = _d_factscores(linked_outcomes, best_factscore=factscores["factscore_best"])
    if protocol == "paper":
        difference = _difference_over_common_facts(outcomes, linked_outcome_by_fact)
    else:
        difference = _difference_of_scores(factscore, d_factscores["d_factscore"])
    return {
        "facts": len(outcomes),
        **factscores,
        "factscore_penalised": penalised,
        **d_factscores,
        "difference": difference,
        **_shares_without_support(biography, outcomes),
        **_count_biographies_and_entities(biography, protocol),
        **_count_facts_and_candidates(biography, outcomes, linked_outcomes),
    }


def _count_facts_and_candidates(
    biography: JudgedBiography, outcomes: Sequence[Outcome], linked_outcomes: Sequence[Outcome]
) -> dict[str, int]:
    """Count the facts that are irrelevant or without a verdict, and the candidate entities.

    Args:
        biography: The response with its entities and matrix.
        outcomes: The verdict on each fact by any page.
        linked_outcomes: The verdict on each grouped fact by the entity of its group. Empty if the
            facts could not be grouped.

    Returns:
        The numbers of ``irrelevant`` facts, of facts without a verdict in FActScore (``unscored``)
        and in D-FActScore (``unscored_grouped``), of ``candidates``, and of candidates that are
        ``without_page``.
    """
    # Without groups, no fact has a verdict in D-FActScore.
    unscored_grouped = linked_outcomes.count("unscored") if linked_outcomes else len(outcomes)
    # Each column of the matrix has the judgements by the page of one entity.
    columns = zip(*biography.matrix, strict=True)
    return {
        "irrelevant": outcomes.count("irrelevant"),
        "unscored": outcomes.count("unscored"),
        "unscored_grouped": unscored_grouped,
        "candidates": len(biography.entities),
        "without_page": sum(all(map(is_without_page, column)) for column in columns),
    }


def _d_factscores(
    linked_outcomes: Sequence[Outcome], best_factscore: float | None
) -> dict[str, float | None]:
    """Compute D-FActScore of a response with its worst and its best case.

    Args:
        linked_outcomes: The verdict on each grouped fact by the entity of its group. Empty if the
            facts could not be grouped: D-FActScore is then not known, but cannot exceed FActScore.
        best_factscore: FActScore in its best case.
    """
    if linked_outcomes:
        return _supported_shares("d_factscore", linked_outcomes)
    return {"d_factscore": None, **worst_and_best_of("d_factscore", 0.0, best_factscore)}


def _shares_without_support(biography: JudgedBiography, outcomes: Sequence[Outcome]) -> JsonObject:
    """Tell facts that a page contradicts from facts of which no page says anything.

    Only the linked page counts as a contradiction: the page of the person whom the fact is about.
    The page of a namesake is about another person, so it says something else anyway.

    Example:
        Of four facts, two are supported by a page, one is contradicted by its linked page, and one
        is on no page. Both shares are then 0.25.

    Args:
        biography: The response with its groups, matrix and links.
        outcomes: The verdict on each fact by any page.

    Returns:
        Two shares of the facts with a verdict. ``contradicted`` is the share of facts that their
        linked page contradicts. ``no_evidence`` is the share of facts that no page supports and
        that their linked page does not contradict. Empty if the judge cannot tell the two apart, or
        if no fact has a verdict.
    """
    num_scored = len(outcomes) - outcomes.count("unscored")
    if num_scored == 0 or not _has_all_contradiction_answers(biography):
        return {}
    num_contradicted = 0
    num_without_evidence = 0
    for outcome, is_contradicted in zip(outcomes, contradicted_facts(biography), strict=True):
        if is_contradicted and outcome != "unscored":
            num_contradicted += 1
        elif outcome == "not_supported":
            num_without_evidence += 1
    return {
        "contradicted": num_contradicted / num_scored,
        "no_evidence": num_without_evidence / num_scored,
    }


def _has_all_contradiction_answers(biography: JudgedBiography) -> bool:
    """Return whether the judge said of every unsupported fact whether its page contradicts it.

    Some judges never say so. The result is then False even if all facts of the response are
    supported. Otherwise such responses alone would have shares, and each of these shares is 0.
    """
    if not biography.tells_contradictions:
        return False
    for judgement in chain.from_iterable(biography.matrix):
        lacks_answer = judgement.outcome == "not_supported" and judgement.is_contradicted is None
        # Without a page, the judge was not asked.
        if lacks_answer and not is_without_page(judgement):
            return False
    return True


def contradicted_facts(biography: JudgedBiography) -> list[bool]:
    """Return for each fact whether the page that its group is linked to contradicts it."""
    contradicted = [False] * len(biography.facts)
    for fact_index, entity_index in linked_entity_by_fact(biography).items():
        if entity_index is not None:
            judgement = biography.matrix[fact_index][entity_index]
            # None means that the judge did not say. This is no contradiction.
            contradicted[fact_index] = bool(judgement.is_contradicted)
    return contradicted


def _count_biographies_and_entities(biography: JudgedBiography, protocol: Protocol) -> JsonObject:
    """Count how many people a response seems to describe, and how many its facts are taken from.

    Example:
        A response that reads like one biography, but has facts of two people, gives
        ``{"num_biographies": 1, "num_entities": 2, "kind": "one_bio_many_entities"}``.
    """
    num_entities = len(set(attributed_entities(biography, protocol)) - {None})
    # Ungrouped facts say nothing about the number of biographies.
    num_biographies = len(biography.groups) or None
    kind = None if num_biographies is None else response_type(num_biographies, num_entities)
    return {"num_biographies": num_biographies, "num_entities": num_entities, "kind": kind}


def outcome_by_any_page(row: Sequence[Judgement]) -> Outcome:
    """Decide whether a fact is supported by any page, as FActScore asks (section 3.1).

    If no page supports it, the fact is irrelevant if more pages say so than say "not supported".

    Args:
        row: The judgements of the fact by the pages of all candidate entities. Judgements of
            entities without a page do not count.
    """
    outcomes = Counter(judgement.outcome for judgement in row if not is_without_page(judgement))
    if outcomes["supported"]:
        return "supported"
    # A page without a verdict might support the fact.
    if outcomes["unscored"] or not row:
        return "unscored"
    if outcomes["irrelevant"] > outcomes["not_supported"]:
        return "irrelevant"
    # This is also the outcome if no entity has a page.
    return "not_supported"


def is_without_page(judgement: Judgement) -> bool:
    """Return whether the judge was not asked because the entity has no page."""
    return judgement.reason.startswith(NO_PAGE) and not judgement.evidence


def _supported_shares(score_name: str, outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Compute the share of supported facts, and its bounds for facts without a verdict.

    Example:
        Two supported facts, one that is not supported and one unscored fact have the share 2/3 as
        ``factscore``, 2/4 as ``factscore_worst`` and 3/4 as ``factscore_best``.

    Args:
        score_name: The name of the score, such as ``factscore``.
        outcomes: The verdicts on the facts. There is at least one.

    Returns:
        The three shares by name. The score itself is None if no fact has a verdict.
    """
    # Irrelevant facts count as facts, as in the equations of the paper.
    num_facts = len(outcomes)
    num_supported = outcomes.count("supported")
    num_unscored = outcomes.count("unscored")
    num_scored = num_facts - num_unscored
    share = num_supported / num_scored if num_scored else None
    worst = num_supported / num_facts
    best = (num_supported + num_unscored) / num_facts
    return {score_name: share, **worst_and_best_of(score_name, worst, best)}


def outcomes_by_linked_entity(biography: JudgedBiography) -> dict[int, Outcome]:
    """Decide for each grouped fact whether the entity of its group supports it (section 4.1).

    A fact whose group has no entity is never supported. It is unscored if a page has no verdict on
    it, since that page might be the one about the right person.

    Args:
        biography: The response with its groups, matrix and links.

    Returns:
        The outcome by the number of the fact, in the order of groups.
    """
    outcomes: dict[int, Outcome] = {}
    for fact, entity in linked_entity_by_fact(biography).items():
        row = biography.matrix[fact]
        if entity is not None:
            outcomes[fact] = row[entity].outcome
            continue
        outcome = outcome_by_any_page(row)
        # A page that supports the fact is about another person.
        outcomes[fact] = "not_supported" if outcome == "supported" else outcome
    return outcomes


def linked_entity_by_fact(biography: JudgedBiography) -> dict[int, int | None]:
    """Return the entity to which the group of each fact is linked.

    Example:
        The groups ((0, 2), (1,)) with the links (3, None) give {0: 3, 2: 3, 1: None}.

    Returns:
        The number of the entity, or None if the group has no entity, by the number of the fact.
        Facts that are in no group are left out.
    """
    entity_by_fact: dict[int, int | None] = {}
    for group, entity in zip(biography.groups, biography.links, strict=True):
        for fact in group:
            entity_by_fact[fact] = entity
    return entity_by_fact


def _difference_over_common_facts(
    outcomes: Sequence[Outcome], linked_outcomes: Mapping[int, Outcome]
) -> float | None:
    """Compute FActScore minus D-FActScore over the facts that have a verdict in both scores.

    A fact that only one of the scores could count would distort the difference, which is None if
    there is no common fact.

    Args:
        outcomes: The verdict on each fact by any page.
        linked_outcomes: The verdict by the linked entity, by the number of the fact.
    """
    # For each common fact, whether FActScore counts it as supported and D-FActScore does not. The
    # opposite is impossible, since the linked page is one of all pages.
    differs = []
    for fact, linked_outcome in linked_outcomes.items():
        outcome = outcomes[fact]
        if outcome == "unscored" or linked_outcome == "unscored":
            continue
        differs.append(outcome == "supported" and linked_outcome != "supported")
    return average(differs)


def _difference_of_scores(factscore: float | None, d_factscore: float | None) -> float | None:
    """Subtract D-FActScore from FActScore as the authors do, each over its own facts."""
    if factscore is None or d_factscore is None:
        return None
    return factscore - d_factscore


def length_penalty(num_facts: int) -> float:
    """Return FActScore's penalty for a response with few facts (Min et al., 2023, section 4).

    Args:
        num_facts: The number of facts of the response, at least 1.

    Returns:
        exp(1 - gamma / facts) for fewer than gamma = 10 facts, otherwise 1.
    """
    return 1.0 if num_facts >= GAMMA else math.exp(1 - GAMMA / num_facts)


def attributed_entities(
    biography: JudgedBiography, protocol: Protocol = "paper"
) -> list[int | None]:
    """Find the entity that each fact is taken from, to count the entities of a response.

    Only entities whose page supports the fact are considered (section 2.4).

    Args:
        biography: The response with its matrix, groups and links.
        protocol: Of several entities, ``paper`` prefers the one that the fact's group is linked to.
            ``code`` takes the one that supports most facts of the response, as the authors' code
            does.

    Returns:
        For each fact in order, the index of its entity in ``biography.entities``, or None if no
        page supports the fact.
    """
    supporters_by_fact = []
    for row in biography.matrix:
        # Each column of the matrix has the judgements by the page of one entity.
        supporters = [entity for entity, cell in enumerate(row) if cell.outcome == "supported"]
        supporters_by_fact.append(supporters)
    if protocol == "code":
        return _choose_by_total_support(supporters_by_fact, biography.entities)

    linked_entities = linked_entity_by_fact(biography)
    return [
        _prefer_linked_entity(supporters, linked_entities.get(fact), biography.links)
        for fact, supporters in enumerate(supporters_by_fact)
    ]


def _prefer_linked_entity(
    supporters: Sequence[int], linked_entity: int | None, links: Sequence[int | None]
) -> int | None:
    """Choose the entity that a fact is taken from among those whose pages support it.

    Args:
        supporters: The numbers of these entities, in the order of retrieval.
        linked_entity: The entity that the fact's group is linked to, or None.
        links: The entities that all groups of the response are linked to.

    Returns:
        The linked entity, else the first one that another group is linked to, else the first one.
        None if no page supports the fact.
    """
    if linked_entity in supporters:
        return linked_entity
    # A fact of a wrongly linked group may still be about another person of the text.
    for entity in supporters:
        if entity in links:
            return entity
    return supporters[0] if supporters else None


def _choose_by_total_support(
    supporters_by_fact: Sequence[Sequence[int]], titles: Sequence[str]
) -> list[int | None]:
    """Choose one supporting entity for each fact, as the authors' code does.

    Among the entities that support the fact, the best one supports most facts of the whole
    response. A tie goes to the entity that supports the earliest fact. If this is a tie as well,
    the alphabetically first title decides.

    Args:
        supporters_by_fact: For each fact the entities whose page supports it.
        titles: The titles of all entities.

    Returns:
        The number of the entity of each fact, or None if no page supports the fact.
    """
    supported_facts_by_entity = defaultdict(list)
    for fact_index, supporters in enumerate(supporters_by_fact):
        for entity in supporters:
            supported_facts_by_entity[entity].append(fact_index)

    def rank(entity: int) -> tuple[int, int, str]:
        """Return the sort key of an entity. The best entity has the smallest key."""
        supported_facts = supported_facts_by_entity[entity]
        earliest_fact = supported_facts[0]
        return -len(supported_facts), earliest_fact, titles[entity]

    return [min(supporters, key=rank, default=None) for supporters in supporters_by_fact]


def response_type(num_biographies: int, num_entities: int) -> str:
    """Classify a response by its numbers of biographies and entities (section 2.4).

    Args:
        num_biographies: The number of people whom the response seems to describe.
        num_entities: The number of entities that the facts are about.
    """
    # Several people in one biography are the error that the benchmark looks for.
    if num_entities > 1:
        return MERGED_TYPE if num_biographies == 1 else "many_bios_many_entities"
    # The paper does not name the rest: no entity, or several biographies of one entity.
    return "one_bio_one_entity" if num_biographies == num_entities == 1 else "other"


def unscored_reason(biography: JudgedBiography, scores: BiographyScores | None) -> str | None:
    """Explain why a response lacks scores.

    Args:
        biography: The judged response.
        scores: The scores of the response, or None if it has no facts.

    Returns:
        The reason, such as "no fact has a verdict". None if the response has all scores, or if the
        model declined to answer.
    """
    if biography.ungrouped is not None:
        return f"not grouped: {biography.ungrouped}"
    # The problem says why there are no facts. It is None if the model declined.
    if scores is None:
        return biography.problem
    if scores["factscore"] is None:
        return "no fact has a verdict"
    if scores["d_factscore"] is not None:
        return None
    # D-FActScore counts facts in groups only.
    if any(biography.groups):
        return "no fact in a group has a verdict"
    # The protocol "code" takes the first fact out of its group, as the authors' code does. If it
    # was the only fact, its group is now empty.
    return "no fact left in a group"


def row_metrics(record: Verdict) -> JsonObject:
    """Return the values that one response adds to the mean of each metric.

    A response in which the model declines to answer has a value for ``respond_ratio`` only. If the
    judge failed, the scores are not known, and only their worst and best cases have values.

    Args:
        record: The judge's record of the response.

    Returns:
        The value of each metric with its cluster, or None if the response has no value for the
        metric. The further key ``unscored`` has the reason why scores are missing, or None.
    """
    if record["scores"] is None and not record["abstained"]:
        # The response may have any score from 0 to 1.
        known_values = dict(_BOUNDS_WITHOUT_SCORES)
    else:
        known_values = metrics_from_scores(record["scores"])
    # If the model never stopped thinking, we do not know whether it would have answered.
    if record["unscored"] != UNFINISHED:
        known_values["respond_ratio"] = not record["abstained"]

    metric_names = (*MEANS, *_BOUNDS_WITHOUT_SCORES, "respond_ratio")
    value_by_metric = {name: known_values.get(name) for name in metric_names}
    # Responses about one name are not independent, so the name is the cluster.
    clustered_values = clustered_outcomes(value_by_metric, record["generation"]["name"])
    return {**clustered_values, "unscored": record["unscored"]}


def metrics_from_scores(scores: BiographyScores | None) -> JsonObject:
    """Return the scores of a response together with two metrics that follow from them.

    These are ``facts_per_response``, and ``one_bio_many_entities``: whether the response merges
    several people into one. A response without facts has no scores, so the result is empty.
    """
    if scores is None:
        return {}
    # The kind of a response, such as "one_bio_one_entity", is None without groups.
    merges_people = None if scores["kind"] is None else scores["kind"] == MERGED_TYPE
    return {**scores, "facts_per_response": scores["facts"], MERGED_METRIC: merges_people}


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


def means_with_intervals(
    rows: Sequence[Mapping[str, statistics.Outcome | None]],
) -> MeansWithIntervals:
    """Compute the mean of each metric over responses with its 95% interval.

    Args:
        rows: The metrics of each response, with the cluster of responses that are not independent,
            such as those about one name. All rows have the same keys, and there is at least one.
    """
    means = {}
    intervals = {}
    for metric in rows[0]:
        # A response without a value has no part in the mean.
        outcomes = [row[metric] for row in rows]
        means[metric] = statistics.none_if_nan(statistics.mean(outcomes))
        # A metric that is no score of the benchmark is a share from 0 to 1, as FActScore is.
        score = find_score(SCORES, metric) or FACTSCORE
        interval = score.bounded_aggregation.interval_of(outcomes)
        intervals[metric] = None if interval is None else interval.ends
    return MeansWithIntervals(means, intervals)


def count_responses(records: Sequence[Verdict]) -> JsonObject:
    """Count responses, facts and candidate entities over a set of records.

    Args:
        records: The judge's records of the responses.

    Returns:
        A dict with these keys:

        - ``unscored``: the reasons why responses have no scores, with their counts
        - ``abstained``: the number of responses that decline to answer
        - ``facts``, ``irrelevant_facts``, ``unscored_facts``, ``unscored_facts_in_groups``
        - ``types``: the kinds that `response_type` returns, with their counts
        - ``candidates``: the number of candidate entities
        - ``without_page``: the number of candidates without a page, and the number of responses
          of which no candidate has a page
    """
    scored_responses = [record["scores"] for record in records if record["scores"]]

    def total(count_name: str) -> int:
        """Add up one count over all scored responses."""
        return sum(scores[count_name] for scores in scored_responses)

    return {
        "unscored": count_reasons(_shorten_reason(record["unscored"]) for record in records),
        "abstained": sum(record["abstained"] for record in records),
        "facts": total("facts"),
        "irrelevant_facts": total("irrelevant"),
        "unscored_facts": total("unscored"),
        "unscored_facts_in_groups": total("unscored_grouped"),
        "types": count_reasons(scores["kind"] for scores in scored_responses),
        "candidates": total("candidates"),
        "without_page": {
            "candidates": total("without_page"),
            "responses": sum(
                0 < scores["candidates"] == scores["without_page"] for scores in scored_responses
            ),
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
