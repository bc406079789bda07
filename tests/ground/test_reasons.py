"""Reasons of unscored items, counted by kind, with what the user can do."""

from __future__ import annotations

from lm_factuality.ground.errors import count_reasons, find_cure


def test_similar_reasons_are_counted_together():
    """Otherwise a table of reasons would have a line for each row."""
    # The number of the choice and the number of tokens do not matter.
    similar_reasons = ["choice 2: 31 tokens", "choice 0: 1,200 tokens", "31 tokens"]
    missing_reasons = [None, ""]

    reasons = count_reasons([*similar_reasons, *missing_reasons, "no answer"])

    count_by_example = {reason.example: reason.num_items for reason in reasons}
    assert count_by_example == {"31 tokens": 3, "no answer": 1}


def test_advice_follows_the_longest_matching_reason():
    """The reason "cut off" alone has another cure than "cut off before the answer"."""
    assert find_cure("row 3: cut off before the answer") == "a larger --gen_kwargs max_gen_toks=N"


def test_unknown_reason_has_no_advice():
    """Wrong advice would cost the user another run."""
    assert find_cure("something else") == ""


def test_reason_is_shown_with_its_count_and_advice():
    """A user sees how many items are affected and what to change."""
    reason = count_reasons(["cut off", "cut off"])[0]

    assert str(reason) == "2 × cut off: a larger max_tokens under decoding in the judge's YAML"


def test_a_long_reason_is_shortened():
    """A reason may quote what a model wrote."""
    reason = count_reasons(["x" * 500])[0]

    assert len(str(reason)) < 200
