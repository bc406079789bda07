"""Collocations: a word is replaced only by one that the corpus has with the same neighbours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from factor_gen import pipeline
from factor_gen.config import load_build
from factor_gen.generate.rules.collocations import gather_collocations, load_collocations
from factor_gen.generate.rules.edits import apply_replacements
from factor_gen.generate.rules.generator import OPERATORS
from factor_gen.generate.rules.sentence import tag_sentence
from factor_gen.records import Example
from factor_gen.shards import ShardFolder
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.rules.support import TAGGER

MANUALS = [
    "The library has a winter test suite. A summer file is read by the library.",
    "The winter file is written. Each winter value is kept, and each summer value is dropped.",
    "The port is opened by the server. The client closes the port.",
]
"""A corpus about software, in which a library is no building and a port no harbour."""

TOWN = [
    "The school has a small garden. The library of the town is old, and so is the school of the"
    " town.",
    "A large garden lies there. There is a small school for children.",
]
"""A corpus about a town, in which libraries and schools are alike."""


def allows(corpus: list[str], text: str, old: str, new: str, must_be_in_slot: bool = False) -> bool:
    """Return whether the collocations of a corpus allow a word to be replaced by another.

    Args:
        corpus: The texts of the corpus.
        text: The sentence.
        old: The word of the sentence.
        new: The word in its place.
        must_be_in_slot: Whether the corpus has to have the new word between the same neighbours.
    """
    start = text.index(old)
    return gather_collocations(corpus).allow_substitute(
        text, start, start + len(old), new, must_be_in_slot=must_be_in_slot
    )


@pytest.mark.parametrize(
    ("corpus", "text", "old", "new"),
    [
        pytest.param(
            TOWN,
            "The library of the town burned down.",
            "library",
            "school",
            id="the same neighbours",
        ),
        pytest.param(
            MANUALS,
            "The summer file is deleted.",
            "summer",
            "winter",
            id="both before the word file",
        ),
        pytest.param(
            MANUALS,
            "A summer dictionary is deleted.",
            "summer",
            "winter",
            id="both with the words file and value elsewhere",
        ),
        pytest.param(
            ["They rejected the bills."],
            "It approves the bill.",
            "approves",
            "rejects",
            id="other forms of the same words",
        ),
        pytest.param(
            [], "It listens on the port.", "port", "airport", id="no corpus, so no evidence"
        ),
    ],
)
def test_replacement_with_known_neighbours_is_allowed(
    corpus: list[str], text: str, old: str, new: str
) -> None:
    """The corpus shows that both words are used in the same way there."""
    assert allows(corpus, text, old, new)


@pytest.mark.parametrize(
    ("corpus", "text", "old", "new"),
    [
        pytest.param(
            MANUALS, "It is a library for dates.", "library", "school", id="not in the corpus"
        ),
        pytest.param(MANUALS, "The port is closed.", "port", "airport", id="a subject"),
        pytest.param(MANUALS, "It listens on the port.", "port", "airport", id="an object"),
        pytest.param(
            ["They rejected it. The bill is new."],
            "It approves the bill.",
            "approves",
            "rejects",
            id="neighbours in two sentences",
        ),
    ],
)
def test_replacement_with_unknown_neighbours_is_refused(
    corpus: list[str], text: str, old: str, new: str
) -> None:
    """The sentence would be odd rather than false, which gives it away."""
    assert not allows(corpus, text, old, new)


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        pytest.param("The summer file is old.", True, id="the corpus has the winter file"),
        pytest.param("A summer file is old.", False, id="a winter file"),
        pytest.param("The summer cup.", False, id="the winter cup"),
    ],
)
def test_both_neighbours_can_be_required(text: str, is_allowed: bool) -> None:
    """Words such as "summer" fit almost everywhere, so the corpus has to have the very slot."""
    assert allows(MANUALS, text, "summer", "winter", must_be_in_slot=True) is is_allowed


@pytest.mark.usefixtures("every_chance")
@pytest.mark.parametrize(
    ("corpus", "has_school"),
    [pytest.param(MANUALS, False, id="manuals"), pytest.param(TOWN, True, id="town")],
)
def test_noun_operator_keeps_the_sense_of_the_corpus(corpus: list[str], has_school: bool) -> None:
    """In manuals a library is no building, so "school" would be nonsense in its place.

    In a corpus about a town it is fine. Neither corpus has churches.
    """
    text = "It is a small library for people who like dates."
    sentence = tag_sentence(TAGGER, "", text, gather_collocations(corpus))
    replace_nouns = OPERATORS["noun"]

    edited = set()
    for seed in range(8):
        for edit in replace_nouns(sentence, random.Random(seed)):
            edited.add(apply_replacements(text, edit.replacements))

    assert ("It is a small school for people who like dates." in edited) is has_school
    assert "It is a small church for people who like dates." not in edited


@pytest.fixture
def manual_shards(tmp_path: Path) -> ShardFolder:
    """Return a folder of three shards, each of which has one text of `MANUALS`."""
    folder = ShardFolder(tmp_path / "documents")
    folder.path.mkdir()
    for number, text in enumerate(MANUALS):
        folder.write_shard(number, [Example(str(number), text)])
    return folder


def test_a_build_gathers_the_collocations_of_its_corpus(
    manual_shards: ShardFolder, tmp_path: Path
) -> None:
    settings = load_build(write_corpus(tmp_path))

    saved = pipeline._save_collocations(settings, manual_shards, range(3)).collocations

    assert saved is not None
    assert load_collocations(saved) == gather_collocations(MANUALS)


def test_collocations_of_a_large_corpus_are_gathered_from_every_second_shard(
    manual_shards: ShardFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus is large if it has more than a limit, here that of a byte less than it has.

    The shards that are read are evenly spread, since the end may be about other things.
    """
    settings = load_build(write_corpus(tmp_path))
    total_bytes = sum(path.stat().st_size for path in manual_shards.path.iterdir())
    monkeypatch.setattr(pipeline, "_COLLOCATION_BYTES", total_bytes - 1)

    saved = pipeline._save_collocations(settings, manual_shards, range(3)).collocations

    assert saved is not None
    assert load_collocations(saved) == gather_collocations([MANUALS[0], MANUALS[2]])
