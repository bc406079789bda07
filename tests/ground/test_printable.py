"""Texts of others, shown as one line that does nothing."""

import pytest

from lm_factuality.ground.errors import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("wiki_factor: 0.5", "wiki_factor: 0.5"),
        ("bär 北京 \U0001f600", "bär 北京 \U0001f600"),
        ("\x1b[2Jevil\n::error::x", r"\x1b[2Jevil\n::error::x"),
        ("a\u202eb\u2028c\u200b", r"a\u202eb\u2028c\u200b"),
        ("\ud800\udcff", r"\ud800\udcff"),
        ("::error::x", "'::error::x"),
        ("  ##[error]x", "'  ##[error]x"),
        ("", ""),
    ],
)
def test_nothing_acts(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown
