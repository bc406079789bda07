"""Jinja templates in the YAMLs of strangers: sandboxed, and bounded in what they can make of a row.

Jinja's sandbox keeps a template from reaching Python, but not ``{{ 'a' * 10**10 }}`` or nested
loops from taking the machine. Here a template has expressions and conditions alone, and what could
make a text long is refused, so that the result grows with the template and the row.
"""

from collections.abc import Iterable
from typing import Any

from jinja2 import StrictUndefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

MOST_TEMPLATE = 20_000  # characters of a template
MOST_MADE = 1_000_000  # characters that one operation makes
_FILTERS = (
    "abs capitalize d default dictsort e escape first float int items last length list lower map"
    " max min reject rejectattr reverse select selectattr sort string striptags sum title trim"
    " truncate unique upper urlencode wordcount"
)
_LENGTHENING = "center encode expandtabs format format_map join ljust replace rjust translate zfill"


class BoundedEnvironment(SandboxedEnvironment):
    """Templates of a task's or a corpus's YAML; names that are no columns are errors."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.filters = {name: self.filters[name] for name in _FILTERS.split()}
        self.filters |= {"replace": _replace, "join": _join}
        self.globals = {}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MOST_TEMPLATE:
            raise TemplateSyntaxError(
                f"{len(source):,} characters, at most {MOST_TEMPLATE:,} are taken", 1
            )
        parsed = super()._parse(source, name, filename)
        for statement in parsed.find_all(nodes.Stmt):
            if not isinstance(statement, nodes.Output | nodes.If):
                raise TemplateSyntaxError(
                    f"{type(statement).__name__} is not taken in the templates of a YAML; write"
                    " {{ }} and {% if %} alone",
                    statement.lineno,
                )
        for concat in parsed.find_all(nodes.Concat):
            texts = nodes.List(concat.nodes, lineno=concat.lineno)
            joined = nodes.Filter(texts, "join", [], [], None, None, lineno=concat.lineno)
            concat.nodes = [joined]  # so that the length is looked at
        return parsed

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Add within bounds, and refuse what could repeat a text."""
        if operator != "+":
            raise SecurityError(f"{operator!r} is not taken in the templates of a YAML")
        if not isinstance(left, int | float):
            _check_length(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """As in Jinja's sandbox, without the methods that can make a text long; of these
        ``replace`` and ``join`` are filters."""
        is_lengthening = isinstance(obj, str) and attr in _LENGTHENING.split()
        return not is_lengthening and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Jinja lets ``format`` of texts through, made safe; what it makes may be as wide as its
        fields say."""
        if super().wrap_str_format(value) is not None:
            raise SecurityError(
                "format() is not taken in the templates of a YAML; write {{ }} beside each other"
            )


def _check_length(length: int) -> None:
    if length > MOST_MADE:
        raise SecurityError(f"it would make {length:,} characters, at most {MOST_MADE:,} are taken")


def _replace(text: str, old: str, new: str) -> str:
    text = str(text)
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _join(parts: Iterable[Any], between: str = "") -> str:
    texts = [str(part) for part in parts]
    _check_length(sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)
