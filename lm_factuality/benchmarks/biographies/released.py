"""The authors' figures out of their decision files, and the same without what their script leaves
unsaid.

``code`` gives the released figures: FActScore over the facts as decomposed, D-FActScore over those
that came back from grouping (the first of nearly every response did not), without responses of
which none did. ``fixed`` divides by the facts as the paper defines it: a fact that grouping lost is
unscored, one that it made up counts nowhere, a response without a fact left is unscored, and the
worst and the best case say what that could amount to."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from lm_factuality.benchmarks.biographies.decisions import NUM_GROUPS, DecidedResponse, Decisions
from lm_factuality.benchmarks.biographies.scores import length_penalty
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.scores.statistics import Outcome, average, bootstrap_interval, defined, mean

Protocol = Literal["code", "fixed"]

_RECORDED = {  # our names of the figures that files state
    "factscore": "init_score",
    "factscore_penalised": "score",
    "d_factscore": "init_global_score",
    "num_entities": "num_supporting_topics",
    "respond_ratio": "respond_ratio",
    "facts_per_response": "num_facts_per_response",
    "num_nan": "nan",
}
_SAME = 1e-9


def score_decisions(decisions: Decisions, protocol: Protocol = "code") -> dict[str, Any]:
    """The figures as a JSON object: means over responses (``respond_ratio``: over names) as
    fractions, with intervals that bootstrap the names. ``num_biographies`` is the file's own
    ``num_groups``, null if it states none; ``num_biographies_at_least`` what its decisions show.
    Raises DataError: ``protocol`` is ``code`` and the figures that the file states are not those of
    its decisions."""
    answered = [
        (str(number), each) for number, each in enumerate(decisions.responses) if each is not None
    ]
    per_response: dict[str, Callable[[DecidedResponse], float | None]] = {
        "factscore": factscore,
        "factscore_penalised": penalised,
        "d_factscore": D_FACTSCORE[protocol],
        "num_entities": num_entities,
        "facts_per_response": lambda response: float(len(response.facts)),
    }
    outcomes: dict[str, list[Outcome | None]] = {
        key: [
            None if (found := value(response)) is None else Outcome(found, name)
            for name, response in answered
        ]
        for key, value in per_response.items()
    }
    outcomes["respond_ratio"] = [
        Outcome(each is not None, str(number)) for number, each in enumerate(decisions.responses)
    ]
    outcomes["difference"] = [
        None if one is None or other is None else Outcome(one - other, one.cluster)
        for one, other in zip(outcomes["factscore"], outcomes["d_factscore"], strict=True)
    ]
    figures = {key: defined(mean(values)) for key, values in outcomes.items()}
    report: dict[str, Any] = {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["released"][protocol],
        **figures,
        "num_biographies": decisions.recorded.get(NUM_GROUPS),
        "num_biographies_at_least": average(
            [least_biographies(response) for _, response in answered]
        ),
        "num_nan": sum(not response.grouped for _, response in answered),
        "num_names": len(decisions.responses),
        "num_responses": len(answered),
        "unscored": _unscored(answered),
        "intervals": {
            key: [defined(end) for end in bootstrap_interval(each, resamples=2000)]
            for key, each in outcomes.items()
        },
    }
    if protocol == "code":
        _check(decisions, report)
    return report


def factscore(response: DecidedResponse) -> float:
    return sum(fact.is_supported for fact in response.facts) / len(response.facts)


def penalised(response: DecidedResponse) -> float:
    """``factscore`` times the length penalty (FActScore, section 4)."""
    return factscore(response) * length_penalty(len(response.facts))


def num_entities(response: DecidedResponse) -> float:
    return float(len({fact.entity for fact in response.facts if fact.entity is not None}))


def least_biographies(response: DecidedResponse) -> int:
    """Groups that there must have been at least: all supported facts of a group are supported by
    the same entity."""
    entities = [fact.entity for fact in response.grouped if fact.entity is not None]
    return max(1, sum(1 for _ in groupby(entities)))


def grouped_score(response: DecidedResponse) -> float | None:
    """The share of the facts that came back from grouping; None if none did."""
    return average(fact.is_supported for fact in response.grouped)


D_FACTSCORE: Mapping[Protocol, Callable[[DecidedResponse], float | None]] = {
    "code": grouped_score,
    "fixed": lambda response: average(
        _matched(response)
    ),  # of the facts as decomposed, those on which grouping left a verdict
}


def _matched(response: DecidedResponse) -> list[bool | None]:
    """For each fact as decomposed the verdict on it after grouping; facts of the same words are
    taken in order."""
    verdicts = {
        number: fact.is_supported
        for number, fact in zip(response.numbers, response.grouped, strict=True)
    }
    return [verdicts.get(number) for number in range(len(response.facts))]


def _unscored(answered: Sequence[tuple[str, DecidedResponse]]) -> dict[str, Any]:
    """What grouping did to the facts, and D-FActScore if all that has no verdict were not
    supported, or were."""
    rows = [
        (len(response.grouped), verdicts := _matched(response), verdicts.count(None))
        for _, response in answered
    ]
    return {
        "responses": sum(lost == len(verdicts) for _, verdicts, lost in rows),
        "facts": sum(lost for _, _, lost in rows),
        "first_facts": sum(verdicts[0] is None for _, verdicts, _ in rows),
        "facts_made_up": sum(grouped - (len(verdicts) - lost) for grouped, verdicts, lost in rows),
        "d_factscore": {
            "worst": average(verdicts.count(True) / len(verdicts) for _, verdicts, _ in rows),
            "best": average(
                (verdicts.count(True) + lost) / len(verdicts) for _, verdicts, lost in rows
            ),
        },
    }


def _check(decisions: Decisions, report: Mapping[str, Any]) -> None:
    for ours, theirs in _RECORDED.items():
        stated, found = decisions.recorded.get(theirs), report[ours]
        if stated is not None and (found is None or abs(stated - found) > _SAME):
            raise DataError(
                f"{decisions.path}: states {theirs} {stated!r}, but its decisions give {found!r};"
                " the file has been altered: restore it, or take that figure out of it"
            )
    biographies, least = report["num_biographies"], report["num_biographies_at_least"]
    if biographies is not None and biographies < least - _SAME:
        raise DataError(
            f"{decisions.path}: states {NUM_GROUPS} {biographies!r}, but its decisions need"
            f" {least!r} at least; restore the file"
        )
