"""Indexes that several tests look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_factuality.retrieval.build import build_index, open_index
from lm_factuality.retrieval.index import Index
from tests.conftest import TASKS

ENCYCLOPEDIA = TASKS / "sample" / "encyclopedia.jsonl"
"""The 220 pages of the sample, which are about an invented world."""


@pytest.fixture(scope="session")
def encyclopedia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a BM25 index of the encyclopedia. A test changes only a copy of it."""
    folder = tmp_path_factory.mktemp("index") / "bm25"
    build_index(ENCYCLOPEDIA, folder)
    return folder


@pytest.fixture(scope="session")
def index(encyclopedia: Path) -> Index:
    """Return the open BM25 index of the encyclopedia."""
    return open_index(encyclopedia)


@pytest.fixture
def write_tsv(tmp_path: Path):
    """Return a function that writes texts as a TSV file, each with its place as its id."""

    def write(texts: list[str], name: str = "passages.tsv") -> Path:
        path = tmp_path / name
        rows = [f"{number}\t{text}\n" for number, text in enumerate(texts)]
        path.write_text("".join(["id\ttext\n", *rows]), encoding="utf-8")
        return path

    return write
