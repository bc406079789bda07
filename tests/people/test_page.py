"""The page of a sheet in headless Chromium: by keyboard, on a phone, after a reload, and what it
hands in."""

from __future__ import annotations

import csv
import json
import time

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from lm_factuality.people.labels import read_key, read_labels
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.report.conftest import HOSTILE
from tests.report.test_browser import CONTRAST

WORDS = {
    "1": "factual",
    "2": "knowledge",
    "3": "reasoning",
    "4": "irrelevant",
    "5": "fooled",
    "6": "untyped",
    "s": "skip",
}


@pytest.fixture
def place(runs, tmp_path):
    """The sheet's page."""
    (page, *_) = write_sheet(
        make_sheet(read_pool([runs], "gen"), 6, repeat=0.2, seed=5), tmp_path / "sheet.html"
    )
    return page


@pytest.fixture
def visit(browser, tmp_path):
    """Opens a page as on a first visit; downloads go to the test's own folder."""
    tmp_path.joinpath("got").mkdir()

    def go(page, width=1200, height=800, scheme="light", is_first=True):
        wide = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", wide)
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        browser.execute_cdp_cmd(
            "Browser.setDownloadBehavior",
            {"behavior": "allow", "downloadPath": str(tmp_path / "got")},
        )
        browser.get_log("performance"), browser.get_log("browser")
        browser.get(page.as_uri())
        if is_first:
            WebDriverWait(browser, 10).until(lambda driver: is_emptied(driver, page))
        return browser

    yield go
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def is_emptied(browser, page):
    """Whether the page opens without the answers of another test once they are cleared, which the
    browser does in its own time."""
    browser.execute_script("localStorage.clear()")
    browser.get(page.as_uri())
    return browser.execute_script(
        "return Object.values(localStorage).every((kept) => !kept.includes('answer'))"
    )


def begin(browser, person="Ana"):
    browser.find_element(By.ID, "person").clear()
    browser.find_element(By.ID, "person").send_keys(person, Keys.ENTER)


def press(browser, *keys):
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def item_of(browser):
    return int(browser.find_element(By.ID, "count").text.split()[1])


def chosen(browser):
    return [
        node.get_attribute("data-value")
        for node in browser.find_elements(By.CSS_SELECTOR, '.option[aria-pressed="true"]')
    ]


def downloaded(browser, tmp_path, which):
    browser.find_element(By.ID, which).click()
    end = time.monotonic() + 10
    while not (found := list((tmp_path / "got").glob(f"*.{which}"))):
        assert time.monotonic() < end, f"no {which} came"
        time.sleep(0.05)
    return found[0]


def test_by_keyboard_from_the_name_to_both_exports(visit, place, tmp_path):
    browser, key = visit(place), read_key(tmp_path / "sheet.key.json")
    begin(browser, " ")
    assert "name or initials first" in browser.find_element(By.ID, "said").text
    begin(browser, 'Ana "A", b')
    said = []
    for number, entry in enumerate(key.items, start=1):
        assert item_of(browser) == entry.number == number
        press(browser, list(WORDS)[number % 7])
        said.append(WORDS[list(WORDS)[number % 7]])
    assert "All answered" in browser.find_element(By.TAG_NAME, "h1").text
    assert browser.find_element(By.CSS_SELECTOR, "[role=progressbar]").get_attribute(
        "aria-valuenow"
    ) == str(len(key.items))
    labels = read_labels([downloaded(browser, tmp_path, "csv")], key)
    assert labels.people == ('Ana "A", b',)
    for entry, answer in zip(key.items, said, strict=True):
        assert answer in labels.answers[entry.repeat_of or entry.number].values()
    exported = json.loads(downloaded(browser, tmp_path, "json").read_text(encoding="utf-8"))
    assert [line["answer"] for line in exported] == said


def test_back_on_undo_and_notes(visit, place, tmp_path):
    browser, key = visit(place), read_key(tmp_path / "sheet.key.json")
    begin(browser)
    press(browser, "1", "2", Keys.ARROW_LEFT)
    assert (item_of(browser), chosen(browser)) == (2, ["knowledge"])
    press(browser, "u")
    assert (item_of(browser), chosen(browser)) == (2, [])
    press(browser, "u")
    assert (item_of(browser), chosen(browser)) == (1, [])
    press(browser, "u", "x", Keys.ARROW_LEFT)
    assert item_of(browser) == 1
    press(browser, "n", 'an "odd", 5\n=1', Keys.ESCAPE)
    press(browser, "5")
    assert item_of(browser) == 2
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, "6")
    press(browser, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert (item_of(browser), chosen(browser)) == (1, ["fooled"])
    press(browser, "m")
    exported = downloaded(browser, tmp_path, "csv")
    labels = read_labels([exported], key)
    assert labels.answers == {1: {"Ana": "fooled"}, 4: {"Ana": "untyped"}}
    with exported.open(encoding="utf-8", newline="") as file:
        assert [row["note"] for row in csv.DictReader(file)] == ['an "odd", 5\n=1', ""]


def test_a_reload_keeps_progress_and_two_people_do_not_mix(visit, place):
    browser = visit(place)
    begin(browser)
    press(browser, "1", "2")
    browser = visit(place, is_first=False)
    assert browser.find_element(By.TAG_NAME, "h1").text == "To be continued"
    assert browser.find_element(By.ID, "person").get_attribute("value") == "Ana"
    browser.find_element(By.ID, "go").click()
    assert item_of(browser) == 3
    press(browser, "m")
    begin(browser, "constructor")  # what every object has
    assert item_of(browser) == 1
    press(browser, "4", "m")
    begin(browser, "Ana")
    assert item_of(browser) == 3
    press(browser, Keys.ARROW_LEFT)
    assert chosen(browser) == ["knowledge"]


@pytest.mark.parametrize("task", ["gen", "bio", "felm"])
def test_hostile_texts_are_shown_nothing_is_asked_of_the_network_and_all_can_be_read(
    visit, runs, tmp_path, task
):
    (page, *_) = write_sheet(make_sheet(read_pool([runs], task), 2), tmp_path / "sheet.html")
    for width, scheme in ((375, "dark"), (1300, "light")):
        browser = visit(page, width, 800, scheme)
        assert browser.execute_script(CONTRAST) == []
        begin(browser)
        for _ in range(3):
            assert browser.execute_script(CONTRAST) == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            press(browser, Keys.ARROW_RIGHT)
        assert browser.title.startswith("Sheet ")
        assert not browser.find_elements(By.CSS_SELECTOR, "main img, iframe, main script")
        shown = browser.find_element(By.TAG_NAME, "main").get_attribute("textContent")
        if task == "gen":
            assert HOSTILE in shown
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
        messages = [
            json.loads(entry["message"])["message"] for entry in browser.get_log("performance")
        ]
        urls = [
            each["params"]["request"]["url"]
            for each in messages
            if each["method"] == "Network.requestWillBeSent"
        ]
        assert urls
        assert all(url.startswith(("file:", "data:")) for url in urls)
