"""The page of a check in headless Chromium: evidence, filters, corrections, phone and keyboard."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from lm_factuality.check.corrections import Correction, apply_corrections, read_corrections
from lm_factuality.check.page import write_page
from lm_factuality.check.results import CheckResult
from tests.check.checked import WRONG_YEAR, answer_of, bridge_result, claim_of
from tests.report.conftest import (
    HOSTILE,
    open_page_at,
    requested_urls,
    reset_screen,
    save_downloads_to,
    set_up_screen,
)
from tests.report.test_browser import CONTRAST

CONTRADICTED = ".claim.contradicted[role]"
PHONE = 375


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that opens the page of a check, without corrections of earlier visits."""
    pages = iter(range(10))

    def write_and_open(result, width=1300, scheme="light"):
        page = tmp_path / f"page{next(pages)}.html"
        write_page(result, page, title=HOSTILE, note=HOSTILE)
        set_up_screen(browser, width, 800, scheme)
        save_downloads_to(browser, tmp_path)
        open_page_at(browser, page.as_uri())
        WebDriverWait(browser, 10).until(opens_without_corrections)
        return browser

    yield write_and_open
    reset_screen(browser)


def opens_without_corrections(browser):
    """Clear what the browser stores, in its own time, and return whether the page opens so."""
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    stored = "return Object.values(localStorage).some((kept) => kept.includes('verdict'))"
    return not browser.execute_script(stored)


@pytest.fixture
def opened(open_page):
    """Return the browser at the page of `bridge_result`."""
    return open_page(bridge_result())


def find(browser, selector):
    """Return the first element that a selector finds."""
    return browser.find_element(By.CSS_SELECTOR, selector)


def text_of(browser, selector):
    """Return the text that the first such element shows."""
    return " ".join(find(browser, selector).text.split())


def content_of(browser, selector):
    """Return the text of the first such element as it is in the document."""
    return find(browser, selector).get_attribute("textContent")


def press(browser, *keys):
    """Press keys where the focus is."""
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def shown_answers(browser):
    """Return the numbers of the answers on the page, in order."""
    answers = browser.find_elements(By.CSS_SELECTOR, ".answer")
    return [int(answer.get_attribute("id").removeprefix("answer-")) for answer in answers]


def width_of(browser):
    """Return the width that the page needs."""
    return browser.execute_script("return document.documentElement.scrollWidth")


def saved_file(tmp_path):
    """Wait for the file of corrections, and return its path."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for path in tmp_path.glob("corrections-*.jsonl"):
            # The browser makes the file before it has written the lines.
            if path.read_text(encoding="utf-8").endswith("\n"):
                return path
        time.sleep(0.05)
    raise AssertionError("no file came")


def save_as(browser, person):
    """Save the corrections under a name."""
    find(browser, "#save").click()
    find(browser, "#person").send_keys(person)
    find(browser, "#download").click()


# ---- evidence ----


def test_a_click_on_a_claim_shows_its_reason_and_evidence_beside_the_text(opened):
    """A reader compares claim and passage without scrolling."""
    find(opened, CONTRADICTED).click()

    panel = text_of(opened, "#evidence")
    assert panel.startswith("✕ Contradicted Claim 1 of 4")
    assert "reason for contradicted" in panel
    assert text_of(opened, ".source.decides figcaption") == "Harrow Bridge docs/bridge.md"
    assert find(opened, "#evidence").rect["x"] > find(opened, CONTRADICTED).rect["x"]


def test_the_deciding_words_are_marked_after_an_emoji(opened):
    """JavaScript counts an emoji as two characters, and Python as one."""
    find(opened, CONTRADICTED).click()

    assert content_of(opened, "#evidence mark") == "1871"
    sentence = "".join(
        part.get_attribute("textContent")
        for part in opened.find_elements(By.CSS_SELECTOR, "#evidence .deciding")
    )
    assert sentence.endswith("Harrow Bridge opened in 1871.")


def test_other_passages_are_named_by_their_document_if_they_have_no_title(opened):
    find(opened, CONTRADICTED).click()

    find(opened, "details.others summary").click()

    assert text_of(opened, ".others figcaption") == "docs/ferry.md"


def test_a_passage_that_was_found_for_another_claim_is_not_the_nearest(open_page):
    claim = ("Harrow Bridge is grey.", "not_found")
    answer = answer_of("mixed", claim, scores=(None, 1.25))

    opened = open_page(CheckResult((answer,)))
    find(opened, ".claim.not_found[role]").click()

    assert text_of(opened, "#evidence figcaption") == "docs/ferry.md"


def test_enter_leads_to_the_evidence_and_escape_back_to_the_claim(opened):
    """The page can be used without a mouse."""
    opened.execute_script("document.querySelector('.claim.not_found[role]').focus()")

    press(opened, Keys.ENTER)
    assert opened.switch_to.active_element.get_attribute("id") == "evidence"
    assert text_of(opened, "#evidence h2") == "? Not found"

    press(opened, Keys.ESCAPE)
    assert "not_found" in opened.switch_to.active_element.get_attribute("class")


def test_the_keys_j_and_k_go_from_claim_to_claim(opened):
    find(opened, CONTRADICTED).click()

    press(opened, "j")
    assert text_of(opened, "#evidence .verdict-title") == "✓ Supported Claim 2 of 4"

    press(opened, "j", "j", "j")  # the last goes to the next answer
    assert text_of(opened, "#evidence .claim-text") == "The ferry was sold in 1872."

    press(opened, "k")
    assert text_of(opened, "#evidence .verdict-title") == "– Unscored Claim 4 of 4"


def test_a_verdict_is_told_by_name_line_and_sign_besides_its_colour(opened):
    """Some readers see no difference between red and green."""
    claim = find(opened, CONTRADICTED)

    sign = "return getComputedStyle(arguments[0], '::after').content"
    assert claim.get_attribute("title") == "Contradicted"
    assert claim.get_attribute("aria-label").startswith("Contradicted: Harrow Bridge")
    assert claim.value_of_css_property("text-decoration-style") == "wavy"
    assert "✕" in opened.execute_script(sign, claim)


def test_every_claim_of_the_same_words_can_be_chosen(open_page):
    """Two facts may stand in the same words of an answer."""
    answer = answer_of("twice", ("The bridge opened.", "supported"))
    again = claim_of("twice", "It was opened.", 0, "contradicted", end=18)
    browser = open_page(CheckResult((replace_claims(answer, *answer.claims, again),)))
    assert text_of(browser, "#evidence h2") == "✕ Contradicted"  # the worst comes first

    find(browser, ".siblings summary").click()
    find(browser, ".sibling").click()

    assert text_of(browser, "#evidence h2") == "✓ Supported"


def replace_claims(answer, *claims):
    """Return an answer with other claims."""
    return type(answer)(answer.id, answer.question, answer.text, claims)


def test_a_claim_without_a_place_in_the_text_is_listed_below_it(open_page):
    answer = answer_of("a", ("One.", "supported"))
    lost = claim_of("a", "A row of a table.", 90, "not_found")

    browser = open_page(CheckResult((replace_claims(answer, *answer.claims, lost),)))

    assert "A row of a table." in text_of(browser, ".unplaced")


# ---- filters, search and order ----


def test_verdicts_are_filtered_by_keyboard(opened):
    press(find(opened, "body").parent, "c")

    assert shown_answers(opened) == [1]
    assert text_of(opened, "#count") == "1 of 3 answers"
    assert find(opened, "[data-filter-by=contradicted]").get_attribute("aria-pressed") == "true"
    assert "faded" in find(opened, ".claim.supported[role]").get_attribute("class")

    press(opened, "a")
    assert len(shown_answers(opened)) == 3


def test_filters_add_up(opened):
    """The second answer has a contradicted claim, and the third is a refusal."""
    find(opened, "[data-filter-by=contradicted]").click()
    find(opened, "[data-filter-by=refusal]").click()

    assert shown_answers(opened) == [1, 2]


def test_the_keys_j_and_k_keep_to_the_filter(opened):
    press(opened, "n", "j")

    assert text_of(opened, "#evidence .claim-text") == "Its architect was Swiss."


def test_answers_are_searched(opened):
    press(opened, "/")
    press(opened, "FERRY 1872")

    assert shown_answers(opened) == [0]


def test_a_search_without_result_says_so(opened):
    find(opened, "#search").send_keys("zeppelin")

    assert "No answer passes" in text_of(opened, "#answers")


def test_the_most_contradicted_answers_come_first_until_the_order_is_changed(opened):
    """A reader looks for mistakes first."""
    assert shown_answers(opened) == [1, 0, 2]

    press(opened, "o")

    assert shown_answers(opened) == [0, 1, 2]


# ---- corrections ----


def test_a_correction_is_saved_and_read_back(opened, tmp_path):
    """What the page writes the command must read, with quotation marks and line breaks."""
    find(opened, CONTRADICTED).click()
    find(opened, "[data-verdict=not_found]").click()
    find(opened, "#note").send_keys('says "1871",\nnot more')

    save_as(opened, "Ana")

    (correction,) = read_corrections(saved_file(tmp_path))
    assert correction == Correction(
        answer="mixed",
        start=0,
        end=29,
        claim="Harrow Bridge opened in 1875.",
        verdict="not_found",
        person="Ana",
        note='says "1871",\nnot more',
    )


def test_offsets_of_a_correction_count_characters_as_python_does(open_page, tmp_path):
    """JavaScript counts some characters twice, and the claim would be cut elsewhere."""
    answer = answer_of("emoji 👍🏽", ("👨‍👩‍👧 𝔄lpha.", "supported"), ("عام 1871.", "contradicted"))
    browser = open_page(CheckResult((answer,)))
    find(browser, CONTRADICTED).click()
    press(browser, "1")

    save_as(browser, "Ana")

    (correction,) = read_corrections(saved_file(tmp_path))
    assert correction.answer == answer.id
    assert answer.text[correction.start : correction.end] == "عام 1871." == correction.claim


def test_hostile_texts_are_saved_as_they_are(open_page, tmp_path):
    browser = open_page(CheckResult((answer_of(HOSTILE, (HOSTILE, "contradicted")),)))
    find(browser, CONTRADICTED).click()
    press(browser, "2")

    save_as(browser, "Ana")

    (correction,) = read_corrections(saved_file(tmp_path))
    assert (correction.answer, correction.claim) == (HOSTILE, HOSTILE)


def test_a_name_is_asked_for(opened):
    """Corrections of several people are told apart by it."""
    find(opened, CONTRADICTED).click()
    press(opened, "1")

    save_as(opened, " ")

    assert "name or initials" in text_of(opened, "#problem")


def test_the_same_key_takes_a_correction_back(opened):
    find(opened, CONTRADICTED).click()

    press(opened, "1")
    assert text_of(opened, "#save") == "Save 1 correction"
    assert "corrected" in find(opened, ".claim.selected").get_attribute("class")

    press(opened, "1")
    assert not find(opened, "#save").is_displayed()
    assert "corrected" not in find(opened, CONTRADICTED).get_attribute("class")


def test_a_correction_counts_in_the_figures_at_once(opened):
    """Two of four claims were supported, and now three are."""
    find(opened, CONTRADICTED).click()

    press(opened, "1")

    assert text_of(opened, ".figure.supported").startswith("Supported 75.0% 3 of 4 scored claims")
    assert text_of(opened, ".figure.contradicted") == "Contradicted 0 claims"
    assert text_of(opened, "#evidence h2") == "✓ Supported"
    assert text_of(opened, "#said") == "Corrected by you. The judge said: Contradicted."
    assert "As judged, 50.0% are supported" in text_of(opened, "#as-judged")


def test_a_correction_that_is_taken_back_restores_the_figures(opened):
    before = text_of(opened, "#headline")
    find(opened, CONTRADICTED).click()

    press(opened, "1", "1")

    assert text_of(opened, "#headline") == before


def test_corrections_that_the_command_counted_are_shown_with_their_person(open_page):
    result = apply_corrections(bridge_result(), [WRONG_YEAR])

    browser = open_page(result)
    find(browser, ".claim.corrected[role]").click()

    assert text_of(browser, ".figure.supported").startswith("Supported 75.0% 95% interval")
    assert text_of(browser, "#said") == "Corrected by Ana. The judge said: Contradicted."
    assert find(browser, "#note").get_attribute("value") == "a typing error"


def test_a_saved_file_can_be_loaded_and_names_what_belongs_to_no_claim(opened, tmp_path):
    """People pass such files on, also to those who check a newer answer."""
    path = tmp_path / "saved.jsonl"
    unknown = replace(WRONG_YEAR, claim="Nobody says this.")
    path.write_text("\n".join(json.dumps(vars(line)) for line in (WRONG_YEAR, unknown)))

    find(opened, "#file").send_keys(str(path))

    WebDriverWait(opened, 5).until(lambda browser: text_of(browser, "#loaded"))
    assert text_of(opened, "#loaded") == (
        "saved.jsonl: 1 correction loaded. 1 belong to no claim on this page: “Nobody says this.”"
        " (mixed)."
    )
    assert text_of(opened, ".figure.contradicted") == "Contradicted 0 claims"


def test_a_file_of_something_else_is_not_loaded(opened, tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("answer,claim\n1,2\n")

    find(opened, "#file").send_keys(str(path))

    WebDriverWait(opened, 5).until(lambda browser: text_of(browser, "#loaded"))
    assert "no file of corrections" in text_of(opened, "#loaded")
    assert not find(opened, "#save").is_displayed()


def test_a_reload_keeps_corrections(opened):
    """A person's work must not be lost with a closed window."""
    find(opened, CONTRADICTED).click()
    press(opened, "4")

    def reloads_with_correction(browser):
        """Reload; the browser stores the correction in its own time."""
        browser.refresh()
        return text_of(browser, "#save") == "Save 1 correction"

    WebDriverWait(opened, 10).until(reloads_with_correction)
    find(opened, ".claim.corrected[role]").click()
    assert find(opened, "[data-verdict=unscored]").get_attribute("aria-pressed") == "true"


# ---- screens ----


@pytest.fixture(
    params=[(PHONE, "dark"), (PHONE, "light"), (1300, "dark"), (1300, "light")], ids=str
)
def screen(request):
    """Return the width of a screen and its colour scheme."""
    return request.param


def test_the_page_fits_the_screen_and_is_legible(open_page, screen):
    long_word = answer_of(
        HOSTILE, ("x" * 5000, "contradicted"), (HOSTILE, "not_found"), question="y" * 500
    )
    browser = open_page(bridge_result(long_word), *screen)

    assert width_of(browser) <= screen[0]
    assert browser.execute_script(CONTRAST) == []

    for key in ("j", "j", "1", "c", "j"):
        press(browser, key)
        assert width_of(browser) <= screen[0]
        assert browser.execute_script(CONTRAST) == []


def test_on_a_phone_the_evidence_is_below_the_claim(open_page):
    browser = open_page(bridge_result(), PHONE)
    assert not find(browser, "#evidence").is_displayed()

    find(browser, CONTRADICTED).click()

    def is_below(browser):
        """Tell whether the claim has been scrolled to above the evidence."""
        script = "return document.querySelector(arguments[0]).getBoundingClientRect()"
        claim = browser.execute_script(script, CONTRADICTED)
        panel = browser.execute_script(script, "#evidence")
        return claim["top"] >= 0 and claim["bottom"] <= panel["top"] and panel["bottom"] <= 801

    WebDriverWait(browser, 5).until(is_below)
    find(browser, "#close").click()
    assert not find(browser, "#evidence").is_displayed()


def test_the_page_has_no_errors_and_asks_nothing_of_the_network(opened):
    find(opened, CONTRADICTED).click()
    press(opened, "1", "c", "o", "j")

    assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []
    urls = requested_urls(opened)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)


def test_buttons_and_fields_have_names_and_ids_are_unique(opened):
    find(opened, CONTRADICTED).click()
    press(opened, "1")

    nameless = """
        const controls = document.querySelectorAll("button, input, textarea, [role=button]");
        return [...controls].filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length)).map((each) => each.outerHTML);
    """
    ids = opened.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert opened.execute_script(nameless) == []
    assert len(ids) == len(set(ids))


# ---- texts ----


@pytest.mark.parametrize(
    "sentence", [HOSTILE, "عام 1871 <b>x</b>", "👨‍👩‍👧‍👦 🇩🇪 e\u0301", "| a | b |\n|---|---|\n\t1"]
)
def test_a_text_is_shown_as_it_was_written(open_page, sentence):
    answer = answer_of(
        sentence, (sentence, "contradicted"), (sentence, "supported"), question=sentence
    )

    browser = open_page(CheckResult((answer,)))

    assert content_of(browser, ".answer .text") == answer.text
    assert content_of(browser, ".answer h2") == sentence
    assert not browser.find_elements(By.CSS_SELECTOR, "main img, main b:not(.figures b), iframe")
    assert browser.title != "taken"


# ---- many and long answers ----


def test_an_answer_of_a_megabyte_is_shown_in_parts(open_page):
    sentences = [(f"Sentence {number} is right.", "supported") for number in range(40_000)]
    browser = open_page(CheckResult((answer_of("long", *sentences, ("The end.", "contradicted")),)))
    assert len(content_of(browser, ".answer .text")) < 5000

    find(browser, ".more button").click()
    assert text_of(browser, ".more").startswith("Next part Part 1 of ")

    press(browser, "c", "j")
    assert content_of(browser, ".answer .text").endswith("The end.")
    assert browser.switch_to.active_element.text == "The end."


def test_the_parts_of_a_long_answer_together_are_the_answer(open_page):
    answer = answer_of("long", ("🌉" * 25_000, "contradicted"), ("Ü ber " * 4000, "supported"))
    browser = open_page(CheckResult((answer,)))
    find(browser, ".more button").click()

    parts = [content_of(browser, ".answer .text")]
    while buttons := [
        button
        for button in browser.find_elements(By.CSS_SELECTOR, ".more button")
        if button.text == "Next part"
    ]:
        buttons[0].click()
        parts.append(content_of(browser, ".answer .text"))

    assert "".join(parts) == answer.text


def test_of_a_thousand_answers_only_the_first_are_drawn_until_the_reader_goes_on(open_page):
    answers = [answer_of(f"a{number}", ("One.", "supported")) for number in range(1000)]
    browser = open_page(CheckResult((*answers, answer_of("last", ("Two.", "contradicted")))))
    assert text_of(browser, "#count") == "1,001 answers"
    assert shown_answers(browser)[0] == 1000
    assert len(shown_answers(browser)) < 200

    browser.execute_script("document.querySelector('#more').click()")

    assert len(shown_answers(browser)) > 30
