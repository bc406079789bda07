"""The tables by which the pages run name nothing that is not there, and pages show no kind of code
that is not tried."""

from __future__ import annotations

import pytest

from lm_factuality import api
from tests.docs.blocks import PAGES, blocks_of
from tests.docs.standins import EVERYWHERE, FILES, IN_PAGE, NOT_RUN, SHOWN, WHOLE
from tests.docs.test_pages import BETWEEN, FAST, LANGUAGES

BLOCKS = {page: blocks_of(page) for page in PAGES}


def code_of(page: str) -> str:
    """Return the commands and the code of a page."""
    return "\n".join("\n".join(block.commands) for block in BLOCKS[page]) + "\n".join(
        block.text for block in BLOCKS[page]
    )


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_known_languages(page):
    """A block of another language would be run and loaded by nothing, and nobody would notice."""
    assert {block.language for block in BLOCKS[page]} <= LANGUAGES


@pytest.mark.parametrize(("old", "new"), EVERYWHERE)
def test_global_replacements_occur_on_some_page(old, new):
    """A replacement whose text stands on no page any more is a leftover."""
    assert any(old in code_of(page) for page in PAGES)


@pytest.mark.parametrize(
    ("page", "old"), [(page, old) for page, pairs in IN_PAGE.items() for old, _ in pairs]
)
def test_page_replacements_occur_on_their_page(page, old):
    """A replacement whose text has left its page is a leftover."""
    assert old in code_of(page)


@pytest.mark.parametrize(("page", "start", "reason"), NOT_RUN)
def test_skipped_commands_occur_on_their_page_and_have_a_reason(page, start, reason):
    """A command that left the page must also leave the list of commands that are not run."""
    commands_on_page = [command for block in BLOCKS[page] for command in block.commands]

    assert any(command.replace('"', "").startswith(start) for command in commands_on_page)
    assert reason


def test_listed_pages_exist():
    """The tables name pages by their path. An entry for a renamed page would do nothing."""
    pages_with_steps_between = {page for page, _ in BETWEEN}
    listed_pages = {*FILES, *SHOWN, *WHOLE, *FAST, *pages_with_steps_between}

    assert listed_pages <= PAGES.keys()


@pytest.mark.parametrize(("page", "block_numbers"), SHOWN.items())
def test_blocks_that_show_output_have_no_code(page, block_numbers):
    """Output is in blocks without a language, or of the language "text"."""
    languages = {BLOCKS[page][number].language for number in block_numbers}

    assert languages <= {"", "text"}


@pytest.mark.parametrize("page", PAGES)
def test_every_data_block_has_a_loader(page):
    """Each page lists as many files as it has blocks of YAML and JSON, so that none is skipped."""
    blocks_of_data = [block for block in BLOCKS[page] if block.language in ("yaml", "json")]

    assert len(FILES.get(page, ())) == len(blocks_of_data)


def test_the_page_on_python_names_all_that_the_api_exports():
    """A function that no page names would be found only in the source."""
    page = PAGES["docs/python.md"].read_text(encoding="utf-8")

    missing_names = [
        name for name in api.__all__ if f"api.{name}" not in page and f"`{name}`" not in page
    ]

    assert missing_names == []
