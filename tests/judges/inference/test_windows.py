"""Windows of passages hold whole sentences, overlap, fit into the model and leave nothing out."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from judges.inference import PassageCutter
from judges.lexical.words import ParsedPassage
from tests.judges.inference.tiny_classifiers import WORDS, word_tokenizer

TOKENIZER = word_tokenizer()


def count_tokens(text: str) -> int:
    """Count the tokens of a text, without the marks of its beginning and end."""
    return len(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def random_sentences(lengths: list[int], seed: int) -> list[str]:
    """Write different sentences, each of a number and as many random words as ``lengths`` says."""
    words = [word for word in WORDS if word != "."]
    randomness = random.Random(seed)
    sentences = []
    for number, length in enumerate(lengths):
        chosen_words = randomness.choices(words, k=length)
        sentences.append(f"{number} {' '.join(chosen_words)}.")
    return sentences


def cut_text(text: str, max_tokens: int, title: str = "") -> list[str]:
    """Cut one passage into windows of at most ``max_tokens`` tokens."""
    return PassageCutter(TOKENIZER).windows((ParsedPassage(text, title),), max_tokens)


def cut_random_text(seed: int, max_tokens: int) -> tuple[list[str], list[str]]:
    """Cut a text of 60 sentences, and return its sentences and its windows.

    The sentences fill at most a quarter of a window, so that none of them has to be cut.
    """
    randomness = random.Random(seed)
    lengths = [randomness.randint(1, max_tokens // 4) for _ in range(60)]
    sentences = random_sentences(lengths, seed)
    return sentences, cut_text(" ".join(sentences), max_tokens)


any_text = pytest.mark.parametrize("seed", range(8))
any_size = pytest.mark.parametrize("max_tokens", [16, 40, 100])


@any_text
@any_size
def test_every_window_fits_into_the_model(seed, max_tokens):
    """A model drops what is beyond its length without notice."""
    _, windows = cut_random_text(seed, max_tokens)

    assert max(count_tokens(window) for window in windows) <= max_tokens


@any_text
@any_size
def test_every_sentence_is_whole_in_a_window(seed, max_tokens):
    """Half a sentence can support the opposite of the whole."""
    sentences, windows = cut_random_text(seed, max_tokens)

    for sentence in sentences:
        assert any(sentence in window for window in windows)


@any_text
@any_size
def test_every_window_begins_and_ends_with_a_sentence(seed, max_tokens):
    """Half sentences at the edges would be evidence that the passage does not give."""
    sentences, windows = cut_random_text(seed, max_tokens)

    for window in windows:
        assert window.startswith(tuple(sentences))
        assert window.endswith(".")


def test_neighbouring_windows_share_a_sentence():
    """A claim may need two neighbouring sentences, such as a name and the "she" after it."""
    sentences = random_sentences([3] * 40, seed=1)

    windows = cut_text(" ".join(sentences), max_tokens=40)

    for window, next_window in pairwise(windows):
        assert any(sentence in window and sentence in next_window for sentence in sentences)


def test_a_sentence_longer_than_a_window_is_cut_between_words():
    """Every word is still read, though no window can hold the whole sentence."""
    words = [f"w{number}" for number in range(300)]

    windows = cut_text(" ".join(words), max_tokens=50)

    assert max(count_tokens(window) for window in windows) <= 50
    words_of_windows = " ".join(windows).split()
    assert set(words_of_windows) == set(words)


def test_short_passages_share_a_window_below_their_titles():
    """Fewer windows mean fewer runs of the model, and the titles keep the passages apart."""
    passages = (
        ParsedPassage("She was a painter.", "Ada Lind"),
        ParsedPassage("She was a pilot.", "Ada Lind (pilot)"),
        ParsedPassage("No title.", ""),
    )

    windows = PassageCutter(TOKENIZER).windows(passages, 100)

    assert windows == [
        "Title: Ada Lind\nShe was a painter.\nTitle: Ada Lind (pilot)\nShe was a pilot.\nNo title."
    ]


def test_every_window_of_a_long_passage_begins_with_its_title():
    """The text says "she", and only the title says who she is."""
    sentences = random_sentences([6] * 40, seed=2)

    windows = cut_text(" ".join(sentences), max_tokens=60, title="Ada Lind")

    assert len(windows) > 1
    for window in windows:
        assert window.startswith("Title: Ada Lind\n")
