"""Knowledge sources: built from files, interrupted and gone on with, FActScore's own, titles, and
files that are none."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
import unicodedata

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import sources
from lm_factuality.retrieval.build import build_knowledge
from lm_factuality.retrieval.knowledge import SEPARATOR, Knowledge, split_page
from tests.conftest import TASKS

ENCYCLOPEDIA = TASKS / "sample" / "encyclopedia.jsonl"


@pytest.fixture
def rows():
    return [json.loads(line) for line in ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def factscore_db(tmp_path):
    """A file as FActScore's scripts make it."""
    path = tmp_path / "enwiki.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE documents (title PRIMARY KEY, text);")
    text = SEPARATOR.join(
        ["<s>Ada Lind was a painter.</s><s>She lived in Orrmark.</s>", "<s>She died in 1923.</s>"]
    )
    connection.executemany(
        "INSERT INTO documents VALUES (?,?)",
        [("Ada Lind", text), ("Émile Røst", "He rowed."), ("Odd", 3)],
    )
    connection.commit()
    connection.close()
    return path


def test_pages_are_those_of_the_source(tmp_path, rows):
    built = build_knowledge(ENCYCLOPEDIA, tmp_path / "new" / "knowledge.db")
    assert len(built) == len(rows) == 220
    for row in rows:
        assert " ".join(built.passages(row["title"])) == " ".join(row["text"].split())
    assert built.passages("Nobody at all") is None
    (source,) = built.manifest.sources
    assert source.sha256 == hashlib.sha256(ENCYCLOPEDIA.read_bytes()).hexdigest()
    assert (built.manifest.rows, built.manifest.pages, source.size) == (
        220,
        220,
        ENCYCLOPEDIA.stat().st_size,
    )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["knowledge.db"]


def test_rows_of_one_title_are_passages_of_one_page(tmp_path, write_rows, monkeypatch):
    monkeypatch.setattr(
        sources, "_BATCH_PASSAGES", 2
    )  # so that the page goes over several transactions
    rows = [{"title": title, "text": f"text {number}"} for number, title in enumerate("aabacab")]
    built = build_knowledge(write_rows(rows), tmp_path / "knowledge.db")
    assert built.passages("a") == ["text 0", "text 1", "text 3", "text 5"]
    assert built.passages("b") == ["text 2", "text 6"]
    assert (len(built), built.manifest.rows) == (3, 7)


def test_long_pages_are_cut_into_passages():
    words = [f"w{number}" for number in range(600)]
    passages = split_page("\n".join(words))
    assert [len(passage.split()) for passage in passages] == [256, 256, 88]
    assert " ".join(passages).split() == words
    assert split_page(SEPARATOR.join(["a b", "", " <s>c</s> "])) == ["a b", "c"]
    assert split_page("  ") == []


def test_files_of_factscore_open_as_they_are(factscore_db):
    before = hashlib.sha256(factscore_db.read_bytes()).hexdigest()
    source = Knowledge(factscore_db)
    assert source.passages("Ada Lind") == [
        "Ada Lind was a painter.  She lived in Orrmark.",
        "She died in 1923.",
    ]
    assert len(source) == 3
    assert source.manifest is None
    assert hashlib.sha256(factscore_db.read_bytes()).hexdigest() == before
    identity = source.identity
    connection = sqlite3.connect(factscore_db)
    connection.execute(
        "UPDATE documents SET text = 'He swam.' WHERE title = 'Émile Røst'"
    )  # as long as before
    connection.commit()
    connection.close()
    assert Knowledge(factscore_db).identity != identity


@pytest.mark.parametrize(
    ("asked", "is_found"),
    [
        ("Émile Røst", True),
        (unicodedata.normalize("NFD", "Émile Røst"), True),
        ("Émile_Røst", True),
        (" Émile  Røst ", True),
        ("émile Røst", True),
        ("Emile Rost", False),
        ("ÉMILE RØST", False),
        ("", False),
        ("Émile Røst (rower)", False),
    ],
)
def test_titles_are_found_in_other_spellings(factscore_db, asked, is_found):
    assert Knowledge(factscore_db).passages(asked) == (["He rowed."] if is_found else None)


def test_what_is_there_is_kept(tmp_path, write_rows):
    out = tmp_path / "knowledge.db"
    build_knowledge(write_rows([{"title": "a", "text": "old"}]), out)
    new = write_rows([{"title": "a", "text": "new"}], "new.jsonl")
    with pytest.raises(ConfigError, match="exists; give another name, or --overwrite"):
        build_knowledge(new, out)
    with pytest.raises(DataError, match="no title"):
        build_knowledge(write_rows([{"text": "c"}], "bad.jsonl"), out, overwrite=True)
    assert Knowledge(out).passages("a") == ["old"]
    assert build_knowledge(new, out, overwrite=True).passages("a") == ["new"]
    with pytest.raises(DataError, match="no pages|no passages|no rows"):
        build_knowledge(write_rows([], "empty.jsonl"), tmp_path / "empty.db")
    assert not list(tmp_path.glob("*empty.db*"))


def test_a_source_is_not_replaced(tmp_path, write_rows):
    source = write_rows([{"title": "a", "text": "b"}])
    content = source.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(source)
    for out in (source, tmp_path / "link.jsonl"):
        with pytest.raises(ConfigError, match="itself, which would be lost; give another name"):
            build_knowledge([source], out, overwrite=True)
    assert source.read_bytes() == content


def make_cut(path):
    path.write_bytes(path.read_bytes()[:6000])


def make_other_table(path):
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE pages(name, body)")
    connection.commit()
    connection.close()


# what is done to a sound file: what the error must say
DAMAGE = {
    "gone": (lambda path: path.unlink(), "no such file; make it with"),
    "empty": (lambda path: path.write_bytes(b""), "found the tables none"),
    "JSON": (lambda path: shutil.copy(ENCYCLOPEDIA, path), "file is not a database"),
    "cut": (make_cut, "knowledge.db: cannot be read"),
    "other table": (
        make_other_table,
        "found the tables pages and in documents the columns none, expected a table documents",
    ),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_and_wrong_files_are_errors(tmp_path, damage, expected):
    path = tmp_path / "knowledge.db"
    build_knowledge(ENCYCLOPEDIA, path)
    damage(path)
    with pytest.raises(DataError, match=expected):
        Knowledge(path).passages("Nobody")
    with pytest.raises(DataError, match="no such file"):
        Knowledge(tmp_path)


@pytest.mark.parametrize(("content", "type_name"), [(None, "NoneType"), (b"boat", "bytes")])
def test_a_page_that_is_no_text_is_an_error(content, type_name, tmp_path):
    path = tmp_path / "knowledge.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE documents(title PRIMARY KEY, text)")
    connection.execute("INSERT INTO documents VALUES ('a', ?)", (content,))
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match=f"knowledge.db: the page 'a' is a {type_name}, expected"):
        Knowledge(path).passages("a")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, where nobody can write")
def test_a_place_that_cannot_be_written_is_called_so():
    with pytest.raises(DataError, match=r"^/proc/knowledge.db: cannot be written: "):
        build_knowledge(ENCYCLOPEDIA, "/proc/knowledge.db")
