"""Tables for the terminal."""

from __future__ import annotations

from lm_factuality.ground.console import print_table


def test_control_characters_are_printed_as_text(capsys):
    """They could erase what was printed before, or ring the terminal's bell."""
    print_table(
        "Tasks", ("task", "#rows"), rows=[("erase\x1b[2Jscreen", "1")], notes=["ring the bell\x07"]
    )

    printed = capsys.readouterr().out
    assert r"erase\x1b[2Jscreen" in printed
    assert r"ring the bell\x07" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_line_breaks_in_a_cell_stay_in_its_column(capsys):
    print_table("Tasks", ("rows", "task"), rows=[("1", "first line\nsecond line")], notes=[])

    lines = capsys.readouterr().out.splitlines()
    (first_line,) = [line for line in lines if "first line" in line]
    (second_line,) = [line for line in lines if "second line" in line]
    assert second_line.index("second line") == first_line.index("first line") > 0
