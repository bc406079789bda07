"""FACTOR examples, everything that can be wrong with one, and how templates make one of a row."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.harness.generation import JsonObject

_SPACE_BEFORE_PUNCTUATION = re.compile(r"\s+([.,;:!?])")
NO_TEXT = "is missing or no text (null, NaN, true, false or a list)"
HALF_A_PAIR = (
    "holds half of a surrogate pair, which is not a character; write the character itself or its"
    " whole pair"
)
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Row:
    """One example."""

    location: str
    doc_id: str
    """What standard errors are clustered by."""

    prefix: str
    choices: tuple[str, ...]
    """The completion and its contradictions."""

    gold: int
    """The index of the completion."""

    error_types: tuple[str, ...]
    """FACTOR's error type of each choice, empty for the completion and where it is not known."""

    problem: str = ""
    """Why the row cannot be scored, empty if it can."""


def cell_text(value: Any) -> str | None:
    """Return a cell as text. None for null, NaN, and what is neither text nor a number."""
    if isinstance(value, str):
        return value
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
) -> Row:
    """Make a row and find its problem. Missing texts become empty ones."""
    problem = _unscorable(prefix, choices, gold)
    texts = tuple(replace_surrogates(choice) for choice in choices)
    return Row(
        location, doc_id, replace_surrogates(prefix), texts, gold, tuple(error_types), problem
    )


def replace_surrogates(text: str | None) -> str:
    """Replace halves of surrogate pairs, which UTF-8 does not have."""
    return SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text or "")


def _unscorable(prefix: str | None, choices: Sequence[str | None], gold: int) -> str:
    if prefix is None:
        return f"the prefix {NO_TEXT}, expected text"
    texts = []
    for index, choice in enumerate(choices):
        if choice is None:
            return f"choice {index} {NO_TEXT}, expected text"
        if not choice.strip():
            return f"choice {index} is empty"
        texts.append(choice.strip())
    if SURROGATE.search("".join([prefix, *texts])):
        return HALF_A_PAIR
    if not 0 <= gold < len(texts):
        return (
            f"the gold is no choice (found {gold}), expected an index from 0 to {len(texts) - 1} or"
            " the text of a choice"
        )
    if len(set(texts)) < 2:
        return f"{len(set(texts))} distinct choice, expected at least 2"
    if texts.count(texts[gold]) > 1:
        return "a contradiction is identical to the completion, expected exactly one gold"
    return ""


def normalise_spacing(row: Row) -> Row:
    """Remove white space before ``. , ; : ! ?`` from the prefix and all choices."""
    prefix, *choices = (
        _SPACE_BEFORE_PUNCTUATION.sub(r"\1", text) for text in (row.prefix, *row.choices)
    )
    problem = row.problem or _unscorable(prefix, choices, row.gold)
    return replace(row, prefix=prefix, choices=tuple(choices), problem=problem)


def spaces_before_punctuation(text: str) -> int:
    """Count white space before ``. , ; : ! ?``.

    In Expert-FACTOR this alone tells most true completions.
    """
    return len(_SPACE_BEFORE_PUNCTUATION.findall(text))


def document(row: Row) -> JsonObject:
    """Return a row as lm_eval's samples show it.

    It is the same on every machine, so without the folder of its file.
    """
    gold = row.gold if 0 <= row.gold < len(row.choices) else -1
    lists = {"choices": list(row.choices), "error_types": list(row.error_types)}
    return vars(row) | lists | {"location": Path(row.location).name, "gold": gold}


_ENVIRONMENT = BoundedEnvironment()


def compile_cell_template(
    where: str, key: str, template: Any, names: Sequence[str]
) -> Callable[[Mapping[str, Any]], Any]:
    """Return what makes a value of the cells of a row.

    Args:
        where: The YAML, for messages.
        key: The ``doc_to_`` entry.
        template: A column, a list of columns or templates, a sandboxed Jinja template, or a number.
        names: The columns.

    Raises:
        ConfigError: It is none of these. lm_eval would send such a word to the model as it is.
    """
    if isinstance(template, list):
        parts = [
            compile_cell_template(where, f"{key}[{i}]", part, names)
            for i, part in enumerate(template)
        ]
        return lambda values: [part(values) for part in parts]
    if isinstance(template, int):
        return lambda values: template
    if template in names:
        return lambda values: values.get(template)
    if not isinstance(template, str) or "{" not in template:
        raise ConfigError(
            f"{where}: {key}: no column {template!r}; expected a column"
            f" ({', '.join(map(repr, names))}), a list of columns or templates, or a template with"
            " {{ }}"
        )
    try:
        variables = find_undeclared_variables(_ENVIRONMENT.parse(template))
        unknown = variables.difference(names, _ENVIRONMENT.globals)
        if unknown:
            raise ConfigError(f"{where}: {key} uses {min(unknown)!r}, which is not a column")
        # With white space around it, it is a text.
        expression = re.fullmatch(r"\{\{(.*)\}\}", template, flags=re.DOTALL)
        if expression and "{{" not in expression[1]:
            compiled = _ENVIRONMENT.compile_expression(expression[1], undefined_to_none=False)
            return lambda values: compiled(**values)
        parsed = _ENVIRONMENT.from_string(template)
    except (TemplateError, RecursionError) as error:
        raise ConfigError(f"{where}: {key} is not a valid template: {error}") from error
    return lambda values: parsed.render(**values)


def gold_index(target: Any, choices: Sequence[str | None]) -> int:
    """Return the index of the true choice.

    Args:
        target: An index, or the text of a choice.

    Returns:
        -1 if no choice is that text.
    """
    if isinstance(target, int) and not isinstance(target, bool):
        return target
    text = str(target).strip()
    stripped = [(choice or "").strip() for choice in choices]
    if text in stripped:
        return stripped.index(text)
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else -1
