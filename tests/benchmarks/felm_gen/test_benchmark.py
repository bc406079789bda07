"""FELM-gen without lm_eval: what is no answer, cutting, marking, scores, and all of it with a judge
behind a server."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers import Answer
from judges.judge import Judge
from judges.templates import Prompts
from judges.typed import ParsedReply, read_reply
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
    answer_without_thinking,
    apply_judge_cut,
    combine_marks,
    cut_by_rules,
    cutting_subject,
    find_cut_problem,
    find_marks_problem,
    marking_subject,
    split_into_pieces,
    why_no_answer,
)
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import read_generations, to_line
from tests.benchmarks.felm_gen.rule import ROWS, mark
from tests.judges.server import Act

RESPONSES = (
    "It is seven years old. It is made of iron.",
    "A current warms it. There are seven of them.",
    "3 * 4 = 12. So it is seven.",
    "I'm sorry, but I can't help with that.",
    "Two boats carry twelve crates.",
)


DOC = {"index": "1", "domain": ROWS[0][1], "prompt": "Why?", "reference_texts": []}
FIRST = {**DOC, "index": "0"}


@pytest.fixture
def docs():
    return [
        {
            "index": index,
            "domain": domain,
            "prompt": prompt,
            "reference_texts": [text] if text else [],
        }
        for index, domain, prompt, text in ROWS
    ]


@pytest.mark.parametrize(
    ("generation", "reason"),
    [
        ("", EMPTY),
        (" \n ", EMPTY),
        ("...", EMPTY),
        ("12", None),
        ("<think>Let me see", UNFINISHED),
        ("<think>Let me see</think>", EMPTY),
        ("<THINKING>Let me see", UNFINISHED),
        ("It opened in 1870. <Think>Did it", UNFINISHED),
        ("<Thinking>It opened in 1870.</Thinking>I don't know.", REFUSAL),
        ("<think>I can't answer that.</think>It opened in 1870.", None),
        ("I'm sorry, but I can't help with that.", REFUSAL),
        ("I\u2019m sorry, but I can\u2019t help with that.", REFUSAL),
        ("I don't know.", REFUSAL),
        ("As an AI language model, I do not have access to that. Please ask a librarian.", REFUSAL),
        (
            "I do not have personal preferences. However, I can write something if you name a place.",
            REFUSAL,
        ),
        ("Unfortunately, I cannot provide this. Is there anything else?", REFUSAL),
        ("I'm sorry for the wait. The bridge opened in 1870.", None),
        ("I can't say it better than its keeper did. It opened in 1870.", None),
        (
            "I do not have personal preferences, but here are three museums:\n1. Odd\n2. Lind\n3. Noor",
            None,
        ),
        ("We do not know the age of Ada. So it can be any number.", None),
        ("Sorry is a word of regret.", None),
    ],
)
def test_what_is_no_answer(generation, reason):
    assert why_no_answer(generation) == reason


def test_an_answer_is_without_its_thinking():
    assert (
        answer_without_thinking("<think>First a </think> then b</think>\nThe bridge.\n")
        == "The bridge."
    )
    assert answer_without_thinking("<THINKING>First a</THINKING>The bridge.") == "The bridge."
    assert answer_without_thinking("<think>First a") == "<think>First a"


def test_rules_cut_by_domain():
    text = "It opened in 1870. It is old:\n\n- of iron\n\nDr. Lind built it."
    assert cut_by_rules(text, "wk").segments == [
        "It opened in 1870.",
        "It is old:\n\n- of iron\n\nDr. Lind built it.",
    ]
    assert cut_by_rules(text, "math").segments == [
        "It opened in 1870.",
        "It is old:",
        "- of iron",
        "Dr. Lind built it.",
    ]


TEXT = "So 1 000 + 1 = 1 001.\nAdd 2:  1 003. Done"  # four pieces


def grouped(reply: object, text: str = TEXT) -> ParsedReply[CutReply]:
    answer = reply if isinstance(reply, Answer) else Answer(json.dumps(reply), "stop")
    return read_reply(answer, CutReply, cutting_subject(text), find_cut_problem)


def test_a_judges_cut_is_the_responses_own_text():
    segments = ["So 1 000 + 1 = 1 001.\nAdd 2:  1 003.", "Done"]
    assert apply_judge_cut(TEXT, "math", grouped({"segments": [[1, 2], [], [3]]})) == Cut(
        segments, "judge"
    )


@pytest.mark.parametrize(
    ("reply", "refused"),
    [
        ([[1], [3]], "no piece 2"),
        ([[1, 2], [2, 3]], "piece 2 twice"),
        ([[2], [1], [3]], "pieces out of order"),
        ([[1], [2], [3], [4]], "piece 4 of 3"),
        ([], "no piece 1, 2, 3"),
        ({"segments": ["So", "Done"]}, "wrong form: segments.N: Input should be a valid list"),
        (Answer("So 1 000 + 1 = 1 001.", "stop"), "no JSON object"),
        (Answer("", "stop"), "empty answer"),
        (Answer('{"segments": [[1]', "length"), "cut off"),
        (Answer(None, error="timed out"), "judge error: timed out"),
    ],
)
def test_a_cut_without_every_piece_is_not_taken(reply, refused):
    assert apply_judge_cut(TEXT, "math", grouped(reply)) == replace(
        cut_by_rules(TEXT, "math"), cut_refused=refused
    )


@given(st.text(alphabet="abA7.?* é\n\t\u2028\x1f", max_size=60), st.sets(st.integers(1, 12)))
def test_wherever_a_judge_cuts_nothing_is_lost(text, ends):
    """Cut behind the pieces ``ends``."""
    count = len(split_into_pieces(text))
    borders = sorted({0, *(end for end in ends if end < count), count})
    groups = [list(range(start + 1, end + 1)) for start, end in itertools.pairwise(borders)]
    found = apply_judge_cut(text, "math", grouped({"segments": groups}, text))
    assert (found.cut_by, len(found.segments)) == ("judge", len(groups))
    assert "".join("".join(found.segments).split()) == "".join(text.split())
    assert all(segment == segment.strip() and segment in text for segment in found.segments)


def marks(*said: object, segments: int = 3) -> list[ParsedReply[MarksReply]]:
    """Replies, each a list of (number, type) or an answer."""
    answers = [
        each
        if isinstance(each, Answer)
        else Answer(
            json.dumps(
                {
                    "wrong": [
                        {"number": number, "reason": "so", "type": kind} for number, kind in each
                    ]
                }
            ),
            "stop",
        )
        for each in said
    ]
    return [
        read_reply(each, MarksReply, {"units": ["s"] * segments}, find_marks_problem)
        for each in answers
    ]


@pytest.mark.parametrize(
    ("said", "domain", "errors"),
    [
        ([(2, "fooled")], "wk", (None, "fooled", None)),
        ([(3, "knowledge"), (1, "irrelevant")], "wk", ("irrelevant", None, "knowledge")),
        ([(1, None), (2, "reasoning")], "science", ("untyped", "reasoning", None)),
        ([(3, "knowledge")], "math", (None, None, "reasoning")),
        ([(3, None)], "reasoning", (None, None, "reasoning")),
        ([], "wk", (None, None, None)),
        (
            Answer('<think>{"wrong": [{"number": 1, "reason": "no"}]}</think>{"wrong": []}'),
            "wk",
            (None, None, None),
        ),
        (Answer('{"wrong": [{"number": 1, "reason": "no"}]}'), "wk", ("untyped", None, None)),
    ],
)
def test_marks_and_their_types(said, domain, errors):
    assert combine_marks(marks(said), 3, domain) == list(errors)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Answer("Let me see", "length"), "cut off"),
        (Answer("", "stop"), "empty answer"),
        (Answer("", "content_filter"), "content filter"),
        ([(4, "fooled")], "segment 4 of 3"),
        ([(0, "fooled")], "segment 0 of 3"),
        ([(1, "fooled"), (1, None)], "segment 1 twice"),
        (
            [(1, "spelling")],
            "wrong form: wrong.N.type: Input should be 'knowledge', 'reasoning', 'irrelevant' or 'fooled'",
        ),
        (Answer("I'm sorry, I cannot judge that."), "no JSON object"),
        (Answer(None, error="no evidence: the lexical judge needs passages"), "no evidence"),
        (Answer(None, error="400: no such thing"), "judge error: 400: no such thing"),
    ],
)
def test_what_cannot_be_read_is_unscored(said, reason):
    with pytest.raises(UnreadableAnswerError) as error:
        combine_marks(marks(said), 3, "wk")
    assert str(error.value) == reason


def test_several_samples_vote_on_errors_and_on_types():
    said = marks(
        [(1, "fooled"), (2, "knowledge")],
        [(1, "knowledge")],
        [(1, "knowledge")],
        Answer("?"),
        segments=2,
    )
    assert combine_marks(said, 2, "wk") == ["knowledge", None]
    none = marks(Answer("?"), Answer("?"))
    with pytest.raises(UnreadableAnswerError, match="^none of 2 outputs .*: no JSON object$"):
        combine_marks(none, 2, "wk")


def test_the_judge_sees_question_segments_and_references(docs):
    subject = marking_subject(docs[0], ["It is\nold.", "It is of iron."])
    assert subject["kind"] == "marks"
    assert subject["units"] == ["It is old.", "It is of iron."]
    assert subject["passages"] == docs[0]["reference_texts"]
    prompt = Prompts().render("felm_gen/mark_segments", subject)
    assert prompt.endswith(
        "Question: How old is the Lantern Bridge?\nSegments:\n1. It is old.\n2. It is of iron.\nReference document:\n"
        "The Lantern Bridge was opened in 1870 and is made of iron.\n\nWhich of these segments contain factual errors, and of which "
        "type? Reply with the JSON object alone."
    )
    without = Prompts().render(
        "felm_gen/mark_segments",
        marking_subject({**docs[2], "reference_texts": ["x"]}, ["It is 12."]),
    )
    assert "reference document" not in without.lower()


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_examples_of_marks_validate(domain, docs):
    subject = marking_subject({**docs[0], "domain": domain}, ["So."])
    prompt = Prompts().render("felm_gen/mark_segments", subject)
    examples = [line for line in prompt.splitlines() if line.startswith('{"wrong": [')][1:]
    found = [combine_marks(marks(Answer(example)), 3, "wk") for example in examples]
    kinds = [None, "knowledge", None]
    if domain in ("math", "reasoning"):
        kinds = [None, "reasoning", "reasoning"]
    assert found == [kinds, [None, None, None]]


def test_the_example_of_a_cut_validates():
    prompt = Prompts().render("felm_gen/segment", cutting_subject("So. No."))
    _, example, pieces = prompt.rsplit(":\n\n", 2)
    numbered, _, reply = example.partition("\n{")
    cut_reply = CutReply.model_validate_json("{" + reply.splitlines()[0])
    assert find_cut_problem(cut_reply, {"pieces": numbered.splitlines()}) == ""
    assert pieces == "1. So.\n2. No."


def record(domain, errors, unscored=None, no_answer=None, segments=None):
    size = len(errors) if errors is not None else segments or 0
    return {
        "domain": domain,
        "errors": errors,
        "segments": ["s"] * size,
        "unscored": unscored,
        "no_answer": no_answer,
        "cut_by": None if no_answer else "sentences",
        "cut_refused": None,
    }


def summary_of(*records):
    return FELM_GEN.summarise([{}] * len(records), records)


def test_scores_of_an_example_worked_by_hand():
    summary = summary_of(
        record("wk", [None, "knowledge", "fooled"]),
        record("wk", [None]),
        record("math", ["reasoning", None]),
        record("math", None, unscored="no answer line", segments=4),
        record("wk", None, unscored="no answer: empty", no_answer="empty"),
    )
    segment, response = summary["segment_error_rate"], summary["response_error_rate"]
    assert (segment["value"], segment["rows"]) == (3 / 6, 3)
    assert (segment["worst"], segment["best"]) == (0.7, 0.3)
    assert (response["value"], response["worst"], response["best"]) == (2 / 3, 0.75, 0.5)
    assert segment["interval"][0] < 0.5 < segment["interval"][1]
    assert summary["wrong_segments"] == {"knowledge": 1, "fooled": 1, "reasoning": 1}
    assert summary["segment_error_rate_wk"]["value"] == 0.5
    assert summary["segment_error_rate_math"]["interval"] is None  # one response
    assert (summary["unscored"], summary["no_answer"]) == ({"no answer line": 1}, {"empty": 1})


def test_scores_of_nothing_are_null():
    summary = summary_of(
        record("wk", None, unscored="no answer: refusal", no_answer="refusal"),
    )
    assert summary["segment_error_rate"]["value"] is None
    assert summary["response_error_rate"]["worst"] is None
    json.dumps(summary, allow_nan=False)
    assert FELM_GEN.summary_table(summary)[1][0][1] == "-"


def test_a_judge_behind_a_server(server, config, docs, tmp_path):
    server.script = mark
    responses = [[text] for text in RESPONSES]
    with Judge.open(config(), tmp_path / "store.sqlite") as judge:
        plans = dict(FELM_GEN.plan_questions(judge, docs, responses))
        assert not server.bodies
        verdicts = FELM_GEN.judge(judge, docs, responses)
        sent = len(server.bodies)
        assert sent == plans["marking"].to_send == 1 + 4
        assert FELM_GEN.judge(judge, docs, responses) == verdicts
    assert len(server.bodies) == sent
    assert [each["errors"] for each in verdicts] == [
        ["knowledge", None],
        [None, "knowledge"],
        [None, "reasoning"],
        None,
        [None],
    ]
    assert [each["cut_by"] for each in verdicts] == [
        "sentences",
        "sentences",
        "judge",
        None,
        "paragraphs",
    ]
    assert verdicts[3]["unscored"] == "no answer: refusal"
    assert verdicts[0]["segments"] == ["It is seven years old.", "It is made of iron."]


def test_a_judge_that_cannot_cut_still_marks(server, config, docs, tmp_path):
    server.script = lambda prompt, attempt: (
        Act(text='{"segments": [[2]]}') if "pieces to group" in prompt else mark(prompt, attempt)
    )
    with Judge.open(config(), tmp_path / "store.sqlite") as judge:
        verdicts = FELM_GEN.judge(judge, docs, [[text] for text in RESPONSES])
    assert verdicts[2]["errors"] == [None, "reasoning"]
    assert verdicts[2]["cut_refused"] == "no piece 1"
    assert FELM_GEN.summarise(docs, verdicts)["cuts_refused"] == {"no piece 1": 1}
    assert (
        sum("It cannot be used: no piece 1." in prompt for prompt in server.attempts) == 1
    )  # asked once more


@pytest.mark.parametrize(
    ("number", "changes", "wrong"),
    [
        (0, {}, None),
        (3, {}, None),
        (0, {"no_answer": "refusal"}, "no_answer"),
        (3, {"unscored": None}, "unscored"),
    ],
)
def test_whether_a_response_is_an_answer_follows_from_it(docs, number, changes, wrong):
    doc, responses = docs[number], [RESPONSES[number]]
    verdict = {**FELM_GEN.unscored_record(doc, responses, "the judge is down"), **changes}
    problem = FELM_GEN.record_problem({"doc": doc, "responses": responses, "verdict": verdict})
    assert (problem or "").startswith(f"its {wrong!r} does not follow" if wrong else "")
    assert bool(problem) == bool(wrong)


def test_benchmarks_are_found_by_name():
    assert make_judged_method("felm_gen") == FELM_GEN
    names = ["ambigbio", "longform", "simpleqa", "felm_gen", "factor_generation"]
    assert judged_benchmark_names() == names
    with pytest.raises(ConfigError, match="'felm_gn'; did you mean felm_gen"):
        make_judged_method("felm_gn")


def test_samples_of_several_files_and_filters(docs, tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lines = [
        {"doc": doc, "resps": [[text]], "doc_id": 7}
        for doc, text in zip(docs, RESPONSES, strict=True)
    ]
    content = [
        json.dumps({**line, "filter": name}) for name in ("judge", "none") for line in lines[:3]
    ]
    first.write_text("\n".join(content) + "\n\n", encoding="utf-8")
    second.write_text(to_line(docs[3], [RESPONSES[3]]) + "\n", encoding="utf-8")
    assert read_generations([first, second], FELM_GEN) == (
        docs[:4],
        [(text,) for text in RESPONSES[:4]],
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", ":2: not JSON"),
        ("[1]", ":2: no sample of lm_eval"),
        ('{"doc": {}}', ":2: no sample of lm_eval: expected a JSON object with 'resps'"),
        (to_line({"index": "5"}, ["So."]), ": sample 2: 'doc': domain is missing"),
        (
            to_line({**DOC, "reference_texts": [3]}, ["So."]),
            ": sample 2: 'doc': reference_texts[0] is 3; expected a valid string",
        ),
        (to_line(DOC, ["So.", "So?"]), ": sample 2: found 2 responses, expected one"),
        (json.dumps({"doc": DOC, "resps": [[[-1.0]]]}), ": sample 2: found -1.0 among"),
        (to_line(FIRST, ["So."]), ": sample 2: the same document as"),
    ],
)
def test_a_bad_line_of_a_samples_file_is_named(tmp_path, bad, message):
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join([to_line(FIRST, ["So."]), bad]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(f"{path}{message}")):
        read_generations([path], FELM_GEN)


def test_files_without_samples_are_named(tmp_path):
    path = tmp_path / "samples.jsonl"
    with pytest.raises(DataError, match=r"nothing\.jsonl: no such file"):
        read_generations([tmp_path / "nothing.jsonl"], FELM_GEN)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="no samples"):
        read_generations([path], FELM_GEN)


def test_cuts_by_rules_against_the_published_segments(shared: Path):
    """Boundary F1 over the responses whose segments make up the whole response; the figures of
    ``steps``."""
    found = {domain: Counter[str]() for domain in DOMAINS}
    path = shared / "data" / "felm" / "all.jsonl"
    for line in path.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line.replace("\\\\n", "\\n"))
        response = row["response"]
        if not isinstance(response, str):  # of two rows it is a number
            continue
        published = _boundaries(row["segmented_response"])
        if max(published) != len("".join(response.split())):
            continue
        ours = _boundaries(cut_by_rules(response, row["domain"]).segments)
        assert max(ours) == max(published)
        found[row["domain"]].update(tp=len(ours & published) - 1, wrong=len(ours ^ published))
    scores = {
        domain: 2 * each["tp"] / (2 * each["tp"] + each["wrong"]) for domain, each in found.items()
    }
    expected = {"wk": 0.90, "science": 0.89, "reasoning": 0.82, "writing_rec": 0.90, "math": 0.75}
    assert scores == pytest.approx(expected, abs=0.01)


def _boundaries(segments):
    lengths = [len("".join(segment.split())) for segment in segments]
    return set(itertools.accumulate(lengths))
