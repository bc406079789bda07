"""FACTOR examples, everything that can be wrong with one, and the ``doc_to_`` entries of a task
YAML that make one of a row: a column, a list of columns, or a sandboxed Jinja template."""

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.sandbox import BoundedEnvironment

_SPACE_BEFORE_PUNCTUATION = re.compile(r"\s+([.,;:!?])")
NO_TEXT = "is missing or no text (null, NaN, true, false or a list)"
HALF_A_PAIR = (
    "holds half of a surrogate pair, which is not a character; write the character itself or its"
    " whole pair"
)
WRONGLY_DECODED = "holds U+FFFD, the sign of text that was decoded wrongly"
SURROGATE = re.compile("[\ud800-\udfff]")
_LEAK_LENGTH = 20  # a shorter completion may well stand in its prefix by chance
_LEAK_SHARE = 0.05  # of rows: below it, what one side alone shows is taken for chance
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Row:
    """One example. ``choices`` holds the completion and its contradictions, ``gold`` the index of
    the completion, ``error_types`` the FACTOR error type of each choice (empty for the completion
    and where the data does not say), ``doc_id`` what standard errors are clustered by. ``problem``
    says why the row cannot be scored, empty if it can."""

    location: str
    doc_id: str
    prefix: str
    choices: tuple[str, ...]
    gold: int
    error_types: tuple[str, ...]
    problem: str = ""


def cell_text(value: Any) -> str | None:
    """A cell as text; None for null, NaN and what is neither text nor a number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def make_row(
    location: str,
    doc_id: str,
    prefix: str | None,
    choices: Sequence[str | None],
    gold: int,
    error_types: Sequence[str],
) -> Row:
    """A row with its ``problem`` found; missing texts become empty ones."""
    texts = tuple(encodable(choice) for choice in choices)
    return Row(
        location,
        doc_id,
        encodable(prefix),
        texts,
        gold,
        tuple(error_types),
        _unscorable(prefix, choices, gold),
    )


def encodable(text: str | None) -> str:
    """``text`` without halves of surrogate pairs, which UTF-8 does not have."""
    return SURROGATE.sub(REPLACEMENT, text or "")


def _unscorable(prefix: str | None, choices: Sequence[str | None], gold: int) -> str:
    if prefix is None:
        return f"the prefix {NO_TEXT}, expected text"
    for index, choice in enumerate(choices):
        if choice is None:
            return f"choice {index} {NO_TEXT}, expected text"
        if not choice.strip():
            return f"choice {index} is empty"
    if any(SURROGATE.search(text) for text in (prefix, *(choice or "" for choice in choices))):
        return HALF_A_PAIR
    if gold == -1:
        return (
            f"the gold is not a choice, expected an index from 0 to {len(choices) - 1} or the text"
            " of a choice"
        )
    if not 0 <= gold < len(choices):
        return f"the gold index is {gold}, expected 0 to {len(choices) - 1}"
    stripped = [(choice or "").strip() for choice in choices]
    if len(set(stripped)) < 2:
        return f"{len(set(stripped))} distinct choice, expected at least 2"
    if stripped.count(stripped[gold]) > 1:
        return "a contradiction is identical to the completion, expected exactly one gold"
    return ""


def suspicions(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """(location, what) for rows that can be scored but should not be trusted as they stand."""
    seen: dict[tuple[str, tuple[str, ...]], str] = {}
    for row in rows:
        stripped = [choice.strip() for choice in row.choices]
        if not row.problem and len(set(stripped)) < len(stripped):
            yield row.location, "two contradictions are identical"
        if any(REPLACEMENT in text for text in (row.prefix, *row.choices)):
            yield row.location, WRONGLY_DECODED
        completion = stripped[row.gold] if 0 <= row.gold < len(stripped) else ""
        if len(completion) >= _LEAK_LENGTH and completion in row.prefix:
            yield row.location, "the prefix holds the completion: the answer is leaked"
        first = seen.setdefault((row.prefix, row.choices), row.location)
        if first != row.location:
            yield row.location, f"repeats the row at {first}"


def normalise_spacing(row: Row) -> Row:
    """The row without white space before ``. , ; : ! ?``, in the prefix and all choices."""
    clean = partial(_SPACE_BEFORE_PUNCTUATION.sub, r"\1")
    prefix, choices = clean(row.prefix), tuple(clean(choice) for choice in row.choices)
    return replace(
        row,
        prefix=prefix,
        choices=choices,
        problem=row.problem or _unscorable(prefix, choices, row.gold),
    )


def spaces_before_punctuation(text: str) -> int:
    """How often white space stands before ``. , ; : ! ?``: in Expert-FACTOR this alone tells most
    true completions."""
    return len(_SPACE_BEFORE_PUNCTUATION.findall(text))


def spacing_leak(rows: Sequence[Row]) -> Iterator[str]:
    """What spaces before punctuation give away: only the true completion has one, in many rows and
    more than the reverse."""
    only_true = only_false = 0
    for row in rows:
        if not row.problem:
            spaced = [spaces_before_punctuation(choice) > 0 for choice in row.choices]
            others = [each for index, each in enumerate(spaced) if index != row.gold]
            only_true += spaced[row.gold] and not any(others)
            only_false += not spaced[row.gold] and any(others)
    if only_true > max(only_false, len(rows) * _LEAK_SHARE):
        yield (
            f"spacing gives answers away: in {only_true} of {len(rows)} rows only the true"
            f" completion has a space before punctuation, in {only_false} only contradictions;"
            " metadata 'spacing: normalised' removes it"
        )


def document(row: Row) -> dict[str, Any]:
    """A row as lm_eval's samples show it: the same on every machine, so without the folder its file
    lies in."""
    gold = row.gold if 0 <= row.gold < len(row.choices) else -1
    lists = {"choices": list(row.choices), "error_types": list(row.error_types)}
    return vars(row) | lists | {"location": Path(row.location).name, "gold": gold}


_ENVIRONMENT = BoundedEnvironment()


def renderer(
    where: str, key: str, template: Any, names: list[str]
) -> Callable[[Mapping[str, Any]], Any]:
    """What a ``doc_to_`` entry gives for the values of a row. Raises ConfigError: a word that is
    neither a column nor a template, which lm_eval would send to the model as it is."""
    if callable(template):
        function: Callable[[Mapping[str, Any]], Any] = template
        return function
    if isinstance(template, list):
        parts = [
            renderer(where, f"{key}[{index}]", part, names) for index, part in enumerate(template)
        ]
        return lambda values: [part(values) for part in parts]
    if isinstance(template, int):
        return lambda values: template
    if not isinstance(template, str):
        kind = type(template).__name__
        raise ConfigError(
            f"{where}: {key} is a {kind}, expected a column, a list of columns or templates, or a"
            " template"
        )
    if template in names:
        return lambda values: values[template]
    if "{" not in template:
        known = ", ".join(map(repr, names))
        raise ConfigError(
            f"{where}: {key} is {template!r}: neither a column ({known}) nor a template with {{{{"
            " }}"
        )
    expression = re.fullmatch(
        r"\{\{(.*)\}\}", template, flags=re.DOTALL
    )  # with white space around it, it is a text
    try:
        if expression and "{{" not in expression[1]:
            compiled = _ENVIRONMENT.compile_expression(expression[1], undefined_to_none=False)
            return lambda values: _defined(compiled(**values), key)
        parsed = _ENVIRONMENT.from_string(template)
    except (TemplateError, RecursionError) as error:
        raise ConfigError(f"{where}: {key} is not a valid template: {error}") from error
    if key == "doc_to_choice":
        return lambda values: ast.literal_eval(parsed.render(**values))
    return lambda values: parsed.render(**values)


def _defined(value: Any, key: str) -> Any:
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, StrictUndefined):
            raise TypeError(f"{key} uses {item._undefined_name!r}, which is not a column")
    return value


def gold_index(target: Any, choices: Sequence[str | None]) -> int:
    """The index of the true choice, given as an index or as its text; -1 if no choice is that
    text."""
    if isinstance(target, int) and not isinstance(target, bool):
        return target
    text = str(target).strip()
    if text in (stripped := [(choice or "").strip() for choice in choices]):
        return stripped.index(text)
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else -1
