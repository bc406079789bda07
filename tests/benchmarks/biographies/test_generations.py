"""Reading what models wrote about people."""

import gzip
import json

import pytest

from lm_factuality.benchmarks.biographies.generations import (
    generation_from_doc,
    generation_to_doc,
    name_in_question,
    read_generations,
)
from lm_factuality.benchmarks.biographies.types import RetrievedPassage
from lm_factuality.ground.errors import DataError

QUESTION = {
    "question": "Tell me a bio of Ada Lind (disambiguation)",
    "docs": [
        {"title": "Ada Lind (painter)", "text": "Ada Lind painted.", "id": "7"},
        {"title": "Ada Lind", "text": "Born in 1900."},
    ],
}
ROW = {**QUESTION, "output": "Ada Lind painted [1]."}


@pytest.fixture
def write_rows_file(tmp_path):
    """Return a function that writes rows in ALCE's form."""

    def write(*rows):
        path = tmp_path / "rows.json"
        path.write_text(json.dumps({"data": list(rows), "args": {}}), encoding="utf-8")
        return path

    return write


def test_a_generation_is_read_from_alces_json(write_rows_file):
    """The name is that of the question without "(disambiguation)"."""
    (generation,) = read_generations([write_rows_file(ROW)])

    assert generation.index == "0"
    assert generation.name == "Ada Lind"
    assert generation.output == "Ada Lind painted [1]."
    assert generation.passages[1] == RetrievedPassage("Ada Lind", "Born in 1900.")
    assert generation.entities == ("Ada Lind (painter)", "Ada Lind")


def test_generations_are_read_from_gzip(write_rows_file, tmp_path):
    """The published files are compressed."""
    json_path = write_rows_file(ROW)
    gzip_path = tmp_path / "rows.json.gz"
    gzip_path.write_bytes(gzip.compress(json_path.read_bytes()))

    assert read_generations([gzip_path]) == read_generations([json_path])


def test_generation_is_restored_from_a_task_document(write_rows_file):
    """Samples files hold documents, from which a judge later reads the passages."""
    (generation,) = read_generations([write_rows_file(ROW)])

    doc = json.loads(json.dumps(generation_to_doc(generation)))

    assert generation_from_doc(doc, generation.output) == generation


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            json.dumps({"data": [ROW, {**ROW, "docs": []}]}),
            r"data\[1\].docs is \[\]",
            id="no passages",
        ),
        pytest.param(
            json.dumps({"data": [{**ROW, "output": None}]}),
            r"data\[0\] has no output",
            id="no output",
        ),
        pytest.param(
            json.dumps({"data": [7]}),
            r"data\[0\] is 7; expected a valid dictionary",
            id="number in place of a row",
        ),
        pytest.param(
            json.dumps({"data": [{**ROW, "question": " "}]}),
            r"data\[0\].question is ' '",
            id="empty question",
        ),
        pytest.param(
            json.dumps({"data": [{**ROW, "docs": [{"title": 1}]}]}),
            "title is 1; expected a valid",
            id="title that is a number",
        ),
        pytest.param('{"data": []}', r"data is \[\]", id="no rows"),
        pytest.param('{"a": 1}', "data is missing", id="another object"),
        pytest.param("nonsense", "expected ALCE's JSON", id="no JSON"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep nesting"),
    ],
)
def test_a_file_without_generations_is_refused(tmp_path, content, message):
    """The message names the row and the key that are wrong, so that a user can repair them."""
    path = tmp_path / "rows.json"
    path.write_text(content)

    with pytest.raises(DataError, match=message):
        read_generations([path])


def test_questions_are_read_without_outputs(write_rows_file):
    """The task takes only the questions and passages from a file of generations."""
    (generation,) = read_generations([write_rows_file(QUESTION)], with_outputs=False)

    assert generation.output == ""


def test_generations_without_outputs_are_refused(write_rows_file):
    """A file of questions alone has nothing to judge."""
    with pytest.raises(DataError, match="no output"):
        read_generations([write_rows_file(QUESTION)])


def test_documents_of_a_citation_log_are_split_into_passages(write_rows_file):
    """Such a document holds several passages, each after a line with its title."""
    text = "Ada Lind painted.\nTitle: Ada Lind\nBorn in 1900.\nTitle: Ada Lind\nDied in 1980."
    row = {**ROW, "docs": [{"title": "Ada Lind (painter)", "text": text}]}

    (generation,) = read_generations([write_rows_file(row)])

    assert generation.passages == (
        RetrievedPassage("Ada Lind (painter)", "Ada Lind painted."),
        RetrievedPassage("Ada Lind", "Born in 1900."),
        RetrievedPassage("Ada Lind", "Died in 1980."),
    )


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Tell me a bio of John Hall, Jr.", "John Hall, Jr"),
        ("tell me a biography of Ann (disambiguation)?", "Ann"),
        ("Who is Ann?", "Who is Ann?"),
    ],
)
def test_the_name_is_read_from_the_question(question, name):
    """A question in other words is kept whole, since its name cannot be told."""
    assert name_in_question(question) == name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"name": 3}, "name is 3; expected a valid string", id="name"),
        pytest.param(
            {"passages": None}, "passages is empty; expected a valid tuple", id="passages"
        ),
        pytest.param(
            {"passages": [{"title": "a"}]}, r"passages\[0\].text is missing", id="passage"
        ),
    ],
)
def test_document_from_another_task_is_refused(changes, message):
    """A samples file of another task has other fields, and must not be judged as biographies."""
    doc = {"index": "0", "question": "q", "name": "n", "passages": [], **changes}

    with pytest.raises(ValueError, match=message):
        generation_from_doc(doc, "")


JOINED = {
    "title": "Ada Lind (painter)",
    "text": "Born in 1900.\nTitle: Ada Lind (sailor)\nShe sailed.",
}
ONE = {"title": "Ada Lind (singer)", "text": "She sang."}


@pytest.mark.parametrize(
    ("output", "numbers"),
    [
        pytest.param("Born in 1900 [2][5]. She sang [4]. And so on [4].", (2, 5, 4), id="told"),
        pytest.param("Born in 1900 [2]. She sang [4].", (), id="another number of citations"),
        pytest.param("Born in 1900 [2][5]. She sang [2].", (), id="one number of two passages"),
    ],
)
def test_citation_log_passages_are_numbered_as_in_the_text(write_rows_file, output, numbers):
    """Citation logs keep only the cited passages, in the order of citation.

    The text cites 2, 5 and 4 in this order, and the log has three passages in two documents.
    """
    row = {"question": "Tell me a bio of Ada Lind", "docs": [JOINED, ONE], "output": output}

    (generation,) = read_generations([write_rows_file(row)])

    assert generation.citation_numbers == numbers
    assert generation_from_doc(generation_to_doc(generation), output) == generation


def test_passages_of_a_prompt_have_no_numbers_of_their_own(write_rows_file):
    """None stands for the numbers 1, 2 and so on, by which prompts number passages."""
    (generation,) = read_generations([write_rows_file(ROW)])

    assert generation.citation_numbers is None
