"""The joint method: one question takes a response apart, and one verifies its facts by page."""

import copy
import json
import re
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
JUDGE_PAGE = "Tomas Reed (judge)"
CYCLIST_PAGE = "Tomas Reed (cyclist)"
REED = make_generation(
    "Tomas Reed",
    "Tomas Reed was a judge in Eastmark [1]. Another Tomas Reed won the Round of the Lakes [2]. "
    "He was born in Sill [2].",
    [JUDGE_PAGE, CYCLIST_PAGE],
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


def copy_of_reply():
    """Return a copy of `REED_REPLY` that a test may change."""
    return copy.deepcopy(REED_REPLY)


def reply_without_the_page_of_the_cyclist():
    """Return `REED_REPLY` of a judge who could not say which page is about the cyclist."""
    reply = copy_of_reply()
    _judge, cyclist = reply["individuals"]
    cyclist["page"] = None
    return reply


def make_paragraph(num_words):
    """Make a paragraph of sentences of four words each."""
    return " ".join(["Ada wrote a poem."] * (num_words // 4))


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
        """Return the verdicts on all claims of a question about one page or several.

        The pages that a claim belongs to decide about it, or all pages if it belongs to none.
        ``page`` is another page that supports the claim.
        """
        pages = subject.get("pages") or [{"title": subject["entity"]}]
        verdicts = []
        for number, claim in enumerate(subject["claims"], 1):
            own_pages = set()
            supporting_pages = set()
            for page, content in enumerate(pages, 1):
                if number in content.get("facts", ()):
                    own_pages.add(page)
                if (claim, content["title"]) in self._supported:
                    supporting_pages.add(page)

            deciding_pages = own_pages or supporting_pages
            verdict = {
                "number": number,
                "reason": "as scripted",
                "verdict": "supported" if deciding_pages & supporting_pages else "not_found",
            }
            if "pages" in subject:
                verdict["page"] = min(supporting_pages - own_pages, default=None)
            verdicts.append(verdict)
        return {"verdicts": verdicts}


def judge_text(judge, text=REED, method=JOINT):
    """Judge one response."""
    (judged,) = method.judge_texts(judge, [text])
    return judged


def prompts_about_pages(judge):
    """Return the prompts that asked the judge which facts the pages support."""
    return [prompt for name, prompt in judge.calls if name == PAGES_PROMPT]


def test_a_reply_gives_facts_groups_and_links():
    """The reply counts sentences, individuals and pages from 1, and what is read from it from 0."""
    reply = {
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

    judged = judge_text(ScriptedJudge([reply]))

    assert [fact.sentence for fact in judged.facts] == [0, 0, 1, 2]
    assert judged.groups == ((0, 1), (2, 3))
    assert judged.links == (0, 1)


# The judge's page supports the last fact, which the response says of the cyclist.
SUPPORTED = {
    ("Tomas Reed was a judge.", JUDGE_PAGE),
    ("Tomas Reed was in Eastmark.", JUDGE_PAGE),
    ("Tomas Reed won the Round of the Lakes.", CYCLIST_PAGE),
    ("He was born in Sill.", JUDGE_PAGE),
}


def test_one_question_pairs_each_page_with_its_individuals_facts():
    """The first page is the judge's, and the second the cyclist's."""
    judge = ScriptedJudge([REED_REPLY], SUPPORTED)

    judge_text(judge)

    (prompt,) = prompts_about_pages(judge)
    _instructions, first_page, second_page = re.split("Page [12]: ", prompt)
    assert "1. Tomas Reed was a judge.\n2. Tomas Reed was in Eastmark." in first_page
    assert "3. Tomas Reed won the Round of the Lakes.\n4. He was born in Sill." in second_page


def test_fact_supported_by_another_page_counts_only_in_factscore():
    """The response says of the cyclist that he was born in Sill, which is true of the judge."""
    supported = {
        ("Tomas Reed was a judge.", JUDGE_PAGE),
        ("Tomas Reed was in Eastmark.", JUDGE_PAGE),
        ("Tomas Reed won the Round of the Lakes.", CYCLIST_PAGE),
        ("He was born in Sill.", JUDGE_PAGE),
    }
    judge = ScriptedJudge([REED_REPLY], supported)

    judged = judge_text(judge)

    scores = score_biography(judged)
    was_a_judge, cyclist_page = 0, 1
    assert judged.matrix[was_a_judge][cyclist_page] == NOT_ASKED
    assert scores["factscore"] == 1
    assert scores["d_factscore"] == 3 / 4


def test_facts_without_a_page_are_checked_against_all_pages():
    """The judge could not say which page is about the cyclist, who was born in Sill."""
    reply = reply_without_the_page_of_the_cyclist()
    judge = ScriptedJudge([reply], supported={("He was born in Sill.", JUDGE_PAGE)})

    judged = judge_text(judge)

    first_prompt, _second_prompt = prompts_about_pages(judge)
    *_, judgements_of_birth = judged.matrix
    by_judge_page, _by_cyclist_page = judgements_of_birth
    assert "4. He was born in Sill." in first_prompt.split("Facts of no page:")[1]
    assert by_judge_page.outcome == "supported"


def test_pages_too_long_for_one_question_are_asked_separately(monkeypatch):
    """The third question asks about the fact that its own page, the second, does not support."""
    monkeypatch.setattr(matrix, "MAX_WORDS_OF_PAGES", 5)
    judge = ScriptedJudge([REED_REPLY], SUPPORTED)

    judged = judge_text(judge)

    prompts = prompts_about_pages(judge)
    scores = score_biography(judged)
    assert [prompt.count("\nPage ") for prompt in prompts] == [1, 1, 1]
    assert "Facts of no page:\n1. He was born in Sill." in prompts[2]
    assert scores["d_factscore"] == 3 / 4
    assert scores["factscore"] == 1


def test_a_fact_of_two_individuals_is_judged_by_the_pages_of_both():
    """The response says of both people that they were judges, and only the first page says so."""
    reply = copy_of_reply()
    reply["facts"] = [
        {"sentence": 1, "fact": "Tomas Reed was a judge.", "individual": 1},
        {"sentence": 2, "fact": "Tomas Reed was a judge.", "individual": 2},
    ]
    supported = {("Tomas Reed was a judge.", JUDGE_PAGE)}

    judged = judge_text(ScriptedJudge([reply], supported))

    _judgements_of_first_fact, judgements_of_second_fact = judged.matrix
    by_judge_page, by_cyclist_page = judgements_of_second_fact
    assert by_judge_page.outcome == "supported"
    assert by_cyclist_page.outcome == "not_supported"


def test_facts_missing_from_a_reply_are_asked_again_individually():
    """The reply has a verdict on one of four facts, and the repeated question gets none."""
    verdict_on_fact_1 = {"number": 1, "reason": "", "verdict": "supported", "page": None}
    reply_about_pages = {"verdicts": [verdict_on_fact_1]}
    empty_second_reply = {"verdicts": []}
    reply_about_one_fact = {"reason": "", "verdict": "supported", "probability": None}
    replies = [REED_REPLY, reply_about_pages, empty_second_reply, *[reply_about_one_fact] * 3]
    judge = ScriptedJudge(replies, supported=None)

    judged = judge_text(judge)

    prompt_names = [name for name, _prompt in judge.calls]
    assert prompt_names.count("biographies/verify") == 3
    assert score_biography(judged)["d_factscore"] == 1


@pytest.mark.parametrize(
    ("prompt", "reply_type"), [("verify", FactReply), ("verify_pages", FactsOfPages)]
)
def test_the_schema_of_a_reply_offers_the_verdicts_of_the_prompt(prompt, reply_type):
    """A judge that is told one list of words and held to another could not answer."""
    template = (PROMPTS / f"{prompt}.jinja").read_text(encoding="utf-8")

    schema = schema_to_send(json_schema_of(reply_type))

    fields = schema["$defs"]["NumberedFactOfPages"] if "$defs" in schema else schema
    quoted_verdicts = [f'"{verdict}"' for verdict in fields["properties"]["verdict"]["enum"]]
    assert f'"verdict": {" or ".join(quoted_verdicts)}' in template


@pytest.mark.parametrize(
    ("verdict", "page", "problem"),
    [
        pytest.param(
            "not_found", 3, "fact 1 is not_found, with page 3 of 2", id="there are only two pages"
        ),
        pytest.param(
            "not_found",
            1,
            "fact 1 is not_found, with page 1 of 2, its own",
            id="its own page cannot support what it does not tell",
        ),
        pytest.param(
            "supported", 3, "", id="another page does not matter if its own supports the fact"
        ),
        pytest.param("contradicted", None, "", id="no page supports the fact"),
    ],
)
def test_only_another_page_can_support_a_fact_missing_from_its_page(verdict, page, problem):
    """The only fact belongs to the first of two pages. An empty problem means no problem."""
    reply = FactsOfPages.model_validate(
        {"verdicts": [{"number": 1, "reason": "", "verdict": verdict, "page": page}]}
    )
    subject = {
        "claims": ["He sang."],
        "pages": [{"facts": [1]}, {"facts": []}],
        "facts_of_no_page": [],
    }

    assert problem_with_pages(reply, subject) == problem


def test_page_checked_by_few_samples_gets_no_verdict():
    """Only the third sample looks for the fact on the second page."""
    reply = copy_of_reply()
    reply["individuals"] = reply["individuals"][:1]
    reply["facts"] = reply["facts"][:1]
    supported = {"number": 1, "reason": "", "verdict": "supported", "page": None}
    not_found = {"number": 1, "reason": "", "verdict": "not_found", "page": 2}
    samples = [
        {"verdicts": [supported]},
        {"verdicts": [supported]},
        {"verdicts": [not_found]},
    ]
    judge = ScriptedJudge([reply, *samples], supported=None)
    judge.config = replace(judge.config, samples=3)

    judged = judge_text(judge)

    ((by_own_page, by_second_page),) = judged.matrix
    assert by_own_page.score == 2 / 3
    assert by_second_page == NOT_ASKED


def test_question_size_follows_the_context_length_of_the_model():
    """One question could hold both paragraphs, but not for a model with 4,096 tokens of context."""
    paragraph = make_paragraph(num_words=MAX_WORDS_PER_QUESTION // 2)
    text = make_generation("Ada", f"{paragraph}\n\n{paragraph}", ["Ada"])
    individual = {"number": 1, "who": "writer", "reason": "", "page": 1}
    reply_about_part = {"reason": "", "individuals": [individual], "facts": []}
    judge = ScriptedJudge([reply_about_part, reply_about_part])
    judge.config = replace(judge.config, context=4096)

    judge_text(judge, text)

    assert len(judge.calls) == 2


def test_recorded_links_must_match_the_pages_named_by_the_judge():
    """Somebody may have changed the links in a published file to get a better score."""
    doc = generation_to_doc(REED)
    (record,) = JOINT.judge(ScriptedJudge([REED_REPLY], SUPPORTED), [doc], [[REED.output]])
    changed_record = {**record, "links": [0, 0]}
    row = {"doc": doc, "responses": [REED.output]}

    problem = JOINT.record_problem({**row, "verdict": record})
    problem_of_changed_record = JOINT.record_problem({**row, "verdict": changed_record})

    assert problem is None
    assert "links" in problem_of_changed_record


def test_an_individual_without_a_page_is_linked_by_support():
    """The second page supports one of the cyclist's facts, so the page is about him."""
    reply = reply_without_the_page_of_the_cyclist()
    judge = ScriptedJudge([reply], supported={("He was born in Sill.", CYCLIST_PAGE)})

    judged = judge_text(judge)

    linked_titles = [judged.entities[link] for link in judged.links]
    assert linked_titles == ["Tomas Reed (judge)", "Tomas Reed (cyclist)"]


def test_facts_of_an_individual_linked_by_support_are_checked_by_the_page():
    """The page supports one of the cyclist's two facts, and the judge is asked about the other."""
    reply = reply_without_the_page_of_the_cyclist()
    judge = ScriptedJudge([reply], supported={("He was born in Sill.", CYCLIST_PAGE)})

    judged = judge_text(judge)

    _first_prompt, second_prompt = prompts_about_pages(judge)
    *_facts_of_judge, judgements_of_victory, judgements_of_birth = judged.matrix
    assert "Facts of no page:" not in second_prompt
    for _by_judge_page, by_cyclist_page in (judgements_of_victory, judgements_of_birth):
        assert by_cyclist_page != NOT_ASKED


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"sentence": 4}, "no sentence 4", id="sentence"),
        pytest.param({"individual": 3}, "no individual 3", id="individual"),
        pytest.param({"fact": "In 1900."}, "not a whole sentence", id="fact"),
    ],
)
def test_an_impossible_fact_makes_the_response_unscored(changes, problem):
    """What the judge made up cannot be scored. The response has three sentences and two people."""
    reply = copy_of_reply()
    reply["facts"][0].update(changes)

    judged = judge_text(ScriptedJudge([reply]))

    assert problem in judged.problem


def test_nonexistent_page_makes_the_response_unscored():
    """What the judge made up cannot be scored. The response has two pages."""
    reply = copy_of_reply()
    reply["individuals"][0]["page"] = 3

    judged = judge_text(ScriptedJudge([reply]))

    assert "page 3 of 2" in judged.problem


def test_a_long_response_is_split_before_paragraphs():
    """A question holds two of three paragraphs, whose sentences explain each other."""
    paragraph = make_paragraph(num_words=MAX_WORDS_PER_QUESTION // 2)

    parts = split_into_parts("\n\n".join([paragraph] * 3))

    num_sentences = MAX_WORDS_PER_QUESTION // 2 // 4
    assert [len(part) for part in parts] == [2 * num_sentences, num_sentences]


def test_later_parts_show_previously_found_individuals():
    """The second part says only "He", and means a person whom the first part names."""
    words_per_sentence = 5
    num_sentences = MAX_WORDS_PER_QUESTION // words_per_sentence
    paragraph = " ".join(["Tomas Reed was a judge."] * num_sentences)
    text = make_generation("Tomas Reed", f"{paragraph}\n\nHe was born in Sill.", [JUDGE_PAGE])
    first_reply = copy_of_reply()
    first_reply["individuals"] = first_reply["individuals"][:1]
    first_reply["facts"] = first_reply["facts"][:1]
    fact = {
        "sentence": num_sentences + 1,  # the one after the paragraph
        "fact": "He was born in Sill.",
        "individual": 1,
    }
    second_reply = {"reason": "", "individuals": [], "facts": [fact]}
    judge = ScriptedJudge([first_reply, second_reply])

    judged = judge_text(judge, text)

    _name, second_prompt = judge.calls[1]
    assert "1. judge (page 1)" in second_prompt
    assert judged.groups == ((0, 1),)


def test_the_instructions_of_all_responses_are_the_same():
    """Servers cache the beginning of a prompt, so the name must not stand before the rules."""
    other_text = make_generation("Ada Lind", "Ada Lind sang.", ["Ada Lind"])
    judge = ScriptedJudge([REED_REPLY, {}])

    JOINT.judge_texts(judge, [REED, other_text])

    first, second = (prompt.split("Name: ")[0] for _, prompt in judge.calls[:2])
    assert first == second


def test_the_lexical_judge_takes_the_same_steps(tmp_path):
    """The lexical judge has no model: it makes one fact of each sentence by rules."""
    with Judge.open(load_judge_config("lexical"), tmp_path / "answers.sqlite") as judge:
        judged = judge_text(judge)

    assert judged.groups == ((0,), (1, 2))
    assert judged.problem is None


def test_long_answer_about_one_subject_is_only_decomposed():
    """The benchmark of long answers has no individuals to tell apart."""
    method = LongForm(method="joint")
    reply = {"facts": [{"sentence": 1, "fact": "Sill is a town."}]}
    text = make_generation("", "Sill is a town.", ["Sill"])
    judge = ScriptedJudge([reply], {("Sill is a town.", "")})

    judged = judge_text(judge, text, method)

    assert "individual" not in judge.calls[0][1]
    assert judged.matrix[0][0].outcome == "supported"


def test_the_joint_method_refuses_another_linking():
    """In the joint method the judge links individuals itself, so a linking would be ignored."""
    with pytest.raises(ConfigError, match="linking=greedy"):
        AmbigBio(method="joint", linking="hungarian")


@pytest.mark.parametrize("name", ["_individuals.jinja", "_pages.jinja", "_support.jinja"])
def test_docs_name_the_prompts_with_the_rules(name):
    """People who label by hand read the judge's rules for difficult cases in these files."""
    docs = (DOCS / "biographies.md").read_text(encoding="utf-8")

    assert (PROMPTS / name).is_file()
    assert name in docs


def test_facts_are_sorted_by_sentence():
    """The viewer shows facts below their sentences, and the reply has them from last to first."""
    reply = {**REED_REPLY, "facts": REED_REPLY["facts"][::-1]}

    judged = judge_text(ScriptedJudge([reply]))

    assert [fact.sentence for fact in judged.facts] == [0, 0, 1, 2]


def test_no_responses_need_no_questions():
    """The script has no reply, so any question would fail."""
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
def test_response_is_split_into_ranges_of_sentences(output, parts):
    """Each part is a range of sentence numbers. ``WORDS`` and one more word fill a question."""
    assert split_into_parts(output) == parts


def test_response_with_one_unreadable_part_is_unscored():
    """A score of half a response would look like that of a whole one."""
    first_part = f"{WORDS}won."
    second_part = "He sang."
    response = make_generation("Reed", f"{first_part}\n\n{second_part}", [JUDGE_PAGE])
    readable_reply = {
        "reason": "",
        "individuals": [{"number": 1, "who": "judge", "reason": "", "page": 1}],
        "facts": [{"sentence": 1, "fact": "Reed won.", "individual": 1}],
    }
    unreadable_reply = "no"

    judged = judge_text(ScriptedJudge([readable_reply, unreadable_reply]), response)

    assert judged.problem == "not taken apart: sentences 2 to 2 of 2: no JSON object"
    assert judged.facts == ()
