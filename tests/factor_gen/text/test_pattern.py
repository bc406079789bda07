"""Tokens, tags and entities of the pattern tagger."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factor_gen.text.analysis import find_times_and_quantities
from factor_gen.text.pattern import PatternTagger, tokenise

TAGGER = PatternTagger()


def words(text: str) -> list[str]:
    return [token.text for token in tokenise(text)]


def tag_of(text: str, word: str) -> str:
    return next(token.tag for token in TAGGER.analyse(text).tokens if token.text == word)


def kinds(text: str) -> dict[str, str]:
    return {entity.text: entity.kind for entity in TAGGER.analyse(text).entities}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It cost $1.98, up 5.6%.", ["It", "cost", "$1.98", ",", "up", "5.6%", "."]),
        ("The U.S. sold a 10-year bond.", ["The", "U.S.", "sold", "a", "10-year", "bond", "."]),
        (
            "They don't; Ann's dog doesn’t.",
            ["They", "do", "n't", ";", "Ann", "'s", "dog", "does", "n’t", "."],
        ),
        (
            "At 8:30 a.m. Mr. Oke met AT&T.",
            ["At", "8:30", "a.m.", "Mr.", "Oke", "met", "AT&T", "."],
        ),
        ("He left.Then", ["He", "left", ".", "Then"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "word", "tag"),
    [
        ("They plan to fire him today.", "fire", "VB"),
        ("The fire destroyed the mill.", "fire", "NN"),
        ("She had asked him twice.", "asked", "VBN"),
        ("The mill was opened in May.", "opened", "VBN"),
        ("The company's mill closed.", "'s", "POS"),
        ("It's raining on the mill.", "'s", "VBZ"),
        ("He will walk home.", "walk", "VB"),
        ("It sold 35 boats.", "35", "CD"),
        ("The 3rd boat sank.", "3rd", "JJ"),
    ],
)
def test_tags_are_mended(text: str, word: str, tag: str) -> None:
    assert tag_of(text, word) == tag


def test_names_by_kind() -> None:
    found = kinds(
        "On Monday Prime Minister Wendell Okafor met Mary Hollis of Tarn Shipping Group in Paris, a German envoy said."
    )
    assert found == {
        "Monday": "date",
        "Wendell Okafor": "person",
        "Mary Hollis": "person",
        "Tarn Shipping Group": "organisation",
        "Paris": "place",
        "German": "nationality",
    }


def test_the_first_word_of_a_sentence_is_no_name() -> None:
    assert kinds("Sailors left Norway.") == {"Norway": "place"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on Dec. 13, 2016 at 8:30 a.m.", [("Dec. 13, 2016", "date"), ("8:30 a.m.", "time")]),
        (
            "rose 5.6% to $1.98 billion in 2019",
            [("5.6%", "percent"), ("$1.98 billion", "money"), ("2019", "date")],
        ),
        (
            "three weeks in the 19th century",
            [("three weeks", "duration"), ("19th century", "date")],
        ),
        ("sold 2,019 boats last month", [("2,019", "number"), ("last month", "date")]),
        ("he may march", []),
        ("a 10-year-old in May 1987", [("10-year", "duration"), ("May 1987", "date")]),
    ],
)
def test_dates_and_quantities(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(entity.text, entity.kind) for entity in find_times_and_quantities(text)] == expected


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=300)
    | st.text(alphabet="aA. '’$%1,-\"“é\u0000\u202e\U0001f600<>\n", max_size=300)
)
def test_any_text_has_exact_offsets(text: str) -> None:
    analysis = TAGGER.analyse(text)
    assert all(text[token.start : token.end] == token.text for token in analysis.tokens)
    assert all(text[entity.start : entity.end] == entity.text for entity in analysis.entities)
    ends = [0, *(token.end for token in analysis.tokens)]
    assert all(end <= token.start for end, token in zip(ends, analysis.tokens, strict=False))
    assert (
        "".join(token.text for token in analysis.tokens) == "".join(text.split())
        or not text.isprintable()
    )
    assert all(
        one.end <= two.start
        for one, two in zip(analysis.entities, analysis.entities[1:], strict=False)
    )
