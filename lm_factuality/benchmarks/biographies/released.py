"""The figures of the paper, computed from the decision files that the authors released.

``lm-factuality score ambigbio`` calls `score_decisions`. The protocol ``code`` gives the released
figures. ``fixed`` corrects what the authors' grouping does to facts; ``choices.yaml`` lists the
differences.
"""

from collections.abc import Sequence
from typing import Literal

from lm_factuality.benchmarks.biographies.decisions import DecidedResponse, Decisions
from lm_factuality.benchmarks.biographies.scores import (
    clustered_outcomes,
    length_penalty,
    means_with_intervals,
)
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import average

Protocol = Literal["code", "fixed"]
"""``code`` computes scores as the authors' script does, ``fixed`` as the paper defines them."""

# A declined question counts only in the share of responses.
_METRICS_IF_DECLINED = {
    "factscore": None,
    "factscore_penalised": None,
    "d_factscore": None,
    "num_entities": None,
    "facts_per_response": None,
    "respond_ratio": 0.0,
    "difference": None,
}


def score_decisions(decisions: Decisions, protocol: Protocol = "code") -> JsonObject:
    """Compute FActScore, D-FActScore and other means from the released decisions of one model.

    Args:
        decisions: The decisions on the responses of the model.
        protocol: ``code`` averages D-FActScore over the facts that grouping returned, as the
            authors' script does. ``fixed`` averages it over all facts, as the paper defines it,
            and counts facts that grouping lost as unscored.

    Returns:
        The content of the metrics file:

        - the means over responses as fractions (``respond_ratio`` is over names), and under
          ``intervals`` their 95% intervals, clustered by name
        - ``choices``: sentences that say what the protocol computes
        - ``num_biographies``: the mean number of groups that the file states, or None
        - ``num_nan``: how many responses have no D-FActScore, since grouping lost all their facts
        - further counts of names, responses and unscored facts
    """
    rows = []
    answered = []
    for number, response in enumerate(decisions.responses):
        # The model declined if there is no response.
        metrics = _METRICS_IF_DECLINED
        if response is not None:
            metrics = _response_metrics(response, protocol)
            answered.append(response)
        # There is one response per name.
        rows.append(clustered_outcomes(metrics, cluster=str(number)))

    means, intervals = means_with_intervals(rows)
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["released"][protocol],
        **means,
        "num_biographies": decisions.num_groups,
        "num_nan": sum(not response.grouped for response in answered),
        "num_names": len(decisions.responses),
        "num_responses": len(answered),
        "unscored": _count_unscored(answered),
        "intervals": intervals,
    }


def _response_metrics(response: DecidedResponse, protocol: Protocol) -> dict[str, float | None]:
    """Compute the metrics of one response, under their names in the metrics file.

    FActScore is a share of the facts of the response. D-FActScore depends on the facts that a model
    returned when the authors asked it to group them. The model lost some of the facts, and invented
    others.

    Args:
        response: The released decisions on the response.
        protocol: ``fixed`` averages D-FActScore over the facts of the response that have a verdict
            after grouping, ``code`` over all facts that grouping returned, also invented ones.

    Returns:
        The scores as fractions. ``d_factscore`` and ``difference`` are None if grouping lost every
        fact of the response.
    """
    num_facts = len(response.facts)
    factscore = released_factscore(response)
    if protocol == "fixed":
        # Facts that grouping lost have the verdict None, and `average` leaves them out.
        d_factscore = average(response.grouped_verdicts)
    else:
        d_factscore = released_d_factscore(response)

    # The entities of a response are the pages that support its facts. An unsupported fact has none.
    titles = {fact.supporting_topic for fact in response.facts} - {None}
    return {
        "factscore": factscore,
        "factscore_penalised": factscore * length_penalty(num_facts),
        "d_factscore": d_factscore,
        "num_entities": float(len(titles)),
        "facts_per_response": float(num_facts),
        "respond_ratio": 1.0,
        "difference": None if d_factscore is None else factscore - d_factscore,
    }


def released_factscore(response: DecidedResponse) -> float:
    """Return FActScore as the authors' script computes it: the share of supported facts."""
    return sum(fact.is_supported for fact in response.facts) / len(response.facts)


def released_d_factscore(response: DecidedResponse) -> float | None:
    """Return D-FActScore as the authors' script computes it.

    Returns:
        The share of supported facts among those that grouping returned, or None if it returned
        none.
    """
    return average(fact.is_supported for fact in response.grouped)


def _count_unscored(responses: Sequence[DecidedResponse]) -> JsonObject:
    """Count the facts that grouping lost or invented, and bound D-FActScore by them.

    Args:
        responses: The released decisions on the responses of one model.

    Returns:
        A dict with these keys:

        - ``responses``: the number of responses of which grouping lost all facts
        - ``facts``: the number of lost facts; ``first_facts``: those that open their response
        - ``facts_made_up``: the number of facts that grouping invented
        - ``d_factscore``: its mean at ``worst`` and at ``best``, with all lost facts not supported
          and with all supported
    """
    # A verdict is None where grouping lost the fact.
    verdicts_by_response = [response.grouped_verdicts for response in responses]
    worst_shares = [_supported_share(verdicts, False) for verdicts in verdicts_by_response]
    best_shares = [_supported_share(verdicts, True) for verdicts in verdicts_by_response]
    return {
        "responses": sum(set(verdicts) == {None} for verdicts in verdicts_by_response),
        "facts": sum(verdicts.count(None) for verdicts in verdicts_by_response),
        "first_facts": sum(verdicts[0] is None for verdicts in verdicts_by_response),
        "facts_made_up": sum(response.grouped_fact_indices.count(None) for response in responses),
        "d_factscore": {"worst": average(worst_shares), "best": average(best_shares)},
    }


def _supported_share(verdicts: Sequence[bool | None], default_verdict: bool) -> float:
    """Return the share of supported facts if each missing verdict is the default one.

    Example:
        With the verdicts True, False and None, the share is 1/3 by default False, and 2/3 by True.
    """
    filled_verdicts = [default_verdict if verdict is None else verdict for verdict in verdicts]
    return sum(filled_verdicts) / len(filled_verdicts)
