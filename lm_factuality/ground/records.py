"""Readers of text files, plain or gzipped: whole texts, lines, and lines of JSON.

What a run, a judge or a person has written comes in through here."""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from pydantic import ValidationError

from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.settings import adapter_of, problems_of

Item = TypeVar("Item")

# A small gzipped file may unpack to any size, so both are limited, in characters.
MOST_TEXT = 1 << 29
MOST_LINE = 1 << 26
_GZIP_MAGIC = b"\x1f\x8b"
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeError)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte that is none


def read_text(path: Path, expected: str) -> str:
    """Read a UTF-8 file, gzipped or not, without its byte order mark.

    Raises:
        DataError: The file cannot be read. The text ends with what was ``expected``.
    """
    try:
        with _open_text(path, "strict") as file:
            text = file.read(MOST_TEXT + 1)
    except _UNREADABLE as error:
        raise _unreadable(path, str(path), error, expected) from error
    if len(text) > MOST_TEXT:
        raise DataError(f"{path}: more than {MOST_TEXT:,} characters once unpacked; {expected}")
    return text


def lines_of(path: Path, expected: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank.

    Raises:
        DataError: As `read_text`, when the line is reached that cannot be read.
    """
    for number, line in every_line(path, expected):
        problem = not_utf8(line)
        if problem:
            raise DataError(f"{path}:{number}: {problem}")
        if not line.isspace():
            yield number, line.removesuffix("\n")


def every_line(path: Path, expected: str, newline: str = "\n") -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line with its end, one in memory at a time.

    Bytes that are not UTF-8 are left in, as Python escapes them.

    Args:
        path: The file, gzipped or not.
        expected: What the file should be, for errors.
        newline: Where lines end, as of `open`. By default that is at line feeds alone, since
            models write other line ends too.

    Raises:
        DataError: The file cannot be read, or the line that is reached is too long.
    """
    number = 0
    try:
        with _open_text(path, "surrogateescape", newline) as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_LINE + 1), ""), start=1):
                if len(line) > MOST_LINE:
                    raise DataError(
                        f"{path}:{number}: a line of more than {MOST_LINE:,} characters; {expected}"
                    )
                yield number, line
    except _UNREADABLE as error:
        raise _unreadable(path, f"{path}:{number + 1}", error, expected) from error


def not_utf8(text: str) -> str:
    """Say which byte of a text was not UTF-8, or nothing."""
    byte = None if text.isascii() else _NOT_UTF8.search(text)
    if byte is None:
        return ""
    return f"byte 0x{ord(byte[0]) & 0xFF:02x} is not UTF-8; save the file as UTF-8"


def read_lines(
    path: Path, parse: Callable[[Any], Item], expected: str, advice: str = ""
) -> list[Item]:
    """Read a file with a JSON value in each line.

    Args:
        parse: Makes an item of the value, or raises ValueError to say what is wrong with it.
        expected: What the file should be, for errors.
        advice: What to do about bad lines.

    Raises:
        DataError: The file cannot be read, or has bad lines, each of which is named.
    """
    items = []
    problems = []
    for number, line in lines_of(path, expected):
        try:
            record = parse_json(line, is_shared=False)
        except ValueError as error:
            problems.append(f"{path}:{number}: not JSON: {error}")
            continue
        try:
            items.append(parse(record))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    refuse(problems, "lines", advice)
    return items


def read_model(path: Path, model: type[Item], expected: str) -> Item:
    """Read a file with one JSON value into a pydantic model or a dataclass.

    Raises:
        DataError: The file cannot be read, or its content does not fit. The text ends with what
            was ``expected``.
    """
    text = read_text(path, expected)
    try:
        return to_model(model, parse_json(text, is_shared=False))
    except ValueError as error:
        raise DataError(f"{path}: {error}; {expected}") from error


def to_model(model: type[Item], record: Any) -> Item:
    """Turn a record, as JSON has it, into a pydantic model or a dataclass.

    Raises:
        ValueError: The record does not fit. The text names the first problem and its place.
    """
    try:
        item: Item = adapter_of(model).validate_python(record)
    except ValidationError as error:
        raise ValueError(problems_of(model, error)[0]) from error
    return item


@contextmanager
def _open_text(path: Path, errors: str, newline: str = "\n") -> Iterator[TextIO]:
    """Open a file for reading; ``errors`` says what becomes of bytes that are not UTF-8."""
    with path.open("rb") as file:
        is_gzipped = file.peek(2)[:2] == _GZIP_MAGIC
        with gzip.open(file) if is_gzipped else file as content:
            yield io.TextIOWrapper(content, "utf-8-sig", errors, newline)


def _unreadable(path: Path, where: str, error: Exception, expected: str) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file; {expected}")
    return DataError(f"{where}: cannot be read: {error}; {expected}")
