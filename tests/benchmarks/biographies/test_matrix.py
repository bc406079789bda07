"""Step 3: pages, evidence, and what a judge says of a fact."""

import pytest

from judges.answers import Answer
from judges.typed import read_reply
from lm_factuality.benchmarks.biographies.generations import nearest_passages
from lm_factuality.benchmarks.biographies.matrix import (
    FactReply,
    judgement_from_logprobs,
    majority_judgement,
    pair_facts_with_pages,
    reply_to_judgement,
)
from lm_factuality.benchmarks.biographies.types import Fact, Judgement


@pytest.mark.parametrize(
    ("text", "outcome", "score"),
    [
        ('{"reason": "x", "verdict": "supported", "probability": 0.93}', "supported", 0.93),
        ('{"reason": "x", "verdict": "not_supported"}', "not_supported", 0),
        ('{"reason": "x", "verdict": "irrelevant", "probability": null}', "irrelevant", 0),
        ('{"reason": "x", "verdict": "True"}', "unscored", None),
        (
            "False. It is not true that she was born in Sill.",
            "unscored",
            None,
        ),  # supported, says the published code
        ("", "unscored", None),
    ],
)
def test_a_reply_is_read_as_a_judgement(text, outcome, score):
    found = reply_to_judgement(read_reply(Answer(text, "stop"), FactReply, {}))
    assert (found.outcome, found.score) == (outcome, score)
    assert found.reason


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("True", "supported"),
        (" **False.**\n", "not_supported"),
        ("<think>True?</think> false", "not_supported"),
        ("True, but the passages do not say so.", "unscored"),
        ("It is true that he sang.", "unscored"),  # supported, says the published code
        ("<think>True", "unscored"),
    ],
)
def test_an_answer_of_true_or_false_alone_is_a_judgement(text, outcome):
    assert judgement_from_logprobs(Answer(text, "stop")).outcome == outcome


@pytest.mark.parametrize(
    ("outcomes", "outcome", "score"),
    [
        (["supported", "not_supported", "supported"], "supported", 2 / 3),
        (["not_supported", "unscored", "not_supported"], "not_supported", 0),
        (["supported", "not_supported"], "unscored", None),
        (["irrelevant", "irrelevant", "supported"], "irrelevant", 1 / 3),
        (["unscored", "unscored"], "unscored", None),
    ],
)
def test_the_majority_of_the_samples_decides(outcomes, outcome, score):
    read = [
        Judgement(each, None if each == "unscored" else float(each == "supported"))
        for each in outcomes
    ]
    found = majority_judgement(("p",), read)
    assert (found.outcome, found.score) == (outcome, score)
    assert found.evidence == ("p",)


def test_the_evidence_is_the_five_passages_nearest_to_the_fact():
    page = tuple(
        f"Passage {number} is about {word}."
        for number, word in enumerate(["boats", "rain", "iron", "glass", "bread", "wool"])
    )
    best = nearest_passages(page, "She baked bread of wool.")
    assert len(best) == 5
    assert set(best[:2]) == {page[4], page[5]}
    assert best[2:] == page[:3]  # of equals the earlier
    assert nearest_passages(page, "???") == page[:5]
    assert nearest_passages(page[:5], "bread") == page[:5]
    assert nearest_passages(("-",) * 7, "bread") == ("-",) * 5


def test_a_missing_page_and_an_empty_one_support_no_fact():
    class Pages:
        def passages(self, title):
            return {"Ada": [" "]}.get(title)

    empty, missing = pair_facts_with_pages([Fact("f", 0)], ["Ada", "Bea"], Pages().passages)
    assert empty.preset_judgement.reason == "no page: that of 'Ada' is empty"
    assert missing.preset_judgement == Judgement(
        "not_supported", 0.0, "no page: none is called 'Bea'"
    )
