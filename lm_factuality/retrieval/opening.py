"""Opening an index of whatever kind, after looking at whether it is whole."""

from __future__ import annotations

from pathlib import Path

from lm_factuality.retrieval.index import Index
from lm_factuality.retrieval.manifest import check_files, read_manifest


def open_index(path: str | Path) -> Index:
    """The index in the folder ``path``; sums are compared if it is under 64 MB, else sizes alone.

    Raises:
        DataError: there is none, or it is unfinished, truncated or altered; the text says which and what to do.
    """
    from lm_factuality.retrieval.bm25 import BM25Index
    from lm_factuality.retrieval.dense import DenseIndex

    folder = Path(path)
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    return DenseIndex(folder, manifest) if manifest.kind == "dense" else BM25Index(folder, manifest)
