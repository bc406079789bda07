"""Indexes that several tests look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_factuality.retrieval.build import build_index
from lm_factuality.retrieval.index import Index
from tests.conftest import TASKS

ENCYCLOPEDIA = TASKS / "sample" / "encyclopedia.jsonl"


@pytest.fixture(scope="session")
def encyclopedia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BM25 index of the fictional encyclopedia; to be copied before it is changed."""
    folder = tmp_path_factory.mktemp("index") / "bm25"
    build_index(ENCYCLOPEDIA, folder)
    return folder


@pytest.fixture(scope="session")
def index(encyclopedia: Path) -> Index:
    """The same, opened."""
    from lm_factuality.retrieval.build import open_index

    return open_index(encyclopedia)


@pytest.fixture
def write_tsv(tmp_path: Path):
    """Writes texts as a TSV into ``tmp_path``."""

    def write(texts: list[str], name: str = "passages.tsv") -> Path:
        path = tmp_path / name
        rows = [f"{number}\t{text}\n" for number, text in enumerate(texts)]
        path.write_text("".join(["id\ttext\n", *rows]), encoding="utf-8")
        return path

    return write
