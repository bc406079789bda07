"""The templates, styles and scripts that all pages of the suite share.

Reports, leaderboards and viewers call `render` and `one_file`. The templates ``base.html``,
``one_file.html`` and ``parts.html`` treat all data as text. ``look.css`` is the style,
``tables.js`` sorts, searches and filters tables, and ``elements.js`` creates elements.
"""

import base64
import hashlib
import json
import re
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup, escape

STYLE, SCRIPT = "look.css", "tables.js"


class Column(NamedTuple):
    """The heading of a column of a table."""

    label: str
    title: str | None = None
    """The explanation that a browser shows at the heading."""

    small: str = ""
    """A line of small text under the label."""

    numeric: bool = False
    """Whether the column holds numbers, which are flush right and sorted from the highest down."""


class Link(NamedTuple):
    """An entry of a page's navigation."""

    href: str
    """The address, relative to the page."""

    label: str


def read_file(name: str) -> str:
    """Return the text of a file beside the code, such as ``lm_factuality.report/report.html``."""
    package, _, file = name.partition("/")
    return files(package).joinpath(file).read_text(encoding="utf-8")


def read_asset(name: str) -> str:
    """Return the text of a file of this package, which a site copies to its folder and links."""
    return read_file(f"{__package__}/{name}")


def render(template: str, **values: Any) -> Markup:
    """Fill a template of a page.

    Args:
        template: The template, as ``PACKAGE/FILE``.
        **values: The variables of the template. Texts are escaped, unless they are ``Markup``.

    Returns:
        The page. Half of a surrogate pair in a text becomes a question mark.
    """
    text = _environment().get_template(template).render(**values)
    return Markup(text.encode("utf-8", "replace").decode())  # noqa: S704  escaped by the template


def one_file(template: str, style: str, script: str, **values: Any) -> str:
    """Fill a template of a page that is a single file, with its style and script in it.

    The page's content security policy allows only this style and script, by their hashes.

    Args:
        template: The template, as ``PACKAGE/FILE``, which extends ``one_file.html``.
        style: The CSS of the page.
        script: The JavaScript of the page.
        **values: The other variables of the template, such as ``title`` and ``content``.

    Returns:
        The page.
    """
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    hashes = {"style": _policy_hash(style), "script": _policy_hash(script)}
    return render(
        template,
        hashes=hashes,
        style=Markup(style),  # noqa: S704  a file of a package
        script=Markup(script),  # noqa: S704  a file of a package
        **values,
    )


def _policy_hash(content: str) -> str:
    """Return the hash by which a content security policy allows an inline style or script."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@cache
def _environment() -> Environment:
    """Return the environment of all templates, which escapes texts and refuses unknown names.

    Templates make the heading of a column with ``text`` or ``number``, after what the column holds.
    Both can be called as functions: ``number("Accuracy", title="of all rows")``. Both are also
    filters: ``labels | map("number")`` makes a heading of each label.
    """
    environment = SandboxedEnvironment(
        loader=FunctionLoader(read_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # By its defaults, `Column` is the heading of a column of texts.
    columns = {"text": Column, "number": partial(Column, numeric=True)}
    environment.filters |= {**columns, "breakable": breakable, "as_data": as_data}
    environment.globals |= columns
    return environment


def breakable(name: str) -> Markup:
    """Let a browser break a long name after underscores and slashes: ``a_b`` -> ``a_<wbr>b``."""
    return Markup(re.sub(r"([_/])", r"\1<wbr>", str(escape(name))))  # noqa: S704  escaped


def as_data(content: object) -> Markup:
    r"""Return a value as JSON that is safe in a script element, whatever its texts contain.

    Example:
        The text ``</script>`` becomes ``"\u003c/script\u003e"``, which cannot end the element.
    """
    data = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    escaped = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(escaped)  # noqa: S704  escaped above, so templates must not do it again
