"""The metrics of the FACTOR tasks, and the floor under accuracies: what a model that knows nothing
scores on a row. Among four choices that is 25% only where they have nothing to do with each other.
Edits of one sentence leave it between them: it is the likeliest only if each edit makes it less
likely, one time in eight for edits of different words."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from lm_factuality.benchmarks.declaration import ACCURACY, BITS_PER_BYTE, Measure, Score, bounds_of
from lm_factuality.benchmarks.factor.scoring import NORMALISATIONS, RowScore, score_row
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import ScoredContinuation, TaskResult, number_of
from lm_factuality.scores.statistics import MEAN, TOTAL, Aggregation, Outcome, how_many

LOTS = 20  # drawings of word weights
_BYTES = 3  # of a weight

Ints = np.ndarray[Any, np.dtype[np.int64]]


def shares(values: Sequence[float]) -> list[float]:
    """How likely each choice is to be picked by who picks the greatest value, ties broken by
    lot."""
    picked = [value == max(values) for value in values]
    return [is_best / sum(picked) for is_best in picked]


def floor_of(choices: Sequence[str], gold: int, seed: int = 0) -> float:
    """How often word weights drawn by lot pick the true one of ``choices``: each word has one
    random weight in all rows, and the choice with the greatest sum is picked. The mean over
    ``LOTS`` drawings."""
    zero = np.zeros(LOTS, dtype=np.int64)
    sums = np.array(
        [sum((_weights(word, seed) for word in choice.split()), zero) for choice in choices]
    )
    return float(np.mean([shares(each)[gold] for each in sums.T.tolist()]))


@lru_cache(maxsize=1 << 16)
def _weights(word: str, seed: int) -> Ints:
    digest = hashlib.blake2b(
        f"{seed}/{word}".encode("utf-8", "replace"), digest_size=_BYTES * LOTS
    ).digest()
    parts = np.frombuffer(digest, dtype=np.uint8).reshape(LOTS, _BYTES).astype(np.int64)
    found: Ints = parts @ 256 ** np.arange(_BYTES) - 256**_BYTES // 2
    return found  # whole numbers, lest the order of words break a tie


VERSUS = "factor_acc_vs_"  # pairwise accuracy against the contradictions of one error type
MARGIN_VERSUS = "margin_vs_"
FLOOR = "floor"
FINER = (
    "bits_per_byte",
    "choice_prob",
    "brier_score",
    "pairwise_acc",
    "margin",
)  # what shows smaller differences than accuracy


class ChoiceValues(list[float | None]):
    """A value for each choice, as the samples show them; ``of_gold`` is that of the true
    completion, which the mean is over."""

    def __init__(self, values: Sequence[float | None] = (), gold: int = -1) -> None:
        super().__init__(values)
        self.of_gold = self[gold] if 0 <= gold < len(self) else None


def row_metrics(
    doc: Mapping[str, Any],
    scores: Sequence[ScoredContinuation],
    protocol: str,
    error_types: Sequence[str],
) -> dict[str, Any]:
    """The metrics of one row, whose choices have ``scores``; None is unscored. ``error_types`` are
    all that the data has."""
    row = score_row(scores, doc["choices"], doc["gold"], doc["problem"], protocol)
    with_tokens = has_tokens(scores)
    names = NORMALISATIONS if with_tokens else NORMALISATIONS[1:]
    cluster = doc["doc_id"]
    metrics: dict[str, Any] = {
        name: Outcome(row.correct[name], cluster) if name in row.correct else None for name in names
    }
    for name in FINER[:3]:
        weight = true_bytes(doc) if name == "bits_per_byte" else 1
        metrics[name] = Outcome(row.finer[name], cluster, weight) if row.finer else None
    if with_tokens:
        metrics |= {"pairwise_acc": _beaten(doc, row), "margin": _margin(doc, row)}
        for kind in error_types:
            metrics |= {
                f"{VERSUS}{kind}": _beaten(doc, row, kind),
                f"{MARGIN_VERSUS}{kind}": _margin(doc, row, kind),
            }
        ends = (Outcome(row.correct.get("factor_acc", end), cluster) for end in (False, True))
        metrics |= bounds_of("factor_acc", *ends) | {
            "factor_mean_logprob": ChoiceValues(row.mean_logprob, doc["gold"]),
            "factor_num_tokens": list(row.num_tokens),
            "truncated": float(row.truncated),
        }
    floor = (
        floor_of(doc["choices"], doc["gold"]) if row.correct else None
    )  # of the rows that the accuracy is of
    return metrics | {FLOOR: floor, "unscored": row.unscored or None}


def true_bytes(doc: Mapping[str, Any]) -> int:
    """How long the true completion is, in UTF-8 bytes: the weight of its bits per byte."""
    return len(doc["choices"][doc["gold"]].encode("utf-8"))


def has_tokens(scores: Sequence[ScoredContinuation]) -> bool:
    """Whether the model's tokenizer is within reach, so that tokens could be counted."""
    return all(score.num_tokens is not None for score in scores)


def _beaten(doc: Mapping[str, Any], row: RowScore, kind: str | None = None) -> Outcome | None:
    """The share of contradictions, of one error type or of all, that the true completion beats."""
    beaten = _of_kind(doc, row.beaten, kind)
    return Outcome(sum(beaten) / len(beaten), doc["doc_id"], len(beaten)) if beaten else None


def _margin(doc: Mapping[str, Any], row: RowScore, kind: str | None = None) -> Outcome | None:
    """By how much the true completion leads the likeliest of those contradictions."""
    leads = _of_kind(doc, row.leads, kind)
    return Outcome(min(leads), doc["doc_id"]) if leads else None


def _of_kind(
    doc: Mapping[str, Any], values: Sequence[float | None], kind: str | None
) -> list[float]:
    pairs = zip(values, doc["error_types"], strict=True)
    return [value for value, each in pairs if value is not None and kind in (None, each)]


def _plain_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


CHOICE_PROB, PAIRWISE = Measure("choice_probability"), Measure("pairwise_accuracy")
BRIER, MARGIN = (
    Measure("brier_score", 0.0, 2.0),
    Measure("margin", -math.inf, math.inf),
)
_OF_GOLD = Aggregation(
    lambda rows: _plain_mean([row.of_gold for row in rows if row.of_gold is not None])
)
# Of one tokenizer, whose mark are its token counts.
_MARGIN = Score(
    f"{MARGIN_VERSUS}*", MEAN, MARGIN, times=1, digits=3, comparable_if_equal="factor_num_tokens"
)

_FACTOR_ACC = Score(
    "factor_acc",
    MEAN,
    ACCURACY,
    "Accuracy",
    note="by mean log-probability per token, equation 1 of the paper",
)
SCORES = (
    _FACTOR_ACC,
    Score(
        "acc", MEAN, ACCURACY, "Accuracy of sums", note="by log-probability, not divided by length"
    ),
    Score(
        "acc_bytes", MEAN, ACCURACY, "Accuracy per byte", note="by log-probability per UTF-8 byte"
    ),
    Score(
        "bits_per_byte", MEAN, BITS_PER_BYTE, "Bits per byte", False, 1, 3, "of true completions"
    ),
    Score(
        "choice_prob",
        MEAN,
        CHOICE_PROB,
        "Choice probability",
        note="of the true one, given that one of them follows",
    ),
    Score(
        "brier_score",
        MEAN,
        BRIER,
        "Brier score",
        False,
        1,
        3,
        "of choice probabilities; 0.75 if all four are equal",
    ),
    Score(
        "pairwise_acc",
        MEAN,
        PAIRWISE,
        "Pairwise accuracy",
        note="share of contradictions beaten; chance is 50%",
    ),
    replace(
        _MARGIN,
        name="margin",
        label="Margin",
        note="over the likeliest contradiction, nats per token",
    ),
    Score(f"{VERSUS}*", MEAN, ACCURACY),
    _MARGIN,
    Score(
        FLOOR,
        Aggregation(lambda rows: _plain_mean([row for row in rows if row is not None])),
        higher=None,
    ),
    *_FACTOR_ACC.bounds(),
    Score(
        "factor_mean_logprob",
        _OF_GOLD,
        None,
        "Log-probability",
        True,
        1,
        3,
        "of true completions, nats per token",
    ),
    Score(
        "factor_num_tokens",
        Aggregation(lambda rows: _plain_mean([count for row in rows for count in row])),
        higher=None,
    ),
    Score("truncated", TOTAL, higher=False),
    Score("unscored", Aggregation(how_many), higher=False),
)


KNOWN: Mapping[str, Any] = load_yaml(__package__, "known.yaml")  # which says what its keys are


def known_of(task: TaskResult) -> Mapping[str, Any] | None:
    """What is known of the file behind ``task``, with its spacing; None where it is no published
    file."""
    data = task.metadata.get("data")
    source = data.get("source") if isinstance(data, Mapping) else None
    found: Mapping[str, Any] | None = KNOWN.get(str(source), {}).get(
        str(task.metadata.get("spacing") or "published")
    )
    return found


def floor(task: TaskResult, metric: str) -> float | None:
    """What knowing nothing scores on the rows of ``task``: of accuracies as the run has it, or,
    where it has not (runs of earlier releases), as it is known of a published file; a half of
    pairs. None of scores without a floor, and where it is not known."""
    if metric == "pairwise_acc" or metric.startswith(VERSUS):
        return 0.5
    if metric not in NORMALISATIONS:
        return None
    known = known_of(task)
    return number_of(task.metrics.get(FLOOR, known["lot"] / 100 if known else None))
