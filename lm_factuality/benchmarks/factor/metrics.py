"""The metrics of the FACTOR tasks, and the floor under accuracies: what a model that knows nothing
scores on a row. Among four choices that is 25% only where they have nothing to do with each other.
Edits of one sentence leave it between them: it is the likeliest only if each edit makes it less
likely, one time in eight for edits of different words."""

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lm_factuality.benchmarks.declaration import load_scores, worst_and_best_of
from lm_factuality.benchmarks.factor.scoring import NORMALISATIONS, RowScore, score_row
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ScoredContinuation, TaskResult, number_of
from lm_factuality.scores.statistics import Aggregation, Outcome

# So often word weights are drawn,
LOTS = 20
# each of so many bytes.
_BYTES = 3

Ints = np.ndarray[Any, np.dtype[np.int64]]


def pick_probabilities(values: Sequence[float]) -> list[float]:
    """Return how likely each choice is picked by who picks the greatest value, ties by lot."""
    picked = [value == max(values) for value in values]
    return [is_best / sum(picked) for is_best in picked]


def floor_accuracy(choices: Sequence[str], gold: int, seed: int = 0) -> float:
    """Return how often word weights drawn by lot pick the true choice.

    Each word has one random weight in all rows, and the choice with the greatest sum is picked.
    The value is the mean over `LOTS` drawings.
    """
    zero = np.zeros(LOTS, dtype=np.int64)
    sums = np.array(
        [sum((_weights(word, seed) for word in choice.split()), zero) for choice in choices]
    )
    return float(np.mean([pick_probabilities(drawing)[gold] for drawing in sums.T.tolist()]))


@lru_cache(maxsize=1 << 16)
def _weights(word: str, seed: int) -> Ints:
    text = f"{seed}/{word}".encode("utf-8", "replace")
    digest = hashlib.blake2b(text, digest_size=_BYTES * LOTS).digest()
    parts = np.frombuffer(digest, dtype=np.uint8).reshape(LOTS, _BYTES).astype(np.int64)
    # Whole numbers, lest the order of words break a tie.
    weights: Ints = parts @ 256 ** np.arange(_BYTES) - 256**_BYTES // 2
    return weights


# Pairwise accuracy and margin against the contradictions of one error type.
VERSUS = "factor_acc_vs_"
MARGIN_VERSUS = "margin_vs_"
FLOOR = "floor"
# These show smaller differences than accuracy. The last two need token counts.
_OF_SUMS = ("bits_per_byte", "choice_prob", "brier_score")
FINER = (*_OF_SUMS, "pairwise_acc", "margin")


class ChoiceValues(list[float | None]):
    """A value for each choice, as the samples show them."""

    def __init__(self, values: Sequence[float | None] = (), gold: int = -1) -> None:
        super().__init__(values)
        # The true completion's, which the mean is over.
        self.of_gold = self[gold] if 0 <= gold < len(self) else None


def row_metrics(
    doc: JsonObject,
    scores: Sequence[ScoredContinuation],
    protocol: str,
    error_types: Sequence[str],
) -> JsonObject:
    """Return the metrics of one row. None is unscored.

    Args:
        scores: Of the row's choices.
        error_types: All that the data has.
    """
    row = score_row(scores, doc["choices"], doc["gold"], doc["problem"], protocol)
    cluster = doc["doc_id"]
    with_tokens = has_tokens(scores)
    metrics: JsonObject = {}
    for name in NORMALISATIONS if with_tokens else NORMALISATIONS[1:]:
        metrics[name] = Outcome(row.correct[name], cluster) if row.correct else None
    for name in _OF_SUMS:
        weight = true_bytes(doc) if name == "bits_per_byte" else 1
        metrics[name] = Outcome(row.finer[name], cluster, weight) if row.finer else None
    if with_tokens:
        metrics["pairwise_acc"], metrics["margin"] = _versus(doc, row, protocol)
        for kind in error_types:
            beaten, margin = _versus(doc, row, protocol, kind)
            metrics[f"{VERSUS}{kind}"] = beaten
            metrics[f"{MARGIN_VERSUS}{kind}"] = margin
        ends = (Outcome(row.correct.get("factor_acc", end), cluster) for end in (False, True))
        metrics |= worst_and_best_of("factor_acc", *ends) | {
            "factor_mean_logprob": ChoiceValues(row.mean_logprob, doc["gold"]),
            "factor_num_tokens": list(row.num_tokens),
            "truncated": float(row.truncated),
        }
    # Of the rows that the accuracy is of.
    metrics[FLOOR] = floor_accuracy(doc["choices"], doc["gold"]) if row.correct else None
    metrics["unscored"] = row.unscored or None
    return metrics


def true_bytes(doc: JsonObject) -> int:
    """Return the length of the true completion in UTF-8 bytes."""
    return len(doc["choices"][doc["gold"]].encode("utf-8"))


def has_tokens(scores: Sequence[ScoredContinuation]) -> bool:
    """Return whether the model's tokenizer is within reach, so that tokens could be counted."""
    return all(score.num_tokens is not None for score in scores)


def _versus(
    doc: JsonObject, row: RowScore, protocol: str, kind: str | None = None
) -> tuple[Outcome | None, Outcome | None]:
    """Compare the true completion with its contradictions, of one error type or of all.

    Returns:
        The share that it beats, and its lead over the likeliest.
    """
    leads = [
        lead
        for place, lead in enumerate(row.leads)
        if place != doc["gold"] and kind in (None, doc["error_types"][place])
    ]
    if not leads:
        return None, None
    beaten = sum(lead > 0 or (lead == 0 and protocol == "dola") for lead in leads)
    cluster = doc["doc_id"]
    return Outcome(beaten / len(leads), cluster, len(leads)), Outcome(min(leads), cluster)


def _plain_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


SCORES = load_scores(
    __package__,
    mean_of_values=Aggregation(lambda rows: _plain_mean([row for row in rows if row is not None])),
    mean_of_gold=Aggregation(
        lambda rows: _plain_mean([row.of_gold for row in rows if row.of_gold is not None])
    ),
    mean_of_lists=Aggregation(lambda rows: _plain_mean([count for row in rows for count in row])),
)


def floor(task: TaskResult, metric: str) -> float | None:
    """Return what knowing nothing scores on a task's rows, None where there is no floor."""
    if metric == "pairwise_acc" or metric.startswith(VERSUS):
        return 0.5
    return number_of(task.metrics.get(FLOOR)) if metric in NORMALISATIONS else None
