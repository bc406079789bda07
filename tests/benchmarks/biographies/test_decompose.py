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


def read_facts(text, finish_reason="stop"):
    """Read the facts in a judge's reply, or else what is wrong with it."""
    parsed = read_reply(
        Answer(text, finish_reason),
        FactsReply,
        {"sentence": "A sang and left."},
        problem_with_facts,
    )
    return reply_to_facts(parsed.value) if parsed.value else parsed.problem


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('{"facts": ["A sang.", "A left."]}', ("A sang.", "A left.")),
        ('["A sang.", "A left."]', ("A sang.", "A left.")),
        ('{"facts": ["He played 1990- 1995 for Tarrow."]}', ("He played 1990- 1995 for Tarrow.",)),
        ('{"facts": ["A  sang [3].", "A sang."]}', ("A sang.",)),
        ('{"facts": []}', ()),
    ],
)
def test_facts_are_read_from_a_reply(text, facts):
    assert read_facts(text) == facts


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
    assert read_facts(text, finish_reason) == problem


def test_facts_in_a_language_whose_verbs_are_unknown_are_accepted():
    reply = Answer('{"facts": ["Ada Lind war Malerin."]}', "stop")
    assert read_reply(
        reply, FactsReply, {"sentence": "Ada Lind war Malerin und Lehrerin."}, problem_with_facts
    ).value


def test_prompts_show_the_text_before_the_sentence_and_the_nearest_demonstration():
    sentences = [
        "Ada Lind was a painter.",
        "She joined a club on loan and scored goals in matches.",
    ]
    response = GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", " ".join(sentences), ())
    alone, written = (
        method.decomposing_variables([method.prepare(response)])[1]
        for method in (AmbigBio(facts="standalone"), AmbigBio(facts="as_written"))
    )
    assert len(alone["demonstrations"]) == 8
    assert alone["demonstrations"][-1]["sentence"].startswith("She joined Sill Rovers on loan")
    prompts = [Prompts().render("biographies/decompose", each) for each in (alone, written)]
    assert prompts[0].endswith(f"Text: {sentences[0]}\nSentence: {sentences[1]}")
    assert '"Edda Moll joined Sill Rovers on loan."' in prompts[0]
    assert "Text: " not in prompts[1]
    assert '"She joined Sill Rovers on loan."' in prompts[1]


@pytest.mark.parametrize(
    ("sentence", "facts"),
    [
        (
            "Ada Lind, born on 3 May 1900 in Tarrow, Norl, was a painter and engraver who taught at Sill.",
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
    ("output", "expected"),
    [
        ("I'm sorry, I cannot tell which Ada Lind is meant. One was a painter.", False),
        (
            "I'm sorry, I cannot tell which Ada Lind is meant. Please specify. There are two people of this name.",
            True,
        ),
        ("I'm sorry, but there is no sufficient information on Ada Lind.", True),
        ("I\u2019m sorry.", True),
        (
            "Unfortunately, there is no detailed information about her youth. Ada Lind was a painter [1].",
            False,
        ),
        (
            "Unfortunately, there is no information about her youth, but Ada Lind was a painter [1].",
            False,
        ),
        ("I apologize for the confusion earlier. Ada Lind was a painter [1].", False),
        ("Unfortunately, I have five Ada Linds. One was a painter, one a pilot [2].", False),
        ("I'm sorry, I cannot give her birthday; she was a painter.", False),
        ("There are two people named Ada Lind.", False),
        ("I could not find any information on Ada Lind in the documents.", True),
        ("Unfortunately, there is not enough information on Ada Lind.", True),
        (
            "The documents do not contain information on Ada Lind. No person of this name is mentioned.",
            True,
        ),
        ("", True),
        (
            "There is not enough information for a detailed biography. Ada Lind was a painter [1].",
            False,
        ),
        ("Ada Lind could not find a publisher until 1930 [1].", False),
        ("Ada Lind was a painter. There is no information on her death.", False),
    ],
)
def test_abstentions(output, expected):
    assert is_abstention(output) is expected


def test_sentences_and_facts_in_a_script_without_spaces_are_read():
    sentences = response_sentences("他是一位画家。他1950年出生于北京。")
    assert sentences == ("他是一位画家。", "他1950年出生于北京。")
    facts = ["李明出生于1950年。", "李明出生于北京。", "李明是画家。"]
    assert problem_with_facts(FactsReply(facts=facts), {"sentence": sentences[1]}) == ""
    assert reply_to_facts(FactsReply(facts=facts)) == tuple(facts)
