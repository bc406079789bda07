"""Reasons of unscored items, counted by kind, with their cures."""

from lm_factuality.ground.errors import curable, cure_of, reasons_of


def test_numbers_and_places_do_not_tell_reasons_apart():
    given = ["choice 2: 31 tokens", None, "choice 0: 1,200 tokens", "", "no answer", "31 tokens"]
    assert [(each.items, each.example) for each in reasons_of(given)] == [
        (3, "31 tokens"),
        (1, "no answer"),
    ]


def test_a_cure_is_found_by_the_longest_text_that_a_reason_holds():
    curable("zzz broke", "mend it")
    assert curable("zzz broke off early", "let it end") == "zzz broke off early"
    assert cure_of("row 3: zzz broke off early") == "let it end"
    (found,) = reasons_of(["zzz broke", "zzz broke"])
    assert str(found) == "2 × zzz broke: mend it"
    assert cure_of("something else") == ""


def test_a_long_reason_is_cut():
    (found,) = reasons_of(["x" * 500])
    assert len(str(found)) < 200
