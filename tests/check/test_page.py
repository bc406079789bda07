"""The page of a check as a file: its figures, the pieces of answers, the marks, and safe texts."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from judges.claims import Evidence
from lm_factuality.check.page import Piece, build_page, cut_at_claims, find_marks, write_page
from lm_factuality.check.results import CheckedAnswer, CheckResult
from tests.check.checked import BRIDGE, FERRY, answer_of, bridge_result, claim_of
from tests.report.conftest import HOSTILE


def page_of(result, title="answers.csv", note="Judge: lexical."):
    """Return the page of a check."""
    return build_page(result, title, note)


def content_of(page):
    """Return the data that the page's script reads."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(match[1])


def headline_of(page):
    """Return the text of each figure of the headline, in order."""
    figures = re.findall(r'<div class="figure .*?</div>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", figure).split()) for figure in figures]


def utf16_slice(text, start, end):
    """Return the part of a text between two of JavaScript's offsets."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


# ---- the headline ----


def test_the_headline_gives_the_share_of_supported_claims_and_counts_the_others():
    """The check has two supported claims, one of each other verdict, and a refusal."""
    headline = headline_of(page_of(bridge_result()))

    assert headline == [
        "Supported 50.0% 95% interval 0.5 to 99.5%; 2 of 4 scored claims",
        "Contradicted 1 claim",
        "Not found 1 claim",
        "Unscored 1 claim",
        "Refusals 1 of 3 answers",
    ]


def test_the_headline_stands_before_everything_else():
    """A reader first wants to know how many claims are supported.

    The filters, the answers and the note on how the check was made follow in this order.
    """
    page = page_of(bridge_result())

    main = page[page.index("<main") :]
    places = [
        main.index(part) for part in ("figures", 'id="tools"', 'id="answers"', "Judge: lexical.")
    ]
    assert places == sorted(places)


def test_without_scored_claims_there_is_no_share():
    """0 of 0 is not 0%."""
    headline = headline_of(page_of(CheckResult((answer_of("a", ("One.", "unscored")),))))

    assert headline[0] == "Supported – 0 of 0 scored claims"


def test_a_check_without_answers_has_a_page():
    """A share of no claims must not end in a division by zero."""
    headline = headline_of(page_of(CheckResult(())))

    assert headline[-1] == "Refusals 0 of 0 answers"


def test_unreadable_documents_are_listed():
    """A claim may be "not found" because a document could not be read."""
    assert "docs/scan.pdf: has no text" in page_of(bridge_result())


# ---- the pieces of an answer ----


def test_an_answer_is_cut_where_claims_begin_and_end():
    """Each piece of text has the numbers of the claims that it belongs to.

    The page can mark each of them.
    """
    claims = [claim_of("a", "One.", 0, "supported"), claim_of("a", "Two.", 5, "supported")]

    pieces = cut_at_claims("One. Two.", claims)

    assert pieces == [Piece("One.", (0,)), Piece(" ", ()), Piece("Two.", (1,))]


def test_overlapping_claims_share_a_piece():
    """Two claims of one sentence may have some words in common."""
    claims = [claim_of("a", "abcd", 0, "supported"), claim_of("a", "cdef", 2, "supported")]

    pieces = cut_at_claims("abcdef", claims)

    assert pieces == [Piece("ab", (0,)), Piece("cd", (0, 1)), Piece("ef", (1,))]


def test_identical_claims_share_one_piece():
    """A click on such a piece offers both claims."""
    claim = claim_of("a", "One.", 0, "supported")

    assert cut_at_claims("One.", [claim, claim]) == [Piece("One.", (0, 1))]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(0, 0, id="no characters"),
        pytest.param(3, 1, id="end before the start"),
        pytest.param(90, 99, id="behind the text of 4 characters"),
        pytest.param(-5, 0, id="before the text"),
    ],
)
def test_a_claim_without_a_place_is_in_no_piece(start, end):
    """The page lists such a claim below the answer instead."""
    claim = claim_of("a", "A claim.", start=start, end=end, verdict="supported")

    assert cut_at_claims("One.", [claim]) == [Piece("One.", ())]


@pytest.mark.parametrize(
    "text", ["a👨‍👩‍👧b", "e\u0301e\u0301", "👍🏽👍🏽", "❤\ufe0f", "क्षि", "سَلَام"]
)
def test_pieces_do_not_split_characters(text):
    """An emoji of a family has several code points, and half of it is another picture."""
    claims = [claim_of("a", "?", 0, "supported", end=end) for end in range(len(text) + 1)]

    pieces = cut_at_claims(text, claims)

    assert "".join(piece.text for piece in pieces) == text
    joined_to_what_is_before = ("\u200d", "\ufe0f", "\u0301", "🏽")
    for piece in pieces:
        assert not piece.text.startswith(joined_to_what_is_before)
        assert not piece.text.endswith("\u200d")  # joins what is before and behind it


@pytest.mark.parametrize("text", [HOSTILE, "\ud83d half", "line\r\nline\x00", "אבג 123 abc", ""])
def test_joined_pieces_equal_the_answer(text):
    """The page must neither lose nor repeat a word of an answer."""
    claims = [claim_of("a", "?", start, "supported", end=start + 7) for start in range(50)]

    pieces = cut_at_claims(text, claims)

    assert "".join(piece.text for piece in pieces) == text


# ---- the marks in evidence ----


def test_the_deciding_words_and_their_sentence_are_marked():
    """The reader sees which words of the passage contradict the claim."""
    claim = bridge_result().answers[1].claims[0]

    marks = find_marks(claim)

    assert utf16_slice(BRIDGE.text, *marks.sentence).endswith("Harrow Bridge opened in 1871.")
    assert [utf16_slice(BRIDGE.text, *words) for words in marks.words] == ["1871"]


def test_deciding_words_are_marked_only_in_their_sentence():
    """The first "1871" in the passage is the year of another event."""
    evidence = Evidence("d", "", "In 1871 it rained. The bridge was opened in 1871 by a mayor.")
    claim = claim_of("a", "The bridge was opened in 1872 by a mayor.", 0, "contradicted")
    claim = replace(claim, evidence=(evidence,), deciding=0, deciding_words=("1871", "mayor"))

    marks = find_marks(claim)

    assert marks.words[0].start == evidence.text.rindex("1871")


def test_a_number_is_not_marked_within_another_number():
    """The "18" in "1870" is part of another number."""
    evidence = Evidence("d", "", "In 1870 there were 18 arches.")
    claim = claim_of("a", "There were 19 arches.", 0, "contradicted")
    claim = replace(claim, evidence=(evidence,), deciding=0, deciding_words=("18",))

    assert find_marks(claim).words[0].start == evidence.text.index("18 arches")


def test_deciding_words_that_overlap_are_one_mark():
    """The deciding words "opened in" and "in 1871" share the word "in"."""
    evidence = Evidence("d", "", "The bridge opened in 1871.")
    claim = claim_of(
        "a",
        "The bridge opened in 1870.",
        0,
        "contradicted",
        evidence=(evidence,),
        deciding=0,
        deciding_words=("opened in", "in 1871"),
    )

    (mark,) = find_marks(claim).words

    assert evidence.text[mark.start : mark.end] == "opened in 1871"


def test_nothing_is_marked_without_a_deciding_passage():
    """A claim that was not found has passages, but none of them decided."""
    assert find_marks(claim_of("a", "One.", 0, "not_found")) is None


# ---- the file ----


def test_each_passage_is_on_the_page_once():
    """Many claims share a passage, so the page would otherwise become large."""
    content = content_of(page_of(bridge_result()))

    assert content["passages"] == [list(vars(BRIDGE).values()), list(vars(FERRY).values())]
    assert content["answers"][1]["claims"][0]["evidence"] == [0, 1]


def test_numbers_unsupported_by_json_are_left_out():
    """A browser refuses a page with NaN in its data."""
    answer = answer_of("a", ("One.", "supported"), probability=math.nan, scores=(math.inf, 1.0))

    (claim,) = content_of(page_of(CheckResult((answer,))))["answers"][0]["claims"]

    assert claim["probability"] is None
    assert claim["scores"] == [None, 1.0]


def test_hostile_texts_do_not_become_markup():
    """Answers come from models, and documents from anywhere."""
    answer = answer_of(HOSTILE, (HOSTILE, "contradicted"), question=HOSTILE, reason=HOSTILE)
    page = page_of(CheckResult((answer,), (HOSTILE,)), title=HOSTILE, note=HOSTILE)

    assert "<img" not in page
    assert page.count("</script>") == 2  # the data and the script
    assert content_of(page)["answers"][0]["question"] == HOSTILE


def test_security_policy_allows_only_the_script_of_the_page():
    """If a text were not escaped by mistake, a script in it would not run."""
    page = page_of(bridge_result())

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_the_page_refers_to_no_other_file():
    """Links lead to a place on the page (``#``), and the icon is empty (``data:,``)."""
    page = page_of(bridge_result())

    targets = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(target.startswith(("#", "data:,")) for target in targets)


def test_lone_surrogate_can_be_written(tmp_path):
    """Models sometimes write half a pair, and a file in UTF-8 cannot hold it."""
    path = tmp_path / "index.html"
    answer = CheckedAnswer("a", "half \ud83d", "half \ud83d", ())

    write_page(CheckResult((answer,)), path, title="half \ud83d", note="")

    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def storage_key_of(page):
    """Return the key by which the browser stores the corrections that a person makes on a page."""
    return content_of(page)["check"]


def test_pages_of_one_check_share_their_corrections():
    """The user may give the page of a repeated check another title."""
    page = page_of(bridge_result(), title="first title")
    page_with_another_title = page_of(bridge_result(), title="second title")

    assert storage_key_of(page_with_another_title) == storage_key_of(page)


def test_pages_of_different_checks_have_separate_corrections():
    page = page_of(bridge_result())
    page_with_another_answer = page_of(bridge_result(answer_of("more", ("One.", "supported"))))

    assert storage_key_of(page_with_another_answer) != storage_key_of(page)
