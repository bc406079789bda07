"""Which rows of a table are documents, and how a document is put together of a row's columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from functools import lru_cache
from typing import Annotated, Any

from jinja2 import TemplateError, meta
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.ground.settings import FORBID, Integer, Number, Text, Truth

_DATE = re.compile(r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)(?!\d)")
_ENVIRONMENT = BoundedEnvironment()

_SAID = {
    True: ("true", "yes", "on"),
    False: ("false", "no", "off"),
}  # by YAML and CSV; `no` is Norwegian too
_undated = BeforeValidator(
    lambda given: str(given) if isinstance(given, date) else given
)  # YAML reads 2021-10-01 as a date

Scalar = Annotated[Truth | Integer | Number | Text, _undated]
Day = Annotated[Text, Field(pattern=r"\A\d{4}-\d\d-\d\d\z"), _undated]


@dataclass(frozen=True)
class Condition:
    """What a column must hold: all that is said. Dates are the last ``YYYY-MM-DD`` or
    ``YYYY/MM/DD`` of a time stamp, an address or a text, and both ends are allowed."""

    __pydantic_config__ = FORBID
    equals: Scalar | None = None
    one_of: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = None
    prefix: Text | None = None
    contains: Text | None = None
    at_least: Number | Integer | None = None
    at_most: Number | Integer | None = None
    since: Day | None = None
    until: Day | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if not self.said:
            raise ValueError(
                f"says nothing; expected a value, a list of values, or some of {', '.join(_CHECKS)}"
            )
        return self

    @property
    def said(self) -> dict[str, Any]:
        """What it says, by name."""
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) is not None
        }

    def failure(self, value: Any) -> str:
        """What is wrong with ``value``, the same words for every value; empty if nothing is."""
        for name, wanted in self.said.items():
            words, is_met = _CHECKS[name]
            if value is None or not is_met(value, wanted):
                return (
                    f"{words}"
                    f" {', '.join(map(str, wanted)) if isinstance(wanted, tuple) else wanted}"
                )
        return ""


def _same(value: Any, wanted: bool | float | str) -> bool:
    """Whether a value is what the YAML says; of CSV all values are text."""
    return (
        value == wanted
        or str(value) == str(wanted)
        or (isinstance(wanted, bool) and str(value).lower() in _SAID[wanted])
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")  # which no range holds


def _day(value: Any) -> str:
    found = _DATE.findall(str(value))
    return "-".join(found[-1]) if found else ""


_CHECKS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "equals": ("is not", _same),
    "one_of": ("is none of", lambda value, wanted: any(_same(value, each) for each in wanted)),
    "prefix": ("does not begin with", lambda value, wanted: str(value).startswith(wanted)),
    "contains": ("does not hold", lambda value, wanted: wanted in str(value)),
    "at_least": ("is not at least", lambda value, wanted: _number(value) >= wanted),
    "at_most": ("is not at most", lambda value, wanted: _number(value) <= wanted),
    "since": ("has no date since", lambda value, wanted: _day(value) >= wanted),
    "until": ("has no date until", lambda value, wanted: "" < _day(value) <= wanted),
}


def _short_form(given: Any) -> Any:
    if isinstance(given, list):
        return {"one_of": given}
    return {"equals": given} if isinstance(given, str | int | float | date) else given


Where = Mapping[str, Annotated[Condition, BeforeValidator(_short_form)]]
"""A condition a column; ``meta.source`` is the key ``source`` of what the column ``meta`` holds."""


def left_out(where: Where, values: Mapping[str, Any]) -> str:
    """Why a row is no document of the corpus; empty if it is one."""
    for column, condition in where.items():
        found: Any = values
        for part in column.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if failure := condition.failure(found):
            return f"{column} {failure}"
    return ""


def is_template(text: str) -> bool:
    """Whether ``corpus.text`` is a template, not a column."""
    return "{{" in text or "{%" in text


def _checked(text: str) -> str:
    try:
        return text if not is_template(text) or _ENVIRONMENT.compile(text) else ""
    except TemplateError as error:
        raise ValueError(f"is not a usable template: {error}") from error


DocumentText = Annotated[Text, AfterValidator(_checked)]


def columns_of(text: str, where: Where) -> list[str]:
    """The columns that ``text``, a column or a template, and ``where`` need."""
    of_text = (
        sorted(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)))
        if is_template(text)
        else [text]
    )
    return list(dict.fromkeys([*of_text, *(column.partition(".")[0] for column in where)]))


_compiled = lru_cache(maxsize=8)(_ENVIRONMENT.from_string)


def render(template: str, values: Mapping[str, Any]) -> str:
    """The document that a row makes; a null is an empty text. Raises ValueError: a column is not
    there, or the template fails."""
    try:
        return _compiled(template).render(
            {name: "" if value is None else value for name, value in values.items()}
        )
    except (TemplateError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise ValueError(f"cannot be filled in: {error}") from error
