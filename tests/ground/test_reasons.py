"""Reasons of unscored items, counted by kind, with what the user can do."""

from __future__ import annotations

from lm_factuality.ground.errors import cure_of, reasons_of


def test_reasons_that_differ_only_in_numbers_and_places_are_counted_together():
    texts = ["choice 2: 31 tokens", None, "choice 0: 1,200 tokens", "", "no answer", "31 tokens"]

    reasons = reasons_of(texts)

    assert [(reason.items, reason.example) for reason in reasons] == [
        (3, "31 tokens"),
        (1, "no answer"),
    ]


def test_the_cure_of_the_longest_known_reason_counts():
    # "cut off" alone has another cure.
    assert cure_of("row 3: cut off before the answer") == "a larger --gen_kwargs max_gen_toks=N"


def test_an_unknown_reason_has_no_cure():
    assert cure_of("something else") == ""


def test_a_reason_is_shown_with_its_count_and_its_cure():
    (reason,) = reasons_of(["cut off", "cut off"])

    assert str(reason) == "2 × cut off: a larger max_tokens under decoding in the judge's YAML"


def test_a_long_reason_is_shortened():
    (reason,) = reasons_of(["x" * 500])

    assert len(str(reason)) < 200
