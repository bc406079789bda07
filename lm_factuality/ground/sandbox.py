"""Jinja templates in the YAMLs of strangers: sandboxed, and bounded in what they can make of a row.

Jinja's sandbox keeps a template from reaching Python, but not ``{{ 'a' * 10**10 }}`` or three
nested loops from taking the machine. Here loops nest twice at most and keep nothing from round to
round; what could make a text long is bounded."""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from jinja2 import StrictUndefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

MOST_TEMPLATE = 20_000  # characters of a template
MOST_MADE = 1_000_000  # characters that one operation makes
MOST_NUMBER = 1_000_000  # of what is multiplied
MOST_ROUNDS = 1_000  # of range()
MOST_NESTED = 2  # loops in one another
_FILTERS = """abs capitalize d default dictsort e escape first float int items last length list lower map max min reject
    rejectattr reverse round select selectattr sort string striptags sum title trim truncate unique upper urlencode wordcount"""  # noqa: E501
_LENGTHENING = "center encode expandtabs format format_map join ljust replace rjust translate zfill"
_REFUSED = [
    "AssignBlock",
    "CallBlock",
    "Extends",
    "FilterBlock",
    "FromImport",
    "Import",
    "Include",
    "Macro",
    "NSRef",
]


class BoundedEnvironment(SandboxedEnvironment):
    """Templates of a task's or a corpus's YAML; names that are no columns are errors."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.filters = {name: self.filters[name] for name in _FILTERS.split()} | {
            "replace": _replace,
            "join": _join,
        }
        self.globals = {"range": _range}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MOST_TEMPLATE:
            raise TemplateSyntaxError(
                f"{len(source):,} characters, at most {MOST_TEMPLATE:,} are taken", 1
            )
        parsed = super()._parse(source, name, filename)
        _check(parsed)
        found: nodes.Template = _Sums().visit(parsed)
        return found

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Sums of bounded length; products and powers of small numbers alone; no texts by ``%``."""
        if operator == "+":
            if not isinstance(left, int | float):
                _check_length(len(left) + len(right))
        elif not all(
            isinstance(each, int | float) and abs(each) <= MOST_NUMBER for each in (left, right)
        ) or (operator == "**" and abs(right) > MOST_NESTED):
            raise SecurityError(
                f"{operator!r} takes two numbers up to {MOST_NUMBER:,} (powers up to {MOST_NESTED})"
                " here"
            )
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """As in Jinja's sandbox, without the methods that can make a text long; of these
        ``replace`` and ``join`` are filters."""
        return super().is_safe_attribute(obj, attr, value) and not (
            isinstance(obj, str) and attr in _LENGTHENING.split()
        )

    def wrap_str_format(self, value: Any) -> None:
        """Jinja lets ``format`` of texts through, made safe; what it makes may be as wide as its
        fields say."""
        if super().wrap_str_format(value) is not None:
            raise SecurityError(
                "format() is not taken in the templates of a YAML; write {{ }} beside each other"
            )


class _Sums(NodeTransformer):
    """``a ~ b`` as the sum of two texts, whose length is looked at."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        parts: list[nodes.Expr] = [
            nodes.Filter(part, "string", [], [], None, None, lineno=node.lineno)
            for part in node.nodes
        ]
        return reduce(lambda left, right: nodes.Add(left, right, lineno=node.lineno), parts)


def _check(parsed: nodes.Template) -> None:
    """Raises TemplateSyntaxError if it holds what templates of a YAML have no use for."""
    for found in parsed.find_all(tuple(getattr(nodes, name) for name in _REFUSED)):
        raise TemplateSyntaxError(
            f"{type(found).__name__} is not taken in the templates of a YAML", found.lineno
        )
    for loop, depth in _loops(parsed, 0):
        if depth > MOST_NESTED or loop.recursive:
            what = (
                "a recursive loop"
                if loop.recursive
                else f"{depth} loops in one another, at most {MOST_NESTED} are taken"
            )
            raise TemplateSyntaxError(what, loop.lineno)


def _loops(node: nodes.Node, depth: int) -> Iterator[tuple[nodes.For, int]]:
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.For):
            yield child, depth + 1
        yield from _loops(child, depth + isinstance(child, nodes.For))


def _check_length(length: int) -> None:
    if length > MOST_MADE:
        raise SecurityError(f"it would make {length:,} characters, at most {MOST_MADE:,} are taken")


def _range(*limits: int) -> range:
    found = range(*limits)
    if len(found) > MOST_ROUNDS:
        raise SecurityError(f"range() of {len(found):,}, at most {MOST_ROUNDS:,} are taken")
    return found


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    text = str(text)
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new, count)


def _join(parts: Iterable[Any], between: str = "") -> str:
    texts = [str(part) for part in parts]
    _check_length(sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)
