"""The text of Word documents (DOCX), read by python-docx.

`reader` calls `read_word`.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lm_factuality.documents.document import FileText, UnreadableError, need_library, read_bytes
from lm_factuality.documents.markdown import table_blocks

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from lxml import etree

_MAX_FILE_BYTES = 256 << 20
# What the XML of the text may unpack to. In memory it takes up to twenty times as much.
_MAX_XML_BYTES = 32 << 20
# Pictures are unpacked as well. Their formats are hardly packed any further.
_MAX_TIMES_UNPACKED = 4
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TEXT = f"{_WORD}t"
_PARAGRAPH = f"{_WORD}p"
_TABLE = f"{_WORD}tbl"
# Content controls, such as fields of a form, and insertions of tracked changes.
_CONTAINERS = (f"{_WORD}sdt", f"{_WORD}sdtContent", f"{_WORD}ins")
_TEXT_BOX = f"{_WORD}txbxContent"
# Word stores a drawing twice: the second time for older programs.
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_ENCRYPTED_OR_OLD = b"\xd0\xcf\x11\xe0"
_CHARACTERS = {
    f"{_WORD}tab": "\t",
    f"{_WORD}br": "\n",
    f"{_WORD}cr": "\n",
    f"{_WORD}noBreakHyphen": "-",
}
# What python-docx and `zipfile` raise for damaged files, beside errors of optional packages.
_FORMAT_ERRORS = (
    zipfile.BadZipFile,
    LookupError,
    ValueError,
    AttributeError,
    NotImplementedError,
    RecursionError,
)
# Parts of a document that are not in its body.
_NOTES = ("footnotes", "endnotes")


def read_word(path: Path) -> FileText:
    """Read the title and the text of a DOCX file: its body, text boxes, footnotes and endnotes.

    The title is the first paragraph in the style of a title or a heading, or that of the
    document's properties.

    Raises:
        UnreadableError: The file is damaged or encrypted, or python-docx is missing.
    """
    need_library("python-docx", "DOCX")
    import docx
    from docx.opc.exceptions import PackageNotFoundError
    from lxml.etree import LxmlError

    content = read_bytes(path, _MAX_FILE_BYTES)
    if content.startswith(_ENCRYPTED_OR_OLD):
        raise UnreadableError("it is encrypted, or an old .doc file; save it as a plain .docx")
    try:
        _check_size(content)
        document = docx.Document(io.BytesIO(content))
        body = _Body(document)
        body.read()
        title = body.first_heading or document.core_properties.title or ""
    except (PackageNotFoundError, LxmlError, *_FORMAT_ERRORS) as error:
        raise UnreadableError(
            f"not a readable DOCX file: {error or type(error).__name__}; save it again"
        ) from error
    return FileText(title, "\n\n".join(body.texts))


def _check_size(content: bytes) -> None:
    """Check that the parts of a document fit into memory, before they are unpacked.

    Raises:
        UnreadableError: The parts are too large.
        zipfile.BadZipFile: The file is damaged.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
    xml_size = sum(part.file_size for part in parts if part.filename.endswith((".xml", ".rels")))
    size = sum(part.file_size for part in parts)
    limit = _MAX_XML_BYTES + _MAX_TIMES_UNPACKED * len(content)
    if xml_size > _MAX_XML_BYTES or size > limit:
        raise UnreadableError(
            f"it unpacks to {xml_size:,} bytes of XML, expected at most {_MAX_XML_BYTES:,}, and to"
            f" {size:,} bytes in all, expected at most {limit:,}; split it"
        )


class _Body:
    """The blocks of a DOCX file, as plain texts.

    Attributes:
        texts: The texts of the blocks.
        first_heading: The first title or heading, or an empty string.
    """

    def __init__(self, document: "WordDocument") -> None:
        """Prepare to read a document of python-docx."""
        self.texts: list[str] = []
        self.first_heading = ""
        self._document = document
        # Paragraphs name their style by an id, which may be in the language of the user.
        self._heading_ids = set()
        for style in document.styles:
            if style.name and style.name.lower().startswith(("title", "heading")):
                self._heading_ids.add(style.style_id)

    def read(self) -> None:
        """Add the blocks of the body, then the text boxes, footnotes and endnotes."""
        body = self._document.element.body
        self._add_children(body)
        for box in body.iter(_TEXT_BOX):
            # A text box in a fallback is the copy of another one, for older programs.
            is_copy = next(box.iterancestors(_FALLBACK), None) is not None
            if not is_copy:
                self._add_children(box)
        for element in self._footnotes_and_endnotes():
            self._add_children(element)

    def _footnotes_and_endnotes(self) -> Iterator["etree.Element"]:
        """Yield the XML elements of footnotes and endnotes."""
        from docx.oxml import parse_xml

        for relation in self._document.part.rels.values():
            if relation.is_external or relation.reltype.rpartition("/")[2] not in _NOTES:
                continue
            yield from parse_xml(relation.target_part.blob)

    def _add_children(self, parent: "etree.Element") -> None:
        """Add the paragraphs and tables in an XML element, in order."""
        for element in parent.iterchildren():
            if element.tag == _PARAGRAPH:
                self._add_paragraph(element)
            elif element.tag == _TABLE:
                self._add_table(element)
            elif element.tag in _CONTAINERS:
                self._add_children(element)

    def _add_paragraph(self, element: "etree.Element") -> None:
        """Add a paragraph, unless it is empty."""
        text = _text_of(element).strip()
        if not text:
            return
        self.texts.append(text)
        style = next(element.iterfind(f"{_WORD}pPr/{_WORD}pStyle"), None)
        is_heading = style is not None and style.get(f"{_WORD}val") in self._heading_ids
        if is_heading and not self.first_heading:
            self.first_heading = text

    def _add_table(self, element: "etree.Element") -> None:
        """Add the rows of a table. Its first row is the header, unless it is the only one."""
        rows = []
        for row in element.iterchildren(f"{_WORD}tr"):
            rows.append([" ".join(_text_of(cell).split()) for cell in row.iter(f"{_WORD}tc")])
        self.texts += table_blocks(rows)


def _text_of(element: "etree.Element") -> str:
    """Return the text in an XML element, such as a cell, with a line for each paragraph.

    Text boxes are left out, and so is deleted text, which has tags of its own.
    """
    parts: list[str] = []
    # The last element of the stack is the next one of the document.
    stack = [element]
    while stack:
        current = stack.pop()
        if current.tag in (_TEXT_BOX, _FALLBACK):
            continue
        if current.tag == _TEXT:
            parts.append(current.text or "")
            continue
        if current.tag in _CHARACTERS:
            parts.append(_CHARACTERS[current.tag])
            continue
        if current.tag == _PARAGRAPH and parts:
            parts.append("\n")
        stack.extend(reversed(list(current)))
    return "".join(parts)
