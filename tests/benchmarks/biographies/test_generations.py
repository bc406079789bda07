"""Reading what models wrote."""

from __future__ import annotations

import gzip
import json

import pytest

from lm_factuality.benchmarks.biographies.generations import (
    from_doc,
    name_in,
    read_generations,
    to_doc,
)
from lm_factuality.benchmarks.biographies.types import Passage
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
        ("a.json", json.dumps([ROW])),
        ("a.jsonl", f"{json.dumps(ROW)}\n\n"),
        ("a.json.gz", gzip.compress(json.dumps({"data": [ROW]}).encode())),
    ],
)
def test_every_form_of_the_file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (found,) = read_generations([path])
    assert (found.index, found.name, found.output) == ("0", "Ada Lind", "Ada Lind painted [1].")
    assert found.passages[1] == Passage("Ada Lind", "Born in 1900.")
    assert found.entities == ("Ada Lind (painter)", "Ada Lind")
    doc = json.loads(json.dumps(to_doc(found)))
    assert from_doc(doc, found.output) == found


def test_every_broken_row_is_named(tmp_path):
    path = tmp_path / "rows.json"
    rows = [
        ROW,
        {**ROW, "docs": []},
        {**ROW, "output": None},
        7,
        {**ROW, "question": " "},
        {**ROW, "docs": [{"title": 1}]},
    ]
    path.write_text(json.dumps({"data": rows}))
    with pytest.raises(DataError) as caught:
        read_generations([path])
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["row 2", "row 3", "row 4", "row 5", "row 6"]
    assert "docs is []" in lines[0]
    assert "the text that a model wrote" in lines[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": []}', "no rows"),
        (b'{"a": 1}', "row 1: found empty; expected a valid dictionary"),
        (b"nonsense", "not JSON"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}\n" + b"[" * 100_000, "rows.json:2: not JSON"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_generations([path])


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_generations([tmp_path / "no.json"])


def test_questions_alone_need_no_output(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{key: ROW[key] for key in ("question", "docs")}]))
    assert read_generations([path], outputs=False)[0].output == ""
    with pytest.raises(DataError, match="no output"):
        read_generations([path])


def test_documents_of_a_citation_log_are_taken_apart(tmp_path):
    """They hold several passages, each after a line with its title, some of them twice."""
    joined = "Ada Lind painted.\nTitle: Ada Lind\nBorn in 1900.\nTitle: Ada Lind\nDied in 1980."
    path = tmp_path / "rows.json"
    path.write_text(
        json.dumps(
            [{**ROW, "docs": [{"title": "Ada Lind (painter)", "text": joined}, *ROW["docs"]]}]
        )
    )
    (found,) = read_generations([path])
    assert found.passages == (
        Passage("Ada Lind (painter)", "Ada Lind painted."),
        Passage("Ada Lind", "Born in 1900."),
        Passage("Ada Lind", "Died in 1980."),
    )


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Tell me a bio of John Hall, Jr.", "John Hall, Jr"),
        ("tell me a biography of Ann (disambiguation)?", "Ann"),
        ("Who is Ann?", "Who is Ann?"),
    ],
)
def test_the_name_in_a_question(question, name):
    assert name_in(question) == name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name is 3; expected a valid string"),
        ({"passages": None}, "passages is empty; expected a valid tuple"),
        ({"passages": [{"title": "a"}]}, r"passages\[0\].text is missing"),
    ],
)
def test_documents_of_other_tasks(change, message):
    doc = {"index": "0", "question": "q", "name": "n", "passages": [], **change}
    with pytest.raises(ValueError, match=message):
        from_doc(doc, "")


def test_lines_end_at_line_feeds_alone(tmp_path):
    """Models write other line ends too, which str.splitlines would take for those of the file."""
    path = tmp_path / "rows.jsonl"
    row = {**ROW, "output": "Ada Lind\u2028painted\x85 and\x0b rowed."}
    path.write_text(
        "".join(json.dumps(each, ensure_ascii=False) + "\r\n" for each in (row, ROW)),
        encoding="utf-8",
    )
    assert [each.output for each in read_generations([path])] == [row["output"], ROW["output"]]
