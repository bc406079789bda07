"""What a row asks, what a model answers (one of the words that it was offered, or why it is none of
them), and the metrics, all of the probability that a choice is true.

``statements`` asks about each choice by itself: with all in sight, picking the one most like the
others is right in 84 to 91% of FACTOR's rows. ``letters`` shows all choices, as exams do, once for
each rotation, so that a liking for a letter favours none. By words alone a probability is 0 or 1,
so choices are often equal: that makes a row wrong in ``chat_acc`` and counts half in
``pairwise_acc`` and ``auroc``."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np

from lm_factuality.benchmarks.declaration import load_scores, worst_and_best_of
from lm_factuality.ground.thinking import UNFINISHED, plain
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.scores.statistics import (
    Aggregation,
    Floats,
    Outcome,
    pooled_stderr,
)

# What may stand before an answer.
_MARKS = " >#\"'(["
_NAMED = re.compile(r"(?:(?:the|my) )?(?:final )?answer(?: is)?(?: ?:| ) ?", re.IGNORECASE)
_BUT = re.compile(
    r"\b(?:but|however|except|although|though|unless|only|mostly|part(?:ly|ially)|wrong|not|nothing|\w+n't)\b",
    re.IGNORECASE,
)
LETTERS = ascii_uppercase
LETTERS_CAUTION = (
    "All choices are in one prompt, and FACTOR's contradictions are small edits of the true one:"
    " picking the choice that is most like the others is right in 84 to 91% of rows, whatever one"
    " knows. Report protocol=statements, which shows one at a time."
)


@dataclass(frozen=True)
class Protocol:
    """What a row asks."""

    prompt: str
    """Rendered with each of the subjects."""

    subjects: Callable[[str, Sequence[str]], list[JsonObject]]
    """Makes the subjects of the prefix and the choices."""

    words: Callable[[int], tuple[str, ...]]
    """Makes the words that answer, of the number of choices."""

    of_choices: Callable[[Sequence[Sequence[float]]], list[float]]
    """Makes the probability that each choice is the true one of the words' in all answers."""


def _rotations(prefix: str, choices: Sequence[str]) -> list[JsonObject]:
    """Let the first letter stand for the first choice, then for the second, and so on."""
    subjects = []
    for first in range(len(choices)):
        versions = zip(LETTERS, [*choices[first:], *choices[:first]], strict=False)
        subjects.append({"prefix": prefix, "versions": list(versions)})
    return subjects


def _mean_over_rotations(answers: Sequence[Sequence[float]]) -> list[float]:
    count = len(answers)
    return [
        sum(answer[(choice - first) % count] for first, answer in enumerate(answers)) / count
        for choice in range(count)
    ]


PROTOCOLS: Mapping[str, Protocol] = {
    "statements": Protocol(
        "factor_chat/statement",
        lambda prefix, choices: [{"prefix": prefix, "sentence": choice} for choice in choices],
        lambda count: ("True", "False"),
        lambda answers: [true for true, _ in answers],
    ),
    "letters": Protocol(
        "factor_chat/letters",
        _rotations,
        lambda count: tuple(LETTERS[:count]),
        _mean_over_rotations,
    ),
}


def word_probabilities(answer: WordAnswer, words: Sequence[str]) -> tuple[float, ...] | str:
    """Return the probability of each word if the answer is one of them.

    By what the model wrote it is 0 or 1.

    Returns:
        A text that says why, if there is none.
    """
    if answer.problem:
        return answer.problem
    if answer.logprobs is None:
        place = read_word(answer.text, words)
        if isinstance(place, str):
            return place
        return tuple(float(place == index) for index in range(len(words)))
    logprobs = [-math.inf if logprob is None else logprob for logprob in answer.logprobs]
    highest = max(logprobs)
    if not math.isfinite(highest) or any(map(math.isnan, logprobs)):
        return f"no probability of any of {', '.join(words)}"
    weights = [math.exp(logprob - highest) for logprob in logprobs]
    return tuple(weight / math.fsum(weights) for weight in weights)


def read_word(text: str, words: Sequence[str]) -> int | str:
    """Return the place of the word that a text answers with, or why there is none.

    The word stands behind "answer", or else at the beginning, or alone on the last line. A stop or
    bracket has to set it off from what follows. Where two words are offered, what follows may not
    speak against the first (True), nor begin by restricting the second.
    """
    answer = plain(text)
    if not answer:
        return UNFINISHED if answer is None else "an empty answer"
    lines = [line.lstrip(_MARKS) for line in answer.split("\n")]
    any_word = "|".join(map(re.escape, words))
    named = [(line, _NAMED.match(line)) for line in lines]
    candidates = [line[match.end() :] for line, match in named if match]
    if not candidates:
        candidates = lines[:1]
        if re.fullmatch(rf"\W*(?:{any_word})\W*", lines[-1], re.IGNORECASE):
            candidates.append(lines[-1])
    pattern = rf"(?P<word>{any_word})(?=[\"')\]]*(?:$| ?[.,:;!)\]-]))(?P<rest>.*)"
    places = set()
    rests = []
    for line in candidates:
        match = re.match(pattern, line.lstrip(_MARKS), re.IGNORECASE)
        if match:
            places.add([word.lower() for word in words].index(match["word"].lower()))
            rests.append(match["rest"])
    if len(places) != 1:
        return "two answers that differ" if places else f"none of {', '.join(words)} alone"
    (place,) = places
    for rest in rests if len(words) == 2 else ():
        if _BUT.search(rest) if place == 0 else _BUT.match(rest.lstrip(" ,;.-")):
            return "an answer that is taken back"
    return place


POSITION = "position_"
# So many bins of probabilities are equally wide.
BINS = 10


class ChoiceProbabilities(list[float]):
    """The probability that each choice of a row is true."""

    def __init__(self, values: Sequence[float] = (), gold: int = 0, cluster: str = "") -> None:
        super().__init__(values)
        self.gold = gold
        """The choice that is true."""

        self.cluster = cluster
        """The row's document."""


def row_metrics(doc: JsonObject, answers: Sequence[WordAnswer], protocol: str) -> JsonObject:
    """Return the metrics of one row.

    None stands for what could not be scored, as where one of its answers cannot be read.
    """
    gold = doc["gold"]
    count = len(doc["choices"])
    words = PROTOCOLS[protocol].words(count)
    readable: list[tuple[float, ...]] = []
    reasons = [doc["problem"]] if doc["problem"] else []
    for number, answer in enumerate(answers):
        chances = word_probabilities(answer, words)
        if isinstance(chances, str):
            reasons.append(f"question {number}: {chances}")
        else:
            readable.append(chances)

    def outcome(value: float, weight: int = 1) -> Outcome:
        return Outcome(value, doc["doc_id"], weight)

    unreadable = outcome((len(answers) - len(readable)) / len(answers), len(answers))
    metrics = {"unscored": reasons[0] if reasons else None, "unreadable": unreadable}
    letters = [f"{POSITION}{letter}" for letter in LETTERS[:count]] if protocol == "letters" else []
    if reasons:
        names = ["prompt_acc", *letters] if letters else ["all_right", "p_true_bias"]
        metrics |= dict.fromkeys(["chat_acc", "pairwise_acc", "auroc", "brier", "ece", *names])
        return metrics | worst_and_best_of("chat_acc", outcome(0), outcome(1))

    row = ChoiceProbabilities(PROTOCOLS[protocol].of_choices(readable), gold, doc["doc_id"])
    false = [chance for place, chance in enumerate(row) if place != gold]
    is_right = outcome(row[gold] > max(false))
    beaten = [(row[gold] > chance) + (row[gold] == chance) / 2 for chance in false]
    squares = [(chance - (place == gold)) ** 2 for place, chance in enumerate(row)]
    metrics |= worst_and_best_of("chat_acc", is_right, is_right)
    metrics |= {
        "auroc": row,
        "ece": row,
        "chat_acc": is_right,
        "pairwise_acc": outcome(sum(beaten) / len(beaten), len(beaten)),
        "brier": outcome(sum(squares) / count, count),
    }
    if not letters:
        metrics["all_right"] = outcome(row[gold] > 0.5 > max(false))
        metrics["p_true_bias"] = outcome((sum(row) - 1) / count, count)
        return metrics
    num_right = 0
    shares = [0.0] * count
    for first, chances in enumerate(readable):
        picked = [place for place in range(count) if chances[place] == max(chances)]
        num_right += picked == [(gold - first) % count]
        for place in picked:
            shares[place] += 1 / len(picked)
    metrics["prompt_acc"] = outcome(num_right / count, count)
    for name, share in zip(letters, shares, strict=True):
        metrics[name] = outcome(share / count, count)
    return metrics


Rows = Sequence[ChoiceProbabilities | None]
Placements = list[tuple[str, float]]
"""By document, the share of choices of the other kind that a choice beats, or is beaten by."""


def auroc(rows: Rows) -> float:
    """Return how often a true completion is likelier than a false one of any row.

    Equal ones count half. It is NaN without both.
    """
    beats, _ = _placements(rows)
    return sum(share for _, share in beats) / len(beats) if beats else math.nan


def auroc_stderr(rows: Rows) -> float:
    """Return the clustered standard error of `auroc`, NaN below two documents.

    It is that of DeLong's placements, with the residuals of a document summed.
    """
    area = auroc(rows)
    residuals: dict[str, float] = defaultdict(float)
    for placements in _placements(rows):
        for cluster, share in placements:
            residuals[cluster] += (share - area) / len(placements)
    groups = len(residuals)
    if groups < 2:
        return math.nan
    squares = sum(residual**2 for residual in residuals.values())
    return math.sqrt(groups / (groups - 1) * squares)


def _placements(rows: Rows) -> tuple[Placements, Placements]:
    """Return the placements of true and of false choices."""
    by_truth: dict[bool, Placements] = {True: [], False: []}
    for row in rows:
        if row is None:
            continue
        for place, chance in enumerate(row):
            by_truth[place == row.gold].append((row.cluster, chance))
    beats = _shares_below(by_truth[True], by_truth[False])
    below = _shares_below(by_truth[False], by_truth[True])
    return beats, [(cluster, 1 - share) for cluster, share in below]


def _shares_below(choices: Placements, others: Placements) -> Placements:
    """Return the share of others that lie below each choice. Equal ones count half."""
    if not others:
        return []
    values = [value for _, value in choices]
    ordered = np.sort([value for _, value in others])
    both = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    shares = (both / 2 / len(ordered)).tolist()
    return [(cluster, share) for (cluster, _), share in zip(choices, shares, strict=True)]


def expected_calibration_error(rows: Rows) -> float:
    """Return by how much probabilities differ from the share of true choices.

    It is over bins weighted by their choices, and NaN without any.
    """
    return _calibration_error(sum(_gaps(rows), np.zeros(BINS + 1)).tolist())


def _gaps(rows: Rows) -> list[Any]:
    """Return for each document the probabilities minus the true choices of each bin.

    The last number is how many choices there are.
    """
    by_document: dict[str, Floats] = defaultdict(lambda: np.zeros(BINS + 1))
    for row in rows:
        if row is not None:
            bins = [min(int(chance * BINS), BINS - 1) for chance in row]
            totals = np.bincount(bins, row, BINS)
            totals[bins[row.gold]] -= 1
            by_document[row.cluster] += [*totals, len(row)]
    return list(by_document.values())


def _calibration_error(sums: Sequence[float]) -> float:
    *gaps, count = sums
    return sum(map(abs, gaps)) / count if count else math.nan


SCORES = load_scores(
    __package__,
    auroc=Aggregation(auroc, auroc_stderr),
    calibration_error=Aggregation(
        expected_calibration_error,
        lambda rows: pooled_stderr(_gaps(rows), _calibration_error),
    ),
)
