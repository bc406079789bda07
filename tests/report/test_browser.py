"""The report in a real browser, from files."""

from __future__ import annotations

import json
import time

import pytest

from lm_factuality.report.build import build_report
from tests.report.conftest import HOSTILE
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results

PAGES = ("index.html", "factor.html", "felm.html", "ambigbio.html", "compare.html", "samples.html")
CONTRAST = """
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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Three models; the rows' texts are hostile."""
    folder = tmp_path_factory.mktemp("report")
    rights = ([True] * 70 + [False] * 30, [True, False] * 50, [None] * 5 + [False] * 95)
    for number, right in enumerate(rights):
        tasks = {"my_factor": factor_task(right, prefix=f"{HOSTILE} ")}
        if number < 2:
            outputs = (
                ["Answer: 2", "Answer: 1,2", "I do not know."] if number else ["Answer: 2"] * 3
            )
            tasks |= {
                "my_felm": felm_task(outputs, segment=HOSTILE),
                "my_bio": ambigbio_task(reason=HOSTILE),
            }
        write_results(
            folder / f"r{number}",
            tasks,
            f"org/model-{(1, 7, 30)[number]}b",
            model_num_parameters=(1e9, 7e9, 30e9)[number],
        )
    build_report([folder], folder / "out", HOSTILE)
    return folder / "out"


@pytest.fixture
def visit(browser, site):
    def go(page, width=1300, scheme="light"):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        browser.get_log("performance"), browser.get_log("browser")
        browser.get("about:blank")
        browser.get(f"{site.as_uri()}/{page}")
        browser.execute_script("try { localStorage.clear() } catch { }")
        wait(
            browser,
            lambda: (
                not browser.find_elements("css selector", "#browser, #pairs")
                or browser.find_elements("css selector", ".item, #pairs table, #pairs .note")
            ),
        )
        return browser

    yield go
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def wait(browser, condition, seconds=5):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, browser.find_element("css selector", "main").text[:500]
        time.sleep(0.03)


def texts(browser, selector):
    return [node.text for node in browser.find_elements("css selector", selector)]


def press(browser, key):
    browser.find_element("css selector", "body").send_keys(key)


def choose(browser, label, value):
    browser.execute_script(
        "const s = [...document.querySelectorAll('label')].find((l) => l.firstChild.textContent === arguments[0]).querySelector('select');"
        "s.value = arguments[1]; s.dispatchEvent(new Event('input', { bubbles: true })); s.dispatchEvent(new Event('change', { bubbles: true }))",
        label,
        value,
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_quiet_fits_a_phone_and_is_readable_in_the_dark(visit, page):
    for width, scheme in ((375, "dark"), (1300, "dark"), (375, "light")):
        browser = visit(page, width, scheme)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(CONTRAST) == []
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
    assert browser.find_element("css selector", ".site").get_attribute("textContent") == HOSTILE
    assert not browser.find_elements("css selector", "main img, iframe")


def test_a_wide_table_says_that_it_goes_on_until_its_end_is_seen(visit):
    browser = visit("factor.html", 375)
    wide = "return document.querySelector('#factor-my_factor').closest('.scroll').classList.contains('wide')"
    assert browser.execute_script(wide)
    browser.execute_script(
        "document.querySelector('#factor-my_factor').closest('.scroll').scrollLeft = 10000"
    )
    wait(browser, lambda: not browser.execute_script(wide))
    assert not visit("index.html", 2600).find_elements("css selector", ".scroll.wide")


def test_plots_say_what_they_show_and_have_their_numbers_beneath(visit):
    browser = visit("factor.html")
    plots = browser.find_elements("css selector", "svg[role=img]")
    assert len(plots) == 1  # by size; there is no perplexity
    for each in plots:
        title = each.get_attribute("aria-labelledby")
        assert browser.execute_script(
            "return document.getElementById(arguments[0]).textContent", title
        ).startswith("my_factor")
    browser.find_element("css selector", ".plot summary").click()
    assert "1B 70.0 59.5 – 78.7" in " ".join(texts(browser, ".plot:first-child tbody tr"))
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_samples_are_browsed_by_keyboard_in_pages(visit):
    browser = visit("samples.html#task=t1&model=m0")
    assert texts(browser, ".list output") == ["100 rows"]
    assert len(browser.find_elements("css selector", ".item")) == 50
    press(browser, "\ue015")  # down
    wait(browser, lambda: "my_factor #1 " in browser.find_element("css selector", ".place").text)
    press(browser, "\ue014")  # right: the next page
    wait(browser, lambda: "my_factor #51 " in browser.find_element("css selector", ".place").text)
    assert "page 2 of 2" in browser.find_element("css selector", ".pager").text
    press(browser, "k")
    wait(browser, lambda: "my_factor #50 " in browser.find_element("css selector", ".place").text)
    assert "row=50" in browser.current_url
    browser.refresh()
    wait(browser, lambda: "my_factor #50 " in browser.find_element("css selector", ".place").text)


def test_a_row_shows_choices_scores_and_edits_as_text(visit):
    browser = visit("samples.html#task=t1&model=m0&row=0")
    wait(browser, lambda: browser.find_elements("css selector", ".choice"))
    assert HOSTILE in browser.find_element("css selector", ".prefix").get_attribute("textContent")
    assert texts(browser, ".choice:first-child .badge") == ["true", "the model's"]
    assert texts(browser, ".choice .scores")[0].startswith("−0.500 mean")
    assert "−5.00 sum" in texts(browser, ".choice .scores")[0]
    assert texts(browser, ".choice:nth-child(2) mark") == ["baker"]
    assert not browser.find_elements("css selector", "main img")


def test_samples_are_filtered_searched_and_sorted(visit):
    browser = visit("samples.html#task=t1&model=m0")
    choose(browser, "Outcome", "wrong")
    wait(browser, lambda: texts(browser, ".list output") == ["30 of 100 rows"])
    choose(browser, "Outcome", "")
    press(browser, "/")
    browser.switch_to.active_element.send_keys("1870. 77.")
    wait(
        browser, lambda: texts(browser, ".list output") == ["0 of 100 rows"]
    )  # the hostile prefix has no library
    field = browser.find_element("css selector", "input[type=search]")
    field.clear()
    field.send_keys(" 77. ")
    wait(browser, lambda: texts(browser, ".list output") == ["1 of 100 rows"])
    browser = visit("samples.html#task=t1&model=m0&sort=worst")
    wait(browser, lambda: "my_factor #70 " in browser.find_element("css selector", ".place").text)
    browser = visit("samples.html#task=t1&model=m1&outcome=unscored")
    assert texts(browser, ".notice") == ["Unscored: choice 0: no log-probability"]


def test_two_models_stand_beside_each_other_where_they_differ(visit):
    browser = visit("compare.html#a=m0&b=m2")
    assert texts(browser, ".named") == ["A\norg/model-1b", "B\norg/model-7b"]
    row = browser.find_element(
        "css selector", "#pairs section:nth-of-type(2) tbody tr"
    ).text.replace("\n", " ")
    assert "70.0 50.0 +20.0" in row
    browser.find_element("id", "swap").click()
    wait(
        browser,
        lambda: (
            "50.0 70.0 −20.0"
            in browser.find_element(
                "css selector", "#pairs section:nth-of-type(2) tbody tr"
            ).text.replace("\n", " ")
        ),
    )
    summary = browser.find_elements("css selector", "#pairs section:nth-of-type(2) summary")[0]
    assert summary.text == "Rows right: both 35, only A 15, only B 35, neither 15"
    summary.click()
    browser.find_elements("css selector", "#pairs section:nth-of-type(2) .links a")[0].click()
    wait(browser, lambda: len(browser.find_elements("css selector", ".side")) == 2)
    assert texts(browser, ".side > header .badge") == ["right", "wrong"]


def test_judged_texts_are_coloured_and_not_by_colour_alone(visit):
    browser = visit("samples.html#task=t0&model=m0&row=0")
    wait(browser, lambda: browser.find_elements("css selector", ".judged .sentence"))
    styles = [
        node.value_of_css_property("text-decoration-style")
        for node in browser.find_elements("css selector", ".sentence")
    ]
    assert styles == ["solid", "dashed"]
    assert texts(browser, ".facts .badge") == ["supported", "true of another"]
    browser.find_element("link text", "With individuals, passages and evidence").click()
    wait(browser, lambda: "Ada Lind" in texts(browser, "h2"))
    browser = visit("samples.html#task=t2&model=m2&row=1")
    wait(browser, lambda: browser.find_elements("css selector", ".segment"))
    assert [text.split("\n") for text in texts(browser, ".segment .tags")] == [
        ["factual", "flagged", "false alarm"],
        ["has an error", "flagged", "found"],
        ["factual"],
    ]
