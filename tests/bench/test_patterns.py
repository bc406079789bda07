"""The attack on regular expressions finds slow ones, and knows how the code calls them."""

from __future__ import annotations

import re

import pytest

from bench.attack.patterns import (
    NOT_FROM_OUTSIDE,
    Expression,
    collect_expressions,
    find_slow_text,
)


def slow_text(pattern: str, *methods: str) -> str:
    """Return the text on which a pattern is slow, empty if it is not."""
    return find_slow_text(Expression("pattern", re.compile(pattern), frozenset(methods)))


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        pytest.param(r"\s+,", "sub", id="a long beginning"),
        pytest.param(r"a.*b.*c", "search", id="two gaps"),
        pytest.param(r"(?:a|a)*b", "match", id="two ways to match"),
        pytest.param(r"\W*x?\W*$", "match", id="repeats side by side"),
    ],
)
def test_a_slow_pattern_is_found(pattern, method):
    """Each takes time with the square of the length on some text, or worse."""
    assert slow_text(pattern, method).startswith(f"{method}: ")


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        pytest.param(r"\s+,", "match", id="a long beginning at one position"),
        pytest.param(r"(?<!\s)\s+,", "sub", id="a beginning that white space cannot precede"),
        pytest.param(r"\s{1,20},", "sub", id="a limit"),
        pytest.param(r"\w+", "findall", id="words"),
    ],
)
def test_a_linear_pattern_is_not_reported(pattern, method):
    """A false alarm would have to be looked at each time."""
    assert slow_text(pattern, method) == ""


def test_patterns_of_modules_and_of_yaml_files_are_collected_with_their_methods():
    """Whether a pattern is slow depends on the method that the code calls it by."""
    methods = {expression.name: expression.methods for expression in collect_expressions()}

    assert "split" in methods["judges.claims:_OMISSION"]
    assert "match" in methods["lm_factuality.benchmarks.felm.grammar:_PATTERNS['thought']"]


def test_only_existing_patterns_are_excused():
    """A pattern that was renamed would otherwise lose its reason unnoticed."""
    names = {expression.name for expression in collect_expressions()}
    modules = {name.partition(":")[0] for name in names}

    assert NOT_FROM_OUTSIDE.keys() <= names | modules
