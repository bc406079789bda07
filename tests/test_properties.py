"""What holds for all inputs: evidence of verdicts, ranges, intervals, and the order of rows.

That unscored rows never help a rank is in ``tests/leaderboard/site/test_hiding.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.claims import Evidence
from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.factor.metrics import row_metrics as factor_metrics
from lm_factuality.benchmarks.factor_chat.metrics import (
    ChoiceProbabilities,
    auroc,
    auroc_interval,
    expected_calibration_error,
)
from lm_factuality.benchmarks.felm.metrics import MEASURES, detection_scores
from lm_factuality.check.answers import answers_of_rows
from lm_factuality.check.check import FoundEvidence, check_answers
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.leaderboard.site.entries import rank_scores
from lm_factuality.scores.agreement import measure_coefficient
from lm_factuality.scores.calibration import calibration_interval
from lm_factuality.scores.intervals import (
    DETECTION_INTERVALS,
    difference_interval,
    mean_interval,
    perplexity_interval,
    pooled_interval,
)
from lm_factuality.scores.paired import flip_test
from lm_factuality.scores.ppi import corrected_mean
from lm_factuality.scores.statistics import MEAN, Outcome
from tests.benchmarks.biographies.recorded import PromptingJudge, make_biography

# Few whole numbers, so that many values are equal or at a bound.
shares = st.integers(0, 8).map(lambda number: number / 8)
clusters = st.integers(0, 4).map(str)
verdicts = st.sampled_from(["supported", "contradicted", "not_found"])
texts = st.sampled_from(["", "  ", "She sang.", "She was born in 1900."])


# --- No verdict without evidence of its own response


class AssertiveJudge(PromptingJudge):
    """A judge that has a verdict on whatever it is asked about."""

    def __init__(self, data: st.DataObject) -> None:
        """Draw verdicts from data of hypothesis."""
        super().__init__()
        self._data = data

    def _answer(self, prompt_name: str, subject: dict[str, Any]) -> str:
        if prompt_name == "biographies/decompose":
            return json.dumps({"facts": [subject["sentence"]]})
        if prompt_name == "biographies/group":
            return json.dumps({"groups": [list(range(1, len(subject["facts"]) + 1))]})
        if "claims" not in subject:
            return json.dumps({"reason": "so", "verdict": "supported"})
        findings = [
            {
                "number": number,
                "reason": "so",
                "verdict": self._data.draw(verdicts),
                "passage": self._data.draw(st.integers(0, 9)),
                "quotation": "",
            }
            for number, _ in enumerate(subject["claims"], start=1)
        ]
        return json.dumps({"verdicts": findings})


class PassagesOfAnswers:
    """A source whose passages have the first word of the claim, such as "Ada0", as document.

    That word tells from which answer the claim is.
    """

    def __init__(self, data: st.DataObject) -> None:
        """Draw passages from data of hypothesis."""
        self._data = data

    def find(self, claims: Sequence[str], count: int) -> list[FoundEvidence]:
        found = []
        for claim in claims:
            answer = claim.split()[0]
            drawn = self._data.draw(st.lists(texts, max_size=3))
            passages = tuple(Evidence(answer, "", text) for text in drawn)
            found.append(FoundEvidence(passages, (1.0,) * len(passages)))
        return found


@settings(max_examples=25)
@given(st.data())
def test_verdicts_use_evidence_of_the_same_answer_only(data):
    """Answers are judged together, and the judge names passages at random, even missing ones.

    Still no claim is decided by a passage of another answer, by an empty one or by none. Each
    claim begins with a word such as "Ada0", which is also the document of the passages about it.
    """
    claims_per_answer = data.draw(st.lists(st.integers(1, 10), min_size=1, max_size=3))
    answers = []
    for number, num_claims in enumerate(claims_per_answer):
        sentences = [f"Ada{number} sang in {1900 + claim}." for claim in range(num_claims)]
        answers.append(" ".join(sentences))
    source = PassagesOfAnswers(data)

    result = check_answers(answers_of_rows(answers), source, AssertiveJudge(data))

    assert len(result.claims) == sum(claims_per_answer)
    for claim in result.claims:
        document_of_answer = claim.text.split()[0]
        assert all(evidence.document == document_of_answer for evidence in claim.evidence)
        if claim.verdict in ("supported", "contradicted"):
            assert any(evidence.text.strip() for evidence in claim.evidence)
        assert claim.deciding is None or 0 <= claim.deciding < len(claim.evidence)


@settings(max_examples=25)
@given(st.data())
def test_facts_are_supported_by_passages_of_the_same_response_only(data):
    """A page that another response retrieved, or an empty page, must not support a fact."""
    output = "Ada sang. Ada was born in 1900."
    num_responses = data.draw(st.integers(1, 3))
    responses = []
    for number in range(num_responses):
        titles_and_texts = data.draw(st.lists(st.tuples(st.sampled_from("AB"), texts), max_size=4))
        passages = []
        for title, text in titles_and_texts:
            # Responses share titles, so the text tells which response a passage belongs to.
            marked_text = f"{text} Response {number}." if text.strip() else ""
            passages.append(RetrievedPassage(title, marked_text))
        responses.append(GeneratedText(str(number), "Who?", "Ada", output, tuple(passages)))

    judged = AmbigBio().judge_texts(AssertiveJudge(data), responses)

    for response, biography in zip(responses, judged, strict=True):
        texts_of_response = {passage.text for passage in response.passages}
        judgements = list(chain.from_iterable(biography.matrix))
        supporting_judgements = [j for j in judgements if j.outcome == "supported"]
        assert all(set(judgement.evidence) <= texts_of_response for judgement in judgements)
        assert all(judgement.evidence for judgement in supporting_judgements)


# --- Scores are within their range, and intervals contain them


def is_within(low: float, value: float, high: float) -> bool:
    """Return whether a value is between two bounds, up to rounding."""
    return low - 1e-9 <= value <= high + 1e-9


# For each response four counts of segments: for each label, how many were judged true or false.
counts_of_responses = st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=8)


@given(counts_of_responses, st.sampled_from(sorted(MEASURES)))
def test_scores_of_detections_are_shares_within_their_intervals(counts, measure):
    """A score outside its own interval would make the report absurd.

    Each row of counts is one response. A score may be NaN: precision is, if nothing was flagged.
    """
    totals = [sum(column) for column in zip(*counts, strict=True)]
    score = detection_scores(totals)[measure]

    interval = DETECTION_INTERVALS[measure](counts)

    assert math.isnan(score) or 0 <= score <= 1
    if interval is not None:
        assert is_within(interval.low, score, interval.high)


# Rows of a value from 0 to 1, a document and a weight, such as a number of tokens.
weighted_rows = st.lists(st.tuples(shares, clusters, st.integers(1, 4)), min_size=1, max_size=12)


@given(weighted_rows)
def test_a_weighted_mean_is_a_share_within_its_interval(rows):
    """Values from 0 to 1 have a mean from 0 to 1, whatever their weights and documents are."""
    outcomes = [Outcome(*row) for row in rows]

    mean = MEAN.value(outcomes)
    interval = MEAN.interval(outcomes, 0.0, 1.0)

    assert is_within(0, mean, 1)
    if interval is not None:
        assert is_within(interval.low, mean, interval.high)


@given(weighted_rows)
def test_a_perplexity_is_within_its_interval(rows):
    """It is the exponential of the mean loss per token, in which longer rows weigh more."""
    losses, documents, num_tokens = zip(*rows, strict=True)

    interval = perplexity_interval(losses, num_tokens, documents)

    if interval is not None:
        perplexity = math.exp(np.average(losses, weights=num_tokens))
        assert is_within(interval.low, perplexity, interval.high)


@given(st.lists(st.tuples(shares, shares, clusters), min_size=1, max_size=12))
def test_a_difference_is_within_its_interval(rows):
    """The interval of the difference between two models is around the difference of their means."""
    first, second, documents = zip(*rows, strict=True)

    interval = difference_interval(first, second, documents)

    if interval is not None:
        assert is_within(interval.low, np.mean(first) - np.mean(second), interval.high)


# Rows of a judge's value, a person's label (None if there is none), a document and a stratum.
labelled_rows = st.lists(
    st.tuples(shares, st.none() | shares, clusters, st.integers(0, 1)), min_size=1, max_size=14
)


@given(labelled_rows)
def test_a_corrected_mean_is_a_share_within_its_interval(rows):
    """The mean of a judge's values is corrected by the labels that people gave to some rows.

    The correction may not leave the range from 0 to 1, nor weigh the judge by less than 0 or
    more than 1.
    """
    estimate = corrected_mean(*zip(*rows, strict=True))

    if estimate is not None:
        assert 0 <= estimate.low <= estimate.high <= 1
        assert is_within(estimate.low, estimate.value, estimate.high)
        assert 0 <= estimate.judge_weight <= 1


# Rows of four probabilities, the index of the true choice, and a document.
probabilities_of_rows = st.lists(
    st.tuples(st.tuples(*[shares] * 4), st.integers(0, 3), clusters), min_size=1, max_size=8
)


def to_rows(rows: Sequence[Any]) -> list[ChoiceProbabilities]:
    """Return rows of four probabilities, of which one is that of the true choice."""
    return [ChoiceProbabilities(*row) for row in rows]


@given(probabilities_of_rows)
def test_an_auroc_is_a_share_within_its_interval(rows):
    """It is a share of pairs: how often a true choice is more probable than a false one."""
    area = auroc(to_rows(rows))

    interval = auroc_interval(to_rows(rows))

    assert is_within(0, area, 1)
    if interval is not None:
        assert is_within(interval.low, area, interval.high)


@given(probabilities_of_rows)
def test_a_calibration_error_is_a_share_with_an_interval_of_shares(rows):
    """Chance makes the estimate too large, so that it may lie above its interval."""
    probabilities = []
    is_true = []
    documents = []
    for probabilities_of_row, true_choice, document in rows:
        for choice, probability in enumerate(probabilities_of_row):
            probabilities.append(probability)
            is_true.append(choice == true_choice)
            documents.append(document)

    interval = calibration_interval(probabilities, is_true, documents)

    assert is_within(0, expected_calibration_error(to_rows(rows)), 1)
    if interval is not None:
        assert -1e-9 <= interval.low <= interval.high <= 1 + 1e-9


logprobs = st.sampled_from([-1e6, -20.0, -2.0, -1.0, -1e-9, 0.0])


@given(
    st.lists(st.tuples(logprobs, st.integers(1, 5)), min_size=4, max_size=4),
    st.integers(0, 3),
    st.sampled_from(["paper", "code", "dola"]),
)
def test_scores_of_factor_are_within_their_range(choices, gold, protocol):
    """Extreme log-probabilities and ties must not give a share below 0 or above 1."""
    doc = {
        "doc_id": "d",
        "choices": ["a", "bb", "ccc", "dddd"],
        "gold": gold,
        "problem": "",
        "error_types": ["entity"] * 4,
    }
    scores = [ScoredContinuation(logprob, False, tokens, False) for logprob, tokens in choices]

    metrics = factor_metrics(doc, scores, protocol, ["entity"])

    shares = (
        "factor_acc",
        "acc",
        "acc_bytes",
        "pairwise_acc",
        "choice_prob",
        "factor_acc_vs_entity",
    )
    for name in shares:
        assert 0 <= metrics[name] <= 1
    # The Brier score is largest, 2, if all probability is on one false choice.
    assert 0 <= metrics["brier_score"] <= 2
    assert metrics["bits_per_byte"] >= 0


@st.composite
def biographies(draw: Any) -> Any:
    """Draw a judged biography of up to six facts in up to two groups."""
    num_entities = draw(st.integers(1, 3))
    row = st.text("+-?i", min_size=num_entities, max_size=num_entities)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    border = draw(st.integers(0, len(rows)))
    groups = [tuple(range(border)), tuple(range(border, len(rows)))]
    linking = draw(st.sampled_from(["greedy", "hungarian"]))
    protocol = draw(st.sampled_from(["paper", "code"]))
    return make_biography(
        groups=[group for group in groups if group],
        verdicts=rows,
        linking=linking,
        protocol=protocol,
    )


@given(biographies())
def test_scores_of_biographies_are_shares_within_their_bounds(biography):
    """A fact without a verdict may be right or wrong, which gives a score two bounds."""
    scores = score_biography(biography)

    for name in ("factscore", "d_factscore"):
        worst, best = scores[f"{name}_worst"], scores[f"{name}_best"]
        assert 0 <= worst <= best <= 1
        assert scores[name] is None or is_within(worst, scores[name], best)
    assert scores["difference"] is None or 0 <= scores["difference"] <= 1


# --- The order of rows changes nothing


def share_of_sums(sums: Sequence[float]) -> float:
    """Return the first sum as a share of both."""
    return sums[0] / sum(sums) if sum(sums) else math.nan


def share_of_agreement(pairs: Sequence[Sequence[float]]) -> float:
    """Return the share of pairs whose values are equal."""
    num_equal = sum(first == second for first, second in pairs)
    return num_equal / len(pairs) if pairs else math.nan


def corrected(rows: Sequence[Any]) -> Any:
    """Return the mean of the first values, of which some have labels, with its interval."""
    labels = [None if weight == 1 else value for value, _, weight in rows]
    estimate = corrected_mean([row[0] ** 2 for row in rows], labels, [row[1] for row in rows])
    return None if estimate is None else (estimate.value, estimate.low, estimate.high)


ROW_STATISTICS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "mean": lambda rows: MEAN.value([Outcome(*row) for row in rows]),
    "standard error": lambda rows: MEAN.stderr([Outcome(*row) for row in rows]),
    "interval of the mean": lambda rows: mean_interval(
        [row[0] for row in rows], [row[1] for row in rows]
    ),
    "interval of a pooled score": lambda rows: pooled_interval(
        [(row[0], row[2]) for row in rows], share_of_sums
    ),
    "p-value": lambda rows: flip_test(np.array([row[0] * 8 - row[2] for row in rows])),
    "corrected mean": corrected,
    "agreement": lambda rows: (
        measure_coefficient(
            [(row[0], row[2] / 8) for row in rows], [row[1] for row in rows], share_of_agreement
        ).low
    ),
}


@pytest.mark.parametrize("name", ROW_STATISTICS)
@settings(max_examples=40)
@given(rows=weighted_rows, data=st.data())
def test_the_order_of_rows_does_not_change_a_statistic(name, rows, data):
    """Shards of a run may be joined in any order. Only rounding may differ."""
    statistic = ROW_STATISTICS[name]
    permuted_rows = data.draw(st.permutations(rows))

    value = statistic(rows)
    value_of_permuted = statistic(permuted_rows)

    if value is None:
        assert value_of_permuted is None
    else:
        assert value_of_permuted == pytest.approx(value, abs=1e-7, nan_ok=True)


@given(probabilities_of_rows, st.data())
def test_the_order_of_rows_does_not_change_the_auroc(rows, data):
    """It depends only on which choices are more probable than which others."""
    permuted = data.draw(st.permutations(rows))

    assert auroc(to_rows(permuted)) == pytest.approx(auroc(to_rows(rows)), nan_ok=True)


@given(st.lists(st.none() | st.tuples(shares, shares).map(sorted), max_size=8), st.data())
def test_the_order_of_models_does_not_change_their_ranks(intervals, data):
    """A leaderboard must not favour the model that was submitted first."""
    order = data.draw(st.permutations(range(len(intervals))))
    permuted_intervals = [intervals[index] for index in order]

    ranks = rank_scores(intervals, higher_is_better=True)
    permuted_ranks = rank_scores(permuted_intervals, higher_is_better=True)

    assert permuted_ranks == [ranks[index] for index in order]
