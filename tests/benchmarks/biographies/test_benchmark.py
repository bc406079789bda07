"""D-FActScore as a benchmark: from a judge's records to the scores of a set of responses."""

import json
from dataclasses import replace

import pytest

from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, generation_to_doc
from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import (
    GeneratedText,
    RetrievedPassage,
)
from lm_factuality.scores.intervals import mean_interval
from tests.benchmarks.biographies.recorded import make_biography

PAINTER = RetrievedPassage(
    "Ada Lind (painter)",
    "Ada Lind (3 May 1900 – 1 June 1980) was a painter. She was born in Tarrow and taught at the "
    "Harbour School.",
)
PILOT = RetrievedPassage(
    "Ada Lind (pilot)",
    "Ada Lind (born 1955) is a pilot. She flew mail to the northern islands and founded a flying "
    "school in Sill.",
)
# Three facts, told as of one person: two are true of the painter, the last of the pilot.
PEOPLE_MERGED = (
    "Ada Lind was born in Tarrow [1]. She taught at the Harbour School [1]. She flew mail to the "
    "northern islands [2]."
)
# Two facts about the painter, and two about the pilot, told as of two people.
PEOPLE_TOLD_APART = (
    "Ada Lind was a painter [1]. She taught at the Harbour School [1]. Another Ada Lind is a pilot "
    "[2]. She founded a flying school in Sill [2]."
)
ABSTENTION = "I'm sorry, I cannot tell which Ada Lind is meant."


def make_response(output, index="0"):
    """Make a response about Ada Lind, with the pages of both people of this name."""
    question = "Tell me a bio of Ada Lind"
    return GeneratedText(index, question, "Ada Lind", output, (PAINTER, PILOT))


def make_docs(*outputs):
    """Make the document of each response."""
    return [
        generation_to_doc(make_response(output, str(number)))
        for number, output in enumerate(outputs)
    ]


@pytest.fixture
def lexical_judge(tmp_path):
    """Return the offline judge, which compares words."""
    with Judge.open(load_judge_config("lexical"), tmp_path / "answers.sqlite") as judge:
        yield judge


@pytest.fixture
def records(lexical_judge):
    """Return the records of three responses: two people merged, two told apart, an abstention."""
    docs = make_docs(PEOPLE_MERGED, PEOPLE_TOLD_APART, ABSTENTION)
    return AMBIGBIO.judge(lexical_judge, docs, [[PEOPLE_MERGED], [PEOPLE_TOLD_APART], [ABSTENTION]])


@pytest.mark.parametrize("output", [PEOPLE_MERGED, PEOPLE_TOLD_APART, ABSTENTION])
def test_a_document_with_one_response_has_no_problem(output):
    """A document made from a response can be judged, whatever the response says."""
    (doc,) = make_docs(output)

    assert AMBIGBIO.document_problem(doc, [output]) is None


def test_a_record_can_be_written_as_json(records):
    """Samples files hold records as JSON, which has no NaN."""
    json.dumps(records, allow_nan=False)


def test_merged_biography_gets_no_credit_for_the_second_person(records):
    """All three facts are true of somebody, but only two of the painter, who is linked."""
    merged, _apart, _abstention = records

    scores = merged["scores"]
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == pytest.approx(2 / 3)
    assert scores["kind"] == "one_bio_many_entities"


def test_separate_biographies_are_linked_to_separate_pages(records):
    """The first biography is the painter's, the second the pilot's, and all facts are theirs."""
    _merged, apart, _abstention = records

    painter, pilot = 0, 1  # the order of the pages
    assert list(apart["links"]) == [painter, pilot]
    assert apart["scores"]["factscore"] == 1
    assert apart["scores"]["d_factscore"] == 1


def test_abstention_has_no_scores_and_does_not_count_as_unscored(records):
    """An abstention counts in the respond ratio, and in no other score."""
    _merged, _apart, abstention = records

    assert abstention["abstained"] is True
    assert abstention["scores"] is None
    assert abstention["unscored"] is None


@pytest.fixture
def summary(records):
    """Return the summary of two people merged, two told apart, and an abstention."""
    return AMBIGBIO.summarise(make_docs(PEOPLE_MERGED, PEOPLE_TOLD_APART, ABSTENTION), records)


@pytest.mark.parametrize(
    ("score", "mean"),
    [
        ("factscore", (1 + 1) / 2),
        ("d_factscore", (2 / 3 + 1) / 2),
        ("difference", (1 / 3 + 0) / 2),
        ("respond_ratio", 2 / 3),  # the only score that counts the abstention
        ("num_biographies", (1 + 2) / 2),
        ("num_entities", (2 + 2) / 2),
        ("one_bio_many_entities", (1 + 0) / 2),
    ],
)
def test_summary_means_exclude_abstentions(summary, score, mean):
    """The responses merge two people, tell two people apart, and decline."""
    assert summary[score]["value"] == pytest.approx(mean)


def test_the_summary_names_the_settings(summary):
    """Scores can only be compared if the settings are the same, so a reader must see them."""
    assert summary["settings"] == {
        "method": "stepwise",
        "knowledge": DOCUMENTS,
        "knowledge_identity": None,
        "linking": "greedy",
        "facts": "as_written",
        "protocol": "paper",
    }


def test_the_summary_can_be_written_as_json(summary):
    """``metrics.json`` holds the summary, and JSON has no NaN."""
    json.dumps(summary, allow_nan=False)


def test_the_rows_of_the_table_have_a_cell_for_each_column(summary):
    """A row of another length could not be printed."""
    columns, rows, _notes = AMBIGBIO.summary_table(summary)

    assert {len(row) for row in rows} == {len(columns)}


def test_the_notes_of_the_table_count_responses_and_abstentions(summary):
    """The table has means alone, which say nothing of how many responses they are from."""
    _columns, _rows, notes = AMBIGBIO.summary_table(summary)

    assert "Responses: 3." in notes
    assert "Abstained: 1." in notes


def test_a_plan_counts_the_questions_of_each_step(lexical_judge):
    """Each sentence is one fact, and one of the seven facts is in both responses."""
    docs = make_docs(PEOPLE_MERGED, PEOPLE_TOLD_APART)
    responses = [[PEOPLE_MERGED], [PEOPLE_TOLD_APART]]

    plans = AMBIGBIO.plan_questions(lexical_judge, docs, responses)

    assert {step: plan.to_send for step, plan in plans} == {
        "decomposing sentences": 3 + 4,
        "grouping facts": 2,
        "verifying facts": 14 - 2,
    }
    assert sum(plan.stored for _step, plan in plans) == 0


def test_a_plan_after_judging_has_nothing_to_send(lexical_judge):
    """The store has the answers, which are never paid for twice."""
    docs = make_docs(PEOPLE_MERGED, PEOPLE_TOLD_APART)
    responses = [[PEOPLE_MERGED], [PEOPLE_TOLD_APART]]
    AMBIGBIO.judge(lexical_judge, docs, responses)

    plans = AMBIGBIO.plan_questions(lexical_judge, docs, responses)

    assert sum(plan.to_send for _step, plan in plans) == 0


@pytest.mark.parametrize(
    ("verify", "num_calls"),
    [
        pytest.param("fact", 3 * 2 * 2, id="a question for each fact"),
        pytest.param("page", 2 * 2, id="a question for each page"),
    ],
)
def test_plan_estimates_the_calls_with_repeated_questions(config, tmp_path, verify, num_calls):
    """Three facts are verified with two pages, and each question is asked twice at most."""
    with Judge.open(config(verify=verify), tmp_path / "answers.sqlite") as judge:
        plans = dict(AMBIGBIO.plan_questions(judge, make_docs(PEOPLE_MERGED), [[PEOPLE_MERGED]]))

    assert plans["verifying facts"].estimate_with_retries.calls == num_calls


@pytest.fixture
def method_of_the_code():
    """Return the method with settings that are not the defaults."""
    return AmbigBio(linking="hungarian", protocol="code", knowledge="wiki.sqlite")


def test_protocol_code_loses_the_first_fact_of_a_response(lexical_judge, method_of_the_code):
    """The response tells of two people with two facts each."""
    docs = make_docs(PEOPLE_TOLD_APART)

    (record,) = method_of_the_code.judge(lexical_judge, docs, [[PEOPLE_TOLD_APART]])

    assert [list(group) for group in record["groups"]] == [[1], [2, 3]]


def test_settings_of_the_method_reach_the_summary(method_of_the_code):
    """Two results with other settings may not be compared."""
    summary = method_of_the_code.summarise([], [])

    assert summary["settings"] == method_of_the_code.recorded_settings
    assert summary["settings"]["linking"] == "hungarian"
    assert summary["settings"]["protocol"] == "code"
    assert summary["choices"] != AMBIGBIO.summarise([], [])["choices"]


@pytest.mark.parametrize(
    ("verdicts_by_fact", "difference"),
    [
        # Of the first three facts, any page supports three, and the linked page two.
        pytest.param(
            ["+-", "+-", "-+", "-?"],
            (3 - 2) / 3,
            id="the other page may support the fourth fact",
        ),
        # Of the first, second and fourth fact, any page supports three, and the linked page two.
        pytest.param(
            ["+-", "+-", "?+", "-+"],
            (3 - 2) / 3,
            id="the linked page may support the third fact",
        ),
        pytest.param(
            ["+-", "+-", "--"],
            (2 - 2) / 3,
            id="the other page alone supports no fact",
        ),
    ],
)
def test_score_difference_leaves_out_facts_without_a_verdict_in_a_score(
    verdicts_by_fact, difference
):
    """FActScore counts facts that any page supports, D-FActScore those that the linked page does.

    Each fact has a sign for the linked page, and one for another page. "+" stands for supported,
    "-" for not supported, and "?" for no verdict.
    """
    all_facts = tuple(range(len(verdicts_by_fact)))
    biography = make_biography(groups=[all_facts], verdicts=verdicts_by_fact)

    scores = score_biography(biography)

    assert scores["difference"] == pytest.approx(difference)


def test_score_difference_is_undefined_without_verdicts():
    """A difference of 0 would say that both scores are equal, which nobody knows."""
    without_verdict = "??"  # by either of two pages
    biography = make_biography(groups=[(0, 1)], verdicts=[without_verdict, without_verdict])

    scores = score_biography(biography)

    assert scores["difference"] is None


def test_failed_judge_leaves_a_record_with_the_reason():
    """The run goes on without the judge, and its samples say why the response has no score."""
    (doc,) = make_docs(PEOPLE_MERGED)

    record = AMBIGBIO.unscored_record(doc, [PEOPLE_MERGED], "the judge failed: gone")

    assert record["unscored"] == "the judge failed: gone"
    assert record["facts"] == []


def test_an_abstention_needs_no_judge():
    """Rules recognise an abstention, so a failed judge does not leave it unscored."""
    (doc,) = make_docs("I'm sorry.")

    record = AMBIGBIO.unscored_record(doc, ["I'm sorry."], "the judge failed: gone")

    assert record["unscored"] is None


def test_unjudged_response_has_bounds_from_0_to_1():
    """The judge failed, so the summary has no score, and bounds that exclude nothing."""
    (doc,) = make_docs(PEOPLE_MERGED)
    record = AMBIGBIO.unscored_record(doc, [PEOPLE_MERGED], "the judge failed: gone")

    summary = AMBIGBIO.summarise([{}], [record])

    assert summary["factscore"] == {
        "value": None,
        "stderr": None,
        "interval": None,
        "rows": 0,
        "worst": 0,
        "best": 1,
    }


@pytest.mark.parametrize(
    ("doc", "responses", "message"),
    [
        pytest.param({}, [""], "index is missing", id="document without fields"),
        pytest.param(make_docs("")[0], [], "found 0 responses", id="no response"),
    ],
)
def test_unjudgeable_document_has_a_problem(doc, responses, message):
    """The message tells a user what the line of a samples file lacks."""
    assert message in AMBIGBIO.document_problem(doc, responses)


def with_name(name, biography):
    """Return the biography as one of somebody with this name."""
    return replace(biography, generation=replace(biography.generation, name=name))


@pytest.fixture
def summary_of_names():
    """Return the summary of responses about three names.

    Two responses about "a" have the FActScores 3/4 and 1/4, and one about "b" has 1. Of the two
    about "c", one is an abstention, and the other cannot be decomposed.
    """
    one_group = [(0, 1, 2, 3)]
    undecomposed = replace(
        AMBIGBIO.prepare(make_response(PEOPLE_MERGED)),
        problem="not decomposed: sentence 1 of 3: no line '- fact' and more of the same words",
    )
    biographies = [
        with_name("a", make_biography(groups=one_group, verdicts=["+", "+", "+", "-"])),
        with_name("a", make_biography(groups=one_group, verdicts=["+", "-", "-", "-"])),
        with_name("b", make_biography(groups=one_group, verdicts=["+", "+", "+", "+"])),
        with_name("c", AMBIGBIO.prepare(make_response("I'm sorry."))),
        with_name("c", undecomposed),
    ]
    records = [AMBIGBIO.make_record(biography) for biography in biographies]
    return AMBIGBIO.summarise([{}] * len(records), records)


def test_factscore_is_the_mean_over_scored_responses(summary_of_names):
    """Three responses have scores. An abstention and one that cannot be judged do not count."""
    assert summary_of_names["factscore"]["value"] == pytest.approx((3 / 4 + 1 / 4 + 1) / 3)


def test_the_interval_of_factscore_is_clustered_by_name(summary_of_names):
    """Responses about one name share its difficulty, so each name counts as one observation."""
    interval = summary_of_names["factscore"]["interval"]

    assert interval == mean_interval([0.75, 0.25, 1.0], ["a", "a", "b"])


def test_factscore_bounds_include_undecomposed_responses(summary_of_names):
    """A fourth response that nobody could judge might have a FActScore of 0 or of 1."""
    sum_of_scores = 3 / 4 + 1 / 4 + 1

    assert summary_of_names["factscore"]["worst"] == pytest.approx((sum_of_scores + 0) / 4)
    assert summary_of_names["factscore"]["best"] == pytest.approx((sum_of_scores + 1) / 4)
    assert summary_of_names["unscored"] == {"not decomposed": 1}


def test_respond_ratio_is_the_share_of_non_abstentions(summary_of_names):
    """One of five responses is an apology. The one that cannot be decomposed is a response too."""
    assert summary_of_names["respond_ratio"]["value"] == pytest.approx(4 / 5)
