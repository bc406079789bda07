"""Tables come in as written."""

import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.tables import read_table

ROWS = [{"prefix": 'A, "b"\nc ', "completion": "NA"}, {"prefix": "", "completion": "1.50"}]


def test_csv_jsonl_and_parquet_give_the_same_rows(tmp_path):
    (tmp_path / "t.csv").write_text(
        'prefix,completion\n"A, ""b""\nc ",NA\n,1.50\n', encoding="utf-8"
    )
    (tmp_path / "t.jsonl").write_text(
        '{"prefix": "A, \\"b\\"\\nc ", "completion": "NA"}\n\n{"prefix": "", "completion": "1.50"}\n',
        encoding="utf-8",
    )
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        table = read_table(tmp_path / name)
        assert [dict(record.values) for record in table.records] == ROWS, name
        assert table.problems == ()


def test_rows_know_their_lines_behind_a_line_break_in_a_cell(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('prefix,completion\n"one\ntwo",x\nthree,y\n', encoding="utf-8")
    assert [record.location for record in read_table(path).records] == [f"{path}:2", f"{path}:4"]


def test_every_bad_line_is_reported(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n[1]\n{"a": "caf\xe9"}\n5\n')
    problems = read_table(path).problems
    assert len(problems) == 4
    assert problems[0].startswith(f"{path}:2: not valid JSON")
    assert problems[1].startswith(f"{path}:3: found a JSON list")
    assert problems[2].startswith(f"{path}:4: byte 0xe9 is not UTF-8")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_bad_row_of_a_csv_file_is_reported(tmp_path, end):
    path = tmp_path / "t.csv"
    path.write_text(end.join(["a,b", "caf\xe9,1", "1", "good,2", ""]), encoding="latin-1")
    table = read_table(path)
    assert [dict(row.values) for row in table.records] == [{"a": "good", "b": "2"}]
    assert len(table.problems) == 2
    assert table.problems[0].startswith(f"{path}:2: byte 0xe9 is not UTF-8")
    assert table.problems[1].startswith(f"{path}:3: 1 cells, expected 2 as in the header")


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfprefix,completion\na,b\n")
    assert list(read_table(path).records[0].values) == ["prefix", "completion"]


@pytest.mark.parametrize(
    ("name", "message"), [("gone.csv", "no such file"), ("t.xlsx", "expected one of .csv")]
)
def test_what_cannot_be_opened_says_so(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / name)


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 10_000])
def test_json_that_python_does_not_read_is_a_problem(tmp_path, value):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n{"a": ' + value + "}\n", encoding="utf-8")
    (problem,) = read_table(path).problems
    assert problem.startswith(f"{path}:2: not valid JSON: ")
