"""The text of Markdown files, parsed by markdown-it-py.

`reader` calls `read_markdown`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import unescape
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lm_factuality.documents.document import FileText, read_text, row_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# The lines between two rulers at the start of the file.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
_MAX_FRONT_MATTER = 1 << 16  # characters
# A text without any of these characters has no markup, as most paragraphs have none.
_INLINE_MARKUP = re.compile(r"[\\`*_~\[\]<&]")
# The parser drops what is nested more deeply than its limit, which is 20 by default.
_MAX_NESTING = 100
# The parser takes quadratic time for thousands of brackets in one block.
_MAX_INLINE = 20_000  # characters
_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)(?![\w:-])[^<>]*>")
_TITLE_TAGS = ("h1", "h2")
_SKIPPED_TAGS = ("script", "style", "template")
_TAGS_WITHIN_LINES = re.compile(
    "a|abbr|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|s|samp|small|span"
    "|strike|strong|su[bp]|time|tt|u|var|wbr"
)


def read_markdown(path: Path) -> FileText:
    """Read the title and the text of a Markdown file.

    The title is that of the front matter, or the first heading.

    Raises:
        UnreadableError: The file is no text.
    """
    return parse_markdown(read_text(path))


def parse_markdown(source: str) -> FileText:
    r"""Return the title and the text of Markdown.

    Example:
        ``# Ropes\n\nSee [the *list*](list.md).`` has the title ``Ropes`` and the text
        ``Ropes\n\nSee the list.``

    Args:
        source: The Markdown. Its front matter becomes ``key: value`` lines.

    Returns:
        The text with an empty line between blocks. Items of lists keep their marks. Each row of a
        table is a block of its own, with the header beside every cell.
    """
    front_matter, body = split_front_matter(source)
    blocks = _Blocks()
    metadata = row_text({key: value for key, value in front_matter.items() if key != "title"})
    if metadata:
        blocks.texts.append(metadata)
    blocks.read(body)
    return FileText(front_matter.get("title") or blocks.first_heading, "\n\n".join(blocks.texts))


def split_front_matter(source: str) -> tuple[dict[str, str], str]:
    """Split Markdown into its front matter and the rest.

    Args:
        source: The Markdown.

    Returns:
        The values of the front matter as texts by key, and the rest. Lists and mappings in lists
        are left out of the values. If the front matter is no YAML, it stays in the text.
    """
    # Only the start is searched, since a long text may begin with a ruler that has no second.
    match = _FRONT_MATTER.match(source[:_MAX_FRONT_MATTER])
    if match is None:
        return {}, source
    try:
        content = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, source
    if not isinstance(content, dict):
        return {}, source

    values = {}
    for key, value in content.items():
        members = value if isinstance(value, list) else [value]
        # Aliases can make nested values of a short text endless, so only plain values are kept.
        texts = [str(member) for member in members if not isinstance(member, list | dict)]
        values[str(key).lower()] = ", ".join(text for text in texts if text != "None")
    return values, source[match.end() :]


@cache
def _parser() -> "MarkdownIt":
    """Return the parser, which leaves the text within blocks unparsed: `_inline_text` does that."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.disable(["inline"])
    return parser


class _Blocks:
    """The blocks of a Markdown text, as plain texts.

    Attributes:
        texts: The texts of the blocks.
        first_heading: The first heading, or an empty string.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.first_heading = ""
        # The mark of the item of a list that begins, such as "2. " or "- ".
        self._mark = ""
        self._is_heading = False
        self._is_in_table = False
        # The rows of the table, of which the first one is the header.
        self._rows: list[list[str]] = []

    def read(self, source: str) -> None:
        """Add the blocks of Markdown without front matter."""
        # The parser stores the targets of links here, which the texts in blocks refer to.
        environment: dict[str, Any] = {}
        for token in _parser().parse(source, environment):
            if token.type == "inline":
                self._add_text(_inline_text(token.content, environment))
            elif token.type in ("fence", "code_block"):
                self.texts.append(token.content.rstrip("\n"))
            elif token.type == "html_block":
                self._add_html(token.content)
            elif token.type == "list_item_open":
                self._mark = f"{token.info}{token.markup} " if token.info else "- "
            elif token.type == "list_item_close":
                # An item without a text leaves no mark to the next block.
                self._mark = ""
            elif token.type in ("heading_open", "heading_close"):
                self._is_heading = token.nesting == 1
            else:
                self._follow_table(token.type)

    def _follow_table(self, kind: str) -> None:
        """Note that a table or a row of one begins or ends.

        Args:
            kind: The type of a token, such as ``tr_open``.
        """
        if kind == "table_open":
            self._is_in_table = True
            self._rows = []
        elif kind == "tr_open":
            self._rows.append([])
        elif kind == "table_close":
            self._is_in_table = False
            self.texts += table_blocks(self._rows)

    def _add_text(self, text: str) -> None:
        """Add the text of a paragraph, a heading or a cell."""
        if self._is_in_table:
            self._rows[-1].append(text)
            return
        if self._is_heading and not self.first_heading:
            self.first_heading = text
        if text.strip():
            self.texts.append(f"{self._mark}{text}")
            self._mark = ""

    def _add_html(self, source: str) -> None:
        """Add the text of an HTML block, such as the centred heading of many a README."""
        html = _html_text(source)
        self.first_heading = self.first_heading or html.title
        if html.text:
            self.texts.append(html.text)


def table_blocks(rows: list[list[str]]) -> list[str]:
    r"""Write the rows of a table in a text, with the header beside every cell.

    Example:
        ``[["item", "price"], ["Rope", "3"]]`` becomes ``["item: Rope\nprice: 3"]``.

    Args:
        rows: The cells of the rows. The first row is the header, unless it is the only one.

    Returns:
        A block for each row that is not empty.
    """
    header: list[str] = []
    if len(rows) > 1:
        header, *rows = rows
    blocks = []
    for cells in rows:
        # Two columns may have the same header, and surplus cells have none.
        lines = [
            row_text({column: cell}) for column, cell in zip_longest(header, cells, fillvalue="")
        ]
        blocks.append("\n".join(filter(None, lines)))
    return list(filter(None, blocks))


def _inline_text(source: str, environment: Mapping[str, Any]) -> str:
    """Return the text within a block of Markdown, without emphasis, links and HTML tags.

    Args:
        source: The content of the block. Its line breaks become spaces.
        environment: The targets of links, from the parser.

    Returns:
        The text. A block of more than 20,000 characters keeps its markup.
    """
    if len(source) > _MAX_INLINE or not _INLINE_MARKUP.search(source):
        return " ".join(source.split("\n"))
    tokens: list[Any] = []
    _parser().inline.parse(source, _parser(), dict(environment), tokens)
    return "".join(_texts_of(tokens)).strip()


def _texts_of(tokens: list[Any]) -> Iterator[str]:
    """Yield the texts of the tokens within a block. That of an image is its description."""
    for token in tokens:
        if token.type == "softbreak":
            yield " "
        elif token.type == "hardbreak" or token.content.lower().startswith("<br"):
            yield "\n"
        elif token.type != "html_inline":
            yield token.content


def _remove_comments(source: str) -> str:
    """Return HTML without comments. One without an end goes on to the end, as in a browser."""
    parts = []
    position = 0
    # Unlike a search for each tag, this takes time in proportion to the length.
    while (start := source.find("<!--", position)) >= 0:
        parts.append(source[position:start])
        end = source.find("-->", start)
        if end < 0:
            return "".join(parts)
        position = end + len("-->")
    parts.append(source[position:])
    return "".join(parts)


def _html_text(source: str) -> FileText:
    """Return the text of a piece of HTML with a line for each block, and its first h1 or h2.

    Python's `HTMLParser` takes minutes for a few thousand tags without an end.

    Example:
        ``<h1>Ropes</h1><p>Two <b>thin</b> ones.</p>`` has the title ``Ropes`` and the lines
        ``Ropes`` and ``Two thin ones.``
    """
    source = _remove_comments(source)
    parts: list[str] = []
    heading = ""
    heading_start = -1  # the index in `parts` of what follows the last <h1> or <h2>
    skipped_tag = ""  # the script or style that the text is in
    position = 0
    for tag in _TAG.finditer(source):
        if not skipped_tag:
            parts.append(source[position : tag.start()])
        position = tag.end()
        is_end = tag[1] == "/"
        name = tag[2].lower()
        if name in _SKIPPED_TAGS:
            skipped_tag = "" if is_end else name
        if not _TAGS_WITHIN_LINES.fullmatch(name):
            parts.append("\n")
        if name in _TITLE_TAGS and not is_end:
            heading_start = len(parts)
        elif name in _TITLE_TAGS and heading_start >= 0 and not heading:
            heading = _one_line("".join(parts[heading_start:]))
    if not skipped_tag:
        parts.append(source[position:])

    lines = [_one_line(line) for line in "".join(parts).split("\n")]
    return FileText(heading, "\n".join(filter(None, lines)))


def _one_line(text: str) -> str:
    """Return a piece of HTML without tags as a line, with characters in place of entities."""
    return " ".join(unescape(text).split())
