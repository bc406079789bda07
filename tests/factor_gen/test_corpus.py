"""Reading a corpus: files of every kind give the same documents, and errors name file and line."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
import huggingface_hub.constants
import pyarrow
import pyarrow.parquet
import pytest

from factor_gen import corpus as corpus_module
from factor_gen.corpus import (
    CorpusReader,
    describe_corpus,
    find_corpus_files,
    split_into_sentences,
)
from factor_gen.records import Example
from factor_gen.settings import BuildSettings, CorpusSettings
from lm_factuality.ground.errors import DataError

TEXTS = ["The mill stood.\nIt was red.", "", "Größe “ja” \U0001f600, a\tb"]
"""A text with a line break, an empty one, and one with unusual characters."""


def settings_of(folder: Path, path: str | None = None, **corpus: Any) -> BuildSettings:
    """Return the settings of a build.

    Args:
        folder: The folder from which the paths of the corpus start.
        path: The files of the corpus. None for a dataset.
        corpus: Other settings of the corpus, such as ``dataset`` and ``text``.
    """
    return BuildSettings("test", folder, CorpusSettings(path, **corpus))


def read_corpus(settings: BuildSettings) -> list[Example]:
    """Return the documents of a corpus that needs no commit of the Hub."""
    return list(CorpusReader(settings).read())


def read_files(folder: Path, path: str, **corpus: Any) -> list[Example]:
    """Return the documents of a corpus of files. `settings_of` has the arguments."""
    return read_corpus(settings_of(folder, path, **corpus))


def texts_by_id(documents: list[Example]) -> dict[str, str]:
    """Return the texts of documents, whose ids have to be distinct, in order."""
    texts = {document.doc_id: document.prefix for document in documents}
    assert len(texts) == len(documents)
    return texts


def names_of_files(record: Mapping[str, Any]) -> list[str]:
    """Return the names in the description of a corpus of files."""
    return [file["name"] for file in record["files"]]


ROWS = [{"id": f"t{number}", "text": text, "more": 1} for number, text in enumerate(TEXTS)]
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def write_table(path: Path) -> None:
    """Write `ROWS` in the format that the ending of a file names."""
    lower_name = path.name.lower()
    if lower_name.endswith(".parquet"):
        # The three rows are in two groups.
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path, row_group_size=2)
    elif lower_name.endswith(".csv"):
        # Excel writes a byte order mark, as this encoding does.
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text", "more"])
            writer.writeheader()
            writer.writerows(ROWS)
    elif lower_name.endswith(".gz"):
        path.write_bytes(gzip.compress(JSON_LINES))
    else:
        path.write_bytes(JSON_LINES)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL.GZ", "a.csv", "a.parquet"])
def test_tables_of_every_format_give_the_same_documents(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name)

    documents = read_files(tmp_path, name)

    assert texts_by_id(documents) == {
        "t0": "The mill stood.\nIt was red.",
        "t1": "",
        "t2": "Größe “ja” \U0001f600, a\tb",
    }


@pytest.fixture
def saved_dataset(tmp_path: Path) -> BuildSettings:
    """Return the settings of a corpus that the library ``datasets`` saved with two splits."""
    train = datasets.Dataset.from_list([{"text": text} for text in TEXTS])
    splits = datasets.DatasetDict({"train": train, "test": train.select([0])})
    splits.save_to_disk(str(tmp_path / "saved"))
    return settings_of(tmp_path, dataset="saved", split="train")


def test_a_folder_of_the_datasets_library_is_read_as_a_dataset(
    saved_dataset: BuildSettings,
) -> None:
    """The rows of the dataset have no ids, so they are numbered from 1."""
    documents = read_corpus(saved_dataset)

    assert texts_by_id(documents) == {
        "1": "The mill stood.\nIt was red.",
        "2": "",
        "3": "Größe “ja” \U0001f600, a\tb",
    }


def test_the_files_of_a_saved_dataset_are_described(saved_dataset: BuildSettings) -> None:
    """The description shows in a later build whether the corpus has changed."""
    assert "dataset_dict.json" in names_of_files(describe_corpus(saved_dataset, {}))


def test_unknown_split_is_refused_with_the_available_splits(
    saved_dataset: BuildSettings,
) -> None:
    settings = replace(saved_dataset, corpus=CorpusSettings(dataset="saved", split="dev"))

    with pytest.raises(DataError, match="no split 'dev'; found train, test"):
        read_corpus(settings)


FIRST_COMMIT = "a" * 40
SECOND_COMMIT = "b" * 40


@pytest.fixture
def hub_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildSettings:
    """Return the settings of a dataset of the Hub that gets a new commit after it was asked for."""
    commits = iter([FIRST_COMMIT, SECOND_COMMIT])

    def dataset_info(*arguments: Any, **options: Any) -> SimpleNamespace:
        """Return the next commit, as the Hub does for a dataset."""
        return SimpleNamespace(sha=next(commits))

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", dataset_info)
    return settings_of(tmp_path, dataset="some/news", config="en")


def test_a_dataset_of_the_hub_is_described_by_its_newest_commit(
    hub_dataset: BuildSettings,
) -> None:
    """Only the commit tells later which texts were read, since a branch may get new commits."""
    record = describe_corpus(hub_dataset, {})

    assert record == {"dataset": "some/news", "revision": None, "commit": FIRST_COMMIT}


def test_resumed_build_keeps_its_dataset_commit(hub_dataset: BuildSettings) -> None:
    """All rows of a benchmark must come from the same texts, though the dataset has changed."""
    no_earlier_record: dict[str, Any] = {}
    first_record = describe_corpus(hub_dataset, no_earlier_record)

    resumed_record = describe_corpus(hub_dataset, first_record)

    assert first_record["commit"] == FIRST_COMMIT
    assert resumed_record == first_record


def test_a_new_build_takes_the_new_commit_of_a_dataset(hub_dataset: BuildSettings) -> None:
    """The dataset has changed between two builds that know nothing of each other."""
    no_earlier_record: dict[str, Any] = {}

    first_record = describe_corpus(hub_dataset, no_earlier_record)
    second_record = describe_corpus(hub_dataset, no_earlier_record)

    assert first_record["commit"] == FIRST_COMMIT
    assert second_record["commit"] == SECOND_COMMIT


def test_a_dataset_of_the_hub_is_read_at_the_given_commit(
    hub_dataset: BuildSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dataset is streamed, because it may be larger than the disk."""
    calls = []

    def load_dataset(*arguments: str, **options: Any) -> list[dict[str, str]]:
        """Record how a dataset is loaded, and return its rows."""
        calls.append((arguments, options))
        return [{"text": text} for text in TEXTS]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)

    documents = list(CorpusReader(hub_dataset, FIRST_COMMIT).read())

    assert [document.prefix for document in documents] == TEXTS
    options = {"split": "train", "streaming": True, "revision": FIRST_COMMIT}
    assert calls == [(("some/news", "en"), options)]


def test_dataset_missing_on_the_hub_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub does not answer because the machine is offline."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(DataError, match="the Hub does not answer for 'nobody/nothing'"):
        describe_corpus(settings_of(tmp_path, dataset="nobody/nothing"), {})


@pytest.fixture
def text_files(tmp_path: Path) -> Path:
    """Return a folder in which the folder ``texts`` has two text files and a Markdown file."""
    (tmp_path / "texts").mkdir()
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / "texts" / name).write_bytes(f"I am {name}.\r\n".encode())
    return tmp_path


@pytest.mark.parametrize("path", ["texts/*.txt", "**/*.txt"])
def test_text_files_are_documents_in_the_order_of_their_paths(text_files: Path, path: str) -> None:
    """The order of a folder's files differs between machines, and a benchmark must not."""
    documents = read_files(text_files, path)

    assert [Path(document.doc_id).name for document in documents] == ["a.txt", "b.txt"]
    assert documents[0].prefix == "I am a.txt.\r\n"


@pytest.mark.parametrize("path", ["texts/*.txt", "**/*.txt"])
def test_text_files_are_described_in_the_order_of_their_paths(text_files: Path, path: str) -> None:
    """The same corpus must have the same description on another machine."""
    record = describe_corpus(settings_of(text_files, path), {})

    assert [Path(name).name for name in names_of_files(record)] == ["a.txt", "b.txt"]


@pytest.fixture
def mixed_folder(text_files: Path) -> Path:
    """Return a folder in which ``texts`` also has a picture and a folder with a Markdown file."""
    (text_files / "texts" / "d").mkdir()
    (text_files / "texts" / "d" / "guide.md").write_text("# Guide\n\nTurn *left*.\n")
    (text_files / "texts" / "picture.png").write_bytes(b"\x89PNG")
    return text_files


def test_all_files_of_a_folder_are_read_without_markup(mixed_folder: Path) -> None:
    """An edit of a sentence must not change its Markdown."""
    documents = read_files(mixed_folder, "texts")

    assert texts_by_id([document for document in documents if not document.unused]) == {
        "a.txt": "I am a.txt.",
        "b.txt": "I am b.txt.",
        "c.md": "I am c.md.",
        "d/guide.md": "Guide\n\nTurn left.",
    }


def test_unreadable_file_is_unused_with_the_reason(
    mixed_folder: Path,
) -> None:
    """A picture must not stop a build from thousands of texts."""
    documents = list(split_into_sentences(read_files(mixed_folder, "texts")))

    unused = {document.doc_id: document.unused for document in documents if document.unused}
    assert list(unused) == ["picture.png"]
    assert unused["picture.png"].startswith("read: cannot be read: ends in '.png', expected")


def test_markdown_files_of_a_pattern_are_read_without_markup(mixed_folder: Path) -> None:
    """A pattern of files is read in the same way as a folder."""
    documents = read_files(mixed_folder, "texts/**/*.md")

    assert texts_by_id(documents) == {
        "c.md": "I am c.md.",
        "d/guide.md": "Guide\n\nTurn left.",
    }


@pytest.mark.parametrize("path", ["page.html", "*.html"])
def test_single_page_is_read_like_a_page_in_a_folder(tmp_path: Path, path: str) -> None:
    """A page that is named itself, or by a pattern, has its text without tags as well."""
    (tmp_path / "page.html").write_text("<html><body><p>It opened in 1870.</p></body></html>")

    (document,) = read_files(tmp_path, path)

    assert document.doc_id == "page.html"
    assert document.prefix.strip() == "It opened in 1870."


def test_unreadable_page_is_unused_with_the_reason(tmp_path: Path) -> None:
    """The user finds the reason among the unused documents."""
    (tmp_path / "scan.pdf").write_bytes(b"no PDF")

    (document,) = read_files(tmp_path, "scan.pdf")

    assert document.doc_id == "scan.pdf"
    assert "cannot be read" in document.unused


def test_all_files_of_a_folder_are_described(mixed_folder: Path) -> None:
    """The picture is described as well, because it may be readable after a change."""
    record = describe_corpus(settings_of(mixed_folder, "texts"), {})

    assert names_of_files(record) == ["a.txt", "b.txt", "c.md", "d/guide.md", "picture.png"]


def test_described_path_has_no_absolute_folder(
    text_files: Path,
) -> None:
    """Descriptions are published with the benchmark."""
    record = describe_corpus(settings_of(text_files, f"{text_files}/texts/*.txt"), {})

    assert names_of_files(record) == ["a.txt", "b.txt"]


@pytest.fixture
def two_tables(tmp_path: Path) -> Path:
    """Return a folder with two tables, each with a row without an id and one with the id 5."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"text": "x"}\n\n{"text": "y", "id": 5}\n')
    return tmp_path


def test_a_row_without_an_id_gets_its_number(two_tables: Path) -> None:
    """The first row of the table has no id, and a blank line counts as no row."""
    documents = read_files(two_tables, "a.jsonl")

    assert [document.doc_id for document in documents] == ["1", "5"]


def test_the_numbers_of_rows_in_several_files_have_the_name_of_the_file(two_tables: Path) -> None:
    """Each of the two files has a row with the number 1."""
    documents = read_files(two_tables, "*.jsonl")

    assert [document.doc_id for document in documents] == ["a.jsonl:1", "5", "b.jsonl:1", "5"]


def test_the_settings_name_the_columns_and_limit_the_documents(tmp_path: Path) -> None:
    """The table has five rows, of which the setting ``documents`` lets two be read."""
    rows = [{"name": number, "full_prefix": f"text {number}"} for number in range(5)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    documents = read_files(tmp_path, "a.jsonl", text="full_prefix", id="name", documents=2)

    assert texts_by_id(documents) == {"0": "text 0", "1": "text 1"}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": }\n', r"a\.jsonl:2: not valid JSON"),
        ("a.jsonl", b'["x"]\n', r"a\.jsonl:1: found a JSON list, expected an object"),
        (
            "a.jsonl",
            b'{"txt": "x"}\n',
            r"a\.jsonl:1: no column 'text'; did you mean txt\?; found 'txt'",
        ),
        ("a.jsonl", b'{"text": 3}\n', r"a\.jsonl:1: 'text' is a int"),
        ("a.jsonl", b'{"text": "x", "id": [1]}\n', r"a\.jsonl:1: 'id' is \[1\]"),
        ("a.jsonl", b'{"text": "x"}\n{"text": "\xff"}\n', r"a\.jsonl:2: byte 0xff is not UTF-8"),
        ("a.csv", b"id,text\n1,x,y\n", r"a\.csv:2: 3 cells, expected 2"),
        ("a.csv", b'id,text\n1,"x\n', r"a\.csv:2: not valid CSV"),
        ("a.parquet", b"no parquet", r"a\.parquet: not a readable Parquet file"),
        ("a.txt", b"one\ntwo \xe9\n", r"a\.txt: cannot be read: .*0xe9 in position 8.*UTF-8"),
        ("a.png", b"PNG", r"a\.png: expected a file that ends in \.txt.*\.gz.*\.pdf"),
    ],
)
def test_error_names_file_and_line_of_an_unreadable_row(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    """The user can then find the broken line in a file of millions of lines."""
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DataError, match=problem):
        read_files(tmp_path, name)


@pytest.mark.parametrize("path", ["none.txt", "*.txt", "."])
def test_pattern_without_matching_files_is_refused(tmp_path: Path, path: str) -> None:
    """A misspelt path must not give an empty benchmark."""
    with pytest.raises(DataError, match="no file fits .*; paths start from"):
        read_files(tmp_path, path)


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path) -> None:
    """JSON can have them, but the benchmark is written in UTF-8, which cannot."""
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud800 b", "id": "\\udc00"}\n')

    assert texts_by_id(read_files(tmp_path, "a.jsonl")) == {"\ufffd": "a \ufffd b"}


def test_document_with_a_repeated_id_is_unused() -> None:
    """Two rows of one id could not be told apart in results."""
    [first, second] = split_into_sentences([Example("a", "one"), Example("a", "three")])

    assert first.unused == ""
    assert second.unused == "read: the id of another document"


def test_document_with_a_repeated_text_is_unused() -> None:
    """The same row would count twice in scores."""
    [first, second] = split_into_sentences([Example("a", "one"), Example("c", "one")])

    assert first.unused == ""
    assert second.unused == "read: the text of another document"


def test_empty_texts_are_not_repetitions() -> None:
    """The stage ``select`` drops empty texts later, with a reason that says more."""
    [first, second] = split_into_sentences([Example("d", ""), Example("e", "")])

    assert first.unused == ""
    assert second.unused == ""


@pytest.fixture
def one_table(tmp_path: Path) -> BuildSettings:
    """Return the settings of a corpus with one table, ``a.jsonl``."""
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    return settings_of(tmp_path, "a.jsonl")


def test_the_description_of_an_unchanged_file_stays_the_same(one_table: BuildSettings) -> None:
    """A build that goes on reads the documents again only if the description has changed."""
    first_record = describe_corpus(one_table, {})

    assert describe_corpus(one_table, first_record) == first_record


def test_the_description_of_a_changed_file_changes(one_table: BuildSettings) -> None:
    """A build that goes on reads the documents again if the description has changed."""
    first_record = describe_corpus(one_table, {})
    (one_table.folder / "a.jsonl").write_text('{"text": "yz"}\n')

    assert describe_corpus(one_table, first_record) != first_record


def test_unreadable_file_of_a_description_is_named(
    one_table: BuildSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The description has the checksum of each file, and this file must not be read."""

    def refuse(path: Path) -> str:
        """Fail as for a file of another user."""
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(corpus_module, "sha256_of", refuse)

    with pytest.raises(DataError, match=r"a\.jsonl: cannot be read: .*Permission denied"):
        describe_corpus(one_table, {})


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize(
    ("start", "path"),
    [
        pytest.param("[2024] news", "*.txt", id="from the folder itself"),
        pytest.param(".", "[2024] news/*.txt", id="files in the folder"),
        pytest.param(".", "[2024] news", id="the folder"),
        pytest.param(".", "[2024] news/[ab].txt", id="a pattern of brackets after it"),
    ],
)
def test_brackets_in_a_folder_name_are_no_pattern(
    tmp_path: Path, start: str, path: str, is_absolute: bool
) -> None:
    """As a pattern, "[2024]" would stand for one digit."""
    (tmp_path / "[2024] news").mkdir()
    for name in ("a", "b"):
        (tmp_path / "[2024] news" / f"{name}.txt").write_text(name)
    folder = tmp_path / start

    documents = read_files(folder, str(folder / path) if is_absolute else path)

    assert [document.prefix for document in documents] == ["a", "b"]


def test_the_id_of_a_file_with_a_broken_name_is_valid_utf_8(tmp_path: Path) -> None:
    """The id is written to files in UTF-8, in which the byte E9 alone is no character."""
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("coffee")

    documents = read_files(tmp_path, "*.txt")

    assert texts_by_id(documents) == {"caf\ufffd.txt": "coffee"}


def test_the_description_of_a_file_with_a_broken_name_is_valid_utf_8(tmp_path: Path) -> None:
    """The manifest is written in UTF-8, in which the byte E9 alone is no character."""
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("coffee")
    settings = settings_of(tmp_path, "*.txt")

    assert names_of_files(describe_corpus(settings, {})) == ["caf\ufffd.txt"]
    assert list(find_corpus_files(settings)) == ["caf\ufffd.txt"]
