"""A build that is killed while rows are chosen or files are shown, started again, gives the same
bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.settings import BuildSettings
from tests.factor_gen.corpora import contents, write_corpus
from tests.factor_gen.killed import build_until
from tests.factor_gen.tiny_stages import open_tiny


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> BuildSettings:
    path = write_corpus(tmp_path_factory.mktemp("corpus"), documents=12, shard=4)
    return replace(load_build(path), workers=1)


@pytest.fixture(scope="module")
def expected(
    settings: BuildSettings, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, bytes]:
    out = tmp_path_factory.mktemp("expected")
    build(settings, out, opener=open_tiny)
    return contents(out)


@pytest.mark.parametrize(
    ("stage", "place", "is_shown"),
    [("choose", "d7", False), ("show", "corpus.yaml", True), ("show", "manifest.json", True)],
)
def test_the_bytes_are_the_same(
    settings: BuildSettings,
    expected: Mapping[str, bytes],
    tmp_path: Path,
    stage: str,
    place: str,
    is_shown: bool,
) -> None:
    out = tmp_path / "out"
    build_until(stage, place, settings.folder / "corpus.yaml", out, tmp_path)
    assert (out / "corpus.csv").exists() == is_shown
    assert not (out / "manifest.json").exists()
    build(settings, out, opener=open_tiny)
    assert contents(out) == expected
