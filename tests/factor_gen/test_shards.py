"""Shards on disk: whole files, and folders that are made anew exactly where a setting changed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from factor_gen.records import Candidate, Example
from factor_gen.shards import StageFolder, discard, prepare, split
from lm_factuality.ground.errors import DataError
from tests.conftest import half_written

EXAMPLES = [
    Example(
        "a",
        "He left.\r\n\u2028 ",
        "She \x00 stayed.",
        ("entity",),
        (Candidate("x", "entity", "a -> b", "rules", 0.5),),
        {"why": 2},
    ),
    Example("b").drop("select", "the text is empty"),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path / "2-select")
    assert (folder.stage, folder.has(3)) == ("select", False)
    folder.write(3, EXAMPLES)
    assert folder.has(3)
    assert folder.read(3) == EXAMPLES
    assert [path.name for path in folder.path.iterdir()] == ["part-00003.jsonl"]


def test_a_damaged_or_missing_shard_is_named(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path / "2-select")
    folder.write(0, EXAMPLES)
    text = folder.part(0).read_text(encoding="utf-8")
    lines = text.split("\n")
    for damaged, problem in (
        (text[:-5], r"part-00000\.jsonl:3: damaged .*remove .*2-select"),
        ("\n".join(lines[:1]), "the end is missing"),
        ("\n".join(lines[:2]), "the end is missing"),
        ("\n".join(lines[1:]), "the end is missing"),
        ("", "the end is missing"),
        ("[]\n" + text, ":1: damaged"),
        ('{"doc": 1}\n' + text, ":1: damaged"),
    ):
        folder.part(0).write_text(damaged)
        with pytest.raises(DataError, match=problem):
            folder.read(0)
    with pytest.raises(DataError, match="the shard is not there"):
        folder.read(1)


def test_an_empty_shard_is_whole(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path / "2-select")
    folder.write(0, [])
    assert folder.read(0) == []


def test_only_folders_of_stages_are_removed(tmp_path: Path) -> None:
    for name in ("1-read", "2-introduction", "3-types", "10-select", "1b-read", "notes"):
        (tmp_path / name).mkdir()
    discard(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "1-read",
        "1b-read",
        "2-introduction",
        "notes",
    ]


def test_shards_are_cut_by_number_and_by_length() -> None:
    examples = [Example(str(number), prefix="x") for number in range(5)]
    assert [len(shard) for shard in split(examples, 2)] == [2, 2, 1]
    long = [Example(str(number), prefix="x" * 9_000_000) for number in range(3)]
    assert [len(shard) for shard in split(long, 2)] == [1, 1, 1]
    assert list(split([], 2)) == []


def made(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob("*/part-*.jsonl"))


def test_a_changed_setting_makes_its_stage_and_all_after_it_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = [
        ("read", {"shard": 2}),
        ("select", {"min_words": 10, "seed": 0}),
        ("types", {"tagger": "pattern", "seed": 0}),
    ]
    for folder in prepare(tmp_path, plan):
        folder.write(0, EXAMPLES)
    prepare(tmp_path, plan)
    prepare(tmp_path, plan[:2])  # a build that ends earlier leaves the rest alone
    assert made(tmp_path) == ["1-read", "2-select", "3-types"]
    plan[1] = ("select", {"min_words": 12, "seed": 0})
    with caplog.at_level(logging.WARNING):
        prepare(tmp_path, plan)
    assert made(tmp_path) == ["1-read"]
    assert "select is recomputed: min_words was 10, is 12" in caplog.text


def test_what_a_killed_build_left_half_written_is_removed(tmp_path: Path) -> None:
    plan = [("read", {"shard": 2})]
    (folder,) = prepare(tmp_path, plan)
    half_written(folder.part(0)).write_text("half")
    folder.write(0, EXAMPLES)
    assert sorted(path.name for path in folder.path.iterdir()) == ["part-00000.jsonl", "stage.json"]


def test_a_folder_without_its_settings_is_not_trusted(tmp_path: Path) -> None:
    plan = [("read", {"shard": 2})]
    prepare(tmp_path, plan)[0].write(0, EXAMPLES)
    (tmp_path / "1-read" / "stage.json").write_text("{")
    prepare(tmp_path, plan)
    assert made(tmp_path) == []


def test_what_was_begun_is_counted(tmp_path: Path) -> None:
    folder = prepare(tmp_path, [("read", {})])[0]
    assert [folder.begin(4), folder.begin(4), folder.begin(7)] == [1, 2, 1]
    assert folder.begun() == [4, 7]
    folder.end(4)
    assert folder.begun() == [7]
    folder.forget_begun()
    assert folder.begun() == []
