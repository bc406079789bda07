"""Step 3: the evidence for a fact on each page, and what a judge's replies say of it."""

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
        pytest.param(
            '{"reason": "x", "verdict": "supported", "probability": 0.93}',
            "supported",
            0.93,
            id="with a probability",
        ),
        pytest.param(
            '{"reason": "x", "verdict": "not_supported"}',
            "not_supported",
            0,
            id="without a probability",
        ),
        pytest.param(
            '{"reason": "x", "verdict": "irrelevant", "probability": null}',
            "irrelevant",
            0,
            id="irrelevant",
        ),
        pytest.param('{"reason": "x", "verdict": "True"}', "unscored", None, id="unknown verdict"),
        # The published code takes this for supported.
        pytest.param(
            "False. It is not true that she was born in Sill.",
            "unscored",
            None,
            id="text in place of JSON",
        ),
        pytest.param("", "unscored", None, id="empty"),
    ],
)
def test_a_reply_is_read_as_a_judgement_with_a_reason(text, outcome, score):
    """The score is the probability that the page supports the fact. An unclear reply has none."""
    reply = read_reply(Answer(text, "stop"), FactReply, {})

    judgement = reply_to_judgement(reply)

    assert judgement.outcome == outcome
    assert judgement.score == score
    assert judgement.reason


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        pytest.param("True", "supported", id="true"),
        pytest.param(" **False.**\n", "not_supported", id="false in bold"),
        pytest.param("<think>True?</think> false", "not_supported", id="false after a thought"),
        pytest.param("True, but the passages do not say so.", "unscored", id="taken back"),
        # The published code takes this for supported.
        pytest.param("It is true that he sang.", "unscored", id="true within a sentence"),
        pytest.param("<think>True", "unscored", id="thought without an end"),
    ],
)
def test_bare_true_or_false_is_read_as_a_judgement(text, outcome):
    """The word counts only by itself, since a sentence with "true" in it may deny the fact."""
    assert judgement_from_logprobs(Answer(text, "stop")).outcome == outcome


SUPPORTED = Judgement("supported", 1.0)
NOT_SUPPORTED = Judgement("not_supported", 0.0)
IRRELEVANT = Judgement("irrelevant", 0.0)
UNSCORED = Judgement("unscored", None)


@pytest.mark.parametrize(
    ("samples", "outcome", "score"),
    [
        pytest.param([SUPPORTED, NOT_SUPPORTED, SUPPORTED], "supported", 2 / 3, id="two of three"),
        pytest.param(
            [NOT_SUPPORTED, UNSCORED, NOT_SUPPORTED],
            "not_supported",
            0,
            id="an unscored sample has no vote",
        ),
        pytest.param([SUPPORTED, NOT_SUPPORTED], "unscored", None, id="tie"),
        pytest.param([IRRELEVANT, IRRELEVANT, SUPPORTED], "irrelevant", 1 / 3, id="irrelevant"),
        pytest.param([UNSCORED, UNSCORED], "unscored", None, id="no vote"),
    ],
)
def test_the_majority_of_the_samples_decides(samples, outcome, score):
    """The score is the share of the samples that call the fact supported."""
    judgement = majority_judgement(("a passage",), samples)

    assert judgement.outcome == outcome
    assert judgement.score == score
    assert judgement.evidence == ("a passage",)


BOATS = "Passage 0 is about boats."
RAIN = "Passage 1 is about rain."
IRON = "Passage 2 is about iron."
GLASS = "Passage 3 is about glass."
BREAD = "Passage 4 is about bread."
WOOL = "Passage 5 is about wool."
PAGE = (BOATS, RAIN, IRON, GLASS, BREAD, WOOL)


def test_five_passages_with_most_shared_words_are_the_evidence():
    """A prompt shows five passages at most. Two of the page's six tell of bread or wool."""
    evidence = nearest_passages(PAGE, "She baked bread of wool.")

    assert len(evidence) == 5
    assert set(evidence[:2]) == {BREAD, WOOL}


def test_earlier_passage_wins_a_tie():
    """Four passages share no word with the fact, and three places are left."""
    evidence = nearest_passages(PAGE, "She baked bread of wool.")

    assert evidence[2:] == (BOATS, RAIN, IRON)


def test_a_fact_without_words_has_the_first_passages_as_evidence():
    """No passage is nearer than another, and a page begins with what is most important."""
    assert nearest_passages(PAGE, "???") == (BOATS, RAIN, IRON, GLASS, BREAD)


def test_page_of_five_passages_keeps_its_order_as_evidence():
    """All five passages fit into a prompt, so the text of the page keeps its order."""
    page = (BOATS, RAIN, IRON, GLASS, BREAD)

    assert nearest_passages(page, "bread") == page


def test_passages_without_words_can_be_evidence():
    """Passages of punctuation alone share no word with any fact, and must not break the search."""
    assert nearest_passages(("-",) * 7, "bread") == ("-",) * 5


def test_an_empty_page_supports_no_fact():
    """The verdict is set before any question to the judge."""
    pages = {"Ada": [" "]}

    (pair,) = pair_facts_with_pages([Fact("Ada sang.", sentence=0)], ["Ada"], pages.get)

    reason = "no page: that of 'Ada' is empty"
    assert pair.preset_judgement == Judgement("not_supported", 0.0, reason)


def test_a_missing_page_supports_no_fact():
    """The verdict is set before any question to the judge."""
    pages = {"Ada": ["Ada sang."]}

    (pair,) = pair_facts_with_pages([Fact("Bea sang.", sentence=0)], ["Bea"], pages.get)

    reason = "no page: none is called 'Bea'"
    assert pair.preset_judgement == Judgement("not_supported", 0.0, reason)
