"""The authors' figures out of their decision files, and without what their script leaves unsaid.

``code`` gives the released figures: FActScore over the facts as decomposed, D-FActScore over those
that came back from grouping (the first of nearly every response did not), without responses of
which none did. ``fixed`` divides by the facts as the paper defines it: a fact that grouping lost is
unscored, one that it made up counts nowhere, a response without a fact left is unscored, and the
worst and the best case say what that could amount to.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

from lm_factuality.benchmarks.biographies.decisions import DecidedResponse, Decisions
from lm_factuality.benchmarks.biographies.scores import length_penalty
from lm_factuality.ground.packages import load_yaml
from lm_factuality.scores.statistics import Outcome, average, bootstrap_interval, defined, mean

Protocol = Literal["code", "fixed"]
_MEANS = (
    *("factscore", "factscore_penalised", "d_factscore", "num_entities"),
    *("facts_per_response", "respond_ratio", "difference"),
)


def score_decisions(decisions: Decisions, protocol: Protocol = "code") -> dict[str, Any]:
    """Score the decisions of one model, as JSON.

    Returns:
        Means over responses (``respond_ratio``: over names) as fractions, with intervals that
        bootstrap the names. ``num_biographies`` is the file's own ``num_groups``, null if it states
        none; ``num_biographies_at_least`` what its decisions show.
    """
    outcomes: dict[str, list[Outcome | None]] = {name: [] for name in _MEANS}
    answered = []
    for number, response in enumerate(decisions.responses):
        metrics: dict[str, float | None] = {"respond_ratio": float(response is not None)}
        if response is not None:
            answered.append(response)
            metrics |= _metrics(response, protocol)
        for name, value in metrics.items():
            outcomes[name].append(None if value is None else Outcome(value, str(number)))
    intervals = {}
    for name, values in outcomes.items():
        intervals[name] = [defined(end) for end in bootstrap_interval(values, resamples=2000)]
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["released"][protocol],
        **{name: defined(mean(values)) for name, values in outcomes.items()},
        "num_biographies": decisions.num_groups,
        "num_biographies_at_least": average(map(least_biographies, answered)),
        "num_nan": sum(not response.grouped for response in answered),
        "num_names": len(decisions.responses),
        "num_responses": len(answered),
        "unscored": _unscored(answered),
        "intervals": intervals,
    }


def _metrics(response: DecidedResponse, protocol: Protocol) -> dict[str, float | None]:
    plain = factscore(response)
    linked = grouped_score(response)
    if protocol == "fixed":
        linked = average(_verdicts(response))
    return {
        "factscore": plain,
        # The length penalty of FActScore, section 4.
        "factscore_penalised": plain * length_penalty(len(response.facts)),
        "d_factscore": linked,
        "num_entities": num_entities(response),
        "facts_per_response": float(len(response.facts)),
        "difference": None if linked is None else plain - linked,
    }


def factscore(response: DecidedResponse) -> float:
    return sum(fact.is_supported for fact in response.facts) / len(response.facts)


def grouped_score(response: DecidedResponse) -> float | None:
    """Return the share of the facts that came back from grouping; None if none did."""
    return average(fact.is_supported for fact in response.grouped)


def num_entities(response: DecidedResponse) -> float:
    return float(len({fact.supporting_topic for fact in response.facts} - {None}))


def least_biographies(response: DecidedResponse) -> int:
    """Return how many groups there must have been.

    All supported facts of a group are supported by the same entity.
    """
    topics = [fact.supporting_topic for fact in response.grouped]
    return max(1, sum(1 for _ in groupby(filter(None, topics))))


def _verdicts(response: DecidedResponse) -> list[bool | None]:
    """Return for each fact as decomposed the verdict on it after grouping, if there is one.

    Facts of the same words are taken in order.
    """
    verdicts = {
        number: fact.is_supported
        for number, fact in zip(response.numbers, response.grouped, strict=True)
    }
    return [verdicts.get(number) for number in range(len(response.facts))]


def _unscored(answered: Sequence[DecidedResponse]) -> dict[str, Any]:
    """Return what grouping did to the facts.

    ``d_factscore`` is what it would be if all that has no verdict were not supported, or were.
    """
    lost = {"responses": 0, "facts": 0, "first_facts": 0, "facts_made_up": 0}
    worst = []
    best = []
    for response in answered:
        verdicts = _verdicts(response)
        unscored = verdicts.count(None)
        lost["responses"] += unscored == len(verdicts)
        lost["facts"] += unscored
        lost["first_facts"] += verdicts[0] is None
        lost["facts_made_up"] += response.numbers.count(-1)
        worst.append(verdicts.count(True) / len(verdicts))
        best.append((verdicts.count(True) + unscored) / len(verdicts))
    return {**lost, "d_factscore": {"worst": average(worst), "best": average(best)}}
