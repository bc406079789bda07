"""Windows hold whole sentences, overlap, fit, and leave nothing out."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from judges.inference import PassageCutter
from judges.lexical.words import ParsedPassage
from tests.judges.inference.conftest import WORDS, tokenizer

COUNTED = tokenizer("roberta")


def count(text: str) -> int:
    return len(COUNTED(text, add_special_tokens=False)["input_ids"])


def text_of(lengths: list[int], seed: int) -> list[str]:
    words = [word for word in WORDS if word != "."]
    draw = random.Random(seed)
    return [
        f"{number} {' '.join(draw.choices(words, k=length))}."
        for number, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [16, 40, 100])
def test_each_fits_and_every_sentence_is_whole_in_one(seed, size):
    draw = random.Random(seed)
    sentences = text_of([draw.randint(1, size // 4) for _ in range(60)], seed)
    windows = PassageCutter(COUNTED).windows((ParsedPassage(" ".join(sentences), ""),), size)
    assert all(count(window) <= size for window in windows)
    assert all(any(sentence in window for window in windows) for sentence in sentences)
    assert all(any(window.startswith(sentence) for sentence in sentences) for window in windows)
    assert all(window.endswith(".") for window in windows)


def test_neighbours_overlap():
    sentences = text_of([3] * 40, 1)
    windows = PassageCutter(COUNTED).windows((ParsedPassage(" ".join(sentences), ""),), 40)
    shared = [
        sum(each in one and each in other for each in sentences) for one, other in pairwise(windows)
    ]
    assert all(shared)


def test_a_sentence_longer_than_a_window_is_cut_by_tokens():
    words = [f"w{number}" for number in range(300)]
    windows = PassageCutter(COUNTED).windows((ParsedPassage(" ".join(words), ""),), 50)
    assert all(count(window) <= 50 for window in windows)
    assert {word for window in windows for word in window.split()} == set(words)


def test_short_passages_share_a_window_and_each_part_has_its_title():
    short = (
        ParsedPassage("She was a painter.", "Ada Lind"),
        ParsedPassage("She was a pilot.", "Ada Lind (pilot)"),
        ParsedPassage("No title.", ""),
    )
    (window,) = PassageCutter(COUNTED).windows(short, 100)
    assert (
        window
        == "Title: Ada Lind\nShe was a painter.\nTitle: Ada Lind (pilot)\nShe was a pilot.\nNo title."
    )
    long = ParsedPassage(" ".join(text_of([6] * 40, 2)), "Ada Lind")
    assert all(
        each.startswith("Title: Ada Lind\n") for each in PassageCutter(COUNTED).windows((long,), 60)
    )
