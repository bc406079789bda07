"""The joint method: one question takes a response apart, and one verifies its facts by page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges.config import load_judge_config
from judges.judge import Judge
from judges.typed import json_schema_of, schema_to_send
from lm_factuality.benchmarks.biographies import joint, matrix
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.joint import MAX_WORDS_PER_QUESTION, split_into_parts
from lm_factuality.benchmarks.biographies.matrix import (
    PAGES_PROMPT,
    FactReply,
    FactsOfPages,
    problem_with_pages,
)
from lm_factuality.benchmarks.biographies.method import NOT_ASKED, AmbigBio
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.longform.benchmark import LongForm
from lm_factuality.ground.errors import ConfigError
from tests.benchmarks.biographies.recorded import PromptingJudge, make_generation

PROMPTS = Path(joint.__file__).with_name("prompts")
DOCS = Path(__file__).parents[3] / "docs"
JOINT = AmbigBio(method="joint", facts="as_written")
JUDGE = "Tomas Reed (judge)"
CYCLIST = "Tomas Reed (cyclist)"
REED = make_generation(
    "Tomas Reed",
    "Tomas Reed was a judge in Eastmark [1]. Another Tomas Reed won the Round of the Lakes [2]. "
    "He was born in Sill [2].",
    [JUDGE, CYCLIST],
)
REED_REPLY = {
    "reason": "Another begins the second.",
    "individuals": [
        {"number": 1, "who": "judge", "reason": "a judge", "page": 1},
        {"number": 2, "who": "cyclist", "reason": "a cyclist", "page": 2},
    ],
    "facts": [
        {"sentence": 1, "fact": "Tomas Reed was a judge.", "individual": 1},
        {"sentence": 1, "fact": "Tomas Reed was in Eastmark.", "individual": 1},
        {"sentence": 2, "fact": "Tomas Reed won the Round of the Lakes.", "individual": 2},
        {"sentence": 3, "fact": "He was born in Sill.", "individual": 2},
    ],
}


class ScriptedJudge(PromptingJudge):
    """A judge that gives the replies of a script, and knows which facts each page supports.

    Args:
        replies: The replies to the joint questions, in order, as objects or as texts.
        supported: Pairs of a fact and the title of a page that supports it. If None, the script has
            the replies to questions about pages, too.
    """

    def __init__(self, replies, supported=()):
        """Set the script."""
        super().__init__()
        self._replies = iter(replies)
        self._supported = supported

    def _answer(self, prompt_name, subject):
        """Return the text that the script or the known pages give for a question."""
        content = self._verify(subject) if self._knows(subject) else next(self._replies)
        return content if isinstance(content, str) else json.dumps(content)

    def _knows(self, subject):
        """Return whether the pages that the judge knows answer a question."""
        return "claims" in subject and self._supported is not None

    def _verify(self, subject):
        """Return the verdicts on all claims of a question about one page or several."""
        pages = subject.get("pages") or [{"title": subject["entity"]}]
        verdicts = []
        for number, claim in enumerate(subject["claims"], 1):
            supporting = [
                page
                for page, content in enumerate(pages, 1)
                if (claim, content["title"]) in self._supported
            ]
            own = [
                page for page, content in enumerate(pages, 1) if number in content.get("facts", ())
            ]
            decides = set(own or supporting) & set(supporting)
            others = [page for page in supporting if page not in own]
            verdict = {
                "number": number,
                "reason": "as scripted",
                "verdict": "supported" if decides else "not_found",
            }
            if "pages" in subject:
                verdict["page"] = next(iter(others), None)
            verdicts.append(verdict)
        return {"verdicts": verdicts}


def judge_text(judge, text=REED, method=JOINT):
    """Judge one response."""
    (judged,) = method.judge_texts(judge, [text])
    return judged


def test_a_reply_gives_facts_groups_and_links():
    judged = judge_text(ScriptedJudge([REED_REPLY]))

    assert [fact.sentence for fact in judged.facts] == [0, 0, 1, 2]
    assert judged.groups == ((0, 1), (2, 3))
    assert judged.links == (0, 1)


SUPPORTED = {
    ("Tomas Reed was a judge.", JUDGE),
    ("Tomas Reed was in Eastmark.", JUDGE),
    ("Tomas Reed won the Round of the Lakes.", CYCLIST),
    ("He was born in Sill.", JUDGE),
}


def test_one_question_shows_each_page_with_the_facts_of_its_own_individual():
    judge = ScriptedJudge([REED_REPLY], SUPPORTED)

    judge_text(judge)

    (prompt,) = [prompt for name, prompt in judge.calls if name == PAGES_PROMPT]
    first_page, second_page = prompt.split("Page 1: ")[1].split("Page 2: ")
    assert "2. Tomas Reed was in Eastmark." in first_page
    assert "4. He was born in Sill." in second_page


def test_a_fact_that_another_page_supports_counts_for_factscore_alone():
    judge = ScriptedJudge([REED_REPLY], SUPPORTED)

    judged = judge_text(judge)

    scores = score_biography(judged)
    assert judged.matrix[0][1] == NOT_ASKED
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == 0.75


def test_facts_of_no_page_are_asked_against_all_pages_in_the_same_question():
    reply = json.loads(json.dumps(REED_REPLY))
    reply["individuals"][1]["page"] = None
    judge = ScriptedJudge([reply], SUPPORTED)

    judged = judge_text(judge)

    first, _ = [prompt for name, prompt in judge.calls if name == PAGES_PROMPT]
    assert "4. He was born in Sill." in first.split("Facts of no page:")[1]
    assert judged.matrix[3][0].outcome == "supported"


def test_pages_are_asked_one_by_one_if_they_do_not_fit_into_a_question(monkeypatch):
    monkeypatch.setattr(matrix, "MAX_WORDS_OF_PAGES", 5)
    judge = ScriptedJudge([REED_REPLY], SUPPORTED)

    judged = judge_text(judge)

    prompts = [prompt for name, prompt in judge.calls if name == PAGES_PROMPT]
    assert [prompt.count("\nPage ") for prompt in prompts] == [1, 1, 1]
    assert "Facts of no page:\n1. He was born in Sill." in prompts[2]
    assert score_biography(judged)["d_factscore"] == 0.75
    assert score_biography(judged)["factscore"] == 1


def test_a_fact_of_two_individuals_is_judged_by_the_pages_of_both():
    reply = json.loads(json.dumps(REED_REPLY))
    reply["facts"][3]["fact"] = reply["facts"][0]["fact"]
    supported = {("Tomas Reed was a judge.", JUDGE)}

    judged = judge_text(ScriptedJudge([reply], supported))

    assert [judgement.outcome for judgement in judged.matrix[3]] == ["supported", "not_supported"]


def test_facts_that_a_reply_leaves_out_are_asked_singly():
    verdict = {"number": 1, "reason": "", "verdict": "supported", "page": None}
    single = {"reason": "", "verdict": "supported", "probability": None}
    replies = [REED_REPLY, {"verdicts": [verdict]}, {"verdicts": []}, single, single, single]
    judge = ScriptedJudge(replies, supported=None)

    judged = judge_text(judge)

    assert [name for name, _ in judge.calls].count("biographies/verify") == 3
    assert score_biography(judged)["d_factscore"] == 1


@pytest.mark.parametrize(
    ("prompt", "reply_type"), [("verify", FactReply), ("verify_pages", FactsOfPages)]
)
def test_the_schema_of_a_reply_offers_the_verdicts_of_the_prompt(prompt, reply_type):
    template = (PROMPTS / f"{prompt}.jinja").read_text(encoding="utf-8")
    offered = template.split('"verdict": ')[1].split(", ")[0].rstrip("}").split(" or ")

    schema = schema_to_send(json_schema_of(reply_type))

    fields = schema["$defs"]["NumberedFactOfPages"] if "$defs" in schema else schema
    assert fields["properties"]["verdict"]["enum"] == [word.strip('"') for word in offered]


@pytest.mark.parametrize(
    ("verdict", "page", "problem"),
    [
        pytest.param("not_found", 3, "fact 1 is not_found, with page 3 of 2", id="unknown"),
        pytest.param("not_found", 1, "fact 1 is not_found, with page 1 of 2, its own", id="own"),
        pytest.param("supported", 3, "", id="not needed"),
        pytest.param("contradicted", None, "", id="none"),
    ],
)
def test_a_reply_names_another_page_or_none(verdict, page, problem):
    reply = {"verdicts": [{"number": 1, "reason": "", "verdict": verdict, "page": page}]}
    pages = [{"facts": [1]}, {"facts": []}]
    subject = {"claims": ["He sang."], "pages": pages, "facts_of_no_page": []}

    assert problem_with_pages(FactsOfPages.model_validate(reply), subject) == problem


def test_a_page_that_most_samples_do_not_need_gets_no_verdict_from_the_others():
    fact = {"number": 1, "reason": ""}
    reply = {**REED_REPLY, "individuals": REED_REPLY["individuals"][:1]}
    reply["facts"] = REED_REPLY["facts"][:1]
    samples = [
        {"verdicts": [{**fact, "verdict": "supported", "page": None}]},
        {"verdicts": [{**fact, "verdict": "supported", "page": None}]},
        {"verdicts": [{**fact, "verdict": "not_found", "page": 2}]},
    ]
    judge = ScriptedJudge([reply, *samples], supported=None)
    judge.config = replace(judge.config, samples=3)

    (row,) = judge_text(judge).matrix

    assert row[0].score == 2 / 3
    assert row[1] == NOT_ASKED


def test_questions_follow_the_context_of_the_model():
    paragraph = " ".join(["Ada wrote a poem."] * (MAX_WORDS_PER_QUESTION // 8))
    text = make_generation("Ada", "\n\n".join([paragraph] * 2), ["Ada"])
    part = {**REED_REPLY, "individuals": REED_REPLY["individuals"][:1], "facts": []}
    judge = ScriptedJudge([part, part])
    judge.config = replace(judge.config, context=4096)

    judge_text(judge, text)

    assert len(judge.calls) == 2


def test_links_of_a_record_follow_from_the_pages_that_the_judge_named():
    doc = generation_to_doc(REED)
    (record,) = JOINT.judge(ScriptedJudge([REED_REPLY], SUPPORTED), [doc], [[REED.output]])
    row = {"doc": doc, "responses": [REED.output]}

    assert JOINT.record_problem({**row, "verdict": record}) is None
    assert "links" in JOINT.record_problem({**row, "verdict": {**record, "links": [0, 0]}})


def test_an_individual_without_a_page_is_linked_by_support():
    reply = json.loads(json.dumps(REED_REPLY))
    reply["individuals"][1]["page"] = None
    judge = ScriptedJudge([reply], {("He was born in Sill.", CYCLIST)})

    assert judge_text(judge).links == (0, 1)


def test_facts_of_an_individual_linked_by_support_are_asked_about_that_page():
    reply = json.loads(json.dumps(REED_REPLY))
    reply["individuals"][1]["page"] = None
    judge = ScriptedJudge([reply], {("He was born in Sill.", CYCLIST)})

    judged = judge_text(judge)

    _, second = [prompt for name, prompt in judge.calls if name == PAGES_PROMPT]
    assert "Facts of no page:" not in second
    assert all(judged.matrix[fact][1] != NOT_ASKED for fact in judged.groups[1])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"sentence": 4}, "no sentence 4", id="sentence"),
        pytest.param({"individual": 3}, "no individual 3", id="individual"),
        pytest.param({"fact": "In 1900."}, "not a whole sentence", id="fact"),
    ],
)
def test_an_impossible_fact_makes_the_response_unscored(changes, problem):
    reply = json.loads(json.dumps(REED_REPLY))
    reply["facts"][0].update(changes)

    assert problem in judge_text(ScriptedJudge([reply])).problem


def test_a_page_that_does_not_exist_makes_the_response_unscored():
    reply = json.loads(json.dumps(REED_REPLY))
    reply["individuals"][0]["page"] = 3

    assert "page 3 of 2" in judge_text(ScriptedJudge([reply])).problem


def test_a_long_response_is_split_before_paragraphs():
    paragraph = " ".join(["Ada wrote a poem."] * (MAX_WORDS_PER_QUESTION // 8))

    parts = split_into_parts("\n\n".join([paragraph] * 3))

    num_sentences = MAX_WORDS_PER_QUESTION // 8
    assert [len(part) for part in parts] == [2 * num_sentences, num_sentences]


def test_later_parts_show_the_individuals_that_were_found_before():
    paragraph = " ".join(["Tomas Reed was a judge."] * (MAX_WORDS_PER_QUESTION // 5))
    text = make_generation("Tomas Reed", f"{paragraph}\n\nHe was born in Sill.", [JUDGE])
    first = {**REED_REPLY, "individuals": REED_REPLY["individuals"][:1]}
    first["facts"] = REED_REPLY["facts"][:1]
    fact = {"sentence": MAX_WORDS_PER_QUESTION // 5 + 1, "fact": "He was born in Sill."}
    second = {"reason": "", "individuals": [], "facts": [{**fact, "individual": 1}]}
    judge = ScriptedJudge([first, second])

    judged = judge_text(judge, text)

    assert "1. judge (page 1)" in judge.calls[1][1]
    assert judged.groups == ((0, 1),)


def test_the_instructions_of_all_responses_are_the_same():
    other_text = make_generation("Ada Lind", "Ada Lind sang.", ["Ada Lind"])
    judge = ScriptedJudge([REED_REPLY, {}])

    JOINT.judge_texts(judge, [REED, other_text])

    first, second = (prompt.split("Name: ")[0] for _, prompt in judge.calls[:2])
    assert first == second


def test_the_lexical_judge_takes_the_same_steps(tmp_path):
    with Judge.open(load_judge_config("lexical"), tmp_path / "answers.sqlite") as judge:
        judged = judge_text(judge)

    assert judged.groups == ((0,), (1, 2))
    assert judged.problem is None


def test_a_long_answer_about_one_subject_is_only_split_into_facts():
    method = LongForm(method="joint")
    reply = {"facts": [{"sentence": 1, "fact": "Sill is a town."}]}
    text = make_generation("", "Sill is a town.", ["Sill"])
    judge = ScriptedJudge([reply], {("Sill is a town.", "")})

    judged = judge_text(judge, text, method)

    assert "individual" not in judge.calls[0][1]
    assert judged.matrix[0][0].outcome == "supported"


def test_the_joint_method_refuses_another_linking():
    with pytest.raises(ConfigError, match="linking=greedy"):
        AmbigBio(method="joint", linking="hungarian")


@pytest.mark.parametrize("name", ["_individuals", "_pages", "_support"])
def test_the_docs_state_the_rules_in_the_words_of_the_prompt(name):
    template = (PROMPTS / f"{name}.jinja").read_text(encoding="utf-8")
    docs = " ".join((DOCS / "biographies.md").read_text(encoding="utf-8").split())

    rules = [line for line in template.splitlines() if line.startswith("- ")]

    assert rules
    assert [rule for rule in rules if rule not in docs] == []


def test_facts_are_put_in_the_order_of_their_sentences():
    reply = {**REED_REPLY, "facts": REED_REPLY["facts"][::-1]}

    judged = judge_text(ScriptedJudge([reply]))

    assert [fact.sentence for fact in judged.facts] == [0, 0, 1, 2]


def test_without_responses_nothing_is_asked():
    assert JOINT.judge_texts(ScriptedJudge([]), []) == []


WORDS = "Reed " * (MAX_WORDS_PER_QUESTION - 1)


@pytest.mark.parametrize(
    ("output", "parts"),
    [
        pytest.param(f"{WORDS}won.", [range(1)], id="the longest part"),
        pytest.param(f"{WORDS}won.\n\nHe sang.", [range(1), range(1, 2)], id="two paragraphs"),
        pytest.param(f"Reed {WORDS}won.\n\nHe sang.", [range(1), range(1, 2)], id="long sentence"),
        pytest.param("Reed won. He sang.\n\nReed left.", [range(3)], id="short paragraphs"),
    ],
)
def test_a_response_is_split_into_parts_that_hold_sentences(output, parts):
    assert split_into_parts(output) == parts


def test_a_response_of_which_one_part_cannot_be_read_is_unscored():
    output = f"Reed won. {WORDS}won.\n\n{WORDS}sang."
    first_reply = {**REED_REPLY, "facts": REED_REPLY["facts"][:1]}

    judged = judge_text(
        ScriptedJudge([first_reply, first_reply, "no"]),
        make_generation("Reed", output, [JUDGE, CYCLIST]),
    )

    assert judged.problem.startswith("not taken apart: sentences ")
    assert judged.facts == ()
