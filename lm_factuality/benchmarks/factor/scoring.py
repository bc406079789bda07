"""Equation 1 of the FACTOR paper, and what stands beside it.

A model is right on a row if the true completion has the highest mean log-probability per token;
``acc`` compares sums, ``acc_bytes`` means per UTF-8 byte. By the protocol ``paper`` a tie is not
right; by ``code`` it goes to the first of equal choices, as in the authors' script, whose first
choice is always the true one, so that constant scores get 100%. What is not a finite number is
unscored by all; in the scripts it would be right. ``dola`` is after the script of DoLa (Chuang et
al., 2024): sums decide, and a tie is right.

The finer scores change where accuracy does not yet. As lm_eval defines its continuous metrics:
``bits_per_byte`` is the information in the true completion, in bits per UTF-8 byte; ``choice_prob``
its probability given that one of the choices follows, the softmax of sums (that of means would be
none); ``brier_score`` the squared distance of those probabilities from certainty of the truth (0 to
2)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lm_factuality.harness.outputs import ScoredContinuation

NORMALISATIONS = ("factor_acc", "acc", "acc_bytes")  # by tokens, by nothing, by bytes


@dataclass(frozen=True)
class RowScore:
    """The outcome of one row. ``correct`` maps each normalisation that can be had to whether the
    true completion wins; ``leads`` says for each choice by how many nats per token the true
    completion has the higher mean log-probability (by the protocol ``dola`` nats of the sum), and
    ``beaten`` whether that makes it the likelier one (None for the true one); ``finer`` has the
    finer scores by name; ``unscored`` says why there is no outcome, empty if there is one."""

    correct: dict[str, bool]
    leads: tuple[float | None, ...]
    beaten: tuple[bool | None, ...]
    mean_logprob: tuple[float | None, ...]
    num_tokens: tuple[int | None, ...]
    truncated: bool
    finer: Mapping[str, float] = field(default_factory=dict)
    unscored: str = ""


def score_row(
    scores: Sequence[ScoredContinuation],
    choices: Sequence[str],
    gold: int,
    problem: str = "",
    protocol: str = "paper",
) -> RowScore:
    """The outcome of a row; ``problem`` is what is wrong with the row itself, if anything;
    ``protocol`` decides ties."""
    means = [_mean(score) for score in scores]
    reasons = (
        f"choice {index}: {reason}"
        for index, score in enumerate(scores)
        if (reason := _problem(score))
    )
    nothing = (None,) * len(scores)
    counts, is_truncated = (
        tuple(score.num_tokens for score in scores),
        any(score.truncated for score in scores),
    )
    outcome = RowScore(
        {},
        nothing,
        nothing,
        tuple(means),
        counts,
        is_truncated,
        unscored=problem or next(reasons, ""),
    )
    if outcome.unscored:
        return outcome
    sums = [float(score.logprob or 0.0) for score in scores]
    per_byte = [
        total / len(choice.encode("utf-8")) for total, choice in zip(sums, choices, strict=True)
    ]
    correct = {"acc": wins(sums, gold, protocol), "acc_bytes": wins(per_byte, gold, protocol)}
    outcome = replace(outcome, correct=correct, finer=_finer(sums, gold, per_byte[gold]))
    deciding = sums if protocol == "dola" else [mean for mean in means if mean is not None]
    if None in means:
        return outcome
    leads = tuple(
        None if index == gold else deciding[gold] - value for index, value in enumerate(deciding)
    )
    beaten = tuple(
        None if lead is None else lead > 0 or (lead == 0 and protocol == "dola") for lead in leads
    )
    return replace(
        outcome,
        correct={"factor_acc": wins(deciding, gold, protocol), **correct},
        leads=leads,
        beaten=beaten,
    )


def _finer(sums: Sequence[float], gold: int, per_byte: float) -> dict[str, float]:
    highest = max(sums)
    weights = [math.exp(value - highest) for value in sums]
    shares = [weight / sum(weights) for weight in weights]
    brier = sum((share - (index == gold)) ** 2 for index, share in enumerate(shares))
    return {
        "bits_per_byte": -per_byte / math.log(2),
        "choice_prob": shares[gold],
        "brier_score": brier,
    }


def _mean(score: ScoredContinuation) -> float | None:
    if score.logprob is None or not score.num_tokens or not math.isfinite(score.logprob):
        return None
    return score.logprob / score.num_tokens


def _problem(score: ScoredContinuation) -> str:
    if score.problem or score.logprob is None:
        return score.problem or "no log-probability"
    return "" if math.isfinite(score.logprob) else f"the log-probability is {score.logprob}"


def wins(values: Sequence[float], gold: int, protocol: str) -> bool:
    """Whether the true completion has the highest of ``values``, with ties as the protocol has
    them."""
    if protocol == "code":
        return list(values).index(max(values)) == gold
    if protocol == "dola":
        return values[gold] >= max(values)
    return all(values[gold] > value for index, value in enumerate(values) if index != gold)
