"""The whole method of D-FActScore on the cases of the paper, told in our own words."""

from dataclasses import replace

import pytest

from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import Judgement
from tests.benchmarks.biographies.recorded import RecordedJudge, make_generation

SWIMMER = "Dick Hanley (swimmer)"
COACH = "Dick Hanley (American football)"
HANLEY = make_generation(
    "Dick Hanley",
    "Dick Hanley was a freestyle swimmer born in 1936 [1]. He won a medal in the relay at the "
    "Games of 1956 [1, 2]. "
    "Hanley coached the Northwestern eleven [3] and died in 1970 [3][4].",
    [SWIMMER, SWIMMER, COACH],
)
HANLEY_FACTS = {
    "Dick Hanley was a freestyle swimmer born in 1936.": [
        "Dick Hanley was a freestyle swimmer.",
        "Dick Hanley was born in 1936.",
    ],
    "He won a medal in the relay at the Games of 1956.": [
        "He won a relay medal.",
        "The relay was in 1956.",
    ],
    "Hanley coached the Northwestern eleven and died in 1970.": [
        "Hanley coached the Northwestern eleven.",
        "He died in 1970.",
    ],
}
HANLEY_TRUTH = {
    ("Dick Hanley was a freestyle swimmer.", SWIMMER),
    ("Dick Hanley was born in 1936.", SWIMMER),
    ("He won a relay medal.", SWIMMER),
    ("The relay was in 1956.", SWIMMER),
    ("Hanley coached the Northwestern eleven.", COACH),
    ("He died in 1970.", COACH),
}

EXPLORER = "John Hemming (explorer)"
POLITICIAN = "John Hemming (politician)"
BISHOP = "John Hemming (bishop)"


def make_judge():
    """Make a judge who knows the facts about both Dick Hanleys, and the page of each."""
    return RecordedJudge(HANLEY_FACTS, HANLEY_TRUTH)


def judge_facts(facts_and_pages, method=AMBIGBIO, titles=(SWIMMER, COACH), **judge_options):
    """Judge a response, each sentence of which is one fact.

    Args:
        facts_and_pages: The title of the page that supports each fact, None if no page does.
        method: The method of judging.
        titles: The titles of the pages.
        **judge_options: Options of `RecordedJudge`.
    """
    facts = {fact: [fact] for fact in facts_and_pages}
    supported = {(fact, page) for fact, page in facts_and_pages.items() if page is not None}
    judge = RecordedJudge(facts, supported, **judge_options)
    response = make_generation("Dick Hanley", " ".join(facts_and_pages), titles)
    return judge_text(method, judge, response)


def judge_text(method, judge, text):
    """Judge one response with a method."""
    (judged,) = method.judge_texts(judge, [text])
    return judged


def prompts_of(judge, step):
    """List the prompts of one step that a judge was asked."""
    return [prompt for name, prompt in judge.calls if name == f"biographies/{step}"]


def test_merged_biography_gets_no_credit_for_the_second_entity():
    """Figure 1 of the paper has such a response, whose facts are all true, but not of one person."""
    judged = judge_facts(
        {
            "Dick Hanley was a swimmer.": SWIMMER,
            "He won a relay medal.": SWIMMER,
            "He coached the Northwestern eleven.": COACH,
        }
    )

    scores = score_biography(judged)
    (link,) = judged.links
    assert judged.entities[link] == SWIMMER
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == pytest.approx(2 / 3)
    assert scores["difference"] == pytest.approx(1 / 3)


def test_merged_biography_of_two_entities_is_recognised():
    judged = judge_facts(
        {
            "Dick Hanley was a swimmer.": SWIMMER,
            "He coached the Northwestern eleven.": COACH,
        }
    )

    scores = score_biography(judged)

    assert scores["num_biographies"] == 1
    assert scores["num_entities"] == 2
    assert scores["kind"] == "one_bio_many_entities"


def test_merged_biography_of_three_entities_scores_as_in_the_paper():
    """Table 2 of the paper has 100% and 71% for a response with these facts."""
    judged = judge_facts(
        {
            "John Hemming was born in Vancouver.": EXPLORER,
            "John Hemming was born in 1935.": EXPLORER,
            "John Hemming is an explorer.": EXPLORER,
            "John Hemming has written on the peoples of the Amazon.": EXPLORER,
            "The Amazon has peoples.": EXPLORER,
            "Hemming was a pupil of Clapham Grammar School.": BISHOP,
            "He took a degree in physics at Oxford.": POLITICIAN,
        },
        titles=(EXPLORER, BISHOP, POLITICIAN),
    )

    scores = score_biography(judged)
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == pytest.approx(5 / 7)
    assert scores["num_biographies"] == 1
    assert scores["num_entities"] == 3
    assert scores["kind"] == "one_bio_many_entities"


def test_response_separating_two_people_has_equal_scores():
    """Each of the two biographies is linked to its own page, so no fact is with the wrong person."""
    judged = judge_facts(
        {
            "Dick Hanley was a swimmer.": SWIMMER,
            "He won a relay medal.": SWIMMER,
            "Another Dick Hanley was a coach.": COACH,
        },
        breaks=["Another Dick Hanley was a coach."],
    )

    scores = score_biography(judged)
    assert judged.groups == ((0, 1), (2,))
    assert [judged.entities[link] for link in judged.links] == [SWIMMER, COACH]
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == 1
    assert scores["kind"] == "many_bios_many_entities"


def test_each_distinct_fact_is_verified_once_with_each_entity():
    """A fact that is told twice is not paid for twice."""
    facts = {
        "Dick Hanley was a swimmer.": ["Dick Hanley was a swimmer."],
        "He won a medal as a swimmer.": ["He won a medal.", "Dick Hanley was a swimmer."],
    }
    judge = RecordedJudge(facts, supported=set())

    judge_text(AMBIGBIO, judge, make_generation("Dick Hanley", " ".join(facts), [SWIMMER, COACH]))

    num_distinct_facts = 2
    num_entities = 2
    assert len(prompts_of(judge, "verify")) == num_distinct_facts * num_entities


def test_each_sentence_is_decomposed_and_each_response_grouped_once():
    """Two responses have three and two sentences, and the third is an abstention."""
    sentences = ["Ada Lind painted.", "She sailed."]
    facts = {**HANLEY_FACTS, **{sentence: [sentence] for sentence in sentences}}
    judge = RecordedJudge(facts, HANLEY_TRUTH)
    response = make_generation("Ada Lind", " ".join(sentences), ["Ada Lind"], index="1")
    abstention = make_generation("Bo Ek", "I'm sorry, I cannot find him.", ["Bo Ek"], index="2")

    AMBIGBIO.judge_texts(judge, [HANLEY, response, abstention])

    assert len(prompts_of(judge, "decompose")) == 3 + 2
    assert len(prompts_of(judge, "group")) == 2
    assert len(set(judge.calls)) == len(judge.calls)  # no prompt is asked twice


def test_an_abstention_has_no_facts():
    """The response only says that the model found nobody."""
    apology = "I'm sorry, I cannot find anybody of this name."

    judged = judge_text(AMBIGBIO, make_judge(), make_generation("Ada Lind", apology, ["Ada Lind"]))

    assert judged.abstained
    assert judged.facts == ()


def test_prompts_contain_no_citations():
    """The response cites "[1]" and "[3]", and a judge could take these numbers for evidence."""
    judge = make_judge()

    judge_text(AMBIGBIO, judge, HANLEY)

    for _step, prompt in judge.calls:
        assert "[1]" not in prompt
        assert "[3]" not in prompt


def test_verification_prompts_show_the_page():
    """A judge verifies a fact against the person's page. Each of six facts meets the coach's."""
    judge = make_judge()

    judge_text(AMBIGBIO, judge, HANLEY)

    page = f"Title: {COACH}\nWhat the page {COACH} says."
    assert sum(page in prompt for prompt in prompts_of(judge, "verify")) == 6


def test_grouping_prompt_shows_the_text_and_its_facts():
    """The judge needs the text to see where it begins to tell of another person."""
    judge = make_judge()

    judge_text(AMBIGBIO, judge, HANLEY)

    (prompt,) = prompts_of(judge, "group")
    assert "and died in 1970." in prompt
    assert prompt.count("1. Dick Hanley was a freestyle swimmer.") == 1


class SwimmerPages:
    """Pages of which there is only the one about the swimmer."""

    def passages(self, title):
        """Return the passages of the page of this title."""
        return ["A page."] if title == SWIMMER else None


def test_missing_page_supports_no_fact():
    """The knowledge source has a page about the swimmer, and none about the coach."""
    judged = judge_facts(
        {"He coached the Northwestern eleven.": COACH}, AmbigBio(pages=SwimmerPages())
    )

    ((_by_swimmer, by_coach),) = judged.matrix
    reason = f"no page: none is called {COACH!r}"
    assert by_coach == Judgement("not_supported", 0.0, reason)


def test_the_judge_is_not_asked_about_a_missing_page():
    """Each of six facts is held against the swimmer's page alone, since the coach has none."""
    judge = make_judge()

    judge_text(AmbigBio(pages=SwimmerPages()), judge, HANLEY)

    assert len(prompts_of(judge, "verify")) == 6


def test_a_missing_page_leaves_no_fact_unscored():
    """That a page is missing is a verdict, by which the fact about the coach is false."""
    judged = judge_facts(
        {
            "Dick Hanley was a swimmer.": SWIMMER,
            "He won a relay medal.": SWIMMER,
            "He coached the Northwestern eleven.": COACH,
        },
        AmbigBio(pages=SwimmerPages()),
    )

    scores = score_biography(judged)
    assert scores["factscore"] == pytest.approx(2 / 3)
    assert scores["factscore_worst"] == scores["factscore"]
    assert scores["factscore_best"] == scores["factscore"]
    assert scores["unscored"] == 0


def test_facts_about_a_missing_page_are_unsupported_in_both_scores():
    judged = judge_facts(
        {
            "Dick Hanley was a swimmer.": SWIMMER,
            "He won a relay medal.": SWIMMER,
            "He coached the Northwestern eleven.": COACH,
        },
        AmbigBio(pages=SwimmerPages()),
    )

    scores = score_biography(judged)
    assert scores["d_factscore"] == pytest.approx(2 / 3)
    assert scores["difference"] == 0
    assert scores["unscored_grouped"] == 0


def test_candidates_without_a_page_are_counted():
    """Missing pages make a model look worse than it is, so the records show their number."""
    judged = judge_facts({"Dick Hanley was a swimmer.": SWIMMER}, AmbigBio(pages=SwimmerPages()))

    scores = score_biography(judged)

    assert scores["candidates"] == 2
    assert scores["without_page"] == 1


def test_undecomposable_sentence_leaves_the_response_without_facts():
    """Facts of the other sentences alone would give a score of a part of the response."""
    refusal = "I would rather not.\nNor would I."
    judge = RecordedJudge(facts={}, supported=set(), answers={"decompose": refusal})

    judged = judge_text(AMBIGBIO, judge, HANLEY)

    assert judged.problem == "not decomposed: sentence 1 of 3: no JSON object"
    assert judged.facts == ()
    assert score_biography(judged) is None


@pytest.fixture
def ungrouped():
    """Return a judged response of two supported facts, which could not be grouped."""
    return judge_facts(
        {"Dick Hanley was a swimmer.": SWIMMER, "He coached the Northwestern eleven.": COACH},
        answers={"group": "- He was a swimmer.\n- He was tall."},
    )


def test_failed_grouping_is_recorded_with_a_reason():
    judged = judge_facts(
        {"Dick Hanley was a swimmer.": SWIMMER, "He coached the Northwestern eleven.": COACH},
        answers={"group": "a list in place of JSON"},
    )

    assert judged.ungrouped.startswith("no JSON object")


def test_ungrouped_facts_have_a_factscore_but_no_d_factscore(ungrouped):
    """FActScore ignores groups. D-FActScore needs them to know which facts are about one person."""
    scores = score_biography(ungrouped)

    assert scores["factscore"] == 1
    assert scores["d_factscore"] is None
    assert scores["num_biographies"] is None


def test_ungrouped_facts_have_d_factscore_bounds_from_0_to_1(ungrouped):
    """All facts might be with the right person, or none."""
    scores = score_biography(ungrouped)

    assert scores["d_factscore_worst"] == 0
    assert scores["d_factscore_best"] == 1


def test_protocol_code_loses_the_first_fact_of_a_response():
    """The protocol repeats a flaw of the authors' code, for scores comparable to theirs."""
    judged = judge_facts(
        {
            "Dick Hanley was a swimmer.": SWIMMER,
            "He won a relay medal.": SWIMMER,
            "He lived until 1970.": SWIMMER,
            "He coached the Northwestern eleven.": COACH,
        },
        AmbigBio(protocol="code"),
    )

    scores = score_biography(judged, "code")
    assert judged.groups == ((1, 2, 3),)
    assert scores["d_factscore"] == pytest.approx(2 / 3)
    assert scores["difference"] == pytest.approx(1 - 2 / 3)


def test_protocol_code_counts_an_emptied_group():
    """The authors' code loses the first fact of a response, here the only one about the coach."""
    judged = judge_facts(
        {
            "Dick Hanley was a coach.": COACH,
            "Another Dick Hanley was a swimmer.": SWIMMER,
            "He won a relay medal.": SWIMMER,
        },
        AmbigBio(protocol="code"),
        breaks=["Another Dick Hanley was a swimmer."],
    )

    scores = score_biography(judged, "code")
    assert judged.groups == ((), (1, 2))
    assert judged.links[0] is None
    assert scores["num_biographies"] == 2
    assert scores["d_factscore"] == 1


PAINTER = make_generation("Ada Lind", "Ada Lind was a painter [1].", ["Ada Lind"])


def make_judge_of_painter():
    """Make a judge who finds one fact about Ada Lind, which her page does not support."""
    return RecordedJudge({"Ada Lind was a painter.": ["Ada Lind was a painter."]}, set())


def test_protocol_code_gives_no_d_factscore_to_a_single_fact_response():
    """The authors' code loses the only fact in grouping, after FActScore has counted it."""
    judged = judge_facts({"Dick Hanley was a painter.": None}, AmbigBio(protocol="code"))

    scores = score_biography(judged, "code")
    assert judged.groups == ((),)
    assert scores["factscore"] == 0  # no page supports the fact
    assert scores["d_factscore"] is None
    assert scores["difference"] is None


def test_protocol_code_counts_a_single_fact_response_as_a_biography():
    """The authors' code counts groups before it loses the first fact."""
    judged = judge_facts({"Dick Hanley was a painter.": None}, AmbigBio(protocol="code"))

    scores = score_biography(judged, "code")

    assert scores["num_biographies"] == 1


def test_response_without_grouped_facts_is_unscored():
    """The protocol loses the only fact, so there is no D-FActScore."""
    method = AmbigBio(protocol="code")
    judged = judge_facts({"Dick Hanley was a painter.": None}, method)

    record = method.make_record(judged)

    assert record["unscored"] == "no fact left in a group"
    assert record["scores"]["unscored_grouped"] == 1


def test_unsupported_fact_without_a_group_bounds_d_factscore_by_0():
    """The protocol loses the only fact, but it is false of everybody, whatever its group."""
    judged = judge_facts({"Dick Hanley was a painter.": None}, AmbigBio(protocol="code"))

    scores = score_biography(judged, "code")

    assert scores["d_factscore_worst"] == 0
    assert scores["d_factscore_best"] == 0


def test_a_response_without_passages_is_unscored():
    """There is no page that could support or contradict its two facts."""
    response = make_generation("Dick Hanley", "He was a swimmer. He lived until 1970.", titles=[])
    facts = {
        "He was a swimmer.": ["He was a swimmer."],
        "He lived until 1970.": ["He lived until 1970."],
    }

    judged = judge_text(AMBIGBIO, RecordedJudge(facts, supported=set()), response)

    scores = score_biography(judged)
    assert scores["factscore"] is None
    assert scores["unscored"] == 2
    assert scores["factscore_best"] == 1


def test_single_fact_is_grouped_without_the_judge():
    """One fact can be grouped in only one way."""
    judge = make_judge_of_painter()

    judged = judge_text(AMBIGBIO, judge, PAINTER)

    assert judged.groups == ((0,),)
    assert judged.links == (None,)
    assert prompts_of(judge, "group") == []


def test_response_with_only_citations_has_no_sentences():
    """Without its citation nothing is left of "[1]", so there is nothing to judge."""
    only_a_citation = replace(HANLEY, output="[1]")

    judged = judge_text(AMBIGBIO, make_judge_of_painter(), only_a_citation)

    assert judged.abstained or judged.problem == "no sentences"
