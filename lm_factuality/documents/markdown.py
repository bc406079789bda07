"""The text of Markdown files, parsed by markdown-it-py.

`reader` calls `read_markdown`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import unescape
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from lm_factuality.documents.document import FileText, read_text, row_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# The lines between two rulers at the start of the file.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
_MAX_FRONT_MATTER = 1 << 16  # characters
# A text without any of these characters has no markup, as most paragraphs have none.
_INLINE_MARKUP = re.compile(r"[\\`*_~\[\]<&]")
# The parser drops what is nested more deeply than its limit, which is 20 by default.
_MAX_NESTING = 100
# The parser takes quadratic time for thousands of brackets in one block.
_MAX_INLINE = 20_000  # characters
_TAG = re.compile(r"</?([a-zA-Z][\w:-]*)(?![\w:-])[^<>]*>")
# As in a browser, a comment or script without an end goes on to the end of the text.
_COMMENT = re.compile(r"<!(?=--).*?(?:-->|\Z)", re.DOTALL)
_END_OF_TAG = r"(?![\w:-])[^<>]*>"
_INVISIBLE = rf"(?:script|style|template){_END_OF_TAG}"
_SCRIPT = re.compile(rf"<{_INVISIBLE}.*?(?:</{_INVISIBLE}|\Z)", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(
    rf"<h[12]{_END_OF_TAG}((?:(?!<h[12]{_END_OF_TAG}).)*?)</h[12]{_END_OF_TAG}",
    re.DOTALL | re.IGNORECASE,
)
_TAGS_WITHIN_LINES = re.compile(
    "a|abbr|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|s|samp|small|span"
    "|strike|strong|su[bp]|time|tt|u|var|wbr",
    re.IGNORECASE,
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

    Items of lists keep their marks. Each row of a table is a block of its own, with the header
    beside every cell. Front matter becomes ``key: value`` lines.

    Example:
        ``# Ropes\n\nSee [the *list*](list.md).`` has the title ``Ropes`` and the text
        ``Ropes\n\nSee the list.``
    """
    front_matter, body = split_front_matter(source)
    title = front_matter.pop("title", "")
    blocks = _Blocks()
    metadata = row_text(front_matter)
    if metadata:
        blocks.texts.append(metadata)
    blocks.read(body)
    return FileText(title or blocks.first_heading, "\n\n".join(blocks.texts))


class SplitMarkdown(NamedTuple):
    """A Markdown text in two parts."""

    front_matter: dict[str, str]
    """The values of the front matter by key, in small letters. Empty if there is none."""

    body: str
    """The rest of the text."""


def split_front_matter(source: str) -> SplitMarkdown:
    r"""Split Markdown into its front matter, which is YAML between two rulers, and the rest.

    Example:
        ``---\ntags: [rope, knot]\n---\nText`` has the front matter ``{"tags": "rope, knot"}``.

    Returns:
        The two parts. Front matter that is no YAML stays in the body.
    """
    # Only the start is searched, since a long text may begin with a ruler that has no second.
    match = _FRONT_MATTER.match(source[:_MAX_FRONT_MATTER])
    if match is None:
        return SplitMarkdown({}, source)
    try:
        content = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return SplitMarkdown({}, source)
    if not isinstance(content, dict):
        return SplitMarkdown({}, source)

    values = {str(key).lower(): _front_matter_text(value) for key, value in content.items()}
    return SplitMarkdown(values, source[match.end() :])


def _front_matter_text(value: object) -> str:
    """Write a value of the front matter as a text: ``["rope", "knot"]`` becomes ``rope, knot``."""
    members = value if isinstance(value, list) else [value]
    # Aliases can make nested values of a short text endless, so only plain values are kept.
    texts = [str(member) for member in members if not isinstance(member, list | dict)]
    return ", ".join(text for text in texts if text != "None")


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
        # The mark of the list item that begins with the next text, such as "2. " or "- ".
        self._item_mark = ""
        # Whether the next text is within a heading.
        self._is_heading = False

    def read(self, source: str) -> None:
        """Add the blocks of Markdown without front matter."""
        # The parser stores the targets of links here, which the texts in blocks refer to.
        environment: dict[str, Any] = {}
        tokens = iter(_parser().parse(source, environment))
        for token in tokens:
            match token.type:
                case "inline":
                    self._add_text(_inline_text(token.content, environment))
                case "fence" | "code_block":
                    self.texts.append(token.content.rstrip("\n"))
                case "html_block":
                    self._add_html(token.content)
                case "table_open":
                    self.texts += table_blocks(_rows_of_table(tokens, environment))
                case "heading_open":
                    self._is_heading = True
                case "heading_close":
                    self._is_heading = False
                case "list_item_open":
                    # Only the items of numbered lists have a number (``info``).
                    self._item_mark = f"{token.info}{token.markup} " if token.info else "- "
                case "list_item_close":
                    # An item without a text leaves no mark to the next block.
                    self._item_mark = ""

    def _add_text(self, text: str) -> None:
        """Add the text of a paragraph or a heading.

        In the item of a list, the first text gets the mark of the item, such as ``- ``.
        """
        if self._is_heading and not self.first_heading:
            self.first_heading = text
        if text.strip():
            self.texts.append(f"{self._item_mark}{text}")
            # Other paragraphs of the same item have no mark.
            self._item_mark = ""

    def _add_html(self, source: str) -> None:
        """Add the text of an HTML block, such as the centred heading of many a README."""
        html = _html_text(source)
        self.first_heading = self.first_heading or html.title
        if html.text:
            self.texts.append(html.text)


def _rows_of_table(tokens: Iterator["Token"], environment: Mapping[str, Any]) -> list[list[str]]:
    """Take the tokens up to the end of a table, and return the cells of its rows as plain texts."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_inline_text(token.content, environment))
    return rows


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
        # Surplus cells have no header.
        columns = zip_longest(header, cells, fillvalue="")
        # One dictionary for the whole row would lose a cell if two columns have the same header.
        lines = [row_text({column: cell}) for column, cell in columns]
        block = "\n".join(filter(None, lines))
        if block:
            blocks.append(block)
    return blocks


def _inline_text(source: str, environment: Mapping[str, Any]) -> str:
    """Return the text of one paragraph, heading or cell, without emphasis, links and HTML tags.

    Example:
        ``a **thin** [rope](rope.md)`` becomes ``a thin rope``.

    Args:
        source: The Markdown. If it has more than 20,000 characters, it keeps its markup.
        environment: What the parser knows of the whole document: the targets of its links.
    """
    if len(source) > _MAX_INLINE or not _INLINE_MARKUP.search(source):
        return source.replace("\n", " ")
    parser = _parser()
    tokens: list[Token] = []  # the parser adds to this list
    parser.inline.parse(source, parser, dict(environment), tokens)
    return "".join(_texts_of_tokens(tokens)).strip()


def _texts_of_tokens(tokens: list["Token"]) -> Iterator[str]:
    """Yield the text of each token within a paragraph. An image has its description as its text."""
    for token in tokens:
        if token.type == "softbreak":
            yield " "
        elif token.type == "hardbreak" or token.content.lower().startswith("<br"):
            yield "\n"
        elif token.type != "html_inline":
            yield token.content


def _html_text(source: str) -> FileText:
    """Return the text of a piece of HTML with a line for each block, and its first h1 or h2.

    Python's `HTMLParser` takes minutes for a few thousand tags without an end.

    Example:
        ``<h1>Ropes</h1><p>Two <b>thin</b> ones.</p>`` has the title ``Ropes`` and the lines
        ``Ropes`` and ``Two thin ones.``
    """
    visible = _SCRIPT.sub("\n", _COMMENT.sub("", source))
    headings = [" ".join(_html_lines(heading[1])) for heading in _HEADING.finditer(visible)]
    first_heading = next(filter(None, headings), "")
    return FileText(first_heading, "\n".join(_html_lines(visible)))


def _html_lines(source: str) -> list[str]:
    """Return the lines of HTML without tags and scripts, and without empty lines.

    Tags such as ``<b>`` are within a line, and other tags begin a new one.
    """
    text = _TAG.sub(lambda tag: "" if _TAGS_WITHIN_LINES.fullmatch(tag[1]) else "\n", source)
    lines = [" ".join(unescape(line).split()) for line in text.split("\n")]
    return [line for line in lines if line]
