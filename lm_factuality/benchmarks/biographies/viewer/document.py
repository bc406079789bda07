"""One self-contained HTML file: it asks the network for nothing, and what models wrote can only ever be text in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.biographies.viewer.content import page_content
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import one_file, read_asset, read_file

# In the order in which the page runs them, as one script.
_SCRIPTS = ("elements", "marks", "facts", "response", "summary", "list", "main")


def write_page(
    path: Path, biographies: Sequence[JudgedBiography], title: str, protocol: str = "paper", linking: str | None = None
) -> None:
    """Writes the page to ``path``; ``protocol`` and ``linking`` are those that the biographies were judged with.

    Raises:
        DataError: ``path`` cannot be written.
    """
    write_text(path, build_page(page_content(biographies, title, protocol, linking)))


def build_page(content: dict[str, Any]) -> str:
    """The HTML of ``content`` (see ``page_content``)."""
    script = "\n".join(_part(f"{name}.js") for name in _SCRIPTS)
    page = f"{__package__}/page/page.html"
    return one_file(page, _part("page.css"), script, title=content["title"], content=content)


def _part(name: str) -> str:
    return read_asset(name) if name == "elements.js" else read_file(f"{__package__}/page/{name}")
