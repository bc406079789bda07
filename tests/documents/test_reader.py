"""Folders and files of people's documents: what is read, and what is named with a reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.documents import Document, UnreadDocument, document, read_documents
from lm_factuality.ground.errors import DataError


def read(path: Path) -> list[Document | UnreadDocument]:
    """Read all documents in a file or a folder."""
    return list(read_documents([path]))


def reason_of(path: Path) -> str:
    """Return why the only file at a path cannot be read."""
    (unread,) = read(path)
    assert isinstance(unread, UnreadDocument), unread
    assert unread.path.startswith(str(path))
    return unread.reason


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file of this name and content."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def test_folders_are_read_recursively_in_path_order(write, tmp_path):
    """The order of a folder differs between machines, and an index must not."""
    for name in ("b.txt", "a/z.txt", "a/b/c.txt", "c.md"):
        write(name, "Text.")

    ids = [document.id for document in read(tmp_path)]

    assert ids == ["a/b/c.txt", "a/z.txt", "b.txt", "c.md"]


def test_hidden_files_and_folders_are_skipped(write, tmp_path):
    """They belong to programs such as Git."""
    for name in (".git/a.txt", ".b.txt", "c.txt"):
        write(name, "Text.")

    assert [document.id for document in read(tmp_path)] == ["c.txt"]


def test_ids_are_relative_to_the_common_folder(write, tmp_path):
    """Both files are called "x.txt", and the folder tells them apart."""
    write("a/x.txt", "One.")
    write("b/x.txt", "Two.")

    documents = read_documents([tmp_path / "a", tmp_path / "b" / "x.txt"])

    assert [document.id for document in documents] == ["a/x.txt", "b/x.txt"]


def test_repeated_file_is_read_once(write, tmp_path):
    """Its passages would take two places among the evidence."""
    path = write("a.txt", "One.")

    assert len(list(read_documents([tmp_path, path]))) == 1


def test_circular_link_is_not_followed_forever(write, tmp_path):
    """Reading it would never end."""
    write("a/x.txt", "Text.")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)

    unread, read_document = read(tmp_path)

    assert "a link leads to a folder that is read already" in unread.reason
    assert read_document.id == "a/x.txt"


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    """It is a typing error of the user, not a file that is skipped and named."""
    with pytest.raises(DataError, match="gone: no such file or folder"):
        read_documents([tmp_path / "gone"])


TITLES = [
    pytest.param("a.md", "---\ntitle: Ropes\n---\n# Other\n", "Ropes", id="front matter"),
    pytest.param("a.md", "Text.\n\n## Hooks *and* eyes\n", "Hooks and eyes", id="heading"),
    pytest.param("a.md", '<h1 align="center">Big <b>R</b></h1>\n\nText.', "Big R", id="HTML"),
    pytest.param("a.md", "---\nno: [yaml\n\n---\n", "a", id="front matter that is no YAML"),
    pytest.param("set_up.txt", "Text.", "set_up", id="text"),
    pytest.param("a.html", "<title>A\n page</title><h1>B</h1>C", "A page", id="title of a page"),
    pytest.param("a.htm", "<h1>Heading</h1><p>C", "Heading", id="heading of a page"),
    pytest.param("a.rst", "Ropes\n=====\n\nText.\n", "Ropes", id="reStructuredText"),
]


@pytest.mark.parametrize(("name", "content", "title"), TITLES)
def test_a_title_comes_from_the_text_or_the_name_of_the_file(write, name, content, title):
    """Evidence is shown with the title of its document."""
    (read_document,) = read(write(name, content))

    assert read_document.title == title


TEXTS = [
    pytest.param(
        "a.md",
        "---\ndate: 2024-03-01\ntags: [a, b]\n---\nText.",
        "date: 2024-03-01\ntags: a, b\n\nText.",
        id="front matter",
    ),
    pytest.param(
        "a.md",
        "A [link *to*][r] and\n![picture](i.png), `code`, &amp;<br>snake_case \\*.\n\n[r]: http://x",
        "A link to and picture, code, &\nsnake_case *.",
        id="markup within a paragraph",
    ),
    pytest.param("a.md", "# H\nT\n- a\n- b\n\n3. c\n", "H\n\nT\n\n- a\n\n- b\n\n3. c", id="lists"),
    pytest.param("a.md", "-\n\nText\n", "Text", id="an item without a text"),
    pytest.param(
        "a.md",
        "| item | price |\n|--|--|\n| *Rope* | 3 |\n| Hook | |\n",
        "item: Rope\nprice: 3\n\nitem: Hook",
        id="table",
    ),
    pytest.param("a.md", "| only | header |\n|--|--|\n", "only\nheader", id="table without rows"),
    pytest.param("a.md", "```py\nx = '*'\n```\n", "x = '*'", id="code"),
    pytest.param("a.md", "<div>\n<!-- no -->\nYes &amp; no\n</div>", "Yes & no", id="HTML"),
    pytest.param(
        "a.html",
        "<nav>Menu</nav><p>One <b>two</b>.</p><ul><li>a</ul><script>x</script>"
        "<table><tr><th>item<th>price<tr><td>Rope<td>3</table>",
        "One two.\n\n• a\nitem: Rope\nprice: 3",
        id="page",
    ),
    pytest.param("a.html", "<meta charset=latin1><p>caf\xe9".encode("latin1"), "café", id="latin1"),
    pytest.param(
        "a.rst",
        "See :doc:`setup <guide>` and *em*\nhere, :kbd:`M-<`.\n\n.. unknown:: arg\n   :opt: 1\n\n   Body.\n\n"
        "====  =====\nitem  price\n====  =====\nRope  3\n====  =====\n\n.. include:: /etc/hosts\n",
        "See setup and em here, M-<.\n\narg\n\nBody.\n\nitem: Rope\nprice: 3",
        id="reStructuredText",
    ),
    pytest.param("a.txt", "\ufeffA *b*\r\nc\n", "A *b*\r\nc", id="text"),
    pytest.param("a.txt", "Größe".encode("utf-16"), "Größe", id="UTF-16"),
    pytest.param("a.txt", b"x" * 2000 + b"\xe9", "x" * 2000 + "\ufffd", id="a broken byte"),
]


@pytest.mark.parametrize(("name", "content", "text"), TEXTS)
def test_markup_is_removed_from_text(write, name, content, text):
    """Marks within a sentence would keep it from being found and quoted."""
    (read_document,) = read(write(name, content))

    assert read_document.text == text


UNREADABLE = [
    pytest.param("a.png", b"\x89PNG", "ends in '.png', expected Markdown", id="unknown ending"),
    pytest.param("a.txt", b"", "it is empty", id="empty"),
    pytest.param("a.md", b" \n", "there is no text in it", id="blank"),
    pytest.param("a.txt", b"a\0b", "it is a binary file", id="binary"),
    pytest.param("a.html", b"<p>\0", "it is a binary file", id="binary page"),
    pytest.param("a.txt", "caf\xe9 a".encode("latin1"), "1 places are not UTF-8", id="latin1"),
    pytest.param("a.html", b"<script>x</script>", "there is no text in it; pages", id="script"),
    pytest.param("a.pdf", b"%PDF-1.4 broken", "this pdf cannot be read", id="broken PDF"),
    pytest.param("a.docx", b"no zip", "not a readable DOCX file", id="broken DOCX"),
    pytest.param("a.docx", b"\xd0\xcf\x11\xe0...", "it is encrypted, or an old", id="old DOCX"),
    pytest.param("a.json", b"{", "not valid JSON", id="broken JSON"),
    pytest.param("a.csv", b"a,b\n", "there are no rows in it", id="CSV without rows"),
    pytest.param("a.parquet", b"x", "not a readable Parquet file", id="broken Parquet"),
]


@pytest.mark.parametrize(("name", "content", "reason"), UNREADABLE)
def test_unreadable_file_is_named_with_the_reason(write, name, content, reason):
    """Claims about it would be "not found" without a visible cause."""
    assert reason in reason_of(write(name, content))


def test_a_link_to_a_missing_file_is_named(tmp_path):
    """A document that the user expects to be read is not there."""
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone")

    (unread,) = read(tmp_path)

    assert unread == UnreadDocument(
        str(tmp_path / "a.txt"), "not a regular file, or a link to a file that is missing"
    )


def test_a_large_text_is_not_read(write, monkeypatch):
    """The limit is ten bytes here, and a file of gigabytes must not fill the memory."""
    monkeypatch.setattr(document.read_bytes, "__defaults__", (10,))

    assert "it has 11 bytes, expected at most 10" in reason_of(write("a.txt", "x" * 11))


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("a.docx", "python-docx"),
        ("a.pdf", "pypdf"),
        ("a.html", "resiliparse"),
        ("a.rst", "docutils"),
    ],
)
def test_a_missing_library_is_named_with_the_command(write, monkeypatch, name, package):
    """These libraries are an extra that not everyone installs."""
    monkeypatch.setattr(document, "is_installed", lambda package: False)

    reason = reason_of(write(name, "x"))

    assert f"needs {package}: pip install 'lm-factuality[documents]'" in reason


ROWS = [
    Document("t.x#1", "Rope", "name: Rope\nprice: 3"),
    Document("t.x#2", "Hook", "name: Hook\nprice: 4"),
]


def write_parquet(path: Path) -> None:
    """Write two rows as Parquet."""
    rows = [{"name": "Rope", "price": 3, "x": None}, {"name": "Hook", "price": 4, "x": None}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "name,price\nRope,3\nHook,4\n"),
        ("t.csv", "name;price\nRope;3\nHook;4\n"),
        ("t.csv.gz", gzip.compress(b"name;price\nRope;3\nHook;4\n")),
        ("t.tsv", "name\tprice\nRope\t3\nHook\t4\n"),
        ("t.jsonl", '{"name": "Rope", "price": 3}\n{"name": "Hook", "price": 4}\n'),
        ("t.json", '[{"name": "Rope", "price": 3}, {"name": "Hook", "price": 4}]'),
        ("t.json", '{"data": [{"name": "Rope", "price": 3}, {"name": "Hook", "price": 4}]}'),
        ("t.parquet", None),
    ],
)
def test_table_rows_include_column_names(write, name, content):
    """ "3" means nothing without "price"; all files have the same two rows."""
    path = write(name, content or "")
    if content is None:
        write_parquet(path)

    documents = read(path)

    assert documents == [Document(row.id.replace("t.x", name), row.title, row.text) for row in ROWS]


def test_title_of_a_row_defaults_to_the_title_of_the_file(write):
    """The columns "item" and "price" hold no title. The id tells the rows of a file apart."""
    (row,) = read(write("prices.csv", "item,price\nRope,3\n"))

    assert row == Document("prices.csv#1", "prices", "item: Rope\nprice: 3")


def test_the_text_of_a_passage_needs_no_header(write):
    """Columns of an id, a title and a text make a passage. "text: " would only be in the way."""
    row = {"id": "7", "title": "Harbour", "text": "It froze."}

    (passage,) = read(write("a.jsonl", json.dumps(row)))

    assert passage == Document("a.jsonl#1", "Harbour", "It froze.")


def test_bad_row_is_named_and_other_rows_are_read(write):
    """Rows are numbered with the bad ones, so that a user finds them."""
    path = write("a.csv", "name,price\nRope,3\nHook\n,\nPin,5\n")

    rope, hook, empty, pin = read(path)

    assert (rope.id, pin.id) == ("a.csv#1", "a.csv#4")
    assert hook.path == f"{path}:3"
    assert hook.reason.startswith("1 cells, expected 2")
    assert empty == UnreadDocument(f"{path}:4", "the row is empty")


def test_halves_of_surrogate_pairs_are_replaced(write):
    """JSON may hold half of a character.

    A file in UTF-8 cannot, so the text could not be stored.
    """
    (row,) = read(write("a.json", '{"name": "a\\ud800"}'))

    assert row.title == "a\ufffd"
