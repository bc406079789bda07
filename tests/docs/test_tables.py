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
    return "\n".join("\n".join(block.commands) for block in BLOCKS[page]) + "\n".join(
        block.text for block in BLOCKS[page]
    )


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_known_languages(page):
    assert {block.language for block in BLOCKS[page]} <= LANGUAGES


@pytest.mark.parametrize(("old", "new"), EVERYWHERE)
def test_what_is_replaced_everywhere_stands_somewhere(old, new):
    assert any(old in code_of(page) for page in PAGES)


@pytest.mark.parametrize(
    ("page", "old"), [(page, old) for page, pairs in IN_PAGE.items() for old, _ in pairs]
)
def test_what_is_replaced_in_a_page_stands_there(page, old):
    assert old in code_of(page)


@pytest.mark.parametrize(("page", "start", "reason"), NOT_RUN)
def test_what_does_not_run_stands_in_its_page_and_has_a_reason(page, start, reason):
    commands = [command.replace('"', "") for block in BLOCKS[page] for command in block.commands]
    assert any(command.startswith(start) for command in commands)
    assert reason


def test_pages_and_blocks_of_the_tables_exist():
    assert {*FILES, *SHOWN, *WHOLE, *FAST, *(page for page, _ in BETWEEN)} <= PAGES.keys()
    for page, numbers in SHOWN.items():
        assert all(BLOCKS[page][number].language in ("", "text") for number in numbers)


def test_every_block_of_data_is_loaded_as_something():
    for page, blocks in BLOCKS.items():
        assert len(FILES.get(page, ())) == sum(
            block.language in ("yaml", "json") for block in blocks
        ), page


def test_the_page_on_python_names_all_that_the_api_exports():
    page = PAGES["docs/python.md"].read_text(encoding="utf-8")
    assert [
        name for name in api.__all__ if f"api.{name}" not in page and f"`{name}`" not in page
    ] == []
