"""The processes of one machine: as many as the stage wants that has the most to do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from factor_gen import engine
from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.settings import BuildSettings
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.tiny_stages import open_tiny


class _Executor:
    """Makes shards here and now, and notes how many processes were asked for."""

    asked: ClassVar[list[int]] = []
    settings: BuildSettings

    def __init__(self, workers: int, *_: object) -> None:
        self.asked.append(workers)

    def submit(self, _: Callable[..., None], source: Any, target: Any, number: int) -> Future[None]:
        made: Future[None] = Future()
        target.write(number, open_tiny(self.settings, target.stage).run(source.read(number)))
        made.set_result(None)
        return made

    def shutdown(self, **_: object) -> None:
        pass


def test_a_stage_with_little_left_does_not_keep_the_others_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(load_build(write_corpus(tmp_path, shard=1)), workers=6)
    out = tmp_path / "out"
    build(replace(settings, workers=1), out, until="select", opener=open_tiny)
    for number in (2, 5):
        (out / "stages" / "2-select" / f"part-{number:05d}.jsonl").unlink()
    monkeypatch.setattr(_Executor, "settings", settings, raising=False)
    monkeypatch.setattr(engine, "ProcessPoolExecutor", _Executor)
    built = build(settings, out, until="types", opener=open_tiny)
    assert built.rows == 8
    assert _Executor.asked == [6]  # not the two that are left of select
