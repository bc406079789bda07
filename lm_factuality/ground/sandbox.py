"""Jinja templates in untrusted YAML files, with a limit on the length of their results.

Jinja's sandbox keeps a template from reaching Python, but ``{{ 'a' * 10**10 }}`` or nested loops
could still fill the memory. Tasks and corpora therefore use templates of expressions and conditions
only, without the operations that can make a text long.
"""

from collections.abc import Iterable

from jinja2 import StrictUndefined, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from lm_factuality.ground.files import Json

MOST_TEMPLATE = 20_000  # characters of a template
MOST_MADE = 1_000_000  # characters of the result of one operation
_FILTERS = (
    "abs capitalize d default dictsort e escape first float int items last length list lower map"
    " max min reject rejectattr reverse select selectattr sort string striptags sum title trim"
    " truncate unique upper urlencode wordcount"
)
_LENGTHENING = "center encode expandtabs format format_map join ljust replace rjust translate zfill"


class BoundedEnvironment(SandboxedEnvironment):
    """An environment for the templates of a task's or a corpus's YAML.

    A name that is not a column of the row is an error.
    """

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        """Create the environment, with harmless filters and without global functions."""
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.filters = {name: self.filters[name] for name in _FILTERS.split()}
        self.filters |= {"replace": _replace, "join": _join}
        self.globals = {}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Parse a template, and refuse statements other than output and conditions.

        Args:
            source: The template.
            name: The name of the template, for Jinja's errors.
            filename: The file of the template, for Jinja's errors.

        Raises:
            TemplateSyntaxError: The template is too long, invalid, or has a loop or another
                statement that is refused.
        """
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

        # The operator ~ does not check the length of its result, but our filter `join` does. So
        # ``a ~ b`` becomes ``[a, b] | join``, a filter without arguments of any of the four kinds.
        for concat in parsed.find_all(nodes.Concat):
            texts = nodes.List(concat.nodes, lineno=concat.lineno)
            joined = nodes.Filter(texts, "join", [], [], None, None, lineno=concat.lineno)
            concat.nodes = [joined]
        return parsed

    def call_binop(self, context: Context, operator: str, left: Json, right: Json) -> Json:
        """Add two values of a template, and refuse the operators that could repeat a text.

        Args:
            context: The context of the template.
            operator: One of ``intercepted_binops``.
            left: The value before the operator.
            right: The value after the operator.

        Returns:
            The sum, or the joined text or list.

        Raises:
            SecurityError: The operator is not ``+``, or the result would be too long.
        """
        if operator != "+":
            raise SecurityError(f"{operator!r} is not taken in the templates of a YAML")
        # The sum of two numbers has no length. All other values that can be added are texts or
        # lists.
        if not isinstance(left, int | float):
            _check_length(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Tell whether a template may use an attribute of a value.

        Text methods that can make a text long are refused. Templates can use the filters
        ``replace`` and ``join`` instead of two of them.

        Args:
            obj: The value.
            attr: The name of the attribute, such as ``upper``.
            value: The attribute.
        """
        is_lengthening = isinstance(obj, str) and attr in _LENGTHENING.split()
        return not is_lengthening and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: object) -> None:
        """Refuse ``format`` of a text, whose result is as long as its fields say.

        Jinja would return a safe version of the method here.

        Raises:
            SecurityError: The value is such a method.
        """
        if super().wrap_str_format(value) is not None:
            raise SecurityError(
                "format() is not taken in the templates of a YAML; write {{ }} beside each other"
            )


def _check_length(length: int) -> None:
    """Refuse a result of more than a million characters before it is made.

    Raises:
        SecurityError: The result would be too long.
    """
    if length > MOST_MADE:
        raise SecurityError(f"it would make {length:,} characters, at most {MOST_MADE:,} are taken")


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
