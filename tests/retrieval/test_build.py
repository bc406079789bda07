"""Builds that are interrupted, resumed and refused, and indexes that are not as they were built."""

from __future__ import annotations

import json
import shutil

import pytest
from filelock import FileLock

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.retrieval import bm25, sources
from lm_factuality.retrieval.bm25 import BM25Parameters
from lm_factuality.retrieval.build import build_index, open_index
from lm_factuality.retrieval.index import check_files, read_manifest
from lm_factuality.retrieval.passages import Passage, SourceRecord
from tests.retrieval.conftest import ENCYCLOPEDIA


class Interruption(Exception):
    """Stands for the loss of the machine."""


@pytest.fixture
def small_batches(monkeypatch):
    """Let builds read and index ten passages at a time."""
    monkeypatch.setattr(sources, "_BATCH_PASSAGES", 10)
    monkeypatch.setattr(bm25, "_COMMIT_INTERVAL", 10)


@pytest.fixture
def indexed_ids(monkeypatch):
    """Return the ids of the passages that builds index from now on, in order."""
    ids = []
    get_contents = Passage.contents.fget

    def record_id(passage):
        ids.append(passage.id)
        return get_contents(passage)

    # A build asks for the contents of each passage that it indexes.
    monkeypatch.setattr(Passage, "contents", property(record_id))
    return ids


def interrupt_build(source, folder, at_id):
    """Build an index, and raise `Interruption` when the passage with the id ``at_id`` is reached."""
    get_contents = Passage.contents.fget

    def interrupt_at_passage(passage):
        if passage.id == at_id:
            raise Interruption
        return get_contents(passage)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Passage, "contents", property(interrupt_at_passage))
        with pytest.raises(Interruption):
            build_index(source, folder)


def test_an_interrupted_build_makes_no_index(write_tsv, tmp_path):
    """An index of half of the passages would look like a whole one."""
    source = write_tsv(["red boat", "blue boat", "green boat"])

    interrupt_build(source, tmp_path / "index", at_id="2")

    assert not (tmp_path / "index").exists()


@pytest.mark.usefixtures("small_batches")
def test_resumed_build_indexes_only_uncommitted_passages(write_tsv, tmp_path, indexed_ids):
    """Passages are committed in batches of ten, so those from 0 to 19 are in the index already."""
    source = write_tsv([f"boat {number}" for number in range(25)])
    interrupt_build(source, tmp_path / "index", at_id="23")
    indexed_ids.clear()

    build_index(source, tmp_path / "index")

    assert indexed_ids == ["20", "21", "22", "23", "24"]


def test_a_resumed_build_does_not_read_the_source_again(write_tsv, tmp_path, monkeypatch):
    """Reading a large source, such as Wikipedia, takes hours."""
    source = write_tsv(["red boat", "blue boat", "green boat"])
    interrupt_build(source, tmp_path / "index", at_id="2")
    monkeypatch.setattr(sources, "to_passage", None)  # so that reading a row would fail

    index = build_index(source, tmp_path / "index")

    assert len(index) == 3


@pytest.mark.usefixtures("small_batches")
def test_an_index_of_a_resumed_build_finds_all_passages(write_tsv, tmp_path):
    source = write_tsv([f"boat {number}" for number in range(25)])
    interrupt_build(source, tmp_path / "index", at_id="23")

    index = build_index(source, tmp_path / "index")

    (hits,) = index.retrieve(["boat"], k=30)
    assert [hit.number for hit in hits] == list(range(25))


def test_resumed_build_removes_files_of_the_interrupted_build(write_tsv, tmp_path):
    source = write_tsv(["red boat", "blue boat", "green boat"])
    interrupt_build(source, tmp_path / "index", at_id="2")

    build_index(source, tmp_path / "index")

    names = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert names == ["manifest.json", "passages.sqlite", "tantivy"]
    assert not (tmp_path / "index.partial").exists()


def test_build_of_another_source_ignores_an_interrupted_build(write_tsv, tmp_path):
    """A query would otherwise find passages or vectors of the first source."""
    first_source = write_tsv(["red boat", "blue boat", "green boat", "old boat"])
    second_source = write_tsv(["grey boat", "new boat"], "other.tsv")
    interrupt_build(first_source, tmp_path / "index", at_id="0")
    (tmp_path / "index.partial" / "embeddings.npy").write_bytes(b"vectors of a dense build")

    index = build_index(second_source, tmp_path / "index", BM25Parameters(stemmer="none"))

    (hits,) = index.retrieve(["boat"], k=30)
    assert [hit.passage.text for hit in hits] == ["grey boat", "new boat"]
    assert not (tmp_path / "index" / "embeddings.npy").exists()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        pytest.param([], "passages.tsv: no passages; expected at least one", id="no passages"),
        pytest.param(["a b\tc"], "passages.tsv:2: 3 cells", id="broken row"),
    ],
)
def test_a_build_of_a_broken_source_leaves_no_folder(texts, message, write_tsv, tmp_path):
    """A folder of that name would block the next build."""
    source = write_tsv(texts)

    with pytest.raises(DataError, match=message):
        build_index(source, tmp_path / "index")

    assert not list(tmp_path.glob("index*"))


def test_a_build_of_a_missing_source_leaves_no_folder(tmp_path):
    """A folder of that name would block the next build."""
    with pytest.raises(DataError, match=r"passages\.tsv: no such file"):
        build_index(tmp_path / "passages.tsv", tmp_path / "index")

    assert not list(tmp_path.glob("index*"))


def test_an_existing_index_is_not_replaced_without_the_option(write_tsv, tmp_path):
    """An index may have taken hours to build."""
    source = write_tsv(["red boat"])
    build_index(source, tmp_path / "index")

    with pytest.raises(ConfigError, match="index exists; give another folder, or --overwrite"):
        build_index(source, tmp_path / "index")


def test_an_existing_index_is_replaced_with_the_option(write_tsv, tmp_path):
    source = write_tsv(["red boat"])
    old_index = build_index(source, tmp_path / "index", BM25Parameters(stemmer="english"))

    new_index = build_index(
        source, tmp_path / "index", BM25Parameters(stemmer="none"), overwrite=True
    )

    assert new_index.identity != old_index.identity
    assert open_index(tmp_path / "index").identity == new_index.identity


def test_a_folder_that_is_no_index_is_never_replaced(write_tsv, tmp_path):
    """The user may have mistyped the name of the folder."""
    source = write_tsv(["red boat"])
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    message = "precious exists; give another folder, or --overwrite if it is an index"

    with pytest.raises(ConfigError, match=message):
        build_index(source, folder, overwrite=True)

    assert (folder / "thesis.txt").is_file()


def test_two_builds_do_not_write_into_one_folder(write_tsv, tmp_path):
    source = write_tsv(["red boat"])
    (tmp_path / "index.partial").mkdir()

    lock_of_other_build = FileLock(tmp_path / "index.partial" / ".lock")

    with (
        lock_of_other_build,
        pytest.raises(DataError, match="another build is writing into it"),
    ):
        build_index(source, tmp_path / "index")


def test_texts_of_all_sources_are_split_into_passages(write_tsv, tmp_path):
    """The id "0#2" is of the third passage of the text "0"; each of the two sources has a "0"."""
    first_source = write_tsv(["one two three four five"])
    second_source = write_tsv(["six seven"], "more.tsv")

    index = build_index([first_source, second_source], tmp_path / "index", max_words=2)

    passages = [(passage.id, passage.text) for passage in index.passages.iterate_from(0)]
    assert passages == [
        ("0#0", "one two"),
        ("0#1", "three four"),
        ("0#2", "five"),
        ("0#0", "six seven"),
    ]


def test_the_manifest_names_all_sources_and_the_words_of_a_passage(write_tsv, tmp_path):
    """Readers of results can build the same index."""
    first_source = write_tsv(["one two three four five"])
    second_source = write_tsv(["six seven"], "more.tsv")

    index = build_index([first_source, second_source], tmp_path / "index", max_words=2)

    source_paths = [record.path for record in index.manifest.sources]
    assert source_paths == [str(first_source), str(second_source)]
    assert index.manifest.parameters["words"] == 2


def test_passages_of_zero_words_are_refused(write_tsv, tmp_path):
    source = write_tsv(["one two three"])

    with pytest.raises(ConfigError, match="words is 0"):
        build_index(source, tmp_path / "index", max_words=0)


@pytest.fixture
def manifest_content(encyclopedia):
    """Return the content of the manifest of the encyclopedia's index."""
    return json.loads((encyclopedia / "manifest.json").read_text(encoding="utf-8"))


def test_the_manifest_describes_the_index(manifest_content):
    """It is that of the sample's encyclopedia, which has 220 pages."""
    assert manifest_content["kind"] == "bm25"
    assert manifest_content["num_passages"] == 220
    assert manifest_content["parameters"] == {
        "method": "tantivy",
        "k1": 1.2,
        "b": 0.75,
        "stemmer": "english",
        "words": None,
        "fields": {"id": None, "title": None, "text": "text"},
    }


def test_the_manifest_lists_all_files_but_itself(manifest_content, encyclopedia):
    """A check for missing and changed files reads this list."""
    paths = {
        path.relative_to(encyclopedia).as_posix()
        for path in encyclopedia.rglob("*")
        if path.is_file()
    }

    listed_paths = {file["name"] for file in manifest_content["files"]}

    assert listed_paths == paths - {"manifest.json"}


def test_the_manifest_has_path_size_and_checksum_of_the_source(encyclopedia):
    """The checksum tells whether another machine has the same texts."""
    (source,) = read_manifest(encyclopedia).sources

    assert source == SourceRecord(
        path=str(ENCYCLOPEDIA),
        size=ENCYCLOPEDIA.stat().st_size,
        sha256=sha256_of(ENCYCLOPEDIA),
        revision=None,
    )


@pytest.fixture
def copied_index(encyclopedia, tmp_path):
    """Return the folder of a copy of the encyclopedia's index, which a test may damage."""
    return shutil.copytree(encyclopedia, tmp_path / "index")


def edit_manifest(folder, **changes):
    """Change keys of the manifest of an index."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **changes}), encoding="utf-8")


def change_byte(folder, pattern, place):
    """Change a byte of the only file of an index that matches a pattern."""
    (path,) = folder.glob(pattern)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


REBUILD = "build the index again: lm-factuality index build SOURCE --out"
"""The advice for an index that cannot be repaired."""


def error_of_opening(folder):
    """Open an index, which must fail, and return the message."""
    with pytest.raises((DataError, ConfigError)) as error:
        open_index(folder)
    return str(error.value)


def test_a_missing_index_is_refused_with_the_command_to_build_one(tmp_path):
    error = error_of_opening(tmp_path / "index")

    assert "not an index, because it has no" in error
    assert "lm-factuality index build SOURCE" in error


@pytest.mark.parametrize(
    "content", [pytest.param(b"{", id="no JSON"), pytest.param(b"\xff", id="not UTF-8")]
)
def test_an_unreadable_manifest_is_named(copied_index, content):
    (copied_index / "manifest.json").write_bytes(content)

    error = error_of_opening(copied_index)

    assert "manifest.json: not a manifest of an index" in error
    assert REBUILD in error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"format": 3}, "format is 3; expected 2", id="later format"),
        pytest.param(
            {"kind": "sparse"}, "kind is 'sparse'; expected 'bm25' or 'dense'", id="unknown kind"
        ),
        pytest.param({"files": [{"name": "a"}]}, "not a manifest of an index", id="missing key"),
        pytest.param(
            {"num_passages": 221},
            "220 passages, expected 221 as in the manifest",
            id="other number of passages",
        ),
        pytest.param(
            {"parameters": {"stemmer": "german"}}, "stemmer: found 'german'", id="unknown stemmer"
        ),
        pytest.param(
            {"parameters": {}}, "not the files of a BM25 index: 'stemmer'", id="no stemmer"
        ),
    ],
)
def test_invalid_manifest_is_refused(copied_index, changes, message):
    """Files of another index would give wrong passages."""
    edit_manifest(copied_index, **changes)

    assert message in error_of_opening(copied_index)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"format": 3}, id="format of a later version"),
        pytest.param({"files": [{"name": "a"}]}, id="file without its size and checksum"),
    ],
)
def test_index_with_an_unknown_manifest_must_be_rebuilt(copied_index, changes):
    """Another version wrote the manifest, or somebody edited it, and nobody can repair it."""
    edit_manifest(copied_index, **changes)

    assert REBUILD in error_of_opening(copied_index)


def test_a_missing_file_of_an_index_is_named(copied_index):
    """The folder may have been copied in part."""
    (copied_index / "tantivy" / "meta.json").unlink()

    error = error_of_opening(copied_index)

    assert "tantivy/meta.json: the file is missing, expected" in error
    assert REBUILD in error


def test_a_truncated_file_of_an_index_is_named(copied_index):
    """Opening an index compares the size of each file with that in the manifest."""
    (path,) = copied_index.glob("tantivy/*.idx")
    whole_file = path.read_bytes()
    path.write_bytes(whole_file[:1000])

    error = error_of_opening(copied_index)

    message = f".idx: 1000 bytes, expected {len(whole_file)}; copy the whole folder"
    assert message in error
    assert REBUILD in error


@pytest.mark.parametrize(
    ("pattern", "place", "message"),
    [
        pytest.param(
            "tantivy/*.term", -1, ".term: altered since it was built", id="end of the terms"
        ),
        pytest.param(
            "passages.sqlite",
            1,
            "passages.sqlite: altered since it was built",
            id="beginning of the passages",
        ),
    ],
)
def test_unreadable_file_of_an_index_is_named(copied_index, pattern, place, message):
    """A broken disk may change a single byte, which can make a file unreadable."""
    change_byte(copied_index, pattern, place)

    error = error_of_opening(copied_index)

    assert message in error
    assert REBUILD in error


def test_a_changed_byte_is_not_noticed_without_comparing_checksums(copied_index):
    """Checksums are not compared by default, since it takes minutes to read a large index."""
    change_byte(copied_index, "tantivy/*.idx", place=5000)

    check_files(copied_index, read_manifest(copied_index))  # raises no error


def test_a_changed_byte_is_found_by_comparing_checksums(copied_index):
    change_byte(copied_index, "tantivy/*.idx", place=5000)
    manifest = read_manifest(copied_index)

    with pytest.raises(DataError, match="altered since it was built"):
        check_files(copied_index, manifest, compare_checksums=True)


def test_the_identity_of_an_index_does_not_depend_on_its_folder(encyclopedia, copied_index):
    """Results of two machines can be compared only if the identity is the same on both."""
    assert open_index(copied_index).identity == open_index(encyclopedia).identity


def test_the_identity_of_an_index_does_not_depend_on_the_version_and_the_sources(
    encyclopedia, copied_index
):
    """Neither changes which passages are found."""
    edit_manifest(copied_index, suite_version="9.9", sources=[])

    assert open_index(copied_index).identity == open_index(encyclopedia).identity


@pytest.mark.parametrize(
    ("texts", "parameters", "max_words"),
    [
        pytest.param(
            ["red boat", "blue boat"], BM25Parameters(stemmer="none"), None, id="other stemmer"
        ),
        pytest.param(["red boat"], BM25Parameters(stemmer="english"), None, id="fewer texts"),
        pytest.param(
            ["red boat", "blue boat"], BM25Parameters(stemmer="english"), 1, id="shorter passages"
        ),
    ],
)
def test_index_identity_depends_on_texts_and_parameters(
    write_tsv, tmp_path, texts, parameters, max_words
):
    """Results name the index by its identity, so two indexes that differ must not share one."""
    index = build_index(
        write_tsv(["red boat", "blue boat"]),
        tmp_path / "index",
        BM25Parameters(stemmer="english"),
        max_words=None,
    )

    other_index = build_index(
        write_tsv(texts, "other.tsv"), tmp_path / "other", parameters, max_words=max_words
    )

    assert other_index.identity != index.identity
