"""What responses were judged against, and whether pages contradict facts or do not state them."""

import itertools
import json
from dataclasses import replace

import pytest

from judges.answers import Answer
from judges.config import load_judge_config
from judges.judge import Judge
from judges.typed import read_reply
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.matrix import FactReply, reply_to_judgement
from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import (
    GeneratedText,
    Judgement,
    RetrievedPassage,
    biography_from_record,
    biography_to_record,
)
from lm_factuality.benchmarks.biographies.viewer import fact_statuses
from tests.benchmarks.biographies.recorded import RecordedJudge, make_biography

JUDGEMENTS = {
    "+": Judgement("supported"),
    "x": Judgement("not_supported", is_contradicted=True),
    "o": Judgement("not_supported", is_contradicted=False),
    "-": Judgement("not_supported"),
    "?": Judgement("unscored"),
}
PASSAGES = (
    RetrievedPassage("Ada Lind (painter)", "Ada Lind was a painter. She was born in Oslo in 1901."),
    RetrievedPassage("Ada Lind (sailor)", "Ada Lind was a sailor. She was born in Bergen in 1920."),
)


def make_judged(groups, verdicts):
    """Make a judged biography whose facts have a sign of `JUDGEMENTS` for each of the entities."""
    judged = make_biography(groups=groups, verdicts=["+" * len(signs) for signs in verdicts])
    matrix = tuple(tuple(JUDGEMENTS[sign] for sign in signs) for signs in verdicts)
    return replace(judged, matrix=matrix, links=(0,) * len(groups))


def make_text(output):
    """Make a response with two passages."""
    return GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", output, PASSAGES)


@pytest.mark.parametrize(
    ("word", "is_contradicted"),
    [("contradicted", True), ("not_found", False), ("not_supported", None), ("irrelevant", None)],
)
def test_a_reply_says_whether_the_page_contradicts_the_fact(word, is_contradicted):
    """A page that says nothing of a fact is no evidence that the fact is wrong."""
    text = json.dumps({"reason": "The page says so.", "verdict": word})

    judgement = reply_to_judgement(read_reply(Answer(text, "stop"), FactReply, {}))

    assert judgement.is_contradicted is is_contradicted
    assert judgement.outcome == ("irrelevant" if word == "irrelevant" else "not_supported")


@pytest.mark.parametrize(
    ("verdicts", "contradicted", "no_evidence"),
    [
        pytest.param(["+o", "xo", "oo", "oo"], 1 / 4, 2 / 4, id="verdicts by the linked page"),
        pytest.param(["ox", "oo"], 0 / 2, 2 / 2, id="a namesake's page contradicts nothing"),
        pytest.param(["x+", "o+"], 1 / 2, 0 / 2, id="a fact of a namesake can be contradicted"),
        pytest.param(["+o", "oo", "oo", "?o"], 0 / 3, 2 / 3, id="an unscored fact is left out"),
        pytest.param(["+o", "xo", "??"], 1 / 2, 0 / 2, id="no fact lacks evidence"),
    ],
)
def test_summary_has_shares_of_contradicted_and_unfound_facts(verdicts, contradicted, no_evidence):
    """Each fact has a sign for the linked page, and one for a namesake's page.

    "+" stands for supported, "x" for contradicted, "o" for not found, and "?" for no verdict.
    """
    one_group = tuple(range(len(verdicts)))

    scores = score_biography(make_judged(groups=[one_group], verdicts=verdicts))

    assert scores["contradicted"] == contradicted
    assert scores["no_evidence"] == no_evidence


def test_judge_without_contradiction_verdicts_gives_no_shares():
    """The shares would be too low, as nobody knows whether a page contradicts the second fact."""
    biography = make_judged(
        groups=[(0, 1)],
        verdicts=[
            "+o",  # supported by the first page, not found on the second
            "--",  # not supported by either page
        ],
    )

    scores = score_biography(biography)

    assert "contradicted" not in scores
    assert "no_evidence" not in scores


def test_biography_of_a_support_only_judge_gives_no_shares():
    """All facts are supported, so their verdicts do not show what the judge can tell."""
    biography = make_judged(groups=[(0, 1)], verdicts=["++", "++"])

    scores = score_biography(replace(biography, tells_contradictions=False))

    assert "contradicted" not in scores


def test_contradiction_judge_gives_zero_shares_if_all_facts_are_supported():
    """No value would look as if the judge could not tell contradictions."""
    scores = score_biography(make_judged(groups=[(0, 1)], verdicts=["++", "++"]))

    assert scores["contradicted"] == 0


def test_run_of_a_support_only_judge_explains_missing_scores():
    """A judge by log-probabilities says only True or False of each fact."""
    text = make_text("Ada Lind was a painter [1].")
    judge = RecordedJudge({"Ada Lind was a painter.": ["Ada Lind was a painter."]}, set())
    judge.config = replace(judge.config, verdicts="logprobs")
    judge.ask = lambda name, subjects, *rest, **options: [[Answer("True", "stop")]] * len(subjects)
    doc = generation_to_doc(text)

    (record,) = AmbigBio().judge(judge, [doc], [[text.output]])

    summary = AmbigBio().summarise([doc], [record])
    assert "contradicted" not in record["scores"]
    assert "contradicted and no_evidence have no value" in summary["contradictions"]


def test_a_fact_is_contradicted_only_by_the_linked_page():
    """The first of two pages is linked, and the second is about a namesake."""
    judged = make_judged(
        groups=[(0, 1, 2)],
        verdicts=[
            "+o",  # supported by the linked page, not found on the other
            "xo",  # contradicted by the linked page
            "ox",  # contradicted by the other page alone
        ],
    )

    assert fact_statuses(judged) == ["supported", "contradicted", "not_supported"]


def test_records_of_earlier_versions_are_written_unchanged():
    """Hashes of published records must not change."""
    record = biography_to_record(make_judged(groups=[(0,)], verdicts=["+-"]))

    assert "is_contradicted" not in record["matrix"][0][0]
    assert "judged_against" not in record
    assert biography_to_record(biography_from_record(record)) == record


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        pytest.param("She was born in Oslo [1, 5].", "cited passages", id="with old numbers"),
        pytest.param("She was [1] born in Oslo [2].", "cited passages", id="all are cited"),
        pytest.param("She was born in Oslo [1].", "retrieved passages", id="one is not cited"),
    ],
)
def test_record_names_the_passages_used_as_evidence(output, kind):
    """A file of generations may hold only the passages that a text cites."""
    assert AmbigBio().prepare(make_text(output)).judged_against == kind


def test_response_without_passages_records_no_passages_as_evidence():
    """A reader must see that its facts had nothing to be verified by."""
    text = replace(make_text("She was born in Oslo."), passages=())

    assert AmbigBio().prepare(text).judged_against == "no passages"


@pytest.fixture
def judged_by_rules(tmp_path):
    """The document, the responses and the record of a response that the offline judge marked."""
    text = make_text("Ada Lind was a painter [1]. Ada Lind was born in Oslo in 1902 [1][2].")
    doc = generation_to_doc(text)
    with Judge.open(load_judge_config("lexical"), tmp_path / "store.db") as judge:
        (record,) = AmbigBio().judge(judge, [doc], [(text.output,)])
    return doc, (text.output,), record


def test_offline_judge_recognises_contradicted_facts(judged_by_rules):
    """The response says 1902, and the painter's page says 1901."""
    _, _, record = judged_by_rules

    judgements = list(itertools.chain.from_iterable(record["matrix"]))
    assert any(judgement.get("is_contradicted") for judgement in judgements)
    assert record["scores"]["contradicted"] > 0


def test_record_can_be_checked_without_the_knowledge_source(judged_by_rules):
    """Whoever checks a published run need not have the pages that were used."""
    doc, responses, record = judged_by_rules
    row = {"doc": doc, "responses": responses, "verdict": {**record, "judged_against": "pages"}}

    assert AmbigBio().record_problem(row) is None


def test_record_of_an_earlier_version_can_be_checked(judged_by_rules):
    """Records once lacked ``judged_against``, and leaderboards still accept such files."""
    doc, responses, record = judged_by_rules
    old_record = {key: value for key, value in record.items() if key != "judged_against"}
    row = {"doc": doc, "responses": responses, "verdict": old_record}

    assert AmbigBio().record_problem(row) is None


def test_results_count_responses_by_kind_of_evidence(judged_by_rules):
    """Scores against cited passages and against whole pages cannot be compared."""
    doc, _, record = judged_by_rules

    summary = AmbigBio().summarise([doc], [record])

    assert summary["judged_against"] == {"cited passages": 1}
    assert summary["evidence"].startswith("Facts were held against the passages")
