"""The card says what the build did, and what it did not."""

from __future__ import annotations

import pytest
import yaml

from factor_gen.audit.audit import audit_rows
from factor_gen.choose import ChosenRow
from factor_gen.output.card import dataset_card
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.settings import (
    ChooseSettings,
    CorpusSettings,
    FilterSettings,
    FluencySettings,
    GenerateSettings,
    NliSettings,
)
from lm_factuality.benchmarks.factor.rows import make_row
from tests.factor_gen.output.conftest import make_settings

TYPES = ("entity", "circumstance", "predicate")


@pytest.fixture
def card(items, provenance):
    """Make the card of the small build with other settings."""
    built = BuiltBenchmark({}, {"language is not en": 4})
    for item in items:
        built.count(item)
    rows = [
        make_row("x:1", row.example.doc_id, row.example.prefix, texts, 0, ["", *TYPES])
        for row in items
        if isinstance(row, ChosenRow)
        for texts in [[row.example.completion, *(false.text for false in row.contradictions)]]
    ]
    audit = audit_rows(rows)

    def make(**changes):
        return dataset_card(make_settings(**changes), provenance.corpus, built.to_json(), audit)

    return make


def front_matter(text: str) -> dict:
    return yaml.safe_load(text.split("---\n")[1])


def rows(text: str) -> list[tuple[str, ...]]:
    return [
        tuple(cell.strip() for cell in line.strip("|\n").split(" | "))
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_the_hub_can_read_it(card):
    head = front_matter(card())
    assert head["license"] == "mit"
    assert head["task_categories"] == ["multiple-choice", "text-generation"]
    assert head["configs"] == [
        {"config_name": "default", "data_files": [{"split": "test", "path": "harbours.parquet"}]}
    ]
    assert head["size_categories"] == ["n<1K"]


def test_a_licence_that_the_hub_does_not_know_is_named(card):
    head = front_matter(
        card(corpus=CorpusSettings(path="x.txt", license="Terms of the harbour: 'ask first'"))
    )
    assert (head["license"], head["license_name"]) == ("other", "Terms of the harbour: 'ask first'")


def test_it_counts_stages_reasons_and_types(card):
    found = rows(card())
    assert ("select", "6", "2") in found
    assert ("choose", "4", "1") in found
    assert ("select", "no sentence of 10 words or more", "2") in found
    assert ("predicate", "3", "33.3", "25.4", "31.3", "47.1") in found
    assert ("not fluent", "3") in found
    assert ("no change", "3") in found
    assert ("left out", "4 rows: language is not en") in found
    assert "1.3 ± 0.5. Beside table 2: Wiki 2.3 ± 1.4, News 2.1 ± 1.4, Expert 4.0 ± 3.1." in card()


def test_it_says_how_many_documents_gave_a_row(card):
    assert (
        "Of the 4 documents in which a sentence was found, 75.0% gave a row, 75.0% one of two or more types."
        in card()
    )


def test_it_says_how_many_contradictions_are_doubtful(card):
    text = card()
    assert "0 are denials in other words (*is no longer*), and 0 come of rules" in text
    assert "only where a row lacked others." in text
    assert "lacked others, and none of the latter." in card(choose=ChooseSettings(most_doubtful=1))
    assert "lacked others; none of either is among the rows." in card(
        choose=ChooseSettings(most_doubtful=0)
    )
    assert "in other words" not in card(generate=GenerateSettings("llm", "lexical"))


def test_a_filter_that_was_off_is_said_to_be(card):
    off = card()
    assert "**The contradiction filter was off**" in off
    assert "**The fluency filter was off**" in off
    on = card(
        filter=FilterSettings(NliSettings(threshold=0.7), FluencySettings("/home/me/models/tiny"))
    )
    assert "was off" not in on
    assert (
        "`microsoft/deberta-large-mnli` gives the contradiction more than 0.7 (coreference: 0.3)"
        in on
    )
    assert "`tiny` gives a mean log-likelihood" in on
    assert "/home/me" not in on
    assert "words before" not in on
    near = card(
        filter=FilterSettings(None, FluencySettings("tiny", margin=0.05, best=2, context=60))
    )
    assert (
        "0.05 nats per token below that of the original, each read after the 60 words before it. Of each type the 2 likeliest"
        in near
    )
    half = card(filter=FilterSettings(nli=None))
    assert "contradiction filter was off" in half
    assert "fluency filter was off" not in half


def test_sentences_with_two_edits_are_told_of(card):
    assert "edit of the first" not in card()
    hidden = ChooseSettings(hide_most_central=True)
    assert "have the edit of the first made in them too" in (off := card(choose=hidden))
    assert "No filter saw" not in off  # none saw any
    assert "**No filter saw such a sentence as a whole**" in card(
        choose=hidden, filter=FilterSettings(nli=None)
    )


def test_it_shows_what_the_rows_give_away(card):
    table = {row[0]: row for row in rows(card())}
    assert table["most words"][1:3] == ("surface", "50.0%")
    assert table["most words"][-1] == "too few documents to tell"


def test_engines_do_not_show(card):
    assert "ray" not in card()
    assert "workers" not in card()


def test_text_that_no_file_can_hold_is_mended(card):
    assert "\ufffd" in card(corpus=CorpusSettings(path="x", source="half \ud800"))
