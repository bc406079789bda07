"""Readers of text files, plain or gzipped: whole texts, lines, and lines of JSON.

Every module that reads a file of a run, a judge or a person calls them.
"""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from pydantic import ValidationError

from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.settings import adapter_of, problems_of

Item = TypeVar("Item")

# Limits in characters, since a small gzipped file may unpack to any size.
MAX_TEXT_LENGTH = 1 << 29
MAX_LINE_LENGTH = 1 << 26
# What a packed file may unpack to, in bytes: this, and so many times its size. Texts are packed 3
# to 30 times.
_ALWAYS_UNPACKED = 256 << 20
_MOST_TIMES_UNPACKED = 100
GZIP_MAGIC = b"\x1f\x8b"
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeError)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte that is not UTF-8


def read_text(path: Path, expected: str) -> str:
    """Read a UTF-8 file, gzipped or not, without its byte order mark.

    Args:
        path: The file.
        expected: What the file should be, for the end of the error.

    Raises:
        DataError: The file cannot be read, or has more than about 500 million characters.
    """
    try:
        with _open_text(path, "strict") as file:
            # One more character shows that the text is too long.
            text = file.read(MAX_TEXT_LENGTH + 1)
    except _UNREADABLE as error:
        raise _unreadable(path, str(path), error, expected) from error
    if len(text) > MAX_TEXT_LENGTH:
        raise DataError(
            f"{path}: more than {MAX_TEXT_LENGTH:,} characters once unpacked; {expected}"
        )
    return text


def lines_of(path: Path, expected: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file, gzipped or not, that are not blank.

    Args:
        path: The file.
        expected: What the file should be, for the end of the error.

    Yields:
        The number of the line, from 1, and its text without the line feed.

    Raises:
        DataError: The file cannot be read, or a line is too long or not UTF-8.
    """
    for number, line in every_line(path, expected):
        problem = utf8_problem(line)
        if problem:
            raise DataError(f"{path}:{number}: {problem}")
        if not line.isspace():
            yield number, line.removesuffix("\n")


def every_line(path: Path, expected: str, newline: str = "\n") -> Iterator[tuple[int, str]]:
    """Yield all lines of a file, one in memory at a time.

    Args:
        path: The file, gzipped or not.
        expected: The end of the error, which says what the file should be or what to do.
        newline: The end of lines, as in `open`. The default is the line feed alone, since texts of
            models contain other line ends.

    Yields:
        The number of the line, from 1, and its text with the line end. Bytes that are not UTF-8
        are escaped as Python's ``surrogateescape`` does, so that the caller can report them.

    Raises:
        DataError: The file cannot be read, or a line is too long.
    """
    number = 0
    try:
        with _open_text(path, "surrogateescape", newline) as file:
            # readline() with a limit, since one line may be larger than the memory.
            while line := file.readline(MAX_LINE_LENGTH + 1):
                number += 1
                if len(line) > MAX_LINE_LENGTH:
                    raise DataError(
                        f"{path}:{number}: a line of more than {MAX_LINE_LENGTH:,} characters;"
                        f" {expected}"
                    )
                yield number, line
    except _UNREADABLE as error:
        # Reading failed at the line after the last one that was read.
        raise _unreadable(path, f"{path}:{number + 1}", error, expected) from error


def utf8_problem(text: str) -> str:
    r"""Say which byte of a line from `every_line` is not UTF-8, or return an empty string.

    `every_line` reads such a byte as a character that no valid text contains.

    Example:
        ``caf\udce9`` gives ``byte 0xe9 is not UTF-8; save the file as UTF-8``.
    """
    if text.isascii():
        return ""
    escaped_byte = _NOT_UTF8.search(text)
    if escaped_byte is None:
        return ""
    # The escape of the byte 0xE9 is the character U+DCE9.
    byte = ord(escaped_byte[0]) & 0xFF
    return f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"


def read_lines(
    path: Path, parse: Callable[[Any], Item], expected: str, advice: str = ""
) -> list[Item]:
    """Read a file with a JSON value on each line.

    Args:
        path: The file, gzipped or not. Its blank lines are skipped.
        parse: A function that turns a value into an item, or raises ValueError with a sentence
            that says what is wrong with the value.
        expected: What the file should be, for the end of an error about the whole file.
        advice: What to do about bad lines.

    Returns:
        The items, in the order of the lines.

    Raises:
        DataError: The file cannot be read, or has bad lines. The text names each of these lines.
    """
    items = []
    # All bad lines are reported at once, so that a user corrects the file only once.
    problems = []
    for number, line in lines_of(path, expected):
        try:
            record = parse_json(line, refuse_repeated_keys=False)
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

    Args:
        path: The file, gzipped or not.
        model: The class of the result.
        expected: What the file should be, for the end of the error.

    Raises:
        DataError: The file cannot be read, or its content does not fit the model.
    """
    text = read_text(path, expected)
    try:
        return to_model(model, parse_json(text, refuse_repeated_keys=False))
    except ValueError as error:
        raise DataError(f"{path}: {error}; {expected}") from error


def to_model(model: type[Item], record: object) -> Item:
    """Turn parsed JSON into a pydantic model or a dataclass.

    Args:
        model: The class of the result.
        record: The parsed JSON.

    Raises:
        ValueError: The record does not fit. The text names the first problem and its key.
    """
    try:
        item: Item = adapter_of(model).validate_python(record)
    except ValidationError as error:
        raise ValueError(problems_of(model, error)[0]) from error
    return item


@contextmanager
def _open_text(path: Path, errors: str, newline: str = "\n") -> Iterator[TextIO]:
    """Open a text file, gzipped or not, for the duration of the block.

    Args:
        path: The file. Its first bytes tell whether it is gzipped, since its name may not.
        errors: How to treat bytes that are not UTF-8, as in `open`.
        newline: The end of lines, as in `open`.

    Yields:
        The text without a byte order mark.
    """
    with path.open("rb") as file:
        is_gzipped = file.peek(2)[:2] == GZIP_MAGIC
        with _BoundedGzip(file, unpacked_limit(path)) if is_gzipped else file as content:
            yield io.TextIOWrapper(content, "utf-8-sig", errors, newline)


class _BoundedGzip(gzip.GzipFile):
    """A gzipped file that ends in an error once it has unpacked too much."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        """Open a file.

        Args:
            file: The packed file.
            limit: The largest number of unpacked bytes.
        """
        super().__init__(fileobj=file, mode="rb")
        self._limit = limit

    def read1(self, size: int = -1) -> bytes:
        """Read some bytes, as a text reader asks for them.

        Raises:
            OSError: The file has unpacked more bytes than the limit.
        """
        content = super().read1(size)
        if self.tell() > self._limit:
            raise OSError(f"it unpacks to more than {self._limit:,} bytes")
        return content


def unpacked_limit(path: Path) -> int:
    """Return how many bytes a packed file may unpack to: 256 MiB, and 100 times its size."""
    return _ALWAYS_UNPACKED + _MOST_TIMES_UNPACKED * path.stat().st_size


def _unreadable(path: Path, where: str, error: Exception, expected: str) -> DataError:
    """Return the error for a file that is missing or cannot be read.

    Args:
        path: The file.
        where: The file, or the file and the line at which reading failed.
        error: The reason.
        expected: What the file should be.
    """
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file; {expected}")
    return DataError(f"{where}: cannot be read: {error}; {expected}")
