"""The text of HTML pages, read by Resiliparse, and of PDF files, read by pypdf.

`reader` calls `read_html` and `read_pdf`.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.documents.document import (
    UTF16_MARKS,
    EncryptedError,
    FileText,
    UnreadableError,
    need_library,
    read_bytes,
)
from lm_factuality.documents.extract import find_encoding
from lm_factuality.documents.isolated import ExtractionLimits, extract_in_process
from lm_factuality.documents.markdown import table_blocks

if TYPE_CHECKING:
    from resiliparse.parse.html import DOMNode, HTMLTree

# A book of pictures has more bytes than a text, but the reader's process has a limit of memory.
_MAX_PDF_BYTES = 512 << 20
_PDF_LIMITS = ExtractionLimits(
    max_pages=1_000_000, max_characters=64 << 20, seconds=600.0, memory=2 << 30
)
# A word that is hyphenated at the end of a line.
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
# What programs write as the title of a PDF if its author has not named one.
_NO_TITLE = re.compile(
    r"microsoft (?:word|powerpoint) - |untitled|.*\.(?:docx?|tex|dvi|indd|odt|pptx?|pdf)$",
    re.IGNORECASE,
)


def read_html(path: Path) -> FileText:
    """Read the title and the text of an HTML page.

    The title is the element ``<title>``, or the first heading. Menus (``<nav>``) and scripts are
    left out.

    Raises:
        UnreadableError: The file is no text, or Resiliparse is missing.
    """
    need_library("resiliparse", "HTML")
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse(_decode(read_bytes(path)))
    _replace_tables_by_text(tree)
    text = extract_plain_text(tree, alt_texts=False, skip_elements=["nav"])
    text = "\n".join(line.strip() for line in text.split("\n"))
    if not text.strip():
        raise UnreadableError("there is no text in it; pages that a script makes have none")
    return FileText(_title_of(tree), text)


def _decode(content: bytes) -> str:
    """Decode an HTML page from UTF-8, or from the encoding that the page names.

    Raises:
        UnreadableError: The page is a binary file.
    """
    if b"\0" in content and not content.startswith(UTF16_MARKS):
        raise UnreadableError("it is a binary file; convert it to a text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode(find_encoding(content, ""), "replace")


def _title_of(tree: "HTMLTree") -> str:
    """Return the title of a page, or else its first heading, or else an empty string."""
    if tree.title and tree.title.strip():
        return tree.title
    if tree.body is None:
        return ""
    heading = tree.body.query_selector("h1, h2")
    return "" if heading is None else heading.text or ""


def _replace_tables_by_text(tree: "HTMLTree") -> None:
    """Replace the tables of a page by texts, with the header beside every cell.

    Tables without header cells (``<th>``) may only arrange the page, and stay.
    """
    if tree.body is None:
        return
    for table in _tables_in(tree.body):
        has_header = table.query_selector("th") is not None
        # A table around another one arranges the page, too.
        contains_table = table.query_selector("table") is not None
        if not has_header or contains_table or table.parent is None:
            continue
        rows = _cells_of(table.query_selector_all("tr"))
        replacement = tree.create_element("pre")
        assert replacement is not None
        replacement.text = "\n\n".join(table_blocks(rows))
        table.parent.replace_child(replacement, table)


def _cells_of(rows: Iterable[Any]) -> list[list[str]]:
    """Return the texts of the cells in the rows of a table (``<tr>``), each text on one line."""
    texts = []
    for row in rows:
        cells = row.query_selector_all("th, td")
        texts.append([" ".join((cell.text or "").split()) for cell in cells])
    return texts


def _tables_in(body: "DOMNode") -> list[Any]:
    """Return the tables of a page, nested ones included.

    Resiliparse's own search and its lists of children take quadratic time.
    """
    tables = []
    remaining = [body.first_child]
    while remaining:
        node = remaining.pop()
        if node is None:
            continue
        if node.tag == "table":
            tables.append(node)
        remaining += [node.next, node.first_child]
    return tables


def read_pdf(path: Path) -> FileText:
    """Read the title in the metadata and the text of a PDF, in a process of its own.

    Raises:
        UnreadableError: The file cannot be read, is encrypted or has no text, or pypdf is missing.
    """
    need_library("pypdf", format_name="PDF")
    content = read_bytes(path, _MAX_PDF_BYTES)
    try:
        extracted = extract_in_process(content, kind="pdf", charset="", limits=_PDF_LIMITS)
    except EncryptedError:
        raise UnreadableError("it is encrypted; save it without a password") from None
    if not extracted.text.strip():
        raise UnreadableError(
            "there is no text in it, as in scanned pages; recognise their text (OCR) first"
        )

    title = "" if _NO_TITLE.match(extracted.title) else extracted.title
    problem = f"only {extracted.note} were read" if extracted.note else ""
    return FileText(title, _HYPHENATED.sub("", extracted.text), problem)
