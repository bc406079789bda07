"""Files and folders are whole or not there, also if the process that writes them is killed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, whole_folder, write_text
from tests.conftest import half_written


def names_in(folder: Path) -> set[str]:
    """Return the names of all files and folders in a folder."""
    return {path.name for path in folder.iterdir()}


def test_unencodable_text_leaves_no_file(tmp_path):
    """Half a file would be taken for a whole one."""
    half_of_a_surrogate_pair = "\ud800"

    message = r"a\.txt: cannot be written: .*surrogates not allowed.*without the characters"
    with pytest.raises(DataError, match=message):
        write_text(tmp_path / "a.txt", f"half {half_of_a_surrogate_pair}")

    assert names_in(tmp_path) == set()


def test_a_failure_leaves_the_earlier_file(tmp_path):
    """The earlier file is whole and may be in use."""
    write_text(tmp_path / "a.txt", "earlier")
    text_that_utf8_cannot_encode = "later \ud800"

    with pytest.raises(DataError):
        write_text(tmp_path / "a.txt", text_that_utf8_cannot_encode)

    assert names_in(tmp_path) == {"a.txt"}
    assert (tmp_path / "a.txt").read_text() == "earlier"


def test_unwritable_path_is_named(tmp_path):
    """The user may have taken a file for a folder."""
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match=r"cannot be written: .*; choose another place"):
        write_text(tmp_path / "file" / "a.txt", "text")


def test_hash_covers_all_bytes_of_a_file(tmp_path):
    """Large files are read in pieces."""
    content = bytes(range(256)) * 8192  # 2 MiB, more than is read at a time
    (tmp_path / "large").write_bytes(content)

    assert sha256_of(tmp_path / "large") == hashlib.sha256(content).hexdigest()


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    """Otherwise each killed process would leave one more file."""
    half_written(tmp_path / "a.txt").write_text("half")
    half_site = half_written(tmp_path / "site")
    half_site.mkdir()
    (half_site / "index.html").write_text("half")

    write_text(tmp_path / "a.txt", "whole")

    assert names_in(tmp_path) == {"a.txt"}


def test_a_file_that_another_process_is_writing_is_left_alone(tmp_path):
    running_process_id = os.getppid()  # the process that started this one
    partial_file = half_written(tmp_path / "a.txt", process_id=running_process_id)
    partial_file.write_text("half")

    write_text(tmp_path / "a.txt", "whole")

    assert names_in(tmp_path) == {"a.txt", partial_file.name}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(".a.txt.00000000.7.part", id="of another machine"),
        pytest.param(".notes.part", id="of the user"),
    ],
)
def test_a_file_with_a_similar_name_is_left_alone(tmp_path, name):
    """The process of another machine may still run, and the other file is the user's."""
    (tmp_path / name).write_text("half")

    write_text(tmp_path / "a.txt", "whole")

    assert names_in(tmp_path) == {"a.txt", name}


def test_old_folder_is_restored_after_a_failed_replacement(tmp_path):
    """A process that is killed may leave the earlier folder renamed, and no new folder."""
    renamed_folder = tmp_path / ".site.earlier"
    renamed_folder.mkdir()
    (renamed_folder / "mark").write_text("earlier")

    # The next process brings the folder back, although it fails itself.
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "site", "mark"):
        raise ZeroDivisionError

    assert names_in(tmp_path) == {"site"}
    assert (tmp_path / "site" / "mark").read_text() == "earlier"


def test_leftover_is_removed_despite_a_reused_process_id(tmp_path):
    """Processes in containers have small numbers, which are used again."""
    leftover = half_written(tmp_path / "site", process_id=os.getpid())
    leftover.mkdir()
    (leftover / "mark").write_text("half")
    one_second_after_1970 = 1
    os.utime(leftover, (one_second_after_1970, one_second_after_1970))

    with whole_folder(tmp_path / "site", "mark") as folder:
        (folder / "mark").write_text("whole")

    assert names_in(tmp_path) == {"site"}
    assert (tmp_path / "site" / "mark").read_text() == "whole"
