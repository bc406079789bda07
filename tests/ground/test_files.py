"""Files are whole or not there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, whole_folder, write_text
from tests.conftest import half_written


def test_text_that_no_file_can_hold_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"a\.txt: cannot be written: .*surrogates not allowed.*without the characters",
    ):
        write_text(tmp_path / "a.txt", "half \ud800")
    assert list(tmp_path.iterdir()) == []


def test_the_sum_of_a_file_is_that_of_all_its_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 8192
    (tmp_path / "large").write_bytes(content)
    assert sha256_of(tmp_path / "large") == hashlib.sha256(content).hexdigest()


def test_a_failure_leaves_the_earlier_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "earlier")
    with pytest.raises(DataError):
        write_text(tmp_path / "a.txt", "half \ud800")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "earlier")]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written: .*; choose another place"):
        write_text(tmp_path / "file" / "a.txt", "text")


def test_what_a_killed_process_left_is_removed_and_what_is_being_written_is_not(
    tmp_path: Path,
) -> None:
    half_written(tmp_path / "a.txt").write_text("half")
    (gone := half_written(tmp_path / "site")).mkdir()
    (gone / "index.html").write_text("half")
    alive = half_written(tmp_path / "a.txt", process_id=os.getppid())
    elsewhere = tmp_path / ".a.txt.00000000.7.part"
    named_alike = tmp_path / ".notes.part"
    for path in (alive, elsewhere, named_alike):
        path.write_text("half")
    write_text(tmp_path / "a.txt", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {
        "a.txt",
        alive.name,
        elsewhere.name,
        named_alike.name,
    }


def test_a_folder_that_was_moved_aside_comes_back_if_its_successor_never_came(
    tmp_path: Path,
) -> None:
    (earlier := tmp_path / ".site.earlier").mkdir()
    (earlier / "mark").write_text("earlier")
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "site", "mark"):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (tmp_path / "site" / "mark").read_text() == "earlier"


def test_a_killed_process_of_this_ones_number_as_containers_give_it_bars_no_folder(
    tmp_path: Path,
) -> None:
    (left := half_written(tmp_path / "site", process_id=os.getpid())).mkdir()
    (left / "mark").write_text("half")
    os.utime(left, (1, 1))
    with whole_folder(tmp_path / "site", "mark") as part:
        (part / "mark").write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (tmp_path / "site" / "mark").read_text() == "whole"
