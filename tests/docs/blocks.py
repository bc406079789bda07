"""The code of a page, block by block, and the commands in it."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from tests.conftest import REPOSITORY, TASKS

PAGES = {
    path.relative_to(REPOSITORY).as_posix(): path
    for path in (
        REPOSITORY / "README.md",
        *sorted((REPOSITORY / "docs").glob("*.md")),
        *sorted(TASKS.glob("*/README.md")),
    )
}
_BLOCK = re.compile(r"(?ms)^( *)```([a-z]*)\n(.*?)^ *```")


@dataclass(frozen=True)
class Block:
    """``line`` is the first line of its ``text`` in the page; ``language`` is empty for output
    without one."""

    page: str
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Its lines, continued ones joined and comments left out."""
        lines = re.sub(r"\\\n\s*", " ", self.text).splitlines()
        return [
            line for each in lines if (line := re.sub(r"(^|\s+)# .*$|\s{2,}#.*$", "", each).strip())
        ]


def blocks_of(page: str) -> list[Block]:
    text = PAGES[page].read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start(3)) + 1, found[2], textwrap.dedent(found[3]))
        for found in _BLOCK.finditer(text)
    ]
