"""The corpus of the sample benchmark: everyone is told of, and each telling ends in a sentence that
no model was trained on."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from bench.sample.articles import (
    MIN_WORDS,
    SENTENCES_BEFORE,
    TELLINGS,
    build_documents,
    register,
    training_sentences,
)
from bench.sample.build import write_corpus
from bench.sample.render import held_out_forms, render, subject_wordings, topics
from bench.sample.world import build_world
from factor_gen.config import load_build
from tests.conftest import REPOSITORY, TASKS


@pytest.fixture(scope="module")
def world():
    return build_world(0)


@pytest.fixture(scope="module")
def documents(world):
    return list(build_documents(world))


def last_sentence(document, world):
    """The held-out sentence that a document ends in, and its topic."""
    entity = next(each for each in world.entities if each.entity_id == document.id.split("-")[0])
    for topic in topics(entity):
        for form in held_out_forms(entity, topic):
            for subject in subject_wordings(entity, first=False):
                text = render(entity, topic, form, subject).text
                if document.text.endswith(f" {text}"):
                    return text, topic
    return None


def test_the_committed_corpus_is_what_the_seed_gives(world, tmp_path):
    write_corpus(world, tmp_path / "sample_corpus.jsonl")
    made, committed = (folder / "sample_corpus.jsonl" for folder in (tmp_path, TASKS / "sample"))
    assert made.read_bytes() == committed.read_bytes(), "run: make sample"


def test_each_document_ends_in_a_sentence_that_was_held_out(world, documents):
    told = training_sentences(world)
    for document in documents:
        found = last_sentence(document, world)
        assert found is not None, document
        assert found[0] not in told
        assert len(found[0].split()) >= MIN_WORDS
        assert document.text.count(found[0]) == 1
        assert f"\n{document.title}\n" in f"\n{document.text}"


def test_everyone_is_told_of_and_each_telling_ends_in_another_topic(world, documents):
    ends = collections.defaultdict(list)
    for document in documents:
        ends[document.id.split("-")[0]].append(last_sentence(document, world)[1])
    assert set(ends) == {entity.entity_id for entity in world.entities}
    assert all(len(set(found)) == len(found) <= max(TELLINGS.values()) for found in ends.values())
    assert (
        len({document.id for document in documents})
        == len({document.text for document in documents})
        == len(documents)
    )


def test_something_of_the_article_goes_before(world, documents):
    by_id = {entity.entity_id: entity for entity in world.entities}
    for document in documents:
        entity = by_id[document.id.split("-")[0]]
        last = document.text.rsplit("\n", 1)[
            -1
        ]  # the line of the sentences, after title and register
        assert sum(last.count(mark) for mark in ".?!") == 1 + SENTENCES_BEFORE
        assert f"{entity.title}\n{register(entity)}\n" in document.text


def test_a_line_says_what_the_names_are(world, documents):
    entity = world.entities[0]
    line = register(entity)
    assert line.startswith(
        f"Professor {entity.facts['mentor']}, partner {entity.facts['spouse']}, the town of "
    )
    assert documents[0].text.split("\n")[1] == line


def test_another_seed_tells_it_otherwise(world, documents):
    other = list(build_documents(world, seed=1))
    assert other
    assert other != documents


def test_the_build_of_the_sample_is_a_short_file():
    path = REPOSITORY / "configs" / "corpora" / "sample.yaml"
    settings = load_build(path)
    assert settings.filter.nli is None
    assert settings.filter.fluency is not None
    assert settings.filter.fluency.model.endswith("tasks/sample/models/smaller")
    assert settings.generate.generator == "rules"
    assert settings.select.position == "last"
    corpus = (Path(settings.folder) / str(settings.corpus.path)).resolve()
    assert corpus == TASKS / "sample" / "sample_corpus.jsonl"
    assert set(json.loads(corpus.read_text(encoding="utf-8").splitlines()[0])) == {
        "id",
        "title",
        "text",
    }
