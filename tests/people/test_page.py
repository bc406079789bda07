"""The page of a sheet in headless Chromium: keyboard, phone, reload and exports."""

from __future__ import annotations

import csv
import time
from itertools import cycle

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from lm_factuality.people.labels import read_key, read_labels
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.report.conftest import (
    HOSTILE,
    open_page_at,
    requested_urls,
    reset_screen,
    save_downloads_to,
    set_up_screen,
)
from tests.report.test_browser import FIND_LOW_CONTRAST_TEXTS

ANSWERS_BY_KEY = {
    "1": "factual",
    "2": "knowledge",
    "3": "reasoning",
    "4": "irrelevant",
    "5": "fooled",
    "6": "untyped",
    "s": "skip",
}
FACTUAL = "1"
KNOWLEDGE = "2"
IRRELEVANT = "4"
FOOLED = "5"
UNTYPED = "6"
UNDO = "u"
MENU = "m"  # the first screen, where people give their name and export their answers
NOTE = "n"
PREVIOUS_ITEM = Keys.ARROW_LEFT
NEXT_ITEM = Keys.ARROW_RIGHT
DOWNLOADS = "downloads"


@pytest.fixture
def page(runs, tmp_path):
    """Return the page of a sheet about six answers, with some items repeated."""
    sheet = make_sheet(read_pool([runs], "gen"), rows=6, repeat=0.2, seed=5)
    path, *_ = write_sheet(sheet, tmp_path / "sheet.html")
    return path


@pytest.fixture
def key(page):
    """Return the key of the page's sheet."""
    return read_key(page.with_suffix(".key.json"))


@pytest.fixture
def visit(browser, tmp_path):
    """Return a function that opens a page without the answers of earlier visits.

    Downloads go to a folder of the test.
    """
    downloads = tmp_path / DOWNLOADS
    downloads.mkdir()

    def visit_page(page, width=1200, scheme="light"):
        set_up_screen(browser, width, 800, scheme)
        save_downloads_to(browser, downloads)
        open_page_at(browser, page.as_uri())
        WebDriverWait(browser, 10).until(lambda browser: opens_without_answers(browser, page))
        return browser

    yield visit_page
    reset_screen(browser)


def opens_without_answers(browser, page):
    """Clear the stored answers, and return whether the page opens without them.

    The browser clears them in its own time.
    """
    browser.execute_script("localStorage.clear()")
    browser.get(page.as_uri())
    return browser.execute_script(
        "return Object.values(localStorage).every((kept) => !kept.includes('answer'))"
    )


def reloads_with_answers(browser):
    """Reload the page, and return whether it offers to continue.

    The browser stores the answers in its own time.
    """
    browser.refresh()
    return browser.find_element(By.TAG_NAME, "h1").text == "To be continued"


def start_as(browser, person):
    """Type a person's name on the first screen, and start with the items."""
    field = browser.find_element(By.ID, "person")
    field.clear()
    field.send_keys(person, Keys.ENTER)


def press(browser, *keys):
    """Press keys one after another."""
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def item_number(browser):
    """Return the number of the item that is shown."""
    return int(browser.find_element(By.ID, "count").text.split()[1])


def chosen_answers(browser):
    """Return the answers that are shown as chosen: one or none."""
    options = browser.find_elements(By.CSS_SELECTOR, '.option[aria-pressed="true"]')
    return [option.get_attribute("data-value") for option in options]


def download(browser, tmp_path, suffix):
    """Press the button that exports a file of this suffix, and return the file.

    The browser makes an empty file first, and puts the whole one in its place.
    """
    browser.find_element(By.ID, suffix).click()
    end = time.monotonic() + 10
    while True:
        for path in (tmp_path / DOWNLOADS).glob(f"*.{suffix}"):
            if path.stat().st_size:
                return path
        assert time.monotonic() < end, f"no {suffix} file came"
        time.sleep(0.05)


def test_the_page_asks_for_a_name_first(visit, page):
    """Labels without a name could not be compared with those of others."""
    browser = visit(page)

    start_as(browser, " ")

    assert "name or initials first" in browser.find_element(By.ID, "said").text


def test_all_items_are_answered_by_keyboard_and_exported(visit, page, key, tmp_path):
    """Labelling hundreds of items with a mouse takes much longer."""
    browser = visit(page)
    start_as(browser, 'Ana "A", b')

    given_answers = []
    for item, pressed_key in zip(key.items, cycle(ANSWERS_BY_KEY)):
        assert item_number(browser) == item.number
        press(browser, pressed_key)
        given_answers.append(ANSWERS_BY_KEY[pressed_key])

    assert "All answered" in browser.find_element(By.TAG_NAME, "h1").text
    progress_bar = browser.find_element(By.CSS_SELECTOR, "[role=progressbar]")
    assert progress_bar.get_attribute("aria-valuenow") == str(len(key.items))
    labels = read_labels([download(browser, tmp_path, "csv")], key)
    assert labels.people == ('Ana "A", b',)
    for item, answer in zip(key.items, given_answers, strict=True):
        assert answer in labels.answers[item.repeat_of or item.number].values()
    assert read_labels([download(browser, tmp_path, "jsonl")], key) == labels


def test_an_answer_is_shown_when_going_back(visit, page):
    """A person can check what they said."""
    browser = visit(page)
    start_as(browser, "Ana")

    press(browser, FACTUAL, KNOWLEDGE, PREVIOUS_ITEM)

    assert item_number(browser) == 2
    assert chosen_answers(browser) == ["knowledge"]


@pytest.mark.parametrize(("num_undone", "shown_item"), [(1, 2), (2, 1)])
def test_answers_are_undone_last_first(visit, page, num_undone, shown_item):
    """A slip of a finger must not become a label. The item is shown without its answer."""
    browser = visit(page)
    start_as(browser, "Ana")
    press(browser, FACTUAL, KNOWLEDGE, PREVIOUS_ITEM)

    press(browser, *[UNDO] * num_undone)

    assert item_number(browser) == shown_item
    assert chosen_answers(browser) == []


def test_ineffective_keys_leave_the_first_item_shown(visit, page):
    """The only answer is undone already, "x" is no answer, and no item precedes the first."""
    browser = visit(page)
    start_as(browser, "Ana")
    press(browser, FACTUAL, UNDO)

    press(browser, UNDO, "x", PREVIOUS_ITEM)

    assert item_number(browser) == 1


def test_an_undone_answer_is_not_exported(visit, page, key, tmp_path):
    browser = visit(page)
    start_as(browser, "Ana")

    press(browser, FACTUAL, UNDO, FOOLED, MENU)

    exported = download(browser, tmp_path, "csv")
    assert read_labels([exported], key).answers == {1: {"Ana": "fooled"}}


def test_items_can_be_skipped_until_later(visit, page, key, tmp_path):
    """A person may leave hard items for later, and export the others."""
    browser = visit(page)
    start_as(browser, "Ana")

    press(browser, FOOLED)  # item 1
    press(browser, NEXT_ITEM, NEXT_ITEM, UNTYPED)  # items 2 and 3 are skipped, 4 is answered
    press(browser, *[PREVIOUS_ITEM] * 4)  # from item 5 back to item 1

    assert item_number(browser) == 1
    assert chosen_answers(browser) == ["fooled"]
    press(browser, MENU)
    exported = download(browser, tmp_path, "csv")
    assert read_labels([exported], key).answers == {1: {"Ana": "fooled"}, 4: {"Ana": "untyped"}}


def test_a_note_is_exported_with_its_answer(visit, page, tmp_path):
    """The note has quotes, a line break and a formula, which CSV files may break on."""
    note = 'an "odd", 5\n=1'
    browser = visit(page)
    start_as(browser, "Ana")

    press(browser, NOTE, note, Keys.ESCAPE, FOOLED)

    assert item_number(browser) == 2  # the key of "fooled" was no part of the note
    press(browser, UNTYPED, MENU)  # an answer without a note
    with download(browser, tmp_path, "csv").open(encoding="utf-8", newline="") as file:
        assert [row["note"] for row in csv.DictReader(file)] == [note, ""]


def test_a_reload_keeps_answers(visit, page):
    """A browser may close at any time, and labels cost hours."""
    browser = visit(page)
    start_as(browser, "Ana")
    press(browser, FACTUAL, KNOWLEDGE)

    WebDriverWait(browser, 10).until(reloads_with_answers)

    assert browser.find_element(By.ID, "person").get_attribute("value") == "Ana"
    browser.find_element(By.ID, "go").click()
    assert item_number(browser) == 3


def test_answers_of_two_people_are_kept_apart(visit, page):
    """Two people may use one computer, one after the other."""
    browser = visit(page)

    start_as(browser, "Ana")
    press(browser, FACTUAL, KNOWLEDGE, MENU)
    start_as(browser, "constructor")  # a property of every JavaScript object
    first_item_of_other_person = item_number(browser)
    press(browser, IRRELEVANT, MENU)
    start_as(browser, "Ana")
    next_item_of_ana = item_number(browser)
    press(browser, PREVIOUS_ITEM)
    last_answer_of_ana = chosen_answers(browser)

    assert first_item_of_other_person == 1
    assert next_item_of_ana == 3
    assert last_answer_of_ana == ["knowledge"]


@pytest.fixture(params=[(375, "dark"), (1300, "light")], ids=["phone, dark", "desktop, light"])
def screen(request):
    """Return the width of a screen and its colour scheme."""
    return request.param


@pytest.fixture(params=["gen", "bio", "felm"])
def task(request):
    """Return the name of a task with hostile texts."""
    return request.param


@pytest.fixture
def started(visit, runs, task, screen, tmp_path):
    """Return the browser at the first item of a sheet about hostile texts."""
    sheet = make_sheet(read_pool([runs], task), rows=2)
    page, *_ = write_sheet(sheet, tmp_path / "sheet.html")
    browser = visit(page, *screen)
    assert browser.execute_script(FIND_LOW_CONTRAST_TEXTS) == []
    start_as(browser, "Ana")
    return browser


def test_items_are_legible_and_fit_the_screen(started, screen):
    """People label on phones, too."""
    width, _ = screen

    for _ in range(3):
        assert started.execute_script(FIND_LOW_CONTRAST_TEXTS) == []
        assert started.execute_script("return document.documentElement.scrollWidth") <= width
        press(started, NEXT_ITEM)


def test_hostile_texts_are_shown_as_text(started, task):
    """Models may write HTML, which must not run on the page."""
    for _ in range(3):
        press(started, NEXT_ITEM)

    assert started.title.startswith("Sheet ")
    assert not started.find_elements(By.CSS_SELECTOR, "main img, iframe, main script")
    if task == "gen":
        text = started.find_element(By.TAG_NAME, "main").get_attribute("textContent")
        assert HOSTILE in text


def test_page_makes_no_network_requests(started):
    """Texts may be confidential, and a page must work without a network."""
    for _ in range(3):
        press(started, NEXT_ITEM)

    # The browser logs a request that fails as a severe error.
    assert [entry for entry in started.get_log("browser") if entry["level"] == "SEVERE"] == []
    urls = requested_urls(started)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)
