"""Step 1: citations, sentences, and the facts in a judge's answer."""

import pytest

from judges.answers import Answer
from judges.lexical.facts import split_facts
from judges.templates import Prompts
from judges.typed import read_reply
from lm_factuality.benchmarks.biographies.decompose import (
    FactsReply,
    is_abstention,
    problem_with_facts,
    remove_citations,
    reply_to_facts,
    response_sentences,
)
from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.types import GeneratedText


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("She sang [1, 2].", "She sang."),
        ("She sang [1][2] and danced[3].", "She sang and danced."),
        ("She sang [1-3], then left [ 4 ; 5 ].", "She sang, then left."),
        ("She sang [4]['", "She sang"),
        ("She sang [sic] in 1990- 1995.", "She sang [sic] in 1990- 1995."),
    ],
)
def test_citations_are_removed(text, clean):
    assert remove_citations(text) == clean


def test_sentences_do_not_end_at_initials_or_abbreviations():
    output = "J. Lind sang [1]. She left in 1920 [2][3].\n\nDr. Lind, Jr. returned [4].[5]"

    assert response_sentences(output) == (
        "J. Lind sang.",
        "She left in 1920.",
        "Dr. Lind, Jr. returned.",
    )


def read_facts_reply(text, finish_reason="stop", sentence="A sang and left."):
    """Read a judge's reply to the question which facts a sentence holds."""
    answer = Answer(text, finish_reason)
    return read_reply(answer, FactsReply, {"sentence": sentence}, problem_with_facts)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        pytest.param(
            '{"facts": ["A sang.", "A left."]}', ("A sang.", "A left."), id="object with facts"
        ),
        pytest.param('["A sang.", "A left."]', ("A sang.", "A left."), id="list alone"),
        pytest.param(
            '{"facts": ["He played 1990- 1995 for Tarrow."]}',
            ("He played 1990- 1995 for Tarrow.",),
            id="range of years with a space",
        ),
        pytest.param(
            '{"facts": ["A  sang [3].", "A sang."]}',
            ("A sang.",),
            id="one fact with and without a citation",
        ),
        pytest.param('{"facts": []}', (), id="no fact"),
    ],
)
def test_facts_are_read_from_a_reply(text, facts):
    reply = read_facts_reply(text)

    assert reply_to_facts(reply.value) == facts


@pytest.mark.parametrize(
    ("text", "finish_reason", "problem"),
    [
        ("- A sang.\n- A left.", "stop", "no JSON object"),
        ("I'm sorry, I cannot take this apart.", "stop", "no JSON object"),
        ("Sentence: A sang.", "stop", "no JSON object"),
        ('{"refusal": "no"}', "stop", "wrong form: facts: Field required"),
        ('{"facts": ["A sang.", "A le', "length", "cut off"),
        ('{"facts": ["A sang.", "-"]}', "stop", "not a whole sentence: '-'"),
        (
            '{"facts": ["A sang.", "In the late 19th century."]}',
            "stop",
            "not a whole sentence: 'In the late 19th century.'",
        ),
        ("<think>what", "length", "thinking without an end"),
    ],
)
def test_a_reply_without_facts_is_refused_with_the_problem(text, finish_reason, problem):
    reply = read_facts_reply(text, finish_reason)

    assert reply.value is None
    assert reply.problem == problem


def test_facts_in_a_language_whose_verbs_are_unknown_are_accepted():
    """The check for whole sentences looks for a verb that it knows."""
    reply = read_facts_reply(
        '{"facts": ["Ada Lind war Malerin."]}', sentence="Ada Lind war Malerin und Lehrerin."
    )

    assert reply.value is not None


FIRST_SENTENCE = "Ada Lind was a painter."
SECOND_SENTENCE = "She joined a club on loan and scored goals in matches."


def variables_of_second_sentence(facts):
    """Return the variables of the prompt that decomposes the second of two sentences.

    Args:
        facts: Whether facts are to stand alone (``standalone``) or are taken ``as_written``.
    """
    output = f"{FIRST_SENTENCE} {SECOND_SENTENCE}"
    response = GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", output, ())
    method = AmbigBio(facts=facts)
    _first, second = method.decomposing_variables([method.prepare(response)])
    return second


def test_the_last_of_eight_demonstrations_is_the_nearest_to_the_sentence():
    """Models follow the demonstration that stands nearest to the question."""
    demonstrations = variables_of_second_sentence("standalone")["demonstrations"]

    assert len(demonstrations) == 8
    assert demonstrations[-1]["sentence"].startswith("She joined Sill Rovers on loan")


def test_the_prompt_for_facts_that_stand_alone_shows_the_text_before_the_sentence():
    variables = variables_of_second_sentence("standalone")

    prompt = Prompts().render("biographies/decompose", variables)

    assert prompt.endswith(f"Text: {FIRST_SENTENCE}\nSentence: {SECOND_SENTENCE}")
    assert '"Edda Moll joined Sill Rovers on loan."' in prompt


def test_the_prompt_for_facts_as_written_shows_the_sentence_alone():
    variables = variables_of_second_sentence("as_written")

    prompt = Prompts().render("biographies/decompose", variables)

    assert "Text: " not in prompt
    assert '"She joined Sill Rovers on loan."' in prompt


@pytest.mark.parametrize(
    ("sentence", "facts"),
    [
        (
            "Ada Lind, born on 3 May 1900 in Tarrow, Norl, was a painter and engraver who taught "
            "at Sill.",
            [
                "Ada Lind was born on 3 May 1900.",
                "Ada Lind was born in Tarrow, Norl.",
                "Ada Lind was a painter.",
                "Ada Lind was an engraver.",
                "Ada Lind taught at Sill.",
            ],
        ),
        (
            "She studied law in Sill and moved to Tarrow in 1920, but left it in 1925.",
            ["She studied law in Sill.", "She moved to Tarrow in 1920.", "She left it in 1925."],
        ),
        (
            "However, Jon Aske (1901-1970) was fined and imprisoned in 1930.",
            [
                "Jon Aske was born in 1901.",
                "Jon Aske died in 1970.",
                "Jon Aske was fined.",
                "Jon Aske was imprisoned in 1930.",
            ],
        ),
        ("He played for Tarrow from 1990- 1995.", ["He played for Tarrow from 1990- 1995."]),
        (
            "One is a judge, while the other is a cyclist.",
            ["One is a judge.", "The other is a cyclist."],
        ),
        (
            "There is also Tomas J. Reed, a botanist who described the marsh lily.",
            ["Tomas J. Reed is a botanist.", "Tomas J. Reed described the marsh lily."],
        ),
        ("Born in Sill, she became a nun.", ["She was born in Sill.", "She became a nun."]),
        ("There are several people with the name Ada Lind.", []),
        ("It is unclear which Ada Lind is meant.", []),
        ("In a word, wonderful.", []),
        (
            "He directed and presented a play in 1997, and left.",
            ["He directed and presented a play in 1997.", "He left."],
        ),
        ("Pope Cyril II of Alexandria, the", []),
    ],
)
def test_the_rules_split_a_sentence_into_facts(sentence, facts):
    assert split_facts(sentence) == facts


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("", id="nothing"),
        pytest.param("I\u2019m sorry.", id="a typographic apostrophe"),
        "I'm sorry, but there is no sufficient information on Ada Lind.",
        "I'm sorry, I cannot tell which Ada Lind is meant. Please specify. "
        "There are two people of this name.",
        "I could not find any information on Ada Lind in the documents.",
        "Unfortunately, there is not enough information on Ada Lind.",
        "The documents do not contain information on Ada Lind. "
        "No person of this name is mentioned.",
        pytest.param(
            "I'm not aware of a town called **Elby**. It may be fictional, or you may mean:\n\n"
            "- **Selby**, a town in Yorkshire.\n\nIf you tell me more, I'd be happy to help.",
            id="guesses what is meant",
        ),
        pytest.param(
            "I don't have any information about the Elby Library, so I can't write an article."
            " Here's what I can offer: a template. Which would you prefer?",
            id="offers something else",
        ),
    ],
)
def test_a_response_that_says_nothing_about_anybody_is_an_abstention(output):
    """It has no facts to judge, and lowers the respond ratio instead."""
    assert is_abstention(output)


@pytest.mark.parametrize(
    "output",
    [
        "I'm sorry, I cannot tell which Ada Lind is meant. One was a painter.",
        "I'm sorry, I cannot give her birthday; she was a painter.",
        "I apologize for the confusion earlier. Ada Lind was a painter [1].",
        "Unfortunately, there is no detailed information about her youth. "
        "Ada Lind was a painter [1].",
        "Unfortunately, there is no information about her youth, but Ada Lind was a painter [1].",
        "Unfortunately, I have five Ada Linds. One was a painter, one a pilot [2].",
        "There is not enough information for a detailed biography. Ada Lind was a painter [1].",
        "There are two people named Ada Lind.",
        "Ada Lind could not find a publisher until 1930 [1].",
        "Ada Lind was a painter. There is no information on her death.",
        "I'm not familiar with Ada Lind, but she was a painter.",
        "I don't have any information about the youth of Ada Lind. She was a painter.",
        pytest.param(
            "I'm not aware of a real Elby Library, so this is a fictional article.\n\nThe Elby"
            " Library opened in 1902.",
            id="writes fiction",
        ),
    ],
)
def test_a_response_with_a_fact_is_no_abstention(output):
    """Its facts are judged, whatever apology stands before them."""
    assert not is_abstention(output)


def test_an_unknown_subject_in_a_list_is_left_to_the_judge():
    """A response without a sentence outside of lists once ended the run with an IndexError."""
    assert not is_abstention("- I'm not aware of a town called Elby.")


def test_sentences_in_a_script_without_spaces_are_split():
    sentences = response_sentences("他是一位画家。他1950年出生于北京。")

    assert sentences == ("他是一位画家。", "他1950年出生于北京。")


def test_facts_in_a_script_without_spaces_are_accepted():
    reply = FactsReply(facts=["李明出生于1950年。", "李明出生于北京。", "李明是画家。"])

    assert problem_with_facts(reply, {"sentence": "他1950年出生于北京。"}) == ""
    assert reply_to_facts(reply) == ("李明出生于1950年。", "李明出生于北京。", "李明是画家。")
