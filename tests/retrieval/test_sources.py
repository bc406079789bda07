"""Passages from every format, in whole and from the middle, and what is said about rows that are
none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.retrieval.passages import Passage, PassageColumns, parse_columns, split_passage
from lm_factuality.retrieval.sources import open_sources

PASSAGES = [
    Passage("7", "Harbour", "The harbour froze in 1840."),
    Passage("8", 'The "Gull"', 'She said "no", and\u2028left.'),
    Passage("9", "", "Zwölf Boote – gone."),
    Passage("10", "Mill", "A mill, burned twice."),
]


def tsv(path: Path) -> None:
    """As Python's csv module writes it, like DPR: quotes only where they are needed, columns in
    DPR's order."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["id", "text", "title"])
        writer.writerows([passage.id, passage.text, passage.title] for passage in PASSAGES)


def jsonl(path: Path) -> None:
    rows = [
        {"id": passage.id, "title": passage.title, "text": passage.text} for passage in PASSAGES
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def parquet(path: Path) -> None:
    rows = [
        {"id": passage.id, "title": passage.title, "text": passage.text, "other": 1}
        for passage in PASSAGES
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)


def saved(path: Path) -> None:
    import datasets

    rows = [
        {"id": passage.id, "title": passage.title, "text": passage.text} for passage in PASSAGES
    ]
    datasets.Dataset.from_list(rows).save_to_disk(path)


def saved_splits(path: Path) -> None:
    import datasets

    rows = [
        {"id": passage.id, "title": passage.title, "text": passage.text} for passage in PASSAGES
    ]
    datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)}).save_to_disk(path)


def data_files(path: Path) -> None:
    path.mkdir()
    jsonl(path / "train.jsonl")


def gzipped(write):
    def compressed(path: Path) -> None:
        plain = path.with_name("plain")
        write(plain)
        path.write_bytes(gzip.compress(plain.read_bytes()))

    return compressed


FORMATS = {
    "passages.tsv": tsv,
    "passages.TSV.GZ": gzipped(tsv),
    "passages.jsonl": jsonl,
    "passages.jsonl.gz": gzipped(jsonl),
    "passages.parquet": parquet,
    "saved": saved,
    "splits": saved_splits,
    "files": data_files,
}


def read(*paths: Path, fields: str = "") -> list[Passage]:
    """All passages of some sources."""
    names = parse_columns(fields) if fields else PassageColumns()
    sources = open_sources([str(path) for path in paths], names)
    return [passage for source in sources for passage in source.passages]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_passages(name, tmp_path):
    path = tmp_path / name
    FORMATS[name](path)
    (source,) = open_sources(str(path), PassageColumns())
    assert list(source.passages) == PASSAGES
    assert source.record.path == str(path)
    if path.is_file():
        assert source.record.size == path.stat().st_size
        assert source.record.sha256 == sha256_of(path)


@pytest.mark.parametrize("name", ["passages.tsv", "passages.jsonl.gz", "passages.parquet", "saved"])
def test_the_record_of_a_source_changes_with_its_bytes(name, tmp_path):
    FORMATS[name](tmp_path / name)
    (before,) = open_sources(str(tmp_path / name), PassageColumns())
    path = next(tmp_path.rglob("*.arrow")) if name == "saved" else tmp_path / name
    content = bytearray(path.read_bytes())
    content[max(10, content.find(b"harbour"))] ^= 1
    path.write_bytes(content)
    (after,) = open_sources(str(tmp_path / name), PassageColumns())
    assert after.record.size == before.record.size
    assert after.record.sha256 != before.record.sha256


def test_ids_and_titles_have_defaults_and_columns_other_names(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '\ufeff{"text": "One."}\n\n{"text": "Two.", "id": 5, "title": null}\n', encoding="utf-8"
    )
    assert read(path) == [
        Passage("1", "", "One."),
        Passage("5", "", "Two."),
    ]
    path.write_text('{"body": "One.", "page": 3, "text": 1}\n', encoding="utf-8")
    assert read(path, fields="text=body, id=page") == [Passage("3", "", "One.")]


def test_texts_are_split_into_words():
    passage = Passage("a", "T", "one two\nthree  four five")
    assert list(split_passage(passage, 2)) == [
        Passage("a#0", "T", "one two"),
        Passage("a#1", "T", "three four"),
        Passage("a#2", "T", "five"),
    ]


# name: (file, its content, fields, what the error must say)
BAD = {
    "no such file": ("gone.tsv", None, "", "gone.tsv: no such file"),
    "unknown ending": (
        "rows.csv",
        b"x",
        "",
        "rows.csv: ends in '.csv', expected one of .tsv, .tsv.gz, .jsonl",
    ),
    "no header": (
        "rows.tsv",
        b"1\tA text.\tTitle\n2\tA text.\tTitle\n",
        "",
        "rows.tsv:2: no column 'text'; found 1, A text., Title; name the one with the text",
    ),
    "column of --fields": (
        "rows.tsv",
        b"id\ttext\n1\ta b\n",
        "id=page",
        "rows.tsv:2: no column 'page'; found id, text",
    ),
    "cells missing": (
        "rows.tsv",
        b"id\ttext\ttitle\n1\ta\tb\n2\tc\n",
        "",
        "rows.tsv:3: 2 cells, expected 3 as in the header, with tabs between them",
    ),
    "quote that takes a row": (
        "rows.tsv",
        b'id\ttext\ttitle\n1\t"a\tb\n2\tc"\td\n',
        "",
        "rows.tsv:2: a cell with a double quote that ends on another line",
    ),
    "empty text": (
        "rows.tsv",
        b"id\ttext\n1\t \n",
        "",
        "rows.tsv:2: 'text' is empty, expected a text",
    ),
    "not UTF-8": ("rows.tsv", b"id\ttext\n1\tcaf\xe9\n", "", "rows.tsv:2: byte 0xe9 is not UTF-8"),
    "truncated gzip": (
        "rows.jsonl.gz",
        gzip.compress(b'{"text": "a"}\n' * 999)[:-20],
        "",
        "cannot be read: Compressed file ended",
    ),
    "no text": (
        "rows.jsonl",
        b'{"id": 1, "body": "a"}\n',
        "",
        "rows.jsonl:1: no column 'text'; found id, body; name the one with the text",
    ),
    "null text": (
        "rows.jsonl",
        b'{"text": null}\n',
        "",
        "rows.jsonl:1: 'text' is empty, expected a text",
    ),
    "title is a list": (
        "rows.jsonl",
        b'{"text": "a", "title": ["b"]}\n',
        "",
        "rows.jsonl:1: 'title' is a list, expected a text or a whole number",
    ),
    "title that was named": (
        "rows.jsonl",
        b'{"text": "a"}\n',
        "title=name",
        "rows.jsonl:1: no column 'name'; found text; name the one with the title: --fields title=NAME",
    ),
    "half a surrogate pair": (
        "rows.jsonl",
        b'{"text": "a \\ud83d"}\n',
        "",
        "rows.jsonl:1: holds half of a surrogate pair",
    ),
    "not Parquet": ("rows.parquet", b"plain text", "", "rows.parquet: not a readable Parquet file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named(kind, tmp_path):
    name, content, fields, expected = BAD[kind]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        read(tmp_path / name, fields=fields)
    assert expected in str(error.value)


def test_bad_rows_of_tables_are_named_by_number(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", None]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="rows.parquet, row 2: 'text' is empty"):
        read(tmp_path / "rows.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"body": ["a"]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="rows.parquet, row 1: no column 'text'; found body"):
        read(tmp_path / "rows.parquet")


def test_datasets_that_cannot_be_read(tmp_path):
    saved_splits(tmp_path / "splits")
    with pytest.raises(DataError, match="no split 'test'; found train; name one: hub:.*::SPLIT"):
        open_sources([f"hub:{tmp_path / 'splits'}::test"], PassageColumns())
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: cannot be read"):
        open_sources([str(tmp_path / "empty")], PassageColumns())
    with pytest.raises(DataError, match="the Hub does not answer for 'nobody/nothing'"):
        open_sources(["hub:nobody/nothing"], PassageColumns())


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("txt=a", "did you mean text"), ("text", "text names no column"), ("", "unknown key ''")],
)
def test_fields_that_cannot_be_understood(argument, expected):
    with pytest.raises(ConfigError, match=expected):
        parse_columns(argument)
