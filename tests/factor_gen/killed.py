"""A build in a process of its own, for the tests that kill it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from factor_gen import choose, pipeline
from factor_gen.choose import Chosen
from factor_gen.config import load_build
from factor_gen.records import Example
from tests.factor_gen.tiny_stages import open_tiny, trouble


def main(config: str, out: str) -> None:
    """Builds; trouble can be had while the corpus is read as well, at a row that is chosen, and at a file that is shown."""
    real, real_choose, real_replace = pipeline.distinct, choose.choose_rows, Path.replace

    def distinct(documents: Iterable[object]) -> Iterator[Example]:
        for example in real(documents):  # type: ignore[arg-type]
            trouble("read", example.doc_id)
            yield example

    def choose_rows(*given: Any) -> Iterator[Chosen | Example]:
        for item in real_choose(*given):
            trouble("choose", item.example.doc_id if isinstance(item, Chosen) else item.doc_id)
            yield item

    def replace_file(path: Path, target: Path) -> Path:
        if path.parent.name == ".output.part":
            trouble("show", path.name)
        return real_replace(path, target)

    pipeline.distinct = distinct  # type: ignore[assignment]
    choose.choose_rows = choose_rows  # type: ignore[assignment]
    Path.replace = replace_file  # type: ignore[assignment,method-assign]
    pipeline.build(replace(load_build(config), workers=1), Path(out), opener=open_tiny)
