"""FELM-gen without lm_eval: what is no answer, cutting, marking, scores, and all of it with a judge behind a server."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from judges.answers import Answer
from judges.config import load_judge_config
from judges.judge import Judge
from judges.templates import Prompts
from lm_factuality.benchmarks import find_generation, generation_names
from lm_factuality.benchmarks.felm.rows import DOMAINS, read_rows
from lm_factuality.benchmarks.felm_gen import FELM_GEN
from lm_factuality.benchmarks.felm_gen.answers import EMPTY, REFUSAL, UNENDING, no_answer, to_answer
from lm_factuality.benchmarks.felm_gen.marks import mark_subject, read_marks
from lm_factuality.benchmarks.felm_gen.metrics import summarise
from lm_factuality.benchmarks.felm_gen.segments import cut_by_judge, cut_by_rules
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.generations_file import read_samples, to_line
from tests.benchmarks.felm_gen.rule import ROWS, mark

RESPONSES = (
    "It is seven years old. It is made of iron.",
    "A current warms it. There are seven of them.",
    "3 * 4 = 12. So it is seven.",
    "I'm sorry, but I can't help with that.",
    "Two boats carry twelve crates.",
)


@pytest.fixture
def docs():
    return [
        {"index": index, "domain": domain, "prompt": prompt, "reference_texts": [text] if text else []}
        for index, domain, prompt, text in ROWS
    ]


@pytest.mark.parametrize(
    ("generation", "reason"),
    [
        ("", EMPTY),
        (" \n ", EMPTY),
        ("...", EMPTY),
        ("12", None),
        ("<think>Let me see", UNENDING),
        ("<think>Let me see</think>", EMPTY),
        ("<THINKING>Let me see", UNENDING),
        ("It opened in 1870. <Think>Did it", UNENDING),
        ("<Thinking>It opened in 1870.</Thinking>I don't know.", REFUSAL),
        ("<think>I can't answer that.</think>It opened in 1870.", None),
        ("I'm sorry, but I can't help with that.", REFUSAL),
        ("I\u2019m sorry, but I can\u2019t help with that.", REFUSAL),
        ("I don't know.", REFUSAL),
        ("As an AI language model, I do not have access to that. Please ask a librarian.", REFUSAL),
        ("I do not have personal preferences. However, I can write something if you name a place.", REFUSAL),
        ("Unfortunately, I cannot provide this. Is there anything else?", REFUSAL),
        ("I'm sorry for the wait. The bridge opened in 1870.", None),
        ("I can't say it better than its keeper did. It opened in 1870.", None),
        ("I do not have personal preferences, but here are three museums:\n1. Odd\n2. Lind\n3. Noor", None),
        ("We do not know the age of Ada. So it can be any number.", None),
        ("Sorry is a word of regret.", None),
    ],
)
def test_what_is_no_answer(generation, reason):
    assert no_answer(generation) == reason


def test_an_answer_is_without_its_thinking():
    assert to_answer("<think>First a </think> then b</think>\nThe bridge.\n") == "The bridge."
    assert to_answer("<THINKING>First a</THINKING>The bridge.") == "The bridge."
    assert to_answer("<think>First a") == "<think>First a"


def test_rules_cut_by_domain():
    text = "It opened in 1870. It is old:\n\n- of iron\n\nDr. Lind built it."
    assert cut_by_rules(text, "wk").segments == ("It opened in 1870.", "It is old:\n\n- of iron\n\nDr. Lind built it.")
    assert cut_by_rules(text, "math").segments == ("It opened in 1870.", "It is old:", "- of iron", "Dr. Lind built it.")


STARS = "\n*****\n"
TEXT = "So 1 000 + 1 = 1 001.\nAdd 2:  1 003. Done"


@pytest.mark.parametrize(
    ("answer", "segments"),
    [
        (f"So 1 000 + 1 = 1 001.{STARS}Add 2:  1 003.{STARS}Done", ("So 1 000 + 1 = 1 001.", "Add 2:  1 003.", "Done")),
        (f"{STARS}So 1000+1 = 1001.\n  ******* \nAdd 2: 1 003. Done{STARS}", ("So 1 000 + 1 = 1 001.", "Add 2:  1 003. Done")),
        (f"```\nSo 1 000 + 1 = 1 001.{STARS}Add 2:  1 003. Done\n```", ("So 1 000 + 1 = 1 001.", "Add 2:  1 003. Done")),
        (
            f"<think>*****</think>So 1 000 + 1 = 1 001. Add 2: {STARS}1 003. Done",
            ("So 1 000 + 1 = 1 001.\nAdd 2:", "1 003. Done"),
        ),
        (TEXT, (TEXT,)),
    ],
)
def test_a_judges_cut_is_the_responses_own_text(answer, segments):
    cut = cut_by_judge(TEXT, "math", Answer(answer, "stop"))
    assert (cut.segments, cut.by, cut.refused) == (segments, "judge", None)


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (Answer(f"So 1 000 + 1 = 1 002.{STARS}Add 2: 1 003. Done", "stop"), "not the response's text"),
        (Answer(f"So 1 000 + 1 = 1 001.{STARS}Add 2: 1 003.", "stop"), "not the response's text"),
        (Answer(f"Here you are:{STARS}{TEXT}", "stop"), "not the response's text"),
        (Answer(f"Add 2: 1 003. Done{STARS}So 1 000 + 1 = 1 001.", "stop"), "not the response's text"),
        (Answer("So 1 000 ***** + 1 = 1 001. Add 2: 1 003. Done", "stop"), "not the response's text"),
        (Answer("", "stop"), "not the response's text"),
        (Answer("So 1 000 + 1", "length"), "cut off"),
        (Answer(None, error="timed out"), "judge error"),
    ],
)
def test_a_cut_that_changes_the_text_is_not_taken(answer, refused):
    cut = cut_by_judge(TEXT, "math", answer)
    assert (cut.segments, cut.by, cut.refused) == (cut_by_rules(TEXT, "math").segments, "paragraphs", refused)


def test_wherever_a_judge_cuts_nothing_is_lost():
    draw = random.Random(4)
    for _ in range(300):
        text = "".join(draw.choices("ab7.*é \n\t", k=draw.randint(1, 40)))
        if "*****" in text or not text.strip():
            continue
        ends = sorted(draw.sample(range(len(text) + 1), k=min(3, len(text))))
        pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
        cut = cut_by_judge(text, "math", Answer(STARS.join(pieces), "stop"))
        assert cut.by == "judge"
        assert list(cut.segments) == [piece.strip() for piece in pieces if piece.strip()]


@pytest.mark.parametrize(
    ("output", "domain", "errors"),
    [
        ("Thought: no.\nAnswer: 2\nType 2: fooled", "wk", (None, "fooled", None)),
        (
            "Answer: 1, 3\n**Type 1:** Irrelevant (off topic)\n- Type of segment 3: **knowledge** error",
            "wk",
            ("irrelevant", None, "knowledge"),
        ),
        ("Answer: 1,2\nType 2: reasoning\nType 3: fooled", "science", ("untyped", "reasoning", None)),
        ("Answer: 1\nType 1: spelling", "wk", ("untyped", None, None)),
        ("Answer: 3\nType 3: knowledge", "math", (None, None, "reasoning")),
        ("Answer: 3", "reasoning", (None, None, "reasoning")),
        ("<think>Answer: 1\nType 1: fooled</think>Answer: ALL_CORRECT", "wk", (None, None, None)),
    ],
)
def test_marks_and_their_types(output, domain, errors):
    assert read_marks([Answer(output, "stop")], 3, domain).errors == errors


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("Thought: well", "length"), "cut off before the answer"),
        (Answer("", "stop"), "empty output"),
        (Answer("Answer: 4\nType 4: fooled", "stop"), "id 4 of 3"),
        (Answer("I'm sorry, I cannot judge that.", "stop"), "no answer line"),
        (Answer("The first is wrong.", "stop"), "no answer line"),
        (Answer(None, error="no evidence: the lexical judge needs passages"), "no evidence"),
        (Answer(None, error="400:\nno such thing"), "judge error: 400: no such thing"),
        (Answer("Answer: 1", "content_filter"), "the judge's answer was filtered"),
    ],
)
def test_what_cannot_be_read_is_unscored(answer, reason):
    marks = read_marks([answer], 3, "wk")
    assert (marks.errors, marks.reason) == (None, reason)


def test_an_answer_before_a_cut_off_type_counts():
    assert read_marks([Answer("Answer: 1\nType 1: know", "length")], 2, "wk").errors == ("untyped", None)


def test_several_samples_vote_on_errors_and_on_types():
    said = ["Answer: 1,2\nType 1: fooled\nType 2: knowledge", "Answer: 1\nType 1: knowledge", "Answer: 1\nType 1: knowledge", "?"]
    assert read_marks([Answer(text, "stop") for text in said], 2, "wk").errors == ("knowledge", None)
    assert read_marks([Answer("?", "stop")] * 2, 2, "wk").reason == "none of 2 outputs can be read, the first: no answer line"


def test_the_judge_sees_question_segments_and_references(docs):
    subject = mark_subject(docs[0], ["It is\nold.", "It is of iron."])
    assert subject["kind"] == "segments"
    assert subject["units"] == ["It is old.", "It is of iron."]
    assert subject["passages"] == docs[0]["reference_texts"]
    prompt = Prompts().render("felm_gen/mark_segments", subject)
    assert prompt.rsplit("Now the one to judge:", 1)[1].strip() == (
        "Question: How old is the Lantern Bridge?\nSegments:\n1. It is old.\n2. It is of iron.\nReference document:\n"
        "The Lantern Bridge was opened in 1870 and is made of iron.\n\nWhich of these segments contain factual errors, and of which "
        'type? Begin with "Thought:", as in the example.\n\nYour output:'
    )
    without = Prompts().render("felm_gen/mark_segments", mark_subject(docs[2], ["It is 12."]))
    assert "reference document" not in without.lower()
    assert "Type 3: reasoning" in without


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_example_in_the_prompt_is_in_its_own_format(domain, docs):
    prompt = Prompts().render("felm_gen/mark_segments", mark_subject({**docs[0], "domain": domain}, ["So."]))
    example = prompt.split("Your output:\n", 1)[1].split("Now the one to judge", 1)[0]
    errors = read_marks([Answer(example, "stop")], 3, "wk").errors
    assert errors is not None
    assert errors[1] == ("reasoning" if domain in ("math", "reasoning") else "knowledge")


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


def test_scores_of_an_example_worked_by_hand():
    summary = summarise(
        [
            record("wk", [None, "knowledge", "fooled"]),
            record("wk", [None]),
            record("math", ["reasoning", None]),
            record("math", None, unscored="no answer line", segments=4),
            record("wk", None, unscored="no answer: empty", no_answer="empty"),
        ]
    )
    everything = summary["ALL"]
    assert [everything[key] for key in ("responses", "scored", "no_answer", "unscored")] == [5, 3, 1, 1]
    segment, response = everything["segment"], everything["response"]
    assert (segment["errors"], segment["units"], segment["error_rate"]) == (3, 6, 0.5)
    assert (segment["worst"], segment["best"]) == (0.7, 0.3)
    assert (response["errors"], response["units"]) == (2, 3)
    assert (response["worst"], response["best"]) == (0.75, 0.5)
    assert segment["interval"][0] < 0.5 < segment["interval"][1]
    assert everything["error_types"] == {"knowledge": 1, "reasoning": 1, "irrelevant": 0, "fooled": 1, "untyped": 0}
    assert summary["wk"]["segment"]["error_rate"] == 0.5
    assert summary["math"]["segment"]["interval"] is None  # one response
    assert (summary["unscored"], summary["no_answer"]) == ({"no answer line": 1}, {"empty": 1})


def test_scores_of_nothing_are_null():
    summary = summarise([record("wk", None, unscored="no answer: refusal", no_answer="refusal")])
    assert summary["ALL"]["segment"]["error_rate"] is None
    assert summary["ALL"]["response"]["worst"] is None
    json.dumps(summary, allow_nan=False)
    assert FELM_GEN.table(summary)[1][0][2] == "-"


def test_a_judge_behind_a_server(server, config, docs, tmp_path):
    server.script = mark
    responses = [[text] for text in RESPONSES]
    with Judge.open(config(), tmp_path / "store.sqlite") as judge:
        plans = dict(FELM_GEN.plan(judge, docs, responses))
        assert not server.bodies
        verdicts = FELM_GEN.judge(judge, docs, responses)
        sent = len(server.bodies)
        assert sent == plans["cutting"].to_send + plans["marking"].to_send == 1 + 4
        assert FELM_GEN.judge(judge, docs, responses) == verdicts
    assert len(server.bodies) == sent
    assert [each["errors"] for each in verdicts] == [["knowledge", None], [None, "knowledge"], [None, "reasoning"], None, [None]]
    assert [each["cut_by"] for each in verdicts] == ["sentences", "sentences", "judge", None, "paragraphs"]
    assert verdicts[3]["unscored"] == "no answer: refusal"
    assert verdicts[0]["segments"] == ["It is seven years old.", "It is made of iron."]


def test_a_judge_that_cannot_cut_still_marks(server, config, docs, tmp_path):
    server.script = lambda prompt, attempt: (
        mark(prompt, attempt) if "Now the one to judge" in prompt else mark("Now the text to cut: No! Your output:", 0)
    )
    with Judge.open(config(), tmp_path / "store.sqlite") as judge:
        verdicts = FELM_GEN.judge(judge, docs, [[text] for text in RESPONSES])
    assert verdicts[2]["errors"] == [None, "reasoning"]
    assert verdicts[2]["cut_refused"] == "not the response's text"
    assert summarise(verdicts)["cuts_refused"] == {"not the response's text": 1}


def test_the_lexical_judge_has_a_verdict_where_there_is_evidence(docs, tmp_path):
    with Judge.open(load_judge_config("lexical"), tmp_path / "store.sqlite") as judge:
        verdicts = FELM_GEN.judge(
            judge,
            docs,
            [["The Lantern Bridge was opened in 1870. It was built by seven bakers."], *([text] for text in RESPONSES[1:])],
        )
    assert verdicts[0]["errors"] == [None, "untyped"]
    assert [each["unscored"] for each in verdicts] == [None, None, "no evidence", "no answer: refusal", "no evidence"]
    assert verdicts[2]["cut_by"] == "paragraphs"


def test_benchmarks_are_found_by_name():
    assert find_generation("felm_gen") is FELM_GEN
    assert generation_names() == ["ambigbio", "felm_gen", "factor_generation"]
    with pytest.raises(ConfigError, match="'felm_gn'; did you mean felm_gen"):
        find_generation("felm_gn")


def test_samples_of_several_files_and_filters(docs, tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lines = [{"doc": doc, "resps": [[text]], "doc_id": 7} for doc, text in zip(docs, RESPONSES, strict=True)]
    content = [json.dumps({**line, "filter": name}) for name in ("judge", "none") for line in lines[:3]]
    first.write_text("\n".join(content) + "\n\n", encoding="utf-8")
    second.write_text(to_line(docs[3], [RESPONSES[3]]) + "\n", encoding="utf-8")
    samples = read_samples([first, second], FELM_GEN)
    assert list(samples.docs) == docs[:4]
    assert samples.responses == tuple((text,) for text in RESPONSES[:4])


def test_every_bad_line_of_a_samples_file_is_named(docs, tmp_path):
    good = to_line(docs[0], ["So."])
    bad = {
        "{": "not JSON",
        "[1]": "found a list, expected a JSON object",
        '{"doc": {}}': "no 'resps'",
        to_line({"index": "5"}, ["So."]): "'doc': no 'domain'; found index",
        to_line({**docs[1], "reference_texts": [3]}, ["So."]): "'doc': reference_texts[0]: found 3, expected a text",
        to_line(docs[1], ["So.", "So?"]): "found 2 responses, expected one",
        json.dumps({"doc": docs[1], "resps": [[[-1.0, True]]]}): "has to hold generated texts",
        good: "the same document as",
    }
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join([good, *bad]) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_samples([path], FELM_GEN)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(bad)
    for number, (line, message) in enumerate(zip(lines, bad.values(), strict=True), 2):
        assert line.startswith(f"{path}:{number}: ")
        assert message in line
    with pytest.raises(DataError, match=r"nothing\.jsonl: no such file"):
        read_samples([tmp_path / "nothing.jsonl"], FELM_GEN)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="no samples"):
        read_samples([path], FELM_GEN)


def test_cuts_by_rules_against_the_published_segments(shared: Path):
    """Boundary F1, over the responses whose segments make up the whole response; the figures of ``segments``."""
    found = {domain: Counter[str]() for domain in DOMAINS}
    for row in read_rows(shared / "data" / "felm" / "all.jsonl"):
        response = row.response.replace("\\n", "\n")
        published = _boundaries([segment.replace("\\n", "\n") for segment in row.segments])
        if max(published) != len("".join(response.split())):
            continue
        ours = _boundaries(cut_by_rules(response, row.domain).segments)
        assert max(ours) == max(published)
        found[row.domain].update(tp=len(ours & published) - 1, wrong=len(ours ^ published))
    scores = {domain: 2 * each["tp"] / (2 * each["tp"] + each["wrong"]) for domain, each in found.items()}
    expected = {"wk": 0.90, "science": 0.89, "reasoning": 0.82, "writing_rec": 0.90, "math": 0.75}
    assert scores == pytest.approx(expected, abs=0.01)


def test_few_of_the_published_responses_are_refusals(shared: Path):
    rows = read_rows(shared / "data" / "felm" / "all.jsonl")
    refused = [row for row in rows if no_answer(row.response)]
    assert len(refused) == 4
    assert all(all(row.labels) for row in refused)


def _boundaries(segments):
    ends, seen = set(), 0
    for segment in segments:
        seen += len("".join(segment.split()))
        ends.add(seen)
    return ends
