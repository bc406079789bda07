"""What the lexical judge sees in a claim and its passages."""

from __future__ import annotations

import pytest

from bench.lexical.evaluate import split_passages
from judges.lexical.comparison import Comparison
from judges.lexical.model import FEATURES, common_order_share, feature_vector
from judges.lexical.words import ParsedPassage, parse_passage, parse_text


@pytest.mark.parametrize(
    ("claim", "passage", "missing"),
    [
        ("It has 1,200 rooms.", "With 1200 rooms", []),
        ("It has twelve rooms.", "With 12 rooms", []),
        ("She came 1st.", "She came first.", []),
        ("In the 1990s", "In the 1980s", ["1990s"]),
        ("It cost 3.5 million", "for 3.50 million", ["3.5"]),
        ("It has 12 rooms in 1990.", "It has 13 rooms in 1990.", ["12"]),
    ],
)
def test_numbers(claim, passage, missing):
    assert [
        word.text
        for word in Comparison(claim, [ParsedPassage(passage)]).missing_words
        if word.is_number
    ] == missing


@pytest.mark.parametrize(
    ("claim", "passage", "missing"),
    [
        ("He met Ada Hill.", "There Ada Maria Hill lived.", []),
        ("He met Ada Hill.", "Ada came by boat, and on the hill stood Otto.", ["Ada Hill"]),
        ("He met Ramón Martínez in Zürich.", "Ramon Martinez of Zurich", []),
        ("He came to Oslo and Lund.", "Lund", ["Oslo"]),
        ("Painters came.", "nothing", []),  # a capital that only begins the sentence
        ("He moved to the U.S. in May.", "the United States, in May", []),
    ],
)
def test_names(claim, passage, missing):
    found = Comparison(claim, [ParsedPassage(passage)]).missing_names
    assert [" ".join(word.text for word in name) for name in found] == missing


@pytest.mark.parametrize(
    ("claim", "passage", "differs"),
    [
        ("She never won the prize.", "She won the prize in Lund.", True),
        ("She never won the prize.", "She did not win the prize.", False),
        ("She won the prize.", "She didn't win, she won no prize.", True),
        ("She won the prize.", "She won the prize, though not in Lund.", False),
        ("She won the prize.", "He never smoked. She won the prize.", False),
    ],
)
def test_negation(claim, passage, differs):
    assert Comparison(claim, [ParsedPassage(passage)]).negation_differs is differs


@pytest.mark.parametrize(
    ("titles", "are"),
    [
        (("Ada Hill (painter)", "Ada Hill (pilot)"), True),
        (("Ada Hill", "Otto Hill"), True),
        (("Ada Hill", "Ada Hill"), False),
        (("Ada Hill", "Oslo"), False),
        (("", ""), False),
    ],
)
def test_namesakes_are_titles_that_share_a_word(titles, are):
    pair = Comparison(
        "She was born in 1990.", [ParsedPassage("Born in 1990.", title) for title in titles]
    )
    assert bool(pair.namesakes) is are


def test_words_of_one_family_are_related():
    pair = Comparison("The Swedish spy had a secret.", [ParsedPassage("A spy from Sweden")])
    assert [word.text for word in pair.missing_words] == ["Swedish", "secret"]
    assert [word.text for word in pair.unrelated_words] == ["secret"]


@pytest.mark.parametrize(
    ("passages", "share"),
    [
        (["She won a prize. It was in Lund."], 1.0),
        (["She won a prize. Years passed. It was in Lund."], 2 / 3),
        (["She won a prize.", "It was in Lund."], 2 / 3),
        ([], 0.0),
    ],
)
def test_words_count_together_in_neighbouring_sentences(passages, share):
    pair = Comparison("She won the prize in Lund.", [ParsedPassage(text) for text in passages])
    assert pair.neighbouring_share == pytest.approx(share)


def test_a_life_in_brackets_reads_as_born_and_died():
    words = parse_text(
        "Ada Hill (3 May 1901 \u2013 7 June 1980) was a pilot who passed away young."
    ).stem_sequence
    assert words == (
        "ada",
        "hill",
        "born",
        "3",
        "may",
        "1901",
        "die",
        "7",
        "june",
        "1980",
        "pilot",
        "die",
        "young",
    )


def test_numbers_of_any_length_are_read():
    assert [
        word.stem for word in parse_text(f"{'1' * 5000}st 03rd 21st 7,000,000").content_words
    ] == [
        "1" * 5000,
        "third",
        "21",
        "7000000",
    ]


def test_citation_marks_are_no_words():
    assert parse_text("She won [1][2, 3].").stem_sequence == ("won",)


def test_passages_of_a_joined_text():
    assert split_passages("Title: A\nfirst\nline\nTitle: B\nsecond") == (
        ParsedPassage("first\nline", "A"),
        ParsedPassage("second", "B"),
    )
    assert parse_passage("no title\nhere") == ParsedPassage("no title\nhere")


@pytest.mark.parametrize(
    ("needles", "haystack", "share"),
    [
        ("a b c d", "x a b c d x", 1.0),
        ("a b c d", "d c b a", 0.25),
        ("a b c d", "a b x x x x x x x c d", 1.0),
        ("a a b c", "a x", 0.25),
        ("a b c d", "", 0.0),
        ("", "a", 1.0),
    ],
)
def test_words_count_that_stand_in_the_same_order(needles, haystack, share):
    assert common_order_share(needles.split(), haystack.split()) == share


def test_alignment_is_the_longest_common_subsequence():
    from functools import cache
    from itertools import product

    for a, b in product(map(list, ("abcab", "bca", "aab")), map(list, ("bacba", "cabcab", "b"))):

        @cache
        def longest(i, j, a=a, b=b):
            if i == len(a) or j == len(b):
                return 0
            return (
                1 + longest(i + 1, j + 1)
                if a[i] == b[j]
                else max(longest(i + 1, j), longest(i, j + 1))
            )

        assert common_order_share(a, b) == longest(0, 0) / len(a)


@pytest.mark.parametrize(
    "claim",
    [
        "",
        "[1].",
        "...",
        "And so it was.",
        "\u0130\u1e9e \u2460 x\u0301",
        "Ada Hill won 3 prizes in May 1990.",
    ],
)
@pytest.mark.parametrize(
    "passages",
    [(), ("",), ("Title: \n",), ("Title: Ada Hill\nAda Hill won.", "Title: Otto Hill\nHe did.")],
)
def test_every_feature_is_a_share(claim, passages):
    features = feature_vector(Comparison(claim, [parse_passage(text) for text in passages]))
    assert features.shape == (len(FEATURES),)
    assert ((features >= 0) & (features <= 1)).all()
