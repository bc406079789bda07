"""Read the prose of a Markdown text, and keep where each character of it stands in the text.

`claims` calls `read_blocks`. Code is left out, and marks such as those of emphasis are removed.
"""

import html
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

# Inline HTML, for example for line breaks and raised letters. Other text between angle brackets
# may be a comparison, such as "a < b".
_TAG = (
    r"</?(?:a|b|big|blockquote|br|center|code|dd|details|div|dl|dt|em|font|h[1-6]|hr|i|img|kbd|li"
    r"|mark|ol|p|pre|s|small|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)"
    r"\b[^<>\n]{0,300}>"
)
# All repetitions have a limit, so that a search takes time in proportion to the length of the text.
_MARKUP = re.compile(
    "|".join(
        (
            r"`(?P<code>[^`\n]{1,500})`",
            r"(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,20});)",
            r"(?P<space>\s+|<br\b[^<>\n]{0,100}>)",
            # Citations such as [1, 2], footnotes, and boxes of task lists.
            r"\[\d{1,4}(?:[,;\u2013 -]{1,3}\d{1,4}){0,20}\](?!\()|\[\^[^\]\s]{1,30}\]"
            r"|\[[ xX]\](?=\s)|\u3010[^\u3011\n]{0,80}\u3011|\[citation needed\]",
            # An image, and the marks around the text of a link.
            r"!\[[^\[\]\n]{0,300}\]\([^()\s\[\]]{0,500}(?:\s\"[^\"\n]{0,200}\")?\)",
            r"\[(?=[^\[\]\n]{1,300}\](?:\(|\[))",
            r"\]\((?:[^()\s\[\]]|\([^()\s\[\]]{0,200}\)){0,500}(?:\s\"[^\"\n]{0,200}\")?\)",
            r"\]\[[^\[\]\n]{0,80}\]",
            r"<https?://[^<>\s]{1,500}>|<!--.{0,2000}?-->",
            _TAG,
            r"\\(?P<escaped>[!-'*-/:-@^-`{-~])|\\[()\[\]]|\\$",
            # Emphasis. A star between two words or numbers, as in 2*3, is no emphasis.
            r"~~|(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])|(?<!\d)\*\*|\*\*(?!\d)",
            r"(?<![\w])_{1,3}(?=[^\s_])|(?<=[^\s_])_{1,3}(?!\w)|`+",
        )
    )
)
_BULLET = re.compile(r"(?m)^([ \t]*)[\u2022\u2023\u25e6\u25aa\u25cf\u00b7\u2013\u2014](?=[ \t])")
# A line break that an export has written as a backslash and a letter. "\nu" is a Greek letter.
_ESCAPED_BREAK = re.compile(r"(?:\\n){2}|\\n(?![a-z])")
_ONLY_BOLD = re.compile(r"\s*(\*\*|__)[^*_]{1,200}\1:?\s*")
_BOLD_START = re.compile(r"\s*(?:\*\*|__)(?=\S)")
_SENTENCE_END = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)\]*_]*\s*$")
_PROSE_START = re.compile(r"\s*[\"\u201c(]?[A-Z\u00c0-\u00de][\w'-]* +\w")
_CODE_SIGNS = re.compile(r"[{};=<>$\\#|]|\w\(")
_LEAST_WRAPPED = 60  # characters of a line that was wrapped by hand
_WIDEST_WRAPPED = 120


@dataclass(frozen=True)
class PlainText:
    """A text without markup."""

    text: str
    """The text, with single spaces."""

    offsets: Sequence[int]
    """The offset of each of its characters in the Markdown text."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the start and end offset, in the Markdown text, of a part of this text."""
        return self.offsets[start], self.offsets[end - 1] + 1


@dataclass(frozen=True)
class Block:
    """A heading, a line or wrapped paragraph of prose, or a row of a table."""

    kind: Literal["heading", "prose", "row"]
    plain: PlainText

    depth: int
    """The number of lists that the block is in."""

    opens_item: bool = False
    """Whether it is the first block of a list item."""

    emphasis: Literal["", "start", "all"] = ""
    """Whether the block begins with bold text, or has no other text."""

    header: tuple[str, ...] = ()
    """The names of the columns, for a row of a table."""

    cells: tuple[str, ...] = ()
    """The cells, for a row of a table."""


def read_blocks(text: str) -> list[Block]:
    """Read the headings, prose and table rows of a Markdown text, without markup and code.

    Example:
        The line ``# Life`` is the heading ``Life``, and the line ``- **Born** in 1702.`` is the
        prose ``Born in 1702.`` at depth 1, i.e. in one list.
    """
    # All replacements keep the length of the text, so that offsets stay valid. The parser would
    # turn the two characters of a line break of Windows into one.
    source = text.replace("\r\n", " \n").replace("\r", "\n").replace("\0", "\ufffd")
    if "\n" not in source:
        # An export may have written the line breaks of an answer as "\" and "n". Each such pair
        # becomes a space and a line break.
        source = _ESCAPED_BREAK.sub(lambda match: match[0].replace("\\n", " \n"), source)
    # Markdown knows no bullets such as "•".
    source = _BULLET.sub(r"\1-", source)
    tree = SyntaxTreeNode(_parser().parse(source))
    return list(_Reader(source).blocks(tree))


@cache
def _parser() -> MarkdownIt:
    """Return a parser that only splits a text into blocks, such as paragraphs and tables.

    It knows no HTML blocks, since answers have prose between tags.
    """
    parser = MarkdownIt("zero")
    parser.enable(["table", "code", "fence", "blockquote", "hr", "list", "reference"])
    parser.enable(["heading", "lheading"])
    # `plain_text` removes markup within blocks, since the parser would not tell offsets.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


class _Reader:
    """Reads the blocks of one text from the parser's tree."""

    def __init__(self, source: str) -> None:
        # The content of a code block has an empty line after its last one.
        self._lines = [*source.split("\n"), ""]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def blocks(
        self, node: SyntaxTreeNode, depth: int = 0, opens_item: bool = False
    ) -> Iterator[Block]:
        """Yield the blocks below a node of the tree, in order.

        Args:
            node: The node.
            depth: The number of lists that it is in.
            opens_item: Whether the first block of the node is also the first block of a list item.
        """
        match node.type:
            case "heading" if _is_underlined_paragraph(node):
                yield from self._prose_blocks(node.children[0], depth, opens_item)
            case "heading":
                yield from self._heading_blocks(node.children[0], depth, opens_item)
            case "paragraph":
                yield from self._prose_blocks(node.children[0], depth, opens_item)
            case "code_block":
                if _is_prose(node.content):
                    yield from self._prose_blocks(node, depth, opens_item)
            case "table":
                yield from self._row_blocks(node, depth)
            case _:
                yield from self._blocks_within(node, depth, opens_item)

    def _blocks_within(self, node: SyntaxTreeNode, depth: int, opens_item: bool) -> Iterator[Block]:
        """Yield the blocks in the children of a node, such as a list, an item or a quotation.

        Args:
            node: The node.
            depth: The number of lists around the node. Its children are in one more if it is a
                list.
            opens_item: Whether the node stands at the beginning of a list item.
        """
        if node.type in ("bullet_list", "ordered_list"):
            depth += 1
        opens_item = opens_item or node.type == "list_item"
        for child in node.children:
            yield from self.blocks(child, depth, opens_item)
            # Only the first child stands at the beginning of the item.
            opens_item = False

    def _heading_blocks(
        self, content: SyntaxTreeNode, depth: int, opens_item: bool
    ) -> Iterator[Block]:
        """Yield the block of a heading, unless nothing is left of it without markup."""
        plain = plain_text(content.content, self._offsets_of_content(content))
        if plain.text:
            yield Block("heading", plain, depth, opens_item)

    def _prose_blocks(self, node: SyntaxTreeNode, depth: int, opens_item: bool) -> Iterator[Block]:
        """Yield the blocks of a paragraph: lines, or several lines with a wrapped sentence.

        Args:
            node: The paragraph.
            depth: The number of lists that it is in.
            opens_item: Whether it stands at the beginning of a list item. Then its first block has
                ``opens_item``, and the others have not.
        """
        offsets = self._offsets_of_content(node)
        start = 0  # of the present block, in the paragraph
        for raw in _join_wrapped_lines(node.content):
            end = start + len(raw)
            plain = plain_text(raw, offsets[start:end])
            start = end + 1  # after the line break
            if plain.text:
                yield Block("prose", plain, depth, opens_item, _emphasis_of(raw))
                opens_item = False

    def _row_blocks(self, table: SyntaxTreeNode, depth: int) -> Iterator[Block]:
        """Yield a block for each row of a table below its header.

        Its text is the whole line, such as ``| Oslo | 1048 |``, and its cells are ``Oslo`` and
        ``1048``.
        """
        header_row, *rows = (node for node in table.walk() if node.type == "tr")
        header = _cells_of(header_row)
        for row in rows:
            line = self._line(row.map[0] if row.map else 0)
            yield Block("row", line, depth, header=header, cells=_cells_of(row))

    def _line(self, number: int) -> PlainText:
        """Return a whole line with its markup, but without white space around it."""
        line = self._lines[number]
        text = line.strip()
        start = self._starts[number] + line.index(text)
        return PlainText(text, range(start, start + len(text)))

    def _offsets_of_content(self, node: SyntaxTreeNode) -> Sequence[int]:
        """Return where each character of a node's content stands in the text.

        Example:
            In a text that begins with ``- Oslo``, the content ``Oslo`` of the list item has the
            offsets 2 to 5, and the line break after it has the offset 6.
        """
        first_line = node.map[0] if node.map else 0
        offsets = array("l")
        for line_number, content_line in enumerate(node.content.split("\n"), start=first_line):
            words = content_line.strip()
            # The content of a line is its end, so the words are searched for from the right. The
            # parser may have changed only the white space before them.
            column_of_words = self._lines[line_number].rfind(words)
            indent = len(content_line) - len(content_line.lstrip())
            # An indent that the parser has made wider would begin before the line.
            column = max(column_of_words - indent, 0)
            start = self._starts[line_number] + column
            # The last offset is the place of the line break.
            offsets.extend(range(start, start + len(content_line) + 1))
        return offsets


def _is_underlined_paragraph(heading: SyntaxTreeNode) -> bool:
    """Tell whether a heading is a paragraph that only looks like one, as dashes stand below it.

    Models write ``---`` below a paragraph to separate it from the next.
    """
    if heading.markup.startswith("#"):
        return False
    content = heading.children[0].content
    return "\n" in content or _SENTENCE_END.search(content) is not None


def _cells_of(row: SyntaxTreeNode) -> tuple[str, ...]:
    """Return the texts of the cells in a row of a table, without markup."""
    contents = [cell.children[0].content for cell in row.children]
    return tuple(plain_text(content, range(len(content))).text for content in contents)


def plain_text(raw: str, offsets: Sequence[int]) -> PlainText:
    """Remove the markup within a block, and all white space but single spaces.

    Example:
        ``**Ada** [sang](https://example.org) [1].`` becomes ``Ada sang.``

    Args:
        raw: The block in Markdown.
        offsets: Where each of its characters stands in the whole text.
    """
    # Each character that stays has its offset at the same place in the other list.
    characters: list[str] = []
    kept_offsets = array("l")

    def keep(start: int, end: int) -> None:
        """Keep a part of the block as it is."""
        characters.extend(raw[start:end])
        kept_offsets.extend(offsets[start:end])

    position = 0  # in `raw`, after the last markup
    for markup in _MARKUP.finditer(raw):
        keep(position, markup.start())
        position = markup.end()

        kind = markup.lastgroup
        if kind in ("code", "escaped"):
            # The text within these marks stays.
            keep(*markup.span(kind))
        elif kind == "entity":
            replacement = html.unescape(markup[0])
            characters.extend(replacement)
            kept_offsets.extend([offsets[markup.start()]] * len(replacement))
        elif kind == "space" and characters and characters[-1] != " ":
            characters.append(" ")
            kept_offsets.append(offsets[markup.start()])
    keep(position, len(raw))

    text = "".join(characters).rstrip()
    return PlainText(text, kept_offsets[: len(text)])


def _join_wrapped_lines(paragraph: str) -> list[str]:
    r"""Split a paragraph into lines, but keep lines together that are one wrapped sentence.

    Example:
        ``Ada was born\nin 1900.\nShe sang.`` → ``Ada was born\nin 1900.`` and ``She sang.``
    """
    lines = paragraph.split("\n")
    width = min(max(map(len, lines)), _WIDEST_WRAPPED)
    groups = [[lines[0]]]
    for line, next_line in pairwise(lines):
        if next_line and _is_wrapped(line, next_line, width):
            groups[-1].append(next_line)
        else:
            groups.append([next_line])
    return ["\n".join(group) for group in groups]


def _is_prose(content: str) -> bool:
    """Tell whether a block that is indented like code is a paragraph of sentences."""
    lines = content.strip().splitlines()
    if not lines or not _PROSE_START.match(lines[0]) or not _SENTENCE_END.search(lines[-1]):
        return False
    return not _CODE_SIGNS.search(content)


def _is_wrapped(line: str, next_line: str, width: int) -> bool:
    """Tell whether a line was wrapped, so that its sentence goes on in the next line.

    Args:
        line: The line.
        next_line: The next line of the same paragraph.
        width: The length of the longest line of the paragraph.
    """
    # Two spaces or a backslash at the end of a line are a line break in Markdown.
    if line.endswith(("  ", "\\")) or _SENTENCE_END.search(line[-20:]):
        return False
    if next_line[:1].islower():
        return True
    if not _LEAST_WRAPPED <= len(line) <= _WIDEST_WRAPPED:
        return False
    # Programs wrap a line where the next word would make it too long.
    next_word = next_line.split(maxsplit=1)[0] if next_line.strip() else ""
    return len(f"{line} {next_word}") > width


def _emphasis_of(raw: str) -> Literal["", "start", "all"]:
    """Tell whether a block begins with bold text, or has no other text."""
    if _ONLY_BOLD.fullmatch(raw):
        return "all"
    return "start" if _BOLD_START.match(raw) else ""
