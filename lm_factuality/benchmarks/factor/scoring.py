"""Equation 1 of the FACTOR paper for one row, and the scores that are reported beside it.

`metrics` calls `score_row` for each row, and open generation calls `gold_wins`. A model is right on
a row if the true completion has the highest mean log-probability per token. ``acc`` compares sums
of log-probabilities instead, and ``acc_bytes`` compares means per UTF-8 byte.

There are three protocols. With ``paper`` a tie is not right. With ``code`` a tie goes to the first
of the equal choices, as in the authors' script. The first choice there is always the true
one, so a model that gives all texts the same score is right on every row. ``dola`` follows the
script of DoLa (Chuang et al., 2024): it compares sums, and a tie is right. A row with a score that
is not a finite number is unscored by every protocol; the scripts would count it as right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lm_factuality.harness.outputs import ScoredContinuation

ACCURACIES = ("factor_acc", "acc", "acc_bytes")
"""The accuracies: by mean per token, by sum and by mean per byte."""


@dataclass(frozen=True)
class RowScore:
    """What a model's log-probabilities of the choices of one row amount to."""

    mean_logprob: tuple[float | None, ...]
    """The mean log-probability per token of each choice, in nats. None if it is not known."""

    num_tokens: tuple[int | None, ...]
    """The number of tokens of each choice. None if the backend shows no tokenizer."""

    truncated: bool
    """Whether the prefix lost its beginning because it did not fit into the window."""

    unscored: str = ""
    """Why the row has no score, empty if it has one."""

    correct: dict[str, bool] = field(default_factory=dict)
    """Whether the true completion wins, by the name of the accuracy."""

    leads: tuple[float, ...] = ()
    """By how much the true completion leads each choice. Empty without token counts.

    It is in nats per token, or in nats if the protocol is ``dola``.
    """

    continuous: dict[str, float] = field(default_factory=dict)
    """The scores that change with every log-probability, by name (see `continuous_scores`)."""


def score_row(
    scores: Sequence[ScoredContinuation],
    choices: Sequence[str],
    gold: int,
    problem: str = "",
    protocol: str = "paper",
) -> RowScore:
    """Score a row by a model's log-probabilities of its true completion and its contradictions.

    Args:
        scores: The log-probability and the number of tokens of each choice.
        choices: The texts of the true completion and its contradictions.
        gold: The index of the true completion in ``choices``.
        problem: Why the row itself cannot be scored, empty if it can.
        protocol: ``paper``, ``code`` or ``dola``; they differ in ties, and ``dola`` compares sums.

    Returns:
        The score. If the row is unscored, ``correct``, ``leads`` and ``continuous`` are empty.
    """
    row_score = RowScore(
        mean_logprob=tuple(_mean_logprob(score) for score in scores),
        num_tokens=tuple(score.num_tokens for score in scores),
        truncated=any(score.truncated for score in scores),
        unscored=problem or _first_problem(scores),
    )
    if row_score.unscored:
        return row_score

    sums = [float(score.logprob) for score in scores if score.logprob is not None]
    # Bytes do not depend on the tokenizer, so models can be compared.
    per_byte = [
        total / len(choice.encode("utf-8")) for total, choice in zip(sums, choices, strict=True)
    ]
    correct = {
        "acc": gold_wins(sums, gold, protocol),
        "acc_bytes": gold_wins(per_byte, gold, protocol),
    }
    compared_values = _values_of_factor_acc(sums, row_score.mean_logprob, protocol)
    if compared_values:
        correct["factor_acc"] = gold_wins(compared_values, gold, protocol)
    leads = tuple(compared_values[gold] - value for value in compared_values)

    continuous = continuous_scores(sums, gold)
    # From nats to bits.
    continuous["bits_per_byte"] = -per_byte[gold] / math.log(2)
    return replace(row_score, correct=correct, leads=leads, continuous=continuous)


def _values_of_factor_acc(
    sums: Sequence[float], means: Sequence[float | None], protocol: str
) -> Sequence[float]:
    """Return the values of the choices that ``factor_acc`` compares.

    Args:
        sums: The summed log-probability of each choice.
        means: The mean log-probability per token of each choice. None if the backend shows no
            tokenizer, so that the tokens cannot be counted.
        protocol: ``dola`` compares sums, as DoLa's script does. The others compare means.

    Returns:
        One value for each choice, or none at all if tokens cannot be counted.
    """
    known_means = [mean for mean in means if mean is not None]
    if len(known_means) < len(sums):
        return ()
    return sums if protocol == "dola" else known_means


def _mean_logprob(score: ScoredContinuation) -> float | None:
    """Return the mean log-probability per token, or None if it is not finite or not known."""
    if score.logprob is None or not math.isfinite(score.logprob) or not score.num_tokens:
        return None
    return score.logprob / score.num_tokens


def _first_problem(scores: Sequence[ScoredContinuation]) -> str:
    """Name the first choice without a finite log-probability, or return an empty text.

    Example:
        ``choice 2: the log-probability is nan``
    """
    for index, score in enumerate(scores):
        if score.problem:
            return f"choice {index}: {score.problem}"
        # A model that reports no problem may still give NaN or infinity, after an overflow.
        if score.logprob is None or not math.isfinite(score.logprob):
            return f"choice {index}: the log-probability is {score.logprob}"
    return ""


def gold_wins(values: Sequence[float], gold: int, protocol: str) -> bool:
    """Return whether the true completion has the highest value of all choices.

    Args:
        values: The value of each choice, such as its mean log-probability.
        gold: The index of the true completion.
        protocol: Decides ties. With ``code`` the first of equal choices wins, with ``dola`` the
            true one does, and with ``paper`` a tie is never right.
    """
    if protocol == "code":
        return list(values).index(max(values)) == gold
    if protocol == "dola":
        return values[gold] >= max(values)
    # Equation 1: the true completion is likelier than each contradiction.
    return all(values[gold] > value for index, value in enumerate(values) if index != gold)


def continuous_scores(sums: Sequence[float], gold: int) -> dict[str, float]:
    """Score the true completion by its probability among the choices.

    These scores show small differences between models that leave the accuracy as it is.

    Args:
        sums: The summed log-probability of each choice, in nats.
        gold: The index of the true completion.

    Returns:
        ``choice_prob``, the probability of the true completion given that one of the choices
        follows (the softmax of the sums), and ``brier_score``, the sum of the squared errors of all
        choices' probabilities, from 0 (best) to 2. lm_eval defines both likewise.
    """
    # Without subtracting the highest sum, exp() would give 0 for every long text.
    highest_sum = max(sums)
    weights = [math.exp(value - highest_sum) for value in sums]
    total_weight = sum(weights)

    probabilities = [weight / total_weight for weight in weights]
    return {
        "choice_prob": probabilities[gold],
        "brier_score": sum_of_squared_errors(probabilities, gold),
    }


def sum_of_squared_errors(probabilities: Sequence[float], gold: int) -> float:
    """Return the sum of the squared differences of choices' probabilities from the truth.

    The truth is 1 for the true completion, and 0 for each contradiction.
    """
    return sum(
        (probability - int(index == gold)) ** 2 for index, probability in enumerate(probabilities)
    )
