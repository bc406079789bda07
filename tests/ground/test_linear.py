"""Whatever a model writes is read in time in proportion to its length."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factor_gen.text.sentences import sentence_spans
from judges.answers import Answer
from judges.backends.server import parse_reply as parse_server_reply
from judges.lexical.comparison import Comparison
from judges.lexical.facts import group_by_individual, is_adverbial, split_facts
from judges.lexical.words import parse_passage
from judges.typed import read_reply
from lm_factuality.benchmarks.biographies.citations import read_cited_sentences
from lm_factuality.benchmarks.biographies.decompose import (
    FactsReply,
    is_abstention,
    remove_citations,
    response_sentences,
)
from lm_factuality.benchmarks.biographies.types import GeneratedText
from lm_factuality.benchmarks.factor_chat.metrics import NoClearAnswerError, read_word
from lm_factuality.benchmarks.factor_generation.facts import complete_sentence, end_of_prefix
from lm_factuality.benchmarks.felm.grammar import UnreadableAnswerError
from lm_factuality.benchmarks.felm.verdicts import read_verdict
from lm_factuality.benchmarks.felm_gen.steps import cut_by_rules, split_into_pieces, why_no_answer
from lm_factuality.benchmarks.longform.benchmark import strip_markdown
from lm_factuality.ground.sentences import split_sentences, words_in
from lm_factuality.ground.thinking import plain_answer, read_output, trailing_opening_mark


def read_true_or_false(text: str) -> None:
    """Read an answer, also if it cannot be read."""
    with suppress(NoClearAnswerError):
        read_word(text, ("True", "False"))


def verdict_or_reason(text: str, protocol: str) -> frozenset[int] | str:
    try:
        return read_verdict(text, 5, protocol)
    except UnreadableAnswerError as error:
        return str(error)


READERS: dict[str, Callable[[str], Any]] = {
    "sentences": split_sentences,
    "words": words_in,
    "plain": plain_answer,
    "thinking": read_output,
    "opened thought": trailing_opening_mark,
    "typed reply": lambda text: read_reply(Answer(text), FactsReply, {}),
    "server's reply": lambda text: parse_server_reply(json_of(f"a{text}"), "chat"),
    "verdict": lambda text: verdict_or_reason(text, "paper"),
    "verdict as the script": lambda text: verdict_or_reason(text, "code"),
    "abstention": is_abstention,
    "no answer": why_no_answer,
    "without citations": remove_citations,
    "sentences of a biography": response_sentences,
    "cited sentences": lambda text: read_cited_sentences(generation(text), "fixed"),
    "cited sentences as ALCE": lambda text: read_cited_sentences(generation(text), "code"),
    "facts": split_facts,
    "circumstance": is_adverbial,
    "individuals": lambda text: group_by_individual(
        "Ada Lind", [text], ["Ada Lind was a painter."], [0]
    ),
    "passage": parse_passage,
    "comparison": lambda text: Comparison(text, [parse_passage(text)]),
    "word": read_true_or_false,
    "completion": lambda text: complete_sentence("The bridge ", text),
    "end of a prefix": end_of_prefix,
    "segments": lambda text: cut_by_rules(text, "math"),
    "pieces": split_into_pieces,
    "prose": strip_markdown,
    "spans": sentence_spans,
}
PIECES = (
    "U.S. ",
    "J. ",
    " ",
    "\n",
    "\n\n",
    "\t",
    "\u00a0",
    "[",
    "]",
    "[[",
    "[1",
    "[1]",
    "[1, ",
    "- ",
    "-",
    "1",
    "1,",
    "1990-",
    '"',
    "'",
    "\u2019",
    "\\(",
    "\\",
    "(",
    ")",
    "( ",
    "{",
    "}",
    "`",
    "*",
    "_",
    ".",
    ". ",
    "!",
    "? ",
    ":\n",
    ",",
    ", ",
    ";",
    "a",
    "A",
    "a ",
    "word ",
    "is ",
    "was a ",
    "and ",
    "Answer: ",
    "Answer:\n",
    "1 and ",
    "segment ",
    "<",
    "<think>",
    "</think>",
    "<|channel|>",
    "[THINK]",
    "assistant",
    "Here's ",
    "I am sorry ",
    "I can't ",
    "but ",
    "however ",
    "Title: ",
    "born ",
    "(born 1900 ",
    "1900-1950) ",
    "There is ",
    "one, ",
    "\u3002",
    "\u4e00",
    "\u201c",
    "\u0e01",
    "no information ",
    "not ",
    "\U0001d7d8",
    "\u0301",
    "\u200b",
    "\u00bd",
    "\ufdfa",
    "the ",
    "True",
    "false ",
)


def json_of(text: str) -> str:
    import json

    return json.dumps({"choices": [{"message": {"content": text}}]})


def generation(text: str) -> GeneratedText:
    return GeneratedText("0", "Who is Ada?", "Ada", text, ())


SMALL, LARGE, MOST = (
    6_000,
    24_000,
    8.0,
)  # characters, four times as many, and how many times as long
SLOW_ENOUGH = (
    0.02  # seconds: what takes less on the large text is no matter, nor can it be told from noise
)
MIXED = PIECES[::4]


def seconds(read: Callable[[str], Any], text: str) -> float:
    """Of the processor, so that other processes do not count."""
    before = time.process_time()
    read(text)
    return time.process_time() - before


def is_linear(
    read: Callable[[str], Any], piece: str, before: str = "", after: str = "", times: int = 1
) -> bool:
    """Whether four times the text takes less than eight times as long, best of three if it seems to
    take more."""
    small, large = (
        f"{before}{piece * (times * length // len(piece))}{after}" for length in (SMALL, LARGE)
    )
    least = seconds(read, small)
    if least > 1.0:  # no need to wait for four times as many
        return False
    most = seconds(read, large)
    for _ in range(3):
        if most < SLOW_ENOUGH or most < MOST * max(least, 1e-3):
            return True
        least, most = min(least, seconds(read, small)), min(most, seconds(read, large))
    return False


def texts() -> list[tuple[str, str, str]]:
    """(before, piece, after): a piece over and over, alone, and where something stands in its
    way."""
    ends = [("", piece, after) for piece in MIXED for after in ("x", " x.", "\n")]
    begins = [
        (before, piece, "")
        for before in ("[1]", "(1900", "x", "Answer: 1", "1990-")
        for piece in (" ", "\n", "1", ", ", "\t")
    ]
    return [*(("", piece, "") for piece in PIECES), *ends, *begins]


# A few of them in every run; all of them, and long ones, with the slow tests.
@pytest.mark.parametrize("name", sorted(READERS)[::5])
def test_time_is_in_proportion_to_the_text(name: str):
    slow = [
        shown for shown in texts() if not is_linear(READERS[name], shown[1], shown[0], shown[2])
    ]
    assert slow == []


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    text=st.lists(
        st.sampled_from((*PIECES, "9" * 5000, "[" * 2000, "{" * 2000, "\0")) | st.text(max_size=5),
        max_size=12,
    ).map("".join)
)
def test_no_text_is_an_error(name: str, text: str):
    READERS[name](text)
