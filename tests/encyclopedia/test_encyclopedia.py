"""The fictional encyclopedia: the same on every machine, and fair as a benchmark."""

from __future__ import annotations

import collections
import csv
import itertools
import json

import pytest

from lm_factuality.encyclopedia.articles import corpus, training_sentences, training_stream
from lm_factuality.encyclopedia.benchmark import MIN_WORDS, build_examples
from lm_factuality.encyclopedia.build import DOCUMENTS, ROWS_PER_DOCUMENT, write_benchmark, write_encyclopedia
from lm_factuality.encyclopedia.render import frames, held_out_forms, render, topics, training_forms
from lm_factuality.encyclopedia.world import build_world
from tests.conftest import TASKS

SAMPLE = TASKS / "sample"


@pytest.fixture(scope="module")
def world():
    return build_world(0)


@pytest.fixture(scope="module")
def examples(world):
    return list(build_examples(world, DOCUMENTS, ROWS_PER_DOCUMENT))


def test_the_committed_files_are_what_the_seed_gives(world, tmp_path):
    write_benchmark(world, tmp_path / "sample_factor.csv")
    write_encyclopedia(world, tmp_path / "encyclopedia.jsonl")
    for name in ("sample_factor.csv", "encyclopedia.jsonl"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), f"run: make sample ({name} is stale)"


def test_another_seed_is_another_world(world):
    assert build_world(1).entities[0].name != world.entities[0].name


def test_people_share_names_but_not_titles(world):
    people = [entity for entity in world.entities if entity.kind == "person"]
    assert len({entity.title for entity in world.entities}) == len(world.entities)
    namesakes = [entity for entity in people if len(world.named(entity.name)) > 1]
    assert len(namesakes) >= 30
    for entity in namesakes:
        assert len({other.facts["profession"] for other in world.named(entity.name)}) == 2


def test_lives_run_forward(world):
    for entity in world.entities:
        if entity.kind == "person":
            facts = entity.facts
            assert facts["birth_year"] + 18 <= facts["year1"] < facts["year2"] < facts["death_year"]
            assert facts["birth_year"] < facts["marriage_year"] < facts["death_year"]


def test_every_form_can_be_told_of_every_entity(world):
    for entity in world.entities:
        for topic, forms in frames()[entity.kind].items():
            assert topic in topics(entity)
            for form in forms:
                text = render(entity, topic, form, entity.name).text
                assert "{" not in text
                assert text[0].isupper()
                assert text.endswith(".")
                assert " a a" not in text.lower().replace(" a an", "")


def test_benchmark_sentences_are_not_in_the_training_text_but_their_facts_are(world, examples):
    text = "\n".join(itertools.islice(training_stream(world, seed=2), 5_000))
    assert not [example.completion for example in examples if example.completion in text]
    assert training_sentences(world).isdisjoint(example.completion for example in examples)
    by_id = {entity.entity_id: entity for entity in world.entities}
    for entity in by_id.values():
        for topic in topics(entity):
            told = set(training_forms(entity, topic))
            assert told.isdisjoint(held_out_forms(entity, topic))
            slots = {slot for form in told for slot in form.replace("?", "}").split("{") if "}" in slot}
            for form in held_out_forms(entity, topic):
                for slot in (part for part in form.replace("?", "}").split("{") if "}" in part):
                    name = slot.split("}")[0]
                    if name in entity.facts and name not in ("name", "profession", "work_kind"):
                        assert any(name in other for other in slots), (topic, form, name)


def test_prefixes_hold_no_form_of_the_benchmark(examples):
    assert not [example for example in examples if example.completion in example.prefix]


def test_contradictions_are_minimal_distinct_and_of_several_types(examples):
    assert 380 <= len(examples) <= 450
    for example in examples:
        assert len(example.completion.split()) >= MIN_WORDS
        assert len({example.completion, *(false.text for false in example.contradictions)}) == 4
        assert len({false.error_type for false in example.contradictions}) >= 2
        for false in example.contradictions:
            assert len(false.text.split()) - len(example.completion.split()) in range(-4, 5), false


def test_all_error_types_of_the_paper_occur(examples):
    counts = collections.Counter(false.error_type for example in examples for false in example.contradictions)
    assert set(counts) == {"entity", "predicate", "circumstance", "coreference", "link"}
    assert min(counts.values()) >= 20


def test_surfaces_give_nothing_away(examples):
    """No choice by length or by characters is better than chance: 25% of 400 rows and three standard errors. Worse is
    to be expected: a minimal edit makes some sentences longer and some shorter, and the true one lies between."""
    for rule in (len, lambda text: -len(text), lambda text: sum(map(ord, text)) / len(text)):
        hits = 0.0
        for example in examples:
            scores = [rule(text) for text in (example.completion, *(false.text for false in example.contradictions))]
            hits += (scores[0] == max(scores)) / scores.count(max(scores))
        assert hits / len(examples) < 0.315


def test_the_encyclopedia_has_an_article_for_everyone(world):
    records = [json.loads(line) for line in (SAMPLE / "encyclopedia.jsonl").open(encoding="utf-8")]
    assert [record["title"] for record in records] == [entity.title for entity in world.entities]
    assert [record["text"] for record in records] == [article.text.split("\n", 1)[1] for article in corpus(world)]


def test_rows_cluster_by_article():
    with (SAMPLE / "sample_factor.csv").open(encoding="utf-8", newline="") as file:
        counts = collections.Counter(row["doc_id"] for row in csv.DictReader(file))
    assert max(counts.values()) == ROWS_PER_DOCUMENT
    assert len(counts) > 200


def test_more_documents_than_entities_is_refused(world):
    with pytest.raises(ValueError, match="the world has 220"):
        list(build_examples(world, 221, 1))
