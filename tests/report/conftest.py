"""Judged biographies, and a browser that shows pages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.benchmarks.biographies.link import link_groups
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
    Judgement,
    RetrievedPassage,
)

HOSTILE = """</script><script>document.title="taken"</script><!-- <img src=x onerror="document.title='taken'"> " ' & \u2028 \u202e"""


def biography(
    index: str = "0",
    name: str = "Ada Lind",
    output: str = "Ada Lind was a baker [1]. She died in 1872 [2][3].",
    outcomes: tuple[tuple[str, ...], ...] = (
        ("supported", "not_supported"),
        ("not_supported", "supported"),
    ),
    groups: tuple[tuple[int, ...], ...] = ((0, 1),),
    reason: str = "a reason",
    evidence: str = "Lind, a baker, died in 1872.",
    **changes: Any,
) -> JudgedBiography:
    """Return a biography of two sentences, judged beside the pages of a baker and of a sailor.

    Args:
        index: The id of the response.
        name: The name of both people.
        output: The text of the response.
        outcomes: For each of the two facts, the judge's verdict beside each page.
        groups: The facts that the judge takes for one person. By default it takes both for one.
        reason: The judge's reason for every verdict.
        evidence: What both pages say.
        changes: Other fields of the judged biography.
    """
    titles = (f"{name} (baker)", f"{name} (sailor)")
    passages = tuple(RetrievedPassage(title, f"{title}: {evidence}") for title in titles)
    facts = (Fact(f"{name} was a baker.", 0), Fact("She died in 1872.", 1))
    matrix = tuple(
        tuple(
            Judgement(outcome, 0.5, reason, (f"{title}: {evidence}",))
            for outcome, title in zip(row, titles, strict=True)
        )
        for row in outcomes
    )
    fields: dict[str, Any] = {
        "generation": GeneratedText(index, f"Tell me a bio of {name}", name, output, passages),
        "sentences": ("Ada Lind was a baker.", "She died in 1872."),
        "facts": facts,
        "groups": groups,
        "entities": titles,
        "matrix": matrix,
        "links": link_groups(groups, titles, matrix),
    }
    return JudgedBiography(**(fields | changes))


def abstention(index: str, name: str) -> JudgedBiography:
    """Return a response that names no fact, since the model found nothing."""
    generation = GeneratedText(index, f"Tell me a bio of {name}", name, "I found nothing.", ())
    return JudgedBiography(generation, ("I found nothing.",), (), (), (), (), (), abstained=True)


@pytest.fixture(scope="module", autouse=True)
def of_few_rows() -> Iterator[None]:
    """Show scores of however few documents, since these tests have only a few.

    `test_few_rows` tests the number of documents that a score needs for users.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_factuality.benchmarks.chosen.MIN_CLUSTERS", 1)
        yield


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the folder for the results that a test writes."""
    return tmp_path / "runs"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the folder for the report that a test builds."""
    return tmp_path / "out"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a headless Chromium that logs its requests, or skip if there is none."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="needs selenium: pip install selenium"
    )
    from selenium.common.exceptions import WebDriverException

    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    binaries = [path for path in map(shutil.which, names) if path is not None]
    driver = shutil.which("chromedriver")
    if not binaries or driver is None:
        pytest.skip("needs Chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binaries[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    try:
        chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    except WebDriverException as error:  # such as a package that only asks for another packager's
        pytest.skip(f"{binaries[0]} does not start: {str(error).splitlines()[0]}")
    yield chromium
    chromium.quit()


def set_up_screen(browser: Any, width: int, height: int, scheme: str) -> None:
    """Give the browser a screen and an empty log.

    Args:
        browser: The browser. `reset_screen` takes the screen back.
        width: The width in pixels; less than 500 is a phone.
        height: The height in pixels.
        scheme: ``light`` or ``dark``.
    """
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    forget_log(browser)


def open_page_at(browser: Any, url: str) -> None:
    """Open a page, and return once the browser has read all of it.

    `get` alone may return while the browser still shows the page before, above all where that has
    the same address. So an empty page comes first.
    """
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")
    forget_log(browser)
    browser.get(url)
    WebDriverWait(browser, 30).until(lambda _: is_loaded(browser))


def follow_link(browser: Any, link: Any) -> None:
    """Click a link to another page, and return once the browser has read all of that page."""
    from selenium.webdriver.support.ui import WebDriverWait

    before = browser.current_url
    link.click()
    WebDriverWait(browser, 30).until(lambda _: browser.current_url != before)
    WebDriverWait(browser, 30).until(lambda _: is_loaded(browser))


def is_loaded(browser: Any) -> bool:
    """Return whether the browser shows a page of ours, and has read all of it."""
    loaded = "return location.href !== 'about:blank' && document.readyState === 'complete'"
    return bool(browser.execute_script(loaded))


def forget_log(browser: Any) -> None:
    """Forget what the browser has logged. Reading a log empties it."""
    browser.get_log("performance")
    browser.get_log("browser")


def reset_screen(browser: Any) -> None:
    """Give the browser its own screen again."""
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def save_downloads_to(browser: Any, folder: Path) -> None:
    """Let the browser save files to a folder."""
    download = {"behavior": "allow", "downloadPath": str(folder)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", download)


def requested_urls(browser: Any) -> list[str]:
    """Return the URL of every request that the browser has sent since its log was last read."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
