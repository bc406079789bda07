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
        pytest.param("She sang [1, 2].", "She sang.", id="list of numbers"),
        pytest.param(
            "She sang [1][2] and danced[3].", "She sang and danced.", id="several brackets"
        ),
        pytest.param(
            "She sang [1-3], then left [ 4 ; 5 ].", "She sang, then left.", id="range and spaces"
        ),
        pytest.param("She sang [4]['", "She sang", id="bracket that is cut off"),
        pytest.param(
            "She sang [sic] in 1990- 1995.", "She sang [sic] in 1990- 1995.", id="no citation"
        ),
    ],
)
def test_citations_are_removed(text, clean):
    """A judge could take a number in brackets for evidence. Other brackets are part of the text."""
    assert remove_citations(text) == clean


def test_sentences_do_not_end_at_initials_or_abbreviations():
    """Each sentence is decomposed by itself, and half a sentence states nothing."""
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
    """Judges answer in two forms of JSON, with citations, spaces and repetitions to remove."""
    reply = read_facts_reply(text)

    assert reply_to_facts(reply.value) == facts


@pytest.mark.parametrize(
    ("text", "finish_reason", "problem"),
    [
        pytest.param("- A sang.\n- A left.", "stop", "no JSON object", id="list in Markdown"),
        pytest.param(
            "I'm sorry, I cannot take this apart.", "stop", "no JSON object", id="refusal"
        ),
        pytest.param("Sentence: A sang.", "stop", "no JSON object", id="text"),
        pytest.param(
            '{"refusal": "no"}', "stop", "wrong form: facts: Field required", id="other JSON"
        ),
        pytest.param('{"facts": ["A sang.", "A le', "length", "cut off", id="cut off"),
        pytest.param(
            '{"facts": ["A sang.", "-"]}',
            "stop",
            "not a whole sentence: '-'",
            id="fact without a word",
        ),
        pytest.param(
            '{"facts": ["A sang.", "In the late 19th century."]}',
            "stop",
            "not a whole sentence: 'In the late 19th century.'",
            id="fact without a verb",
        ),
        pytest.param("<think>what", "length", "thinking without an end", id="only thinking"),
    ],
)
def test_reply_without_usable_facts_is_refused_with_the_problem(text, finish_reason, problem):
    """Facts that the judge has cut or made up would be verified, and counted in the scores."""
    reply = read_facts_reply(text, finish_reason)

    assert reply.value is None
    assert reply.problem == problem


def test_facts_in_a_language_with_unknown_verbs_are_accepted():
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


def test_most_similar_demonstration_is_shown_last():
    """Models follow the demonstration that stands nearest to the question."""
    sentence = "She joined a club on loan and scored goals in matches."
    response = GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", sentence, ())
    method = AmbigBio(facts="standalone")

    (variables,) = method.decomposing_variables([method.prepare(response)])

    assert len(variables["demonstrations"]) == 8
    last_demonstration = variables["demonstrations"][-1]
    assert last_demonstration["sentence"].startswith("She joined Sill Rovers on loan")


def test_prompt_for_self_contained_facts_shows_the_preceding_text():
    """The judge needs it to replace "She" by the name, as its demonstration shows."""
    variables = variables_of_second_sentence("standalone")

    prompt = Prompts().render("biographies/decompose", variables)

    assert prompt.endswith(f"Text: {FIRST_SENTENCE}\nSentence: {SECOND_SENTENCE}")
    assert '"Edda Moll joined Sill Rovers on loan."' in prompt


def test_prompt_for_facts_as_written_shows_only_the_sentence():
    """Facts keep the pronouns of the sentence, so its context is not needed."""
    variables = variables_of_second_sentence("as_written")

    prompt = Prompts().render("biographies/decompose", variables)

    assert "Text: " not in prompt
    assert '"She joined Sill Rovers on loan."' in prompt


@pytest.mark.parametrize(
    ("sentence", "facts"),
    [
        pytest.param(
            "Ada Lind, born on 3 May 1900 in Tarrow, Norl, was a painter and engraver who taught "
            "at Sill.",
            [
                "Ada Lind was born on 3 May 1900.",
                "Ada Lind was born in Tarrow, Norl.",
                "Ada Lind was a painter.",
                "Ada Lind was an engraver.",
                "Ada Lind taught at Sill.",
            ],
            id="birth, two professions and a relative clause",
        ),
        pytest.param(
            "She studied law in Sill and moved to Tarrow in 1920, but left it in 1925.",
            ["She studied law in Sill.", "She moved to Tarrow in 1920.", "She left it in 1925."],
            id="three verbs",
        ),
        pytest.param(
            "However, Jon Aske (1901-1970) was fined and imprisoned in 1930.",
            [
                "Jon Aske was born in 1901.",
                "Jon Aske died in 1970.",
                "Jon Aske was fined.",
                "Jon Aske was imprisoned in 1930.",
            ],
            id="dates of life",
        ),
        pytest.param(
            "He played for Tarrow from 1990- 1995.",
            ["He played for Tarrow from 1990- 1995."],
            id="range of years",
        ),
        pytest.param(
            "One is a judge, while the other is a cyclist.",
            ["One is a judge.", "The other is a cyclist."],
            id="two people",
        ),
        pytest.param(
            "There is also Tomas J. Reed, a botanist who described the marsh lily.",
            ["Tomas J. Reed is a botanist.", "Tomas J. Reed described the marsh lily."],
            id="another person",
        ),
        pytest.param(
            "Born in Sill, she became a nun.",
            ["She was born in Sill.", "She became a nun."],
            id="participle",
        ),
        pytest.param("There are several people with the name Ada Lind.", [], id="several people"),
        pytest.param("It is unclear which Ada Lind is meant.", [], id="doubt"),
        pytest.param("In a word, wonderful.", [], id="no verb"),
        pytest.param(
            "He directed and presented a play in 1997, and left.",
            ["He directed and presented a play in 1997.", "He left."],
            id="two verbs with one object",
        ),
        pytest.param("Pope Cyril II of Alexandria, the", [], id="cut off"),
    ],
)
def test_the_rules_split_a_sentence_into_facts(sentence, facts):
    """The lexical judge has no model, so rules of grammar take its sentences apart."""
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
def test_response_without_information_about_anybody_is_an_abstention(output):
    """An abstention has no facts to judge, and lowers the respond ratio instead."""
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
def test_response_with_a_fact_is_not_an_abstention(output):
    """The facts of a response are judged, whatever apology stands before them."""
    assert not is_abstention(output)


def test_list_with_an_unknown_subject_is_left_to_the_judge():
    """A response without a sentence outside of lists once ended the run with an IndexError."""
    assert not is_abstention("- I'm not aware of a town called Elby.")


def test_sentences_in_a_script_without_spaces_are_split():
    """Chinese has a full stop of its own, and no space behind it."""
    sentences = response_sentences("他是一位画家。他1950年出生于北京。")

    assert sentences == ("他是一位画家。", "他1950年出生于北京。")


def test_facts_in_a_script_without_spaces_are_accepted():
    """The check for whole sentences knows no Chinese verbs, and so must not ask for one."""
    facts = ("李明出生于1950年。", "李明出生于北京。", "李明是画家。")
    reply = FactsReply(facts=list(facts))

    problem = problem_with_facts(reply, {"sentence": "他1950年出生于北京。"})

    assert problem == ""
    assert reply_to_facts(reply) == facts
