"""Tables for the terminal."""

from __future__ import annotations

from lm_factuality.ground.console import print_table


def test_what_strangers_wrote_acts_on_no_terminal(capsys):
    print_table(
        "Tasks", ("task", "#rows"), [("a\x1b[2Jb", "1"), ("two\nlines", "2")], ["a note\x07"]
    )
    said = capsys.readouterr().out
    assert r"a\x1b[2Jb" in said
    assert r"a note\x07" in said
    assert "\x1b" not in said
    assert any(line.strip() == "lines" for line in said.splitlines())
