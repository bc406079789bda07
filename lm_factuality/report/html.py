"""HTML from Python in which whatever is not markup of ours is text: every child and attribute is escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


class Html(str):
    """Markup that is safe to put into a page as it is; only ``tag`` and ``joined`` make it out of data."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"


def _escaped(value: Any) -> str:
    """``value`` as text; a half of a character, which JSON can hold and no file, as a question mark."""
    return html.escape(str(value), quote=True).encode("utf-8", "replace").decode()


def tag(name: str, /, *children: Child, **attributes: Any) -> Html:
    """An element. Children are text unless they are ``Html``; nothing (None) is left out. An attribute's ``_`` is a ``-`` and
    at its end is dropped (``class_``, ``data_value``); True stands alone, None and False are left out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Child) -> Html:
    """Children beside each other, escaped where they are text."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int | float):
        return Html(_escaped(children))
    return Html("".join(joined(child) for child in children))


def breakable(name: str) -> Html:
    """A long name that a browser may break after an underscore or a slash."""
    return joined([[part, tag("wbr")] if part in "_/" else part for part in re.split(r"([_/])", name) if part])


def as_data(content: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever texts it holds: ASCII, without ``<``, ``>`` and ``&``."""
    data = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def embedded(element_id: str, content: Any) -> Html:
    """Data for the scripts of a page, inside the page."""
    return Html(f'<script type="application/json" id="{html.escape(element_id)}">{as_data(content)}</script>')
