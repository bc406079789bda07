"""What all sites of the suite share: Jinja2 templates whose data is only ever text (``base.html``
and ``parts.html``), the look (``look.css``), and scripts: ``tables.js`` sorts, searches and filters
tables, ``elements.js`` makes elements."""

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup, escape

STYLE, SCRIPT = "look.css", "tables.js"


class Column(NamedTuple):
    """The heading of a column. ``numeric`` ones are flush right and sorted as numbers, highest
    first; ``small`` is beneath."""

    label: str
    numeric: bool = False
    title: str | None = None
    small: str = ""


class Link(NamedTuple):
    """An entry of the navigation: where to, relative to the page, and what it is called."""

    href: str
    label: str


def read_file(name: str) -> str:
    """The text of a file beside the code, named ``PACKAGE/FILE``."""
    package, _, file = name.partition("/")
    return files(package).joinpath(file).read_text(encoding="utf-8")


def read_asset(name: str) -> str:
    """The text of a file of this package; a site writes it into a folder of its own and links to
    it."""
    return read_file(f"{__package__}/{name}")


def render(template: str, **values: Any) -> Markup:
    """The template ``PACKAGE/FILE`` with ``values``, escaped unless they are ``Markup``; half a
    character is a question mark."""
    text = _environment().get_template(template).render(**values)
    return Markup(text.encode("utf-8", "replace").decode())  # noqa: S704  escaped by the template


def one_file(template: str, style: str, script: str, **values: Any) -> str:
    """As ``render``, one file with its ``style`` and ``script``, which alone its policy allows, by
    their ``hashes``."""
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    hashes = {
        # As a content security policy names what is inline.
        name: f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
        for name, content in (("style", style), ("script", script))
    }
    own = {"style": Markup(style), "script": Markup(script)}  # noqa: S704  files of packages
    return render(template, hashes=hashes, **own, **values)


@cache
def _environment() -> Environment:
    environment = SandboxedEnvironment(
        loader=FunctionLoader(read_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "text": Column,
        "number": lambda label: Column(label, True),
        "breakable": breakable,
    }
    environment.filters["as_data"] = lambda content: Markup(as_data(content))  # noqa: S704
    environment.globals |= {
        "text": Column,
        "number": lambda label, title=None, small="": Column(label, True, title, small),
    }
    return environment


def breakable(name: str) -> Markup:
    """A long name that a browser may break after an underscore or a slash."""
    return Markup(re.sub(r"([_/])", r"\1<wbr>", str(escape(name))))  # noqa: S704  escaped


def as_data(content: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever texts it holds: ASCII, without
    ``<``, ``>`` and ``&``."""
    data = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
