"""Models' texts made plain."""

from __future__ import annotations

import pytest

from lm_factuality.ground.thinking import plain_answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ALL\\_CORRECT", "ALL_CORRECT"),
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
    assert plain_answer(text) == words
