"""Builds that are interrupted, taken up, refused; and an index that is not what was built."""

from __future__ import annotations

import json
import shutil

import pytest
from filelock import FileLock

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import bm25, build, sources
from lm_factuality.retrieval import index as indexes
from lm_factuality.retrieval.bm25 import BM25Parameters
from lm_factuality.retrieval.build import build_index, open_index
from lm_factuality.retrieval.passages import Passage, SourceRecord

TEXTS = [f"boat number {number} of the harbour" for number in range(25)]
BM25 = BM25Parameters


class Interruption(Exception):
    """Stands for a lost machine."""


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "_BATCH_PASSAGES", 10)
    monkeypatch.setattr(bm25, "_COMMIT_INTERVAL", 10)


def test_an_interrupted_build_keeps_what_it_has_read_and_indexed(
    small_batches, write_tsv, tmp_path, monkeypatch
):
    source, indexed = write_tsv(TEXTS), []
    contents = Passage.contents.fget

    def interrupt(passage):
        if len(indexed) == 23:
            raise Interruption
        indexed.append(passage.id)
        return contents(passage)

    with monkeypatch.context() as context:
        context.setattr(Passage, "contents", property(interrupt))
        with pytest.raises(Interruption):
            build_index(source, tmp_path / "index")
    assert not (tmp_path / "index").exists()
    monkeypatch.setattr(sources, "to_passage", None)
    indexed.clear()
    monkeypatch.setattr(
        Passage,
        "contents",
        property(lambda passage: indexed.append(passage.id) or contents(passage)),
    )
    index = build_index(source, tmp_path / "index")
    assert indexed == ["20", "21", "22", "23", "24"]
    assert [hit.number for hit in index.retrieve(["boat"], 30)[0]] == list(range(25))
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [
        "manifest.json",
        "passages.sqlite",
        "tantivy",
    ]
    assert not (tmp_path / "index.partial").exists()


def test_another_build_starts_over(small_batches, write_tsv, tmp_path, monkeypatch):
    source = write_tsv(TEXTS)
    with monkeypatch.context() as context:
        context.setattr(build, "list_files", _fail)
        with pytest.raises(Interruption):
            build_index(source, tmp_path / "index")
    (tmp_path / "index.partial" / "embeddings.npy").write_bytes(b"vectors of a dense build")
    other = build_index(write_tsv(TEXTS[:3], "other.tsv"), tmp_path / "index", BM25(stemmer="none"))
    assert [hit.number for hit in other.retrieve(["boat"], 30)[0]] == [0, 1, 2]
    assert not (tmp_path / "index" / "embeddings.npy").exists()


def _fail(*_):
    raise Interruption


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "passages.tsv: no passages; expected at least one"),
        (["a b\tc"], "passages.tsv:2: 3 cells"),
        (None, "passages.tsv: no such file"),
    ],
)
def test_a_build_without_a_passage_leaves_nothing(texts, expected, write_tsv, tmp_path):
    source = tmp_path / "passages.tsv" if texts is None else write_tsv(texts)
    with pytest.raises(DataError, match=expected):
        build_index(source, tmp_path / "index")
    assert not list(tmp_path.glob("index*"))


def test_an_index_is_replaced_only_when_asked_and_only_an_index(write_tsv, tmp_path):
    source, folder = write_tsv(TEXTS), tmp_path / "index"
    first = build_index(source, folder)
    with pytest.raises(ConfigError, match="index exists; give another folder, or --overwrite"):
        build_index(source, folder)
    second = build_index(source, folder, BM25(stemmer="none"), overwrite=True)
    assert open_index(folder).identity == second.identity != first.identity
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(
        ConfigError, match="precious exists; give another folder, or --overwrite if it is an index"
    ):
        build_index(source, precious, overwrite=True)
    assert (precious / "thesis.txt").is_file()


def test_two_builds_do_not_share_a_folder(write_tsv, tmp_path):
    (tmp_path / "index.partial").mkdir()
    with (
        FileLock(tmp_path / "index.partial" / ".lock"),
        pytest.raises(DataError, match="another build is writing into it"),
    ):
        build_index(write_tsv(TEXTS), tmp_path / "index")


def test_words_and_several_sources(write_tsv, tmp_path):
    files = [write_tsv(["one two three four five"]), write_tsv(["six seven"], "more.tsv")]
    index = build_index(files, tmp_path / "index", max_words=2)
    assert [(passage.id, passage.text) for passage in index.passages.iterate_from(0)] == [
        ("0#0", "one two"),
        ("0#1", "three four"),
        ("0#2", "five"),
        ("0#0", "six seven"),
    ]
    assert index.manifest.parameters["words"] == 2
    assert [record.path for record in index.manifest.sources] == list(map(str, files))
    with pytest.raises(ConfigError, match="words is 0"):
        build_index(files, tmp_path / "other", max_words=0)


def test_the_manifest_says_what_the_index_is(encyclopedia):
    content = json.loads((encyclopedia / "manifest.json").read_text(encoding="utf-8"))
    assert content["kind"] == "bm25"
    assert content["num_passages"] == 220
    assert content["parameters"] == {
        "method": "tantivy",
        "k1": 1.2,
        "b": 0.75,
        "stemmer": "english",
        "words": None,
        "fields": {"id": None, "title": None, "text": "text"},
    }
    assert content["sources"][0]["path"].endswith("encyclopedia.jsonl")
    paths = {
        path.relative_to(encyclopedia).as_posix()
        for path in encyclopedia.rglob("*")
        if path.is_file()
    }
    assert {file["name"] for file in content["files"]} == paths - {"manifest.json"}
    assert indexes.read_manifest(encyclopedia).sources[0] == SourceRecord(**content["sources"][0])


def edit(**changes):
    """Changes keys of the manifest."""

    def change(folder):
        path = folder / "manifest.json"
        path.write_text(
            json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}),
            encoding="utf-8",
        )

    return change


def cut(name, size):
    def change(folder):
        (path,) = folder.glob(name)
        path.write_bytes(path.read_bytes()[:size])

    return change


def flip(name, place):
    def change(folder):
        (path,) = folder.glob(name)
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)

    return change


AGAIN = "build the index again: lm-factuality index build SOURCE --out"
# what happened: (how, what the error must say)
DAMAGE = {
    "gone": (
        shutil.rmtree,
        ["not an index, because it has no", "lm-factuality index build SOURCE"],
    ),
    "manifest not JSON": (
        lambda folder: (folder / "manifest.json").write_text("{"),
        ["manifest.json: not a manifest of an index", AGAIN],
    ),
    "manifest not UTF-8": (
        lambda folder: (folder / "manifest.json").write_bytes(b"\xff"),
        ["manifest.json: not a manifest", AGAIN],
    ),
    "later format": (edit(format=3), ["format is 3; expected 2", AGAIN]),
    "unknown kind": (edit(kind="sparse"), ["kind is 'sparse'; expected 'bm25' or 'dense'"]),
    "key missing": (edit(files=[{"name": "a"}]), ["not a manifest of an index", AGAIN]),
    "file missing": (
        lambda folder: (folder / "tantivy" / "meta.json").unlink(),
        ["tantivy/meta.json: the file is missing, expected", AGAIN],
    ),
    "truncated": (
        cut("tantivy/*.idx", 1000),
        [".idx: 1000 bytes, expected 28110; copy the whole folder", AGAIN],
    ),
    "terms altered": (flip("tantivy/*.term", -1), [".term: altered since it was built", AGAIN]),
    "store altered": (
        flip("passages.sqlite", 1),
        ["passages.sqlite: altered since it was built", AGAIN],
    ),
    "passages missing": (edit(num_passages=221), ["220 passages, expected 221 as in the manifest"]),
    "stemmer unknown": (edit(parameters={"stemmer": "german"}), ["stemmer: found 'german'"]),
    "stemmer missing": (edit(parameters={}), ["not the files of a BM25 index: 'stemmer'"]),
}


@pytest.fixture
def copied(encyclopedia, tmp_path):
    """A copy of the encyclopedia's index that may be damaged."""
    return shutil.copytree(encyclopedia, tmp_path / "index")


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_index_is_named(kind, copied):
    damage, expected = DAMAGE[kind]
    damage(copied)
    with pytest.raises((DataError, ConfigError)) as error:
        open_index(copied)
    for text in expected:
        assert text in str(error.value)


def test_sums_are_compared_when_asked(copied):
    flip("tantivy/*.idx", 5000)(copied)
    manifest = indexes.read_manifest(copied)
    indexes.check_files(copied, manifest)
    with pytest.raises(DataError, match="altered since it was built"):
        indexes.check_files(copied, manifest, compare_checksums=True)


def test_the_identity_changes_with_what_changes_results(encyclopedia, tmp_path, write_tsv):
    same = shutil.copytree(encyclopedia, tmp_path / "elsewhere")
    assert open_index(same).identity == open_index(encyclopedia).identity
    edit(suite_version="9.9", sources=[])(same)
    assert open_index(same).identity == open_index(encyclopedia).identity
    source = write_tsv(TEXTS)
    built = [
        build_index(source, tmp_path / "a"),
        build_index(source, tmp_path / "c", BM25(stemmer="none")),
        build_index(write_tsv(TEXTS[:-1], "fewer.tsv"), tmp_path / "d"),
        build_index(source, tmp_path / "e", max_words=2),
    ]
    assert len({index.identity for index in built}) == 4
