"""The authors' figures out of their decision files, and without what their script leaves unsaid.

``code`` gives the released figures: FActScore over the facts as decomposed, D-FActScore over those
that came back from grouping (the first of nearly every response did not), without responses of
which none did. ``fixed`` divides by the facts as the paper defines it: a fact that grouping lost is
unscored, one that it made up counts nowhere, a response without a fact left is unscored, and the
worst and the best case say what that could amount to.
"""

from collections.abc import Sequence
from typing import Literal

from lm_factuality.benchmarks.biographies.decisions import DecidedResponse, Decisions
from lm_factuality.benchmarks.biographies.scores import (
    bootstrapped_means,
    clustered_outcomes,
    length_penalty,
)
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import average

Protocol = Literal["code", "fixed"]
_MEANS = (
    *("factscore", "factscore_penalised", "d_factscore", "num_entities"),
    *("facts_per_response", "respond_ratio", "difference"),
)


def score_decisions(decisions: Decisions, protocol: Protocol = "code") -> JsonObject:
    """Score the decisions of one model, as JSON.

    Returns:
        Means over responses (``respond_ratio``: over names) as fractions, with intervals that
        bootstrap the names. ``num_biographies`` is the file's own ``num_groups``, null if it states
        none.
    """
    rows = []
    answered = []
    for number, response in enumerate(decisions.responses):
        metrics = dict.fromkeys(_MEANS) | {"respond_ratio": float(response is not None)}
        if response is not None:
            answered.append(response)
            metrics |= _metrics(response, protocol)
        rows.append(clustered_outcomes(metrics, str(number)))
    means, intervals = bootstrapped_means(rows)
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["released"][protocol],
        **means,
        "num_biographies": decisions.num_groups,
        "num_nan": sum(not response.grouped for response in answered),
        "num_names": len(decisions.responses),
        "num_responses": len(answered),
        "unscored": _unscored(answered),
        "intervals": intervals,
    }


def _metrics(response: DecidedResponse, protocol: Protocol) -> dict[str, float | None]:
    plain = released_factscore(response)
    linked = released_d_factscore(response)
    if protocol == "fixed":
        linked = average(response.grouped_verdicts)
    topics = {fact.supporting_topic for fact in response.facts}
    return {
        "factscore": plain,
        # The length penalty of FActScore, section 4.
        "factscore_penalised": plain * length_penalty(len(response.facts)),
        "d_factscore": linked,
        "num_entities": float(len(topics - {None})),
        "facts_per_response": float(len(response.facts)),
        "difference": None if linked is None else plain - linked,
    }


def released_factscore(response: DecidedResponse) -> float:
    return sum(fact.is_supported for fact in response.facts) / len(response.facts)


def released_d_factscore(response: DecidedResponse) -> float | None:
    """Return the share of the facts that came back from grouping; None if none did."""
    return average(fact.is_supported for fact in response.grouped)


def _unscored(answered: Sequence[DecidedResponse]) -> JsonObject:
    """Return what grouping did to the facts.

    ``d_factscore`` is what it would be if all that has no verdict were not supported, or were.
    """
    verdicts = [response.grouped_verdicts for response in answered]
    return {
        "responses": sum(set(of_response) == {None} for of_response in verdicts),
        "facts": sum(of_response.count(None) for of_response in verdicts),
        "first_facts": sum(of_response[0] is None for of_response in verdicts),
        "facts_made_up": sum(response.numbers.count(-1) for response in answered),
        "d_factscore": {
            "worst": average(_share(of_response, False) for of_response in verdicts),
            "best": average(_share(of_response, True) for of_response in verdicts),
        },
    }


def _share(verdicts: Sequence[bool | None], unscored: bool) -> float:
    """Return the share of supported facts if those without a verdict are, or are not."""
    supported = verdicts.count(True) + unscored * verdicts.count(None)
    return supported / len(verdicts)
