"""The fictional encyclopedia: the same on every machine, and fair as a benchmark."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from bench.sample.articles import build_documents, corpus, training_stream
from bench.sample.build import write_encyclopedia, write_prompts
from bench.sample.render import FRAMES, held_out_forms, render, topics, training_forms
from bench.sample.world import build_world
from tests.conftest import TASKS

SAMPLE = TASKS / "sample"


@pytest.fixture(scope="module")
def world():
    return build_world(0)


def test_the_committed_files_are_what_the_seed_gives(world, tmp_path):
    write_encyclopedia(world, tmp_path / "encyclopedia.jsonl")
    assert (tmp_path / "encyclopedia.jsonl").read_bytes() == (
        SAMPLE / "encyclopedia.jsonl"
    ).read_bytes(), "run: make sample"
    write_prompts(world, tmp_path / "sample_longform.jsonl")
    assert (tmp_path / "sample_longform.jsonl").read_bytes() == (
        SAMPLE / "sample_longform.jsonl"
    ).read_bytes(), "run: make sample"


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
        for topic, forms in FRAMES[entity.kind].items():
            assert topic in topics(entity)
            for form in forms:
                text = render(entity, topic, form, entity.name).text
                assert "{" not in text
                assert text[0].isupper()
                assert text.endswith(".")
                assert " a a" not in text.lower().replace(" a an", "")


def test_forms_are_held_out_of_the_training_text_but_their_facts_are_not(world):
    text = "\n".join(itertools.islice(training_stream(world, seed=2), 5_000))
    last = [re.split(r"(?<=[.!?]) ", document.text)[-1] for document in build_documents(world)]
    assert not [each for each in last if each in text]
    by_id = {entity.entity_id: entity for entity in world.entities}
    for entity in by_id.values():
        for topic in topics(entity):
            told = set(training_forms(entity, topic))
            assert told.isdisjoint(held_out_forms(entity, topic))
            slots = {
                slot for form in told for slot in form.replace("?", "}").split("{") if "}" in slot
            }
            for form in held_out_forms(entity, topic):
                for slot in (part for part in form.replace("?", "}").split("{") if "}" in part):
                    name = slot.split("}")[0]
                    if name in entity.facts and name not in ("name", "profession", "work_kind"):
                        assert any(name in other for other in slots), (topic, form, name)


def test_the_encyclopedia_has_an_article_for_everyone(world):
    records = [json.loads(line) for line in (SAMPLE / "encyclopedia.jsonl").open(encoding="utf-8")]
    assert [record["title"] for record in records] == [entity.title for entity in world.entities]
    assert [record["text"] for record in records] == [
        article.text.split("\n", 1)[1] for article in corpus(world)
    ]
