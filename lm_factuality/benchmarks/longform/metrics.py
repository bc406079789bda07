"""The scores of long-form factuality, for one response and as means over prompts.

With S supported and N unsupported facts, precision is S / (S + N), recall at K is min(S / K, 1),
and F1@K is their harmonic mean, or 0 if S = 0 (Wei et al., 2024, section 5). FActScore also counts
irrelevant facts as unsupported, and is penalised below ten facts (Min et al., 2023). Repeated facts
count once, since a response could otherwise reach K by repetition.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lm_factuality.benchmarks.biographies.decompose import NO_FACTS
from lm_factuality.benchmarks.biographies.method import NO_SENTENCES
from lm_factuality.benchmarks.biographies.scores import (
    UNSCORED,
    clustered_outcomes,
    length_penalty,
    metrics_from_scores,
    outcome_by_any_page,
    score_biography,
    unscored_reason,
)
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.declaration import F1, Score, load_scores
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import MEAN, none_if_nan, ratio

_ENTITY_METRICS = ("d_factscore", "difference", "num_entities", "one_bio_many_entities")
"""The metrics that are only defined if entities share a name."""

_BOUNDED_METRICS = ("f1_at_k", "precision", "factscore")
"""The metrics that have a worst and a best case."""


@dataclass(frozen=True)
class FactTally:
    """The number of distinct facts of a response by the judge's verdict."""

    supported: int
    not_supported: int
    irrelevant: int = 0
    unscored: int = 0

    @classmethod
    def from_judged(cls, judged: JudgedBiography) -> "FactTally":
        """Count the distinct facts of a judged response by verdict.

        Facts that differ only in case or spaces, such as ``He wrote.`` and ``he wrote.``, are one
        fact. If their verdicts differ, the verdict on the last one counts.

        Args:
            judged: The response. Its matrix has the judgements of each fact.
        """
        verdict_by_fact: dict[str, str] = {}
        for fact, judgements in zip(judged.facts, judged.matrix, strict=True):
            normalized_fact = " ".join(fact.text.casefold().split())
            # A later verdict on an equal fact replaces the earlier one.
            verdict_by_fact[normalized_fact] = outcome_by_any_page(judgements)

        counts = Counter(verdict_by_fact.values())
        return cls(
            supported=counts["supported"],
            not_supported=counts["not_supported"],
            irrelevant=counts["irrelevant"],
            unscored=counts["unscored"],
        )

    @property
    def num_facts(self) -> int:
        """The number of distinct facts."""
        return self.supported + self.not_supported + self.irrelevant + self.unscored

    def f1_at(self, k: int) -> float | None:
        """Return F1@K, the harmonic mean of precision and recall at K.

        Args:
            k: The number of supported facts that gives full recall.

        Returns:
            A fraction, which is 0 if no fact is supported. None if the only relevant facts are
            unscored, since these may be supported.
        """
        if not self.supported:
            has_only_unscored_facts = bool(self.unscored) and not self.not_supported
            return None if has_only_unscored_facts else 0.0

        precision = self.supported / (self.supported + self.not_supported)
        # More than K supported facts give no more than full recall.
        recall = min(self.supported / k, 1.0)
        return 2 * precision * recall / (precision + recall)

    def scores(self, k: int) -> dict[str, float | None]:
        """Compute the scores of the response from its facts. Unscored facts are left out.

        Args:
            k: The number of supported facts that gives full recall.

        Returns:
            Fractions by the name of the score. A score is None if it is not defined. Precision
            leaves out irrelevant facts, and FActScore counts them as not supported.
        """
        f1 = self.f1_at(k)
        num_relevant = self.supported + self.not_supported
        factscore = none_if_nan(ratio(self.supported, num_relevant + self.irrelevant))
        penalised = None
        if factscore is not None:
            # Short responses are penalised, since a few safe facts are easy to get right.
            penalised = factscore * length_penalty(self.num_facts)
        return {
            "f1_at_k": f1,
            "precision": none_if_nan(ratio(self.supported, num_relevant)),
            # Without F1@K, all relevant facts are unscored, so recall is not known either.
            "recall_at_k": None if f1 is None else min(self.supported / k, 1.0),
            "factscore": factscore,
            "factscore_penalised": penalised,
        }


def missing_scores_reason(judged: JudgedBiography) -> str | None:
    """Say why a response does not have all scores, or return None if it does.

    A response that declines or states no fact has an F1@K of 0, so it is not unscored.

    Args:
        judged: The response with its judged facts.
    """
    if judged.abstained or judged.problem in (NO_FACTS, NO_SENTENCES):
        return None
    return unscored_reason(judged, score_biography(judged))


def long_form_metrics(
    judged: JudgedBiography, shares_name: bool, k_values: Sequence[int]
) -> JsonObject:
    """Compute what a response adds to the mean of each metric.

    Args:
        judged: The response with its judged facts.
        shares_name: Whether several entities share the name that the prompt asks about.
        k_values: The numbers K of facts that are enough, such as 64 and 178.

    Returns:
        The value by metric, or None if the response is not part of the mean, and under ``unscored``
        the reason why scores are missing.
    """
    metrics = _response_metrics(judged, shares_name, k_values)
    reason = missing_scores_reason(judged)
    if reason is not None and not judged.facts:
        # The judge failed before it found any fact, so nothing is known about any score.
        metrics = {name: _value_if_unknown(name) for name in metrics}

    # A model that never stopped thinking neither answered nor declined.
    metrics["respond_ratio"] = None if reason == UNFINISHED else float(not judged.abstained)
    # Prompts are independent, so each response is a cluster of its own in standard errors.
    return {**clustered_outcomes(metrics, judged.generation.index), "unscored": reason}


def _response_metrics(
    judged: JudgedBiography, shares_name: bool, k_values: Sequence[int]
) -> dict[str, float | None]:
    """Compute the metrics of a response from its facts, with their worst and best cases.

    Args:
        judged: The response with its judged facts.
        shares_name: Whether several entities share the name that the prompt asks about. Only then
            the response has a D-FActScore.
        k_values: The numbers K of facts that are enough, such as 64 and 178. All metrics use the
            first one. For the others there is F1@K only.
    """
    tally = FactTally.from_judged(judged)
    metrics = tally.scores(k_values[0])
    for k in k_values[1:]:
        metrics[f"f1_at_{k}"] = tally.f1_at(k)
    # A response that declines has no part in the mean number of facts.
    metrics["facts_per_response"] = None if judged.abstained else float(tally.num_facts)

    entity_metrics = None
    if shares_name:
        entity_metrics = metrics_from_scores(score_biography(judged))
        metrics |= {name: entity_metrics.get(name) for name in _ENTITY_METRICS}
    return metrics | _score_bounds(tally, k_values[0], entity_metrics)


def _value_if_unknown(metric: str) -> float | None:
    """Return the value of a metric for a response of which no fact is known.

    Example:
        At best every score is 1, so ``precision_best`` is 1, and ``precision_worst`` is 0. The
        ``precision`` itself is None.
    """
    if metric.endswith("_best"):
        return 1.0
    return 0.0 if metric.endswith("_worst") else None


def _score_bounds(
    tally: FactTally, k: int, entity_metrics: Mapping[str, float | None] | None
) -> dict[str, float | None]:
    """Compute the scores of a response if all unscored facts were wrong, and if all were right.

    Args:
        tally: The facts of the response by verdict.
        k: The number of supported facts that gives full recall.
        entity_metrics: The metrics with the bounds of D-FActScore, which depend on the entity that
            a fact is about. Empty for a response without facts, and None if no entities share a
            name.

    Returns:
        The values by metric, such as ``precision_worst`` and ``precision_best``.
    """
    num_wrong = tally.not_supported + tally.unscored
    num_right = tally.supported + tally.unscored
    tally_by_case = {
        "worst": replace(tally, not_supported=num_wrong, unscored=0),
        "best": replace(tally, supported=num_right, unscored=0),
    }
    bounds = {}
    for case, tally_of_case in tally_by_case.items():
        scores = tally_of_case.scores(k)
        for name in _BOUNDED_METRICS:
            bounds[f"{name}_{case}"] = scores[name]
        if entity_metrics is not None:
            bounds[f"d_factscore_{case}"] = entity_metrics.get(f"d_factscore_{case}")
    return bounds


_YAML_SCORES = {score.name: score for score in load_scores(__package__)}
_WORST_AND_BEST = [
    _YAML_SCORES[name].worst_and_best() for name in (*_BOUNDED_METRICS, "d_factscore")
]
SCORES = (
    *_YAML_SCORES.values(),
    *chain.from_iterable(_WORST_AND_BEST),
    # The bounds come first, since they also begin with "f1_at_".
    Score("f1_at_*", MEAN, F1),
    UNSCORED,
)
"""All scores of long-form tasks."""
