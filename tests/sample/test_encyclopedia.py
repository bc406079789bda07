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
    """The judge looks up evidence by title, so people who share a name need different titles."""
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


def facts_named_in(phrasings):
    """Return the facts in braces: {"mentor", "prize"} for ``["By {mentor}.", "Won {prize?...}."]``.

    The name, the profession and the kind of work are left out, since every article has them.
    """
    facts = set()
    for phrasing in phrasings:
        facts.update(re.findall(r"\{(\w+)", phrasing))
    return facts - {"name", "profession", "work_kind"}


def test_facts_of_held_out_phrasings_are_in_training_phrasings(world):
    """A model can only answer if the training text states the fact in other words."""
    for entity in world.entities:
        for topic in topics(entity):
            trained = training_forms(entity, topic)
            held_out = held_out_forms(entity, topic)

            facts_of_held_out = facts_named_in(held_out).intersection(entity.facts)
            assert set(trained).isdisjoint(held_out)
            assert facts_of_held_out <= facts_named_in(trained), topic
