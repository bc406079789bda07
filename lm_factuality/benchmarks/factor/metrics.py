"""The metrics of the FACTOR tasks, and the accuracy of a model that knows nothing.

The tasks and the leaderboard call `row_metrics` for each row, and `SCORES` says how rows become one
number. The *guess baseline* is the accuracy of a model that knows nothing. It is not 25% for four
choices: FACTOR's contradictions are edits of the true completion, which therefore lies between
them. The true completion is the likeliest only if each edit makes it less likely. For edits of
three different words, that happens in one of eight rows.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_factuality.benchmarks.declaration import load_scores, worst_and_best_of
from lm_factuality.benchmarks.factor.scoring import ACCURACIES, RowScore, score_row
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ScoredContinuation, TaskResult, number_of
from lm_factuality.scores.statistics import Aggregation, Outcome, ratio

NUM_DRAWS = 20
"""How often every word gets a random weight."""

_BYTES_PER_WEIGHT = 3


ACCURACY_BY_TYPE = "factor_acc_vs_"
"""The beginning of a metric: the pairwise accuracy against contradictions of one error type."""

MARGIN_BY_TYPE = "margin_vs_"
"""The beginning of a metric: the margin over the contradictions of one error type."""

GUESS_BASELINE = "guess_baseline"
_CONTINUOUS_OF_SUMS = ("bits_per_byte", "choice_prob", "brier_score")
CONTINUOUS = (*_CONTINUOUS_OF_SUMS, "pairwise_acc", "margin")
"""The scores that show smaller differences than accuracies. The last two need token counts."""


class ChoiceValues(list[float | None]):
    """A value for each choice of a row, of which scores average the true completion's."""

    def __init__(self, values: Sequence[float | None] = (), gold: int = -1) -> None:
        """Keep the values, and find that of the true completion.

        Args:
            values: The value of each choice, None if it is not known.
            gold: The index of the true completion, which is out of range in a broken row.
        """
        super().__init__(values)
        self.gold_value = self[gold] if 0 <= gold < len(self) else None


def row_metrics(
    doc: JsonObject,
    scores: Sequence[ScoredContinuation],
    protocol: str,
    error_types: Sequence[str],
) -> JsonObject:
    """Return every metric of one row: accuracies, continuous scores and why it is unscored.

    Args:
        doc: The row (see `lm_factuality.benchmarks.factor.rows.row_document`).
        scores: The log-probability and the number of tokens of each of its choices.
        protocol: ``paper``, ``code`` or ``dola`` (see `score_row`).
        error_types: All error types of the data, each of which has metrics of its own.

    Returns:
        The values by metric. A value is None if the row is unscored or, for an error type, if the
        row has no contradiction of that type. If tokens cannot be counted, the metrics that need
        their number are absent.
    """
    row_score = score_row(scores, doc["choices"], doc["gold"], doc["problem"], protocol)
    cluster = doc["doc_id"]
    counts_tokens = has_tokens(scores)

    metrics: JsonObject = {}
    # A backend that shows no tokenizer has no accuracy per token.
    accuracies = ACCURACIES if counts_tokens else ("acc", "acc_bytes")
    for name in accuracies:
        metrics[name] = _outcome_or_none(row_score.correct.get(name), cluster)
    for name in _CONTINUOUS_OF_SUMS:
        # Bits are averaged over all bytes of the data, not over rows.
        weight = completion_bytes(doc) if name == "bits_per_byte" else 1
        metrics[name] = _outcome_or_none(row_score.continuous.get(name), cluster, weight)
    if counts_tokens:
        metrics |= _token_metrics(doc, row_score, protocol, error_types)

    # Accuracies are over scored rows, so the guess baseline that they are compared with is too.
    is_scored = not row_score.unscored
    metrics[GUESS_BASELINE] = guess_accuracy(doc["choices"], doc["gold"]) if is_scored else None
    metrics["unscored"] = row_score.unscored or None
    return metrics


def _outcome_or_none(value: float | None, cluster: str, weight: int = 1) -> Outcome | None:
    """Return the value of an unscored row, None, as it is, and any other value as an outcome."""
    return None if value is None else Outcome(value, cluster, weight)


def completion_bytes(doc: JsonObject) -> int:
    """Return the length of a row's true completion in UTF-8 bytes."""
    return len(doc["choices"][doc["gold"]].encode("utf-8"))


def has_tokens(scores: Sequence[ScoredContinuation]) -> bool:
    """Return whether the tokens of all choices could be counted with the model's tokenizer."""
    return all(score.num_tokens is not None for score in scores)


def _token_metrics(
    doc: JsonObject, row_score: RowScore, protocol: str, error_types: Sequence[str]
) -> JsonObject:
    """Return the metrics of a row that exist only if the model's tokens can be counted.

    Args:
        doc: The row.
        row_score: The score of the row.
        protocol: ``paper``, ``code`` or ``dola``, which decides ties.
        error_types: All error types of the data.

    Returns:
        The values by metric, such as ``margin_vs_entity``. None if the row is unscored or has no
        contradiction of that error type.
    """
    overall = _compare_with_contradictions(doc, row_score, protocol)
    metrics: JsonObject = {"pairwise_acc": overall.pairwise_acc, "margin": overall.margin}
    # Every row has the same metrics, also those of error types that it lacks.
    for error_type in error_types:
        of_type = _compare_with_contradictions(doc, row_score, protocol, error_type)
        metrics[f"{ACCURACY_BY_TYPE}{error_type}"] = of_type.pairwise_acc
        metrics[f"{MARGIN_BY_TYPE}{error_type}"] = of_type.margin

    # An unscored row, which has no "factor_acc", counts as wrong in the worst case.
    is_right_at_worst = row_score.correct.get("factor_acc", False)
    is_right_at_best = row_score.correct.get("factor_acc", True)
    metrics |= worst_and_best_of(
        "factor_acc",
        worst=Outcome(is_right_at_worst, doc["doc_id"]),
        best=Outcome(is_right_at_best, doc["doc_id"]),
    )
    metrics["factor_mean_logprob"] = ChoiceValues(row_score.mean_logprob, doc["gold"])
    metrics["factor_num_tokens"] = list(row_score.num_tokens)
    metrics["truncated"] = float(row_score.truncated)
    return metrics


class ContradictionComparison(NamedTuple):
    """How a true completion compares with contradictions of it."""

    pairwise_acc: Outcome | None
    """The share of the contradictions that it beats. None if there are none."""

    margin: Outcome | None
    """Its lead over the likeliest contradiction. None if there are none."""


def _compare_with_contradictions(
    doc: JsonObject, row_score: RowScore, protocol: str, error_type: str | None = None
) -> ContradictionComparison:
    """Compare a model's score of the true completion of a row with those of its contradictions.

    Args:
        doc: The row.
        row_score: The score of the row. Its ``leads`` say by how much the true completion is ahead
            of each choice.
        protocol: ``paper``, ``code`` or ``dola``; only with ``dola`` a tie is won.
        error_type: Restricts the contradictions to those of one type.

    Returns:
        The share of contradictions that the true completion beats, and its lead over the likeliest
        of them. Both are None if the row is unscored or has no contradiction of the type.
    """
    leads = []
    for index, lead in enumerate(row_score.leads):
        if index == doc["gold"]:
            continue
        if error_type is None or doc["error_types"][index] == error_type:
            leads.append(lead)
    if not leads:
        return ContradictionComparison(None, None)

    num_beaten = len([lead for lead in leads if lead > 0])
    # In the other protocols a tie is lost, as in equation 1.
    if protocol == "dola":
        num_beaten += leads.count(0)
    cluster = doc["doc_id"]
    # A share is weighted by its number of pairs, so that all pairs of the data count the same.
    return ContradictionComparison(
        pairwise_acc=Outcome(num_beaten / len(leads), cluster, weight=len(leads)),
        margin=Outcome(min(leads), cluster),
    )


def guess_baseline_of(task: TaskResult, metric: str) -> float | None:
    """Return the share that a model that knows nothing has right on the same rows.

    Args:
        task: The results of a FACTOR task, which hold the guess baseline of the accuracies.
        metric: The name of the metric. None is returned for one that is no accuracy.
    """
    # A guess beats one contradiction half of the time.
    if metric == "pairwise_acc" or metric.startswith(ACCURACY_BY_TYPE):
        return 0.5
    if metric in ACCURACIES:
        return number_of(task.metrics.get(GUESS_BASELINE))
    return None


def guess_accuracy(choices: Sequence[str], gold: int, seed: int = 0) -> float:
    """Return how often a model that knows nothing would pick the true choice of a row.

    Such a model likes some words better than others: each word has a random weight, the same in all
    rows, and the model picks the choice with the highest sum of weights.

    Args:
        choices: The texts of the true completion and its contradictions.
        gold: The index of the true completion.
        seed: Selects other random weights.

    Returns:
        The probability from 0 to 1. It is a mean over `NUM_DRAWS` such models, each with other
        weights.
    """
    score_by_choice_and_draw = np.zeros((len(choices), NUM_DRAWS), dtype=np.int64)
    for index, choice in enumerate(choices):
        for word in choice.split():
            score_by_choice_and_draw[index] += _random_weights(word, seed)

    gold_probabilities = [
        pick_probabilities(scores_of_choices)[gold]
        for scores_of_choices in score_by_choice_and_draw.T.tolist()
    ]
    return float(np.mean(gold_probabilities))


@lru_cache(maxsize=1 << 16)
def _random_weights(word: str, seed: int) -> NDArray[np.int64]:
    """Return `NUM_DRAWS` random weights of a word, which are the same on every machine.

    Args:
        word: The word. Its hash gives the weights, so that it has the same ones in every row.
        seed: Selects other weights.

    Returns:
        Whole numbers around 0. Sums of fractions would be rounded differently for other orders of
        the words, so choices with the same words would not tie.
    """
    text = f"{seed}/{word}".encode("utf-8", "replace")
    digest = hashlib.blake2b(text, digest_size=_BYTES_PER_WEIGHT * NUM_DRAWS).digest()

    # The middle is subtracted so that half of the weights are negative. If all were positive, the
    # longest choice would always win.
    middle = 256**_BYTES_PER_WEIGHT // 2
    weights = []
    for start in range(0, len(digest), _BYTES_PER_WEIGHT):
        number = int.from_bytes(digest[start : start + _BYTES_PER_WEIGHT], "little")
        weights.append(number - middle)
    return np.array(weights, dtype=np.int64)


def pick_probabilities(values: Sequence[float]) -> list[float]:
    """Return how likely each choice is picked if the highest value wins and ties are drawn by lot.

    Example:
        The values ``[2, 5, 5]`` give ``[0, 0.5, 0.5]``.
    """
    # Several values may tie for the highest.
    is_highest = [value == max(values) for value in values]
    num_highest = sum(is_highest)
    return [highest / num_highest for highest in is_highest]


def _mean(values: Sequence[float]) -> float:
    """Return the mean of values, or NaN if there are none."""
    return ratio(sum(values), len(values))


SCORES = load_scores(
    __package__,
    mean_of_values=Aggregation(lambda rows: _mean([row for row in rows if row is not None])),
    mean_of_gold=Aggregation(
        lambda rows: _mean([row.gold_value for row in rows if row.gold_value is not None])
    ),
    mean_of_lists=Aggregation(lambda rows: _mean([count for row in rows for count in row])),
)
