"""The stage ``generate`` with rules: what it makes of sentences, and that any text is safe."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from factor_gen.generate.rules.generator import RulesGenerator
from factor_gen.records import ERROR_TYPES, Candidate, Example
from factor_gen.settings import GenerateSettings, TypesSettings
from factor_gen.types import TypesStage

TYPES = TypesStage(TypesSettings())
PREFIX = "Mary Hollis met Peter Lund in Oslo. Anna Berg said Norway had bought the mill. "
BOAT_SENTENCE = (
    "On Monday she sold 36 boats to the largest bank in Norway as the river rose sharply after the"
    " storm."
)
"""A sentence that has something to edit for every rule but that for denials."""


def open_generator(seed: int = 0, per_type: int = 4, filtered: bool = False) -> RulesGenerator:
    """Return the stage.

    Args:
        seed: The seed of the build.
        per_type: How many contradictions of each error type it makes.
        filtered: Whether a filter follows, so that it offers all that it can make.
    """
    generate = GenerateSettings(generator="rules", per_type=per_type)
    return RulesGenerator(generate, TypesSettings(), seed, filtered=filtered)


def generate(
    text: str,
    prefix: str = PREFIX,
    seed: int = 0,
    per_type: int = 4,
    filtered: bool = False,
) -> Example:
    """Return a sentence with its contradictions.

    Args:
        text: The sentence.
        prefix: The text before it.
        seed: The seed of the build.
        per_type: How many contradictions of each error type are made.
        filtered: Whether a filter follows.
    """
    examples = TYPES.run([Example("1", prefix, text)])
    [example] = open_generator(seed, per_type, filtered).run(examples)
    return example


def texts_of(example: Example) -> list[str]:
    """Return the texts of an example's contradictions."""
    return [candidate.text for candidate in example.candidates]


def generators_of(example: Example) -> list[str]:
    """Return the operator that made each contradiction, such as ``rules/date``."""
    return [candidate.generator for candidate in example.candidates]


def apply_recorded_edit(text: str, edit: str) -> set[str]:
    """Return all texts that a recorded edit can make of a sentence.

    The record does not say which of several equal words was replaced.

    Args:
        text: The sentence.
        edit: The edit as it is recorded, such as ``Monday -> Friday; 36 -> 38``. Its replacements
            are in order from left to right.
    """
    # Each state has the text up to the last replacement, and the rest of the sentence.
    states = {("", text)}
    for replacement in edit.split("; "):
        old, new = replacement.split(" -> ", 1)
        next_states = set()
        for edited, rest in states:
            for start in range(len(rest) + 1):
                if rest.startswith(old, start):
                    next_states.add((edited + rest[:start] + new, rest[start + len(old) :]))
        states = next_states
    return {edited + rest for edited, rest in states}


def assert_recorded_edits(text: str, candidates: Iterable[Candidate]) -> None:
    """Assert that contradictions are edits of a sentence, with a complete and correct record."""
    # In these texts, the record of an edit would be ambiguous or take too long to check.
    is_replayable = "; " not in text and " -> " not in text and len(text) < 2000
    for candidate in candidates:
        assert candidate.text.casefold() != text.casefold()
        assert candidate.type in ERROR_TYPES
        assert candidate.generator.startswith("rules/")
        assert candidate.edit.strip()
        assert candidate.text.count("  ") <= text.count("  ")
        # The mark at the end stays.
        assert candidate.text[-1:] == text[-1:] or text[-1:].isalnum()
        if is_replayable:
            assert candidate.text in apply_recorded_edit(text, candidate.edit)


def test_a_sentence_gets_contradictions_of_several_types_and_operators() -> None:
    """Otherwise the benchmark would measure one kind of error only."""
    example = generate(BOAT_SENTENCE)

    types = {candidate.type for candidate in example.candidates}
    assert types == {"entity", "predicate", "circumstance"}
    assert len(set(generators_of(example))) >= 4


def test_the_contradictions_of_a_sentence_are_distinct() -> None:
    """A row with two equal choices would have no meaningful score."""
    example = generate(BOAT_SENTENCE)

    assert len(set(texts_of(example))) == len(example.candidates)


def test_the_contradictions_of_a_sentence_are_recorded_edits_of_it() -> None:
    """Among other things, each is the sentence after the edit that its record names."""
    example = generate(BOAT_SENTENCE)

    assert example.candidates
    assert_recorded_edits(BOAT_SENTENCE, example.candidates)


def test_more_contradictions_are_offered_if_a_filter_follows() -> None:
    """The filter rejects many of them, and a row needs three."""
    unfiltered = generate(BOAT_SENTENCE, per_type=30)
    filtered = generate(BOAT_SENTENCE, per_type=30, filtered=True)

    assert set(texts_of(unfiltered)) < set(texts_of(filtered))


def test_a_question_has_no_contradiction() -> None:
    """A question states nothing that could be false."""
    text = "After she sold the boats, can the bank in Norway buy 36 boats?"

    assert generate(text).unused == "generate: no contradiction"


def test_compatible_edit_is_counted_but_not_made() -> None:
    """A mill that sold over 300 boats also sold over 200, and may have sold over 400."""
    example = generate("The mill sold over 300 boats in Oslo on Monday because the river rose.")

    assert example.candidates
    for text in texts_of(example):
        assert "over 300 boats" in text
    assert example.lost["rules: quantities that may both hold"] >= 1


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("The gnutls_global_init() call is kept.", "gnutls_global_init()"),
        ("The file small.txt is kept there by Anna.", "small.txt"),
        ("It is kept with --large as option.", "--large"),
    ],
)
def test_words_in_an_identifier_are_not_edited(text: str, identifier: str) -> None:
    """A change of the name "small.txt" would name another file, and would contradict nothing."""
    for edited in texts_of(generate(text)):
        assert identifier in edited


def test_a_value_is_replaced_several_times_if_there_are_too_few_contradictions() -> None:
    """Usually a year is replaced by two others. Here nothing else can be edited, so it is by four."""
    example = generate("The mill burned in 1921.", per_type=9)

    assert generators_of(example) == ["rules/date"] * 4


def test_a_value_is_replaced_less_often_if_there_are_other_contradictions() -> None:
    """The three contradictions of a row should not all change the same number."""
    generators = generators_of(generate(BOAT_SENTENCE, per_type=9))

    assert generators.count("rules/number") == 2
    assert generators.count("rules/date") == 2


def test_the_same_seed_makes_the_same_contradictions() -> None:
    """Other people must be able to build the same benchmark."""
    assert generate(BOAT_SENTENCE) == generate(BOAT_SENTENCE)


def test_another_seed_makes_other_contradictions() -> None:
    """Each seed draws other numbers and names."""
    assert generate(BOAT_SENTENCE, seed=1).candidates != generate(BOAT_SENTENCE).candidates


def test_the_contradictions_of_a_document_do_not_depend_on_the_others() -> None:
    """Otherwise the size of a shard would change the benchmark."""
    examples = TYPES.run(
        [Example("0", "", "He left on Monday."), Example("1", PREFIX, BOAT_SENTENCE)]
    )

    [_, example] = open_generator().run(examples)

    assert example == generate(BOAT_SENTENCE)


def test_a_sentence_without_a_contradiction_is_dropped() -> None:
    """No rule can replace a word of this sentence."""
    assert generate("Oh, boats and boats.", prefix="").unused == "generate: no contradiction"


def test_unused_document_passes_unchanged() -> None:
    """The build reports at its end why an earlier stage dropped the document."""
    unused = Example("1", unused="types: nothing to edit")

    assert open_generator().run([unused]) == [unused]


def test_the_fingerprint_is_the_same_for_the_same_settings() -> None:
    """A build that goes on keeps its finished shards only if the fingerprint is the same."""
    assert open_generator().fingerprint == open_generator().fingerprint


@pytest.mark.parametrize("changes", [{"seed": 1}, {"per_type": 2}])
def test_a_setting_that_changes_the_contradictions_changes_the_fingerprint(
    changes: dict[str, int],
) -> None:
    """If the fingerprint changes, shards of an earlier build are made again."""
    assert open_generator(**changes).fingerprint != open_generator().fingerprint


FRAGMENTS = st.sampled_from(
    [
        BOAT_SENTENCE,
        "He did not sell it.",
        "<p>On Jan. 3, 2019 5.6%</p>",
        "\u0000",
        "\U0001f600",
        "\u202eשלום",
        " ",
        "\n",
        "-",
        "a a an ",
        "(Reuters) - ",
        "“",
        "'s",
        "1,000,000",
        "May",
    ]
)
"""Pieces of texts that rules look at, and others that are unusual."""


@settings(max_examples=80, deadline=None)
@given(
    text=st.text(max_size=200) | st.lists(FRAGMENTS, max_size=8).map("".join),
    prefix=st.text(max_size=100) | st.just(PREFIX),
)
def test_the_contradictions_of_any_text_are_recorded_edits_of_it(text: str, prefix: str) -> None:
    """Corpora have texts with markup, emoji and control characters."""
    assert_recorded_edits(text, generate(text, prefix).candidates)


MAX_SECONDS = 20
"""How long a long text may take. A rule that looks back from every word would take minutes."""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("word", id="one word"),
        pytest.param("a" * 100_000, id="one long word"),
        pytest.param("Tarn " * 20_000, id="names"),
        pytest.param("1," * 50_000, id="numbers"),
        pytest.param("“" * 50_000, id="open quotes"),
        pytest.param("He said. " * 2_000, id="sentences"),
    ],
)
def test_a_long_text_takes_seconds_at_most(text: str) -> None:
    """One document of a corpus must not stop a build for hours."""
    start = time.process_time()
    generate(text, prefix=text)
    seconds = time.process_time() - start

    assert seconds < MAX_SECONDS


@pytest.fixture(scope="module")
def news_examples(shared: Path) -> list[Example]:
    """Return the first 200 rows of News-FACTOR, for which the error types are known."""
    path = shared / "data" / "factor" / "news_factor.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:200]
    return TYPES.run(
        [Example(row["doc_id"], row["full_prefix"], row["completion"]) for row in rows]
    )


@pytest.fixture(scope="module")
def generated_news(news_examples: list[Example]) -> list[Example]:
    """Return these rows with contradictions by the rules."""
    return open_generator().run(news_examples)


def test_about_half_of_published_sentences_get_enough_contradictions_for_a_row(
    generated_news: list[Example],
) -> None:
    """Three contradictions make a row, and a change of the rules must not lose rows."""
    num_enough = sum(len(example.candidates) >= 3 for example in generated_news)

    assert num_enough >= 0.47 * len(generated_news)


def test_three_in_ten_published_sentences_get_a_row_of_two_error_types(
    generated_news: list[Example],
) -> None:
    """The share was measured, and a change of the rules must not lower it."""
    num_rows = 0
    for example in generated_news:
        types = {candidate.type for candidate in example.candidates}
        has_row = len(example.candidates) >= 3 and len(types) >= 2
        num_rows += 1 if has_row else 0

    assert num_rows >= 0.3 * len(generated_news)


def test_the_contradictions_of_published_sentences_are_recorded_edits(
    news_examples: list[Example], generated_news: list[Example]
) -> None:
    for published, example in zip(news_examples, generated_news, strict=True):
        assert_recorded_edits(published.completion, example.candidates)


def test_the_contradictions_of_published_sentences_are_small_edits(
    news_examples: list[Example], generated_news: list[Example]
) -> None:
    """By table 2 of the paper, a published contradiction differs from the truth in 2.1 words."""
    distances_in_words = []
    for published, example in zip(news_examples, generated_news, strict=True):
        words = published.completion.split()
        for text in texts_of(example):
            distances_in_words.append(Levenshtein.distance(words, text.split()))

    assert mean(distances_in_words) <= 2.5
