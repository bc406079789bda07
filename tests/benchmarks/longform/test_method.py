"""The method of long-form factuality with a judge behind a server."""

import json
import re
from types import SimpleNamespace

import pytest

from judges.judge import Judge
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.longform.benchmark import (
    IndexFinder,
    LongForm,
    note_k,
    strip_markdown,
)
from lm_factuality.benchmarks.longform.metrics import long_form_metrics, missing_scores_reason
from lm_factuality.retrieval.build import build_index, open_index
from tests.conftest import task_result
from tests.judges.server import Act

HARBOUR = "Grayport (Eastmark)"
MINE = "Grayport (Norland)"
PAGES = {
    HARBOUR: "Grayport is a harbour town in Eastmark. It was founded in 1702.",
    MINE: "Grayport is a mining village in Norland. Silver was found there in 1840.",
}
# The facts of each sentence of the response. The first three are true of the harbour, the fourth is
# true of the mine, and the last is irrelevant.
FACTS = {
    "Grayport is a harbour town in Eastmark.": [
        "Grayport is a harbour town.",
        "Grayport is in Eastmark.",
    ],
    "It was founded in 1702.": ["Grayport was founded in 1702."],
    "Silver was found there in 1840.": ["Silver was found in Grayport in 1840."],
    "I hope that this helps!": ["The writer hopes to help."],
}
RESPONSE = " ".join(FACTS)
NUM_FACTS = 5
TELLING_WORDS = ("harbour", "Eastmark", "1702", "1840")
"""A page that has such a word supports the facts with this word."""


def verify(fact, prompt):
    """Verify a fact like a judge who knows the answers, against the passages in the prompt."""
    if "writer" in fact:
        return "irrelevant"
    passages = prompt.split("A language model")[0]
    is_supported = any(word in fact and word in passages for word in TELLING_WORDS)
    return "supported" if is_supported else "not_supported"


def answer_like_a_judge(prompt, attempt):
    """Answer the prompt of any step: decompose, group, verify facts together, or verify one."""
    if "Take the sentence apart" in prompt:
        sentence = prompt.rsplit("Sentence: ", 1)[1]
        return Act(text=json.dumps({"facts": FACTS[sentence]}))
    if '{"groups"' in prompt:
        return Act(text=json.dumps({"groups": [list(range(1, NUM_FACTS + 1))]}))
    if "Facts:\n" in prompt:
        facts = re.findall(r"(?m)^\d+\. (.*)$", prompt.split("Facts:\n")[1])
        verdicts = [
            {"number": number, "reason": "", "verdict": verify(fact, prompt)}
            for number, fact in enumerate(facts, 1)
        ]
        return Act(text=json.dumps({"verdicts": verdicts}))
    fact = re.search(r"(?m)^Fact: (.*)$", prompt)[1]
    reply = {"reason": "r", "verdict": verify(fact, prompt), "probability": None}
    return Act(text=json.dumps(reply))


@pytest.fixture
def open_judge(server, config, tmp_path):
    """Return a function that opens a judge who knows the answers.

    Its keyword arguments are changes of the configuration.
    """
    server.script = answer_like_a_judge

    def open_with(**changes):
        return Judge.open(config(**changes), tmp_path / "answers.sqlite")

    return open_with


def make_text(response=RESPONSE, titles=(HARBOUR, MINE)):
    """Make a response about Grayport, with the pages of these titles as passages."""
    passages = tuple(RetrievedPassage(title, PAGES[title]) for title in titles)
    return GeneratedText("0", "Tell me about Grayport.", "Grayport", response, passages)


def judge_text(judge, method, text):
    """Judge one response with a method."""
    (judged,) = method.judge_texts(judge, [text])
    return judged


def list_outcomes(judged):
    """List the outcomes of each fact, one by the page of each entity."""
    return [[judgement.outcome for judgement in row] for row in judged.matrix]


def list_prompts(server, is_decomposition):
    """List prompts that the server was sent.

    Args:
        server: The server.
        is_decomposition: True for the prompts to decompose sentences, False for all others.
    """
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    return [
        prompt for prompt in prompts if ("Take the sentence apart" in prompt) == is_decomposition
    ]


@pytest.mark.parametrize("verification", ["fact", "page"])
def test_facts_about_one_subject_are_verified_against_its_page(open_judge, verification):
    """A question of the judge is about one fact, or about all facts and a page."""
    with open_judge(verify=verification) as judge:
        judged = judge_text(judge, LongForm(), make_text(titles=[HARBOUR]))

    outcomes = [outcome for (outcome,) in list_outcomes(judged)]  # by the only page
    assert dict(zip([fact.text for fact in judged.facts], outcomes, strict=True)) == {
        "Grayport is a harbour town.": "supported",
        "Grayport is in Eastmark.": "supported",
        "Grayport was founded in 1702.": "supported",
        "Silver was found in Grayport in 1840.": "not_supported",
        "The writer hopes to help.": "irrelevant",
    }
    metrics = long_form_metrics(judged, shares_name=False, k_values=(6,))
    assert metrics["precision"] == 3 / 4  # without the irrelevant fact
    assert metrics["factscore"] == 3 / 5


@pytest.mark.parametrize(
    ("verification", "num_prompts"),
    [
        pytest.param("fact", 5, id="a prompt for each of five facts"),
        pytest.param("page", 1, id="a prompt for the page"),
    ],
)
def test_verification_prompts_include_the_original_prompt(
    open_judge, server, verification, num_prompts
):
    """A fact such as "It is old" can be understood only by the question it answers."""
    with open_judge(verify=verification) as judge:
        judge_text(judge, LongForm(), make_text(titles=[HARBOUR]))

    prompts = list_prompts(server, is_decomposition=False)
    assert len(prompts) == num_prompts
    place = "in its response to this prompt: Tell me about Grayport."
    assert all(place in prompt for prompt in prompts)


@pytest.mark.parametrize("verification", ["fact", "page"])
def test_decomposition_prompts_show_the_preceding_text(open_judge, server, verification):
    """The second sentence says only "It", and means the town of the first."""
    with open_judge(verify=verification) as judge:
        judge_text(judge, LongForm(), make_text(titles=[HARBOUR]))

    context = "Text: Grayport is a harbour town in Eastmark.\nSentence: It was founded"
    assert any(context in prompt for prompt in list_prompts(server, is_decomposition=True))


def test_facts_are_verified_against_each_entity_sharing_the_name(open_judge):
    """The first fact is true of the harbour, the first entity, and the fourth of the mine."""
    with open_judge() as judge:
        judged = judge_text(judge, LongForm(kind="town"), make_text())

    first_fact, _, _, fourth_fact, _ = list_outcomes(judged)
    assert first_fact == ["supported", "not_supported"]
    assert fourth_fact == ["not_supported", "supported"]


def test_merging_two_entities_lowers_d_factscore(open_judge):
    """Of five facts told of one Grayport, three are true of the harbour and one of the mine."""
    with open_judge() as judge:
        judged = judge_text(judge, LongForm(kind="town"), make_text())

    metrics = long_form_metrics(judged, shares_name=True, k_values=(4,))
    assert metrics["factscore"] == 4 / 5
    assert metrics["d_factscore"] == 3 / 5
    assert metrics["num_entities"] == 2
    assert metrics["one_bio_many_entities"] == 1


def test_prompts_about_entities_name_their_kind(open_judge, server):
    """The judge must know what to tell apart. The response has five facts."""
    with open_judge() as judge:
        judge_text(judge, LongForm(kind="town"), make_text())

    prompts = list_prompts(server, is_decomposition=False)
    groupings = [prompt for prompt in prompts if "here each of them is a town" in prompt]
    verifications = [prompt for prompt in prompts if "is true of Grayport (Norland)" in prompt]
    assert len(groupings) == 1
    assert len(verifications) == 5
    for prompt in verifications:
        assert "true of another town" in prompt


@pytest.fixture
def index(tmp_path):
    """Return an index of the two pages about a Grayport."""
    rows = [{"id": title, "title": title, "text": text} for title, text in PAGES.items()]
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    build_index(path, tmp_path / "index")
    return open_index(tmp_path / "index")


@pytest.mark.parametrize("verification", ["fact", "page"])
def test_an_index_finds_a_passage_for_each_fact(open_judge, index, verification):
    """Open questions have no page of their own, so evidence is searched for each fact."""
    with open_judge(verify=verification) as judge:
        judged = judge_text(
            judge, LongForm(finder=IndexFinder(index), num_passages=1), make_text(titles=[])
        )

    titles = [judgement.evidence[0].split("\n")[0] for (judgement,) in judged.matrix]
    assert titles[:3] == ["Grayport (Eastmark)"] * 3  # facts about the harbour
    assert titles[3] == "Grayport (Norland)"  # the fact about the silver mine
    assert list_outcomes(judged) == [["supported"]] * 4 + [["irrelevant"]]


@pytest.mark.parametrize(
    ("verification", "num_prompts"),
    [
        pytest.param("fact", 5, id="a prompt for each of five facts"),
        pytest.param("page", 4, id="a prompt for each of four sentences"),
    ],
)
def test_page_verification_with_an_index_asks_once_per_sentence(
    open_judge, server, index, verification, num_prompts
):
    """Facts of one sentence find nearly the same passages, so one prompt costs less."""
    text_without_pages = make_text(titles=[])
    with open_judge(verify=verification) as judge:
        judge_text(judge, LongForm(finder=IndexFinder(index), num_passages=1), text_without_pages)

    assert len(list_prompts(server, is_decomposition=False)) == num_prompts


def test_facts_without_passages_are_unscored(open_judge):
    """Without evidence nobody knows whether they are true."""
    with open_judge() as judge:
        judged = judge_text(judge, LongForm(), make_text(titles=[]))

    for (judgement,) in judged.matrix:
        assert judgement.outcome == "unscored"
        assert judgement.reason == "no evidence"
    assert missing_scores_reason(judged) == "no fact has a verdict"


def test_facts_without_passages_are_not_sent_to_the_judge(open_judge, server):
    """Without passages, the judge could not compare the facts with anything."""
    with open_judge() as judge:
        judge_text(judge, LongForm(), make_text(titles=[]))

    num_sentences = 4
    assert len(list_prompts(server, is_decomposition=True)) == num_sentences
    assert list_prompts(server, is_decomposition=False) == []


def test_a_repeated_fact_counts_once(open_judge):
    """A model could otherwise raise its recall by repeating itself."""
    text = make_text("It was founded in 1702. " * 5, [HARBOUR])
    with open_judge() as judge:
        judged = judge_text(judge, LongForm(), text)

    metrics = long_form_metrics(judged, shares_name=False, k_values=(2,))
    assert len(judged.facts) == 5
    assert metrics["facts_per_response"] == 1
    assert metrics["recall_at_k"] == 1 / 2


def make_doc(text):
    """Make the document of a task of which this text is the response."""
    return {
        "index": text.index,
        "question": text.question,
        "name": text.name,
        "passages": [{"title": passage.title, "text": passage.text} for passage in text.passages],
        "evidence": "documents",
        "topic": "",
    }


@pytest.fixture
def make_row(open_judge):
    """Return a function that makes the row of a judged response.

    Its arguments are the method, and changes of the verdict as somebody may make them in a file.
    """

    def make_changed_row(method, changes):
        doc = make_doc(make_text())
        with open_judge() as judge:
            (record,) = method.judge(judge, [doc], [[RESPONSE]])
        verdict = {**json.loads(json.dumps(record)), **changes}
        return {"doc": doc, "verdict": verdict, "responses": [RESPONSE]}

    return make_changed_row


def find_problem(method, row):
    """Return why a row cannot be scored again or its record is refused, None if all is well."""
    try:
        method.rescore_row(row)
    except ValueError as error:
        return str(error)
    return method.record_problem(row)


@pytest.mark.parametrize(
    "kind",
    [pytest.param("", id="about one subject"), pytest.param("town", id="about towns of one name")],
)
def test_a_record_of_a_judged_response_has_no_problem(make_row, kind):
    """Without this, a check that refuses every record would pass."""
    method = LongForm(kind=kind, k=(8,))

    assert find_problem(method, make_row(method, {})) is None


@pytest.mark.parametrize(
    "kind",
    [pytest.param("", id="about one subject"), pytest.param("town", id="about towns of one name")],
)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sentences": ["Another one."] * 4}, "'sentences' does not follow"),
        ({"links": [None]}, "'links' does not follow"),
        ({"abstained": True}, "'abstained' does not follow"),
    ],
    ids=["sentences", "links", "abstained"],
)
def test_a_record_that_contradicts_its_response_is_a_problem(make_row, kind, changes, problem):
    """A leaderboard computes a record again from its response, and compares the two."""
    method = LongForm(kind=kind)
    row_with_changed_record = make_row(method, changes)

    assert problem in find_problem(method, row_with_changed_record)


@pytest.mark.parametrize(
    ("response", "sentences"),
    [
        pytest.param(
            "## History\n\n**Early days**\n\n- **Founded:** It was founded in 1702.\n* It grew.",
            ["Founded: It was founded in 1702.", "It grew."],
            id="headings and a list",
        ),
        pytest.param(
            "Here are some facts:\n\n1. It is old.\n2) It is `big`.\n---",
            ["It is old.", "It is big."],
            id="numbered list and a rule",
        ),
        pytest.param(
            "It is 2. In 1702 it grew.", ["It is 2.", "In 1702 it grew."], id="number in a text"
        ),
        pytest.param("> It is quoted.", ["It is quoted."], id="quotation"),
        pytest.param("*It* is snake_case.", ["*It* is snake_case."], id="single signs stay"),
    ],
)
def test_sentences_are_found_without_markdown(response, sentences):
    """Marks of Markdown would become part of the facts, and headings are no sentences."""
    prepared = LongForm().prepare(make_text(response))

    without_markdown = strip_markdown(response)
    assert list(prepared.sentences) == sentences
    assert strip_markdown(without_markdown) == without_markdown


@pytest.mark.parametrize(
    ("metadata", "notes"),
    [
        pytest.param({"k": [64, 178]}, ["F1@K and recall@K with K = 64"], id="first K"),
        pytest.param({}, [], id="file of others"),
    ],
)
def test_note_states_the_k_of_the_main_score(metadata, notes):
    """Scores at two values of K cannot be compared."""
    task = task_result("longform", "longform", metadata=metadata)

    assert list(note_k(SimpleNamespace(), task)) == notes
