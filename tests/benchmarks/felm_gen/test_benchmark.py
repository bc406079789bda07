"""FELM-gen without lm_eval: refusals, segments, marks of errors, and scores."""

import itertools
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers import Answer
from judges.judge import Judge
from judges.templates import Prompts
from judges.typed import read_reply
from lm_factuality.benchmarks import judged_benchmark_names, make_judged_method
from lm_factuality.benchmarks.felm.grammar import UnreadableAnswerError
from lm_factuality.benchmarks.felm.rows import DOMAINS
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.benchmarks.felm_gen.steps import (
    EMPTY,
    REFUSAL,
    Cut,
    CutReply,
    MarksReply,
    apply_judge_cut,
    combine_marks,
    cut_by_rules,
    cutting_subject,
    find_cut_problem,
    find_marks_problem,
    marking_subject,
    split_into_pieces,
    text_to_judge,
    why_no_answer,
)
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import read_generations, to_line
from tests.benchmarks.felm_gen.rule import ROWS, mark
from tests.judges.server import Act

# A response to each of the questions; the judge takes a segment with "seven" in it for wrong.
RESPONSES = (
    "It is seven years old. It is made of iron.",
    "A current warms it. There are seven of them.",
    "3 * 4 = 12. So it is seven.",
    "I'm sorry, but I can't help with that.",
    "Two boats carry twelve crates.",
)

DOC = {"index": "1", "domain": "wk", "prompt": "Why?", "reference_texts": []}
FIRST = {**DOC, "index": "0"}


@pytest.fixture
def docs():
    """Return the documents of five questions, of which three have a reference."""
    return [
        {
            "index": index,
            "domain": domain,
            "prompt": prompt,
            "reference_texts": [reference] if reference else [],
        }
        for index, domain, prompt, reference in ROWS
    ]


@pytest.mark.parametrize(
    "generation",
    [
        pytest.param("", id="nothing"),
        pytest.param(" \n ", id="white space"),
        pytest.param("...", id="no letter"),
        pytest.param("<think>Let me see</think>", id="a thought alone"),
    ],
)
def test_generation_without_words_is_not_an_answer(generation):
    """A generation that states nothing is neither right nor wrong."""
    assert why_no_answer(generation) == EMPTY


@pytest.mark.parametrize(
    "generation",
    ["<think>Let me see", "<THINKING>Let me see", "It opened in 1870. <Think>Did it"],
)
def test_unfinished_thought_is_not_an_answer(generation):
    """The model ran out of tokens before it began to answer."""
    assert why_no_answer(generation) == UNFINISHED


@pytest.mark.parametrize(
    "generation",
    [
        "I'm sorry, but I can't help with that.",
        pytest.param(
            "I\u2019m sorry, but I can\u2019t help with that.", id="typographic apostrophes"
        ),
        "I don't know.",
        "As an AI language model, I do not have access to that. Please ask a librarian.",
        "I do not have personal preferences. However, I can write something if you name a place.",
        "Unfortunately, I cannot provide this. Is there anything else?",
        "<Thinking>It opened in 1870.</Thinking>I don't know.",
    ],
)
def test_refusal_is_not_an_answer(generation):
    """A model that refuses must not seem free of errors."""
    assert why_no_answer(generation) == REFUSAL


@pytest.mark.parametrize(
    "generation",
    [
        "12",
        "I'm sorry for the wait. The bridge opened in 1870.",
        "I can't say it better than its keeper did. It opened in 1870.",
        "I do not have personal preferences, but here are three museums:\n1. Odd\n2. Lind\n3. Noor",
        "We do not know the age of Ada. So it can be any number.",
        "Sorry is a word of regret.",
        "<think>I can't answer that.</think>It opened in 1870.",
    ],
)
def test_answer_may_contain_words_of_a_refusal(generation):
    """A rule that looks for such words alone would drop real answers."""
    assert why_no_answer(generation) is None


@pytest.mark.parametrize(
    ("generation", "answer"),
    [
        ("<think>First a </think> then b</think>\nThe bridge.\n", "The bridge."),
        ("<THINKING>First a</THINKING>The bridge.", "The bridge."),
        pytest.param("<think>First a", "<think>First a", id="unfinished thinking is kept"),
    ],
)
def test_thinking_is_removed_from_an_answer(generation, answer):
    """The judge marks the answer and not what the model thought before it."""
    assert text_to_judge(generation) == answer


def test_rules_split_a_response_into_sentences_paragraphs_and_list_items():
    """Each sentence, paragraph or list item can be right or wrong by itself."""
    text = "It opened in 1870. It is old:\n- of iron\n- of stone\n\nDr. Lind built it"

    segments = cut_by_rules(text).segments

    assert segments == [
        "It opened in 1870.",
        "It is old:",
        "- of iron",
        "- of stone",
        "Dr. Lind built it",
    ]


@pytest.mark.parametrize("heading", ["## Size", "**Total**", "__Its parts__:"])
def test_headings_are_not_judged(heading):
    """A heading states nothing, so it would count as a right segment."""
    assert text_to_judge(f"It is old.\n{heading}\nIt is red.") == "It is old.\nIt is red."


@pytest.mark.parametrize("line", ["**Total: 15**", "**It is red.**", "**Paris** is a city"])
def test_bold_statement_is_judged(line):
    """Models set their main claims in bold, too."""
    assert text_to_judge(f"It is old.\n{line}") == f"It is old.\n{line}"


def test_heading_like_answer_is_judged():
    """Headings are removed, but a bold line alone is the whole answer."""
    assert text_to_judge("**Paris**") == "**Paris**"


MATH_TEXT = "So 1 000 + 1 = 1 001.\nAdd 2:  1 003. Done"
"""A text of three pieces, which the judge groups into segments."""


def read_cut(answer, text=MATH_TEXT):
    """Read a judge's answer to the question how to group the pieces of a text into segments."""
    return read_reply(answer, CutReply, cutting_subject(text), find_cut_problem)


def make_cut(segments, text=MATH_TEXT):
    """Make a judge's reply that groups the pieces with these numbers into segments."""
    return read_cut(Answer(json.dumps({"segments": segments}), "stop"), text)


def test_segments_from_the_judge_are_text_of_the_response():
    """The judge gives only numbers of pieces, so it cannot change a word."""
    cut = apply_judge_cut(MATH_TEXT, make_cut([[1, 2], [], [3]]))

    assert cut == Cut(["So 1 000 + 1 = 1 001.\nAdd 2:  1 003.", "Done"], "judge")


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        pytest.param(Answer("[[1], [3]]", "stop"), "no piece 2", id="missing piece"),
        pytest.param(Answer("[[1, 2], [2, 3]]", "stop"), "piece 2 twice", id="piece twice"),
        pytest.param(Answer("[[2], [1], [3]]", "stop"), "pieces out of order", id="other order"),
        pytest.param(Answer("[[1], [2], [3], [4]]", "stop"), "piece 4 of 3", id="unknown piece"),
        pytest.param(Answer("[]", "stop"), "no piece 1, 2, 3", id="no segments"),
        pytest.param(
            Answer('{"segments": ["So", "Done"]}', "stop"),
            "wrong form: segments.N: Input should be a valid list",
            id="texts",
        ),
        pytest.param(Answer("So 1 000 + 1 = 1 001.", "stop"), "no JSON object", id="no JSON"),
        pytest.param(Answer("", "stop"), "empty answer", id="nothing"),
        pytest.param(Answer('{"segments": [[1]', "length"), "cut off", id="cut off"),
        pytest.param(
            Answer(None, error="timed out"), "judge error: timed out", id="judge that is down"
        ),
    ],
)
def test_rules_split_the_response_if_the_judges_split_is_refused(answer, refused):
    """The response can then be scored all the same."""
    cut = apply_judge_cut(MATH_TEXT, read_cut(answer))

    assert cut == replace(cut_by_rules(MATH_TEXT), cut_refused=refused)


def group_pieces(num_pieces, last_pieces):
    """Group the numbers of pieces into segments that end with these pieces.

    Example:
        ``group_pieces(3, {2})`` is ``[[1, 2], [3]]``.
    """
    groups = []
    group = []
    for piece in range(1, num_pieces + 1):
        group.append(piece)
        if piece in last_pieces or piece == num_pieces:
            groups.append(group)
            group = []
    return groups


@given(st.text(alphabet="abA7.?* é\n\t\u2028\x1f", max_size=60), st.sets(st.integers(1, 12)))
def test_any_split_by_the_judge_keeps_all_text(text, last_pieces):
    """The judge ends a segment after each of some pieces, whose numbers are drawn at random."""
    groups = group_pieces(len(split_into_pieces(text)), last_pieces)

    cut = apply_judge_cut(text, make_cut(groups, text))

    assert cut.cut_by == "judge"
    assert len(cut.segments) == len(groups)
    assert without_spaces("".join(cut.segments)) == without_spaces(text)
    for segment in cut.segments:
        assert segment in text
        assert segment == segment.strip()


def without_spaces(text):
    """Remove all white space from a text."""
    return "".join(text.split())


def read_marks(answer, num_segments=3):
    """Read a judge's answer to the question which segments are wrong."""
    subject = {"units": ["s"] * num_segments}
    return read_reply(answer, MarksReply, subject, find_marks_problem)


def make_marks(wrong, num_segments=3):
    """Make a judge's reply.

    Args:
        wrong: Pairs of the number of a wrong segment and the type of its error.
        num_segments: The number of segments that the judge was asked about.
    """
    marks = [{"number": number, "reason": "so", "type": kind} for number, kind in wrong]
    return read_marks(Answer(json.dumps({"wrong": marks}), "stop"), num_segments)


UNTYPED_MARK = '{"wrong": [{"number": 1, "reason": "no"}]}'


@pytest.mark.parametrize(
    ("reply", "domain", "errors"),
    [
        pytest.param(make_marks([(2, "fooled")]), "wk", [None, "fooled", None], id="one error"),
        pytest.param(
            make_marks([(3, "knowledge"), (1, "irrelevant")]),
            "wk",
            ["irrelevant", None, "knowledge"],
            id="two errors",
        ),
        pytest.param(
            make_marks([(1, None), (2, "reasoning")]),
            "science",
            ["untyped", "reasoning", None],
            id="an error without a type",
        ),
        pytest.param(
            make_marks([(3, "knowledge")]),
            "math",
            [None, None, "reasoning"],
            id="every error in math is of reasoning",
        ),
        pytest.param(
            make_marks([(3, None)]),
            "reasoning",
            [None, None, "reasoning"],
            id="every error in reasoning is of reasoning",
        ),
        pytest.param(make_marks([]), "wk", [None, None, None], id="no error"),
        pytest.param(
            read_marks(Answer(f'<think>{UNTYPED_MARK}</think>{{"wrong": []}}')),
            "wk",
            [None, None, None],
            id="marks in the thinking do not count",
        ),
        pytest.param(
            read_marks(Answer(UNTYPED_MARK)),
            "wk",
            ["untyped", None, None],
            id="no key for the type",
        ),
    ],
)
def test_judge_marks_become_segment_errors(reply, domain, errors):
    """A reply lists the wrong segments, and each has one error or none."""
    assert combine_marks([reply], num_segments=3, domain=domain) == errors


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(read_marks(Answer("Let me see", "length")), "cut off", id="cut off"),
        pytest.param(read_marks(Answer("", "stop")), "empty answer", id="empty"),
        pytest.param(read_marks(Answer("", "content_filter")), "content filter", id="filtered"),
        pytest.param(make_marks([(4, "fooled")]), "segment 4 of 3", id="segment after the last"),
        pytest.param(make_marks([(0, "fooled")]), "segment 0 of 3", id="segment before the first"),
        pytest.param(make_marks([(1, "fooled"), (1, None)]), "segment 1 twice", id="segment twice"),
        pytest.param(
            make_marks([(1, "spelling")]),
            "wrong form: wrong.N.type: "
            "Input should be 'knowledge', 'reasoning', 'irrelevant' or 'fooled'",
            id="unknown type of error",
        ),
        pytest.param(
            read_marks(Answer("I'm sorry, I cannot judge that.")), "no JSON object", id="refusal"
        ),
        pytest.param(
            read_marks(Answer(None, error="no evidence: the lexical judge needs passages")),
            "no evidence",
            id="no references",
        ),
        pytest.param(
            read_marks(Answer(None, error="400: no such thing")),
            "judge error: 400: no such thing",
            id="error of the server",
        ),
    ],
)
def test_an_unreadable_reply_leaves_the_response_unscored(reply, reason):
    """A reply that was taken for "no error" would make the model seem better."""
    with pytest.raises(UnreadableAnswerError) as error:
        combine_marks([reply], num_segments=3, domain="wk")

    assert str(error.value) == reason


def test_samples_vote_on_errors_and_on_their_types():
    """Three of four replies can be read, and only one of them marks segment 2."""
    replies = [
        make_marks([(1, "fooled"), (2, "knowledge")], num_segments=2),
        make_marks([(1, "knowledge")], num_segments=2),
        make_marks([(1, "knowledge")], num_segments=2),
        read_marks(Answer("?"), num_segments=2),
    ]

    assert combine_marks(replies, num_segments=2, domain="wk") == ["knowledge", None]


def test_response_without_readable_samples_is_unscored():
    """No sample has a vote, so there is no majority."""
    replies = [read_marks(Answer("?")), read_marks(Answer("?"))]

    with pytest.raises(UnreadableAnswerError, match="^none of 2 outputs .*: no JSON object$"):
        combine_marks(replies, num_segments=2, domain="wk")


def test_marking_question_has_the_segments_and_references():
    doc = {**DOC, "reference_texts": ["The bridge was opened in 1870."]}

    subject = marking_subject(doc, ["It is old.", "It is of iron."])

    assert subject["kind"] == "marks"
    assert subject["units"] == ["It is old.", "It is of iron."]
    assert subject["passages"] == ["The bridge was opened in 1870."]


def test_marking_question_has_each_segment_in_one_line():
    """A line break within a segment would break the numbered list in the prompt."""
    subject = marking_subject(DOC, ["It is\nold.", "It is of iron."])

    assert subject["units"] == ["It is old.", "It is of iron."]


def test_marking_prompt_ends_with_question_segments_and_references():
    """What differs between responses stands last, so that servers can cache the rest."""
    doc = {
        "index": "0",
        "domain": "wk",
        "prompt": "How old is the Lantern Bridge?",
        "reference_texts": ["The Lantern Bridge was opened in 1870 and is made of iron."],
    }
    subject = marking_subject(doc, ["It is\nold.", "It is of iron."])

    prompt = Prompts().render("felm_gen/mark_segments", subject)

    assert prompt.endswith(
        "Question: How old is the Lantern Bridge?\n"
        "Segments:\n1. It is old.\n2. It is of iron.\n"
        "Reference document:\nThe Lantern Bridge was opened in 1870 and is made of iron.\n\n"
        "Which of these segments contain factual errors, and of which type? "
        "Reply with the JSON object alone."
    )


def test_marking_prompt_shows_no_references_in_math():
    """The authors' settings show none in this domain."""
    math_doc = {**DOC, "domain": "math", "reference_texts": ["3 times 4 is 12."]}

    prompt = Prompts().render("felm_gen/mark_segments", marking_subject(math_doc, ["It is 12."]))

    assert "reference document" not in prompt.lower()


@pytest.mark.parametrize(
    ("domain", "errors"),
    [
        ("wk", [None, "knowledge", None]),
        ("science", [None, "knowledge", None]),
        ("writing_rec", [None, "knowledge", None]),
        ("math", [None, "reasoning", "reasoning"]),
        ("reasoning", [None, "reasoning", "reasoning"]),
    ],
)
def test_examples_in_the_marking_prompt_are_readable(domain, errors):
    """A judge that follows the examples must give replies that can be read."""
    subject = marking_subject({**DOC, "domain": domain}, ["So."])

    prompt = Prompts().render("felm_gen/mark_segments", subject)

    json_lines = [line for line in prompt.splitlines() if line.startswith('{"wrong": [')]
    _form, example_with_errors, example_without_errors = json_lines
    assert read_errors(example_with_errors) == errors
    assert read_errors(example_without_errors) == [None, None, None]


def read_errors(reply):
    """Read the errors of three segments from the text of a reply, with the types that it gives."""
    # In math and reasoning, all types would become "reasoning".
    return combine_marks([read_marks(Answer(reply))], num_segments=3, domain="wk")


def test_example_in_the_splitting_prompt_is_readable():
    """A judge that follows the example must give a reply that can be read."""
    prompt = Prompts().render("felm_gen/segment", cutting_subject("So. No."))

    example_and_rest = prompt.split("An example:\n\n")[1]
    example, pieces = example_and_rest.split("\n\nNow the pieces to group:\n\n")
    *example_pieces, example_reply = example.splitlines()
    reply = CutReply.model_validate_json(example_reply)
    assert find_cut_problem(reply, {"pieces": example_pieces}) == ""
    assert pieces == "1. So.\n2. No."


def make_record(domain, errors, **changes):
    """Make the verdict on a response.

    Args:
        domain: The domain of the question.
        errors: The type of error of each segment, None for a right one. None in place of the list
            if the response is unscored.
        **changes: Other values of fields.
    """
    return {
        "domain": domain,
        "errors": errors,
        "segments": ["s"] * len(errors or []),
        "unscored": None,
        "no_answer": None,
        "cut_by": "rules",
        "cut_refused": None,
        **changes,
    }


def summarise(*records):
    """Summarise the records; the summary needs nothing of their documents."""
    return FELM_GEN.summarise([{}] * len(records), records)


def test_the_segment_error_rate_is_pooled_over_scored_responses():
    """Long responses weigh more than short ones. None is a segment without an error."""
    summary = summarise(
        make_record("wk", [None, "knowledge", "fooled"]),
        make_record("wk", [None]),
        make_record("math", ["reasoning", None]),
    )

    rate = summary["segment_error_rate"]
    low, high = rate["interval"]
    assert rate["value"] == (2 + 0 + 1) / (3 + 1 + 2)
    assert rate["rows"] == 3
    assert low < 0.5 < high


def test_segment_error_rate_bounds_include_unscored_responses():
    """The four segments of the unscored response may all be right or wrong."""
    summary = summarise(
        make_record("wk", [None, "knowledge", "fooled"]),
        make_record("wk", [None]),
        make_record("math", ["reasoning", None]),
        make_record("math", None, unscored="no answer line", segments=["s", "s", "s", "s"]),
    )

    rate = summary["segment_error_rate"]
    assert rate["worst"] == (3 + 4) / (6 + 4)
    assert rate["best"] == (3 + 0) / (6 + 4)


def test_response_error_rate_bounds_include_unscored_responses():
    """A response without an answer has nothing to be wrong in, so it does not count."""
    summary = summarise(
        make_record("wk", [None, "knowledge"]),
        make_record("wk", [None]),
        make_record("math", ["reasoning", None]),
        make_record("math", None, unscored="no answer line", segments=["s"]),
        make_record(
            "wk", None, unscored="no answer: empty", no_answer="empty", segments=[], cut_by=None
        ),
    )

    rate = summary["response_error_rate"]
    assert rate["value"] == 2 / 3
    assert rate["worst"] == (2 + 1) / 4
    assert rate["best"] == (2 + 0) / 4


def test_the_segment_error_rate_is_given_by_domain():
    """The only response about math does not show how much responses differ."""
    summary = summarise(
        make_record("wk", [None, "knowledge", "fooled"]),
        make_record("wk", [None]),
        make_record("math", ["reasoning", None]),
    )

    assert summary["segment_error_rate_wk"]["value"] == 2 / 4
    assert summary["segment_error_rate_math"]["interval"] is None


def test_wrong_segments_are_counted_by_type():
    """The types are FELM's. They say whether a model lacks knowledge or reasons wrongly."""
    summary = summarise(
        make_record("wk", [None, "knowledge", "fooled"]), make_record("math", ["reasoning", None])
    )

    assert summary["wrong_segments"] == {"knowledge": 1, "fooled": 1, "reasoning": 1}


def test_unscored_and_unanswered_responses_are_counted_separately():
    """For the first the judge is to blame, and for the others the model."""
    summary = summarise(
        make_record("wk", [None]),
        make_record("math", None, unscored="no answer line"),
        make_record("wk", None, unscored="no answer: empty", no_answer="empty", cut_by=None),
    )

    assert summary["unscored"] == {"no answer line": 1}
    assert summary["no_answer"] == {"empty": 1}


def test_rates_without_any_scored_response_are_null():
    """A rate of 0 would say that nothing is wrong. JSON has null where Python would have NaN."""
    refusal = make_record(
        "wk", None, unscored="no answer: refusal", no_answer="refusal", cut_by=None
    )

    summary = summarise(refusal)

    assert summary["segment_error_rate"]["value"] is None
    assert summary["response_error_rate"]["worst"] is None
    json.dumps(summary, allow_nan=False)


def test_the_table_shows_a_dash_for_a_rate_without_any_scored_response():
    """A rate of 0 would say that nothing is wrong."""
    refusal = make_record(
        "wk", None, unscored="no answer: refusal", no_answer="refusal", cut_by=None
    )

    _columns, rows, _notes = FELM_GEN.summary_table(summarise(refusal))

    _label, value, *_ = rows[0]
    assert value == "-"


@pytest.fixture
def judge(server, config, tmp_path):
    """Return a judge with a store whose server takes a segment with "seven" in it for wrong."""
    server.script = mark
    with Judge.open(config(), tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def responses():
    """Return the generations of each document: one response."""
    return [[response] for response in RESPONSES]


def test_plan_counts_requests_and_sends_none(server, judge, docs, responses):
    """One response, in math, is cut into segments, and four of five responses are marked."""
    plans = FELM_GEN.plan_questions(judge, docs, responses)

    num_planned = [plan.to_send for _step, plan in plans]
    assert num_planned == [1, 4]
    assert not server.bodies


def test_judging_sends_as_many_requests_as_were_planned(server, judge, docs, responses):
    """A plan that was off would not tell a user what a judge costs."""
    plans = FELM_GEN.plan_questions(judge, docs, responses)

    FELM_GEN.judge(judge, docs, responses)

    assert len(server.bodies) == sum(plan.to_send for _step, plan in plans)


def test_second_run_uses_stored_verdicts(server, judge, docs, responses):
    """No answer of a judge is paid for twice, so the second time sends no request."""
    verdicts = FELM_GEN.judge(judge, docs, responses)
    num_sent = len(server.bodies)

    assert FELM_GEN.judge(judge, docs, responses) == verdicts
    assert len(server.bodies) == num_sent


def test_a_verdict_has_the_error_of_each_segment(judge, docs, responses):
    """The judge marks segments with "seven" as errors of knowledge, or of reasoning in math."""
    verdicts = FELM_GEN.judge(judge, docs, responses)

    assert [verdict["errors"] for verdict in verdicts] == [
        ["knowledge", None],
        [None, "knowledge"],
        [None, "reasoning"],
        None,
        [None],
    ]
    assert verdicts[3]["unscored"] == "no answer: refusal"


def test_verdict_records_how_the_response_was_split(judge, docs, responses):
    """As in the paper, a judge cuts responses in math and in writing, and rules the others."""
    verdicts = FELM_GEN.judge(judge, docs, responses)

    cut_by = [verdict["cut_by"] for verdict in verdicts]
    assert cut_by == ["rules", "rules", "judge", None, "rules"]
    assert verdicts[0]["segments"] == ["It is seven years old.", "It is made of iron."]


def refuse_to_cut(prompt, attempt):
    """Mark segments like the usual judge, but leave the first piece out of every cut."""
    if "pieces to group" in prompt:
        return Act(text='{"segments": [[2]]}')
    return mark(prompt, attempt)


def test_judge_still_marks_after_its_split_is_refused(server, judge, docs, responses):
    """Rules cut the response in place of the judge, who left out its first piece."""
    server.script = refuse_to_cut

    verdicts = FELM_GEN.judge(judge, docs, responses)

    math_verdict = verdicts[2]
    summary = FELM_GEN.summarise(docs, verdicts)
    assert math_verdict["errors"] == [None, "reasoning"]
    assert math_verdict["cut_refused"] == "no piece 1"
    assert summary["cuts_refused"] == {"no piece 1": 1}


def test_refused_split_is_requested_once_more(server, judge, docs, responses):
    """The second request says what is wrong with the judge's first reply."""
    server.script = refuse_to_cut

    FELM_GEN.judge(judge, docs, responses)

    requests_with_the_problem = [
        prompt for prompt in server.attempts if "cannot be used: no piece 1." in prompt
    ]
    assert len(requests_with_the_problem) == 1


def make_unscored_sample(response, **changes):
    """Make a sample whose verdict is unscored because the judge is down.

    Args:
        response: The response to be judged.
        **changes: Changes of the verdict, as somebody may make them in a file.
    """
    verdict = FELM_GEN.unscored_record(DOC, [response], "the judge is down")
    return {"doc": DOC, "responses": [response], "verdict": {**verdict, **changes}}


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("It is made of iron.", id="answer"),
        pytest.param("I'm sorry, but I can't help with that.", id="refusal"),
    ],
)
def test_unscored_record_agrees_with_its_response(response):
    """A leaderboard makes the record again from the response to check a submission."""
    sample = make_unscored_sample(response)

    assert not FELM_GEN.record_problem(sample)


@pytest.mark.parametrize(
    ("response", "changes", "key"),
    [
        pytest.param(
            "It is made of iron.",
            {"no_answer": "refusal"},
            "no_answer",
            id="an answer called a refusal",
        ),
        pytest.param(
            "I'm sorry, but I can't help with that.",
            {"unscored": None},
            "unscored",
            id="a refusal called scored",
        ),
    ],
)
def test_a_record_that_contradicts_its_response_is_a_problem(response, changes, key):
    """Somebody may have changed the file. A leaderboard makes the record anew and compares it."""
    sample = make_unscored_sample(response, **changes)

    problem = FELM_GEN.record_problem(sample)

    assert problem.startswith(f"its {key!r} does not follow")


def test_a_judged_benchmark_is_found_by_its_name():
    """``lm-factuality judge`` gets the name on the command line."""
    assert make_judged_method("felm_gen") == FELM_GEN


def test_the_names_of_the_judged_benchmarks_are_listed():
    """The help and the errors of ``lm-factuality judge`` show them in this order."""
    names = ["ambigbio", "longform", "simpleqa", "felm_gen", "factor_generation"]
    assert judged_benchmark_names() == names


def test_unknown_judged_benchmark_is_refused_with_a_similar_name():
    """A user who mistypes a name need not look it up."""
    with pytest.raises(ConfigError, match="'felm_gn'; did you mean felm_gen"):
        make_judged_method("felm_gn")


def test_generations_are_read_once_from_files_with_several_filters(tmp_path):
    """lm_eval writes each sample once for each filter, here "judge" and "none"."""
    samples = [
        {"doc": FIRST, "resps": [["It is old."]], "doc_id": 7},
        {"doc": DOC, "resps": [["It is new."]], "doc_id": 7},  # the number is not relied on
    ]
    lines = [
        json.dumps({**sample, "filter": filter_name})
        for filter_name in ("judge", "none")
        for sample in samples
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")

    docs, responses = read_generations([path], FELM_GEN)

    assert docs == [FIRST, DOC]
    assert responses == [("It is old.",), ("It is new.",)]


def test_generations_are_read_from_several_files(tmp_path):
    """The samples of a task may be in several files, in the order of the command line."""
    first_path = tmp_path / "a.jsonl"
    first_path.write_text(to_line(FIRST, ["It is old."]) + "\n", encoding="utf-8")
    second_path = tmp_path / "b.jsonl"
    second_path.write_text(to_line(DOC, ["It is new."]) + "\n", encoding="utf-8")

    docs, responses = read_generations([first_path, second_path], FELM_GEN)

    assert docs == [FIRST, DOC]
    assert responses == [("It is old.",), ("It is new.",)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", ":2: not JSON", id="no JSON"),
        pytest.param("[1]", ":2: no sample of lm_eval", id="list"),
        pytest.param(
            '{"doc": {}}',
            ":2: no sample of lm_eval: expected a JSON object with 'resps'",
            id="no responses",
        ),
        pytest.param(
            to_line({"index": "5"}, ["So."]),
            ": sample 2: 'doc': domain is missing",
            id="document without a domain",
        ),
        pytest.param(
            to_line({**DOC, "reference_texts": [3]}, ["So."]),
            ": sample 2: 'doc': reference_texts[0] is 3; expected a valid string",
            id="reference that is a number",
        ),
        pytest.param(
            to_line(DOC, ["So.", "So?"]),
            ": sample 2: found 2 responses, expected one",
            id="two responses",
        ),
        pytest.param(
            json.dumps({"doc": DOC, "resps": [[[-1.0]]]}),
            ": sample 2: found -1.0 among",
            id="log-probability in place of a text",
        ),
        pytest.param(
            to_line(FIRST, ["So."]), ": sample 2: the same document as", id="document twice"
        ),
    ],
)
def test_a_bad_line_of_a_file_of_samples_is_named(tmp_path, line, message):
    """The first line is sound, so the message has the number of the second."""
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join([to_line(FIRST, ["So."]), line]) + "\n", encoding="utf-8")

    with pytest.raises(DataError, match=re.escape(f"{path}{message}")):
        read_generations([path], FELM_GEN)


def test_a_missing_file_of_samples_is_refused(tmp_path):
    """The message names the file that the user gave."""
    with pytest.raises(DataError, match=r"nothing\.jsonl: no such file"):
        read_generations([tmp_path / "nothing.jsonl"], FELM_GEN)


def test_a_file_without_samples_is_refused(tmp_path):
    """Scores of no samples would look like results."""
    path = tmp_path / "samples.jsonl"
    path.write_text("\n", encoding="utf-8")

    with pytest.raises(DataError, match="no samples"):
        read_generations([path], FELM_GEN)


def find_boundaries(segments):
    """Return the places where segments end, counted in characters without white space."""
    lengths = [len(without_spaces(segment)) for segment in segments]
    return set(itertools.accumulate(lengths))


def read_published_segments(path):
    """Read rows of FELM whose segments make up the response.

    Returns:
        The domain, the response and the segments of each row.
    """
    published = []
    for line in path.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line.replace("\\\\n", "\\n"))
        response = row["response"]
        segments = row["segmented_response"]
        if not isinstance(response, str):  # The responses of two rows are numbers.
            continue
        if max(find_boundaries(segments)) == len(without_spaces(response)):
            published.append((row["domain"], response, segments))
    return published


def test_rules_split_like_the_published_segments(shared):
    """The documentation of ``steps`` states the F1 of segment ends in each domain."""
    published = read_published_segments(shared / "data" / "felm" / "all.jsonl")
    num_shared = Counter()
    num_different = Counter()
    for domain, response, segments in published:
        ours = find_boundaries(cut_by_rules(response).segments)
        theirs = find_boundaries(segments)
        assert max(ours) == max(theirs)
        num_shared[domain] += len(ours & theirs) - 1
        num_different[domain] += len(ours ^ theirs)

    f1 = {
        domain: 2 * num_shared[domain] / (2 * num_shared[domain] + num_different[domain])
        for domain in DOMAINS
    }
    expected = {"wk": 0.89, "science": 0.86, "reasoning": 0.81, "writing_rec": 0.93, "math": 0.75}
    assert f1 == pytest.approx(expected, abs=0.01)
