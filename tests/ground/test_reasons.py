"""Reasons of unscored items, counted by kind, with their cures."""

from lm_factuality.ground.errors import cure_of, reasons_of


def test_numbers_and_places_do_not_tell_reasons_apart():
    given = ["choice 2: 31 tokens", None, "choice 0: 1,200 tokens", "", "no answer", "31 tokens"]
    assert [(each.items, each.example) for each in reasons_of(given)] == [
        (3, "31 tokens"),
        (1, "no answer"),
    ]


def test_a_cure_is_found_by_the_longest_text_that_a_reason_holds():
    assert cure_of("row 3: cut off before the answer") == "a larger --gen_kwargs max_gen_toks=N"
    (reason,) = reasons_of(["cut off", "cut off"])
    assert str(reason) == "2 × cut off: a larger max_tokens under decoding in the judge's YAML"
    assert cure_of("something else") == ""


def test_a_long_reason_is_cut():
    (found,) = reasons_of(["x" * 500])
    assert len(str(found)) < 200
