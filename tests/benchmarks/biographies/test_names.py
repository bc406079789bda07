"""Names on disk."""

from __future__ import annotations

import pytest

from lm_factuality.benchmarks.biographies.generations import query_of, read_names
from lm_factuality.ground.errors import DataError


def test_ambigbio(shared):
    names = read_names(shared / "data" / "ambigbio" / "AmbigBio.csv")
    assert len(names) == 497
    assert names[0] == "Manuel Suárez"
    assert "James O'Connell" in names
    lines = (shared / "data" / "ambigbio" / "AmbigBio.csv").read_text(encoding="utf-8").splitlines()
    assert [query_of(name) for name in names] == [line.split("\t")[0] for line in lines]


def test_a_name_a_line(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffAda Lind (disambiguation)\r\n\r\nÉmile Røst\r\nAda Lind\r\n".encode())
    assert read_names(path) == ["Ada Lind", "Émile Røst"]
    assert query_of("Ada Lind") == "Tell me a bio of Ada Lind"


def test_both_forms_in_one_file(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text(
        "Tell me a bio of A\t['Ada Lind (disambiguation)']\nB\n\t['Bo Ek']\n", encoding="utf-8"
    )
    assert read_names(path) == ["Ada Lind", "B", "Bo Ek"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"q\t[Ada Lind]\n", r"names\.csv:1: found '\[Ada Lind\]' after the tab"),
        (b"a\nq\t[]\n", r"names\.csv:2: found '\[\]' after the tab"),
        (b"q\t__import__('os')\n", "names.csv:1: found"),
        (b"(disambiguation)\n", "expected a name"),
        (b"\n", "no names"),
        (b"\xff\xfe", "cannot be read"),
        (None, "no such file"),
    ],
)
def test_broken_files(tmp_path, content, expected):
    path = tmp_path / "names.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=expected):
        read_names(path)


def test_lines_end_at_line_feeds_alone(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("Ada\u2028Lind\nBo\x85Ek\n", encoding="utf-8")
    assert read_names(path) == ["Ada Lind", "Bo Ek"]
