"""The page that shows judged biographies, in a real browser."""

import json
import time
from dataclasses import replace

import pytest

from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio
from lm_factuality.benchmarks.biographies.types import Fact, Judgement
from lm_factuality.benchmarks.biographies.viewer import build_page
from lm_factuality.ground.errors import DataError
from tests.conftest import run_command
from tests.report.conftest import (
    HOSTILE,
    abstention,
    biography,
    browser,
    open_page_at,
    requested_urls,
)

__all__ = ["browser"]

# Each biography has two facts, which are judged by the pages of a baker and of a sailor. Here the
# first is true of the baker, and the second of the sailor.
PEOPLE_MERGED = biography("0", "Ada Lind")
PEOPLE_TOLD_APART = biography("1", "Bo Ek", groups=((0,), (1,)))
WITH_UNSCORED_FACT = biography(
    "2", "Cy Dahl", outcomes=(("supported", "not_supported"), ("unscored", "unscored"))
)
WITH_FALSE_FACT = biography(
    "3", "Di Falk", outcomes=(("supported", "not_supported"), ("not_supported", "not_supported"))
)
JUDGED_BY = {"judge": "a-judge", "knowledge": "some-pages"}
ABSTENTION = abstention("4", "Eve Gran")


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that shows the page of some biographies in the browser."""

    def show_page(*biographies, title="A set", about=JUDGED_BY):
        path = tmp_path / "page.html"
        records = [AMBIGBIO.make_record(judged) for judged in biographies]
        path.write_text(build_page(records, title, about), encoding="utf-8")
        open_page_at(browser, path.as_uri())
        return browser

    return show_page


def read_texts(browser, selector):
    """Return the text of each element that the CSS selector matches."""
    return [element.text for element in browser.find_elements("css selector", selector)]


def choose(browser, select_id, value):
    """Choose an option of a drop-down list."""
    browser.find_element("css selector", f"#{select_id} option[value={value}]").click()


def read_names(browser):
    """Return the names in the list of responses."""
    return read_texts(browser, ".items .name")


def test_both_scores_of_a_response_are_shown_together(open_page):
    """Both facts are true of somebody, but only one of the person to whom they are linked."""
    browser = open_page(PEOPLE_MERGED)

    assert read_texts(browser, ".score b") == ["100.0%", "50.0%"]
    assert read_texts(browser, ".gap b") == ["−50.0"]


def test_the_numbers_of_biographies_and_entities_are_shown(open_page):
    """One biography covers two people, which the heading calls "People merged"."""
    browser = open_page(PEOPLE_MERGED)

    num_biographies, num_entities = read_texts(browser, ".numbers b")
    assert (num_biographies, num_entities) == ("1", "2")
    assert read_texts(browser, ".head .kind") == ["People merged"]


def test_sentences_are_shown_with_their_citations(open_page):
    """The judge reads sentences without citations, but a reader wants to follow them."""
    browser = open_page(PEOPLE_TOLD_APART)

    assert read_texts(browser, ".text .sentence") == [
        "Ada Lind was a baker [1].",
        "She died in 1872 [2][3].",
    ]


def test_individuals_are_marked_by_hue_and_number(open_page):
    """The numbers serve readers who cannot tell the hues apart."""
    browser = open_page(PEOPLE_TOLD_APART)

    sentences = browser.find_elements("css selector", ".text .sentence")
    assert [sentence.get_attribute("data-hue") for sentence in sentences] == ["0", "1"]
    assert read_texts(browser, ".text .swatch") == ["1", "2"]


@pytest.fixture
def merged_sentences(open_page):
    """Return the two sentences of one individual, of which the second is true of another."""
    return open_page(PEOPLE_MERGED).find_elements("css selector", ".text .sentence")


def test_sentences_of_one_individual_have_one_colour(merged_sentences):
    """The response tells of one person, although the facts are true of two."""
    first, second = merged_sentences

    colour = first.value_of_css_property("background-color")
    assert second.value_of_css_property("background-color") == colour


def test_fact_status_is_visible_without_colour(merged_sentences):
    """Not everybody can tell colours apart, so the line under the words is solid or dashed."""
    first, second = (
        sentence.find_element("css selector", ".words-of-fact") for sentence in merged_sentences
    )

    assert "supported" in first.get_attribute("class")
    assert first.value_of_css_property("text-decoration-style") == "solid"
    assert "elsewhere" in second.get_attribute("class")
    assert second.value_of_css_property("text-decoration-style") == "dashed"


def test_only_the_words_of_a_fact_are_marked(open_page):
    """The name, and words of the judge that the sentence lacks, are not marked."""
    sentence = "Ada Lind was a baker and died in 1872."
    facts = (Fact("Ada Lind was a baker of bread.", 0), Fact("Ada Lind died in 1872.", 0))

    browser = open_page(biography(output=sentence, sentences=(sentence,), facts=facts))

    assert read_texts(browser, ".text .words-of-fact") == ["baker", "died in 1872"]


def test_page_names_the_judge_and_knowledge_source(open_page):
    """Scores depend on who judges and by what, so a reader must see both."""
    browser = open_page(replace(PEOPLE_MERGED, judged_against="cited passages"))

    settings = "Judge: a-judge; Knowledge: some-pages; Judged against: cited passages"
    assert settings in read_texts(browser, "#summary p")[0]
    assert "judged against cited passages" in read_texts(browser, ".head p")[0]


def test_passages_are_numbered_as_cited(open_page):
    """The response cites the passage of the baker as 5, and that of the sailor as 2."""
    generation = replace(PEOPLE_MERGED.generation, citation_numbers=(5, 2))

    browser = open_page(replace(PEOPLE_MERGED, generation=generation))

    assert read_texts(browser, ".passages .cite") == ["[2]", "[5]"]
    assert read_texts(browser, ".passages .title") == ["Ada Lind (sailor)", "Ada Lind (baker)"]


def test_passages_with_unknown_numbers_are_not_numbered(open_page):
    """If nobody knows how the text numbers its passages, a guess could mislead a reader."""
    unknown_numbers = ()
    generation = replace(PEOPLE_MERGED.generation, citation_numbers=unknown_numbers)

    browser = open_page(replace(PEOPLE_MERGED, generation=generation))

    assert read_texts(browser, ".passages .cite") == []


@pytest.mark.parametrize(
    ("probability", "shown_text"),
    [
        pytest.param(0.0, "not supported", id="a verdict in words"),
        pytest.param(0.25, "not supported, 0.25", id="probability"),
        pytest.param(0.002, "not supported, below 0.01", id="small probability"),
    ],
)
def test_a_probability_is_shown_only_if_the_judge_gave_one(open_page, probability, shown_text):
    """A judge that answers in words gives 0 or 1, which would look surer than it is."""
    judgement = Judgement("not_supported", probability)
    matrix = ((judgement, judgement), (judgement, judgement))
    browser = open_page(replace(PEOPLE_MERGED, matrix=matrix))

    browser.find_element("css selector", "#fact-0").click()

    assert read_texts(browser, "#evidence-0 .outcome") == [shown_text, shown_text]


def test_unsupported_entities_are_not_called_other_without_a_link(open_page):
    """With no page in favour of any fact, there is no linked entity for others to differ from."""
    nothing_supported = (
        ("not_supported", "not_supported"),
        ("not_supported", "not_supported"),
    )

    browser = open_page(biography(outcomes=nothing_supported))

    assert "2 entities of the passages: no fact supported." in read_texts(browser, ".candidates p")


def test_fact_true_of_another_person_is_labelled(open_page):
    """Such a fact is not made up, but it is in the wrong person's biography."""
    browser = open_page(PEOPLE_MERGED)

    assert read_texts(browser, ".fact.elsewhere .status") == ["true of another"]


def test_evidence_is_absent_before_a_click(open_page):
    """The evidence of hundreds of facts would make the page slow, so a click brings it."""
    browser = open_page(PEOPLE_MERGED)

    assert not browser.find_elements("css selector", "#evidence-1 blockquote")


@pytest.fixture
def browser_with_evidence(open_page):
    """Return the browser after a click on the second fact, "She died in 1872."."""
    browser = open_page(PEOPLE_MERGED)
    browser.find_element("css selector", "#fact-1").click()
    return browser


def test_evidence_of_each_page_appears_on_a_click(open_page):
    """A reader can check the verdict on a fact by each page. Both pages have the same text here."""
    browser = open_page(PEOPLE_MERGED)

    browser.find_element("css selector", "#fact-1").click()

    assert read_texts(browser, "#evidence-1 .title") == ["Ada Lind (baker)", "Ada Lind (sailor)"]
    assert read_texts(browser, "#evidence-1 blockquote") == [
        "Ada Lind (baker): Lind, a baker, died in 1872.",
        "Ada Lind (sailor): Lind, a baker, died in 1872.",
    ]


def test_words_of_the_fact_are_marked_in_the_evidence(browser_with_evidence):
    """The marks lead a reader of a long page to the place that decides."""
    words = read_texts(browser_with_evidence, "#evidence-1 mark")

    assert words == ["died", "1872", "died", "1872"]  # on both pages


def test_clicked_fact_is_marked_expanded_and_its_sentence_selected(browser_with_evidence):
    """Screen readers announce an expanded fact, and the text shows the selected sentence."""
    fact = browser_with_evidence.find_element("css selector", "#fact-1")
    _first, second = browser_with_evidence.find_elements("css selector", ".text .sentence")

    assert fact.get_attribute("aria-expanded") == "true"
    assert "selected" in second.get_attribute("class")


def test_evidence_is_hidden_by_a_second_click(browser_with_evidence):
    """A click on an open fact closes it, as everywhere on the web."""
    browser_with_evidence.find_element("css selector", "#fact-1").click()

    evidence = browser_with_evidence.find_element("css selector", "#evidence-1")
    assert not evidence.is_displayed()


@pytest.fixture
def browser_with_list(open_page):
    """Return the browser with a list of five responses, out of the order of their names."""
    return open_page(
        WITH_UNSCORED_FACT, PEOPLE_MERGED, PEOPLE_TOLD_APART, WITH_FALSE_FACT, ABSTENTION
    )


def test_the_list_begins_with_the_largest_difference(browser_with_list):
    """A reader wants to see first where FActScore hides most of what is wrong."""
    assert read_names(browser_with_list)[0] == "Ada Lind"
    assert read_texts(browser_with_list, "#count") == ["5 of 5 responses"]


def test_the_list_can_be_sorted_by_name(browser_with_list):
    """The fixture gives the responses in another order."""
    choose(browser_with_list, "order", "name")

    names = read_names(browser_with_list)
    assert names == ["Ada Lind", "Bo Ek", "Cy Dahl", "Di Falk", "Eve Gran"]


@pytest.mark.parametrize(
    ("select_id", "option", "remaining_name"),
    [
        pytest.param("kind", "many_bios_many_entities", "Bo Ek", id="people told apart"),
        pytest.param("kind", "abstained", "Eve Gran", id="abstention"),
        pytest.param("condition", "differ", "Ada Lind", id="scores differ"),
        pytest.param("condition", "unscored", "Cy Dahl", id="fact without a verdict"),
        pytest.param("condition", "faulty", "Di Falk", id="false fact"),
    ],
)
def test_the_list_can_be_filtered(browser_with_list, select_id, option, remaining_name):
    """Of the five responses, each option leaves the one for which it was made."""
    choose(browser_with_list, select_id, option)

    assert read_names(browser_with_list) == [remaining_name]


@pytest.mark.parametrize(("select_id", "value"), [("kind", "abstained"), ("condition", "faulty")])
def test_filter_can_be_reset(browser_with_list, select_id, value):
    """With the option "all", the list shows all five responses again."""
    choose(browser_with_list, select_id, value)

    choose(browser_with_list, select_id, "all")

    assert len(read_names(browser_with_list)) == 5


def test_list_can_be_searched_by_name(browser_with_list):
    """A part of a name is enough, in capitals or not."""
    browser_with_list.find_element("id", "search").send_keys("dahl")

    assert read_names(browser_with_list) == ["Cy Dahl"]
    assert read_texts(browser_with_list, "#count") == ["1 of 5 responses"]


def assert_nothing_was_run(browser):
    """Check that hostile text made no elements and no error in the browser's console."""
    assert not browser.find_elements("css selector", "img, iframe, #layout script")
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


def test_html_in_a_title_is_shown_as_text(open_page):
    """Titles come from file names and models, so markup in them must be shown and never run."""
    browser = open_page(PEOPLE_MERGED, PEOPLE_TOLD_APART, title=HOSTILE)

    heading = browser.find_element("css selector", "h1")
    assert heading.get_attribute("textContent") == HOSTILE
    assert_nothing_was_run(browser)


@pytest.mark.parametrize("field", ["name", "output", "reason", "evidence"])
def test_html_in_a_biography_is_shown_as_text(open_page, field):
    """Models and judges wrote these texts, so markup in them must be shown and never run."""
    browser = open_page(biography(**{field: HOSTILE}), PEOPLE_TOLD_APART)

    for fact in browser.find_elements("css selector", ".fact"):
        fact.click()

    assert HOSTILE in browser.execute_script("return document.body.textContent")
    assert browser.title == "A set"
    assert_nothing_was_run(browser)


def test_page_makes_no_network_requests(open_page):
    """A page with responses may be opened offline, and must not tell anybody what is read."""
    text_with_url = "See http://example.com/a.png. She died in 1872."
    page_with_url = biography(output=text_with_url, evidence="http://example.com/b.png")

    browser = open_page(page_with_url, PEOPLE_TOLD_APART)
    browser.find_element("css selector", ".fact").click()
    time.sleep(0.2)  # for requests that the click may start

    urls = requested_urls(browser)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)


def write_verdicts(path, records):
    """Write a file of verdicts."""
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")


CODE = AmbigBio(protocol="code")


def test_page_names_the_protocol_and_linking_of_its_verdicts(tmp_path, capsys):
    """D-FActScore depends on the protocol and the linking, which the verdicts state."""
    verdicts_path = tmp_path / "verdicts.jsonl"
    page_path = tmp_path / "page.html"
    records = [CODE.make_record(PEOPLE_MERGED), CODE.make_record(PEOPLE_TOLD_APART)]
    write_verdicts(verdicts_path, records)

    exit_code = run_command("page", "--verdicts", str(verdicts_path), "--out", str(page_path))

    assert exit_code == 0
    assert "2 responses" in capsys.readouterr().out
    assert '"protocol":"code","linking":"greedy"}' in page_path.read_text(encoding="utf-8")


def test_page_names_the_judge_from_the_metrics_file(tmp_path):
    """Verdicts do not name their judge, but ``metrics.json`` in the same folder does."""
    verdicts_path = tmp_path / "verdicts.jsonl"
    page_path = tmp_path / "page.html"
    write_verdicts(verdicts_path, [AMBIGBIO.make_record(PEOPLE_MERGED)])
    about = {"judge": {"name": "a-judge"}, "knowledge": "some-pages"}
    (tmp_path / "metrics.json").write_text(json.dumps({"about": about}), encoding="utf-8")

    run_command("page", "--verdicts", str(verdicts_path), "--out", str(page_path))

    assert '"judge":"a-judge","knowledge":"some-pages"' in page_path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(
            [CODE.make_record(PEOPLE_MERGED), AMBIGBIO.make_record(PEOPLE_TOLD_APART)],
            id="two protocols",
        ),
        pytest.param([], id="no verdicts"),
    ],
)
def test_verdicts_with_different_protocols_are_refused(tmp_path, records):
    """Scores by two protocols cannot be sorted in one list."""
    verdicts_path = tmp_path / "verdicts.jsonl"
    write_verdicts(verdicts_path, records)

    with pytest.raises(DataError, match="protocols or linkings.*make them with"):
        run_command("page", "--verdicts", str(verdicts_path), "--out", str(tmp_path / "page.html"))
