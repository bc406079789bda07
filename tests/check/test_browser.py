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
from tests.check.checked import BRIDGE, FERRY, WRONG_YEAR, answer_of, bridge_result, claim_of
from tests.report.conftest import (
    HOSTILE,
    open_page_at,
    requested_urls,
    reset_screen,
    save_downloads_to,
    set_up_screen,
)
from tests.report.test_browser import FIND_LOW_CONTRAST_TEXTS

CONTRADICTED = ".claim.contradicted[role]"
"""Selects the claims that the judge found contradicted."""

PHONE = 375
"""The width of a phone's screen in pixels."""

SCREEN_HEIGHT = 800

# The keys of the page. The digits correct the claim whose evidence is shown.
SET_SUPPORTED = "1"
SET_CONTRADICTED = "2"
SET_UNSCORED = "4"
NEXT_CLAIM = "j"
SHOW_CONTRADICTED = "c"
SHOW_NOT_FOUND = "n"
SHOW_ALL = "a"
CHANGE_ORDER = "o"
SEARCH = "/"


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that opens the page of a check, without corrections of earlier visits."""
    pages = iter(range(10))

    def write_and_open(result, width=1300, scheme="light"):
        page = tmp_path / f"page{next(pages)}.html"
        write_page(result, page, title=HOSTILE, note=HOSTILE)
        set_up_screen(browser, width, SCREEN_HEIGHT, scheme)
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
def bridge_page(open_page):
    """Return the browser at the page of `bridge_result`, which has three answers.

    In the order of the check, they are one that is all supported, one with a claim of each verdict,
    and a refusal.
    """
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


def rectangle_on_screen(browser, selector):
    """Return the edges of the first such element, in pixels from the screen's upper left corner."""
    script = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    return browser.execute_script(script, selector)


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


def test_a_click_on_a_claim_shows_its_reason_and_evidence_beside_the_text(bridge_page):
    """A reader compares claim and passage without scrolling."""
    find(bridge_page, CONTRADICTED).click()

    panel = text_of(bridge_page, "#evidence")
    assert panel.startswith("✕ Contradicted Claim 1 of 4")
    assert "reason for contradicted" in panel
    assert text_of(bridge_page, ".source.decides figcaption") == "Harrow Bridge docs/bridge.md"
    assert find(bridge_page, "#evidence").rect["x"] > find(bridge_page, CONTRADICTED).rect["x"]


def test_the_deciding_words_are_marked_after_an_emoji(bridge_page):
    """JavaScript counts an emoji as two characters, and Python as one."""
    find(bridge_page, CONTRADICTED).click()

    assert content_of(bridge_page, "#evidence mark") == "1871"
    sentence = "".join(
        part.get_attribute("textContent")
        for part in bridge_page.find_elements(By.CSS_SELECTOR, "#evidence .deciding")
    )
    assert sentence.endswith("Harrow Bridge opened in 1871.")


def test_other_passages_are_named_by_their_document_if_they_have_no_title(bridge_page):
    """The passage about the ferry has no title, and without a name readers could not look it up."""
    find(bridge_page, CONTRADICTED).click()

    find(bridge_page, "details.others summary").click()

    assert text_of(bridge_page, ".others figcaption") == "docs/ferry.md"


def test_passage_found_for_another_claim_is_not_called_nearest(open_page):
    """The claim has two passages, of ``docs/bridge.md`` and ``docs/ferry.md``.

    The first one has no score for this claim, since it was found for another claim.
    """
    claim = ("Harrow Bridge is grey.", "not_found")
    answer = answer_of("mixed", claim, evidence=(BRIDGE, FERRY), scores=(None, 1.25))

    page = open_page(CheckResult((answer,)))
    find(page, ".claim.not_found[role]").click()

    assert text_of(page, "#evidence figcaption") == "docs/ferry.md"


def test_enter_leads_to_the_evidence_and_escape_back_to_the_claim(bridge_page):
    """The page can be used without a mouse."""
    bridge_page.execute_script("document.querySelector('.claim.not_found[role]').focus()")

    press(bridge_page, Keys.ENTER)
    assert bridge_page.switch_to.active_element.get_attribute("id") == "evidence"
    assert text_of(bridge_page, "#evidence h2") == "? Not found"

    press(bridge_page, Keys.ESCAPE)
    assert "not_found" in bridge_page.switch_to.active_element.get_attribute("class")


@pytest.mark.parametrize(
    ("keys", "claim"),
    [
        pytest.param("j", "It has four arches.", id="j goes to the next claim"),
        pytest.param("jjjj", "The ferry was sold in 1872.", id="j goes on in the next answer"),
        pytest.param("jjjjk", "It is nice.", id="k goes back"),
    ],
)
def test_the_keys_j_and_k_go_from_claim_to_claim(bridge_page, keys, claim):
    """A reader can go through all claims without a mouse, also from one answer to the next.

    The first answer on the page has four claims, and the contradicted one is the first of them.
    """
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, *keys)

    assert text_of(bridge_page, "#evidence .claim-text") == claim


def test_a_chosen_claim_is_shown_with_its_number_in_the_answer(bridge_page):
    """A reader sees how much of an answer is left to check."""
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, NEXT_CLAIM)

    assert text_of(bridge_page, "#evidence .verdict-title") == "✓ Supported Claim 2 of 4"


def test_verdicts_differ_by_more_than_colour(bridge_page):
    """Some readers see no difference between red and green."""
    claim = find(bridge_page, CONTRADICTED)

    sign = "return getComputedStyle(arguments[0], '::after').content"
    assert claim.get_attribute("title") == "Contradicted"
    assert claim.get_attribute("aria-label").startswith("Contradicted: Harrow Bridge")
    assert claim.value_of_css_property("text-decoration-style") == "wavy"
    assert "✕" in bridge_page.execute_script(sign, claim)


def test_claims_with_the_same_words_can_each_be_chosen(open_page):
    """Two facts may stand in the same words of an answer; a list leads from one to the other.

    Here two claims stand in the first 18 characters. The page shows the contradicted one first.
    """
    answer = answer_of("twice", ("The bridge opened.", "supported"))
    same_words = claim_of("twice", "It was opened.", 0, "contradicted", end=18)
    page = open_page(CheckResult((replace_claims(answer, *answer.claims, same_words),)))
    assert text_of(page, "#evidence h2") == "✕ Contradicted"

    find(page, ".siblings summary").click()
    find(page, ".sibling").click()

    assert text_of(page, "#evidence h2") == "✓ Supported"


def replace_claims(answer, *claims):
    """Return an answer with other claims."""
    return type(answer)(answer.id, answer.question, answer.text, claims)


def test_unlocated_claim_is_listed_below_the_answer(open_page):
    """A judge may word a claim so that it is not found in the answer, and its verdict still counts.

    The answer has 4 characters, and the claim is said to begin at the 90th.
    """
    answer = answer_of("a", ("One.", "supported"))
    unplaced = claim_of("a", "A row of a table.", 90, "not_found")

    page = open_page(CheckResult((replace_claims(answer, *answer.claims, unplaced),)))

    assert "A row of a table." in text_of(page, ".unplaced")


# ---- filters, search and order ----


def test_the_key_c_shows_only_answers_with_a_contradicted_claim(bridge_page):
    """Of the three answers only the second, number 1, has one. Its other claims fade."""
    press(bridge_page, SHOW_CONTRADICTED)

    filter_button = find(bridge_page, "[data-filter-by=contradicted]")
    supported_claim = find(bridge_page, ".claim.supported[role]")
    assert shown_answers(bridge_page) == [1]
    assert text_of(bridge_page, "#count") == "1 of 3 answers"
    assert filter_button.get_attribute("aria-pressed") == "true"
    assert "faded" in supported_claim.get_attribute("class")


def test_the_key_a_shows_all_answers_again(bridge_page):
    """A reader leaves any filter with one key."""
    press(bridge_page, SHOW_CONTRADICTED)

    press(bridge_page, SHOW_ALL)

    assert len(shown_answers(bridge_page)) == 3


def test_active_filters_are_combined(bridge_page):
    """The second answer has a contradicted claim, and the third is a refusal."""
    find(bridge_page, "[data-filter-by=contradicted]").click()
    find(bridge_page, "[data-filter-by=refusal]").click()

    assert shown_answers(bridge_page) == [1, 2]


def test_the_key_j_skips_claims_that_a_filter_hides(bridge_page):
    """Only one claim was not found, the third of its answer."""
    press(bridge_page, SHOW_NOT_FOUND, NEXT_CLAIM)

    assert text_of(bridge_page, "#evidence .claim-text") == "Its architect was Swiss."


def test_answers_are_searched(bridge_page):
    """A search takes words in any order and case.

    Only the first answer, number 0, has both words.
    """
    press(bridge_page, SEARCH)
    press(bridge_page, "FERRY 1872")

    assert shown_answers(bridge_page) == [0]


def test_empty_search_result_is_announced(bridge_page):
    """An empty page would look broken."""
    find(bridge_page, "#search").send_keys("zeppelin")

    assert "No answer passes" in text_of(bridge_page, "#answers")


def test_most_contradicted_answers_come_first_by_default(bridge_page):
    """A reader looks for mistakes first."""
    assert shown_answers(bridge_page) == [1, 0, 2]

    press(bridge_page, CHANGE_ORDER)

    assert shown_answers(bridge_page) == [0, 1, 2]


# ---- corrections ----


def test_a_correction_is_saved_and_read_back(bridge_page, tmp_path):
    """What the page writes the command must read, with quotation marks and line breaks."""
    find(bridge_page, CONTRADICTED).click()
    find(bridge_page, "[data-verdict=not_found]").click()
    find(bridge_page, "#note").send_keys('says "1871",\nnot more')

    save_as(bridge_page, "Ana")

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
    claim = "عام 1871."
    answer = answer_of("emoji 👍🏽", ("👨‍👩‍👧 𝔄lpha.", "supported"), (claim, "contradicted"))
    page = open_page(CheckResult((answer,)))
    find(page, CONTRADICTED).click()
    press(page, SET_SUPPORTED)

    save_as(page, "Ana")

    (correction,) = read_corrections(saved_file(tmp_path))
    assert correction.answer == answer.id
    assert correction.claim == claim
    assert answer.text[correction.start : correction.end] == claim


def test_hostile_texts_are_saved_as_they_are(open_page, tmp_path):
    """`HOSTILE` holds tags, quotation marks and line separators, as id and as claim."""
    page = open_page(CheckResult((answer_of(HOSTILE, (HOSTILE, "contradicted")),)))
    find(page, CONTRADICTED).click()
    press(page, SET_CONTRADICTED)

    save_as(page, "Ana")

    (correction,) = read_corrections(saved_file(tmp_path))
    assert correction.answer == HOSTILE
    assert correction.claim == HOSTILE


def test_saving_corrections_requires_a_name(bridge_page):
    """The name tells corrections of several people apart."""
    find(bridge_page, CONTRADICTED).click()
    press(bridge_page, SET_SUPPORTED)

    save_as(bridge_page, " ")

    assert "name or initials" in text_of(bridge_page, "#problem")


def test_a_correction_marks_its_claim_and_can_be_saved(bridge_page):
    """A person sees what they have changed, and how many changes the file will hold."""
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, SET_SUPPORTED)

    assert text_of(bridge_page, "#save") == "Save 1 correction"
    assert "corrected" in find(bridge_page, ".claim.selected").get_attribute("class")


def test_same_key_removes_a_correction(bridge_page):
    """A slip of the finger must leave no trace in the saved file."""
    find(bridge_page, CONTRADICTED).click()
    press(bridge_page, SET_SUPPORTED)

    press(bridge_page, SET_SUPPORTED)

    assert not find(bridge_page, "#save").is_displayed()
    assert "corrected" not in find(bridge_page, CONTRADICTED).get_attribute("class")


def test_a_correction_counts_in_the_figures_at_once(bridge_page):
    """Two of the four scored claims of all answers were supported, and now three are."""
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, SET_SUPPORTED)

    assert text_of(bridge_page, ".figure.supported").startswith(
        "Supported 75.0% 3 of 4 scored claims"
    )
    assert text_of(bridge_page, ".figure.contradicted") == "Contradicted 0 claims"
    assert "As judged, 50.0% are supported" in text_of(bridge_page, "#as-judged")


def test_the_evidence_of_a_corrected_claim_shows_both_verdicts(bridge_page):
    """The person's verdict counts, and the judge's stays visible."""
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, SET_SUPPORTED)

    assert text_of(bridge_page, "#evidence h2") == "✓ Supported"
    assert text_of(bridge_page, "#said") == "Corrected by you. The judge said: Contradicted."


def test_removed_correction_restores_the_figures(bridge_page):
    """The figures follow the verdicts that count now, so no trace of the correction is left."""
    figures_as_judged = text_of(bridge_page, "#headline")
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, SET_SUPPORTED, SET_SUPPORTED)

    assert text_of(bridge_page, "#headline") == figures_as_judged


def test_corrections_from_the_command_are_shown_with_their_author(open_page):
    """A reader sees whose verdict counts.

    Ana says that the year is right, so 3 of 4 claims, 75%, are supported.
    """
    result = apply_corrections(bridge_result(), [WRONG_YEAR])

    browser = open_page(result)
    find(browser, ".claim.corrected[role]").click()

    assert text_of(browser, ".figure.supported").startswith("Supported 75.0% 95% interval")
    assert text_of(browser, "#said") == "Corrected by Ana. The judge said: Contradicted."
    assert find(browser, "#note").get_attribute("value") == "a typing error"


def test_loaded_file_reports_corrections_without_a_claim(bridge_page, tmp_path):
    """People pass files of corrections on, also to readers of a newer answer."""
    path = tmp_path / "saved.jsonl"
    of_no_claim = replace(WRONG_YEAR, claim="Nobody says this.")
    path.write_text(
        "\n".join(json.dumps(vars(correction)) for correction in (WRONG_YEAR, of_no_claim))
    )

    find(bridge_page, "#file").send_keys(str(path))
    WebDriverWait(bridge_page, 5).until(lambda browser: text_of(browser, "#loaded"))

    assert text_of(bridge_page, "#loaded") == (
        "saved.jsonl: 1 correction loaded. 1 belong to no claim on this page: “Nobody says this.”"
        " (mixed)."
    )
    assert text_of(bridge_page, ".figure.contradicted") == "Contradicted 0 claims"


def test_unrelated_file_is_not_loaded(bridge_page, tmp_path):
    """People choose the wrong file at times. The page says so and leaves the verdicts alone."""
    path = tmp_path / "notes.jsonl"
    path.write_text("answer,claim\n1,2\n")

    find(bridge_page, "#file").send_keys(str(path))
    WebDriverWait(bridge_page, 5).until(lambda browser: text_of(browser, "#loaded"))

    assert "no file of corrections" in text_of(bridge_page, "#loaded")
    assert not find(bridge_page, "#save").is_displayed()


def test_a_reload_keeps_corrections(bridge_page):
    """A person's work must not be lost with a closed window."""
    find(bridge_page, CONTRADICTED).click()
    press(bridge_page, SET_UNSCORED)

    def reloads_with_correction(browser):
        """Reload; the browser stores the correction in its own time."""
        browser.refresh()
        return text_of(browser, "#save") == "Save 1 correction"

    WebDriverWait(bridge_page, 10).until(reloads_with_correction)

    find(bridge_page, ".claim.corrected[role]").click()
    assert find(bridge_page, "[data-verdict=unscored]").get_attribute("aria-pressed") == "true"


# ---- screens ----


@pytest.fixture(
    params=[(PHONE, "dark"), (PHONE, "light"), (1300, "dark"), (1300, "light")], ids=str
)
def screen(request):
    """Return the width of a screen in pixels and its colour scheme."""
    return request.param


def check_layout(browser, max_width):
    """Check that the page fits the width and that its texts stand out from what is behind them."""
    assert width_of(browser) <= max_width
    assert browser.execute_script(FIND_LOW_CONTRAST_TEXTS) == []


def test_the_page_fits_the_screen_and_is_legible(open_page, screen):
    """Nobody should have to scroll sideways, even where an answer has a word of 5,000 letters.

    It also holds while a reader goes from claim to claim, corrects one and filters them.
    """
    width, scheme = screen
    long_word = answer_of(
        HOSTILE, ("x" * 5000, "contradicted"), (HOSTILE, "not_found"), question="y" * 500
    )

    page = open_page(bridge_result(long_word), width, scheme)

    check_layout(page, width)
    for key in (NEXT_CLAIM, NEXT_CLAIM, SET_SUPPORTED, SHOW_CONTRADICTED, NEXT_CLAIM):
        press(page, key)
        check_layout(page, width)


def test_on_a_phone_the_evidence_is_below_the_claim(open_page):
    """There is no room beside the text, so the page scrolls until the claim is above the evidence."""
    page = open_page(bridge_result(), PHONE)

    find(page, CONTRADICTED).click()

    def is_claim_above_evidence(browser):
        claim = rectangle_on_screen(browser, CONTRADICTED)
        evidence = rectangle_on_screen(browser, "#evidence")
        is_claim_visible = claim["top"] >= 0 and claim["bottom"] <= evidence["top"]
        return is_claim_visible and round(evidence["bottom"]) <= SCREEN_HEIGHT

    WebDriverWait(page, 5).until(is_claim_above_evidence)


def test_on_a_phone_the_evidence_is_hidden_until_a_claim_is_chosen(open_page):
    """The answers need the whole screen while nobody looks at evidence."""
    page = open_page(bridge_result(), PHONE)

    assert not find(page, "#evidence").is_displayed()


def test_on_a_phone_the_evidence_can_be_closed(open_page):
    """Then the answers have the whole screen again."""
    page = open_page(bridge_result(), PHONE)
    find(page, CONTRADICTED).click()

    find(page, "#close").click()

    assert not find(page, "#evidence").is_displayed()


def test_the_page_has_no_errors(bridge_page):
    """An error in its script would stop the page silently, for instance after a correction."""
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, SET_SUPPORTED, SHOW_CONTRADICTED, CHANGE_ORDER, NEXT_CLAIM)

    errors = [entry for entry in bridge_page.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


def test_page_makes_no_network_requests(bridge_page):
    """The answers may be confidential, so all that the page loads comes from its own file."""
    find(bridge_page, CONTRADICTED).click()

    press(bridge_page, SET_SUPPORTED, SHOW_CONTRADICTED, CHANGE_ORDER, NEXT_CLAIM)

    urls = requested_urls(bridge_page)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)


def test_buttons_and_fields_have_names(bridge_page):
    """A screen reader says the name: a label, an ``aria-label`` or the text of the button."""
    find(bridge_page, CONTRADICTED).click()
    press(bridge_page, SET_SUPPORTED)

    nameless_controls = bridge_page.execute_script("""
        const controls = document.querySelectorAll("button, input, textarea, [role=button]");
        const hasName = (control) => control.getAttribute("aria-label")
            || control.textContent.trim() || control.labels?.length;
        return [...controls].filter((control) => !hasName(control)).map((control) => control.outerHTML);
    """)

    assert nameless_controls == []


def test_ids_are_unique(bridge_page):
    """Links and labels name an element by its id, and would lead to the wrong one."""
    find(bridge_page, CONTRADICTED).click()
    press(bridge_page, SET_SUPPORTED)

    ids = bridge_page.execute_script(
        "return [...document.querySelectorAll('[id]')].map((e) => e.id)"
    )

    assert len(ids) == len(set(ids))


# ---- texts ----


@pytest.mark.parametrize(
    "sentence", [HOSTILE, "عام 1871 <b>x</b>", "👨‍👩‍👧‍👦 🇩🇪 e\u0301", "| a | b |\n|---|---|\n\t1"]
)
def test_text_is_shown_unchanged(open_page, sentence):
    """Answers come from models and may hold tags, scripts, joined emoji or tables.

    No part of an answer may be run or changed.
    """
    answer = answer_of(
        sentence, (sentence, "contradicted"), (sentence, "supported"), question=sentence
    )

    page = open_page(CheckResult((answer,)))

    assert content_of(page, ".answer .text") == answer.text
    assert content_of(page, ".answer h2") == sentence
    # The texts became no elements, and their script, which would set the title, did not run.
    assert not page.find_elements(By.CSS_SELECTOR, "main img, main b:not(.figures b), iframe")
    assert page.title != "taken"


# ---- many and long answers ----


@pytest.fixture
def long_answer_page(open_page):
    """Return the browser at the page of one answer of a megabyte, whose last claim is wrong."""
    sentences = [(f"Sentence {number} is right.", "supported") for number in range(40_000)]
    answer = answer_of("long", *sentences, ("The end.", "contradicted"))
    return open_page(CheckResult((answer,)))


def test_long_answer_is_collapsed_until_expanded(long_answer_page):
    """A browser takes long to draw 40,000 claims, so at first it draws some 3,000 characters."""
    assert len(content_of(long_answer_page, ".answer .text")) < 5000


def test_a_long_answer_is_shown_in_numbered_parts(long_answer_page):
    """The button under the cut text leads to the first part."""
    find(long_answer_page, ".more button").click()

    assert text_of(long_answer_page, ".more").startswith("Next part Part 1 of ")


def test_a_claim_in_a_later_part_of_a_long_answer_can_be_chosen(long_answer_page):
    """The part with the claim is drawn when the keys lead there."""
    press(long_answer_page, SHOW_CONTRADICTED, NEXT_CLAIM)

    assert content_of(long_answer_page, ".answer .text").endswith("The end.")
    assert long_answer_page.switch_to.active_element.text == "The end."


def test_the_parts_of_a_long_answer_together_are_the_answer(open_page):
    """No character is lost or doubled where parts meet, even within an emoji."""
    answer = answer_of("long", ("🌉" * 25_000, "contradicted"), ("Ü ber " * 4000, "supported"))
    page = open_page(CheckResult((answer,)))
    find(page, ".more button").click()

    parts = [content_of(page, ".answer .text")]
    while next_part := next_part_button(page):
        next_part.click()
        parts.append(content_of(page, ".answer .text"))

    assert "".join(parts) == answer.text


def next_part_button(browser):
    """Return the button that leads to the next part of an answer, or None at the last part."""
    for button in browser.find_elements(By.CSS_SELECTOR, ".more button"):
        if button.text == "Next part":
            return button
    return None


@pytest.fixture
def many_answers_page(open_page):
    """Return the browser at the page of 1,001 answers, of which only the last has a mistake."""
    answers = [answer_of(f"a{number}", ("One.", "supported")) for number in range(1000)]
    return open_page(CheckResult((*answers, answer_of("last", ("Two.", "contradicted")))))


def test_only_the_first_of_a_thousand_answers_are_drawn(many_answers_page):
    """A page that draws all at once opens slowly.

    The answer with a mistake, number 1000, comes first.
    """
    assert text_of(many_answers_page, "#count") == "1,001 answers"
    assert shown_answers(many_answers_page)[0] == 1000
    assert len(shown_answers(many_answers_page)) < 200


def test_more_answers_are_drawn_on_demand(many_answers_page):
    """Fifty answers are drawn at a time."""
    num_drawn_at_first = len(shown_answers(many_answers_page))

    many_answers_page.execute_script("document.querySelector('#more').click()")

    assert len(shown_answers(many_answers_page)) > num_drawn_at_first
