"""The report in a real browser, from files."""

from __future__ import annotations

import time

import pytest

from lm_factuality.report.build import build_report
from tests.report.conftest import HOSTILE, open_page_at, requested_urls, reset_screen, set_up_screen
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results

PAGES = ("index.html", "factor.html", "felm.html", "ambigbio.html", "compare.html", "samples.html")
FIND_LOW_CONTRAST_TEXTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map();
const parse = (colour) => {
  if (!known.has(colour)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
  }
  return known.get(colour);
};
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
  for (let each = node; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (parse(colour)[3] === 255) return parse(colour);
  }
  return parse(getComputedStyle(document.documentElement).backgroundColor);
};
const low = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!own || !node.getClientRects().length || node.closest("button:disabled, .hidden-text, script, .skip")) continue;
  const style = getComputedStyle(node);
  const [front, back] = [light(parse(node instanceof SVGElement ? style.fill : style.color)), light(behind(node))];
  const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  if (ratio < 4.5) low.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${node.textContent.slice(0, 30)}`);
}
return low;
"""


ARROW_RIGHT = "\ue014"  # in WebDriver's encoding of keys
ARROW_DOWN = "\ue015"
NEXT_PAGE = ARROW_RIGHT
ROW_BEFORE = "k"
on_all_screens = pytest.mark.parametrize(
    ("width", "scheme"), [(375, "dark"), (1300, "dark"), (375, "light")]
)
FACTOR_SECTION = "#pairs section:nth-of-type(2)"

# The models of the report in its addresses, by the rows of FACTOR on which they are right.
FIRST_70_RIGHT = "m0"
EVERY_SECOND_RIGHT = "m2"
SOME_UNSCORED = "m1"  # and no row right

FACTOR_ROWS = f"samples.html#task=t1&model={FIRST_70_RIGHT}"
FACTOR_ROWS_SOME_UNSCORED = f"samples.html#task=t1&model={SOME_UNSCORED}"
BIOGRAPHY_OF_TWO_PEOPLE = "samples.html#task=t0&model=m0&row=0"
FELM_ROW_ANSWERED_1_AND_2 = "samples.html#task=t2&model=m2&row=1"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build a report of three models, of which two ran all benchmarks, on hostile texts."""
    folder = tmp_path_factory.mktemp("report")
    felm_outputs = (["Answer: 2"] * 3, ["Answer: 2", "Answer: 1,2", "I do not know."])
    sizes = (1, 7, 30)
    outcomes = ([True] * 70 + [False] * 30, [True, False] * 50, [None] * 5 + [False] * 95)
    for number, right in enumerate(outcomes):
        tasks = {"my_factor": factor_task(right, prefix=f"{HOSTILE} ")}
        if number < len(felm_outputs):
            tasks["my_felm"] = felm_task(felm_outputs[number], segment=HOSTILE)
            tasks["my_bio"] = ambigbio_task(reason=HOSTILE)
        size = sizes[number]
        model = f"org/model-{size}b"
        write_results(folder / f"r{number}", tasks, model, model_num_parameters=size * 1e9)
    build_report([folder], folder / "out", HOSTILE)
    return folder / "out"


@pytest.fixture
def visit(browser, site):
    """Return a function that opens a page of the report, and waits until its data is shown."""

    def visit_page(page, width=1300, scheme="light"):
        set_up_screen(browser, width, 900, scheme)
        open_page_at(browser, f"{site.as_uri()}/{page}")
        browser.execute_script("try { localStorage.clear() } catch { }")
        if browser.find_elements("css selector", "#browser, #pairs"):
            wait_for(browser, ".item, #pairs table, #pairs .note")
        return browser

    yield visit_page
    reset_screen(browser)


def wait(browser, condition, seconds=5):
    """Wait until a condition holds, and fail with the text of the page if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, browser.find_element("css selector", "main").text[:500]
        time.sleep(0.03)


def wait_for(browser, selector):
    """Wait until the page has such an element."""
    wait(browser, lambda: browser.find_elements("css selector", selector))


def wait_for_text(browser, selector, text):
    """Wait until the first such element contains a text."""
    wait(browser, lambda: text in " ".join(texts(browser, selector)[0].split()))


def texts(browser, selector):
    """Return the texts of all such elements."""
    return [element.text for element in browser.find_elements("css selector", selector)]


def press(browser, key):
    """Press a key while no field has the focus."""
    browser.find_element("css selector", "body").send_keys(key)


def choose(browser, label, value):
    """Choose an option of the drop-down menu with this label."""
    script = """
        const labels = [...document.querySelectorAll("label")];
        const label = labels.find((label) => label.firstChild.textContent === arguments[0]);
        const select = label.querySelector("select");
        select.value = arguments[1];
        select.dispatchEvent(new Event("input", { bubbles: true }));
        select.dispatchEvent(new Event("change", { bubbles: true }));
    """
    browser.execute_script(script, label, value)


@on_all_screens
@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_the_screen_and_are_legible(visit, page, width, scheme):
    """On a phone a reader must not scroll sideways; 4.5 is the contrast that WCAG asks for."""
    browser = visit(page, width, scheme)

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(FIND_LOW_CONTRAST_TEXTS) == []


@on_all_screens
def test_pages_of_biographies_are_legible(visit, site, width, scheme):
    """Nobody has to scroll sideways, even on a phone, and texts differ from their background."""
    any_biography, *_ = site.glob("biographies/*.html")

    browser = visit(any_biography.relative_to(site).as_posix(), width, scheme)

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(FIND_LOW_CONTRAST_TEXTS) == []


@on_all_screens
@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_errors_and_make_no_network_requests(visit, page, width, scheme):
    """A report is a folder that is sent to others and opened offline."""
    browser = visit(page, width, scheme)

    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    urls = requested_urls(browser)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)


@pytest.mark.parametrize("page", PAGES)
def test_a_hostile_title_is_shown_as_text(visit, page):
    """As markup it would show an image or run a script."""
    browser = visit(page)

    assert browser.find_element("css selector", ".site").get_attribute("textContent") == HOSTILE
    assert not browser.find_elements("css selector", "main img, iframe")


def test_a_wide_table_is_marked_until_its_end_is_scrolled_to(visit):
    """Otherwise a reader does not see that there is more to the right."""
    browser = visit("factor.html", width=375)
    find_frame = "const frame = document.querySelector('#factor-my_factor').closest('.scroll');"
    is_marked = f"{find_frame} return frame.classList.contains('wide')"
    assert browser.execute_script(is_marked)

    browser.execute_script(f"{find_frame} frame.scrollLeft = 10000")

    wait(browser, lambda: not browser.execute_script(is_marked))


def test_a_table_that_fits_is_not_marked_as_wide(visit):
    """The mark is a shadow that promises more columns."""
    browser = visit("index.html", width=2600)

    assert not browser.find_elements("css selector", ".scroll.wide")


def test_plots_are_labelled_by_their_title(visit):
    """Screen readers read the label in place of the plot."""
    browser = visit("factor.html")

    # The headlines and the accuracy by size. The runs have no perplexity.
    _, plot = browser.find_elements("css selector", "svg[role=img]")
    label_id = plot.get_attribute("aria-labelledby")
    label = browser.find_element("id", label_id).get_attribute("textContent")
    assert label.startswith("my_factor")


def test_plots_have_their_numbers_in_a_table(visit):
    """Not everyone can read a plot, and numbers can be copied."""
    browser = visit("factor.html")

    browser.find_element("css selector", ".plots .plot summary").click()

    assert "1B 70.0 59.4 – 78.8" in " ".join(texts(browser, ".plots .plot tbody tr"))


def test_ids_of_a_page_are_unique(visit):
    """A link within the page names an element by its id."""
    browser = visit("factor.html")

    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_samples_are_listed_in_pages_of_50(visit):
    """The task has 100 rows. A list of thousands would be slow, and nobody reads it."""
    browser = visit(FACTOR_ROWS)

    assert texts(browser, ".list output") == ["100 rows"]
    assert len(browser.find_elements("css selector", ".item")) == 50


def test_samples_are_browsed_by_keyboard(visit):
    """Readers go through hundreds of rows without a mouse.

    They go from row 0 to the next row, to the next page and one row back. The address names the
    row, so that it can be passed on.
    """
    browser = visit(FACTOR_ROWS)

    press(browser, ARROW_DOWN)
    wait_for_text(browser, ".place", "my_factor #1 ")
    press(browser, NEXT_PAGE)
    wait_for_text(browser, ".place", "my_factor #51 ")
    pager = browser.find_element("css selector", ".pager").text
    press(browser, ROW_BEFORE)
    wait_for_text(browser, ".place", "my_factor #50 ")

    assert "page 2 of 2" in pager
    assert "row=50" in browser.current_url


def test_a_reload_shows_the_same_sample(visit):
    """The address holds the row, so that it can be sent to others."""
    browser = visit(f"{FACTOR_ROWS}&row=50")
    wait_for_text(browser, ".place", "my_factor #50 ")

    browser.refresh()

    wait_for(browser, ".place")
    wait_for_text(browser, ".place", "my_factor #50 ")


def test_a_sample_shows_choices_scores_and_differences_as_text(visit):
    """A row of FACTOR has a prefix and four choices, of which the first is the true one here.

    Its ten tokens have a mean log-probability of −0.5 and so a sum of −5. The second choice differs
    from it in one word, "baker". The hostile prefix must not become an image.
    """
    browser = visit(f"{FACTOR_ROWS}&row=0")

    wait_for(browser, ".choice")
    prefix = browser.find_element("css selector", ".prefix")
    scores_of_true_choice = texts(browser, ".choice .scores")[0]
    assert HOSTILE in prefix.get_attribute("textContent")
    assert texts(browser, ".choice:first-child .badge") == ["true", "the model's"]
    assert scores_of_true_choice.startswith("−0.500 mean")
    assert "−5.00 sum" in scores_of_true_choice
    assert texts(browser, ".choice:nth-child(2) mark") == ["baker"]
    assert not browser.find_elements("css selector", "main img")


def test_samples_are_filtered_by_outcome(visit):
    """Readers look at what a model got wrong: 30 of 100 rows."""
    browser = visit(FACTOR_ROWS)

    choose(browser, "Outcome", "wrong")

    wait_for_text(browser, ".list output", "30 of 100 rows")


def test_samples_are_searched(visit):
    """The key "/" leads to the field of the search. Only the prefix of row 77 ends in " 77. "."""
    browser = visit(FACTOR_ROWS)

    press(browser, "/")
    browser.switch_to.active_element.send_keys(" 77. ")

    wait(browser, lambda: texts(browser, ".list output") == ["1 of 100 rows"])


def test_empty_search_result_is_announced(visit):
    """A row must have all words of the search. Row 77 has "77.", but no row has "1870"."""
    browser = visit(FACTOR_ROWS)

    press(browser, "/")
    browser.switch_to.active_element.send_keys("1870 77.")

    wait(browser, lambda: texts(browser, ".list output") == ["0 of 100 rows"])


def test_samples_are_sorted_by_the_address(visit):
    """The model is right on the rows 0 to 69 of 100, so number 70 is the first wrong one."""
    browser = visit(f"{FACTOR_ROWS}&sort=worst")

    wait_for_text(browser, ".place", "my_factor #70 ")


def test_an_unscored_sample_has_its_reason(visit):
    """A user who looks for unscored rows wants to know why they have no score."""
    browser = visit(f"{FACTOR_ROWS_SOME_UNSCORED}&outcome=unscored")

    assert texts(browser, ".notice") == ["Unscored: choice 0: no log-probability"]


def test_two_models_can_be_swapped(visit):
    """The models are right on 70 and on 50 of 100 rows, so the difference changes its sign."""
    browser = visit(f"compare.html#a={FIRST_70_RIGHT}&b={EVERY_SECOND_RIGHT}")
    assert texts(browser, ".named") == ["A\norg/model-1b", "B\norg/model-7b"]
    wait_for_text(browser, f"{FACTOR_SECTION} tbody tr", "70.0 50.0 +20.0")

    browser.find_element("id", "swap").click()

    wait_for_text(browser, f"{FACTOR_SECTION} tbody tr", "50.0 70.0 −20.0")


def test_a_comparison_links_to_rows_on_which_the_models_differ(visit):
    """The first link leads to rows on which only the first model is right, both side by side."""
    browser = visit(f"compare.html#a={EVERY_SECOND_RIGHT}&b={FIRST_70_RIGHT}")
    browser.find_elements("css selector", f"{FACTOR_SECTION} summary")[0].click()

    browser.find_elements("css selector", f"{FACTOR_SECTION} .links a")[0].click()

    wait(browser, lambda: len(browser.find_elements("css selector", ".side")) == 2)
    assert texts(browser, ".side > header .badge") == ["right", "wrong"]


def test_comparison_counts_rows_by_number_of_correct_models(visit):
    """Model A is right on every second of 100 rows, and model B on the first 70.

    So both are right on 35 of the first 70 rows and only B on the other 35. Of the last 30 rows,
    only A is right on 15.
    """
    browser = visit(f"compare.html#a={EVERY_SECOND_RIGHT}&b={FIRST_70_RIGHT}")

    summary = browser.find_elements("css selector", f"{FACTOR_SECTION} summary")[0]

    assert summary.text == "Rows right: both 35, only A 15, only B 35, neither 15"


def test_a_comparison_is_sorted_by_keyboard(visit):
    """The heading of a column is a button, and the largest value comes first."""
    browser = visit("compare.html")
    wait_for(browser, "#pairs thead button")

    browser.find_element("css selector", "#pairs thead th:nth-child(2) button").send_keys("\n")

    table = browser.find_element("css selector", "#pairs table")
    cells_of_column = table.find_elements("css selector", "td:nth-child(2)")
    values = [float(cell.text) for cell in cells_of_column]
    assert len(values) > 1
    assert values == sorted(values, reverse=True)


def test_sentence_verdicts_differ_by_more_than_colour(visit):
    """Some readers see no difference between red and green."""
    browser = visit(BIOGRAPHY_OF_TWO_PEOPLE)
    wait_for(browser, ".judged .words-of-fact")

    sentences = browser.find_elements("css selector", ".words-of-fact")
    styles = [sentence.value_of_css_property("text-decoration-style") for sentence in sentences]
    assert styles == ["solid", "dashed"]
    assert texts(browser, ".facts .badge") == ["supported", "true of another"]


def test_a_biography_links_to_its_evidence(visit):
    """The page of rows has no room for it. The link leads to the page of the biography."""
    browser = visit(BIOGRAPHY_OF_TWO_PEOPLE)
    wait_for(browser, ".judged .words-of-fact")

    browser.find_element("link text", "With individuals, passages and evidence").click()

    wait(browser, lambda: "Ada Lind" in texts(browser, "h2"))


def test_segments_have_the_label_and_the_outcome(visit):
    """A reader of FELM sees at each segment what people say of it, and what the model said.

    The model answered "1,2" to three segments, of which only the second has an error.
    """
    browser = visit(FELM_ROW_ANSWERED_1_AND_2)

    wait_for(browser, ".segment")
    tags_of_segments = [tags.split("\n") for tags in texts(browser, ".segment .tags")]
    assert tags_of_segments == [
        ["factual", "flagged", "false alarm"],
        ["has an error", "flagged", "found"],
        ["factual"],
    ]
