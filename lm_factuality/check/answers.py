"""Read people's answers from tables, text files, chat logs, standard input and lm_eval's samples.

`read_answers` is the entry point. Problems of one row are returned with the answers, so that one
bad row does not stop a check.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from lm_factuality.benchmarks.factor.rows import cell_text
from lm_factuality.documents.document import UTF16_MARKS
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed, short
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import GZIP_MAGIC, read_text
from lm_factuality.ground.replies import SURROGATE_PATTERN
from lm_factuality.ground.tables import (
    SPREADSHEET_FORMATS,
    Reader,
    TableRow,
    bounded_rows,
    jsonl_rows,
    parquet_rows,
)
from lm_factuality.harness.samples import prompt_text, responses_of

STANDARD_INPUT: Literal["-"] = "-"
"""The name of standard input on a command line."""

MAX_ANSWER_BYTES = 2_000_000
"""The longest answer that is split into claims, in bytes of UTF-8."""

USUAL_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "id": ("id", "answer_id", "key", "index"),
        "question": ("question", "prompt", "instruction", "input", "query"),
        "answer": ("answer", "response", "output", "completion", "generation", "reply", "text"),
    }
)
"""The usual names of columns by their role, the clearest first. Case, spaces and underscores do
not matter."""

_MESSAGES = "messages"  # the key of a chat log
_TEXT_ADVICE = "save it as text in UTF-8"
_BEGINNING = 8192  # bytes that tell the kind of a file
_MOST_COLUMNS = 20  # that an error lists


@dataclass(frozen=True)
class Answer:
    """An answer to check."""

    id: str
    """An id that no other answer of the source has."""

    question: str
    """The question, or an empty text if none is known."""

    text: str
    """The answer as it was written, with its markup."""

    location: str
    """Where it was read, such as ``answers.csv, row 3``."""


@dataclass(frozen=True)
class AnswerProblem:
    """A row or file without an answer that can be checked."""

    location: str
    """Where it is, such as ``answers.csv, row 3``."""

    reason: str
    """Why it cannot be checked, such as ``the answer is empty``."""

    def __str__(self) -> str:
        """Return a sentence for a report: ``answers.csv, row 3: the answer is empty``."""
        return f"{self.location}: {self.reason}"


@dataclass(frozen=True)
class AnswerFile:
    """The answers of a file or folder, and what else it holds."""

    answers: tuple[Answer, ...]
    """The answers, in the order of the source."""

    problems: tuple[AnswerProblem, ...] = ()
    """The rows and files that cannot be used."""


def read_answers(
    source: Path | Literal["-"], columns: Mapping[str, str] = MappingProxyType({})
) -> AnswerFile:
    """Read answers from a file, a folder or standard input.

    Tables (CSV, TSV, JSON, JSON Lines, Parquet) have an answer in each row. A row with
    ``messages`` is a chat, whose last turn of the assistant is the answer. A text or Markdown file
    is one answer. A folder holds such files, or results of lm_eval with their samples.

    Example:
        The file ``answers.csv`` with the lines ``question,answer`` and ``Who?,Ada.`` has the answer
        ``Ada.`` to the question ``Who?``, at ``answers.csv, row 1``.

    Args:
        source: The path, or ``-`` for standard input in JSON Lines, CSV or plain text.
        columns: The names of columns by ``answer``, ``question`` and ``id``, for tables that do not
            use the usual names (`USUAL_COLUMNS`).

    Returns:
        The answers, and the rows that cannot be used. A repeated id gets ``#2``, ``#3`` and so on.

    Raises:
        ConfigError: ``columns`` has another key.
        DataError: The source holds no answer that can be used, or it is not clear which column has
            the answers.
    """
    _check_roles(columns)
    if source == STANDARD_INPUT:
        return _read_bytes(sys.stdin.buffer.read(), "standard input", columns)
    if source.is_dir():
        return _to_answer_file(_read_folder(source, columns), str(source))
    if not source.exists():
        raise DataError(f"{source}: no such file; {_EXPECTED}")
    if not source.is_file():
        # A pipe can be read only once, but its beginning tells its format.
        return _read_bytes(source.read_bytes(), str(source), columns)
    return _to_answer_file(_read_file(source, source.name, columns), str(source))


def answers_of_rows(
    rows: Iterable[Mapping[str, Any] | str], columns: Mapping[str, str] = MappingProxyType({})
) -> AnswerFile:
    """Return the answers in rows of Python: texts, or mappings with the columns of `read_answers`.

    Args:
        rows: The rows, such as ``{"question": "Who?", "answer": "Ada."}`` or ``"Ada."``.
        columns: The names of columns by ``answer``, ``question`` and ``id``.

    Raises:
        ConfigError: ``columns`` has another key.
        DataError: There is no answer, or it is not clear which column has the answers.
    """
    _check_roles(columns)
    table_rows = []
    for number, row in enumerate(rows, start=1):
        values = {"answer": row} if isinstance(row, str) else row
        table_rows.append(TableRow(f"row {number}", values))
    return _to_answer_file(_table_answers(table_rows, "answers", columns), "answers")


def parse_columns(words: Sequence[str]) -> dict[str, str]:
    """Parse the values of the option ``--columns``, each a role and the name of its column.

    Example:
        ``["answer=reply", "question=ask"]`` gives ``{"answer": "reply", "question": "ask"}``.

    Raises:
        ConfigError: A value has no equals sign, or another role.
    """
    columns = {}
    for word in words:
        role, separator, column = word.partition("=")
        if not separator or not column:
            raise ConfigError(f"--columns: found {word!r}, expected ROLE=NAME, as in answer=reply")
        columns[role] = column
    _check_roles(columns)
    return columns


def is_samples_file(path: Path) -> bool:
    """Tell whether a file has samples of lm_eval: JSON lines with ``doc`` and ``resps``."""
    if not path.is_file() or _file_ending(path) not in (".jsonl", ".ndjson"):
        return False
    first_row = next(jsonl_rows(path), "")
    return isinstance(first_row, TableRow) and _is_sample(first_row.values)


def _check_roles(columns: Mapping[str, str]) -> None:
    """Check that the keys of ``columns`` are roles."""
    unknown = [role for role in columns if role not in USUAL_COLUMNS]
    if unknown:
        raise ConfigError(
            f"--columns: found {listed(unknown)}, expected {', '.join(USUAL_COLUMNS)}, as in"
            f" --columns answer=reply{did_you_mean(unknown[0], USUAL_COLUMNS)}"
        )


def _read_bytes(content: bytes, name: str, columns: Mapping[str, str]) -> AnswerFile:
    """Read answers from bytes without a file name, such as those of standard input.

    Args:
        content: A table or a text. Its beginning tells its format.
        name: The name of the source in locations and errors, such as ``standard input``.
        columns: The names of columns that the user gave, by their role.
    """
    ending = _ending_by_content(content, columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"input{ending}"
        path.write_bytes(content)
        return _to_answer_file(_read_file(path, name, columns), name)


def _ending_by_content(content: bytes, columns: Mapping[str, str]) -> str:
    """Return the ending that a file with this content would have, such as ``.csv``."""
    text = content.decode("utf-8-sig", "replace").lstrip()
    first_line = text.split("\n", 1)[0].strip()
    # JSON Lines have an object in each line. JSON may be any value, on several lines.
    if isinstance(_json_value(first_line), dict):
        return ".jsonl"
    if _json_value(text) is not None:
        return ".json"

    # A table has a column whose name is usual, or was named by the user.
    names = chain(*USUAL_COLUMNS.values(), columns.values())
    normalized_names = {_normalized(name) for name in names}
    for ending, separator in ((".tsv", "\t"), (".csv", ","), (".csv", ";")):
        cells = [_normalized(cell.strip('"')) for cell in first_line.split(separator)]
        if len(cells) > 1 and normalized_names.intersection(cells):
            return ending
    return ".txt"


def _json_value(text: str) -> object:
    """Parse a text as JSON. Return None if the text is no JSON object or list."""
    # Markdown may begin with a link, such as "[1] says".
    if not text.startswith(("{", "[")):
        return None
    try:
        return parse_json(text, refuse_repeated_keys=False)
    except ValueError:
        return None


_AnswerOrProblem = Answer | AnswerProblem


def _to_answer_file(answers_and_problems: Sequence[_AnswerOrProblem], source: str) -> AnswerFile:
    """Return the answers of a source with unique ids, and its problems.

    Args:
        answers_and_problems: The answers, and a problem for each row that has none, in order.
        source: The name or path of the source, for errors.

    Raises:
        DataError: The source has no answer that can be used.
    """
    answers = [row for row in answers_and_problems if isinstance(row, Answer)]
    problems = [row for row in answers_and_problems if isinstance(row, AnswerProblem)]
    if answers:
        return AnswerFile(tuple(_with_unique_ids(answers)), tuple(problems))
    if not problems:
        raise DataError(f"{source}: no answers; expected at least one row or text")
    first, *others = problems
    # The message begins with the name of the file, which need not be repeated.
    is_about_whole_file = first.location == Path(source).name
    location = "" if is_about_whole_file else f" ({first.location})"
    others_note = f"; {len(others):,} more have problems" if others else ""
    raise DataError(f"{source}: no answer can be used: {first.reason}{location}{others_note}")


def _with_unique_ids(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Yield answers, with a number behind each id that an earlier answer has.

    Example:
        The ids ``7``, ``7`` and ``7`` become ``7``, ``7#2`` and ``7#3``.
    """
    all_ids = {answer.id for answer in answers}
    last_numbers: dict[str, int] = {}
    for answer in answers:
        if answer.id not in last_numbers:
            last_numbers[answer.id] = 1
            yield answer
            continue
        number = last_numbers[answer.id] + 1
        # The file may have an id such as "7#2" itself.
        while f"{answer.id}#{number}" in all_ids:
            number += 1
        last_numbers[answer.id] = number
        yield replace(answer, id=f"{answer.id}#{number}")


def _read_file(path: Path, name: str, columns: Mapping[str, str]) -> list[_AnswerOrProblem]:
    """Read the answers of one file.

    Args:
        path: The file.
        name: Its name in locations and errors.
        columns: The names of columns by their role.

    Raises:
        DataError: The file as a whole cannot be used.
    """
    ending = _file_ending(path) or _ending_by_content(path.read_bytes(), columns)
    if ending not in _ENDINGS:
        raise DataError(f"{name}: ends in {ending!r}, {_EXPECTED}")
    _check_beginning(path, name, ending)
    if ending in _TEXT_ENDINGS:
        text = read_text(path, _TEXT_ADVICE)
        return [_usable_or_problem(Answer(id=name, question="", text=text, location=name))]
    if is_samples_file(path):
        return _sample_answers(path, name, columns, prefix="")

    rows: list[TableRow | AnswerProblem] = []
    for number, row in enumerate(bounded_rows(path, _TABLE_READERS[ending](path)), start=1):
        if isinstance(row, TableRow):
            rows.append(row)
            continue
        # In place of a row that cannot be read, a reader yields an error message.
        reason = _without_location(row, path)
        rows.append(AnswerProblem(f"{name}, row {number}", reason))
    return _table_answers(rows, name, columns)


def _file_ending(path: Path) -> str:
    """Return the ending of a file in small letters, without ``.gz``."""
    ending = path.suffix.lower()
    return Path(path.stem).suffix.lower() if ending == ".gz" else ending


def _check_beginning(path: Path, name: str, ending: str) -> None:
    """Refuse a file that is empty, or binary where text is expected.

    Raises:
        DataError: The file is empty or binary.
    """
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if not beginning.strip():
        raise DataError(f"{name}: the file is empty; expected answers")
    if ending == ".parquet" or beginning.startswith(GZIP_MAGIC):
        return
    if beginning.startswith(UTF16_MARKS):
        raise DataError(f"{name}: a text in UTF-16; save it as UTF-8")
    if b"\0" in beginning:
        raise DataError(f"{name}: a binary file; {_EXPECTED}")


def _usable_or_problem(answer: Answer) -> Answer | AnswerProblem:
    """Return an answer, or the problem if its text is empty, broken or too long to be checked."""
    problem = _problem_of_text(answer.text)
    return AnswerProblem(answer.location, problem) if problem else answer


def _problem_of_text(text: str) -> str:
    """Return why the text of an answer cannot be checked. Empty if the text can be checked."""
    if not text.strip():
        return "the answer is empty"
    # The text would not fit into UTF-8, which all files of a check are written in.
    if SURROGATE_PATTERN.search(text):
        return "the answer has half of a character (a lone surrogate); write it again as UTF-8"
    num_bytes = len(text.encode())
    if num_bytes > MAX_ANSWER_BYTES:
        return (
            f"the answer has {num_bytes:,} bytes, at most {MAX_ANSWER_BYTES:,} are checked; split"
            " it"
        )
    return ""


def _without_location(message: str, path: Path) -> str:
    """Remove the path and the row from a reader's message, since an `AnswerProblem` names them.

    The number of a line stays: lines of JSON Lines may be blank, so it can differ from the row's.

    Example:
        ``a.csv, row 7: no answer`` becomes ``no answer``, and ``a.jsonl:7: no answer`` becomes
        ``line 7: no answer``.
    """
    message = message.removeprefix(str(path))
    line = re.match(r":(\d+): ", message)
    if line is not None:
        return f"line {line[1]}: {message[line.end() :]}"
    return re.sub(r"^(?:, row \d+)?: ", "", message)


def _json_rows(path: Path) -> Iterator[TableRow | str]:
    """Yield the rows of a JSON file, and an error message in place of each unusable one.

    One bad row thus does not stop a check. All readers of tables do the same.

    Example:
        ``["Ada.", 7]`` in ``a.json`` yields the row ``{"answer": "Ada."}``, and the message
        ``a.json, row 2: found 7, expected an object``.

    Args:
        path: The file. It has a list of objects or texts, an object with such a list, or a chat.

    Yields:
        A `TableRow` for each object or text, and a message for each other entry. If the file has no
        list, only a message about the file.
    """
    try:
        content = parse_json(read_text(path, _TEXT_ADVICE), refuse_repeated_keys=False)
    except ValueError as error:
        yield f"{path}: not valid JSON: {error}; expected a list of objects"
        return

    rows = _rows_in(content)
    if rows is None:
        yield f"{path}: found {short(content)}, expected a list of objects"
        return
    for number, row in enumerate(rows, start=1):
        location = f"{path}, row {number}"
        if isinstance(row, str):
            yield TableRow(location, {"answer": row})
        elif isinstance(row, dict):
            yield TableRow(location, row)
        else:
            yield f"{location}: found {short(row)}, expected an object"


def _rows_in(content: object) -> list[Any] | None:
    """Return the rows in the value of a JSON file. None if it is neither an object nor a list.

    - Each element of a list is a row. A list of messages, however, is one chat, i.e. one row.
    - An object that has a single list of objects, apart from a chat, has its rows in this list.
    - Any other object is a row itself.

    Example:
        ``{"model": "m", "answers": [{"answer": "Paris"}]}`` → ``[{"answer": "Paris"}]``
    """
    if isinstance(content, list):
        is_one_chat = bool(content) and all(map(_is_message, content))
        return [{_MESSAGES: content}] if is_one_chat else content
    if not isinstance(content, dict):
        return None
    # The list in a chat log holds messages instead of rows.
    if _MESSAGES in content:
        return [content]
    lists_of_objects = []
    for value in content.values():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lists_of_objects.append(value)
    return lists_of_objects[0] if len(lists_of_objects) == 1 else [content]


_TABLE_READERS: Mapping[str, Reader] = {
    **SPREADSHEET_FORMATS,
    ".ndjson": jsonl_rows,
    ".json": _json_rows,
    ".parquet": parquet_rows,
}
_TEXT_ENDINGS = (".txt", ".md", ".markdown")
_ENDINGS = (*_TABLE_READERS, *_TEXT_ENDINGS)
_EXPECTED = f"expected {', '.join(_ENDINGS)} or a folder of them"


def _table_answers(
    rows: Sequence[TableRow | AnswerProblem], name: str, columns: Mapping[str, str]
) -> list[_AnswerOrProblem]:
    """Return the answer or the problem of each row of a table.

    Args:
        rows: The rows, with a problem in place of each row that could not be read.
        name: The name of the table in locations and errors.
        columns: The names of columns that the user gave, by their role.

    Raises:
        DataError: It is not clear which column has the answers.
    """
    # A row of a chat log has messages, and needs no other column.
    rows_with_columns = [
        row for row in rows if isinstance(row, TableRow) and not _is_chat(row.values)
    ]
    column_of_role: Mapping[str, str] = {}
    if rows_with_columns:
        column_of_role = _find_columns(rows_with_columns, name, columns)

    answers_and_problems: list[_AnswerOrProblem] = []
    for number, row in enumerate(rows, start=1):
        if isinstance(row, TableRow):
            location = f"{name}, row {number}"
            answer = _row_answer(row.values, column_of_role, location, default_id=str(number))
            answers_and_problems.append(answer)
        else:
            answers_and_problems.append(row)
    return answers_and_problems


def _row_answer(
    values: Mapping[str, Any], columns: Mapping[str, str], location: str, default_id: str
) -> Answer | AnswerProblem:
    """Return the answer in a row of a table or chat log, or why there is none.

    Args:
        values: The cells of the row, by column.
        columns: The columns by role, as `_find_columns` returns them.
        location: The place of the row, such as ``answers.csv, row 3``.
        default_id: The id of a row whose table has no ids.
    """
    if _is_chat(values):
        return _chat_answer(values, location, default_id)
    cells = {role: values.get(column) for role, column in columns.items()}
    cell = cells["answer"]
    text = cell_text(cell)
    if text is None:
        reason = (
            "the answer is empty" if _is_blank(cell) else f"found {short(cell)}, expected a text"
        )
        return AnswerProblem(location, reason)
    question = cell_text(cells.get("question")) or ""
    row_id = cell_text(cells.get("id")) or default_id
    return _usable_or_problem(Answer(row_id, question.strip(), text, location))


def _is_blank(cell: object) -> bool:
    """Tell whether the cell of a table is empty: None, or NaN, which differs from itself."""
    return cell is None or cell != cell


def _find_columns(
    rows: Sequence[TableRow], name: str, named: Mapping[str, str]
) -> Mapping[str, str]:
    """Find the columns with the answers, questions and ids.

    Args:
        rows: The rows of the table, which may have different keys.
        name: The name of the table.
        named: The columns that the user named, by their role.

    Returns:
        The columns by role, such as ``{"answer": "Reply", "id": "Key"}``. The answers always have
        a column.

    Raises:
        DataError: A named column is missing, or none or several may have the answers. The error
            lists all problems, the columns, the first row and what to write.
    """
    all_columns = list(dict.fromkeys(chain.from_iterable(row.values for row in rows)))
    # Of two columns whose names differ in spelling only, the first counts.
    columns_by_name = {_normalized(column): column for column in reversed(all_columns)}
    problems = []
    column_of_role = {}
    for role in USUAL_COLUMNS:
        candidates = _columns_for_role(role, columns_by_name, named)
        problem = _problem_of_role(role, candidates, named, all_columns)
        if problem:
            problems.append(problem)
        elif candidates:
            column_of_role[role] = candidates[0]
    if problems:
        raise DataError(_unclear_columns(rows[0], name, all_columns, problems))
    return column_of_role


def _problem_of_role(
    role: str, candidates: Sequence[str], named: Mapping[str, str], all_columns: Sequence[str]
) -> str:
    """Return why it is unclear which column has a role. Empty if the role is clear.

    Args:
        role: The role, such as ``answer``. Only the answers must have a column.
        candidates: The columns that may have the role.
        named: The columns that the user named, by their role.
        all_columns: The columns of the table.
    """
    if role in named and not candidates:
        suggestion = did_you_mean(named[role], all_columns)
        return f"--columns {role}={named[role]}: no such column{suggestion}"
    if role != "answer":
        return ""
    if not candidates:
        return f"no column is called {', '.join(USUAL_COLUMNS[role])}"
    if len(candidates) > 1:
        return f"several columns may have the answers: {', '.join(candidates)}"
    return ""


def _columns_for_role(
    role: str, columns_by_name: Mapping[str, str], named: Mapping[str, str]
) -> list[str]:
    """Return the columns that may have a role, the one with the clearest name first.

    Args:
        role: The role, such as ``answer``.
        columns_by_name: The columns of the table by their normalized names.
        named: The columns that the user named, by their role.
    """
    if role in named:
        names = [_normalized(named[role])]
    else:
        # A column that the user named has no other role.
        named_columns = {_normalized(column) for column in named.values()}
        usual_names = map(_normalized, USUAL_COLUMNS[role])
        names = [name for name in usual_names if name not in named_columns]
    return [columns_by_name[name] for name in names if name in columns_by_name]


def _unclear_columns(
    first_row: TableRow, name: str, all_columns: Sequence[str], problems: Sequence[str]
) -> str:
    """Return the error for a table whose columns are unclear."""
    cells = [f"{column}={short(value, 40)}" for column, value in first_row.values.items()]
    return "\n".join(
        (
            f"{name}: it is not clear which column has the answers:",
            *(f"- {problem}" for problem in problems),
            f"Columns: {listed(all_columns, _MOST_COLUMNS)}",
            f"First row: {listed(cells, _MOST_COLUMNS)}",
            "Name the columns: --columns answer=NAME question=NAME id=NAME (only answer is"
            " required)",
        )
    )


def _normalized(name: object) -> str:
    """Return the name of a column without spaces and underscores, and in small letters."""
    return re.sub(r"[\s_-]+", "", str(name)).casefold()


def _is_message(value: object) -> bool:
    """Tell whether a value is a message of a chat, with the ``role`` of its writer."""
    return isinstance(value, dict) and "role" in value and "content" in value


def _is_chat(values: Mapping[str, Any]) -> bool:
    """Tell whether a row is a chat log."""
    messages = values.get(_MESSAGES)
    return isinstance(messages, list) and all(map(_is_message, messages))


def _chat_answer(
    values: Mapping[str, Any], location: str, default_id: str
) -> Answer | AnswerProblem:
    """Return the last text of the assistant in a chat log, and the user's message before it.

    Args:
        values: The row, with a list of ``messages`` and perhaps an ``id``.
        location: The place of the row, such as ``chats.jsonl, row 3``.
        default_id: The id of a chat without an ``id``.
    """
    answer = ""
    question = ""
    last_user_text = ""
    for message in values[_MESSAGES]:
        text = _message_text(message["content"])
        if message["role"] == "user":
            last_user_text = text
        # A message without text may call a tool.
        if message["role"] == "assistant" and text:
            answer = text
            question = last_user_text
    if not answer:
        return AnswerProblem(location, "the chat has no text of the assistant")
    chat_id = cell_text(values.get("id")) or default_id
    return _usable_or_problem(Answer(chat_id, question.strip(), answer, location))


def _message_text(content: object) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    # Parts without a text are images, for example.
    texts = [part["text"] for part in content if isinstance(part, dict) and "text" in part]
    return "\n".join(map(str, texts))


def _read_folder(folder: Path, columns: Mapping[str, str]) -> list[_AnswerOrProblem]:
    """Read a folder of tables and text files, or of results of lm_eval with their samples.

    Raises:
        DataError: The folder has no answers, or it has samples of several runs of one task.
    """
    samples_files = sorted(folder.rglob("samples_*.jsonl"))
    if samples_files:
        return _read_samples_files(folder, samples_files, columns)
    if any(folder.rglob("results_*.json")):
        raise DataError(
            f"{folder}: results of lm_eval without samples; run lm_eval again with --log_samples"
        )

    answers_and_problems: list[_AnswerOrProblem] = []
    has_answers = False
    for path in sorted(folder.rglob("*")):
        relative_path = path.relative_to(folder)
        # Hidden files and folders, such as .DS_Store, have no answers.
        is_hidden = any(part.startswith(".") for part in relative_path.parts)
        if is_hidden or not path.is_file():
            continue
        name = relative_path.as_posix()
        if _file_ending(path) in _ENDINGS:
            has_answers = True
            answers_and_problems += _read_file_in_folder(path, name, columns)
        else:
            reason = f"the file ends in none of {', '.join(_ENDINGS)}"
            answers_and_problems.append(AnswerProblem(name, reason))
    if not has_answers:
        raise DataError(f"{folder}: no answers and no samples of lm_eval here; {_EXPECTED}")
    return answers_and_problems


def _read_file_in_folder(
    path: Path, relative_path: str, columns: Mapping[str, str]
) -> list[_AnswerOrProblem]:
    """Read one file of a folder.

    Args:
        path: The file.
        relative_path: Its path from the folder. The ids of its rows begin with it.
        columns: The names of columns by their role.

    Returns:
        The answers and problems. A file that cannot be read as a whole is one problem.
    """
    try:
        rows = _read_file(path, relative_path, columns)
    except DataError as error:
        # An error about columns has several lines.
        reason = " ".join(str(error).split())
        # An error of a reader begins with the path, and an error of this module with the path from
        # the folder. The problem names the place itself.
        reason = reason.removeprefix(f"{path}: ").removeprefix(f"{relative_path}: ")
        return [AnswerProblem(relative_path, reason)]

    answers_and_problems: list[_AnswerOrProblem] = []
    for row in rows:
        # A text file is one answer, whose id is already the path of the file.
        if isinstance(row, Answer) and row.id != relative_path:
            row = replace(row, id=f"{relative_path}/{row.id}")
        answers_and_problems.append(row)
    return answers_and_problems


def _read_samples_files(
    folder: Path, paths: Sequence[Path], columns: Mapping[str, str]
) -> list[_AnswerOrProblem]:
    """Read the samples of each task in a folder of lm_eval's results.

    Args:
        folder: The folder.
        paths: The samples files in it.
        columns: The names of fields of the documents, for ``question`` and ``id``.

    Returns:
        The answers and problems. If there are several tasks, an id begins with that of its task,
        as in ``felm/7``.

    Raises:
        DataError: There are samples of several runs of one task.
    """
    paths_by_task: defaultdict[str, list[Path]] = defaultdict(list)
    for path in paths:
        paths_by_task[_task_of_samples(path)].append(path)
    for task_paths in paths_by_task.values():
        if len(task_paths) > 1:
            names = [path.relative_to(folder).as_posix() for path in task_paths]
            raise DataError(f"{folder}: samples of several runs; name one file: {listed(names)}")

    answers_and_problems: list[_AnswerOrProblem] = []
    for path in paths:
        name = path.relative_to(folder).as_posix()
        prefix = f"{_task_of_samples(path)}/" if len(paths) > 1 else ""
        try:
            answers_and_problems += _sample_answers(path, name, columns, prefix)
        except DataError as error:
            # Tasks that score continuations have no answers, and other tasks may have.
            reason = str(error).removeprefix(f"{name}: ")
            answers_and_problems.append(AnswerProblem(name, reason))
    return answers_and_problems


def _task_of_samples(path: Path) -> str:
    """Return the task of a samples file by its name, which ends with the date of the run.

    Example:
        ``samples_felm_2026-01-31T10-00-00.5.jsonl`` is of the task ``felm``.
    """
    return re.sub(r"_\d{4}-\d\d-\d\dT.*", "", path.stem.removeprefix("samples_"))


def _is_sample(values: Mapping[str, Any]) -> bool:
    """Tell whether a row is a sample of lm_eval."""
    return isinstance(values.get("doc"), dict) and "resps" in values


def _sample_answers(
    path: Path, name: str, columns: Mapping[str, str], prefix: str
) -> list[_AnswerOrProblem]:
    """Return the responses in a samples file of lm_eval, as the model wrote them.

    Args:
        path: The file.
        name: Its name in locations.
        columns: The names of fields of the documents, for ``question`` and ``id``.
        prefix: The task before each id, or empty.

    Raises:
        DataError: The task does not generate text.
    """
    answers_and_problems: list[_AnswerOrProblem] = []
    first_sample: Mapping[str, Any] | None = None
    for number, row in enumerate(jsonl_rows(path), start=1):
        location = f"{name}, row {number}"
        if isinstance(row, str):
            answers_and_problems.append(AnswerProblem(location, _without_location(row, path)))
            continue
        sample = row.values
        if not _is_sample(sample):
            answers_and_problems.append(
                AnswerProblem(location, "no sample of lm_eval, which has doc and resps")
            )
            continue
        # A task with several filters writes each sample once per filter. The first filter counts.
        first_sample = first_sample or sample
        is_of_first_filter = sample.get("filter") == first_sample.get("filter")
        if not is_of_first_filter:
            continue
        if not _is_generated(sample):
            raise DataError(f"{name}: the task scores continuations, expected generated answers")
        sample_id = sample["doc"].get(columns["id"]) if "id" in columns else sample.get("doc_id")
        answer_id = f"{prefix}{cell_text(sample_id) or number}"
        answers_and_problems += _answers_of_sample(
            sample, answer_id, columns.get("question"), location
        )
    return answers_and_problems


def _answers_of_sample(
    sample: Mapping[str, Any], answer_id: str, question_field: str | None, location: str
) -> list[_AnswerOrProblem]:
    """Return the responses of a sample, which are several answers with the same id."""
    question = _sample_question(sample, question_field)
    try:
        texts = responses_of(sample)
    except ValueError as error:
        return [AnswerProblem(location, str(error))]
    return [_usable_or_problem(Answer(answer_id, question, text, location)) for text in texts]


def _first_request(sample: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of the first request of a sample, the prompt first.

    The settings of the generation, or the continuation to score, follow it. Samples have the
    arguments in a list, or in a mapping such as ``{"arg_0": "Who?", "arg_1": {}}``.
    """
    requests = sample.get("arguments") or [[]]
    if isinstance(requests, dict):
        requests = list(requests.values())
    first = requests[0]
    return list(first.values()) if isinstance(first, dict) else list(first)


def _is_generated(sample: Mapping[str, Any]) -> bool:
    """Tell whether a model wrote the responses of a sample, instead of scoring continuations."""
    arguments = _first_request(sample)
    # A continuation is a text, and the settings of a generation are a mapping.
    return len(arguments) < 2 or not isinstance(arguments[1], str)


def _sample_question(sample: Mapping[str, Any], named_field: str | None) -> str:
    """Return the question of a sample, which is a field of its document or else its prompt.

    Args:
        sample: The sample.
        named_field: The field that the user named. None looks for the usual names.
    """
    doc = {_normalized(field): value for field, value in sample["doc"].items()}
    fields = (named_field,) if named_field else USUAL_COLUMNS["question"]
    for field in fields:
        question = cell_text(doc.get(_normalized(field)))
        if question:
            return question.strip()
    try:
        return prompt_text(_first_request(sample)[0]).strip()
    except (ValueError, LookupError, TypeError):
        return ""
