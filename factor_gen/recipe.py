"""Which rows of a table are documents, and how a document is put together of a row's columns.

:mod:`factor_gen.settings` reads the conditions and the template, :mod:`factor_gen.corpus` applies
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Annotated, Any

from jinja2 import TemplateError, meta
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.ground.settings import FORBID, Integer, Number, Text, Truth
from lm_factuality.ground.tables import TableRow

_DATE = re.compile(r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)(?!\d)")
_ENVIRONMENT = BoundedEnvironment()
# as YAML and CSV write them; `no` is Norwegian too
_WORDS_OF_TRUTH = {True: ("true", "yes", "on"), False: ("false", "no", "off")}
# YAML reads 2021-10-01 as a date
_undated = BeforeValidator(lambda value: str(value) if isinstance(value, date) else value)

Scalar = Annotated[Truth | Integer | Number | Text, _undated]
Day = Annotated[Text, Field(pattern=r"\A\d{4}-\d\d-\d\d\z"), _undated]


@dataclass(frozen=True)
class Condition:
    """What a column must hold: all that is said.

    The date of a value is its last ``YYYY-MM-DD`` or ``YYYY/MM/DD``, as in a time stamp, an address
    or a text. Both ends of a range are allowed.
    """

    __pydantic_config__ = FORBID
    one_of: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = None
    prefix: Text | None = None
    contains: Text | None = None
    at_least: Number | Integer | None = None
    at_most: Number | Integer | None = None
    since: Day | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Condition:
        if self == Condition():
            raise ValueError(
                f"says nothing; expected a value, a list of values, or some of {', '.join(_CHECKS)}"
            )
        return self

    def failure(self, value: Any) -> str:
        """Return what is wrong with a value, in words without the value; empty if nothing is."""
        for name, (words, is_met) in _CHECKS.items():
            expected = getattr(self, name)
            if expected is not None and (value is None or not is_met(value, expected)):
                values = expected if isinstance(expected, tuple) else (expected,)
                return f"{words} {' or '.join(map(str, values))}"
        return ""


def _is_same(value: Any, expected: bool | float | str) -> bool:
    """Whether a value is what the YAML says; in CSV all values are text."""
    if isinstance(expected, bool) and str(value).lower() in _WORDS_OF_TRUTH[expected]:
        return True
    return value == expected or str(value) == str(expected)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")  # which no range holds


def _day(value: Any) -> str:
    dates = _DATE.findall(str(value))
    return "-".join(dates[-1]) if dates else ""


_CHECKS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "one_of": ("is not", lambda value, options: any(_is_same(value, x) for x in options)),
    "prefix": ("does not begin with", lambda value, start: str(value).startswith(start)),
    "contains": ("does not hold", lambda value, text: text in str(value)),
    "at_least": ("is not at least", lambda value, least: _number(value) >= least),
    "at_most": ("is not at most", lambda value, most: _number(value) <= most),
    "since": ("has no date since", lambda value, day: _day(value) >= day),
}


def _read_short_form(value: Any) -> Any:
    if isinstance(value, str | int | float | date):
        value = [value]
    return {"one_of": value} if isinstance(value, list) else value


Where = Mapping[str, Annotated[Condition, BeforeValidator(_read_short_form)]]
"""A condition per column; ``meta.source`` is the key ``source`` in the column ``meta``."""


def left_out(where: Where, values: Mapping[str, Any]) -> str:
    """Return why a row is no document of the corpus; empty if it is one."""
    for column, condition in where.items():
        value: Any = values
        for key in column.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        failure = condition.failure(value)
        if failure:
            return f"{column} {failure}"
    return ""


def is_template(text: str) -> bool:
    """Whether ``corpus.text`` is a template, not a column."""
    return "{{" in text or "{%" in text


def _check_template(text: str) -> str:
    try:
        if is_template(text):
            _ENVIRONMENT.compile(text)
    except TemplateError as error:
        raise ValueError(f"is not a usable template: {error}") from error
    return text


DocumentText = Annotated[Text, AfterValidator(_check_template)]


def columns_of(text: str, where: Where, name: str | None) -> list[str]:
    """Return the columns that ``text``, a column or a template, ``where`` and ``id`` need."""
    columns = [text]
    if is_template(text):
        columns = sorted(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)))
    columns += [column.partition(".")[0] for column in where]
    return [*columns, name] if name else columns


_compile = lru_cache(maxsize=8)(_ENVIRONMENT.from_string)


def document_text(row: TableRow, source: str) -> str:
    """Return the text in the column ``source``, or what the template ``source`` makes of a row.

    A null is an empty text.

    Raises:
        DataError: A column is not there or holds no text, or the template fails.
    """
    if not is_template(source):
        text = row.values[source]
        if isinstance(text, str | None):
            return text or ""
        raise DataError(
            f"{row.location}: {source!r} is a {type(text).__name__}, expected the text of a"
            " document"
        )
    texts = {name: "" if value is None else value for name, value in row.values.items()}
    try:
        return _compile(source).render(texts)
    except (TemplateError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise DataError(
            f"{row.location}: the template of corpus.text cannot be filled in: {error}; change"
            " corpus.text or the row"
        ) from error
