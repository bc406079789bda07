"""Jinja templates in YAML files of strangers: the columns of a row within plain text.

Jinja's sandbox keeps a template from reaching Python, but a loop or a method such as
``l.extend(l)`` could still fill the memory. Corpora, search services and tasks that are not trusted
therefore use only the parts of Jinja that are named here. None of them repeats anything.
"""

from collections.abc import Iterable

from jinja2 import StrictUndefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from lm_factuality.ground.files import Json

_MAX_TEMPLATE_LENGTH = 20_000  # characters
_MAX_PARTS = 300  # names, filters, operators and other parts of a template
_MAX_DEPTH = 20  # of parts within each other
_MAX_RESULT_LENGTH = 1_000_000  # characters of the result of one operation
# Jinja's own filters and tests that need no limit. Those with a limit are defined below.
_FILTERS = (
    "capitalize",
    "d",
    "default",
    "first",
    "float",
    "int",
    "last",
    "length",
    "lower",
    "string",
    "title",
    "trim",
    "upper",
)
_TESTS = ("defined", "none", "number", "string", "undefined")
# What a template may be made of: texts, columns, their members and parts, conditions, and lists.
_ALLOWED_PARTS = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.Name,
    nodes.Const,
    nodes.List,
    nodes.Tuple,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Test,
    nodes.Add,
    nodes.Sub,
    nodes.Neg,
    nodes.Concat,
    nodes.Filter,
    nodes.Keyword,
)


class BoundedEnvironment(SandboxedEnvironment):
    """An environment for templates of columns and plain text, without loops and methods.

    A name that is not a column of the row is an error.
    """

    intercepted_binops = frozenset("+")

    def __init__(self, *, is_trusted: bool = False) -> None:
        """Create the environment, which by default has few filters and no global functions.

        Args:
            is_trusted: Whether templates may use loops, methods and all else that Jinja's sandbox
                permits.
        """
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self._is_trusted = is_trusted
        if not is_trusted:
            self.filters = {name: self.filters[name] for name in _FILTERS}
            self.tests = {name: self.tests[name] for name in _TESTS}
            self.globals = {}
        # Jinja's own filters of these names have no limit.
        self.filters |= {"replace": _replace, "join": _join}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Parse a template, and refuse parts that are not in `_ALLOWED_PARTS`, such as loops.

        Args:
            source: The template.
            name: The name of the template, for Jinja's errors.
            filename: The file of the template, for Jinja's errors.

        Raises:
            TemplateSyntaxError: The template is too long, invalid, or has a loop, a call or another
                part that is refused.
        """
        if self._is_trusted:
            return super()._parse(source, name, filename)
        _check_size(len(source), _MAX_TEMPLATE_LENGTH, "characters")
        try:
            parsed = super()._parse(source, name, filename)
            depth = _depth(parsed)
        except RecursionError:
            raise TemplateSyntaxError("it is nested too deeply", 1) from None
        _check_size(depth, _MAX_DEPTH, "parts within each other")

        parts = list(parsed.find_all(nodes.Node))
        _check_size(len(parts), _MAX_PARTS, "parts")
        for part in parts:
            if not isinstance(part, _ALLOWED_PARTS):
                raise TemplateSyntaxError(
                    f"{type(part).__name__} is not taken in the templates of a YAML; write columns,"
                    " conditions and filters such as {{ title | trim }}",
                    part.lineno,
                )
        return parsed

    def call_binop(self, context: Context, operator: str, left: Json, right: Json) -> Json:
        """Add two values of a template, such as two texts, unless the result would be too long.

        Args:
            context: The context of the template.
            operator: The operator ``+``.
            left: The value before the operator.
            right: The value after the operator.

        Raises:
            SecurityError: The result would be too long.
        """
        # The sum of two numbers has no length. All other values that can be added are texts or
        # lists.
        if not isinstance(left, int | float):
            _check_length(len(left) + len(right))
        return super().call_binop(context, operator, left, right)


def _check_size(size: int, most: int, unit: str) -> None:
    """Refuse a template that is too large.

    Raises:
        TemplateSyntaxError: The template has more than ``most`` of the unit.
    """
    if size > most:
        raise TemplateSyntaxError(f"{size:,} {unit}, at most {most:,} are taken", 1)


def _depth(part: nodes.Node) -> int:
    """Return how many parts of a template are within each other, this one included."""
    return 1 + max(map(_depth, part.iter_child_nodes()), default=0)


def _check_length(length: int) -> None:
    """Refuse a result of more than a million characters before it is made.

    Raises:
        SecurityError: The result would be too long.
    """
    if length > _MAX_RESULT_LENGTH:
        raise SecurityError(
            f"it would make {length:,} characters, at most {_MAX_RESULT_LENGTH:,} are taken"
        )


def _replace(text: str, old: str, new: str) -> str:
    """Replace ``old`` by ``new`` in a text, unless the result would be too long."""
    text = str(text)
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _join(values: Iterable[object], separator: str = "") -> str:
    """Join values with a separator between them, unless the result would be too long."""
    texts = [str(value) for value in values]
    _check_length(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)
