"""The rows of FACTOR, what makes a row unscorable, and the templates that make rows of tables.

`load` makes the rows. The tasks of FACTOR, the perplexity tasks and factor-gen use them.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.replies import SURROGATE_PATTERN, replace_surrogates
from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.harness.generation import JsonObject

_SPACE_BEFORE_PUNCTUATION = re.compile(r"(?<!\s)\s+([.,;:!?])")
NOT_TEXT = "is missing or no text (null, NaN, true, false or a list)"
LONE_SURROGATE = (
    "holds half of a surrogate pair, which is not a character; write the character itself or its"
    " whole pair"
)

CellRenderer: TypeAlias = Callable[[Mapping[str, object]], object]
"""Makes a value of the cells of a row, which are given by column."""


@dataclass(frozen=True)
class Row:
    """One example of FACTOR: a prefix, its true completion, and contradictions of it."""

    location: str
    """The file and the line, for messages."""

    doc_id: str
    """The document that the row is from. Standard errors are clustered by it."""

    prefix: str
    """The text of the document before the completion."""

    choices: tuple[str, ...]
    """The true completion and its contradictions."""

    gold: int
    """The index of the true completion in ``choices``."""

    error_types: tuple[str, ...]
    """FACTOR's error type of each choice, empty for the true completion and if it is not known."""

    problem: str = ""
    """Why the row cannot be scored, empty if it can."""


def cell_text(value: object) -> str | None:
    """Return a cell of a table as text, or None if it holds neither text nor a number.

    Example:
        The number 12 becomes ``"12"``. Null, NaN, true, false and lists become None.
    """
    if isinstance(value, str):
        return value
    # In Python, bool is a subclass of int.
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return str(value)


def make_row(
    location: str,
    doc_id: str,
    prefix: str | None,
    choices: Sequence[str | None],
    gold: int,
    error_types: Sequence[str],
    choice_columns: Sequence[str] = (),
) -> Row:
    """Make a row, whose ``problem`` says why it cannot be scored, if it cannot.

    Args:
        location: The file and the line, for messages.
        doc_id: The document that the row is from.
        prefix: The text before the completion. None stands for a missing text, which the row holds
            as an empty one.
        choices: The true completion and its contradictions, each None if it is missing.
        gold: The index of the true completion.
        error_types: The error type of each choice.
        choice_columns: The column of each choice, for the problem. Empty if it has none.
    """
    return Row(
        location=location,
        doc_id=doc_id,
        prefix=replace_surrogates(prefix or ""),
        choices=tuple(replace_surrogates(choice or "") for choice in choices),
        gold=gold,
        error_types=tuple(error_types),
        problem=_find_problem(prefix, choices, gold, choice_columns),
    )


def _find_problem(
    prefix: str | None,
    choices: Sequence[str | None],
    gold: int,
    choice_columns: Sequence[str] = (),
) -> str:
    """Find the first reason why a row cannot be scored.

    Args:
        prefix: The text before the completion, None if it is missing.
        choices: The true completion and its contradictions, each None if it is missing.
        gold: The index of the true completion in ``choices``.
        choice_columns: The column of each choice. Empty if it has none.

    Returns:
        The problem, such as ``choice 2 (contradiction_1) is empty``. Empty if the row can be
        scored.
    """
    if prefix is None:
        return f"the prefix {NOT_TEXT}, expected text"

    # Choices that differ only in white space at their ends count as the same choice.
    stripped_choices = []
    for index, choice in enumerate(choices):
        column = f" ({choice_columns[index]})" if choice_columns else ""
        if choice is None:
            return f"choice {index}{column} {NOT_TEXT}, expected text"
        if not choice.strip():
            return f"choice {index}{column} is empty"
        stripped_choices.append(choice.strip())

    # A surrogate cannot be encoded, so the text could not be sent to a model or written to a file.
    if SURROGATE_PATTERN.search("".join([prefix, *stripped_choices])):
        return LONE_SURROGATE
    if not 0 <= gold < len(choices):
        return (
            f"the gold is no choice (found {gold}), expected an index from 0 to"
            f" {len(choices) - 1} or the text of a choice"
        )

    # A model can only prefer one choice to another if they differ.
    num_distinct = len(set(stripped_choices))
    if num_distinct < 2:
        return f"{num_distinct} distinct choice, expected at least 2"
    # A contradiction with the text of the true completion would be true as well.
    if stripped_choices.count(stripped_choices[gold]) > 1:
        return "a contradiction equals the true completion"
    return ""


def normalise_spacing(row: Row) -> Row:
    """Return the row without white space before ``. , ; : ! ?`` in the prefix and all choices.

    Example:
        The choice ``It fell , then rose .`` becomes ``It fell, then rose.``
    """
    prefix = _SPACE_BEFORE_PUNCTUATION.sub(r"\1", row.prefix)
    choices = tuple(_SPACE_BEFORE_PUNCTUATION.sub(r"\1", choice) for choice in row.choices)
    # Two choices that differed only in spacing are the same now.
    problem = row.problem or _find_problem(prefix, choices, row.gold)
    return replace(row, prefix=prefix, choices=choices, problem=problem)


def named_error_types(rows_types: Iterable[Sequence[str]]) -> list[str]:
    """Return all error types that any row names, sorted.

    Args:
        rows_types: The error types of each row's choices. Empty ones are left out.
    """
    return sorted(set(chain.from_iterable(rows_types)) - {""})


def spaces_before_punctuation(text: str) -> int:
    """Count the places with white space before ``. , ; : ! ?``.

    In Expert-FACTOR as published this number alone gives most true completions away.
    """
    return len(_SPACE_BEFORE_PUNCTUATION.findall(text))


def row_document(row: Row) -> JsonObject:
    """Return a row as the document that lm_eval writes to samples files.

    Args:
        row: The row, which may have a problem.

    Returns:
        The fields of the row by name. ``location`` has no folder, so that the document is the same
        on every machine. ``gold`` is -1 if it is out of range.
    """
    # Such a row has a problem, and no index would be right.
    is_choice = 0 <= row.gold < len(row.choices)
    return {
        "location": Path(row.location).name,
        "doc_id": row.doc_id,
        "prefix": row.prefix,
        "choices": list(row.choices),
        "gold": row.gold if is_choice else -1,
        "error_types": list(row.error_types),
        "problem": row.problem,
    }


# Templates of strangers are checked when their YAML is read (`lm_factuality.harness.tasks`).
_ENVIRONMENT = BoundedEnvironment(is_trusted=True)


def compile_cell_template(
    where: str, key: str, template: object, columns: Sequence[str]
) -> CellRenderer:
    """Compile an entry of a YAML, such as ``doc_to_text``, into a function of a row's cells.

    For example, ``title`` gives the cell of the column ``title``, ``0`` gives 0,
    ``"{{ title }}: {{ text }}"`` gives the rendered text, and a list gives a list.

    Args:
        where: The path of the YAML, for messages.
        key: The key of the entry, for messages.
        template: A column, a number, a sandboxed Jinja template, or a list of these.
        columns: The names of the table's columns.

    Raises:
        ConfigError: The template is none of these, such as a misspelt column.
    """
    if isinstance(template, list):
        renderers = []
        for index, item in enumerate(template):
            renderers.append(compile_cell_template(where, f"{key}[{index}]", item, columns))
        return lambda cells: [render_item(cells) for render_item in renderers]

    # A number, such as the index of the true completion, is the value for every row.
    if isinstance(template, int):
        return lambda cells: template
    if isinstance(template, str) and template in columns:
        return lambda cells: cells.get(template)
    if isinstance(template, str) and "{" in template:
        return _compile_jinja(where, key, template, columns)
    raise ConfigError(
        f"{where}: {key}: no column {template!r}; expected a column"
        f" ({', '.join(map(repr, columns))}), a list of columns or templates, or a template with"
        " {{ }}"
    )


def _compile_jinja(where: str, key: str, template: str, columns: Sequence[str]) -> CellRenderer:
    """Compile a Jinja template into a function of a row's cells.

    Example:
        ``{{ title }}: {{ text }}`` gives a text, such as ``Rome: a city``. A template that is a
        single expression gives the value of the expression: ``{{ [truth, false_1] }}`` gives a
        list.

    Args:
        where: The path of the YAML, for messages.
        key: The key of the template, for messages.
        template: The template, whose variables are columns.
        columns: The names of the table's columns.

    Raises:
        ConfigError: The template is not valid, or it uses a name that is not a column.
    """
    expression = template.removeprefix("{{").removesuffix("}}")
    is_expression = template == "{{" + expression + "}}" and "{{" not in expression
    evaluate: Callable[..., object]
    try:
        variables = find_undeclared_variables(_ENVIRONMENT.parse(template))
        if is_expression:
            evaluate = _ENVIRONMENT.compile_expression(expression, undefined_to_none=False)
        else:
            evaluate = _ENVIRONMENT.from_string(template).render
    except (TemplateError, RecursionError) as error:
        raise ConfigError(f"{where}: {key} is not a valid template: {error}") from error

    # An unknown name is an error now, and not in the middle of the data.
    unknown_names = variables.difference(columns, _ENVIRONMENT.globals)
    if unknown_names:
        raise ConfigError(f"{where}: {key} uses {min(unknown_names)!r}, which is not a column")
    return lambda cells: evaluate(**cells)


def gold_index(target: object, choices: Sequence[str | None]) -> int:
    """Return the index of the choice that a target names.

    For example, ``2``, ``"2"`` and the text of the third choice all give 2.

    Args:
        target: An index, or the text of a choice. A text is searched among the choices before it is
            read as an index, since choices may be numbers.
        choices: The texts of the choices, None where a text is missing.

    Returns:
        The index, which is out of range if there is no such choice. -1 if no choice has the text.
    """
    # In Python, bool is a subclass of int.
    if isinstance(target, int) and not isinstance(target, bool):
        return target

    target_text = str(target).strip()
    for index, choice in enumerate(choices):
        if (choice or "").strip() == target_text:
            return index
    # A table may hold indices as text.
    if re.fullmatch(r"-?\d{1,9}", target_text):
        return int(target_text)
    return -1
