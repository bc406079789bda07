"""The method with a judge behind a server: any subject, an index, and entities that share a
name."""

from __future__ import annotations

import json
import re

import pytest

from judges.judge import Judge
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.longform.benchmark import LongForm, strip_markdown
from lm_factuality.benchmarks.longform.metrics import long_form_metrics, missing_scores_reason
from lm_factuality.retrieval.build import build_index, open_index
from tests.judges.server import Act

HARBOUR, MINE = "Grayport (Eastmark)", "Grayport (Norland)"
PAGES = {
    HARBOUR: "Grayport is a harbour town in Eastmark. It was founded in 1702.",
    MINE: "Grayport is a mining village in Norland. Silver was found there in 1840.",
}
RESPONSE = "Grayport is a harbour town in Eastmark. It was founded in 1702. Silver was found there in 1840. I hope that this helps!"
FACTS = {
    "Grayport is a harbour town in Eastmark.": [
        "Grayport is a harbour town.",
        "Grayport is in Eastmark.",
    ],
    "It was founded in 1702.": ["Grayport was founded in 1702."],
    "Silver was found there in 1840.": ["Silver was found in Grayport in 1840."],
    "I hope that this helps!": ["The writer hopes to help."],
}
TRUE_OF = {HARBOUR: ("harbour", "Eastmark", "1702"), MINE: ("1840",)}


def verdict(fact: str, prompt: str) -> str:
    if "writer" in fact:
        return "irrelevant"
    passages = prompt.split("A language model")[0]
    is_true = any(word in fact and word in passages for words in TRUE_OF.values() for word in words)
    return "supported" if is_true else "not_supported"


def answer(prompt: str, attempt: int) -> Act:
    """What a judge says that knows the answers above."""
    if "Take the sentence apart" in prompt:
        sentence = prompt.rsplit("Sentence: ", 1)[1]
        return Act(text=json.dumps({"facts": FACTS[sentence]}))
    if '{"groups"' in prompt:
        return Act(text=json.dumps({"groups": [[1, 2, 3, 4, 5]]}))
    if "Facts:\n" in prompt:
        listed = re.findall(r"(?m)^\d+\. (.*)$", prompt.split("Facts:\n")[1])
        said = [
            {"number": number, "reason": "", "verdict": verdict(fact, prompt)}
            for number, fact in enumerate(listed, 1)
        ]
        return Act(text=json.dumps({"verdicts": said}))
    fact = re.search(r"(?m)^Fact: (.*)$", prompt)[1]
    return Act(
        text=json.dumps({"reason": "r", "verdict": verdict(fact, prompt), "probability": None})
    )


@pytest.fixture
def judge(server, config, tmp_path):
    server.script = answer

    def opened(**changes) -> Judge:
        return Judge.open(config(**changes), tmp_path / "answers.sqlite")

    return opened


def generation(response: str = RESPONSE, titles=(HARBOUR, MINE)) -> GeneratedText:
    passages = tuple(RetrievedPassage(title, PAGES[title]) for title in titles)
    return GeneratedText("0", "Tell me about Grayport.", "Grayport", response, passages)


def outcomes(judged) -> list[list[str]]:
    return [[cell.outcome for cell in row] for row in judged.matrix]


@pytest.mark.parametrize("verify", ["fact", "page"])
def test_one_subject(judge, server, verify):
    with judge(verify=verify) as opened:
        (judged,) = LongForm().judge_texts(opened, [generation(titles=[HARBOUR])])
    assert outcomes(judged) == [
        ["supported"],
        ["supported"],
        ["supported"],
        ["not_supported"],
        ["irrelevant"],
    ]
    found = long_form_metrics(judged, "", (6,))
    assert (found["precision"], found["factscore"]) == (3 / 4, 3 / 5)
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert sum("Take the sentence apart" not in prompt for prompt in prompts) == (
        5 if verify == "fact" else 1
    )
    assert all(
        "in its response to this prompt: Tell me about Grayport." in prompt
        for prompt in prompts[4:]
    )
    assert any(
        "Text: Grayport is a harbour town in Eastmark.\nSentence: It was founded" in prompt
        for prompt in prompts[:4]
    )


def test_entities_that_share_a_name(judge, server):
    """Every fact is true of some Grayport, and the text makes one of both."""
    with judge() as opened:
        (judged,) = LongForm(kind="town").judge_texts(opened, [generation()])
    assert outcomes(judged)[0] == ["supported", "not_supported"]
    assert outcomes(judged)[3] == ["not_supported", "supported"]
    found = long_form_metrics(judged, "town", (4,))
    assert (found["factscore"], found["d_factscore"]) == (4 / 5, 3 / 5)
    assert (found["num_entities"], found["one_bio_many_entities"]) == (2, 1)
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert sum("here each of them is a town" in prompt for prompt in prompts) == 1
    assert (
        sum(
            f"is true of {MINE}" in prompt and "true of another town" in prompt
            for prompt in prompts
        )
        == 5
    )


@pytest.fixture
def index(tmp_path):
    rows = [{"id": title, "title": title, "text": text} for title, text in PAGES.items()]
    (tmp_path / "pages.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    build_index(tmp_path / "pages.jsonl", tmp_path / "index")
    return open_index(tmp_path / "index")


@pytest.mark.parametrize("verify", ["fact", "page"])
def test_an_index_finds_the_passages_of_each_fact(judge, server, index, verify):
    with judge(verify=verify) as opened:
        (judged,) = LongForm(index=index, passages=1).judge_texts(opened, [generation(titles=[])])
    assert [row[0].evidence[0].split("\n")[0] for row in judged.matrix][:4] == [
        HARBOUR,
        HARBOUR,
        HARBOUR,
        MINE,
    ]
    assert [each for (each,) in outcomes(judged)] == ["supported"] * 4 + ["irrelevant"]
    asked = [
        each
        for each in server.bodies
        if "Take the sentence apart" not in each["messages"][-1]["content"]
    ]
    assert len(asked) == (5 if verify == "fact" else 4)  # by sentence, which has its own passages


def test_without_passages_nobody_is_asked(judge, server):
    with judge() as opened:
        (judged,) = LongForm().judge_texts(opened, [generation(titles=[])])
    assert {(cell.outcome, cell.reason) for row in judged.matrix for cell in row} == {
        ("unscored", "no evidence")
    }
    assert len(server.bodies) == len(FACTS)
    assert missing_scores_reason(judged) == "no fact has a verdict"


def test_what_is_said_twice_is_one_fact(judge):
    with judge() as opened:
        (judged,) = LongForm().judge_texts(
            opened, [generation("It was founded in 1702. " * 5, [HARBOUR])]
        )
    assert (len(judged.facts), long_form_metrics(judged, "", (2,))["facts_per_response"]) == (5, 1)
    assert long_form_metrics(judged, "", (2,))["recall_at_k"] == 0.5


def doc_of(given: GeneratedText) -> dict:
    passages = [{"title": each.title, "text": each.text} for each in given.passages]
    about = {
        "index": given.index,
        "question": given.question,
        "name": given.name,
        "passages": passages,
    }
    return {**about, "evidence": "documents", "topic": ""}


@pytest.mark.parametrize("kind", ["", "town"])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"sentences": ["Another one."] * 4}, "'sentences' does not follow"),
        ({"links": [None]}, "'links' does not follow"),
        ({"abstained": True}, "'abstained' does not follow"),
    ],
)
def test_a_record_that_does_not_follow_is_unfounded(judge, kind, change, problem):
    doc = doc_of(generation(titles=(HARBOUR, MINE)))
    method = LongForm(kind=kind, k=(8,))
    with judge() as opened:
        (record,) = method.judge(opened, [doc], [[RESPONSE]])
    record = json.loads(json.dumps(record)) | change
    row = {"doc": doc, "verdict": record, "responses": [RESPONSE]}
    try:
        method.rescore_row(row)
        found = method.record_problem(row)
    except ValueError as error:
        found = str(error)
    assert found == problem or (problem is not None and problem in str(found)), found


@pytest.mark.parametrize(
    ("response", "sentences"),
    [
        (
            "## History\n\n**Early days**\n\n- **Founded:** It was founded in 1702.\n* It grew.",
            ["Founded: It was founded in 1702.", "It grew."],
        ),
        (
            "Here are some facts:\n\n1. It is old.\n2) It is `big`.\n---",
            ["It is old.", "It is big."],
        ),
        ("It is 2. In 1702 it grew.", ["It is 2.", "In 1702 it grew."]),
        ("> It is quoted.", ["It is quoted."]),
        ("*It* is snake_case.", ["*It* is snake_case."]),
    ],
)
def test_sentences_are_without_markdown(response, sentences):
    assert list(LongForm().prepare(generation(response)).sentences) == sentences
    assert strip_markdown(strip_markdown(response)) == strip_markdown(response)
