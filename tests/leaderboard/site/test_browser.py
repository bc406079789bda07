"""The leaderboard in a browser: it sorts, leads to models, fits a phone and loads nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.leaderboard.site.board import to_board
from lm_factuality.leaderboard.site.build import write_site
from tests.leaderboard.site.conftest import make_entry, make_score, refuse
from tests.report.conftest import follow_link, open_page_at, requested_urls

NUM_MODELS = 100
BEST_ON_FIRST_TASK = WORST_ON_SECOND_TASK = "org-4/model-099"
BEST_ON_SECOND_TASK = "org-0/model-000"
PHONE = {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": False}

MODELS_SHOWN = """
const rows = [...document.querySelectorAll('#models tbody tr')];
return rows.filter((row) => !row.hidden).map((row) => row.querySelector('a').textContent);
"""


def make_numbered_entry(number: int):
    """Make the submission of a model that is the better on three tasks, the higher its number is.

    On the second task it is the worse.
    """
    distance = number / 200
    return make_entry(
        f"org-{number % 5}/model-{number:03d}",
        make_score(0.3 + distance, task="wiki_factor"),
        make_score(0.3 - distance, task="news_factor"),
        make_score(0.3 + distance, task="expert_factor"),
        make_score(0.3 + distance, task="expert_factor_clean"),
        num_parameters=1e8 * 1.08**number,
        backend="hf" if number % 2 == 0 else "vllm",
        digest=f"{number:064x}",
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the site of 100 models and a refused submission, and return its folder."""
    folder = tmp_path_factory.mktemp("leaderboard")
    entries = [make_numbered_entry(number) for number in range(NUM_MODELS)]
    refused = refuse("x", ("LIMIT_RUN", "run it whole"))
    write_site(to_board([*entries, refused]), folder, "Board")
    return folder


@pytest.fixture
def page(browser: Any, site: Path) -> Iterator[Any]:
    """Open the site's first page, and assert afterwards that all it loaded are its own files."""
    open_page_at(browser, (site / "index.html").as_uri())

    yield browser

    assert browser.get_log("browser") == []
    urls = requested_urls(browser)
    assert urls
    for url in urls:
        assert url.startswith(("file://", "data:"))


def models_shown(page: Any) -> list[str]:
    """Return the models in the table that are not hidden, from the top."""
    return page.execute_script(MODELS_SHOWN)


def heading_of_second_task(page: Any) -> Any:
    """Return the heading of the fifth column, which has the scores of the second task."""
    return page.find_elements("css selector", "#models thead th")[4]


def page_width(page: Any) -> int:
    """Return the width of the page in pixels, including what one would have to scroll to."""
    return page.execute_script("return document.documentElement.scrollWidth")


def test_models_are_sorted_by_the_first_task(page):
    models = models_shown(page)
    assert len(models) == NUM_MODELS
    assert models[0] == BEST_ON_FIRST_TASK


def test_a_click_on_a_heading_sorts_by_its_task(page):
    """Screen readers read the order from ``aria-sort``."""
    heading = heading_of_second_task(page)

    heading.find_element("tag name", "button").click()

    assert heading.get_attribute("aria-sort") == "descending"
    assert models_shown(page)[0] == BEST_ON_SECOND_TASK


def test_the_return_key_on_a_heading_reverses_the_order(page):
    """A first click sorts from the highest score down, and the key then from the lowest up."""
    from selenium.webdriver.common.keys import Keys

    heading = heading_of_second_task(page)
    button = heading.find_element("tag name", "button")
    button.click()
    assert heading.get_attribute("aria-sort") == "descending"

    button.send_keys(Keys.ENTER)

    assert heading.get_attribute("aria-sort") == "ascending"
    assert models_shown(page)[0] == WORST_ON_SECOND_TASK


def test_the_name_of_a_model_leads_to_its_page(page):
    follow_link(page, page.find_element("link text", BEST_ON_FIRST_TASK))

    assert page.find_element("tag name", "h1").text == BEST_ON_FIRST_TASK


def test_the_page_of_a_model_leads_to_refused_submissions(page):
    """The page of a model lies in another folder than the page of refused submissions."""
    follow_link(page, page.find_element("link text", BEST_ON_FIRST_TASK))

    follow_link(page, page.find_element("link text", "Refused (1)"))

    assert "LIMIT_RUN" in page.find_element("tag name", "main").text


@pytest.fixture
def phone(page: Any) -> Iterator[Any]:
    """Show the page in the size of a phone's screen."""
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    yield page
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_table_fits_a_phone(phone):
    """The table may scroll sideways, but the page must not."""
    assert page_width(phone) <= PHONE["width"]


def test_the_page_of_a_model_fits_a_phone(phone):
    """Hashes are long words, which must be broken."""
    follow_link(phone, phone.find_element("css selector", "#models tbody a"))

    assert page_width(phone) <= PHONE["width"]
