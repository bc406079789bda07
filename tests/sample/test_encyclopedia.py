"""The fictional encyclopedia: the same on every machine, and fair as a benchmark."""

from __future__ import annotations

import itertools
import re

import pytest

from bench.sample.articles import build_documents, training_stream
from bench.sample.build import write_encyclopedia, write_prompts
from bench.sample.render import held_out_forms, topics, training_forms
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


def test_people_share_names_but_not_titles(world):
    people = [entity for entity in world.entities if entity.kind == "person"]
    assert len({entity.title for entity in world.entities}) == len(world.entities)
    namesakes = [entity for entity in people if len(world.bearers(entity.name)) > 1]
    assert len(namesakes) >= 30
    for entity in namesakes:
        assert len({other.facts["profession"] for other in world.bearers(entity.name)}) == 2


COMMON_SLOTS = {"name", "profession", "work_kind"}


def slots_of(forms):
    """The facts that forms of sentences name, such as ``{mentor}`` and ``{mentor?...}``."""
    return {slot for form in forms for slot in re.findall(r"\{(\w+)", form)}


def test_forms_are_held_out_of_the_training_text_but_their_facts_are_not(world):
    text = "\n".join(itertools.islice(training_stream(world, seed=2), 5_000))
    last = [re.split(r"(?<=[.!?]) ", document.text)[-1] for document in build_documents(world)]
    assert not [each for each in last if each in text]
    by_id = {entity.entity_id: entity for entity in world.entities}
    for entity in by_id.values():
        for topic in topics(entity):
            known = set(training_forms(entity, topic))
            hidden = held_out_forms(entity, topic)
            assert known.isdisjoint(hidden)
            for slot in slots_of(hidden) & entity.facts.keys() - COMMON_SLOTS:
                assert slot in slots_of(known), (topic, slot)
