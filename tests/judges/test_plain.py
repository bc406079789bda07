"""Judges' texts made plain, refusals, and verdicts that are taken back."""

from __future__ import annotations

import time

import pytest

from judges.verify import is_refusal, is_taken_back, plain
from lm_factuality.ground.thinking import without_thinking


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a", "a"),
        ("<think>a</think>b", "b"),
        ("<THINK>a</Thinking>b", "b"),
        ("b<think>a</think>", "b"),
        ("a</think>b", "b"),
        ("a</think>b<think>c</think>d", "bd"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a", None),
        ("a<THINKING>b", None),
        ("<think>a</think>b<think>", None),
    ],
)
def test_thinking_is_left_out(text, rest):
    assert without_thinking(text) == rest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("**NOT**\\_SUPPORTED", "NOT_SUPPORTED"),
        ("**NOT**_SUPPORTED", "NOT_SUPPORTED"),
        ("_x_ *a* __b__ ALL_CORRECT", "x a b ALL_CORRECT"),
        ("**1**, **2**", "1, 2"),
        ("1*2 and 1**2", "1*2 and 1**2"),
        ("```text\n`a`\n```", "a"),
        ("\uff21\uff1a\uff11\u2013\uff12", "A:1-2"),
        ("I\u2019m un\u00adsure\u200b", "I'm unsure"),
        ("a\r\nb\u2028c", "a\nb\nc"),
        ("<think>a", None),
    ],
)
def test_plain(text, words):
    assert plain(text) == words


@pytest.mark.parametrize("size", [50_000])
def test_long_runs_of_marks_take_no_time(size):
    began = time.perf_counter()
    for text in ("*" * size + "1", "1" + "*" * size, "_" * size + "a", "<think>" * size, "</think>" * size):
        plain(text)
    assert time.perf_counter() - began < 2  # a pattern that looks ahead from every mark takes minutes


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but no.", True),
        ("I am so sorry", True),
        ("I'm unable to tell.", True),
        ("I am not able to", True),
        ("As an AI model", True),
        ("Unfortunately, I", True),
        ("Sorry is a word.", False),
        ("I can tell.", False),
        ("It is said: I cannot.", False),
    ],
)
def test_refusals(text, refuses):
    assert is_refusal(text) is refuses


@pytest.mark.parametrize(
    ("rest", "affirming", "denying"),
    [
        ("", False, False),
        (".", False, False),
        ('".', False, False),
        (" because it says so", False, False),
        (", since it says so", False, False),
        (". It says so.", False, False),
        (" (no errors found)", False, False),
        ("\nIt says so.", False, False),
        (", it says so", True, False),
        (". It does not.", True, False),
        ("\nHowever, it does.", True, False),
        (", but only half", True, True),
        (" (partly)", True, True),
        (" is wrong", True, True),
        ("?", True, True),
        (" to some extent", True, True),
    ],
)
def test_what_takes_a_verdict_back(rest, affirming, denying):
    assert is_taken_back(rest) is affirming
    assert is_taken_back(rest, denies=True) is denying
