"""The bench of the filters runs both ways over the same texts, and its exit code says whether they
are fast enough."""

from __future__ import annotations

import json

import pytest

from bench.factor_gen.__main__ import main
from bench.factor_gen.filters import sample_examples
from tests.factor_gen.tiny import save_deberta


def test_both_ways_are_timed_over_all_texts(tmp_path, checkpoint, capsys):
    deberta, found = (
        save_deberta(tmp_path / "deberta", checkpoint, places=512),
        tmp_path / "found.json",
    )
    arguments = [
        "filters",
        "--nli",
        str(deberta),
        "--fluency",
        str(checkpoint),
        "--rows",
        "2",
        "--runs",
        "3",
        "--json",
        str(found),
    ]
    assert main(arguments) == 0
    content = {each["name"]: each for each in json.loads(found.read_text())["filters"]}
    assert content["nli"]["texts"] == sum(len(each.candidates) for each in sample_examples(2)) == 6
    assert content["fluency"]["texts"] == 8
    for each in content.values():
        assert len(each["filter_seconds"]) == len(each["bare_seconds"]) == 3
        assert all(seconds > 0 for seconds in each["filter_seconds"] + each["bare_seconds"])
    assert "share" in capsys.readouterr().out
    assert main([*arguments, "--least", "1000"]) == 1


def test_a_model_that_is_not_there_is_said_in_one_line(tmp_path, capsys):
    assert main(["filters", "--nli", str(tmp_path), "--fluency", str(tmp_path)]) == 1
    assert "cannot be loaded" in capsys.readouterr().err


def test_a_part_has_to_be_named():
    with pytest.raises(SystemExit):
        main([])
