"""An mkdocs hook: README.md and the READMEs of the tasks are pages of the site, and links work in
the repository and the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = {  # path in the repository: path in the site
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    ".github/CONTRIBUTING.md": "contribute.md",
    **{
        f"tasks/{path.parent.name}/README.md": f"tasks/{path.parent.name}.md"
        for path in (REPOSITORY / "tasks").glob("*/README.md")
    },
}
_SOURCES = {page: source for source, page in PAGES.items()}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)[^)#\s]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie outside ``docs/``."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(REPOSITORY / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    here = page.file.src_uri
    folder = posixpath.dirname(_SOURCES.get(here, f"docs/{here}"))

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[0]))
        return posixpath.relpath(
            PAGES.get(target, target.removeprefix("docs/")), posixpath.dirname(here) or "."
        )

    return _LINK.sub(moved, markdown)
