"""A whole build: what it writes, what it does again, and what it refuses."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
    """Return the settings of a build of eight documents in three shards."""
    return replace(load_build(write_corpus(tmp_path, shard=3)), workers=1)


def test_a_build_counts_its_documents_and_rows(settings: BuildSettings, tmp_path: Path) -> None:
    """The corpus has eight documents, and each of them gives a row."""
    built = build(settings, tmp_path / "out", opener=open_tiny)

    assert built.documents == 8
    assert built.rows == 8
    assert built.unused == {}


def test_a_build_of_few_documents_warns_at_its_start(
    settings: BuildSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The user should know it before a build that takes hours."""
    build(settings, tmp_path / "out", opener=open_tiny)

    assert "the corpus has 8 documents, and a document gives at most one row" in caplog.text


def test_rows_are_sentences_of_the_corpus(tmp_path: Path) -> None:
    """A document is one sentence that is too short to be selected, and another one."""
    config = write_corpus(tmp_path, documents=0)
    sentence_of_north = "The harbour in the north was dug by sailors in the year 1820."
    sentence_of_south = "The harbour in the south was dug by farmers in the year 1832."
    append_document(tmp_path, "north", f"It is cold.\n{sentence_of_north}")
    append_document(tmp_path, "south", f"It is warm.\n{sentence_of_south}")

    built = build(load_build(config), tmp_path / "out", opener=open_tiny)

    with built.files["csv"].open(encoding="utf-8", newline="") as file:
        completions = {row["doc_id"]: row["completion"] for row in csv.DictReader(file)}
    assert completions == {"north": sentence_of_north, "south": sentence_of_south}


def test_the_manifest_names_the_files_of_the_corpus_without_their_folder(
    settings: BuildSettings, tmp_path: Path
) -> None:
    """A manifest is published, and must not have the names of folders of this machine."""
    built = build(settings, tmp_path / "out", opener=open_tiny)

    manifest_text = built.files["manifest"].read_text()
    [corpus_file] = json.loads(manifest_text)["corpus"]["files"]
    assert corpus_file["name"] == "corpus.jsonl"
    assert str(tmp_path) not in manifest_text


def append_document(folder: Path, doc_id: str, text: str) -> None:
    """Append a document to the corpus that `write_corpus` wrote into a folder."""
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"id": doc_id, "text": text}) + "\n")


ARABIC_TEXT = (
    "x\nتقع الطاحونة القديمة بجانب النهر ويريد مجلس المدينة بيعها قبل حلول فصل الشتاء القادم."
)


def test_documents_without_rows_are_counted_by_reason(tmp_path: Path) -> None:
    """Four of the six documents are unusable, each for another reason."""
    config = write_corpus(tmp_path, documents=2)
    append_document(tmp_path, "d1", "x")
    append_document(tmp_path, "same", town(0))
    append_document(tmp_path, "none", "")
    append_document(tmp_path, "arabic", ARABIC_TEXT)

    built = build(load_build(config), tmp_path / "out", opener=open_tiny)

    assert built.documents == 6
    assert built.rows == 2
    assert built.unused == {
        ("read", "the id of another document"): 1,
        ("read", "the text of another document"): 1,
        ("select", "the text is empty"): 1,
        ("select", "no sentence in the language en"): 1,
    }


class WriteTimes(NamedTuple):
    """When the first shards of a build were written, in nanoseconds."""

    documents: int
    """The time of the documents that were read from the corpus."""

    results: int
    """The time of the results of the stages."""


def read_write_times(out: Path) -> WriteTimes:
    """Return when the first shards in the folder of a build were written."""
    return WriteTimes(
        documents=(out / "stages/documents/part-00000.jsonl").stat().st_mtime_ns,
        results=(out / "stages/shards/part-00000.jsonl").stat().st_mtime_ns,
    )


@pytest.fixture
def built_out(settings: BuildSettings, tmp_path: Path) -> Path:
    """Return the folder of a finished build with the settings of the fixture ``settings``."""
    build(settings, tmp_path / "out", opener=open_tiny)
    return tmp_path / "out"


def test_unchanged_build_reuses_all_shards(settings: BuildSettings, built_out: Path) -> None:
    """A build that goes on keeps the shards of an earlier build."""
    first_times = read_write_times(built_out)

    build(settings, built_out, opener=open_tiny)

    assert read_write_times(built_out) == first_times


def test_changed_stage_setting_reruns_stages_without_reading_documents(
    settings: BuildSettings, built_out: Path
) -> None:
    """Reading a large corpus takes hours and does not depend on that setting."""
    first_times = read_write_times(built_out)
    changed_settings = replace(settings, select=SelectSettings(min_words=11))

    build(changed_settings, built_out, opener=open_tiny)

    second_times = read_write_times(built_out)
    assert second_times.results != first_times.results
    assert second_times.documents == first_times.documents


def test_a_changed_corpus_is_read_again(
    settings: BuildSettings, built_out: Path, tmp_path: Path
) -> None:
    """A ninth document is added to the eight of the first build."""
    first_times = read_write_times(built_out)
    append_document(tmp_path, "ninth", "The tower is old.\nIt was built by sailors of the north.")

    built = build(settings, built_out, opener=open_tiny)

    second_times = read_write_times(built_out)
    assert built.documents == 8 + 1
    assert second_times.documents != first_times.documents
    assert second_times.results != first_times.results


def test_a_restarted_build_makes_all_shards_again(settings: BuildSettings, built_out: Path) -> None:
    """This is what the option ``--restart`` does."""
    first_times = read_write_times(built_out)

    build(settings, built_out, restart=True, opener=open_tiny)

    second_times = read_write_times(built_out)
    assert second_times.documents != first_times.documents
    assert second_times.results != first_times.results


def test_new_seed_reruns_stages_with_random_sentences(
    settings: BuildSettings, tmp_path: Path
) -> None:
    """The seed decides which sentences are drawn, but not which documents are read."""
    random_sentence = replace(settings, select=SelectSettings(position="random"))
    out = tmp_path / "out"
    build(random_sentence, out, opener=open_tiny)
    first_times = read_write_times(out)

    build(replace(random_sentence, seed=5), out, opener=open_tiny)

    second_times = read_write_times(out)
    assert second_times.results != first_times.results
    assert second_times.documents == first_times.documents


def test_new_seed_reruns_stages_by_default(settings: BuildSettings, built_out: Path) -> None:
    """By default, a sentence is drawn at random from those with the most facts."""
    first_times = read_write_times(built_out)

    build(replace(settings, seed=5), built_out, opener=open_tiny)

    assert read_write_times(built_out).results != first_times.results


def test_new_seed_reuses_shards_with_first_sentences(
    settings: BuildSettings, tmp_path: Path
) -> None:
    """Nothing is drawn at random, so the seed has no effect on shards."""
    first_sentence = replace(settings, select=SelectSettings(position="first"))
    out = tmp_path / "out"
    build(first_sentence, out, opener=open_tiny)
    first_times = read_write_times(out)

    build(replace(first_sentence, seed=5), out, opener=open_tiny)

    assert read_write_times(out) == first_times


def test_the_size_of_shards_does_not_change_the_benchmark(
    settings: BuildSettings, tmp_path: Path
) -> None:
    """The size only decides how much work is lost if a build is stopped."""
    one_per_shard = build(replace(settings, shard=1), tmp_path / "small", opener=open_tiny)
    all_in_one_shard = build(replace(settings, shard=100), tmp_path / "large", opener=open_tiny)

    assert one_per_shard.files.keys() == all_in_one_shard.files.keys()
    for kind, path in one_per_shard.files.items():
        assert path.read_bytes() == all_in_one_shard.files[kind].read_bytes()


def test_concurrent_builds_in_one_folder_are_refused(
    settings: BuildSettings, tmp_path: Path
) -> None:
    """Both would write the same files."""
    out = tmp_path / "out"
    out.mkdir()

    with FileLock(out / ".lock"), pytest.raises(DataError, match="another build is at work"):
        build(settings, out, opener=open_tiny)


def test_output_path_of_a_file_is_refused(settings: BuildSettings, tmp_path: Path) -> None:
    """The user may have named the file by mistake."""
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match="cannot be written"):
        build(settings, tmp_path / "file", opener=open_tiny)


def test_a_corpus_without_documents_is_refused(settings: BuildSettings, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("")

    with pytest.raises(DataError, match="the corpus holds no documents"):
        build(settings, tmp_path / "out", opener=open_tiny)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the YAML of a build, which is in one folder with its corpus."""
    return write_corpus(tmp_path)


def test_a_build_does_not_replace_its_own_yaml(config: Path, tmp_path: Path) -> None:
    """The YAML ``corpus.yaml`` has the same name as the task that the build would write."""
    files_before = contents(tmp_path)

    with pytest.raises(DataError, match=r"corpus\.yaml: the build reads this file"):
        build(load_build(config), tmp_path, opener=open_tiny)

    files_after = contents(tmp_path)
    assert {path: files_after[path] for path in files_before} == files_before


def test_a_build_does_not_replace_a_file_of_the_user(config: Path, tmp_path: Path) -> None:
    """A benchmark has a README.md too, but this one is the user's."""
    (tmp_path / "README.md").write_text("of my project")

    with pytest.raises(DataError, match=r"README\.md: is there already"):
        build(replace(load_build(config), name="towns"), tmp_path, restart=True, opener=open_tiny)

    assert (tmp_path / "README.md").read_text() == "of my project"
    # The build fails before hours of work.
    assert not (tmp_path / "stages").exists()


def test_a_build_in_the_folder_of_its_corpus_changes_no_file_there(
    config: Path, tmp_path: Path
) -> None:
    """The corpus and the YAML of the build are in this folder."""
    settings = replace(load_build(config), name="towns")
    files_before = contents(tmp_path)

    build(settings, tmp_path, opener=open_tiny)
    # The second build may replace the files of the first.
    build(settings, tmp_path, opener=open_tiny)

    files_after = contents(tmp_path)
    assert {path: files_after[path] for path in files_before} == files_before


def test_build_does_not_replace_a_benchmark_used_as_corpus(built_out: Path, tmp_path: Path) -> None:
    """The build would destroy what it reads."""
    config = tmp_path / "corpus.yaml"
    config.write_text(
        "corpus: {path: out/corpus.csv, text: full_prefix}\ngenerate: rules\nfilter: none\n"
    )
    files_before = contents(built_out)

    with pytest.raises(DataError, match=r"out/corpus\.csv: the build reads this file"):
        build(load_build(config), built_out, opener=open_tiny)

    assert contents(built_out) == files_before


def test_a_build_does_not_replace_its_yaml_among_files_of_an_earlier_build(
    built_out: Path,
) -> None:
    """The benchmark has a file of the same name, which is the YAML of its task."""
    config = built_out / "corpus.yaml"
    config.write_text("corpus: ../corpus.jsonl\ngenerate: rules\nfilter: none\n")
    files_before = contents(built_out)

    with pytest.raises(DataError, match=r"out/corpus\.yaml: the build reads this file"):
        build(load_build(config), built_out, opener=open_tiny)

    assert contents(built_out) == files_before
