"""PDF and DOCX files, made by the libraries that read them."""

from __future__ import annotations

import docx
import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from lm_factuality.documents import Document, UnreadDocument, read_documents


def write_pdf(path, lines, title="", password=""):
    """Write a PDF of one page.

    Args:
        path: The file.
        lines: The lines of the page. None makes a page without text.
        title: The title in the metadata.
        password: The password, if the file is to be encrypted.
    """
    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    shown = " ".join(f"({line}) Tj 0 -14 Td" for line in lines or [])
    content = DecodedStreamObject()
    content.set_data(f"BT /F1 12 Tf 20 250 Td {shown} ET".encode())
    page[NameObject("/Contents")] = writer._add_object(content)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(path)


def read_one(path):
    """Return the only document of a file."""
    (result,) = read_documents([path])
    return result


def test_a_pdf_has_its_text_and_the_title_of_its_metadata(tmp_path):
    """A word that is divided at the end of a line is joined, so that a search finds it."""
    write_pdf(tmp_path / "a.pdf", ["The har-", "bour froze."], title="Harbours")

    assert read_one(tmp_path / "a.pdf") == Document("a.pdf", "Harbours", "The harbour froze.")


def test_placeholder_title_of_a_program_is_ignored(tmp_path):
    """Programs put their name into the metadata. The name of the file is the better title."""
    write_pdf(tmp_path / "a.pdf", ["Text."], title="Microsoft Word - draft3.docx")

    assert read_one(tmp_path / "a.pdf").title == "a"


@pytest.mark.parametrize(
    ("lines", "password", "reason"),
    [
        pytest.param(["Text."], "secret", "it is encrypted; save it without", id="encrypted"),
        pytest.param(None, "", "there is no text in it, as in scanned pages", id="scanned"),
    ],
)
def test_unreadable_pdf_is_named_with_the_reason(tmp_path, lines, password, reason):
    """Neither has text to read, and the user learns what to do about it."""
    write_pdf(tmp_path / "a.pdf", lines, password=password)

    unread = read_one(tmp_path / "a.pdf")

    assert isinstance(unread, UnreadDocument)
    assert reason in unread.reason


def test_a_docx_has_its_first_heading_its_paragraphs_and_its_tables(tmp_path):
    """Each cell is read with the header of its column, so that it can be understood alone."""
    document = docx.Document()
    document.add_heading("Ropes", level=1)
    document.add_paragraph("They are long.")
    table = document.add_table(rows=2, cols=2)
    table.cell(0, 0).text = "item"
    table.cell(0, 1).text = "price"
    table.cell(1, 0).text = "Rope"
    table.cell(1, 1).text = "3"
    document.add_paragraph("The end.")
    document.save(tmp_path / "a.docx")

    assert read_one(tmp_path / "a.docx") == Document(
        "a.docx", "Ropes", "Ropes\n\nThey are long.\n\nitem: Rope\nprice: 3\n\nThe end."
    )


def test_docx_title_defaults_to_its_properties(tmp_path):
    """Evidence is shown with the title of its document."""
    document = docx.Document()
    document.add_paragraph("Text.")
    document.core_properties.title = "Hooks"
    document.save(tmp_path / "a.docx")

    assert read_one(tmp_path / "a.docx").title == "Hooks"
