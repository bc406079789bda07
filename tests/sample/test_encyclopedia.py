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
    """Return the made-up world of the sample."""
    return build_world(0)


@pytest.mark.parametrize(
    ("write", "name"),
    [(write_encyclopedia, "encyclopedia.jsonl"), (write_prompts, "sample_longform.jsonl")],
)
def test_seed_reproduces_the_committed_files(world, tmp_path, write, name):
    """Anyone can build the files again, byte for byte, and see that nobody edited them by hand."""
    write(world, tmp_path / name)

    assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), "run: make sample"


def test_article_titles_are_unique(world):
    """A title is what evidence is found by, even of people who share a name."""
    titles = {entity.title for entity in world.entities}

    assert len(titles) == len(world.entities)


def test_people_who_share_a_name_have_different_professions(world):
    """The profession tells two people of one name apart, as in AmbigBio."""
    people = [entity for entity in world.entities if entity.kind == "person"]

    namesakes = [person for person in people if len(world.bearers(person.name)) > 1]

    assert len(namesakes) >= 30
    for person in namesakes:
        professions = {namesake.facts["profession"] for namesake in world.bearers(person.name)}
        assert len(professions) == 2


def test_the_last_sentences_of_documents_are_not_in_the_training_text(world):
    """The last sentence is what a model completes.

    One that was seen in training needs no knowledge.
    """
    training_text = "\n".join(itertools.islice(training_stream(world, seed=2), 5_000))

    documents = build_documents(world)

    last_sentences = [re.split(r"(?<=[.!?]) ", document.text)[-1] for document in documents]
    assert [sentence for sentence in last_sentences if sentence in training_text] == []


COMMON_SLOTS = {"name", "profession", "work_kind"}


def slots_of(forms):
    """Return the facts that forms of sentences name, such as ``{mentor}`` and ``{mentor?...}``."""
    return {slot for form in forms for slot in re.findall(r"\{(\w+)", form)}


def test_held_out_phrasings_express_the_facts_of_training_phrasings(world):
    """A model must have seen every fact that it is asked about, in other words."""
    for entity in world.entities:
        specific_facts = entity.facts.keys() - COMMON_SLOTS
        for topic in topics(entity):
            known_forms = set(training_forms(entity, topic))
            hidden_forms = held_out_forms(entity, topic)

            hidden_facts = slots_of(hidden_forms) & specific_facts
            assert known_forms.isdisjoint(hidden_forms)
            assert hidden_facts <= slots_of(known_forms), topic
