"""Building a BM25 index over generated passages and asking it, each in a process of its own, whose
memory is theirs alone."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.timing import Record, peak_mb

_WORDS = 200_000  # of the made-up language, as frequent as Zipf says
_LENGTH = 100  # words a passage
_QUERY = 32  # words a query, in a row from a passage
_BLOCK = 5000  # passages written at a time


def measure(num_passages: int, folder: Path, num_queries: int = 200) -> Record:
    """Writes passages to ``folder``, builds an index of them there, asks it, and removes both.

    Returns:
        Memory in MB at its highest; latencies of single queries in milliseconds.
    """
    source, index = folder / f"{num_passages}.tsv", folder / f"index-{num_passages}"
    queries = _write_passages(source, num_passages, num_queries)
    try:
        build_seconds, build_peak = _elsewhere(_build, source, index)
        disk = sum(path.stat().st_size for path in index.rglob("*") if path.is_file()) / 2**20
        open_seconds, latencies, reader_peak = _elsewhere(_ask, index, queries)
    finally:
        source.unlink(missing_ok=True)
        shutil.rmtree(index, ignore_errors=True)
    p50, p95 = np.percentile(latencies, [50, 95])
    return {
        "num_passages": num_passages,
        "build_seconds": build_seconds,
        "build_peak_mb": build_peak,
        "disk_mb": disk,
        "open_seconds": open_seconds,
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "reader_peak_mb": reader_peak,
    }


def _write_passages(path: Path, num_passages: int, num_queries: int) -> list[str]:
    """A TSV as the Wikipedia passages come in; returns queries from passages all over it."""
    draw = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnoprstuvwz"))
    lengths = draw.integers(3, 11, _WORDS)
    words = np.array(["".join(draw.choice(letters, length)) for length in lengths])
    weights = 1 / np.arange(1, _WORDS + 1)
    cumulative = np.cumsum(weights / weights.sum())
    queries: list[str] = []
    every = max(1, num_passages // num_queries)
    with path.open("w", encoding="utf-8") as file:
        file.write("id\ttext\ttitle\n")
        for start in range(0, num_passages, _BLOCK):
            count = min(_BLOCK, num_passages - start)
            chosen = words[
                np.minimum(np.searchsorted(cumulative, draw.random((count, _LENGTH))), _WORDS - 1)
            ]
            for offset, passage in enumerate(chosen.tolist()):
                file.write(
                    f"{start + offset + 1}\t{' '.join(passage)}\tpassage {start + offset + 1}\n"
                )
                if (start + offset) % every == 0 and len(queries) < num_queries:
                    queries.append(" ".join(passage[10 : 10 + _QUERY]))
    return queries


def _elsewhere(work: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _build(source: Path, index: Path) -> tuple[float, float]:
    from lm_factuality.retrieval.build import build_index

    start = time.perf_counter()
    build_index(source, index)
    return time.perf_counter() - start, peak_mb()


def _ask(folder: Path, queries: list[str]) -> tuple[float, list[float], float]:
    from lm_factuality.retrieval.build import open_index

    start = time.perf_counter()
    index = open_index(folder)
    opened = time.perf_counter() - start
    latencies = []
    for query in queries:
        start = time.perf_counter()
        index.retrieve([query], 10)
        latencies.append(1000 * (time.perf_counter() - start))
    return opened, latencies, peak_mb()
