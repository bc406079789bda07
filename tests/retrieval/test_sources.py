"""Passages from every format of file, and what is said about rows that are none."""

from __future__ import annotations

import csv
import gzip
import json

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.retrieval import sources
from lm_factuality.retrieval.passages import (
    Passage,
    PassageColumns,
    ReadingLog,
    parse_columns,
    split_passage,
)
from lm_factuality.retrieval.sources import holds_dataset, open_sources

PASSAGES = [
    Passage("7", "Harbour", "The harbour froze in 1840."),
    Passage("8", 'The "Gull"', 'She said "no", and\u2028left.'),
    Passage("9", "", "Zwölf Boote – gone."),
    Passage("10", "Mill", "A mill, burned twice."),
]
ROWS = [{"id": passage.id, "title": passage.title, "text": passage.text} for passage in PASSAGES]


def write_tsv(path):
    """Write the passages like DPR: by Python's csv module, with the text before the title."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text", "title"], delimiter="\t")
        writer.writeheader()
        writer.writerows(ROWS)


def write_jsonl(path):
    """Write the passages as lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


def write_parquet(path):
    """Write the passages as Parquet, with another column and in two groups of rows."""
    rows = [{**row, "other": 1} for row in ROWS]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)


def write_tsv_gz(path):
    """Write the passages as TSV, packed by gzip."""
    write_tsv(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_jsonl_gz(path):
    """Write the passages as lines of JSON, packed by gzip."""
    write_jsonl(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def save_dataset(path):
    """Write the passages as a folder of ``datasets``."""
    datasets.Dataset.from_list(ROWS).save_to_disk(path)


def save_dataset_with_splits(path):
    """Write the passages as a folder of ``datasets`` with a single split."""
    datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}).save_to_disk(path)


def write_folder_of_files(path):
    """Write the passages as a folder that ``datasets`` can load."""
    path.mkdir()
    write_jsonl(path / "train.jsonl")


FILE_FORMATS = [
    ("passages.tsv", write_tsv),
    ("passages.TSV.GZ", write_tsv_gz),
    ("passages.jsonl", write_jsonl),
    ("passages.jsonl.gz", write_jsonl_gz),
    ("passages.parquet", write_parquet),
]
FOLDER_FORMATS = [
    ("saved", save_dataset),
    ("splits", save_dataset_with_splits),
    ("files", write_folder_of_files),
]


def open_source(path):
    """Open the only source at a path."""
    (source,) = open_sources(str(path), PassageColumns(), ReadingLog())
    return source


@pytest.mark.parametrize(("name", "write_passages"), [*FILE_FORMATS, *FOLDER_FORMATS])
def test_every_format_gives_the_same_passages(tmp_path, name, write_passages):
    """The same texts must give the same index, whatever file they come in."""
    write_passages(tmp_path / name)

    source = open_source(tmp_path / name)

    assert list(source.passages) == PASSAGES
    assert source.record.path == str(tmp_path / name)


@pytest.mark.parametrize(("name", "write_file"), FILE_FORMATS)
def test_the_record_of_a_file_has_its_size_and_checksum(tmp_path, name, write_file):
    """The formats are TSV, JSON Lines, both packed by gzip, and Parquet."""
    path = tmp_path / name
    write_file(path)

    record = open_source(path).record

    assert record.size == path.stat().st_size
    assert record.sha256 == sha256_of(path)


def change_one_byte(path):
    """Change the first byte of the word "harbour", or the tenth byte of a file without the word."""
    content = bytearray(path.read_bytes())
    content[max(10, content.find(b"harbour"))] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "write", "changed_file"),
    [
        ("passages.tsv", write_tsv, "passages.tsv"),
        ("passages.jsonl.gz", write_jsonl_gz, "passages.jsonl.gz"),
        ("passages.parquet", write_parquet, "passages.parquet"),
        ("saved", save_dataset, "saved/*.arrow"),
    ],
)
def test_the_checksum_of_a_source_changes_with_its_bytes(tmp_path, name, write, changed_file):
    """A single byte is changed, which leaves the size of the source the same."""
    write(tmp_path / name)
    record_before = open_source(tmp_path / name).record
    (path,) = tmp_path.glob(changed_file)
    change_one_byte(path)

    record = open_source(tmp_path / name).record

    assert record.size == record_before.size
    assert record.sha256 != record_before.sha256


def read_passages(path, fields=""):
    """Read all passages of a source.

    Args:
        path: The source.
        fields: The names of its columns, as on the command line.
    """
    columns = parse_columns(fields) if fields else PassageColumns()
    (source,) = open_sources([str(path)], columns, ReadingLog())
    return list(source.passages)


@pytest.fixture
def write_source(tmp_path):
    """Return a function that writes a source of this name and content."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def test_passage_id_defaults_to_the_line_number(write_source):
    path = write_source("rows.jsonl", b'{"text": "One."}\n{"text": "Two.", "title": null}\n')

    assert read_passages(path) == [
        Passage(id="1", title="", text="One."),
        Passage(id="2", title="", text="Two."),
    ]


def test_an_id_may_be_a_number(write_source):
    """It becomes a text, since ids are compared as texts."""
    path = write_source("rows.jsonl", b'{"text": "Two.", "id": 5}\n')

    assert read_passages(path) == [Passage(id="5", title="", text="Two.")]


def test_a_byte_order_mark_and_blank_lines_are_no_rows(write_source):
    """Editors on Windows write such a mark, U+FEFF, at the beginning of a file."""
    content = '\ufeff{"text": "One.", "id": 1}\n\n{"text": "Two.", "id": 5}\n'
    path = write_source("rows.jsonl", content.encode())

    assert [passage.id for passage in read_passages(path)] == ["1", "5"]


def test_columns_may_have_other_names(write_source):
    """The named column is read even if another column has the usual name, "text"."""
    path = write_source("rows.jsonl", b'{"body": "One.", "page": 3, "text": 1}\n')

    passages = read_passages(path, fields="text=body, id=page")

    assert passages == [Passage(id="3", title="", text="One.")]


def test_a_text_is_split_into_passages_of_two_words():
    """The number behind ``#`` in an id tells which part of the text the passage is."""
    text = Passage(id="a", title="T", text="one two\nthree  four five")

    passages = list(split_passage(text, 2))

    assert passages == [
        Passage(id="a#0", title="T", text="one two"),
        Passage(id="a#1", title="T", text="three four"),
        Passage(id="a#2", title="T", text="five"),
    ]


def test_all_pieces_of_a_text_are_in_the_same_batch(write_source, monkeypatch):
    """A batch is full with two passages, but is not cut within a text."""
    monkeypatch.setattr(sources, "_BATCH_PASSAGES", 2)
    path = write_source(
        "rows.jsonl",
        b'{"id": "a", "text": "one two three four five"}\n'
        b'{"id": "b", "text": "six"}\n'
        b'{"id": "c", "text": "seven eight nine"}\n',
    )

    log = ReadingLog()
    batches = list(sources.read_batches(open_sources(path, PassageColumns(), log), 2, log))

    ids = [[passage.id for passage in batch] for batch in batches]
    assert ids == [["a#0", "a#1", "a#2"], ["b#0", "c#0", "c#1"]]


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.tsv: no such file"):
        read_passages(tmp_path / "gone.tsv")


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        pytest.param(
            "rows.xyz",
            b"x",
            "",
            "rows.xyz: ends in '.xyz', expected one of .tsv, .tsv.gz, .jsonl",
            id="unknown ending",
        ),
        pytest.param(
            "rows.tsv",
            b"1\tA text.\tTitle\n2\tA text.\tTitle\n",
            "",
            "rows.tsv:2: no column 'text'; found 1, A text., Title; name the one with the text",
            id="TSV without a header",
        ),
        pytest.param(
            "rows.tsv",
            b"id\ttext\n1\ta b\n",
            "id=page",
            "rows.tsv:2: no column 'page'; found id, text",
            id="TSV without the named column",
        ),
        pytest.param(
            "rows.tsv",
            b"id\ttext\ttitle\n1\ta\tb\n2\tc\n",
            "",
            "rows.tsv:3: 2 cells, expected 3 as in the header, with tabs between them",
            id="TSV with a missing cell",
        ),
        pytest.param(
            "rows.tsv",
            b'id\ttext\ttitle\n1\t"a\tb\n2\tc"\td\n',
            "",
            "rows.tsv:2: a cell with a double quote that ends on another line",
            id="TSV with a cell of two lines",
        ),
        pytest.param(
            "rows.tsv",
            b"id\ttext\n1\t \n",
            "",
            "rows.tsv:2: 'text' is empty, expected a text",
            id="TSV with an empty text",
        ),
        pytest.param(
            "rows.tsv",
            b"id\ttext\n1\tcaf\xe9\n",
            "",
            "rows.tsv:2: byte 0xe9 is not UTF-8",
            id="TSV that is not UTF-8",
        ),
        pytest.param(
            "rows.jsonl.gz",
            gzip.compress(b'{"text": "a"}\n' * 999)[:-20],
            "",
            "cannot be read: Compressed file ended",
            id="gzip that ends early",
        ),
        pytest.param(
            "rows.jsonl",
            b'{"id": 1, "body": "a"}\n',
            "",
            "rows.jsonl:1: no column 'text'; found id, body; name the one with the text",
            id="JSON without a text",
        ),
        pytest.param(
            "rows.jsonl",
            b'{"text": null}\n',
            "",
            "rows.jsonl:1: 'text' is empty, expected a text",
            id="JSON with a text that is null",
        ),
        pytest.param(
            "rows.jsonl",
            b'{"text": "a", "title": ["b"]}\n',
            "",
            "rows.jsonl:1: 'title' is a list, expected a text or a whole number",
            id="JSON with a title that is a list",
        ),
        pytest.param(
            "rows.jsonl",
            b'{"text": "a"}\n',
            "title=name",
            "rows.jsonl:1: no column 'name'; found text; name the one with the title: "
            "--fields title=NAME",
            id="JSON without the named title",
        ),
        pytest.param(
            "rows.jsonl",
            b'{"text": "a \\ud83d"}\n',
            "",
            "rows.jsonl:1: holds half of a surrogate pair",
            id="JSON with half of a surrogate pair",
        ),
        pytest.param(
            "rows.parquet",
            b"plain text",
            "",
            "rows.parquet: not a readable Parquet file",
            id="no Parquet",
        ),
    ],
)
def test_invalid_row_is_refused_with_its_line(write_source, name, content, fields, message):
    """Whoever reads the error can correct the row, or name the right column."""
    path = write_source(name, content)

    with pytest.raises(DataError) as error:
        read_passages(path, fields)

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param(
            {"text": ["a", None]}, "rows.parquet, row 2: 'text' is empty", id="empty text"
        ),
        pytest.param(
            {"body": ["a"]},
            "rows.parquet, row 1: no column 'text'; found body",
            id="no column of texts",
        ),
    ],
)
def test_invalid_table_row_is_refused_with_its_number(tmp_path, columns, message):
    """Whoever reads the error can correct the row, or name the right column."""
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)

    with pytest.raises(DataError, match=message):
        read_passages(path)


def test_an_unknown_split_of_a_dataset_is_refused_with_the_known_ones(tmp_path):
    save_dataset_with_splits(tmp_path / "splits")

    with pytest.raises(DataError, match="no split 'test'; found train; name one: hub:.*::SPLIT"):
        open_sources([f"hub:{tmp_path / 'splits'}::test"], PassageColumns(), ReadingLog())


def test_an_empty_folder_is_no_source(tmp_path):
    (tmp_path / "empty").mkdir()

    with pytest.raises(DataError, match="empty: there are no files in this folder"):
        open_sources([str(tmp_path / "empty")], PassageColumns(), ReadingLog())


def test_dataset_missing_on_the_hub_is_named():
    """The tests have no connection to the Hub."""
    with pytest.raises(DataError, match="the Hub does not answer for 'nobody/nothing'"):
        open_sources(["hub:nobody/nothing"], PassageColumns(), ReadingLog())


@pytest.mark.parametrize(
    ("fields", "message"),
    [("txt=a", "did you mean text"), ("text", "text names no column"), ("", "unknown key ''")],
)
def test_invalid_column_mapping_is_refused(fields, message):
    """If a misspelt name were ignored, the text would be read from the wrong column."""
    with pytest.raises(ConfigError, match=message):
        parse_columns(fields)


@pytest.mark.parametrize(
    ("names", "is_dataset"),
    [
        (["dataset_dict.json", "train/data.arrow"], True),
        (["data/a.parquet", "README.md"], True),
        (["train.jsonl"], True),
        (["train-00000-of-00001.csv", "test.csv"], True),
        (["prices.csv", "people.csv"], False),
        (["train.jsonl", "guide.md"], False),
        (["a.parquet", "guide.md"], False),
        ([], False),
    ],
)
def test_a_folder_holds_a_dataset_or_documents(tmp_path, names, is_dataset):
    """A dataset has files of one kind that are named after its splits, such as ``train``."""
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    assert holds_dataset(tmp_path) == is_dataset


def test_a_dataset_card_marks_a_dataset(tmp_path):
    """The card of a dataset is the YAML at the top of its ``README.md``."""
    (tmp_path / "README.md").write_text("---\nconfigs:\n- config_name: default\n---\n")
    (tmp_path / "rows.csv").write_text("a\n1\n")

    assert holds_dataset(tmp_path)


def test_a_csv_file_with_texts_holds_passages(write_source):
    """Other columns, such as the year, are left out."""
    path = write_source("rows.csv", b"id,title,text,year\n5,Mill,It burned.,1840\n")

    assert read_passages(path) == [Passage(id="5", title="Mill", text="It burned.")]


def test_a_csv_file_without_texts_holds_documents(write_source):
    """Each row becomes a text with the names of its columns."""
    path = write_source("rows.csv", b"name,price\nRope,3\n")

    assert read_passages(path) == [
        Passage(id="rows.csv#1", title="Rope", text="name: Rope\nprice: 3")
    ]


def test_columns_of_documents_are_refused(write_source):
    """A document has no columns, so the option would have no effect."""
    path = write_source("a.md", b"Text.")

    with pytest.raises(ConfigError, match="--fields names columns, but this is read as documents"):
        read_passages(path, fields="title=heading")
