"""A build that is killed while rows are chosen or files are shown, started again, gives the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.settings import BuildSettings
from tests.conftest import REPOSITORY
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.tiny_stages import TROUBLE, open_tiny

SCRIPT = "import sys\nfrom tests.factor_gen import killed\nkilled.main(*sys.argv[1:])\n"


def contents(out: Path) -> Mapping[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> BuildSettings:
    path = write_corpus(tmp_path_factory.mktemp("corpus"), documents=12, shard=4)
    return replace(load_build(path), workers=1)


@pytest.fixture(scope="module")
def expected(settings: BuildSettings, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    out = tmp_path_factory.mktemp("expected")
    build(settings, out, opener=open_tiny)
    return contents(out)


@pytest.mark.parametrize(
    ("stage", "place", "is_shown", "named_before"),
    [
        ("choose", "d7", False, "corpus"),
        ("show", "corpus.yaml", True, "corpus"),
        ("show", "manifest.json", True, "towns"),
    ],
)
def test_the_bytes_are_the_same(
    settings: BuildSettings, expected: Mapping[str, bytes], tmp_path: Path, stage: str, place: str, is_shown: bool,
    named_before: str,
) -> None:  # fmt: skip
    out, marker = tmp_path / "out", tmp_path / f"{stage}-wait"
    if named_before != "corpus":  # an earlier build left files, some under other names
        build(replace(settings, name=named_before), out, opener=open_tiny)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), TROUBLE: f"{stage} wait {place} {tmp_path}"}
    command = [sys.executable, "-c", SCRIPT, str(settings.folder / "corpus.yaml"), str(out)]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not marker.exists():
            assert process.poll() is None, "the build ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (out / "corpus.csv").exists() == is_shown
    assert (out / "manifest.json").exists() == (stage == "choose" and named_before == "towns")
    build(settings, out, opener=open_tiny)
    assert contents(out) == expected
