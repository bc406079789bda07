"""A substitute must have been seen where it is to stand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from factor_gen import pipeline
from factor_gen.config import load_build
from factor_gen.generate.rules.collocations import gather_collocations, load_collocations
from factor_gen.generate.rules.edits import apply_replacements
from factor_gen.generate.rules.sentence import tag_sentence
from factor_gen.records import Example
from factor_gen.shards import ShardFolder
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.rules.support import TAGGER, always, operator  # noqa: F401

CODE = [
    "The library has a winter test suite. A summer file is read by the library.",
    "The winter file is written. Each winter value is kept, and each summer value is dropped.",
    "The port is opened by the server. The client closes the port.",
]
TOWN = [
    "The school has a small garden. The library of the town is old, and so is the school of the town.",
    "A large garden lies there. There is a small school for children.",
]


def fits(corpus: list[str], text: str, old: str, new: str) -> bool:
    start = text.index(old)
    return gather_collocations(corpus).allows(text, start, start + len(old), new)


@pytest.mark.parametrize(
    ("corpus", "text", "old", "new", "expected"),
    [
        (CODE, "It is a library for dates.", "library", "school", False),  # no school in manuals
        (
            TOWN,
            "The library of the town burned down.",
            "library",
            "school",
            True,
        ),  # in the same slot
        (
            CODE,
            "The summer file is deleted.",
            "summer",
            "winter",
            True,
        ),  # governed by the same word
        (
            CODE,
            "A summer dictionary is deleted.",
            "summer",
            "winter",
            True,
        ),  # both go with file and value
        (CODE, "The port is closed.", "port", "airport", False),
        (CODE, "It listens on the port.", "port", "airport", False),
        (
            [],
            "It listens on the port.",
            "port",
            "airport",
            True,
        ),  # no corpus, no evidence against it
    ],
)
def test_what_the_corpus_allows(
    corpus: list[str], text: str, old: str, new: str, expected: bool
) -> None:
    assert fits(corpus, text, old, new) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The summer file is old.", True),
        ("A summer file is old.", False),
        ("The summer cup.", False),
    ],
)
def test_a_word_in_its_very_place(text: str, expected: bool) -> None:
    corpus = gather_collocations(CODE)
    assert (
        corpus.allows(
            text, text.index("summer"), text.index("summer") + 6, "winter", must_be_in_slot=True
        )
        is expected
    )


def test_words_of_the_same_stem_share_their_companions() -> None:
    assert fits(["They rejected the bills."], "It approves the bill.", "approves", "rejects")


def test_a_break_separates_words() -> None:
    assert not fits(
        ["They rejected it. The bill is new."], "It approves the bill.", "approves", "rejects"
    )


@pytest.mark.usefixtures("always")
def test_nouns_keep_their_sense() -> None:
    text = "It is a small library for people who like dates."
    for corpus, expected in (
        (CODE, set()),
        (TOWN, {"It is a small school for people who like dates."}),
    ):
        sentence = tag_sentence(TAGGER, "", text, gather_collocations(corpus))
        found = {
            apply_replacements(text, each.replacements)
            for seed in range(8)
            for each in operator("noun")(sentence, random.Random(seed))
        }
        assert (
            found
            & {
                "It is a small school for people who like dates.",
                "It is a small church for people who like dates.",
            }
            == expected
        )


@pytest.mark.parametrize(("most", "read_texts"), [(8_000_000, CODE), (200, [CODE[0], CODE[2]])])
def test_a_corpus_or_parts_of_a_large_one_are_read(
    most: int, read_texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_COLLOCATION_BYTES", most)
    folder = ShardFolder(tmp_path / "documents")
    folder.path.mkdir()
    for number, text in enumerate(CODE):
        folder.write_shard(number, [Example(str(number), text)])
    path = pipeline._with_collocations(
        load_build(write_corpus(tmp_path)), folder, range(3)
    ).contexts
    assert path is not None
    assert load_collocations(path) == gather_collocations(read_texts)
