"""A whole build: what it leaves behind, what it does again, and what it refuses."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.settings import BuildSettings, SelectSettings
from lm_factuality.ground.errors import DataError
from tests.factor_gen.corpora import contents, town, write_corpus
from tests.factor_gen.tiny_stages import open_tiny


@pytest.fixture
def settings(tmp_path: Path) -> BuildSettings:
    return replace(load_build(write_corpus(tmp_path, shard=3)), workers=1)


def times(out: Path) -> dict[str, int]:
    return {
        path.parent.name: path.stat().st_mtime_ns for path in out.glob("stages/*/part-00000.jsonl")
    }


def test_rows_are_sentences_of_the_corpus(settings: BuildSettings, tmp_path: Path) -> None:
    built = build(settings, tmp_path / "out", opener=open_tiny)
    assert (built.documents, built.rows, dict(built.unused)) == (8, 8, {})
    with built.files["csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["doc_id"] for row in rows] == [f"d{number}" for number in range(8)]
    for number, row in enumerate(rows):
        assert row["completion"] in town(number)
    manifest = json.loads(built.files["manifest"].read_text())
    assert [each["name"] for each in manifest["corpus"]["files"]] == ["corpus.jsonl"]
    assert str(tmp_path) not in built.files["manifest"].read_text()


def test_documents_that_give_no_row_are_counted_by_reason(tmp_path: Path) -> None:
    path = write_corpus(tmp_path, documents=2)
    more = [
        {"id": "d1", "text": "x"},
        {"id": "same", "text": town(0)},
        {"id": "none", "text": ""},
        {
            "id": "RTL",
            "text": "x\nتقع الطاحونة القديمة بجانب النهر ويريد مجلس المدينة بيعها قبل حلول فصل الشتاء القادم.",
        },
    ]
    with (tmp_path / "corpus.jsonl").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in more)
    built = build(load_build(path), tmp_path / "out", opener=open_tiny)
    assert (built.documents, built.rows) == (6, 2)
    assert built.unused == {
        ("read", "the id of another document"): 1,
        ("read", "the text of another document"): 1,
        ("select", "the text is empty"): 1,
        ("select", "no sentence in the language en"): 1,
    }


def test_only_what_changed_is_made_again(settings: BuildSettings, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(settings, out, opener=open_tiny)
    first = times(out)
    build(settings, out, opener=open_tiny)
    assert times(out) == first
    build(replace(settings, select=SelectSettings(min_words=11)), out, opener=open_tiny)
    second = times(out)
    assert {name for name in first if first[name] != second[name]} == {"shards"}
    with (tmp_path / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"id": "new", "text": town(99)}) + "\n")
    assert (
        build(
            replace(settings, select=SelectSettings(min_words=11)), out, opener=open_tiny
        ).documents
        == 9
    )
    third = times(out)
    assert all(second[name] != third[name] for name in second)
    build(settings, out, restart=True, opener=open_tiny)
    assert all(third[name] != time for name, time in times(out).items())


def test_the_size_of_shards_changes_nothing(settings: BuildSettings, tmp_path: Path) -> None:
    files = []
    for shard in (1, 100):
        built = build(replace(settings, shard=shard), tmp_path / str(shard), opener=open_tiny)
        files.append({kind: path.read_bytes() for kind, path in built.files.items()})
    assert files[0] == files[1]


def test_two_builds_in_one_folder_are_refused(settings: BuildSettings, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with (
        FileLock(tmp_path / "out" / ".lock"),
        pytest.raises(DataError, match="another build is at work"),
    ):
        build(settings, tmp_path / "out", opener=open_tiny)


def test_what_cannot_be_built_is_refused(settings: BuildSettings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        build(settings, tmp_path / "file", opener=open_tiny)
    (tmp_path / "corpus.jsonl").write_text("")
    with pytest.raises(DataError, match="the corpus holds no documents"):
        build(settings, tmp_path / "out", opener=open_tiny)


def test_a_build_writes_over_nothing_of_the_user(tmp_path: Path) -> None:
    path = write_corpus(tmp_path)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(DataError, match=r"corpus\.yaml: the build reads this file"):
        build(load_build(path), tmp_path, opener=open_tiny)
    assert {each: each.read_bytes() for each in before} == before
    named = replace(load_build(path), name="towns")
    (tmp_path / "README.md").write_text("of my project")
    with pytest.raises(DataError, match=r"README\.md: is there already"):
        build(named, tmp_path, restart=True, opener=open_tiny)
    assert not (tmp_path / "stages").exists()  # it is told before anything is made
    (tmp_path / "README.md").unlink()
    build(named, tmp_path, opener=open_tiny)
    build(named, tmp_path, opener=open_tiny)
    assert {each: each.read_bytes() for each in before} == before


@pytest.mark.parametrize("kind", ["corpus", "yaml"])
def test_a_build_does_not_write_over_what_it_reads(
    settings: BuildSettings, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "out"
    path = tmp_path / "corpus.yaml"
    build(settings, out, opener=open_tiny)  # from here on the files in out are a build's
    if kind == "corpus":
        path.write_text(
            "corpus: {path: out/corpus.csv, text: full_prefix}\ngenerate: rules\nfilter: none\n"
        )
    else:
        path = out / "corpus.yaml"
        path.write_text("corpus: ../corpus.jsonl\ngenerate: rules\nfilter: none\n")
    before = contents(out)
    with pytest.raises(DataError, match=r"out/corpus\..*: the build reads this file"):
        build(load_build(path), out, opener=open_tiny)
    assert contents(out) == before


def test_the_seed_matters_only_where_lots_are_drawn(
    settings: BuildSettings, tmp_path: Path
) -> None:
    for position in ("first", "random"):
        out, first = (
            tmp_path / position,
            replace(settings, select=SelectSettings(position=position)),
        )
        build(first, out, opener=open_tiny)
        before = times(out)
        build(replace(first, seed=5), out, opener=open_tiny)
        remade = {name for name, time in times(out).items() if time != before[name]}
        assert remade == (set() if position == "first" else {"shards"})
