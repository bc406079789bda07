"""Files of records, plain or gzipped: texts, lines, JSON lines (every bad one is named), JSON held
against a pydantic model."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import parse_json

Item = TypeVar("Item")

MOST_TEXT = (
    1 << 29
)  # characters of a file that is read at once: a small gzipped one may hold any number
MOST_LINE = 1 << 26
_SHOWN = 60  # characters of a value
_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("float_type", "finite_number"), "a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("model_type", "dataclass_type", "dict_type"), "an object"),
}
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@contextmanager
def _opened(path: Path, expected: str) -> Iterator[TextIO]:
    try:
        with (
            path.open("rb") as file,
            gzip.open(file) if file.peek(2)[:2] == b"\x1f\x8b" else file as content,
        ):
            yield io.TextIOWrapper(content, "utf-8-sig", newline="\n")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; {expected}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}; {expected}") from error


def read_text(path: Path, expected: str) -> str:
    """The text of a UTF-8 file, gzipped or not, without a byte order mark. Raises DataError, with
    what was ``expected``."""
    with _opened(path, expected) as file:
        text = file.read(MOST_TEXT + 1)
    if len(text) > MOST_TEXT:
        raise DataError(f"{path}: more than {MOST_TEXT:,} characters once unpacked; {expected}")
    return text


def lines_of(path: Path, expected: str) -> Iterator[tuple[int, str]]:
    """The lines of such a file that are not blank, each with its number, one in memory at a time.
    They end at line feeds alone, since models write other line ends too. Raises DataError: as
    ``read_text``, when the line is reached that cannot be read."""
    with _opened(path, expected) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE + 1), ""), 1):
            if len(line) > MOST_LINE:
                raise DataError(
                    f"{path}:{number}: a line of more than {MOST_LINE:,} characters; {expected}"
                )
            if not line.isspace():
                yield number, line.removesuffix("\n")


def read_lines(
    path: Path, parse: Callable[[Any], Item], expected: str, advice: str = ""
) -> list[Item]:
    """What ``parse`` makes of each line of JSON. Raises DataError: the file cannot be read; or
    lines are no JSON, or ``parse`` raises ``ValueError`` of them: each is named, and ``advice``
    given."""
    found: list[Item] = []
    problems: list[str] = []
    for number, line in lines_of(path, expected):
        try:
            found.append(parse(_json(line)))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    refuse(problems, "lines", advice)
    return found


def to_model(model: type[Item], record: Any) -> Item:
    """``record``, as JSON has it, as a pydantic model or dataclass. Raises ValueError: what is
    wrong first, and where."""
    try:
        return cast(Item, _adapter(model).validate_python(record))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    *place, key = problem["loc"] or ("",)
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(
        "."
    )
    if problem["type"] == "missing":
        found = (
            ", ".join(map(str, problem["input"])) if isinstance(problem["input"], Mapping) else ""
        )
        raise ValueError(f"{path}{': ' if path else ''}no {key!r}; found {found or 'no keys'}")
    name = (
        f"{path}[{key}]: "
        if isinstance(key, int)
        else f"{path}: {key!r}: "
        if path
        else f"{key!r}: "
        if key
        else ""
    )
    if problem["type"] == "value_error":
        raise ValueError(f"{name}{problem['ctx']['error']}")
    expected = _EXPECTED.get(problem["type"]) or problem["msg"].removeprefix(
        "Input should be "
    ).replace("'", "")
    raise ValueError(f"{name}found {short(problem['input'])}, expected {expected}")


def short(value: Any, most: int = _SHOWN) -> str:
    """A value as an error shows it, at ``most`` so many characters."""
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[:most]} ..."


def _json(line: str) -> Any:
    try:
        return parse_json(line, is_shared=False)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
