"""The page in a real browser."""

import json
import time

import pytest

from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio
from lm_factuality.benchmarks.biographies.viewer import build_page
from lm_factuality.ground.errors import DataError
from tests.conftest import run_command
from tests.report.conftest import HOSTILE, abstention, biography, browser, requested_urls

__all__ = ["browser"]

MERGED = biography("0", "Ada Lind")
APART = biography("1", "Bo Ek", groups=((0,), (1,)))
UNSCORED = biography(
    "2", "Cy Dahl", outcomes=(("supported", "not_supported"), ("unscored", "unscored"))
)
FALSE = biography(
    "3", "Di Falk", outcomes=(("supported", "not_supported"), ("not_supported", "not_supported"))
)


@pytest.fixture
def open_page(browser, tmp_path):
    def open_it(*biographies, title="A set"):
        path = tmp_path / "page.html"
        path.write_text(
            build_page([*map(AMBIGBIO.make_record, biographies)], title), encoding="utf-8"
        )
        browser.get_log("performance"), browser.get_log("browser")
        browser.get(path.as_uri())
        return browser

    return open_it


def texts(browser, selector):
    return [node.text for node in browser.find_elements("css selector", selector)]


def choose(browser, select, value):
    browser.find_element("css selector", f"#{select} option[value={value}]").click()


def names(browser):
    return texts(browser, ".items .name")


def test_both_scores_stand_beside_each_other_with_the_numbers(open_page):
    browser = open_page(MERGED)
    assert texts(browser, ".score b") == ["100.0%", "50.0%"]
    assert texts(browser, ".gap b") == ["−50.0"]
    assert texts(browser, ".numbers b") == ["1", "2"]
    assert texts(browser, ".head .kind") == ["People merged"]


def test_sentences_show_their_individual_and_their_worst_fact(open_page):
    browser = open_page(APART)
    sentences = browser.find_elements("css selector", ".text .sentence")
    assert [node.text for node in sentences] == [
        "Ada Lind was a baker [1].",
        "She died in 1872 [2][3].",
    ]
    assert [node.get_attribute("data-hue") for node in sentences] == ["0", "1"]
    assert texts(browser, ".text .swatch") == ["1", "2"]  # where an individual begins
    browser = open_page(MERGED)
    first, second = browser.find_elements("css selector", ".text .sentence")
    assert (
        "supported" in first.get_attribute("class"),
        "elsewhere" in second.get_attribute("class"),
    ) == (True, True)
    styles = [node.value_of_css_property("text-decoration-style") for node in (first, second)]
    assert styles == ["solid", "dashed"]  # not by colour alone
    assert len({node.value_of_css_property("background-color") for node in (first, second)}) == 1
    assert texts(browser, ".fact.elsewhere .status") == ["true of another"]


def test_evidence_appears_on_click_and_hides_again(open_page):
    browser = open_page(MERGED)
    fact = browser.find_element("css selector", "#fact-1")
    assert not browser.find_elements("css selector", "#evidence-1 blockquote")
    fact.click()
    assert texts(browser, "#evidence-1 .title") == ["Ada Lind (baker)", "Ada Lind (sailor)"]
    assert texts(browser, "#evidence-1 blockquote") == [
        f"Ada Lind ({job}): Lind, a baker, died in 1872." for job in ("baker", "sailor")
    ]
    assert texts(browser, "#evidence-1 mark") == ["died", "1872", "died", "1872"]
    assert fact.get_attribute("aria-expanded") == "true"
    assert "selected" in browser.find_elements("css selector", ".text .sentence")[1].get_attribute(
        "class"
    )
    fact.click()
    assert not browser.find_element("css selector", "#evidence-1").is_displayed()


def test_the_list_is_filtered_and_sorted(open_page):
    browser = open_page(UNSCORED, MERGED, APART, FALSE, abstention("4", "Eve Gran"))
    assert names(browser)[0] == "Ada Lind"  # the largest difference first
    assert texts(browser, "#count") == ["5 of 5 responses"]
    choose(browser, "order", "name")
    assert names(browser) == ["Ada Lind", "Bo Ek", "Cy Dahl", "Di Falk", "Eve Gran"]
    choose(browser, "kind", "many_bios_many_entities")
    assert names(browser) == ["Bo Ek"]
    choose(browser, "kind", "abstained")
    assert names(browser) == ["Eve Gran"]
    choose(browser, "kind", "all")
    for condition, expected in (
        ("differ", ["Ada Lind"]),
        ("unscored", ["Cy Dahl"]),
        ("faulty", ["Di Falk"]),
    ):
        choose(browser, "condition", condition)
        assert names(browser) == expected, condition
    choose(browser, "condition", "all")
    browser.find_element("id", "search").send_keys("dahl")
    assert names(browser) == ["Cy Dahl"]
    assert texts(browser, "#count") == ["1 of 5 responses"]


@pytest.mark.parametrize("place", ["name", "output", "reason", "evidence", "title"])
def test_hostile_text_stays_text(open_page, place):
    if place == "title":
        browser = open_page(MERGED, APART, title=HOSTILE)
        assert browser.find_element("css selector", "h1").get_attribute("textContent") == HOSTILE
    else:
        browser = open_page(biography(**{place: HOSTILE}), APART)
        for fact in browser.find_elements("css selector", ".fact"):
            fact.click()
        assert HOSTILE in browser.execute_script("return document.body.textContent")
        assert browser.title == "A set"
    assert not browser.find_elements("css selector", "img, iframe, #layout script")
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_nothing_is_asked_of_the_network(open_page):
    browser = open_page(
        biography(
            output="See http://example.com/a.png. She died in 1872.",
            evidence="http://example.com/b.png",
        ),
        APART,
    )
    browser.find_element("css selector", ".fact").click()
    time.sleep(0.2)
    urls = requested_urls(browser)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)


def test_the_page_is_of_verdicts_with_one_protocol_and_linking(tmp_path, capsys):
    verdicts, out = tmp_path / "verdicts.jsonl", tmp_path / "page.html"
    command = ["page", "--verdicts", str(verdicts), "--out", str(out)]

    def write(*records):
        verdicts.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")

    code = AmbigBio(protocol="code")
    write(code.make_record(MERGED), code.make_record(APART))
    assert run_command(*command) == 0
    assert "2 responses" in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert '"settings":{"protocol":"code","linking":"greedy"}' in page
    for records in ([code.make_record(MERGED), AMBIGBIO.make_record(APART)], []):
        write(*records)
        with pytest.raises(DataError, match="protocols or linkings.*make them with"):
            run_command(*command)
