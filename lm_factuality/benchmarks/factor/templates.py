"""The ``doc_to_`` entries of a task YAML: a column, a list of columns, or a sandboxed Jinja template."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined, TemplateError

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.sandbox import BoundedEnvironment

_ENVIRONMENT = BoundedEnvironment()


def renderer(where: str, key: str, template: Any, names: list[str]) -> Callable[[Mapping[str, Any]], Any]:
    """What a ``doc_to_`` entry gives for the values of a row. Raises ConfigError: a word that is neither a column nor a template,
    which lm_eval would send to the model as it is."""
    if callable(template):
        function: Callable[[Mapping[str, Any]], Any] = template
        return function
    if isinstance(template, list):
        parts = [renderer(where, f"{key}[{index}]", part, names) for index, part in enumerate(template)]
        return lambda values: [part(values) for part in parts]
    if isinstance(template, int):
        return lambda values: template
    if not isinstance(template, str):
        raise ConfigError(
            f"{where}: {key} is a {type(template).__name__}, expected a column, a list of columns or templates, or a template"
        )
    if template in names:
        return lambda values: values[template]
    if "{" not in template:
        raise ConfigError(
            f"{where}: {key} is {template!r}: neither a column ({', '.join(map(repr, names))}) nor a template with {{{{ }}}}"
        )
    expression = re.fullmatch(r"\{\{(.*)\}\}", template, flags=re.DOTALL)  # with white space around it, it is a text
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
    """The index of the true choice, given as an index or as its text; -1 if no choice is that text."""
    if isinstance(target, int) and not isinstance(target, bool):
        return target
    text = str(target).strip()
    if text in (stripped := [(choice or "").strip() for choice in choices]):
        return stripped.index(text)
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else -1
