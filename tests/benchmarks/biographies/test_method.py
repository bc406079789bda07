"""The whole method on the paper's cases, told in our own words, with the verdicts that their pages
give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import (
    GeneratedText,
    Judgement,
)
from tests.benchmarks.biographies.recorded import RecordedJudge, generation

SWIMMER, COACH = "Dick Hanley (swimmer)", "Dick Hanley (American football)"
HANLEY = generation(
    "Dick Hanley",
    "Dick Hanley was a freestyle swimmer born in 1936 [1]. He won a medal in the relay at the Games of 1956 [1, 2]. "
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

EXPLORER, POLITICIAN, BISHOP = (
    "John Hemming (explorer)",
    "John Hemming (politician)",
    "John Hemming (bishop)",
)
HEMMING = generation(
    "John Hemming",
    "John Hemming, born in Vancouver in 1935, is an explorer who has written on the peoples of the Amazon [1]. "
    "Hemming was a pupil of Clapham Grammar School [2]. He took a degree in physics at Oxford [3].",
    [EXPLORER, BISHOP, POLITICIAN, EXPLORER],
    "1",
)
HEMMING_FACTS = {
    "John Hemming, born in Vancouver in 1935, is an explorer who has written on the peoples of the Amazon.": [
        "John Hemming was born in Vancouver.",
        "John Hemming was born in 1935.",
        "John Hemming is an explorer.",
        "John Hemming has written on the peoples of the Amazon.",
        "The Amazon has peoples.",
    ],
    "Hemming was a pupil of Clapham Grammar School.": [
        "Hemming was a pupil of Clapham Grammar School."
    ],
    "He took a degree in physics at Oxford.": ["He took a degree in physics at Oxford."],
}
HEMMING_TRUTH = {
    *((fact, EXPLORER) for fact in next(iter(HEMMING_FACTS.values()))),
    ("Hemming was a pupil of Clapham Grammar School.", BISHOP),
    ("He took a degree in physics at Oxford.", POLITICIAN),
}


def hanley(**changes) -> RecordedJudge:
    return RecordedJudge(HANLEY_FACTS, HANLEY_TRUTH, **changes)


def test_two_swimming_and_coaching_lives_in_one_biography():
    """Figure 1: every fact is true of somebody, and the paragraph is true of nobody."""
    (judged,) = AMBIGBIO.judge_texts(hanley(), [HANLEY])
    scores = score_biography(judged)
    assert (scores["factscore"], scores["num_biographies"], scores["num_entities"]) == (1, 1, 2)
    assert scores["d_factscore"] == pytest.approx(4 / 6)
    assert scores["difference"] == pytest.approx(2 / 6)
    assert scores["kind"] == "one_bio_many_entities"
    assert judged.links == (judged.entities.index(SWIMMER),)


def test_three_lives_in_one_biography():
    """Table 2: 100% and 71%, one biography of three entities."""
    (judged,) = AMBIGBIO.judge_texts(RecordedJudge(HEMMING_FACTS, HEMMING_TRUTH), [HEMMING])
    scores = score_biography(judged)
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == pytest.approx(5 / 7)
    assert (scores["num_biographies"], scores["num_entities"], scores["kind"]) == (
        1,
        3,
        "one_bio_many_entities",
    )


def test_a_paragraph_that_tells_them_apart_scores_the_same_both_ways():
    (judged,) = AMBIGBIO.judge_texts(
        hanley(breaks=["Hanley coached the Northwestern eleven."]), [HANLEY]
    )
    scores = score_biography(judged)
    assert judged.groups == ((0, 1, 2, 3), (4, 5))
    assert (scores["factscore"], scores["d_factscore"], scores["kind"]) == (
        1,
        1,
        "many_bios_many_entities",
    )


def test_each_step_asks_no_more_than_it_has_to():
    repeated = {
        **HEMMING_FACTS,
        "He took a degree in physics at Oxford.": ["John Hemming was born in 1935."],
    }
    judge = RecordedJudge({**HANLEY_FACTS, **repeated}, HANLEY_TRUTH | HEMMING_TRUTH)
    declines = generation(
        "Ada Lind", "I'm sorry, I cannot find anybody of this name.", ["Ada Lind"], "2"
    )
    judged = AMBIGBIO.judge_texts(judge, [HANLEY, HEMMING, declines])
    distinct = [(len({fact.text for fact in each.facts}), len(each.entities)) for each in judged]
    assert distinct[:2] == [(6, 2), (6, 3)]  # seven facts of Hemming, two of them the same
    steps = [name for name, _ in judge.calls]
    assert steps.count("biographies/decompose") == 6
    assert steps.count("biographies/group") == 2
    assert steps.count("biographies/verify") == 6 * 2 + 6 * 3
    assert len(set(judge.calls)) == len(judge.calls)
    assert (judged[2].abstained, judged[2].facts) == (True, ())


def test_the_prompts_hold_what_is_judged_and_no_citations():
    judge = hanley()
    AMBIGBIO.judge_texts(judge, [HANLEY])
    assert not any("[1]" in prompt or "[3]" in prompt for _, prompt in judge.calls)
    verify = [prompt for name, prompt in judge.calls if name == "biographies/verify"]
    assert sum(f"Title: {COACH}\nWhat the page {COACH} says." in prompt for prompt in verify) == 6
    (group,) = [prompt for name, prompt in judge.calls if name == "biographies/group"]
    assert "and died in 1970." in group
    assert group.count("1. Dick Hanley was a freestyle swimmer.") == 1


class NoPage:
    def passages(self, title: str) -> list[str] | None:
        return ["A page."] if title == SWIMMER else [] if title == BISHOP else None


def test_a_page_that_is_missing_supports_nothing():
    judge = hanley()
    (judged,) = AmbigBio(pages=NoPage()).judge_texts(judge, [HANLEY])
    scores = score_biography(judged)
    assert judged.matrix[0][1] == Judgement(
        "not_supported", 0.0, f"no page: none is called {COACH!r}"
    )
    assert (scores["unscored"], scores["factscore"]) == (
        0,
        pytest.approx(4 / 6),
    )  # the coach's two facts are nobody's
    assert (scores["factscore_worst"], scores["factscore_best"]) == (
        scores["factscore"],
        scores["factscore"],
    )
    assert (scores["d_factscore"], scores["unscored_grouped"], scores["difference"]) == (
        pytest.approx(4 / 6),
        0,
        0,
    )
    assert (scores["candidates"], scores["without_page"]) == (2, 1)
    assert sum(name == "biographies/verify" for name, _ in judge.calls) == 6


def test_a_sentence_that_cannot_be_taken_apart_leaves_the_response_without_facts():
    judge = RecordedJudge({}, set(), answers={"decompose": "I would rather not.\nNor would I."})
    (judged,) = AMBIGBIO.judge_texts(judge, [HANLEY])
    assert judged.problem == "not decomposed: sentence 1 of 3: no JSON object"
    assert (judged.facts, score_biography(judged)) == ((), None)


def test_facts_that_cannot_be_grouped_keep_their_factscore():
    (judged,) = AMBIGBIO.judge_texts(
        hanley(answers={"group": "- He was a swimmer.\n- He was tall."}), [HANLEY]
    )
    scores = score_biography(judged)
    assert judged.ungrouped.startswith("no JSON object")
    assert (scores["factscore"], scores["d_factscore"], scores["num_biographies"]) == (
        1,
        None,
        None,
    )
    assert (scores["d_factscore_worst"], scores["d_factscore_best"]) == (0, 1)


def test_the_code_protocol_loses_the_first_fact_and_prefers_the_alphabet():
    (judged,) = AmbigBio(protocol="code").judge_texts(hanley(), [HANLEY])
    assert judged.groups == ((1, 2, 3, 4, 5),)
    scores = score_biography(judged, "code")
    assert scores["d_factscore"] == pytest.approx(3 / 5)
    assert scores["difference"] == pytest.approx(1 - 3 / 5)


def test_the_code_protocol_counts_a_group_that_the_first_fact_left_empty():
    settings = AmbigBio(protocol="code")
    (judged,) = settings.judge_texts(hanley(breaks=["Dick Hanley was born in 1936."]), [HANLEY])
    assert (judged.groups, judged.links[0]) == (((), (1, 2, 3, 4, 5)), None)
    scores = score_biography(judged, "code")
    assert (scores["num_biographies"], scores["d_factscore"]) == (2, pytest.approx(3 / 5))
    judge = RecordedJudge({"Ada Lind was a painter.": ["Ada Lind was a painter."]}, set())
    (alone,) = settings.judge_texts(
        judge, [generation("Ada Lind", "Ada Lind was a painter [1].", ["Ada Lind"])]
    )
    scores = score_biography(alone, "code")
    assert (alone.groups, scores["num_biographies"]) == (((),), 1)
    assert (
        scores["factscore"],
        scores["d_factscore"],
        scores["difference"],
        scores["unscored_grouped"],
    ) == (
        0,
        None,
        None,
        1,
    )
    assert (scores["d_factscore_worst"], scores["d_factscore_best"]) == (0, 0)
    assert settings.make_record(alone)["unscored"] == "no fact left in a group"


def test_a_response_without_passages_is_unscored():
    empty = GeneratedText("0", "q", "Dick Hanley", HANLEY.output, ())
    (judged,) = AMBIGBIO.judge_texts(hanley(), [empty])
    scores = score_biography(judged)
    assert (scores["factscore"], scores["unscored"], scores["factscore_best"]) == (None, 6, 1)


def test_one_fact_is_a_group_unasked():
    judge = RecordedJudge({"Ada Lind was a painter.": ["Ada Lind was a painter."]}, set())
    judged, bare = AMBIGBIO.judge_texts(
        judge,
        [
            generation("Ada Lind", "Ada Lind was a painter [1].", ["Ada Lind"]),
            replace(HANLEY, output="[1]"),
        ],
    )
    assert (judged.groups, judged.links) == (((0,),), (None,))
    assert "biographies/group" not in {name for name, _ in judge.calls}
    assert bare.abstained or bare.problem == "no sentences"
