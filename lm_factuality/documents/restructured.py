"""The text of reStructuredText files, parsed by docutils.

`reader` calls `read_restructured`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.documents.document import FileText, UnreadableError, need_library, read_text
from lm_factuality.documents.markdown import table_blocks
from lm_factuality.ground.packages import replaced

if TYPE_CHECKING:
    from docutils import nodes

_ROLE = re.compile(r":([a-zA-Z][\w:+.-]{0,60}):`|`:([a-zA-Z][\w:+.-]{0,60}):")
_DIRECTIVE = re.compile(
    r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([a-zA-Z][\w:+.-]*)::", re.MULTILINE
)
# The text of a link, before its target: ``setup <guide/setup>``.
_LABEL_AND_TARGET = re.compile(r"(.*\S)\s*<[^<>]*>", re.DOTALL)
_OPTION = re.compile(r"^:[\w-]+:.*$", re.MULTILINE)
_SETTINGS = {
    # A document must not include other files of this machine.
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    # Problems of markup stay in the text. They are neither printed nor errors.
    "report_level": 5,
    "halt_level": 5,
    # By default a text with a long line is refused.
    "line_length_limit": 1 << 30,
    # The parser would leave out smart quotes and the like of other languages.
    "language_code": "en",
}
_MAX_SUBSTITUTED_LENGTH = 100_000  # characters that stand in the place of substitutions
_MIN_SUBSTITUTED_LENGTH = 10  # characters that each of them counts as
# docutils raises errors of many types at markup that it does not expect.
_DOCUTILS_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def read_restructured(path: Path) -> FileText:
    """Read the title and the text of a reStructuredText file.

    Raises:
        UnreadableError: The file is no text, docutils is missing, or cannot parse the file.
    """
    need_library("docutils", "reStructuredText")
    return parse_restructured(read_text(path))


def parse_restructured(source: str) -> FileText:
    """Return the title, which is the first heading, and the text of reStructuredText.

    Roles and directives that docutils does not know, such as those of Sphinx, keep their text.

    Raises:
        UnreadableError: docutils cannot parse the text.
    """
    from docutils import ApplicationError, nodes
    from docutils.core import publish_doctree

    _register_unknown_names(source)
    # docutils copies the definition of ``|name|`` at each use. Definitions may use each other, so
    # a short text could stand for a text of any length, which this function refuses.
    copy_definition = _make_limited_copier()
    try:
        with replaced(nodes.substitution_definition, deepcopy=copy_definition):
            tree = publish_doctree(source, settings_overrides=_SETTINGS)
        blocks = list(_blocks_of(tree))
    except (ApplicationError, *_DOCUTILS_ERRORS) as error:
        raise UnreadableError(
            f"docutils cannot parse it: {type(error).__name__}: {error}"
        ) from error
    heading = next(tree.findall(nodes.title), None)
    title = heading.astext() if heading is not None else ""
    return FileText(title, "\n\n".join(blocks))


def _make_limited_copier() -> Callable[["nodes.Element"], "nodes.Element"]:
    """Return a function that copies a definition such as ``.. |name| replace:: text``.

    The function raises UnreadableError once all its copies together are too long.
    """
    from docutils import nodes

    num_characters = 0

    def copy(definition: nodes.Element) -> nodes.Element:
        nonlocal num_characters
        # The text includes definitions that were already copied into this one.
        num_characters += _MIN_SUBSTITUTED_LENGTH + len(definition.astext())
        if num_characters > _MAX_SUBSTITUTED_LENGTH:
            raise UnreadableError(
                f"its substitutions make more than {_MAX_SUBSTITUTED_LENGTH:,} characters;"
                " write them out"
            )
        return nodes.Element.deepcopy(definition)

    return copy


def _register_unknown_names(source: str) -> None:
    """Register the unknown roles and directives of a text, so that docutils keeps their text.

    docutils would otherwise drop them and report an error. After the registration, it reads
    ``:doc:`setup``` as ``setup``.
    """
    from docutils.parsers.rst import directives, roles
    from docutils.parsers.rst.languages import en

    for match in _ROLE.finditer(source):
        name = (match[1] or match[2]).lower()
        is_known = name in en.roles or name in roles._roles or name in roles._role_registry
        if not is_known:
            roles.register_local_role(name, _keep_text_of_role)
    for name in map(str.lower, _DIRECTIVE.findall(source)):
        if name not in en.directives and name not in directives._directives:
            directives.register_directive(name, _directive_that_keeps_text())


def _keep_text_of_role(
    name: str, rawtext: str, text: str, *arguments: Any, **options: Any
) -> tuple[list[Any], list[Any]]:
    """Return the text of a role for docutils: ``setup`` of ``:doc:`setup <guide/setup>```.

    Args:
        name: The role.
        rawtext: The whole markup.
        text: The text between the grave accents.
        *arguments: Other arguments of docutils.
        **options: Other arguments of docutils.

    Returns:
        The nodes for the text, and no messages.
    """
    from docutils import nodes, utils

    plain = utils.unescape(text)
    match = _LABEL_AND_TARGET.fullmatch(plain)
    return [nodes.inline(rawtext, match[1] if match else plain)], []


def _directive_that_keeps_text() -> type:
    """Return the class of a directive that becomes its argument and its content."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class TextDirective(Directive):  # type: ignore[misc]
        """A directive that docutils does not know."""

        has_content = True
        optional_arguments = 1
        final_argument_whitespace = True

        def run(self) -> list[Any]:
            """Return a container with the argument and the content of the directive.

            The argument may include options, which are lines such as ``:depth: 2``. They are cut
            out.
            """
            container = nodes.container()
            argument = _OPTION.sub("", "\n".join(self.arguments)).strip()
            if argument:
                container += nodes.paragraph(argument, argument)
            self.state.nested_parse(self.content, self.content_offset, container)
            return [container]

    return TextDirective


def _blocks_of(parent: "nodes.Node") -> Iterator[str]:
    """Yield the texts of the blocks in a node of docutils, such as a section, in order."""
    from docutils import nodes

    invisible = (
        nodes.comment,
        nodes.system_message,
        nodes.substitution_definition,
        nodes.target,
        nodes.raw,
    )
    for node in parent.children:
        if isinstance(node, invisible):
            continue
        match node:
            case nodes.table():
                yield from _texts_of_table(node)
            case nodes.field():
                name, body = node.children
                yield f"{name.astext()}: {' '.join(body.astext().split())}"
            case nodes.FixedTextElement():
                # Code and the like keep their line breaks.
                yield node.astext()
            case nodes.TextElement():
                text = node.astext().replace("\n", " ")
                if text.strip():
                    yield text
            case nodes.image():
                if node.get("alt"):
                    yield node["alt"]
            case _:
                yield from _blocks_of(node)


def _texts_of_table(table: "nodes.table") -> Iterator[str]:
    """Yield the rows of a table, with the header beside every cell."""
    from docutils import nodes

    for caption in table.findall(nodes.title):
        yield caption.astext()
    rows = []
    for row in table.findall(nodes.row):
        rows.append([" ".join(entry.astext().split()) for entry in row.children])
    # `table_blocks` takes the first row for the header, which some tables lack.
    has_header = any(table.findall(nodes.thead))
    yield from table_blocks(rows if has_header else [[], *rows])
