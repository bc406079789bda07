"""A build in a process of its own, for the tests that kill it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from factor_gen import pipeline
from factor_gen.config import load_build
from factor_gen.records import Example
from tests.factor_gen.tiny_stages import open_tiny, trouble


def main(config: str, out: str) -> None:
    """Builds; trouble can be had while the corpus is read as well."""
    real = pipeline.distinct

    def distinct(documents: Iterable[object]) -> Iterator[Example]:
        for example in real(documents):  # type: ignore[arg-type]
            trouble("read", example.doc_id)
            yield example

    pipeline.distinct = distinct  # type: ignore[assignment]
    pipeline.build(replace(load_build(config), workers=1), Path(out), opener=open_tiny)
