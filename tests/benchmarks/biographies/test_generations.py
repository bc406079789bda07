"""Reading what models wrote."""

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

ROW = {
    "question": "Tell me a bio of Ada Lind (disambiguation)",
    "docs": [
        {"title": "Ada Lind (painter)", "text": "Ada Lind painted.", "id": "7"},
        {"title": "Ada Lind", "text": "Born in 1900."},
    ],
    "output": "Ada Lind painted [1].",
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps({"data": [ROW], "args": {}})),
        ("a.json.gz", gzip.compress(json.dumps({"data": [ROW]}).encode())),
    ],
)
def test_generations_are_read_from_json_and_gzip(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (generation,) = read_generations([path])
    assert (generation.index, generation.name, generation.output) == (
        "0",
        "Ada Lind",
        "Ada Lind painted [1].",
    )
    assert generation.passages[1] == RetrievedPassage("Ada Lind", "Born in 1900.")
    assert generation.entities == ("Ada Lind (painter)", "Ada Lind")
    doc = json.loads(json.dumps(generation_to_doc(generation)))
    assert generation_from_doc(doc, generation.output) == generation


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps({"data": [ROW, {**ROW, "docs": []}]}), r"data\[1\].docs is \[\]"),
        (json.dumps({"data": [{**ROW, "output": None}]}), r"data\[0\] has no output"),
        (json.dumps({"data": [7]}), r"data\[0\] is 7; expected a valid dictionary"),
        (json.dumps({"data": [{**ROW, "question": " "}]}), r"data\[0\].question is ' '"),
        (json.dumps({"data": [{**ROW, "docs": [{"title": 1}]}]}), "title is 1; expected a valid"),
        ('{"data": []}', r"data is \[\]"),
        ('{"a": 1}', "data is missing"),
        ("nonsense", "expected ALCE's JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_without_generations_is_refused(tmp_path, content, message):
    path = tmp_path / "rows.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_generations([path])


def test_questions_alone_need_no_output(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"data": [{key: ROW[key] for key in ("question", "docs")}]}))
    assert read_generations([path], with_outputs=False)[0].output == ""
    with pytest.raises(DataError, match="no output"):
        read_generations([path])


def test_documents_of_a_citation_log_are_taken_apart(tmp_path):
    """They hold several passages, each after a line with its title, some of them twice."""
    joined = "Ada Lind painted.\nTitle: Ada Lind\nBorn in 1900.\nTitle: Ada Lind\nDied in 1980."
    path = tmp_path / "rows.json"
    path.write_text(
        json.dumps({"data": [{**ROW, "docs": [{"title": "Ada Lind (painter)", "text": joined}]}]})
    )
    (generation,) = read_generations([path])
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
    assert name_in_question(question) == name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name is 3; expected a valid string"),
        ({"passages": None}, "passages is empty; expected a valid tuple"),
        ({"passages": [{"title": "a"}]}, r"passages\[0\].text is missing"),
    ],
)
def test_a_document_of_another_task_is_refused(change, message):
    doc = {"index": "0", "question": "q", "name": "n", "passages": [], **change}
    with pytest.raises(ValueError, match=message):
        generation_from_doc(doc, "")
