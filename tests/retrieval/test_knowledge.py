"""Knowledge sources: pages by title, from files of passages and from FActScore's own files."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import unicodedata
from contextlib import closing

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import sources
from lm_factuality.retrieval.build import build_knowledge
from lm_factuality.retrieval.knowledge import SEPARATOR, Knowledge, split_page
from tests.retrieval.conftest import ENCYCLOPEDIA


def sha256_of_file(path):
    """Return the checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def knowledge(tmp_path):
    """Return a knowledge source with the pages of the encyclopedia, in a new folder."""
    return build_knowledge(ENCYCLOPEDIA, tmp_path / "new" / "knowledge.db")


def test_pages_have_the_text_of_the_source(knowledge):
    """Judges must read a page as it was written, except for its white space."""
    for line in ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        page = " ".join(knowledge.passages(row["title"]))
        expected_page = " ".join(row["text"].split())
        assert page == expected_page


def test_an_unknown_title_has_no_page(knowledge):
    """It is None, whereas a page without text is an empty list."""
    assert knowledge.passages("Nobody at all") is None


def test_the_manifest_describes_the_source_and_its_rows(knowledge):
    """The source is the sample's encyclopedia, which has 220 pages of one row each."""
    (source,) = knowledge.manifest.sources

    assert source.sha256 == sha256_of_file(ENCYCLOPEDIA)
    assert source.size == ENCYCLOPEDIA.stat().st_size
    assert knowledge.manifest.rows == 220
    assert knowledge.manifest.pages == 220
    assert len(knowledge) == 220


def test_build_leaves_exactly_one_file(tmp_path, write_rows):
    """A user copies and shares one file."""
    source = write_rows([{"title": "a", "text": "A text."}])

    build_knowledge(source, tmp_path / "new" / "knowledge.db")

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["knowledge.db"]


def test_rows_with_the_same_title_form_one_page(tmp_path, write_rows, monkeypatch):
    """A page keeps the order of its rows, although two rows are written at a time."""
    monkeypatch.setattr(sources, "_BATCH_PASSAGES", 2)
    source = write_rows(
        [
            {"title": "a", "text": "first of a"},
            {"title": "a", "text": "second of a"},
            {"title": "b", "text": "first of b"},
            {"title": "a", "text": "third of a"},
            {"title": "c", "text": "first of c"},
            {"title": "a", "text": "fourth of a"},
            {"title": "b", "text": "second of b"},
        ]
    )

    knowledge = build_knowledge(source, tmp_path / "knowledge.db")

    assert knowledge.passages("a") == ["first of a", "second of a", "third of a", "fourth of a"]
    assert knowledge.passages("b") == ["first of b", "second of b"]
    assert len(knowledge) == 3
    assert knowledge.manifest.rows == 7


def test_a_long_page_is_split_into_passages_of_256_words():
    """FActScore's passages have the same length."""
    words = [f"word{number}" for number in range(256 + 256 + 88)]

    passages = split_page("\n".join(words))

    assert [len(passage.split()) for passage in passages] == [256, 256, 88]
    assert " ".join(passages).split() == words


def test_a_page_of_factscore_is_split_at_its_separators():
    """FActScore's files separate passages by a separator, and mark sentences by ``<s>``."""
    page = f"first passage{SEPARATOR}{SEPARATOR} <s>second passage</s> "

    assert split_page(page) == ["first passage", "second passage"]


def test_a_blank_page_has_no_passages():
    assert split_page("  ") == []


def execute(path, statement, parameters=()):
    """Execute a statement on a SQLite file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, parameters)


INSERT_PAGE = "INSERT INTO documents VALUES (?, ?)"


@pytest.fixture
def write_factscore_db(tmp_path):
    """Return a function that writes pages by title into a file as FActScore's scripts do."""

    def write(pages):
        path = tmp_path / "enwiki.db"
        execute(path, "CREATE TABLE documents (title PRIMARY KEY, text)")
        for title, text in pages.items():
            execute(path, INSERT_PAGE, (title, text))
        return path

    return write


def test_a_file_of_factscore_is_a_knowledge_source(write_factscore_db):
    """FActScore's authors give away such files of Wikipedia."""
    first_passage = "<s>Ada Lind was a painter.</s><s>She lived in Orrmark.</s>"
    second_passage = "<s>She died in 1923.</s>"
    path = write_factscore_db({"Ada Lind": f"{first_passage}{SEPARATOR}{second_passage}"})

    knowledge = Knowledge(path)

    assert knowledge.passages("Ada Lind") == [
        "Ada Lind was a painter.  She lived in Orrmark.",
        "She died in 1923.",
    ]
    assert len(knowledge) == 1
    assert knowledge.manifest is None


def test_reading_a_file_of_factscore_does_not_change_it(write_factscore_db):
    path = write_factscore_db({"Ada Lind": "<s>Ada Lind was a painter.</s>"})
    checksum = sha256_of_file(path)

    Knowledge(path).passages("Ada Lind")

    assert sha256_of_file(path) == checksum


def test_identity_changes_with_page_text_of_equal_length(write_factscore_db):
    """The new text has as many letters, so the size of the file does not show the change."""
    path = write_factscore_db({"Émile Røst": "He rowed."})
    identity = Knowledge(path).identity

    execute(path, "UPDATE documents SET text = 'He swam.' WHERE title = 'Émile Røst'")

    assert Knowledge(path).identity != identity


@pytest.mark.parametrize(
    "title",
    [
        "Émile Røst",
        pytest.param(unicodedata.normalize("NFD", "Émile Røst"), id="decomposed accent"),
        pytest.param("Émile_Røst", id="underscore"),
        pytest.param(" Émile  Røst ", id="more spaces"),
        pytest.param("émile Røst", id="small first letter"),
    ],
)
def test_a_title_is_found_in_another_spelling(write_factscore_db, title):
    knowledge = Knowledge(write_factscore_db({"Émile Røst": "He rowed."}))

    assert knowledge.passages(title) == ["He rowed."]


@pytest.mark.parametrize(
    "title",
    [
        pytest.param("Emile Rost", id="no accents"),
        pytest.param("ÉMILE RØST", id="capitals"),
        pytest.param("", id="empty"),
        pytest.param("Émile Røst (rower)", id="more words"),
    ],
)
def test_another_title_is_not_found(write_factscore_db, title):
    """It may be the title of a page about someone else."""
    knowledge = Knowledge(write_factscore_db({"Émile Røst": "He rowed."}))

    assert knowledge.passages(title) is None


def test_a_knowledge_source_is_not_overwritten_without_the_option(tmp_path, write_rows):
    """It may have taken hours to make."""
    path = tmp_path / "knowledge.db"
    build_knowledge(write_rows([{"title": "a", "text": "old"}], "old.jsonl"), path)
    new_source = write_rows([{"title": "a", "text": "new"}], "new.jsonl")

    with pytest.raises(ConfigError, match="exists; give another name, or --overwrite"):
        build_knowledge(new_source, path)

    assert Knowledge(path).passages("a") == ["old"]


def test_a_knowledge_source_is_overwritten_with_the_option(tmp_path, write_rows):
    path = tmp_path / "knowledge.db"
    build_knowledge(write_rows([{"title": "a", "text": "old"}], "old.jsonl"), path)
    new_source = write_rows([{"title": "a", "text": "new"}], "new.jsonl")

    knowledge = build_knowledge(new_source, path, overwrite=True)

    assert knowledge.passages("a") == ["new"]


def test_failed_build_keeps_the_old_knowledge_source(tmp_path, write_rows):
    """The new file replaces the old one only when it is complete."""
    path = tmp_path / "knowledge.db"
    build_knowledge(write_rows([{"title": "a", "text": "old"}], "old.jsonl"), path)
    source_without_titles = write_rows([{"text": "new"}], "new.jsonl")

    with pytest.raises(DataError, match="no title"):
        build_knowledge(source_without_titles, path, overwrite=True)

    assert Knowledge(path).passages("a") == ["old"]


def test_a_build_without_pages_leaves_no_file(tmp_path, write_rows):
    """An empty file would be taken for a source that knows nothing."""
    empty_source = write_rows([], "empty.jsonl")

    with pytest.raises(DataError, match="no pages|no passages|no rows"):
        build_knowledge(empty_source, tmp_path / "empty.db")

    assert not list(tmp_path.glob("*empty.db*"))


@pytest.mark.parametrize("output_name", ["source.jsonl", "link_to_source.jsonl"])
def test_a_build_does_not_overwrite_its_own_source(tmp_path, write_rows, output_name):
    source = write_rows([{"title": "a", "text": "A text."}], "source.jsonl")
    (tmp_path / "link_to_source.jsonl").symlink_to(source)
    content = source.read_bytes()

    with pytest.raises(ConfigError, match="itself, which would be lost; give another name"):
        build_knowledge([source], tmp_path / output_name, overwrite=True)

    assert source.read_bytes() == content


def test_a_missing_file_is_refused(tmp_path):
    """The message names the command that makes a knowledge source."""
    with pytest.raises(DataError, match="no such file; make it with"):
        Knowledge(tmp_path / "gone.db")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        Knowledge(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "found the tables none", id="empty"),
        pytest.param(ENCYCLOPEDIA.read_bytes(), "file is not a database", id="JSON"),
    ],
)
def test_unrelated_file_is_refused(tmp_path, content, message):
    """A user may name the source of the pages in place of what was built from it."""
    path = tmp_path / "knowledge.db"
    path.write_bytes(content)

    with pytest.raises(DataError, match=message):
        Knowledge(path)


def test_a_truncated_file_is_refused(knowledge):
    """The first 6,000 bytes look like a database, as a download that broke off may do."""
    knowledge.path.write_bytes(knowledge.path.read_bytes()[:6000])

    with pytest.raises(DataError, match=r"knowledge\.db: cannot be read"):
        Knowledge(knowledge.path).passages("Nobody")


def test_a_database_with_another_table_is_refused(tmp_path):
    path = tmp_path / "knowledge.db"
    execute(path, "CREATE TABLE pages(name, body)")
    message = "found the tables pages and in documents the columns none, expected a table documents"

    with pytest.raises(DataError, match=message):
        Knowledge(path)


@pytest.mark.parametrize(("content", "type_name"), [(None, "NoneType"), (b"boat", "bytes")])
def test_non_text_page_is_refused(content, type_name, tmp_path):
    """The value must not be read as the text "None"."""
    path = tmp_path / "knowledge.db"
    execute(path, "CREATE TABLE documents(title PRIMARY KEY, text)")
    execute(path, INSERT_PAGE, ("a", content))

    with pytest.raises(DataError, match=f"knowledge.db: the page 'a' is a {type_name}, expected"):
        Knowledge(path).passages("a")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, where nobody can write")
def test_unwritable_file_is_named():
    with pytest.raises(DataError, match=r"^/proc/knowledge.db: cannot be written: "):
        build_knowledge(ENCYCLOPEDIA, "/proc/knowledge.db")
