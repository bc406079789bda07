"""Documents that are small and would take all memory or time, or that refer to other files."""

from __future__ import annotations

import io
import zipfile

import docx
import pytest

from lm_factuality.documents.document import Document, UnreadDocument
from lm_factuality.documents.reader import read_documents

SECRET = "the secret of another file"
BODY = "word/document.xml"
NAMESPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
FOOTNOTES_OUTSIDE_THE_ARCHIVE = (
    '<Relationship Id="rId99" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
    'relationships/footnotes" Target="../../../../etc/passwd"/></Relationships>'
)


def write_word(path, body="", doctype="", relation="", parts=None):
    """Write a DOCX file, with a body in XML, a relation to another part, and further parts."""
    original = io.BytesIO()
    docx.Document().save(original)
    with (
        zipfile.ZipFile(original) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        for name in source.namelist():
            content = source.read(name)
            if name == BODY and body:
                text = f"{doctype}<w:document {NAMESPACE}><w:body>{body}</w:body></w:document>"
                content = text.encode()
            if name == "word/_rels/document.xml.rels" and relation:
                content = content.replace(b"</Relationships>", relation.encode())
            out.writestr(name, content)
        for name, content in (parts or {}).items():
            out.writestr(name, content)


def paragraph(text):
    """Return a paragraph in the XML of Word."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def read_one(path):
    """Return the only document of a file, or the reason why it cannot be read."""
    (document,) = read_documents([path])
    return document


# The entity c stands for 10,000 times b, and b for 100,000 times "lol": 3 GB of text.
ENTITY_BOMB = (
    f'<!DOCTYPE w [<!ENTITY a "lol"><!ENTITY b "{"&a;" * 100_000}"><!ENTITY c "{"&b;" * 10_000}">]>'
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"body": paragraph("lo") * 1_000_000},
            "bytes of XML, expected at most",
            id="a million paragraphs",
        ),
        pytest.param(
            {"parts": {"word/media/a.png": bytes(200_000_000)}},
            "bytes in all, expected",
            id="picture of 200 MB",
        ),
        pytest.param(
            {"body": "<w:sdt>" * 10_000 + "</w:sdt>" * 10_000},
            "Excessive depth",
            id="10,000 nested elements",
        ),
        pytest.param(
            {"doctype": ENTITY_BOMB, "body": paragraph("&c;")},
            "not a readable DOCX file",
            id="entities of 3 GB",
        ),
        pytest.param(
            {"relation": FOOTNOTES_OUTSIDE_THE_ARCHIVE},
            "no item named 'etc/passwd' in the archive",
            id="path out of the archive",
        ),
    ],
)
def test_a_hostile_docx_is_named_with_the_reason(tmp_path, changes, reason):
    """Such a file must not stop the reading of the others."""
    path = tmp_path / "a.docx"
    write_word(path, **changes)
    assert path.stat().st_size < 3_000_000  # small on the disk, as attackers make it

    document = read_one(path)

    assert isinstance(document, UnreadDocument)
    assert document.path == str(path)
    assert reason in document.reason


def test_docx_does_not_include_other_files(tmp_path):
    """A stranger's document could show the user's secrets as evidence."""
    other_file = tmp_path / "other.txt"
    other_file.write_text("the secret word", encoding="utf-8")
    entity_of_other_file = f'<!DOCTYPE w [<!ENTITY x SYSTEM "{other_file}">]>'
    path = tmp_path / "a.docx"
    write_word(path, body=paragraph("before &x; after"), doctype=entity_of_other_file)

    document = read_one(path)

    assert "the secret word" not in repr(document)


def test_docx_part_does_not_escape_its_archive(tmp_path):
    path = tmp_path / "a.docx"
    write_word(path, body=paragraph("text"), parts={"../slipped.txt": "x"})

    read_one(path)

    assert not (tmp_path.parent / "slipped.txt").exists()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", "<div>" * 10_000 + "word"),
        ("a.html", "<table><tr><th>a<td>" * 10_000 + "word"),
        ("a.html", "<ul><li>" * 10_000 + "word"),
        ("a.md", "[" * 10_000 + "word" + "]" * 10_000),
        ("a.md", "<div>" * 10_000 + "\n\nword\n"),
    ],
)
def test_ten_thousand_nested_elements_are_read(tmp_path, name, source):
    """Parsers that call themselves for each level would end with a stack overflow."""
    path = tmp_path / name
    path.write_text(source, encoding="utf-8")

    document = read_one(path)

    assert isinstance(document, Document)
    assert "word" in document.text


def test_nested_substitutions_are_bounded(tmp_path):
    """Each of 40 levels has the next one twice, which makes 2^40 copies of "lol"."""
    path = tmp_path / "a.rst"
    lines = [f".. |a{level}| replace:: |a{level + 1}| |a{level + 1}|" for level in range(40)]
    path.write_text("\n".join([*lines, ".. |a40| replace:: lol", "", "|a0|"]), encoding="utf-8")

    document = read_one(path)

    assert "substitutions make more than 100,000 characters" in document.reason


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.rst", "word\n\n.. include:: {other}\n\n.. raw:: html\n   :file: {other}\n"),
        ("a.md", "word\n\n![a]({other})\n<script src='{other}'>alert('code')</script>\n"),
        ("a.html", "word<iframe src='{other}'></iframe><script>alert('code')</script>"),
        (
            "a.xhtml",
            "<!DOCTYPE html [<!ENTITY x SYSTEM 'file://{other}'>]><html><body>word &x;</body></html>",
        ),
    ],
)
def test_page_excludes_other_files_and_scripts(tmp_path, name, source):
    """A stranger's page could show the user's secrets as evidence."""
    other = tmp_path / "other.txt"
    other.write_text(SECRET, encoding="utf-8")
    path = tmp_path / name
    path.write_text(source.format(other=other), encoding="utf-8")

    document = read_one(path)

    assert "word" in document.text
    assert SECRET not in document.text
    assert "alert" not in document.text
