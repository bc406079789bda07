"""The leaderboard in a browser, from a file: it sorts, filters and is searched, and asks the
network for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.leaderboard.site.build import write_site
from tests.leaderboard.site.conftest import board_of, entry, refused, score
from tests.report.conftest import requested_urls

NUM_MODELS = 100
TASKS = ("wiki_factor", "news_factor", "expert_factor", "expert_factor_clean")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 models; the scores of the second task run against those of the first."""
    out = tmp_path_factory.mktemp("leaderboard")
    models = [
        entry(
            f"org-{number % 5}/model-{number:03d}",
            *(
                score(0.3 + sign * number / 200, task=task)
                for task, sign in zip(TASKS, (1, -1, 1, 1), strict=True)
            ),
            num_parameters=1e8 * 1.08**number,
            backend=("hf", "vllm")[number % 2],
            digest=f"{number:064x}",
        )
        for number in range(NUM_MODELS)
    ]
    write_site(board_of([*models, refused("x", ("LIMIT_RUN", "run it whole"))]), out, "Board")
    return out


@pytest.fixture
def page(browser: Any, site: Path) -> Iterator[Any]:
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get((site / "index.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []
    urls = requested_urls(browser)
    assert urls
    assert all(url.startswith(("file://", "data:")) for url in urls)


def shown(page: Any) -> list[str]:
    rows: list[str] = page.execute_script(
        "return [...document.querySelectorAll('#models tbody tr')].filter((row) => !row.hidden).map((row) => row.querySelector('a').textContent)"
    )
    return rows


def test_sorts_with_the_mouse_and_the_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    assert shown(page)[0] == "org-4/model-099"
    heading = page.find_elements("css selector", "#models thead th")[3]
    heading.find_element("tag name", "button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert shown(page)[0] == "org-0/model-000"
    heading.find_element("tag name", "button").send_keys(Keys.ENTER)
    assert heading.get_attribute("aria-sort") == "ascending"
    assert shown(page)[0] == "org-4/model-099"


def test_a_model_leads_to_its_page_and_back(page: Any) -> None:
    page.find_element("link text", "org-4/model-099").click()
    assert page.find_element("tag name", "h1").text == "org-4/model-099"
    page.find_element("link text", "Refused (1)").click()
    assert "LIMIT_RUN" in page.find_element("tag name", "main").text


def test_fits_a_phone(page: Any) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= 375
        page.find_element("css selector", "#models tbody a").click()
        assert page.execute_script("return document.documentElement.scrollWidth") <= 375
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
