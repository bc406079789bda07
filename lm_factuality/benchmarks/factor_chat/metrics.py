"""The questions that FACTOR for chat models asks, how answers are read, and the metrics of a row.

The task and the leaderboard's audit use `PROTOCOLS`, and both the task and the leaderboard call
`row_metrics`. All metrics are of the probability that a choice is true.

``statements`` asks about each choice by itself, since picking the choice that is most like the
others is right in 84 to 91% of FACTOR's rows. ``letters`` shows all choices, as exams do. It asks
once for each rotation of the choices, so that a model's preference for a letter helps no choice. A
model that only writes words gives probabilities of 0 and 1, and choices are often equal. Such a tie
makes a row wrong in ``chat_acc``, and counts half in ``pairwise_acc`` and ``auroc``.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import NamedTuple, TypeAlias

import numpy as np

from lm_factuality.benchmarks.declaration import load_scores, worst_and_best_of
from lm_factuality.benchmarks.factor.metrics import pick_probabilities
from lm_factuality.benchmarks.factor.scoring import sum_of_squared_errors
from lm_factuality.benchmarks.factor_chat.reading import NoClearAnswerError, read_word
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.scores.calibration import (
    calibration_error,
    calibration_interval,
    calibration_stderr,
)
from lm_factuality.scores.intervals import ClusteredMean, Interval, interval_of_mean
from lm_factuality.scores.statistics import Aggregation, Outcome, ratio

LETTERS = ascii_uppercase
LETTERS_CAUTION = (
    "All choices are in one prompt, and FACTOR's contradictions are small edits of the true one:"
    " picking the choice that is most like the others is right in 84 to 91% of rows, whatever one"
    " knows. Report protocol=statements, which shows one at a time."
)


@dataclass(frozen=True)
class Protocol:
    """The questions about the choices of a row, and the words that answer them."""

    prompt: str
    """The name of the template that is rendered for each question."""

    subjects: Callable[[str, Sequence[str]], list[JsonObject]]
    """Makes the variables of the template for each question, from the prefix and the choices."""

    answer_words: Callable[[int], tuple[str, ...]]
    """Makes the words that may answer a question, from the number of choices."""

    choice_probabilities: Callable[[Sequence[Sequence[float]]], list[float]]
    """Makes the probability that each choice is true, from those of the words in each answer."""


def _rotations(prefix: str, choices: Sequence[str]) -> list[JsonObject]:
    """Show the choices under letters, in one prompt for each rotation of the choices.

    Args:
        prefix: The text before the choices.
        choices: The true completion and its contradictions.

    Returns:
        The variables of each prompt. For three choices, the letters A, B and C stand for choices
        0, 1, 2 in the first prompt, for 1, 2, 0 in the second, and for 2, 0, 1 in the third.
    """
    subjects = []
    for choice_of_a in range(len(choices)):
        rotated_choices = [*choices[choice_of_a:], *choices[:choice_of_a]]
        # There may be fewer choices than letters.
        versions = list(zip(LETTERS, rotated_choices, strict=False))
        subjects.append({"prefix": prefix, "versions": versions})
    return subjects


def _mean_over_rotations(answers: Sequence[Sequence[float]]) -> list[float]:
    """Average the probability of each choice over all rotations.

    Args:
        answers: The probability of each letter, for each of the prompts of `_rotations`.

    Returns:
        The mean probability of each choice, in the order of the row.
    """
    # In rotation r, the first letter stands for choice r. Moving all probabilities r places to the
    # right, and the last ones to the front, puts them in the order of the choices.
    choice_probabilities = [
        np.roll(letter_probabilities, rotation)
        for rotation, letter_probabilities in enumerate(answers)
    ]
    means: list[float] = np.mean(choice_probabilities, axis=0).tolist()
    return means


PROTOCOLS: Mapping[str, Protocol] = {
    "statements": Protocol(
        prompt="factor_chat/statement",
        subjects=lambda prefix, choices: [
            {"prefix": prefix, "sentence": choice} for choice in choices
        ],
        answer_words=lambda num_choices: ("True", "False"),
        choice_probabilities=lambda answers: [true_probability for true_probability, _ in answers],
    ),
    "letters": Protocol(
        prompt="factor_chat/letters",
        subjects=_rotations,
        answer_words=lambda num_choices: tuple(LETTERS[:num_choices]),
        choice_probabilities=_mean_over_rotations,
    ),
}


def word_probabilities(answer: WordAnswer, words: Sequence[str]) -> list[float]:
    """Return the probability of each word, given that the answer is one of them.

    Args:
        answer: The log-probabilities of the words or, if the model gave none, the text it wrote.
        words: The words that may answer the question.

    Returns:
        The probabilities, which sum to 1. From a text they are 0 or 1: for the words ``True`` and
        ``False``, the text ``False.`` gives ``[0.0, 1.0]``.

    Raises:
        NoClearAnswerError: There is no clear answer. The message says why.
    """
    if answer.problem:
        raise NoClearAnswerError(answer.problem)
    if answer.logprobs is None:
        word_index = read_word(answer.text, words)
        return [float(index == word_index) for index in range(len(words))]

    # A server leaves out the words that are not among the likeliest.
    logprobs = [-math.inf if logprob is None else logprob for logprob in answer.logprobs]
    highest = max(logprobs)
    # At least one word must have a probability.
    if not math.isfinite(highest) or any(map(math.isnan, logprobs)):
        raise NoClearAnswerError(f"no probability of any of {', '.join(words)}")

    # Without subtracting the highest, exp() would give 0 for words that are all unlikely.
    weights = [math.exp(logprob - highest) for logprob in logprobs]
    total_weight = math.fsum(weights)
    return [weight / total_weight for weight in weights]


POSITION = "position_"
"""The beginning of a metric: how often the letter behind it is picked."""


class ChoiceProbabilities(list[float]):
    """The probability that each choice of a row is true."""

    def __init__(self, values: Sequence[float], gold: int, cluster: str) -> None:
        """Keep the probabilities with the facts that scores over all rows need.

        Args:
            values: The probability of each choice.
            gold: The index of the choice that is true.
            cluster: The row's document, by which standard errors are clustered.
        """
        super().__init__(values)
        self.gold = gold
        self.cluster = cluster

    @property
    def true_probability(self) -> float:
        """The probability of the true completion."""
        return self[self.gold]

    @property
    def false_probabilities(self) -> list[float]:
        """The probabilities of the contradictions."""
        return [probability for index, probability in enumerate(self) if index != self.gold]


Rows: TypeAlias = Sequence[ChoiceProbabilities | None]
"""The probabilities of many rows, None for a row without a score."""


def row_metrics(doc: JsonObject, answers: Sequence[WordAnswer], protocol: str) -> JsonObject:
    """Return every metric of one row.

    Args:
        doc: The row, as in FACTOR's samples.
        answers: The answers to the questions of the protocol, in their order.
        protocol: The name of the protocol, ``statements`` or ``letters``.

    Returns:
        The values by metric. A row is unscored if it is broken, or if any answer cannot be read.
        ``unscored`` then says why. Of the other metrics, an unscored row has only ``unreadable``,
        ``chat_acc_worst`` and ``chat_acc_best``. The rest are None.
    """
    words = PROTOCOLS[protocol].answer_words(len(doc["choices"]))
    readable_answers = []
    # The problem of a broken row comes before those of the answers, whatever the model answers.
    first_problem = doc["problem"]
    for number, answer in enumerate(answers):
        try:
            readable_answers.append(word_probabilities(answer, words))
        except NoClearAnswerError as error:
            first_problem = first_problem or f"question {number}: {error}"

    num_unreadable = len(answers) - len(readable_answers)
    metrics = {
        "unscored": first_problem or None,
        "unreadable": Outcome(num_unreadable / len(answers), doc["doc_id"], len(answers)),
    }
    if first_problem:
        return metrics | _unscored_metrics(doc, protocol)

    # Each answer is about one choice (statements) or about all (letters).
    probabilities = PROTOCOLS[protocol].choice_probabilities(readable_answers)
    row = ChoiceProbabilities(probabilities, doc["gold"], doc["doc_id"])
    metrics |= _choice_metrics(row)
    if protocol == "letters":
        return metrics | _letter_metrics(readable_answers, row)
    return metrics | _statement_metrics(row)


def _unscored_metrics(doc: JsonObject, protocol: str) -> JsonObject:
    """Return the metrics of a row without a score.

    They have the same names as those of a scored row, since lm_eval expects all rows to be alike.

    Args:
        doc: The row.
        protocol: The name of the protocol, on which the names depend.

    Returns:
        None for each metric, but values for the worst and the best case of ``chat_acc``.
    """
    names = ["chat_acc", "pairwise_acc", "auroc", "brier", "ece"]
    if protocol == "letters":
        letters = LETTERS[: len(doc["choices"])]
        names += ["prompt_acc", *(f"{POSITION}{letter}" for letter in letters)]
    else:
        names += ["all_right", "p_true_bias"]

    # An unscored row might have been wrong or right.
    worst = Outcome(0, doc["doc_id"])
    best = Outcome(1, doc["doc_id"])
    return dict.fromkeys(names) | worst_and_best_of("chat_acc", worst, best)


def _choice_metrics(row: ChoiceProbabilities) -> JsonObject:
    """Return the metrics of a row that both protocols have.

    Args:
        row: The probability that each choice is true.

    Returns:
        The values by metric. As the row has a score, its worst and its best case are this score.
    """
    true_probability = row.true_probability
    false_probabilities = row.false_probabilities
    # A tie with a contradiction is wrong.
    is_right = Outcome(true_probability > max(false_probabilities), row.cluster)

    num_pairs = len(false_probabilities)
    num_below = len([value for value in false_probabilities if value < true_probability])
    num_ties = false_probabilities.count(true_probability)
    pairwise_acc = (num_below + num_ties / 2) / num_pairs
    brier = sum_of_squared_errors(row, row.gold) / len(row)
    return {
        **worst_and_best_of("chat_acc", is_right, is_right),
        # Pooled scores are computed from all rows at once. A row only gives its probabilities.
        "auroc": row,
        "ece": row,
        "chat_acc": is_right,
        "pairwise_acc": Outcome(pairwise_acc, row.cluster, num_pairs),
        "brier": Outcome(brier, row.cluster, len(row)),
    }


def _statement_metrics(row: ChoiceProbabilities) -> JsonObject:
    """Return the metrics of a row whose choices were asked about one by one.

    Args:
        row: The probability that each choice is true.

    Returns:
        ``all_right``, whether the true completion is accepted and every contradiction refused, and
        ``p_true_bias``, the mean probability minus the share of choices that are true.
    """
    # The model accepts a statement with a probability above 0.5, and refuses it with one below.
    is_all_right = row.true_probability > 0.5 > max(row.false_probabilities)
    # One choice of a row is true, so unbiased probabilities sum to 1.
    bias = (sum(row) - 1) / len(row)
    return {
        "all_right": Outcome(is_all_right, row.cluster),
        "p_true_bias": Outcome(bias, row.cluster, len(row)),
    }


def _letter_metrics(answers: Sequence[Sequence[float]], row: ChoiceProbabilities) -> JsonObject:
    """Return how often single prompts are answered rightly, and how often each letter is picked.

    A letter is picked if it has the highest probability in a prompt. With a preference for a letter
    the model would pick it whatever choice it stands for.

    Args:
        answers: The probability of each letter, for each of the prompts of `_rotations`.
        row: The mean probability that each choice is true.

    Returns:
        ``prompt_acc``, and for each letter a share such as ``position_A``.
    """
    # There is one prompt, and one letter, for each choice.
    num_choices = len(row)
    # The letter with the highest probability is picked. Letters that tie share one pick.
    picks_by_prompt = [pick_probabilities(probabilities) for probabilities in answers]
    num_right = 0
    for rotation, picks in enumerate(picks_by_prompt):
        # In rotation 1, the letter A stands for choice 1, B for choice 2, and the last letter for
        # choice 0. So choice 2 has the letter with the index 2 - 1, and choice 0 the last one.
        index_of_true_letter = (row.gold - rotation) % num_choices
        if picks[index_of_true_letter] == 1:
            num_right += 1

    metrics = {"prompt_acc": Outcome(num_right / num_choices, row.cluster, num_choices)}
    for letter, name in enumerate(LETTERS[:num_choices]):
        share = sum(picks[letter] for picks in picks_by_prompt) / num_choices
        metrics[f"{POSITION}{name}"] = Outcome(share, row.cluster, num_choices)
    return metrics


class ClusteredValue(NamedTuple):
    """A value of a choice, with the document that the choice is from."""

    cluster: str
    value: float


class Placements(NamedTuple):
    """DeLong's placements: for each choice, the share of pairs with it that are ranked rightly.

    A pair is a true and a false completion of any two rows. It is ranked rightly if the true one is
    likelier, and a tie counts half. The mean of each list is the AUROC.
    """

    true_choices: list[ClusteredValue]
    """For each true completion, its share of pairs with all false ones."""

    false_choices: list[ClusteredValue]
    """For each false completion, its share of pairs with all true ones."""

    @property
    def area(self) -> float:
        """The AUROC, NaN without choices."""
        total = sum(placement.value for placement in self.true_choices)
        return ratio(total, len(self.true_choices))


def auroc(rows: Rows) -> float:
    """Return how often a true completion of any row is likelier than a false one of any row.

    Args:
        rows: The probabilities of each row, None for a row without a score.

    Returns:
        A share from 0 to 1, for which ties count half. NaN if no row has a score.
    """
    return _placements(rows).area


def auroc_stderr(rows: Rows) -> float:
    """Return the standard error of `auroc`, clustered by document, NaN for fewer than two."""
    estimate = _clustered_auroc(rows)
    return math.nan if estimate is None else estimate.stderr


def auroc_interval(rows: Rows) -> Interval | None:
    """Return the 95% interval of `auroc`, clustered by document, None for fewer than two."""
    estimate = _clustered_auroc(rows)
    return None if estimate is None else interval_of_mean(estimate)


def _clustered_auroc(rows: Rows) -> ClusteredMean | None:
    """Compute the AUROC with DeLong's variance, clustered by document.

    DeLong's variance is the sum of ((p - A) / n)² over all choices: p is the placement of a choice,
    A the AUROC, and n the number of choices that are true, or false, like this one. Choices of one
    document are not independent, so their terms are added up before they are squared.

    Args:
        rows: The probabilities of each row, None for a row without a score.

    Returns:
        The AUROC, or None for fewer than two documents.
    """
    placements = _placements(rows)
    area = placements.area
    # The sum of (p - A) / n over the choices of each document.
    residuals: dict[str, float] = defaultdict(float)
    for choices in (placements.true_choices, placements.false_choices):
        for cluster, placement in choices:
            residuals[cluster] += (placement - area) / len(choices)

    # One document does not show how documents vary.
    num_clusters = len(residuals)
    if num_clusters < 2:
        return None
    small_sample_factor = num_clusters / (num_clusters - 1)
    variance = small_sample_factor * sum(residual**2 for residual in residuals.values())
    return ClusteredMean(area, variance, num_clusters - 1, num_clusters)


def _placements(rows: Rows) -> Placements:
    """Compute the placement of each choice: its share of pairs that are ranked rightly.

    A true choice of any row makes a pair with each false choice of any row. The model should give
    the true one the higher probability. DeLong computes the AUROC and its error from these shares.

    Args:
        rows: The probabilities of each row, None for a row without a score.
    """
    true_choices = []
    false_choices = []
    for row in rows:
        if row is None:
            continue
        true_choices.append(ClusteredValue(row.cluster, row.true_probability))
        for probability in row.false_probabilities:
            false_choices.append(ClusteredValue(row.cluster, probability))

    # A true choice is ranked rightly if it is above the false choice of a pair. A false choice with
    # 20% of the true ones below it is ranked rightly in the other 80% of its pairs.
    true_placements = _shares_below(true_choices, false_choices)
    false_placements = [
        ClusteredValue(cluster, 1 - share)
        for cluster, share in _shares_below(false_choices, true_choices)
    ]
    return Placements(true_placements, false_placements)


def _shares_below(
    choices: Sequence[ClusteredValue], opponents: Sequence[ClusteredValue]
) -> list[ClusteredValue]:
    """Return the share of opponents whose value is below that of each choice.

    Args:
        choices: The choices, such as all true ones.
        opponents: The choices that each is compared with, such as all false ones.

    Returns:
        The shares in the order of the choices. Equal values count half. Empty without opponents.
    """
    if not opponents:
        return []
    values = [choice.value for choice in choices]
    sorted_values = np.sort([opponent.value for opponent in opponents])
    # For each choice, the number of opponents below it, and of those below or equal to it.
    num_below = np.searchsorted(sorted_values, values, "left")
    num_not_above = np.searchsorted(sorted_values, values, "right")
    # The mean of both numbers counts each equal value half.
    shares = ((num_below + num_not_above) / 2 / len(opponents)).tolist()
    clusters = [choice.cluster for choice in choices]
    return list(map(ClusteredValue, clusters, shares))


class Choices(NamedTuple):
    """The choices of all rows, as `lm_factuality.scores.calibration` takes them."""

    probabilities: list[float]
    """The probability that each choice is true."""

    is_true: list[bool]
    """Whether each choice is true."""

    clusters: list[str]
    """The document of each choice."""


def choices_of_rows(rows: Rows) -> Choices:
    """Return the choices of all rows that have a score.

    Args:
        rows: The probabilities of each row, None for a row without a score.
    """
    probabilities: list[float] = []
    is_true: list[bool] = []
    clusters: list[str] = []
    for row in rows:
        if row is None:
            continue
        # A row is the list of the probabilities of its choices.
        probabilities += row
        is_true += [index == row.gold for index in range(len(row))]
        clusters += [row.cluster] * len(row)
    return Choices(probabilities, is_true, clusters)


def expected_calibration_error(rows: Rows) -> float:
    """Return how far the probabilities are from the share of choices that are true.

    Args:
        rows: The probabilities of each row, None for a row without a score.

    Returns:
        The mean difference over ten bins, weighted by the number of choices in each. NaN if no row
        has a score. Chance makes it too large, so its interval may lie below it.
    """
    choices = choices_of_rows(rows)
    return calibration_error(choices.probabilities, choices.is_true)


def _count_documents(rows: Rows) -> int:
    """Count the documents that have a row with a score."""
    return len({row.cluster for row in rows if row is not None})


SCORES = load_scores(
    __package__,
    auroc=Aggregation(
        auroc,
        auroc_stderr,
        lambda rows, low, high: auroc_interval(rows),
        clusters=_count_documents,
    ),
    calibration_error=Aggregation(
        expected_calibration_error,
        lambda rows: calibration_stderr(*choices_of_rows(rows)),
        lambda rows, low, high: calibration_interval(*choices_of_rows(rows)),
        clusters=_count_documents,
    ),
)
