"""From records to the scores of a set, and the benchmark with the lexical judge."""

import json
from dataclasses import replace

import pytest

from judges.backends.lexical import LexicalBackend
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.store import AnswerStore
from judges.templates import Prompts
from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, generation_to_doc
from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import (
    GeneratedText,
    RetrievedPassage,
)
from lm_factuality.scores.statistics import Outcome, clustered_stderr, score_interval
from tests.benchmarks.biographies.test_link import judged

PAINTER = RetrievedPassage(
    "Ada Lind (painter)",
    "Ada Lind (3 May 1900 – 1 June 1980) was a painter. She was born in Tarrow and taught at the Harbour School.",
)
PILOT = RetrievedPassage(
    "Ada Lind (pilot)",
    "Ada Lind (born 1955) is a pilot. She flew mail to the northern islands and founded a flying school in Sill.",
)
MERGED = "Ada Lind was born in Tarrow [1]. She taught at the Harbour School [1]. She flew mail to the northern islands [2]."
APART = "Ada Lind was a painter [1]. She taught at the Harbour School [1]. Another Ada Lind is a pilot [2]. She founded a flying school in Sill [2]."


def respond(output, index="0"):
    return GeneratedText(index, "Tell me a bio of Ada Lind", "Ada Lind", output, (PAINTER, PILOT))


@pytest.fixture
def lexical(tmp_path):
    config = JudgeConfig("lexical", "lexical")
    with Judge(
        config, LexicalBackend(config), AnswerStore(tmp_path / "answers.sqlite"), Prompts()
    ) as opened:
        yield opened


def run(judge, outputs, benchmark=AMBIGBIO):
    generations = [respond(output, str(number)) for number, output in enumerate(outputs)]
    docs, responses = (
        [generation_to_doc(each) for each in generations],
        [[each.output] for each in generations],
    )
    assert all(
        benchmark.document_problem(doc, texts) is None
        for doc, texts in zip(docs, responses, strict=True)
    )
    return docs, benchmark.judge(judge, docs, responses)


def test_the_lexical_judge_tells_a_merged_life_from_two(lexical):
    docs, records = run(
        lexical, [MERGED, APART, "I'm sorry, I cannot tell which Ada Lind is meant."]
    )
    merged, apart, declined = (json.loads(json.dumps(record)) for record in records)
    assert merged["scores"]["factscore"] == 1
    assert merged["scores"]["d_factscore"] == pytest.approx(2 / 3)
    assert merged["scores"]["kind"] == "one_bio_many_entities"
    assert (apart["scores"]["factscore"], apart["scores"]["d_factscore"]) == (1, 1)
    assert apart["links"] == [0, 1]
    assert (declined["abstained"], declined["scores"], declined["unscored"]) == (True, None, None)

    summary = AMBIGBIO.summarise(docs, records)
    assert summary["factscore"]["value"] == 1
    assert summary["d_factscore"]["value"] == pytest.approx(5 / 6)
    assert summary["difference"]["value"] == pytest.approx(1 / 6)
    assert summary["respond_ratio"]["value"] == pytest.approx(2 / 3)
    assert (summary["num_biographies"]["value"], summary["num_entities"]["value"]) == (1.5, 2)
    assert summary["one_bio_many_entities"]["value"] == 0.5
    assert summary["settings"] == {
        "knowledge": DOCUMENTS,
        "knowledge_identity": None,
        "linking": "greedy",
        "facts": "standalone",
        "protocol": "paper",
    }
    json.dumps(summary, allow_nan=False)
    columns, rows, notes = AMBIGBIO.summary_table(summary)
    assert {len(row) for row in rows} == {len(columns)}
    assert {"Responses: 3.", "Abstained: 1."} <= set(notes)


def test_a_plan_sends_nothing_and_names_each_step(lexical):
    generations = [respond(MERGED), respond(APART)]
    docs, responses = (
        [generation_to_doc(each) for each in generations],
        [[each.output] for each in generations],
    )
    plan = AMBIGBIO.plan_questions(lexical, docs, responses)
    assert [(step, each.stored + each.to_send) for step, each in plan] == [
        ("decomposing", 7),
        ("grouping", 2),
        ("verifying", 12),  # two pairs of the same words
    ]
    assert sum(each.stored for _, each in plan) == 0
    AMBIGBIO.judge(lexical, docs, responses)
    assert sum(each.to_send for _, each in AMBIGBIO.plan_questions(lexical, docs, responses)) == 0


def test_a_plan_by_page_is_bound_by_what_asking_singly_takes(config, tmp_path):
    calls = []
    for verify in ("fact", "page"):
        with Judge.open(config(verify=verify), tmp_path / "answers.sqlite") as judge:
            plans = dict(
                AMBIGBIO.plan_questions(judge, [generation_to_doc(respond(MERGED))], [[MERGED]])
            )
        calls.append(plans["verifying"].estimate_with_retries.calls)
    assert calls == [12, 16]  # three facts by two pages, asked twice


def test_settings_reach_the_results(lexical):
    benchmark = AmbigBio(linking="hungarian", protocol="code", knowledge="wiki.sqlite")
    docs, records = run(lexical, [APART], benchmark)
    assert records[0]["groups"] == [[1], [2, 3]]
    summary = benchmark.summarise(docs, records)
    assert summary["settings"] == benchmark.recorded_settings
    assert AMBIGBIO.summarise([], [])["choices"] != summary["choices"]


@pytest.mark.parametrize(
    ("rows", "difference"),
    [
        (("+-", "+-", "-+", "-?"), 1 / 3),  # the last has a verdict by its own page only
        (("+-", "+-", "?+", "-+"), 1 / 3),  # and here the third by the other page only
        (("??", "??"), None),
        (("+-", "+-", "--"), 0),
    ],
)
def test_the_difference_is_over_facts_with_a_verdict_in_both_scores(rows, difference):
    found = score_biography(judged((tuple(range(len(rows))),), *rows))["difference"]
    assert found == (None if difference is None else pytest.approx(difference))


def test_a_judge_that_is_down_leaves_records_with_the_reason():
    record = AMBIGBIO.unscored_record(
        generation_to_doc(respond(MERGED)), [MERGED], "the judge failed: gone"
    )
    assert (record["unscored"], record["facts"]) == ("the judge failed: gone", [])
    summary = AMBIGBIO.summarise([{}], [record])
    assert summary["factscore"] == {
        "value": None,
        "stderr": None,
        "interval": None,
        "rows": 0,
        "worst": 0,
        "best": 1,
    }
    assert (
        AMBIGBIO.unscored_record(generation_to_doc(respond("Sorry.")), ["I'm sorry."], "gone")[
            "unscored"
        ]
        is None
    )


@pytest.mark.parametrize(
    ("doc", "responses", "message"),
    [({}, [""], "index is missing"), (generation_to_doc(respond("")), [], "found 0 responses")],
)
def test_documents_that_cannot_be_judged(doc, responses, message):
    assert message in AMBIGBIO.document_problem(doc, responses)


def test_means_are_over_responses_and_intervals_over_names():
    responses = [
        named("a", judged(((0, 1, 2, 3),), "+", "+", "+", "-")),
        named("a", judged(((0, 1, 2, 3),), "+", "-", "-", "-")),
        named("b", judged(((0, 1, 2, 3),), *"++++")),
        named("c", AMBIGBIO.prepare(respond("I'm sorry."))),
    ]
    reason = "not decomposed: sentence 1 of 3: no line '- fact' and more of the same words"
    responses.append(replace(named("c", AMBIGBIO.prepare(respond(MERGED))), problem=reason))
    summary = AMBIGBIO.summarise(
        [{}] * len(responses), [AMBIGBIO.make_record(response) for response in responses]
    )
    assert summary["factscore"]["value"] == pytest.approx(2 / 3)
    stderr = clustered_stderr([Outcome(0.75, "a"), Outcome(0.25, "a"), Outcome(1, "b")])
    assert summary["factscore"]["interval"] == score_interval(2 / 3, stderr, 0, 1, 3)
    assert (summary["factscore"]["worst"], summary["factscore"]["best"]) == (
        pytest.approx(2 / 4),
        pytest.approx(3 / 4),
    )
    assert summary["respond_ratio"]["value"] == pytest.approx(4 / 5)
    assert summary["unscored"] == {"not decomposed": 1}


def named(name, biography):
    return replace(biography, generation=replace(biography.generation, name=name))
