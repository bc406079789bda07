"""Engines: the same bytes whatever runs the stages and however often it is stopped; failures name
stage, shard, documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bench.factor_gen.scale import write_documents
from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.settings import BuildSettings, FilterSettings, GenerateSettings
from factor_gen.stages import STAGES, StageError, group_stages
from tests.factor_gen.corpora import contents, write_corpus
from tests.factor_gen.killed import build_until
from tests.factor_gen.tiny_stages import TROUBLE, open_tiny, open_troubled


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> BuildSettings:
    return load_build(write_corpus(tmp_path_factory.mktemp("corpus"), documents=20, shard=4))


@pytest.fixture(scope="module")
def expected(
    settings: BuildSettings, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, bytes]:
    """Every file of an uninterrupted build in one process."""
    out = tmp_path_factory.mktemp("expected")
    build(replace(settings, workers=1), out, opener=open_tiny)
    return contents(out)


def real(folder: Path, documents: int, **keys: object) -> BuildSettings:
    """A build of articles by the real rules."""
    write_documents(folder / "articles.jsonl", documents)
    content = {"corpus": "articles.jsonl", "generate": "rules", "filter": "none", "shard": 8}
    (folder / "articles.yaml").write_text(yaml.safe_dump({**content, **keys}), encoding="utf-8")
    return load_build(folder / "articles.yaml")


def test_processes_and_a_stopped_build_draw_what_one_process_draws(tmp_path: Path) -> None:
    settings = real(tmp_path, documents=40)
    build(replace(settings, workers=1), tmp_path / "one")
    expected = contents(tmp_path / "one")
    assert b'"number":2' in expected["stages/shards/part-00002.jsonl"]

    build(replace(settings, workers=2), tmp_path / "two")
    assert contents(tmp_path / "two") == expected

    for number in (1, 3):
        (tmp_path / f"two/stages/shards/part-0000{number}.jsonl").unlink()
    build(replace(settings, workers=1), tmp_path / "two")
    assert contents(tmp_path / "two") == expected


@pytest.mark.slow
def test_ray_makes_the_same_by_real_rules_though_a_stage_fails_and_an_actor_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    settings = real(tmp_path, documents=40)
    built = build(replace(settings, workers=1), tmp_path / "local")
    assert built.rows >= 15
    monkeypatch.setenv(TROUBLE, f"types raise article-9 {tmp_path}")
    with pytest.raises(
        StageError,
        match=r"stage types, shard 1 \(documents 'article-8' to 'article-15'\): ValueError: no luck",
    ):
        build(replace(settings, engine="ray", workers=2), tmp_path / "ray", opener=open_troubled)
    monkeypatch.setenv(
        TROUBLE, f"types die-once article-9 {trouble};generate die-once article-26 {trouble}"
    )
    build(replace(settings, engine="ray", workers=2), tmp_path / "ray", opener=open_troubled)
    assert {path.name for path in trouble.iterdir()} == {"types-die-once", "generate-die-once"}
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


@pytest.mark.slow
def test_ray_makes_the_same_with_the_filter_of_a_model(checkpoint: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    fluency = {"model": str(checkpoint)}
    settings = real(tmp_path, documents=24, filter={"nli": "none", "fluency": fluency})
    built = build(replace(settings, workers=1), tmp_path / "local")
    assert built.rows >= 5
    build(replace(settings, engine="ray", workers=2), tmp_path / "ray")
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_stages_with_models_have_workers_of_their_own(
    settings: BuildSettings,
) -> None:
    assert group_stages(settings) == [(False, [*STAGES])]
    with_models = replace(
        settings, filter=FilterSettings(), generate=GenerateSettings("llm", "lexical")
    )
    assert group_stages(with_models) == [
        (False, ["select", "types"]),
        (True, ["generate", "filter"]),
    ]


@pytest.mark.parametrize(
    ("workers", "kind", "problem"),
    [
        (1, "refuse", "the data is bad\nfinished shards are kept"),
        (2, "raise", "ValueError: no luck"),
    ],
)
def test_a_failing_stage_is_named_and_finished_shards_are_kept(
    settings: BuildSettings,
    expected: Mapping[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    kind: str,
    problem: str,
) -> None:
    monkeypatch.setenv(TROUBLE, f"types {kind} d9 {tmp_path}")
    out = tmp_path / "out"
    place = r"stage types, shard 2 \(documents 'd8' to 'd11'\): "
    with pytest.raises(StageError, match=place + problem):
        build(replace(settings, workers=workers), out, opener=open_tiny)
    assert (out / "stages/shards/part-00001.jsonl").is_file()
    assert not (out / "stages/shards/part-00002.jsonl").exists()
    assert not (out / "corpus.csv").exists()
    monkeypatch.delenv(TROUBLE)
    build(replace(settings, workers=1), out, opener=open_tiny)
    assert contents(out) == expected


def test_a_process_that_dies_is_named(
    settings: BuildSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TROUBLE, f"select die d9 {tmp_path}")
    with pytest.raises(
        StageError, match=r"shard \d \(documents 'd\d+' to 'd\d+'\): a process .* died"
    ):
        build(replace(settings, workers=2), tmp_path / "out", opener=open_tiny)


@pytest.mark.parametrize(
    ("stage", "place"), [("read", "d9"), ("filter", "d9"), ("show", "corpus.yaml")]
)
def test_killed_and_started_again_the_bytes_are_the_same(
    settings: BuildSettings, expected: Mapping[str, bytes], tmp_path: Path, stage: str, place: str
) -> None:
    out = tmp_path / "out"
    build_until(stage, place, settings.folder / "corpus.yaml", out, tmp_path)
    assert (out / "corpus.csv").exists() == (stage == "show")
    assert not (out / "manifest.json").exists()
    build(replace(settings, workers=1), out, opener=open_tiny)
    assert contents(out) == expected
