"""The pattern tagger: tokens, part-of-speech tags and named entities without a model."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factor_gen.text.analysis import find_times_and_quantities
from factor_gen.text.pattern import PatternTagger, tokenise

TAGGER = PatternTagger()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "It cost $1.98, up 5.6%.",
            ["It", "cost", "$1.98", ",", "up", "5.6%", "."],
            id="amounts stay whole",
        ),
        pytest.param(
            "The U.S. sold a 10-year bond.",
            ["The", "U.S.", "sold", "a", "10-year", "bond", "."],
            id="abbreviations and hyphens",
        ),
        pytest.param(
            "They don't; Ann's dog doesn’t.",
            ["They", "do", "n't", ";", "Ann", "'s", "dog", "does", "n’t", "."],
            id="contractions are split",
        ),
        pytest.param(
            "At 8:30 a.m. Mr. Oke met AT&T.",
            ["At", "8:30", "a.m.", "Mr.", "Oke", "met", "AT&T", "."],
            id="times, titles and an ampersand",
        ),
        pytest.param("He left.Then", ["He", "left", ".", "Then"], id="no space after a full stop"),
    ],
)
def test_a_text_is_split_into_tokens(text: str, expected: list[str]) -> None:
    """Rules replace whole tokens, so an amount or an abbreviation must stay in one piece."""
    assert [token.text for token in tokenise(text)] == expected


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
def test_the_tag_of_a_word_depends_on_the_words_before_it(text: str, word: str, tag: str) -> None:
    """The word "fire" is a verb after "to" and a noun after "the"."""
    tags = {token.text: token.tag for token in TAGGER.analyse(text).tokens}

    assert tags[word] == tag


def entity_kinds(text: str) -> dict[str, str]:
    """Return the kind of each named entity in a text."""
    return {entity.text: entity.kind for entity in TAGGER.analyse(text).entities}


def test_named_entities_are_found_with_their_kinds() -> None:
    """Titles such as "Prime Minister" are not part of a name."""
    text = (
        "On Monday Prime Minister Wendell Okafor met Mary Hollis of Tarn Shipping Group in Paris,"
        " a German envoy said."
    )

    assert entity_kinds(text) == {
        "Monday": "date",
        "Wendell Okafor": "person",
        "Mary Hollis": "person",
        "Tarn Shipping Group": "organisation",
        "Paris": "place",
        "German": "nationality",
    }


def test_capitalized_first_word_is_no_name() -> None:
    """The first word of every sentence has a capital letter."""
    assert entity_kinds("Sailors left Norway.") == {"Norway": "place"}


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
        ("a 10-year-old in May 1987", [("10-year", "duration"), ("May 1987", "date")]),
        pytest.param("he may march", [], id="verbs that are no months"),
    ],
)
def test_times_and_quantities_are_found_with_their_kinds(
    text: str, expected: list[tuple[str, str]]
) -> None:
    """A time is replaced by a time and an amount of money by an amount of money."""
    entities = find_times_and_quantities(text)

    assert [(entity.text, entity.kind) for entity in entities] == expected


ANY_TEXT = st.text(max_size=300) | st.text(
    alphabet="aA. '’$%1,-\"“é\u0000\u202e\U0001f600<>\n", max_size=300
)
"""Texts of any characters, and texts of those that the tagger looks at."""


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT)
def test_tokens_and_entities_match_their_offsets(text: str) -> None:
    """An edit cuts the text there, whatever its characters are."""
    analysis = TAGGER.analyse(text)

    for span in (*analysis.tokens, *analysis.entities):
        assert text[span.start : span.end] == span.text


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT)
def test_tokens_and_entities_are_in_order_and_do_not_overlap(text: str) -> None:
    """Several of them may be replaced at once, so no character may belong to two."""
    analysis = TAGGER.analyse(text)

    for first, second in pairwise(analysis.tokens):
        assert first.end <= second.start
    for first, second in pairwise(analysis.entities):
        assert first.end <= second.start


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT.filter(str.isprintable))
def test_the_tokens_of_a_printable_text_have_all_its_characters_but_white_space(text: str) -> None:
    """A character in no token could never be edited, and would be lost."""
    tokens = TAGGER.analyse(text).tokens

    assert "".join(token.text for token in tokens) == "".join(text.split())
