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

from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    DIFFERENCE,
    SHARE,
    Measure,
    Score,
    bounds_of,
)
from lm_factuality.ground.thinking import UNFINISHED, plain
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.scores.statistics import MEAN, Aggregation, Outcome, how_many, pooled_stderr

_MARKS = " >#\"'(["
_ALONE = " alone"  # see read_word
_NAMED = re.compile(r"(?:(?:the|my) )?(?:final )?answer(?: is)?(?: ?:| ) ?", re.IGNORECASE)
_BUT = re.compile(
    r"\b(?:but|however|except|although|though|unless|only|mostly|part(?:ly|ially)|wrong|not|nothing|\w+n't)\b",
    re.IGNORECASE,
)
LETTERS = ascii_uppercase
CENTRE = (
    "All choices are in one prompt, and FACTOR's contradictions are small edits of the true one:"
    " picking the choice that is most like the others is right in 84 to 91% of rows, whatever one"
    " knows. Report protocol=statements, which shows one at a time."
)


@dataclass(frozen=True)
class Protocol:
    """``prompt`` is rendered with each of ``subjects(prefix, choices)`` and answered by one of
    ``words(number of choices)``. ``of_choices`` makes, of the words' probabilities in all answers,
    the probability that each choice is the true one."""

    prompt: str
    subjects: Callable[[str, Sequence[str]], list[dict[str, Any]]]
    words: Callable[[int], tuple[str, ...]]
    of_choices: Callable[[Sequence[Sequence[float]]], list[float]]


def _rotations(prefix: str, choices: Sequence[str]) -> list[dict[str, Any]]:
    """The first letter stands for the first choice, then for the second, and so on."""
    rotated = ([*choices[first:], *choices[:first]] for first in range(len(choices)))
    return [
        {"prefix": prefix, "versions": list(zip(LETTERS, versions, strict=False))}
        for versions in rotated
    ]


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


def probabilities(answer: WordAnswer, words: Sequence[str]) -> tuple[float, ...] | str:
    """The probability of each of ``words`` if the answer is one of them: 0 or 1 by what the model
    wrote. A text says why there is none."""
    if answer.problem:
        return answer.problem
    if answer.logprobs is None:
        place = read_word(answer.text, words)
        return (
            place
            if isinstance(place, str)
            else tuple(float(place == other) for other in range(len(words)))
        )
    known = [-math.inf if logprob is None else logprob for logprob in answer.logprobs]
    most = max(known)
    if not math.isfinite(most) or any(map(math.isnan, known)):
        return f"no probability of any of {', '.join(words)}"
    weights = [math.exp(logprob - most) for logprob in known]
    return tuple(weight / math.fsum(weights) for weight in weights)


def read_word(text: str, words: Sequence[str]) -> int | str:
    """The place of the word that ``text`` answers with: behind "answer", or else at its beginning,
    or alone on its last line; or why there is none. A stop or bracket has to set it off from what
    follows. Where two words are offered, what follows may not speak against the first (True), nor
    begin by restricting the second."""
    said = plain(text)
    if not said:
        return UNFINISHED if said is None else "an empty answer"
    lines = [line.lstrip(_MARKS) for line in said.split("\n")]
    one = "|".join(map(re.escape, words))
    answers = [line[named.end() :] for line in lines if (named := _NAMED.match(line))]
    if not answers:
        is_last = re.fullmatch(rf"\W*(?:{one})\W*", lines[-1], re.IGNORECASE)
        answers = [lines[0], lines[-1]] if is_last else lines[:1]
    pattern = rf"(?P<word>{one})(?=[\"')\]]*(?:$| ?[.,:;!)\]-]))(?P<rest>.*)"
    found = [re.match(pattern, line.lstrip(_MARKS), re.IGNORECASE) for line in answers]
    read = {
        [word.lower() for word in words].index(match["word"].lower()) for match in found if match
    }
    if len(read) != 1:
        return "two answers that differ" if read else f"none of {', '.join(words)}{_ALONE}"
    (place,) = read
    rests = [match["rest"] for match in found if match]
    if len(words) == 2 and any(
        _BUT.search(rest) if place == 0 else _BUT.match(rest.lstrip(" ,;.-")) for rest in rests
    ):
        return "an answer that is taken back"
    return place


POSITION = "position_"
BINS = 10  # of probabilities, equally wide


class Chances(list[float]):
    """The probability that each choice of a row is true; ``gold`` is the one that is, ``cluster``
    the row's document."""

    def __init__(self, values: Sequence[float] = (), gold: int = 0, cluster: str = "") -> None:
        super().__init__(values)
        self.gold, self.cluster = gold, cluster


def row_metrics(
    doc: Mapping[str, Any], answers: Sequence[WordAnswer], protocol: str
) -> dict[str, Any]:
    """The metrics of one row; None stands for what could not be scored, as where one of its answers
    cannot be read."""
    gold, cluster, count = doc["gold"], doc["doc_id"], len(doc["choices"])
    by, words = PROTOCOLS[protocol], PROTOCOLS[protocol].words(count)
    read = [probabilities(answer, words) for answer in answers]
    reasons = [
        f"question {number}: {each}" for number, each in enumerate(read) if isinstance(each, str)
    ]
    unscored = doc["problem"] or next(iter(reasons), None)
    found: dict[str, Any] = {
        "unscored": unscored,
        "unreadable": Outcome(len(reasons) / len(answers), cluster, len(answers)),
    }
    letters = [f"{POSITION}{letter}" for letter in LETTERS[:count]] if protocol == "letters" else []
    if unscored:
        names = ["prompt_acc", *letters] if letters else ["all_right", "p_true_bias"]
        found |= dict.fromkeys(["chat_acc", "pairwise_acc", "auroc", "brier", "ece", *names])
        return found | bounds_of("chat_acc", Outcome(0, cluster), Outcome(1, cluster))
    given = [each for each in read if not isinstance(each, str)]
    chances = Chances(by.of_choices(given), gold, cluster)
    others = [chance for place, chance in enumerate(chances) if place != gold]
    is_right = Outcome(all(chances[gold] > other for other in others), cluster)
    beaten = [(chances[gold] > other) + (chances[gold] == other) / 2 for other in others]
    found |= bounds_of("chat_acc", is_right, is_right)
    found |= dict.fromkeys(("auroc", "ece"), chances)
    squares = [(chance - (place == gold)) ** 2 for place, chance in enumerate(chances)]
    found |= {
        "chat_acc": is_right,
        "pairwise_acc": Outcome(sum(beaten) / len(beaten), cluster, len(beaten)),
        "brier": Outcome(sum(squares) / count, cluster, count),
    }
    if not letters:
        is_exact = chances[gold] > 0.5 > max(others)
        bias = Outcome((sum(chances) - 1) / count, cluster, count)
        return found | {"all_right": Outcome(is_exact, cluster), "p_true_bias": bias}
    picked = [[place for place, chance in enumerate(each) if chance == max(each)] for each in given]
    right = [float(places == [(gold - first) % count]) for first, places in enumerate(picked)]
    found["prompt_acc"] = Outcome(sum(right) / count, cluster, count)
    shares = [
        sum((place in places) / len(places) for places in picked) / count for place in range(count)
    ]
    return found | {
        name: Outcome(share, cluster, count) for name, share in zip(letters, shares, strict=True)
    }


Rows = Sequence[Chances | None]


def auroc(rows: Rows) -> float:
    """How often a true completion is likelier than a false one of any row, equal ones counting
    half; NaN without both."""
    return _placements(rows)[0]


def auroc_stderr(rows: Rows) -> float:
    """The clustered standard error of ``auroc``: DeLong's placements, with the residuals of a
    document summed, as ``clustered_stderr`` does. NaN below two documents."""
    area, true, false = _placements(rows)
    residuals: dict[str, float] = defaultdict(float)
    for placed in (true, false):
        for cluster, placement in placed:
            residuals[cluster] += (placement - area) / len(placed)
    groups = len(residuals)
    return (
        math.sqrt(groups / (groups - 1) * sum(each**2 for each in residuals.values()))
        if groups > 1
        else math.nan
    )


Placed = list[tuple[str, float]]


def _placements(rows: Rows) -> tuple[float, Placed, Placed]:
    """The area, and by document the share of false choices that each true one beats, and of true
    ones that beat a false one."""
    scored = [row for row in rows if row is not None]
    true = [(row.cluster, row[row.gold]) for row in scored]
    false = [
        (row.cluster, chance)
        for row in scored
        for place, chance in enumerate(row)
        if place != row.gold
    ]
    if not true or not false:
        return math.nan, [], []
    beats = [
        (cluster, share) for (cluster, _), share in zip(true, _below(true, false), strict=True)
    ]
    beaten = [
        (cluster, 1 - share) for (cluster, _), share in zip(false, _below(false, true), strict=True)
    ]
    return sum(share for _, share in beats) / len(beats), beats, beaten


def _below(ones: Placed, others: Placed) -> list[float]:
    """The share of ``others`` that lie below each of ``ones``, equal ones half."""
    values, ordered = [value for _, value in ones], np.sort([value for _, value in others])
    both = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return [float(each) for each in both / 2 / len(ordered)]


def bins_of(row: Sequence[float], gold: int) -> list[tuple[float, float, float]]:
    """For each bin of probabilities: how many choices of a row it has, the sum of their
    probabilities, and how many are true."""
    found = [(0.0, 0.0, 0.0)] * BINS
    for place, chance in enumerate(row):
        number = min(int(chance * BINS), BINS - 1)
        count, total, true = found[number]
        found[number] = (count + 1, total + chance, true + (place == gold))
    return found


def expected_calibration_error(rows: Rows) -> float:
    """By how much probabilities differ from the share of true choices, over bins weighted by their
    choices; NaN without any."""
    return _calibration_error([sum(column) for column in zip(*_gaps(rows).values(), strict=True)])


def _gaps(rows: Rows) -> dict[str, list[float]]:
    """For each document the probabilities minus the true choices of each bin, then how many choices
    there are."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row is not None:
            gaps = [*(total - true for _, total, true in bins_of(row, row.gold)), float(len(row))]
            found[row.cluster] = [
                one + other
                for one, other in zip(found.get(row.cluster, [0.0] * len(gaps)), gaps, strict=True)
            ]
    return found


def _calibration_error(sums: Sequence[float]) -> float:
    *gaps, count = sums or [0.0]
    return sum(map(abs, gaps)) / count if count else math.nan


_CALIBRATION = Aggregation(
    expected_calibration_error,
    lambda rows: pooled_stderr(list(_gaps(rows).values()), _calibration_error),
)

_CHAT_ACC = Score(
    "chat_acc",
    MEAN,
    ACCURACY,
    "Accuracy",
    note="the true completion has the highest probability; a tie is wrong",
)
SCORES = (
    _CHAT_ACC,
    *_CHAT_ACC.bounds(),
    Score(
        "pairwise_acc",
        MEAN,
        ACCURACY,
        "Pairwise accuracy",
        note="against each contradiction, a tie counts half",
    ),
    Score(
        "all_right",
        MEAN,
        ACCURACY,
        "All right",
        note="the true completion accepted, every contradiction refused",
    ),
    Score(
        "prompt_acc",
        MEAN,
        ACCURACY,
        "Accuracy of prompts",
        note="the letter of the true completion, over all rotations",
    ),
    Score(
        "auroc",
        Aggregation(auroc, auroc_stderr),
        Measure("auroc"),
        "AUROC",
        times=1,
        digits=3,
        unit="",
    ),
    Score("brier", MEAN, Measure("brier"), "Brier score", False, 1, 3, unit=""),
    Score(
        "ece",
        _CALIBRATION,
        Measure("calibration_error"),
        "Calibration error",
        False,
        1,
        3,
        f"expected, {BINS} bins",
        "",
    ),
    Score(
        "p_true_bias",
        MEAN,
        DIFFERENCE,
        "Bias to True",
        None,
        1,
        3,
        "mean probability of True minus the share of true",
        "",
    ),
    Score(f"{POSITION}*", MEAN, SHARE, higher=None),
    Score("unreadable", MEAN, SHARE, "Unreadable answers", False),
    Score("unscored", Aggregation(how_many), higher=False),
)
