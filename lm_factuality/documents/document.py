"""The results of reading: documents, and the files that could not be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lm_factuality.ground.packages import how_to_install, is_installed
from lm_factuality.ground.replies import REPLACEMENT_CHARACTER

# Larger texts are hardly ever meant to be one document, and would have to fit into memory.
_MAX_TEXT_BYTES = 64 << 20
# An encoding other than UTF-8 breaks more of a text than this: 1 of so many characters.
_CHARACTERS_PER_BROKEN_BYTE = 1000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Document:
    """A text that somebody wrote: a file, or a row of a table."""

    id: str
    """The path from the folder that was read, such as ``guides/setup.md``.

    A row of a table has the number of the row as well: ``prices.csv#12``.
    """

    title: str
    """The title in the file, or the name of the file without its ending."""

    text: str
    """The text without markup. An empty line stands between paragraphs."""


@dataclass(frozen=True, slots=True)
class UnreadDocument:
    """A file, or a part of one, that could not be read."""

    path: str
    """The file as it can be opened. A row of a table has its line as well: ``prices.csv:13``."""

    reason: str
    """Why it could not be read, and what to do about it."""


@dataclass(frozen=True, slots=True)
class FileText:
    """What the reader of a format takes from a file that is one document."""

    title: str
    """The title in the file, or an empty string."""

    text: str
    """The text without markup."""

    problem: str = ""
    """What could not be read, if the text is not that of the whole file."""


class UnreadableError(Exception):
    """A file cannot be read as a document. The text says why, and what to do about it."""


class EncryptedError(UnreadableError):
    """A document can only be read with a password."""


def read_bytes(path: Path, limit: int = _MAX_TEXT_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        UnreadableError: The file is empty or too large.
        OSError: The file cannot be opened.
    """
    size = path.stat().st_size
    if size > limit:
        raise UnreadableError(
            f"it has {size:,} bytes, expected at most {limit:,}; split it into several files"
        )
    if size == 0:
        raise UnreadableError("it is empty")
    return path.read_bytes()


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark.

    A few broken bytes, up to one for a thousand characters, become U+FFFD.

    Raises:
        UnreadableError: The file is empty, too large, binary, or in another encoding.
        OSError: The file cannot be opened.
    """
    content = read_bytes(path)
    # Some programs of Windows save UTF-16 as "Unicode".
    encoding = "utf-16" if content.startswith(UTF16_MARKS) else "utf-8-sig"
    text = content.decode(encoding, "replace")
    # Nearly all binary formats have zero bytes, and texts have none.
    if "\0" in text:
        raise UnreadableError("it is a binary file; convert it to a text")

    num_broken = text.count(REPLACEMENT_CHARACTER)
    if num_broken:
        # A text may also have the replacement character itself, which is not broken.
        num_broken -= content.count(REPLACEMENT_CHARACTER.encode())
    if num_broken * _CHARACTERS_PER_BROKEN_BYTE > len(text):
        raise UnreadableError(f"{num_broken:,} places are not UTF-8; save it as UTF-8")
    return text


def need_library(package: str, format_name: str) -> None:
    """Check that the library that reads a format is installed.

    Args:
        package: The name under which the library is installed, such as ``python-docx``.
        format_name: The format, such as ``DOCX``.

    Raises:
        UnreadableError: The library is missing.
    """
    if not is_installed(package):
        raise UnreadableError(
            f"reading {format_name} needs {package}: {how_to_install('documents')}"
        )


def row_text(values: Mapping[str, str]) -> str:
    """Write the cells of a row, each with the header of its column, without empty cells.

    Example:
        ``{"item": "Rope", "price": "3"}`` becomes the lines ``item: Rope`` and ``price: 3``.
    """
    lines = []
    for column, value in values.items():
        if not value.strip():
            continue
        # A column without a header, such as the numbers that pandas writes, has only its value.
        lines.append(f"{column.strip()}: {value.strip()}" if column.strip() else value.strip())
    return "\n".join(lines)
