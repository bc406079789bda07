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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lm_factuality.harness.outputs import ScoredContinuation

# By tokens, by nothing, by bytes.
NORMALISATIONS = ("factor_acc", "acc", "acc_bytes")


@dataclass(frozen=True)
class RowScore:
    """The outcome of one row."""

    mean_logprob: tuple[float | None, ...]
    num_tokens: tuple[int | None, ...]
    truncated: bool
    unscored: str = ""
    """Why there is no outcome, empty if there is one."""

    correct: dict[str, bool] = field(default_factory=dict)
    """Whether the true completion wins, by each normalisation that can be had."""

    leads: tuple[float, ...] = ()
    """By how much the true completion leads each choice. Empty without token counts.

    It is in nats per token, or in nats by the protocol ``dola``.
    """

    finer: dict[str, float] = field(default_factory=dict)
    """The finer scores by name."""


def score_row(
    scores: Sequence[ScoredContinuation],
    choices: Sequence[str],
    gold: int,
    problem: str = "",
    protocol: str = "paper",
) -> RowScore:
    """Score a row.

    Args:
        problem: What is wrong with the row itself, if anything.
        protocol: Decides ties.
    """
    means: list[float | None] = []
    reasons = [problem] if problem else []
    for index, score in enumerate(scores):
        logprob = math.nan if score.logprob is None else score.logprob
        is_finite = math.isfinite(logprob)
        means.append(logprob / score.num_tokens if is_finite and score.num_tokens else None)
        reason = score.problem or f"the log-probability is {score.logprob}"
        if score.problem or not is_finite:
            reasons.append(f"choice {index}: {reason}")
    row = RowScore(
        tuple(means),
        tuple(score.num_tokens for score in scores),
        any(score.truncated for score in scores),
        unscored=reasons[0] if reasons else "",
    )
    if reasons:
        return row

    sums = [float(score.logprob or 0.0) for score in scores]
    per_byte = [
        total / len(choice.encode("utf-8")) for total, choice in zip(sums, choices, strict=True)
    ]
    correct = {}
    leads: list[float] = []
    by_token = [mean for mean in means if mean is not None]
    if len(by_token) == len(means):
        deciding = sums if protocol == "dola" else by_token
        correct["factor_acc"] = gold_wins(deciding, gold, protocol)
        leads = [deciding[gold] - value for value in deciding]
    correct["acc"] = gold_wins(sums, gold, protocol)
    correct["acc_bytes"] = gold_wins(per_byte, gold, protocol)
    weights = [math.exp(value - max(sums)) for value in sums]
    shares = [weight / sum(weights) for weight in weights]
    finer = {
        "bits_per_byte": -per_byte[gold] / math.log(2),
        "choice_prob": shares[gold],
        "brier_score": sum((share - (i == gold)) ** 2 for i, share in enumerate(shares)),
    }
    return replace(row, correct=correct, leads=tuple(leads), finer=finer)


def gold_wins(values: Sequence[float], gold: int, protocol: str) -> bool:
    """Return whether the true completion has the highest value, with ties as the protocol does."""
    if protocol == "code":
        return list(values).index(max(values)) == gold
    if protocol == "dola":
        return values[gold] >= max(values)
    return all(values[gold] > value for index, value in enumerate(values) if index != gold)
