"""Makes documents of the files of Debian packages: HTML, manual pages, dictionaries, games.

`bench.factor_gen.genre_texts` calls `read_documents`. A genre names the reader of its files.
"""

from __future__ import annotations

import gzip
import os
import re
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lxml import etree, html

from bench.factor_gen.genre_config import Genre

# Tags of HTML, Mallard and DocBook.
_HEADING_TAGS = {"h1", "h2", "h3", "title"}
_PARAGRAPH_TAGS = {"p", "para", "dd", "dt", "li", "h4", "h5", "h6"} | _HEADING_TAGS
_OTHER_BLOCK_TAGS = {"pre", "table", "ul", "ol", "dl"}
# Elements without prose, such as code, tables and menus.
_SKIPPED_TAGS = {
    "pre",
    "table",
    "nav",
    "script",
    "style",
    "footer",
    "form",
    "screen",
    "code-block",
    "info",
    "media",
    "header",
}
_SKIPPED_CLASSES = re.compile(
    r"\b(?:toc|navheader|navfooter|docnav|related|sphinxsidebar|footer|headerlink|sidebar"
    r"|para-code)\b"
)
# What somebody says or tells in Wesnoth's files. Quotes in it are doubled.
_WESNOTH_SPEECH = r'(?:message|story)\s*=\s*_\s*"((?:[^"]|"")*)"'
_CJK_CHARACTERS = re.compile("[\u3400-\u9fff]")
_GZIP_MAGIC = b"\x1f\x8b"


class Paragraph(NamedTuple):
    """A paragraph or a heading."""

    tag: str
    """The tag of its element."""

    text: str
    """Its text in one line."""


def read_documents(path: Path, genre: Genre) -> Iterator[str]:
    """Yield the documents of a file of a genre."""
    return _READERS[genre.reader](path, genre)


def count_words(text: str) -> int:
    """Count the words of a text. Two characters of Chinese or Japanese count as a word."""
    return max(len(text.split()), len(_CJK_CHARACTERS.findall(text)) // 2)


def _read_html(path: Path, genre: Genre) -> Iterator[str]:
    """Yield the sections of an HTML page."""
    # The XML declaration of a page of XHTML could name another encoding than the parser's.
    content = path.read_bytes().replace(b"<?xml", b"<?x")
    page = html.fromstring(content, parser=html.HTMLParser(encoding="utf-8"))
    body = page
    for tag in ("main", "body"):
        element = page.find(f".//{tag}")
        if element is not None:
            body = element
            break
    return _split_into_sections(_paragraphs_of(body), genre.most_words)


def _read_mallard(path: Path, _: Genre) -> Iterator[str]:
    """Yield the one document of a page of Mallard or DocBook."""
    root = etree.parse(str(path)).getroot()
    yield "\n".join(paragraph.text for paragraph in _paragraphs_of(root))


def _read_man(path: Path, _: Genre) -> Iterator[str]:
    """Yield the one document of a manual page, as a terminal shows it."""
    command = ["groff", "-mandoc", "-Tascii", "-rLL=78n", "-P-cbou"]
    # Without this variable, groff may write escape sequences for bold letters.
    environment = {**os.environ, "GROFF_NO_SGR": "1"}
    groff = subprocess.run(
        command, input=_read_unpacked(path), capture_output=True, check=True, env=environment
    )
    yield groff.stdout.decode("ascii", "replace")


def _read_text(path: Path, _: Genre) -> Iterator[str]:
    """Yield the one document of a text file."""
    yield _decode(path)


def _read_entries(path: Path, genre: Genre) -> Iterator[str]:
    """Yield the entries of a text file, such as a dictionary."""
    text = _decode(path)
    starts = [match.start() for match in re.finditer(genre.entry, text, re.MULTILINE)]
    ends = [*starts[1:], len(text)]
    for start, end in zip(starts, ends, strict=True):
        yield text[start:end].strip("\n")


def _read_dialogue(path: Path, genre: Genre) -> Iterator[str]:
    """Yield documents of what is said in a game's file, each speech a paragraph."""
    paragraphs = []
    for speech in re.findall(genre.entry or _WESNOTH_SPEECH, _decode(path)):
        # A backslash can continue a line.
        one_line = re.sub(r"\\?\s+", " ", speech)
        text = one_line.replace('""', '"').strip()
        if text:
            paragraphs.append(Paragraph("p", text))
    return _split_into_sections(paragraphs, genre.most_words)


def _read_sword(path: Path, genre: Genre) -> Iterator[str]:
    """Yield the sections of a Bible or a commentary in the format of SWORD.

    Args:
        path: The ``.bzz`` file with the packed books. The ``.bzs`` file beside it has three numbers
            for each book: its start, its packed size and its size, in bytes.
        genre: The genre.
    """
    content = path.read_bytes()
    index = path.with_suffix(".bzs").read_bytes()
    for start, packed_size, _ in struct.iter_unpack("<3I", index):
        if not packed_size:
            continue
        book = zlib.decompress(content[start : start + packed_size]).decode("utf-8")
        # An empty element begins a paragraph.
        page = re.sub(r'<div [^>]*type="x-p"/>', "<p>", book)
        paragraphs = _paragraphs_of(html.fromstring(page))
        yield from _split_into_sections(paragraphs, genre.most_words)


_READERS: Mapping[str, Callable[[Path, Genre], Iterator[str]]] = {
    "html": _read_html,
    "mallard": _read_mallard,
    "man": _read_man,
    "text": _read_text,
    "entries": _read_entries,
    "dialogue": _read_dialogue,
    "sword": _read_sword,
}


def _read_unpacked(path: Path) -> bytes:
    """Return the content of a file, which may be packed by gzip."""
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content


def _decode(path: Path) -> str:
    """Return the text of a file, which may be packed by gzip."""
    return _read_unpacked(path).decode("utf-8", "replace")


def _split_into_sections(paragraphs: Iterable[Paragraph], most_words: int) -> Iterator[str]:
    """Yield documents with a paragraph on each line.

    Args:
        paragraphs: The paragraphs of a file. A document begins at each heading.
        most_words: A document with more words also ends at the next paragraph.
    """
    lines: list[str] = []
    num_words = 0
    for paragraph in paragraphs:
        is_at_end = paragraph.tag in _HEADING_TAGS or num_words > most_words
        if lines and is_at_end:
            yield "\n".join(lines)
            lines = []
            num_words = 0
        lines.append(paragraph.text)
        num_words += count_words(paragraph.text)
    if lines:
        yield "\n".join(lines)


def _paragraphs_of(root: etree._Element) -> Iterator[Paragraph]:
    """Yield the paragraphs of an element in their order, without lists and tables within them.

    A paragraph that contains another block, such as a list, is cut there.
    """
    if _is_skipped(root):
        return
    # The tag without its namespace.
    tag = etree.QName(root).localname
    if tag in _SKIPPED_TAGS:
        return
    is_paragraph = _is_paragraph(root)
    texts = [root.text or ""]
    for child in root:
        if is_paragraph and not _contains_block(child):
            texts.append(_inner_text(child))
        else:
            if is_paragraph:
                yield from _join_paragraph(tag, texts)
            texts = []
            yield from _paragraphs_of(child)
        texts.append(child.tail or "")
    if is_paragraph:
        yield from _join_paragraph(tag, texts)


def _join_paragraph(tag: str, texts: Sequence[str]) -> Iterator[Paragraph]:
    """Yield the paragraph of some pieces of text, unless it is empty."""
    text = " ".join("".join(texts).split())
    if text:
        yield Paragraph(tag, text)


def _is_skipped(element: etree._Element) -> bool:
    """Return whether an element is a comment, or has a class of elements without prose."""
    is_comment = not isinstance(element.tag, str)
    return is_comment or _SKIPPED_CLASSES.search(element.get("class") or "") is not None


def _is_paragraph(element: etree._Element) -> bool:
    """Return whether an element is a paragraph by its tag or, as in some HTML, by its class."""
    is_paragraph_tag = etree.QName(element).localname in _PARAGRAPH_TAGS
    return is_paragraph_tag or "para" in (element.get("class") or "").split()


def _contains_block(element: etree._Element) -> bool:
    """Return whether an element is, or contains, a paragraph or another block."""
    # The star leaves out comments.
    for descendant in element.iter("*"):
        if _is_paragraph(descendant) or etree.QName(descendant).localname in _OTHER_BLOCK_TAGS:
            return True
    return False


def _inner_text(element: etree._Element) -> str:
    """Return the text of an element, without links to itself such as a sign behind a heading."""
    if _is_skipped(element):
        return ""
    texts = [element.text or ""]
    for child in element:
        texts.append(_inner_text(child))
        texts.append(child.tail or "")
    return "".join(texts)
