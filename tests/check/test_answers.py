"""Answers are read from every format, unclear input is one error, and bad rows are reported."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.check.answers import (
    MAX_ANSWER_BYTES,
    Answer,
    is_samples_file,
    parse_columns,
    read_answers,
)
from lm_factuality.ground.errors import ConfigError, DataError

ROWS = [
    {"id": "a", "question": "Who?", "answer": "Ada sang."},
    {"id": "b", "question": "", "answer": 'She said "no",\nand left.'},
]
CSV_TEXT = 'id,question,answer\na,Who?,Ada sang.\nb,,"She said ""no"",\nand left."\n'
CSV_TEXT_WITH_SEMICOLONS = (
    'id;question;answer\na;Who?;Ada sang.\nb;;"She said ""no"",\nand left."\n'
)
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": [{"type": "text", "text": "Who sang?"}]},
    {"role": "assistant", "content": "Ada sang."},
    {"role": "user", "content": "Thanks"},
]


def write(folder: Path, name: str, text: str) -> Path:
    """Write a text file, and the folders above it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def json_lines(rows: list[dict]) -> str:
    """Return rows as JSON Lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def write_format(folder: Path, name: str) -> Path:
    """Write ``ROWS`` to a file in the format of its ending."""
    if name.endswith(".parquet"):
        path = folder / name
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
        return path
    texts = {
        "answers.csv": CSV_TEXT,
        "semicolons.csv": CSV_TEXT_WITH_SEMICOLONS,
        "answers.jsonl": json_lines(ROWS),
        "answers.json": json.dumps(ROWS),
        "nested.json": json.dumps({"model": "m", "data": ROWS}),
    }
    return write(folder, name, texts[name])


@pytest.mark.parametrize(
    "name",
    ["answers.csv", "semicolons.csv", "answers.jsonl", "answers.json", "nested.json", "a.parquet"],
)
def test_every_format_of_tables_gives_the_same_answers(tmp_path, name):
    path = write_format(tmp_path, name)

    first, second = read_answers(path).answers

    assert first == Answer(id="a", question="Who?", text="Ada sang.", location=f"{name}, row 1")
    assert second == Answer(
        id="b", question="", text='She said "no",\nand left.', location=f"{name}, row 2"
    )


def test_a_table_with_tabs_is_read(tmp_path):
    path = write(tmp_path, "answers.tsv", "question\tanswer\nWho?\tAda, of course.\n")

    (answer,) = read_answers(path).answers

    assert answer.question == "Who?"
    assert answer.text == "Ada, of course."
    assert answer.location == "answers.tsv, row 1"


def test_columns_prompt_and_response_are_recognized(tmp_path):
    path = write(tmp_path, "answers.tsv", "Prompt\tModel\tResponse\nWho?\tm\tAda, of course.\n")

    (answer,) = read_answers(path).answers

    assert answer.id == "1"
    assert answer.question == "Who?"
    assert answer.text == "Ada, of course."


@pytest.mark.parametrize("column", ["Answer", " ANSWER ", "completion", "Reply", "text"])
def test_the_usual_names_of_columns_are_found(tmp_path, column):
    """Most files need no ``--columns``."""
    path = write(tmp_path, "a.jsonl", json_lines([{column: "Ada sang.", "Answer ID": 7}]))

    (answer,) = read_answers(path).answers

    assert answer.id == "7"
    assert answer.text == "Ada sang."


def test_named_columns_replace_the_usual_names(tmp_path):
    """The column "answer" has the reference here, and "reply" the model's answer."""
    path = write(tmp_path, "a.csv", "answer,reply,ask,nr\ngold,Ada sang.,Who?,x1\n")

    (answer,) = read_answers(path, {"answer": "reply", "question": "ask", "id": "nr"}).answers

    assert answer.id == "x1"
    assert answer.question == "Who?"
    assert answer.text == "Ada sang."


def test_one_error_lists_all_problems_with_columns(tmp_path):
    """The user sees the columns and the first row, and can write the option ``--columns``."""
    path = write(tmp_path, "a.csv", "frage,antwort\nWer?,Ada sang.\n")

    with pytest.raises(DataError) as error:
        read_answers(path, {"question": "fragen", "id": "nr"})

    message = str(error.value)
    assert "--columns question=fragen: no such column; did you mean frage?" in message
    assert "--columns id=nr: no such column" in message
    assert "no column is called answer, response" in message
    assert "Columns: frage, antwort" in message
    assert "First row: frage='Wer?', antwort='Ada sang.'" in message
    assert "--columns answer=NAME" in message


def test_ambiguous_answer_column_is_an_error(tmp_path):
    """A check of the wrong column would waste money and mislead."""
    path = write(tmp_path, "a.csv", "question,answer,response\nWho?,Ada,Ada sang.\n")

    with pytest.raises(DataError, match="several columns may have the answers: answer, response"):
        read_answers(path)


def test_an_unknown_role_is_refused(tmp_path):
    """A role says what a column has, and here it is misspelt."""
    with pytest.raises(ConfigError, match="found anwser, expected id, question, answer"):
        read_answers(tmp_path, {"anwser": "reply"})


def test_columns_are_parsed_from_the_command_line():
    """The name of a column may have a sign of equality, such as ``a=b``."""
    columns = parse_columns(["answer=reply", "question=a=b"])

    assert columns == {"answer": "reply", "question": "a=b"}


def test_a_column_without_its_role_is_refused():
    """The option ``--columns`` has the form ``answer=reply``, and here the role is missing."""
    with pytest.raises(ConfigError, match="expected ROLE=NAME"):
        parse_columns(["reply"])


def test_repeated_ids_are_numbered(tmp_path):
    """Each answer needs another id, and the second "a" cannot become "a#2", which is taken."""
    rows = [
        {"id": "a", "answer": "Ada sang."},
        {"id": "a", "answer": "Ada sang."},
        {"id": "a#2", "answer": "Ada sang."},
        {"id": "a", "answer": "Ada sang."},
    ]
    path = write(tmp_path, "a.jsonl", json_lines(rows))

    answers = read_answers(path).answers

    assert [answer.id for answer in answers] == ["a", "a#3", "a#2", "a#4"]


def test_unusable_rows_are_reported_with_a_reason(tmp_path):
    """A broken row must not stop a check of thousands of rows."""
    path = tmp_path / "a.csv"
    long_answer = b"a" * (MAX_ANSWER_BYTES + 1)
    path.write_bytes(b"id,answer\n1,ok\n2\n3,\n4,caf\xe9\n5," + long_answer + b"\n")

    answer_file = read_answers(path)

    assert [answer.id for answer in answer_file.answers] == ["1"]
    assert [(problem.location, problem.reason) for problem in answer_file.problems] == [
        ("a.csv, row 2", "line 3: 1 cells, expected 2 as in the header, with commas between them"),
        ("a.csv, row 3", "the answer is empty"),
        ("a.csv, row 4", "line 5: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("a.csv, row 5", "the answer has 2,000,001 bytes, at most 2,000,000 are checked; split it"),
    ]


def test_short_row_is_reported_with_the_separator(tmp_path):
    """The suite guesses the separator from the header, and the user sees a wrong guess."""
    path = write(tmp_path, "a.csv", "id;answer\n1;ok\n2\n")

    (problem,) = read_answers(path).problems

    assert problem.reason.endswith("with semicolons between them")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the answer is empty"),
        (["Ada"], "found ['Ada'], expected a text"),
        ("\ud800", "the answer has half of a character"),
    ],
)
def test_non_text_value_is_reported(tmp_path, value, reason):
    """The other answers are checked nevertheless."""
    path = write(tmp_path, "a.jsonl", json_lines([{"answer": "Ada sang."}, {"answer": value}]))

    (problem,) = read_answers(path).problems

    assert problem.location == "a.jsonl, row 2"
    assert problem.reason.startswith(reason)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.md", b" \n", "the file is empty"),
        ("a.csv", b"answer\n", "no answers; expected at least one row"),
        ("a.csv", b"answer,id\n,1\n,2\n", "no answer can be used: the answer is empty"),
        ("a.json", b"[]", "no answers"),
        ("a.json", b"{", "not valid JSON"),
        ("a.json", b"3", "found 3, expected a list of objects"),
        ("a.csv", b"answer\n\0\1\2", "a binary file"),
        ("a.csv", "answer\nAda".encode("utf-16"), "a text in UTF-16; save it as UTF-8"),
        ("a.txt", b"caf\xe9", "save it as text in UTF-8"),
        ("a.pdf", b"%PDF-1.7", "ends in '.pdf', expected .csv"),
        ("a.parquet", b"PAR1 no", "not a readable Parquet file"),
    ],
)
def test_unusable_file_is_an_error(tmp_path, name, content, message):
    """A check without answers would look like a check without errors."""
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(DataError, match=message):
        read_answers(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_answers(tmp_path / "a.csv")


def test_a_text_file_is_one_answer(tmp_path):
    """The markup is kept, since claims are marked in the text of the file."""
    path = write(tmp_path, "ada.md", "# Ada\n\nAda sang.\n")

    (answer,) = read_answers(path).answers

    assert answer == Answer(
        id="ada.md", question="", text="# Ada\n\nAda sang.\n", location="ada.md"
    )


def test_each_text_file_of_a_folder_is_an_answer(tmp_path):
    """Hidden files are ignored, and other files without an answer are named with a reason."""
    write(tmp_path, "b.txt", "Bo sang.")
    write(tmp_path, "sub/a.md", "Ada sang.")
    write(tmp_path, ".hidden.md", "No.")
    write(tmp_path, "empty.md", "")
    write(tmp_path, "image.png", "x")

    answer_file = read_answers(tmp_path)

    answer_ids = [answer.id for answer in answer_file.answers]
    reason_by_file = {problem.location: problem.reason for problem in answer_file.problems}
    endings = ".csv, .tsv, .jsonl, .ndjson, .json, .parquet, .txt, .md, .markdown"
    assert answer_ids == ["b.txt", "sub/a.md"]
    assert reason_by_file == {
        "empty.md": "the file is empty; expected answers",
        "image.png": f"the file ends in none of {endings}",
    }


def test_a_folder_without_text_is_an_error(tmp_path):
    """A check without answers would look like a check without errors."""
    write(tmp_path, "image.png", "x")

    with pytest.raises(DataError, match="no answers and no samples of lm_eval"):
        read_answers(tmp_path)


@pytest.mark.parametrize("name", ["chat.jsonl", "chat.json", "messages.json"])
def test_the_last_turn_of_the_assistant_is_the_answer(tmp_path, name):
    """The question is the turn of the user before it."""
    content = MESSAGES if name == "messages.json" else {"id": "c1", "messages": MESSAGES}
    path = write(tmp_path, name, json.dumps(content))

    (answer,) = read_answers(path).answers

    assert answer.text == "Ada sang."
    assert answer.question == "Who sang?"


def test_a_chat_without_an_answer_is_a_problem(tmp_path):
    """The second chat has only the system's and the user's first messages."""
    rows = [{"messages": MESSAGES}, {"messages": MESSAGES[:2]}]
    path = write(tmp_path, "chat.jsonl", json_lines(rows))

    (problem,) = read_answers(path).problems

    assert problem.reason == "the chat has no text of the assistant"


def sample(doc_id: int, doc: dict, response: str, filter_name: str = "none") -> dict:
    """Return a sample of a generating task, as lm_eval writes it."""
    return {
        "doc_id": doc_id,
        "doc": doc,
        "arguments": {"gen_args_0": {"arg_0": "Prompt?", "arg_1": {"until": []}}},
        "resps": [[response]],
        "filtered_resps": ["18"],
        "filter": filter_name,
    }


SAMPLES = [
    sample(0, {"Question": "Who?"}, "<think>Hm.</think>Ada sang."),
    sample(0, {"Question": "Who?"}, "<think>Hm.</think>Ada sang.", filter_name="other"),
    sample(1, {"goal": 3}, "Bo sang."),
]


def test_lm_eval_samples_give_the_unfiltered_answer_without_thoughts(tmp_path):
    """A filter of a task may shorten an answer to a number, which has no claims."""
    unfiltered = {
        "doc_id": 0,
        "doc": {"Question": "Who?"},
        "arguments": {"gen_args_0": {"arg_0": "Prompt?", "arg_1": {"until": []}}},
        "resps": [["<think>Hm.</think>Ada sang."]],
        "filtered_resps": ["18"],
        "filter": "none",
    }
    rows = [unfiltered, {**unfiltered, "filter": "other"}]
    write(tmp_path, "m/samples_qa_2026-01-31T10-00-00.5.jsonl", json_lines(rows))

    (answer,) = read_answers(tmp_path).answers

    assert answer.id == "0"
    assert answer.question == "Who?"
    assert answer.text == "Ada sang."


def test_lm_eval_sample_without_a_question_has_its_prompt_as_the_question(tmp_path):
    write(tmp_path, "samples_qa.jsonl", json_lines([sample(1, {"goal": 3}, "Bo sang.")]))

    (answer,) = read_answers(tmp_path / "samples_qa.jsonl").answers

    assert answer.id == "1"
    assert answer.question == "Prompt?"
    assert answer.text == "Bo sang."


def test_each_response_of_a_sample_is_an_answer(tmp_path):
    """A task may ask the model several times, and its filters repeat rows."""
    repeated = sample(0, {"question": "Who?"}, "Ada sang.")
    repeated["resps"] = [["Ada sang.", "Bo sang."]]
    path = write(tmp_path, "samples_qa.jsonl", json_lines([repeated, {**repeated, "filter": "b"}]))

    answers = read_answers(path).answers

    assert [(answer.id, answer.text) for answer in answers] == [
        ("0", "Ada sang."),
        ("0#2", "Bo sang."),
    ]


def test_a_broken_line_among_samples_is_a_problem_of_its_row(tmp_path):
    """A run that was killed may leave half a line.

    The two answers before it, of which one has two filters, can be checked.
    """
    path = write(tmp_path, "samples_qa.jsonl", json_lines(SAMPLES) + '\n{"doc_id": 2, "doc"')

    answer_file = read_answers(path)

    (problem,) = answer_file.problems
    assert len(answer_file.answers) == 2
    assert problem.location == "samples_qa.jsonl, row 4"
    assert "not valid JSON" in problem.reason


def test_a_folder_may_hold_tables(tmp_path):
    """An answer of a table has the file and the row as its id.

    A table that cannot be used is named.
    """
    write(tmp_path, "a.csv", "answer\nAda sang.\n")
    write(tmp_path, "b/b.txt", "Bo sang.")
    write(tmp_path, "c.csv", "one\ntwo\n")

    answer_file = read_answers(tmp_path)

    (problem,) = answer_file.problems
    assert [answer.id for answer in answer_file.answers] == ["a.csv/1", "b/b.txt"]
    assert "no column is called answer" in problem.reason


def test_loglikelihood_task_is_reported_among_other_tasks(tmp_path):
    """The "responses" of such a task are log-probabilities and no answers."""
    scored = sample(0, {"question": "Who?"}, "-1.0")
    scored["arguments"] = {"gen_args_0": {"arg_0": "Who?", "arg_1": " Ada"}}
    write(tmp_path, "samples_choice_2026-01-31T10-00-00.5.jsonl", json_lines([scored]))
    write(tmp_path, "samples_qa_2026-01-31T10-00-00.5.jsonl", json_lines(SAMPLES))

    answer_file = read_answers(tmp_path)

    (problem,) = answer_file.problems
    assert [answer.id for answer in answer_file.answers] == ["qa/0", "qa/1"]
    assert "the task scores continuations" in problem.reason


def test_samples_of_two_runs_are_an_error(tmp_path):
    """Which run the user means is unknown."""
    for day in ("30", "31"):
        name = f"samples_qa_2026-01-{day}T10-00-00.5.jsonl"
        write(tmp_path, name, json_lines(SAMPLES))

    with pytest.raises(DataError, match="samples of several runs; name one file"):
        read_answers(tmp_path)


def test_results_without_samples_are_an_error(tmp_path):
    """The answers were not kept, and the message says how to keep them."""
    write(tmp_path, "m/results_2026-01-31T10-00-00.5.json", "{}")

    with pytest.raises(DataError, match="run lm_eval again with --log_samples"):
        read_answers(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "is_samples"),
    [
        pytest.param("a.jsonl", json_lines(SAMPLES), True, id="samples"),
        pytest.param("b.jsonl", json_lines(ROWS), False, id="other rows"),
        pytest.param("c.csv", CSV_TEXT, False, id="CSV"),
    ],
)
def test_samples_files_are_recognized(tmp_path, name, content, is_samples):
    """Users rename files, so the content decides."""
    assert is_samples_file(write(tmp_path, name, content)) is is_samples


@pytest.mark.parametrize(
    ("content", "num_answers"),
    [
        (json_lines(ROWS), 2),
        (json.dumps(ROWS, indent=1), 2),
        (CSV_TEXT, 2),
        ("\ufeff" + CSV_TEXT, 2),
        ("question\tanswer\nWho?\tAda\n", 1),
        ("Ada sang, and Bo\nanswered, too.", 1),
        ("[Ada](https://example.org) sang.", 1),
        ("{Ada} sang.", 1),
    ],
)
def test_format_of_standard_input_is_guessed_from_its_start(monkeypatch, content, num_answers):
    """Standard input has no file name whose ending tells the format."""
    stream = SimpleNamespace(buffer=io.BytesIO(content.encode()))
    monkeypatch.setattr("sys.stdin", stream)

    answers = read_answers("-").answers

    assert len(answers) == num_answers
    assert answers[0].location.startswith("standard input")
