"""The request that is sent for a query, made of the templates in the YAML of a search service.

`lm_factuality.retrieval.search.config` reads the templates.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from jinja2 import TemplateError, meta
from pydantic import Field, model_validator

from lm_factuality.ground.errors import did_you_mean
from lm_factuality.ground.files import Json
from lm_factuality.ground.sandbox import BoundedEnvironment
from lm_factuality.ground.settings import Strict

# What a template may use.
VARIABLES = ("query", "key", "results")

# A text of this template alone is sent as a number.
_NUMBER_OF_RESULTS = re.compile(r"\{\{\s*results\s*\}\}")
_ENVIRONMENT = BoundedEnvironment()

Fields = Annotated[
    Mapping[str, Any], Field(description="names with values or templates, such as q: '{{ query }}'")
]
Headers = Annotated[
    Mapping[str, str], Field(description="names with texts, such as X-API-KEY: '{{ key }}'")
]


@dataclass(frozen=True)
class RenderedRequest:
    """A request as it is sent. It may hold the key, so nothing prints or keeps it."""

    method: str
    """``GET`` or ``POST``."""

    params: Mapping[str, Any]
    """The parameters after the ``?`` of the address."""

    json: Json
    """The body. None for a request without a body."""

    headers: Mapping[str, str]
    """The headers, in addition to those of every request."""


class RequestForm(Strict):
    """How a service is asked: the section ``request`` of its YAML."""

    method: Literal["GET", "POST"] = "GET"
    """The method of HTTP."""

    params: Fields = Field(default_factory=dict)
    """The parameters of the address. Texts are Jinja templates, here and below."""

    body: Fields = Field(default_factory=dict, alias="json")
    """The JSON object that is sent. Empty for a request without a body."""

    headers: Headers = Field(default_factory=dict)
    """The headers of the request."""

    @model_validator(mode="after")
    def _check_templates(self) -> "RequestForm":
        """Check that all templates are valid, that one holds the query, and that a body is sent.

        Raises:
            ValueError: A template is wrong. The message quotes its key and no value.
        """
        # The call also refuses templates that are invalid.
        variables = self.find_variables()
        if "query" not in variables:
            raise ValueError(
                "has no template with the query; write for example params: {q: '{{ query }}'}"
            )
        if self.body and self.method == "GET":
            raise ValueError("has a json, which GET does not send; write method: POST")
        return self

    def find_variables(self) -> set[str]:
        """Return the variables that the templates use, such as ``query`` and ``key``.

        Raises:
            ValueError: A template is invalid, or uses something else.
        """
        variables: set[str] = set()
        for key, template in self._templates():
            variables |= _variables_of(template, key)
        return variables

    def render(self, query: str, key: str, results: int) -> RenderedRequest:
        """Make the request for a query.

        Args:
            query: What is searched for.
            key: The key of the service. Empty if it needs none.
            results: The number of results that are wanted.

        Raises:
            ValueError: A template cannot be rendered.
        """
        values = {"query": query, "key": key, "results": results}
        try:
            return RenderedRequest(
                method=self.method,
                params=_render_templates(dict(self.params), values),
                json=_render_templates(dict(self.body), values) or None,
                headers=_render_templates(dict(self.headers), values),
            )
        # An expression such as ``{{ query + 1 }}`` raises what Python raises.
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"a template of request cannot be rendered: {error}") from None

    def _templates(self) -> Iterator[tuple[str, str]]:
        """Yield the texts of the request, each after its key in the YAML, such as ``params.q``."""
        sections: dict[str, Json] = {
            "params": self.params,
            "json": self.body,
            "headers": self.headers,
        }
        for section, content in sections.items():
            yield from _texts_within(content, section)


def _variables_of(template: str, key: str) -> set[str]:
    """Return the variables of a template: ``{"key"}`` for ``Bearer {{ key }}``.

    Args:
        template: The template.
        key: Its place in the YAML, such as ``params.q``, for the error.

    Raises:
        ValueError: The template is invalid, or uses something else than `VARIABLES`.
    """
    try:
        names = meta.find_undeclared_variables(_ENVIRONMENT.parse(template))
    except TemplateError as error:
        raise ValueError(f"has a wrong template in {key}: {error.message}") from None
    unknown_names = sorted(names.difference(VARIABLES))
    if unknown_names:
        name = unknown_names[0]
        suggestion = did_you_mean(name, VARIABLES)
        raise ValueError(
            f"has a template in {key} with the unknown name {name!r}{suggestion}; known:"
            f" {', '.join(VARIABLES)}"
        )
    return names


def _texts_within(content: Json, key: str) -> Iterator[tuple[str, str]]:
    """Yield the texts inside lists and mappings, each after its key."""
    if isinstance(content, str):
        yield key, content
    elif isinstance(content, Mapping):
        for name, value in content.items():
            yield from _texts_within(value, f"{key}.{name}")
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from _texts_within(value, f"{key}[{index}]")


def _render_templates(content: Json, values: Mapping[str, Any]) -> Json:
    """Render a template, or all templates in a list or mapping.

    Example:
        ``{"q": "{{ query }}", "num": "{{ results }}"}`` becomes ``{"q": "Ada Hill", "num": 5}``.

    Args:
        content: A value of the request. Texts are templates.
        values: The values of the variables: ``query``, ``key`` and ``results``.

    Returns:
        The value as it is sent.
    """
    if isinstance(content, str):
        # Some services refuse the text "5" for the number 5.
        if _NUMBER_OF_RESULTS.fullmatch(content):
            return values["results"]
        return _ENVIRONMENT.from_string(content).render(values)
    if isinstance(content, dict):
        return {name: _render_templates(value, values) for name, value in content.items()}
    if isinstance(content, list):
        return [_render_templates(value, values) for value in content]
    return content
