"""The card says what the build did, and what it did not."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType

import pytest
import yaml

from factor_gen.output.card import dataset_card
from factor_gen.output.counts import Counts
from factor_gen.settings import (
    ChooseSettings,
    CorpusSettings,
    FilterSettings,
    FluencySettings,
    GenerateSettings,
    NliSettings,
    TypesSettings,
)
from tests.factor_gen.output.conftest import make_settings


@pytest.fixture
def counts(items):
    counts = Counts()
    for item in items:
        counts.add(item)
    return counts


@pytest.fixture
def card(counts, provenance):
    def make(audit=MappingProxyType({}), stages=None, **changes):
        made_from = provenance if stages is None else dataclasses.replace(provenance, stages=stages)
        return dataset_card(make_settings(**changes), made_from, counts, audit)

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
    assert ("select", "6", "2", "4") in found
    assert ("choose", "4", "1", "3") in found
    assert ("select", "no sentence of 10 words or more", "2") in found
    assert ("predicate", "3", "33.3", "25.4", "31.3", "47.1") in found
    assert ("rejected by a filter", "not fluent", "3") in found
    assert ("not usable as written", "no change", "3") in found
    assert ("words", "1.3 ± 0.5", "2.3 ± 1.4", "2.1 ± 1.4", "4.0 ± 3.1") in found


def test_it_says_how_many_documents_gave_a_row(card):
    assert (
        "Of the 4 documents in which a sentence was found, 75.0% gave a row, 75.0% one of two or more types."
        in card()
    )


def test_it_says_how_many_contradictions_are_doubtful(card, items):
    (first, *others) = items[0].contradictions
    sure, more = Counts(), Counts()
    for counts, degree in ((sure, 0), (more, 1)):
        counts.add(
            dataclasses.replace(
                items[0], contradictions=(dataclasses.replace(first, doubtful=degree), *others)
            )
        )
    assert [each.to_json()["doubtful"] for each in (sure, more)] == [
        {"0": 3, "1": 0, "2": 0},
        {"0": 2, "1": 1, "2": 0},
    ]
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


def test_it_names_the_models_as_the_stages_knew_them(card):
    stages = {
        "types": {"tagger": {"tagger": "spacy", "model": "en_core_web_sm", "version": "3.8.0"}},
        "generate": {"generator": "llm", "judge": "openai:localhost:8000/v1:chat:some/model"},
        "filter": {
            "nli": {"model": "microsoft/deberta-large-mnli", "revision": "abc"},
            "fluency": {"model": "tiny", "sha256": "f00"},
        },
    }
    text = card(
        stages=stages,
        generate=GenerateSettings("llm", "j.yaml"),
        types=TypesSettings(tagger="spacy"),
        filter=FilterSettings(),
    )
    assert [
        row for row in rows(text) if row[0] in ("types", "generate") or row[0].startswith("filter:")
    ][-4:] == [
        ("types", "en_core_web_sm", "3.8.0"),
        ("generate", "openai:localhost:8000/v1:chat:some/model", ""),
        ("filter: contradiction", "microsoft/deberta-large-mnli", "abc"),
        ("filter: fluency", "tiny", "f00"),
    ]
    assert "newest" not in text
    rules = {
        "types": {"tagger": {"tagger": "pattern"}},
        "generate": {"generator": "rules"},
        "filter": {"nli": "none", "fluency": "none"},
    }
    assert "| stage | model |" not in card(stages=rules)


def test_sentences_with_two_edits_are_told_of(card):
    assert "edit of the first" not in card()
    hidden = ChooseSettings(hide_centre=True)
    assert "have the edit of the first made in them too" in (off := card(choose=hidden))
    assert "No filter saw" not in off  # none saw any
    assert "**No filter saw such a sentence as a whole**" in card(
        choose=hidden, filter=FilterSettings(nli=None)
    )


def test_an_audit_becomes_a_table(card):
    text = card(
        {"fewest words": {"accuracy": 0.2512, "interval": "22 - 28"}, "odd | name": {"accuracy": 1}}
    )
    assert ("fewest words", "0.251", "22 - 28") in rows(text)
    assert "odd \\| name" in text


def test_engines_do_not_show(card):
    assert "ray" not in card()
    assert "workers" not in card()


def test_text_that_no_file_can_hold_is_mended(card):
    assert "\ufffd" in card(corpus=CorpusSettings(path="x", source="half \ud800"))
