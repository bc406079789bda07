"""Corpora of every kind give the same documents; what cannot be read is named by file and line."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from factor_gen import corpus as corpus_module
from factor_gen.corpus import (
    describe_corpus,
    find_corpus_files,
    read_documents,
    split_into_sentences,
)
from factor_gen.records import Example
from factor_gen.settings import BuildSettings, CorpusSettings
from lm_factuality.ground.errors import DataError

TEXTS = ["The mill stood.\nIt was red.", "", "Größe “ja” \U0001f600, a\tb"]


def settings_of(folder: Path, path: str, **keys: Any) -> BuildSettings:
    return BuildSettings("test", folder, CorpusSettings(path, **keys))


def documents(folder: Path, path: str, **keys: Any) -> list[Example]:
    return list(read_documents(settings_of(folder, path, **keys), None, Counter()))


def write_table(path: Path) -> None:
    rows = [{"id": f"t{number}", "text": text, "more": 1} for number, text in enumerate(TEXTS)]
    if path.name.endswith(".parquet"):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    elif path.name.endswith(".csv"):
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(content) if path.suffix.lower() == ".gz" else content)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL.GZ", "a.csv", "a.parquet"])
def test_tables_give_the_same_documents(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name)
    read = documents(tmp_path, name)
    assert [(each.doc_id, each.prefix) for each in read] == [
        ("t0", TEXTS[0]),
        ("t1", ""),
        ("t2", TEXTS[2]),
    ]


def test_a_folder_of_the_datasets_library_is_a_dataset(tmp_path: Path) -> None:
    import datasets

    made = datasets.Dataset.from_list([{"text": text} for text in TEXTS])
    datasets.DatasetDict({"train": made, "test": made.select([0])}).save_to_disk(
        str(tmp_path / "saved")
    )
    settings = BuildSettings("test", tmp_path, CorpusSettings(dataset="saved", split="train"))
    assert [(each.doc_id, each.prefix) for each in read_documents(settings, None, Counter())] == [
        (str(n), t) for n, t in enumerate(TEXTS, start=1)
    ]
    assert {"dataset_dict.json"} <= {
        each["name"] for each in describe_corpus(settings, {})["files"]
    }
    wrong = replace(settings, corpus=CorpusSettings(dataset="saved", split="dev"))
    with pytest.raises(DataError, match="no split 'dev'; found train, test"):
        list(read_documents(wrong, None, Counter()))


def test_a_dataset_of_the_hub_is_read_at_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets
    import huggingface_hub

    commits, asked = iter(["a" * 40, "b" * 40]), []

    def load_dataset(*given: Any, **named: Any) -> list[dict[str, str]]:
        asked.append((given, named))
        return [{"text": text} for text in TEXTS]

    info = lambda *_, **__: SimpleNamespace(sha=next(commits))  # noqa: E731
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", info)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    settings = BuildSettings("test", tmp_path, CorpusSettings(dataset="some/news", config="en"))
    first = describe_corpus(settings, {})
    assert first == {"dataset": "some/news", "revision": None, "commit": "a" * 40}
    assert (
        describe_corpus(settings, first) == first
    )  # a build goes on with the commit that it began with
    assert describe_corpus(settings, {})["commit"] == "b" * 40
    assert [each.prefix for each in read_documents(settings, first["commit"], Counter())] == TEXTS
    assert asked == [
        (("some/news", "en"), {"split": "train", "streaming": True, "revision": "a" * 40})
    ]


def test_a_dataset_that_the_hub_does_not_give_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    settings = BuildSettings("test", tmp_path, CorpusSettings(dataset="nobody/nothing"))
    with pytest.raises(DataError, match="the Hub does not answer for 'nobody/nothing'"):
        describe_corpus(settings, {})


@pytest.mark.parametrize("given", ["texts", "texts/*.txt", "**/*.txt"])
def test_text_files_are_documents_in_the_order_of_their_paths(tmp_path: Path, given: str) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / "texts" / name).write_bytes(f"I am {name}.\r\n".encode())
    read = documents(tmp_path, given)
    assert [Path(each.doc_id).name for each in read] == ["a.txt", "b.txt"]
    assert read[0].prefix == "I am a.txt.\r\n"
    record = describe_corpus(settings_of(tmp_path, given), {})
    assert [Path(each["name"]).name for each in record["files"]] == ["a.txt", "b.txt"]
    absolute = describe_corpus(settings_of(tmp_path, f"{tmp_path}/texts/*.txt"), {})
    assert [each["name"] for each in absolute["files"]] == ["a.txt", "b.txt"]


def test_rows_without_an_id_are_numbered_and_told_apart_by_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "x"}\n\n{"text": "y", "id": 5}\n')
    assert [each.doc_id for each in documents(tmp_path, "a.jsonl")] == ["1", "5"]
    assert [each.doc_id for each in documents(tmp_path, "*.jsonl")] == [
        "a.jsonl:1",
        "5",
        "b.jsonl:1",
        "5",
    ]


def test_documents_are_limited_and_columns_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"name": n, "full_prefix": f"t{n}"}) + "\n" for n in range(5))
    )
    read = documents(tmp_path, "a.jsonl", text="full_prefix", id="name", documents=2)
    assert [(each.doc_id, each.prefix) for each in read] == [("0", "t0"), ("1", "t1")]


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
        ("a.pdf", b"%PDF", r"a\.pdf: expected a file that ends in \.csv.*\.gz"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        documents(tmp_path, name)


@pytest.mark.parametrize("given", ["none.txt", "*.txt", "."])
def test_no_files_are_an_error(tmp_path: Path, given: str) -> None:
    with pytest.raises(DataError, match=r"no file fits .*\.txt; paths start from"):
        documents(tmp_path, given)


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud800 b", "id": "\\udc00"}\n')
    assert [(each.doc_id, each.prefix) for each in documents(tmp_path, "a.jsonl")] == [
        ("\ufffd", "a \ufffd b")
    ]


def test_repeated_ids_and_texts_are_unused_and_empty_texts_are_not_repeats() -> None:
    given = [
        Example("a", "one"),
        Example("b", "two"),
        Example("a", "three"),
        Example("c", "one"),
        Example("d", ""),
        Example("e", ""),
    ]
    assert [each.unused for each in split_into_sentences(given)] == [
        "",
        "",
        "read: the id of another document",
        "read: the text of another document",
        "",
        "",
    ]


def test_the_record_says_when_a_file_changed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    settings = settings_of(tmp_path, "a.jsonl")
    first = describe_corpus(settings, {})
    assert describe_corpus(settings, first) == first
    (tmp_path / "a.jsonl").write_text('{"text": "yz"}\n')
    assert describe_corpus(settings, first) != first


@pytest.mark.parametrize(
    "given", ["*.txt", "[2024] news/*.txt", "[2024] news", "[2024] news/[ab].txt"]
)
def test_a_folder_with_brackets_in_its_name_is_meant_as_written(tmp_path: Path, given: str) -> None:
    folder = tmp_path / "[2024] news"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(name)
    start = folder if given == "*.txt" else tmp_path
    assert [each.prefix for each in documents(start, given)] == ["a", "b"]
    assert [each.prefix for each in documents(tmp_path, str(start / given))] == ["a", "b"]


def test_a_name_that_is_no_text_is_written_without_what_is_wrong_in_it(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("coffee")
    (tmp_path / "tea.txt").write_text("tea")
    assert [each.doc_id for each in documents(tmp_path, "*.txt")] == ["caf\ufffd.txt", "tea.txt"]
    record = describe_corpus(settings_of(tmp_path, "*.txt"), {})
    assert [each["name"] for each in record["files"]] == ["caf\ufffd.txt", "tea.txt"]
    files = find_corpus_files(settings_of(tmp_path, "*.txt"))
    assert list(files) == ["caf\ufffd.txt", "tea.txt"]


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    monkeypatch.setattr(corpus_module, "sha256_of", refused)
    with pytest.raises(DataError, match=r"a\.jsonl: cannot be read: .*Permission denied"):
        describe_corpus(settings_of(tmp_path, "a.jsonl"), {})
