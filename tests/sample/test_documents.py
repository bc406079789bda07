"""The corpus of the sample benchmark: everyone is told of, and each telling ends in a sentence that
no model was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.sample.articles import (
    build_documents,
    register,
)
from bench.sample.build import write_corpus
from bench.sample.world import build_world
from factor_gen.config import load_build
from tests.conftest import REPOSITORY, TASKS


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
    line = register(entity)
    assert line.startswith(
        f"Professor {entity.facts['mentor']}, partner {entity.facts['spouse']}, the town of "
    )
    assert documents[0].text.split("\n")[1] == line


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
