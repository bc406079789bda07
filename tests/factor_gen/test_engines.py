"""Engines: what runs the stages and how often it is stopped does not change a byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.factor_gen.scale import write_documents
from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.settings import BuildSettings, FilterSettings, GenerateSettings
from factor_gen.stages import STAGES, StageError, StageGroup, StageRunner, group_stages
from tests.factor_gen.corpora import contents, write_corpus
from tests.factor_gen.killed import build_until
from tests.factor_gen.tiny_stages import TROUBLE, open_tiny, open_troubled, trouble


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> BuildSettings:
    """Return the settings of a build of 20 documents, d0 to d19, in five shards."""
    return load_build(write_corpus(tmp_path_factory.mktemp("corpus"), documents=20, shard=4))


@pytest.fixture(scope="module")
def expected_files(
    settings: BuildSettings, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, bytes]:
    """Return the files of a build by tiny stages, which one process made without a stop."""
    out = tmp_path_factory.mktemp("expected")
    build(replace(settings, workers=1), out, opener=open_tiny)
    return contents(out)


def write_articles(folder: Path, documents: int, **settings: Any) -> BuildSettings:
    """Write articles, and return the settings of a build from them by the real stages.

    Args:
        folder: The folder of the articles and of the YAML of the build.
        documents: The number of articles.
        settings: Top-level keys of the YAML. By default, a shard has eight documents, rules make
            contradictions, and nothing filters them.
    """
    write_documents(folder / "articles.jsonl", documents)
    content = {
        "corpus": "articles.jsonl",
        "generate": "rules",
        "filter": "none",
        "shard": 8,
        **settings,
    }
    (folder / "articles.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_build(folder / "articles.yaml")


def test_two_processes_write_the_same_files_as_one(tmp_path: Path) -> None:
    """In this corpus, a second sentence is drawn from some documents."""
    settings = write_articles(tmp_path, documents=40)

    build(replace(settings, workers=1), tmp_path / "one")
    build(replace(settings, workers=2), tmp_path / "two")

    files_of_one_process = contents(tmp_path / "one")
    files_of_two_processes = contents(tmp_path / "two")
    has_second_draw = b'"number":2' in files_of_one_process["stages/shards/part-00002.jsonl"]
    assert has_second_draw
    assert files_of_two_processes == files_of_one_process


def test_a_build_makes_missing_shards_again_with_the_same_bytes(tmp_path: Path) -> None:
    """The content of a shard must not depend on other shards."""
    settings = replace(write_articles(tmp_path, documents=40), workers=1)
    out = tmp_path / "out"
    build(settings, out)
    files = contents(out)
    (out / "stages/shards/part-00001.jsonl").unlink()
    (out / "stages/shards/part-00003.jsonl").unlink()

    build(settings, out)

    assert contents(out) == files


@pytest.mark.slow
def test_ray_names_the_stage_the_shard_and_the_documents_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards of eight documents are counted from 0, so that article 9 is in shard 1."""
    pytest.importorskip("ray", reason="needs the extra ray")
    settings = write_articles(tmp_path, documents=40, shard=8, engine="ray", workers=2)
    failure = trouble("raise", stage="types", doc_id="article-9", folder=tmp_path)
    monkeypatch.setenv(TROUBLE, failure)
    problem = r"stage types, shard 1 \(documents 'article-8' to 'article-15'\): ValueError: no luck"

    with pytest.raises(StageError, match=problem):
        build(settings, tmp_path / "ray", opener=open_troubled)


@pytest.mark.slow
def test_ray_writes_the_same_files_after_a_failure_and_the_death_of_two_actors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray calls its processes actors, of which one dies at article 9 and another at article 26."""
    pytest.importorskip("ray", reason="needs the extra ray")
    settings = write_articles(tmp_path, documents=40)
    built = build(replace(settings, workers=1), tmp_path / "local")
    ray_settings = replace(settings, engine="ray", workers=2)
    failure = trouble("raise", stage="types", doc_id="article-9", folder=tmp_path)
    monkeypatch.setenv(TROUBLE, failure)
    with pytest.raises(StageError):
        build(ray_settings, tmp_path / "ray", opener=open_troubled)
    markers = tmp_path / "markers"
    markers.mkdir()
    deaths = [
        trouble("die-once", stage="types", doc_id="article-9", folder=markers),
        trouble("die-once", stage="generate", doc_id="article-26", folder=markers),
    ]
    monkeypatch.setenv(TROUBLE, ";".join(deaths))

    build(ray_settings, tmp_path / "ray", opener=open_troubled)

    assert built.rows >= 15
    assert {path.name for path in markers.iterdir()} == {"types-die-once", "generate-die-once"}
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


@pytest.mark.slow
def test_ray_writes_the_same_files_with_the_filter_of_a_model(
    checkpoint: Path, tmp_path: Path
) -> None:
    """With Ray, the model scores other groups of texts at once."""
    pytest.importorskip("ray", reason="needs the extra ray")
    fluency = {"model": str(checkpoint)}
    settings = write_articles(tmp_path, documents=24, filter={"fluency": fluency})

    built = build(replace(settings, workers=1), tmp_path / "local")
    build(replace(settings, engine="ray", workers=2), tmp_path / "ray")

    assert built.rows >= 5
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_stages_without_models_share_their_workers(settings: BuildSettings) -> None:
    """It takes time to pass documents from one process to another."""
    assert group_stages(settings) == [StageGroup(has_model=False, names=[*STAGES])]


def test_stages_with_models_have_workers_of_their_own(settings: BuildSettings) -> None:
    """Models need a GPU, and are loaded once for each worker."""
    with_models = replace(
        settings, filter=FilterSettings(), generate=GenerateSettings("llm", "lexical")
    )

    assert group_stages(with_models) == [
        StageGroup(has_model=False, names=["select", "types"]),
        StageGroup(has_model=True, names=["generate", "filter", "contradiction"]),
    ]


def test_an_error_of_the_data_names_the_stage_the_shard_and_the_documents(
    settings: BuildSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards of four documents are counted from 0, so that document 9 is in shard 2."""
    failure = trouble("refuse", stage="types", doc_id="d9", folder=tmp_path)
    monkeypatch.setenv(TROUBLE, failure)
    problem = (
        r"stage types, shard 2 \(documents 'd8' to 'd11'\): the data is bad\n"
        "finished shards are kept"
    )

    with pytest.raises(StageError, match=problem):
        build(replace(settings, workers=1), tmp_path / "out", opener=open_tiny)


def test_an_exception_in_a_worker_names_the_stage_the_shard_and_the_documents(
    settings: BuildSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception was raised in another process than the one that reports it."""
    failure = trouble("raise", stage="types", doc_id="d9", folder=tmp_path)
    monkeypatch.setenv(TROUBLE, failure)
    problem = r"stage types, shard 2 \(documents 'd8' to 'd11'\): ValueError: no luck"

    with pytest.raises(StageError, match=problem):
        build(replace(settings, workers=2), tmp_path / "out", opener=open_tiny)


@pytest.fixture(params=[(1, "refuse"), (2, "raise")], ids=["one process", "two processes"])
def failed_out(request: pytest.FixtureRequest, settings: BuildSettings, tmp_path: Path) -> Path:
    """Return the folder of a build that failed at a document in its third of five shards.

    It failed once with one process and an error of the data, and once with two processes and an
    unexpected error.
    """
    workers, kind = request.param
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as monkeypatch:
        failure = trouble(kind, stage="types", doc_id="d9", folder=tmp_path)
        monkeypatch.setenv(TROUBLE, failure)
        with pytest.raises(StageError):
            build(replace(settings, workers=workers), out, opener=open_tiny)
    return out


def test_a_failed_build_keeps_its_finished_shards_and_no_benchmark(failed_out: Path) -> None:
    """The build failed in the third shard, which has the number 2."""
    assert (failed_out / "stages/shards/part-00001.jsonl").is_file()
    assert not (failed_out / "stages/shards/part-00002.jsonl").exists()
    assert not (failed_out / "corpus.csv").exists()


def test_a_failed_build_that_goes_on_writes_the_same_files(
    failed_out: Path, settings: BuildSettings, expected_files: Mapping[str, bytes]
) -> None:
    """The failure must not change the benchmark."""
    build(replace(settings, workers=1), failed_out, opener=open_tiny)

    assert contents(failed_out) == expected_files


def test_an_error_names_the_documents_at_which_a_process_died(
    settings: BuildSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that runs out of memory reports no error.

    Nobody can tell which of the two processes died, so that its shard may be any.
    """
    death = trouble("die", stage="select", doc_id="d9", folder=tmp_path)
    monkeypatch.setenv(TROUBLE, death)

    with pytest.raises(StageError, match=r"documents 'd\d+' to 'd\d+'\): a process .* died"):
        build(replace(settings, workers=2), tmp_path / "out", opener=open_tiny)


@pytest.mark.parametrize("stage", ["read", "filter"])
def test_a_build_killed_at_a_document_goes_on_and_writes_the_same_files(
    settings: BuildSettings, expected_files: Mapping[str, bytes], tmp_path: Path, stage: str
) -> None:
    """A long build may be killed while it reads the corpus or in one of its stages."""
    out = tmp_path / "out"
    config = settings.folder / "corpus.yaml"
    build_until(stage, "d9", config=config, out=out, folder=tmp_path)
    assert not (out / "corpus.csv").exists()

    build(replace(settings, workers=1), out, opener=open_tiny)

    assert contents(out) == expected_files


def test_a_build_killed_between_two_finished_files_goes_on_and_writes_the_same_files(
    settings: BuildSettings, expected_files: Mapping[str, bytes], tmp_path: Path
) -> None:
    """Finished files are moved to their place one by one, and the manifest last."""
    out = tmp_path / "out"
    config = settings.folder / "corpus.yaml"
    build_until("move", "corpus.yaml", config=config, out=out, folder=tmp_path)
    assert (out / "corpus.csv").exists()
    assert not (out / "manifest.json").exists()

    build(replace(settings, workers=1), out, opener=open_tiny)

    assert contents(out) == expected_files


def test_preparing_a_stage_opens_it_once_and_returns_nothing(settings: BuildSettings) -> None:
    """Ray pickles what an actor returns, and a stage that asks a model cannot be pickled."""
    opened = []
    runner = StageRunner(settings, lambda _settings, name: opened.append(name))

    result = runner.prepare("generate")
    runner.prepare("generate")

    assert result is None
    assert opened == ["generate"]
