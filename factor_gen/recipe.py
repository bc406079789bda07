"""How the rows of a table become documents: conditions on columns, and a template of the text.

:mod:`factor_gen.settings` reads the conditions and the template from the YAML of a build, and
:mod:`factor_gen.corpus` applies them to each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from jinja2 import TemplateError, meta
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.ground.settings import FORBID, Integer, Number, Text, Truth
from lm_factuality.ground.tables import TableRow

_DATE = re.compile(r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)(?!\d)")
_ENVIRONMENT = BoundedEnvironment()
# These are the words that YAML and CSV use. The word "no" is also the code of Norwegian.
_WORDS_OF_TRUTH = {True: ("true", "yes", "on"), False: ("false", "no", "off")}


def _date_to_text(value: object) -> object:
    """Return a date as text, and any other value unchanged.

    YAML reads ``2021-10-01`` as a date, while the conditions compare texts.
    """
    return str(value) if isinstance(value, date) else value


Scalar = Annotated[Truth | Integer | Number | Text, BeforeValidator(_date_to_text)]
Day = Annotated[Text, Field(pattern=r"\A\d{4}-\d\d-\d\d\z"), BeforeValidator(_date_to_text)]


@dataclass(frozen=True)
class Condition:
    """The requirements that the value of a column has to meet, all of them at once.

    A requirement that is None is not checked.
    """

    __pydantic_config__ = FORBID

    one_of: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = None
    """The values that are allowed."""

    prefix: Text | None = None
    """The text that the value has to begin with."""

    contains: Text | None = None
    """The text that has to occur in the value."""

    at_least: Number | Integer | None = None
    """The smallest number that is allowed."""

    at_most: Number | Integer | None = None
    """The greatest number that is allowed."""

    since: Day | None = None
    """The first day that is allowed, as ``YYYY-MM-DD``.

    It is compared to the last date in the value, which may be a time stamp, an address or a text.
    """

    @model_validator(mode="after")
    def _check_content(self) -> Condition:
        """Check that the condition has at least one requirement."""
        if self == Condition():
            names = ", ".join(_REQUIREMENTS)
            raise ValueError(
                f"says nothing; expected a value, a list of values, or some of {names}"
            )
        return self

    def describe_failure(self, value: object) -> str:
        """Return the first requirement that a value fails, in words that do not quote the value.

        Documents are counted by this reason, which must be the same for all values that fail.

        Args:
            value: The value of a column in some row. None if the row has no value.

        Returns:
            The end of a sentence, such as ``is not at least 200`` for the value 150. An empty text
            if the value meets all requirements.
        """
        for field_name, requirement in _REQUIREMENTS.items():
            expected = getattr(self, field_name)
            if expected is None:
                continue

            # A missing value meets no requirement.
            if value is None or not requirement.is_met(value, expected):
                options = expected if isinstance(expected, tuple) else (expected,)
                return f"{requirement.failure} {' or '.join(map(str, options))}"
        return ""


def _is_same(value: object, expected: bool | float | str) -> bool:
    """Tell whether a value of a table equals a value of the YAML, perhaps only as text.

    In CSV all values are texts: ``"3"`` equals 3, and ``"yes"`` equals true.
    """
    if isinstance(expected, bool) and str(value).lower() in _WORDS_OF_TRUTH[expected]:
        return True
    return value == expected or str(value) == str(expected)


def _parse_number(value: object) -> float:
    """Return the number that a value or its text stands for, and NaN if it is no number.

    Example:
        ``"12.5"`` gives 12.5, and ``"many"`` gives NaN.
    """
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        # NaN is neither at least nor at most anything, so that it fails every range.
        return float("nan")


def _last_date(value: object) -> str:
    """Return the last date in a value as ``YYYY-MM-DD``, and an empty text if there is none.

    Example:
        ``"https://a.org/2021/10/05/story"`` gives ``"2021-10-05"``.
    """
    dates = _DATE.findall(str(value))
    return "-".join(dates[-1]) if dates else ""


class _Requirement(NamedTuple):
    """How to check one field of a `Condition`, such as ``at_least: 200``."""

    failure: str
    """The words before the 200 in the reason ``is not at least 200``."""

    is_met: Callable[[object, Any], bool]
    """Tells whether a value of the table, such as 150, meets the requirement, here 200."""


_REQUIREMENTS: Mapping[str, _Requirement] = {
    "one_of": _Requirement(
        "is not", lambda value, options: any(_is_same(value, option) for option in options)
    ),
    "prefix": _Requirement(
        "does not begin with", lambda value, start: str(value).startswith(start)
    ),
    "contains": _Requirement("does not hold", lambda value, text: text in str(value)),
    "at_least": _Requirement(
        "is not at least", lambda value, minimum: _parse_number(value) >= minimum
    ),
    "at_most": _Requirement(
        "is not at most", lambda value, maximum: _parse_number(value) <= maximum
    ),
    "since": _Requirement("has no date since", lambda value, day: _last_date(value) >= day),
}


def _read_short_form(value: object) -> object:
    """Return the condition that a single value or a list of values in the YAML stands for.

    Example:
        ``language: en`` is short for ``language: {one_of: [en]}``.
    """
    # Mappings are written in the long form already, and pydantic refuses other values.
    if isinstance(value, str | int | float | date):
        value = [value]
    return {"one_of": value} if isinstance(value, list) else value


Where = Mapping[str, Annotated[Condition, BeforeValidator(_read_short_form)]]
"""A condition for each column. ``meta.source`` is the key ``source`` in the column ``meta``."""


def reason_to_leave_out(where: Where, values: Mapping[str, object]) -> str:
    """Return the first condition that a row of the corpus fails, or an empty text if none.

    Args:
        where: The conditions of the corpus, by column.
        values: The values of the row, by column.

    Example:
        The condition ``words: {at_least: 200}`` and a row of 150 words give
        ``words is not at least 200``.
    """
    for column, condition in where.items():
        value: object = values
        # The column "meta.source" leads through the mapping "meta" to its key "source".
        for key in column.split("."):
            # A key that is missing makes the whole value missing.
            value = value.get(key) if isinstance(value, Mapping) else None

        failure = condition.describe_failure(value)
        if failure:
            return f"{column} {failure}"
    return ""


def is_template(text: str) -> bool:
    """Tell whether ``corpus.text`` is a Jinja template rather than the name of a column."""
    return "{{" in text or "{%" in text


def _check_template(text: str) -> str:
    """Return the setting ``corpus.text`` unchanged, after a template in it was tried out.

    The setting is the name of a column, such as ``body``, or a Jinja template, such as ``{{ title
    }}: {{ body }}``. An error in it would otherwise only show at the first document.

    Raises:
        ValueError: It is a template with an error. Pydantic puts the name of the setting before
            the message.
    """
    try:
        if is_template(text):
            _ENVIRONMENT.compile(text)
    except TemplateError as error:
        raise ValueError(f"is not a usable template: {error}") from error
    return text


DocumentText = Annotated[Text, AfterValidator(_check_template)]
"""The column or key of a document's text, or a Jinja template over several."""


def required_columns(text: str, where: Where, id_column: str | None) -> list[str]:
    """Return the columns that a table must have for the settings of the corpus.

    Args:
        text: The column of the text, or a template whose variables are columns.
        where: The conditions of the corpus, by column.
        id_column: The column with the ids of the rows. None if no column is named.

    Example:
        The template ``{{ title }}: {{ body }}`` requires ``body`` and ``title``.
    """
    if is_template(text):
        # The variables are a set. Sorting makes messages about them repeatable.
        columns = sorted(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)))
    else:
        columns = [text]

    # Of "meta.source", only "meta" is a column of the table.
    columns += [column.partition(".")[0] for column in where]
    if id_column:
        columns.append(id_column)
    return columns


# All rows of a corpus use the same template.
_compile = lru_cache(maxsize=8)(_ENVIRONMENT.from_string)


def document_text(row: TableRow, source: str) -> str:
    """Return the text of the document in a row. It is empty if the value is null.

    Args:
        row: A row of the corpus.
        source: The column of the text, or a template that is filled in with all columns.

    Raises:
        DataError: The column holds no text, or the template cannot be filled in.
    """
    # A template makes its own text of the row, also from columns that hold no text.
    if is_template(source):
        return _fill_in(source, row)

    text = row.values[source]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DataError(
            f"{row.location}: {source!r} is a {type(text).__name__}, expected the text of a"
            " document"
        )
    return text


def _fill_in(template: str, row: TableRow) -> str:
    """Fill a template in with the values of a row.

    Raises:
        DataError: The template fails, for instance because a value has another type.

    Example:
        ``{{ title }}: {{ body }}`` becomes ``Rain: It rained.``.
    """
    # Jinja would render a null as "None".
    texts = {column: "" if value is None else value for column, value in row.values.items()}
    try:
        return _compile(template).render(texts)
    # The template is the user's, and its expressions may fail in all these ways.
    except (TemplateError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise DataError(
            f"{row.location}: the template of corpus.text cannot be filled in: {error}; change"
            " corpus.text or the row"
        ) from error
