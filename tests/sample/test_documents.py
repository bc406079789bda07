"""The corpus of the sample benchmark: everyone is told of, and each telling ends in a sentence that
no model was trained on."""

from __future__ import annotations

import pytest

from bench.sample.articles import (
    build_documents,
    format_register,
)
from bench.sample.build import write_corpus
from bench.sample.world import build_world
from tests.conftest import TASKS


@pytest.fixture(scope="module")
def world():
    return build_world(0)


@pytest.fixture(scope="module")
def documents(world):
    return list(build_documents(world))


def test_the_committed_corpus_is_what_the_seed_gives(world, tmp_path):
    write_corpus(world, tmp_path / "sample_corpus.jsonl")
    made, committed = (folder / "sample_corpus.jsonl" for folder in (tmp_path, TASKS / "sample"))
    assert made.read_bytes() == committed.read_bytes(), "run: make sample"


def test_a_line_says_what_the_names_are(world, documents):
    entity = world.entities[0]
    line = format_register(entity)
    assert line.startswith(
        f"Professor {entity.facts['mentor']}, partner {entity.facts['spouse']}, the town of "
    )
    assert documents[0].text.split("\n")[1] == line
