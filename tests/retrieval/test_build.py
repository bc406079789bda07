"""Builds that are interrupted, taken up, refused; and an index that is not what was built."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy
import pytest
from filelock import FileLock

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import bm25, build, sources
from lm_factuality.retrieval import index as indexes
from lm_factuality.retrieval.bm25 import BM25Parameters
from lm_factuality.retrieval.build import build_index, open_index
from lm_factuality.retrieval.passages import Fields, Passage, SourceRecord

TEXTS = [f"boat number {number} of the harbour" for number in range(25)]
BM25 = BM25Parameters


class Interruption(Exception):
    """Stands for a lost machine."""


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(sources, "_BATCH", 10)
    monkeypatch.setattr(bm25, "_COMMIT", 10)


@pytest.fixture
def interrupted(small_batches, write_tsv, tmp_path, monkeypatch):
    """A build that ended in its third batch."""
    source = write_tsv(TEXTS)
    to_passage = sources.to_passage

    def fail(values, names, row, place):
        if row == 23:
            raise Interruption
        return to_passage(values, names, row, place)

    with monkeypatch.context() as context:
        context.setattr(sources, "to_passage", fail)
        with pytest.raises(Interruption):
            build_index(source, tmp_path / "index")
    return source


def test_an_interrupted_build_goes_on_after_its_last_batch(interrupted, tmp_path, monkeypatch):
    assert not (tmp_path / "index").exists()
    read = []
    to_passage = sources.to_passage
    monkeypatch.setattr(
        sources,
        "to_passage",
        lambda values, *rest: read.append(values["id"]) or to_passage(values, *rest),
    )
    index = build_index(interrupted, tmp_path / "index")
    assert read == ["20", "21", "22", "23", "24"]
    assert [passage.text for passage in index.passages] == TEXTS
    assert not (tmp_path / "index.partial").exists()
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [
        "manifest.json",
        "passages.sqlite",
        "tantivy",
    ]
    whole = build_index(interrupted, tmp_path / "whole")
    assert index.identity == whole.identity
    assert index.manifest.sources == whole.manifest.sources
    assert index.retrieve(["boat number 7"], 25) == whole.retrieve(["boat number 7"], 25)


def test_a_build_that_was_interrupted_while_indexing_reads_and_indexes_nothing_again(
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


@pytest.mark.parametrize(
    "name", ["PassageStore.add", "PassageStore.finish", "bm25._fill", "manifests.write_manifest"]
)
def test_a_killed_process_is_taken_up(name, write_tsv, tmp_path):
    """Killed after each step in turn, and in the middle of the first."""
    source = write_tsv([f"{text} {'word ' * 50}" for text in TEXTS * 40])
    program = (
        "import os, sys\n"
        "from lm_factuality.retrieval.build import build_index\n"
        "from lm_factuality.retrieval import bm25, build, sources\n"
        "from lm_factuality.retrieval.build import PassageStore, manifests\n"
        "sources._BATCH = bm25._COMMIT = 100\n"
        "place, name = sys.argv[3].split('.')\n"
        "done, calls = getattr(globals()[place], name), []\n"
        "def killed(*arguments):\n"
        "    done(*arguments)\n"
        "    calls.append(name)\n"
        "    if len(calls) == int(sys.argv[4]): os.kill(os.getpid(), 9)\n"
        "setattr(globals()[place], name, killed)\n"
        "build_index(sys.argv[1], sys.argv[2])\n"
    )
    command = [sys.executable, "-c", program, str(source), str(tmp_path / "index"), name]
    kills = ("3", "7") if name == "PassageStore.add" else ("1",)
    for calls, code in (*((kill, -9) for kill in kills), ("99", 0)):
        assert subprocess.run([*command, calls], check=False).returncode == code
    index = open_index(tmp_path / "index")
    assert len(index) == 1000
    assert len(index.retrieve(["boat"], 1000)[0]) == 1000
    assert not (tmp_path / "index.partial").exists()


# what is changed: (arguments of the second build, what the error must say)
CHANGES = {
    "stemmer": (
        {"parameters": BM25(stemmer="none")},
        "index.partial holds an unfinished build with stemmer 'english', but now it is 'none'",
    ),
    "words": ({"words": 3}, "with words None, but now it is 3"),
    "fields": ({"fields": Fields(id="id")}, "with fields {'id': None"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_parameters_do_not_go_on_with_a_build(change, interrupted, tmp_path):
    arguments, expected = CHANGES[change]
    with pytest.raises(DataError) as error:
        build_index(interrupted, tmp_path / "index", **arguments)
    assert expected in str(error.value)
    assert f"or delete {tmp_path / 'index.partial'} to start over" in str(error.value)


def test_another_source_does_not_go_on_with_a_build(interrupted, tmp_path):
    other = tmp_path / "other.tsv"
    shutil.copy(interrupted, other)
    with pytest.raises(
        DataError,
        match="an unfinished build with sources .*passages.tsv.*, but now it is .*other.tsv",
    ):
        build_index(other, tmp_path / "index")
    content = interrupted.read_text(encoding="utf-8")
    interrupted.write_text(content + "26\tmore boats\n", encoding="utf-8")
    with pytest.raises(DataError, match="an unfinished build with sources .*passages.tsv"):
        build_index(interrupted, tmp_path / "index")
    interrupted.write_text(content.replace("number 3 of", "number 4 of"), encoding="utf-8")
    with pytest.raises(DataError, match="an unfinished build with sources .*passages.tsv"):
        build_index(interrupted, tmp_path / "index")
    interrupted.write_text(content, encoding="utf-8")
    assert len(build_index(interrupted, tmp_path / "index")) == 25


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


def test_nothing_to_index(write_tsv, tmp_path):
    with pytest.raises(DataError, match="no passage has a word, stopwords aside"):
        build_index(write_tsv(["of the", "a - ."]), tmp_path / "index")


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
        ConfigError, match="precious exists and is not an index, so it is not replaced"
    ):
        build_index(source, precious, overwrite=True)
    assert (precious / "thesis.txt").is_file()


def test_two_builds_do_not_share_a_folder(write_tsv, tmp_path):
    with (
        FileLock(tmp_path / "index.partial.lock"),
        pytest.raises(DataError, match="another build is writing into it"),
    ):
        build_index(write_tsv(TEXTS), tmp_path / "index")


def test_words_and_several_sources(write_tsv, tmp_path):
    files = [write_tsv(["one two three four five"]), write_tsv(["six seven"], "more.tsv")]
    index = build_index(files, tmp_path / "index", words=2)
    assert [(passage.id, passage.text) for passage in index.passages] == [
        ("0#0", "one two"),
        ("0#1", "three four"),
        ("0#2", "five"),
        ("0#0", "six seven"),
    ]
    assert index.manifest.parameters["words"] == 2
    assert [record.path for record in index.manifest.sources] == list(map(str, files))
    with pytest.raises(ConfigError, match="words is 0"):
        build_index(files, tmp_path / "other", words=0)


def test_long_texts_end_a_batch_early(write_tsv, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_BATCH_CHARACTERS", 100)
    sizes = []
    add = build.PassageStore.add
    monkeypatch.setattr(
        build.PassageStore,
        "add",
        lambda self, *args: sizes.append(len(args[0])) or add(self, *args),
    )
    index = build_index(write_tsv(TEXTS), tmp_path / "index")
    assert max(sizes) == 4
    assert len(index) == sum(sizes) == 25


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    """Twelve batches take what three take: a batch and Tantivy's heap, not all postings."""
    random = numpy.random.default_rng(0)
    rows = [
        " ".join(f"w{word}" for word in row) + "\n"
        for row in random.integers(5000, size=(24_000, 60))
    ]
    for name, size in (("three.tsv", 6000), ("twelve.tsv", 24_000)):
        (tmp_path / name).write_text("text\n" + "".join(rows[:size]), encoding="utf-8")
    program = (
        "import resource, sys\n"
        "from lm_factuality.retrieval.build import build_index\n"
        "from lm_factuality.retrieval import bm25, build, sources\n"
        "bm25._HEAP, sources._BATCH, bm25._COMMIT = bm25._SMALL_HEAP, 2000, 2000\n"
        "for name in ('three', 'twelve'):\n"
        "    build_index(f'{sys.argv[1]}/{name}.tsv', f'{sys.argv[1]}/{name}')\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    three, twelve = map(
        int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    )
    assert twelve - three < 8_000  # kB; the postings alone are 11,000, the texts 8,000


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


def half_built(folder):
    folder.rename(folder.with_name("index.partial"))


AGAIN = "build the index again: lm-factuality index build SOURCE --out"
# what happened: (how, what the error must say)
DAMAGE = {
    "gone": (shutil.rmtree, ["index: no such folder", "'lm-factuality index build SOURCE --out"]),
    "half built": (
        half_built,
        ["its build was interrupted", "index.partial is unfinished", "run the same"],
    ),
    "foreign": (
        lambda folder: (folder / "manifest.json").unlink(),
        ["no manifest.json in it, so it is not an index"],
    ),
    "manifest not JSON": (
        lambda folder: (folder / "manifest.json").write_text("{"),
        ["manifest.json: not a manifest of an index", AGAIN],
    ),
    "manifest not UTF-8": (
        lambda folder: (folder / "manifest.json").write_bytes(b"\xff"),
        ["manifest.json: not a manifest", AGAIN],
    ),
    "manifest a list": (
        lambda folder: (folder / "manifest.json").write_text("[]"),
        ["not a manifest of an index", AGAIN],
    ),
    "later format": (
        edit(format=3),
        ["format 3, but this version of the suite reads format 2", AGAIN],
    ),
    "unknown kind": (edit(kind="sparse"), ["kind is 'sparse'; expected 'bm25' or 'dense'"]),
    "key missing": (edit(files=[{"name": "a"}]), ["not a manifest of an index", AGAIN]),
    "file outside": (
        edit(files=[{"name": "../a", "size": 1, "sha256": ""}]),
        ["a file outside the folder"],
    ),
    "absolute": (
        edit(files=[{"name": "/a", "size": 1, "sha256": ""}]),
        ["a file outside the folder"],
    ),
    "file missing": (
        lambda folder: (folder / "tantivy" / "meta.json").unlink(),
        ["tantivy/meta.json: missing, expected", AGAIN],
    ),
    "truncated": (
        cut("tantivy/*.idx", 1000),
        [".idx: 1000 bytes, expected 28110 bytes; copy the whole folder", AGAIN],
    ),
    "altered text": (
        flip("passages.sqlite", 50_000),
        ["passages.sqlite: altered since it was built: SHA-256", AGAIN],
    ),
    "altered score": (flip("tantivy/*.idx", 5000), [".idx: altered since it was built"]),
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


# What a large index may hold, whose sums are not compared when it is opened.
UNSUMMED = {
    "meta": (flip("tantivy/meta.json", 0), "not the files of a BM25 index"),
    "terms": (flip("tantivy/*.term", -1), "not the files of a BM25 index"),
    "store's header": (flip("passages.sqlite", 1), "the passages cannot be read"),
}


@pytest.mark.parametrize("kind", UNSUMMED)
def test_a_large_index_is_summed_up_only_when_asked(kind, copied, monkeypatch):
    damage, expected = UNSUMMED[kind]
    damage(copied)
    monkeypatch.setattr(indexes, "_CHECKED_AT_OPENING", 0)
    found = indexes.read_manifest(copied)
    indexes.check_files(copied, found)
    with pytest.raises(DataError, match=expected):
        open_index(copied)
    with pytest.raises(DataError, match="altered since it was built"):
        indexes.check_files(copied, found, sums=True)


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
        build_index(source, tmp_path / "e", words=2),
    ]
    assert len({index.identity for index in built}) == 4
