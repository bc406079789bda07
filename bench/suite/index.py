"""Measures how long a BM25 index over generated passages takes to build and to ask.

``python -m bench.suite index`` calls `measure`. The index is built and asked in a process each, so
that the memory of the process is the memory of that work alone.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.timing import Record, peak_mb

_NUM_WORDS = 200_000  # of the made-up language
_WORDS_IN_PASSAGE = 100
_WORDS_IN_QUERY = 32
_QUERY_START = 10  # the word of a passage with which its query starts
_PASSAGES_AT_ONCE = 5000  # that are drawn before they are written
_NUM_RETRIEVED = 10  # passages for a query


@dataclass(frozen=True)
class _BuildCost:
    """What it takes to build an index."""

    seconds: float
    """The duration in seconds."""

    peak_mb: float
    """The highest resident memory of the process, in MB."""


@dataclass(frozen=True)
class _QueryCost:
    """What it takes to open an index and to ask it."""

    open_seconds: float
    """The duration of opening it, in seconds."""

    latencies: list[float]
    """The duration of each query, in milliseconds."""

    peak_mb: float
    """The highest resident memory of the process, in MB."""


def measure(num_passages: int, folder: Path, num_queries: int = 200) -> Record:
    """Build an index over generated passages, and ask it.

    Args:
        num_passages: The number of passages.
        folder: Gets the passages and the index, which are removed at the end.
        num_queries: The number of queries, which are asked one after another.

    Returns:
        Durations in seconds or, for a query, in milliseconds (median and 95th percentile), and
        memory and disk space in MB.
    """
    source = folder / f"{num_passages}.tsv"
    index = folder / f"index-{num_passages}"
    queries = _write_passages(source, num_passages, num_queries)
    try:
        build_cost: _BuildCost = run_in_process(_build, source, index)
        index_bytes = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
        query_cost: _QueryCost = run_in_process(_ask, index, queries)
    finally:
        source.unlink(missing_ok=True)
        shutil.rmtree(index, ignore_errors=True)

    p50, p95 = np.percentile(query_cost.latencies, [50, 95])
    return {
        "num_passages": num_passages,
        "build_seconds": build_cost.seconds,
        "build_peak_mb": build_cost.peak_mb,
        "disk_mb": index_bytes / 2**20,
        "open_seconds": query_cost.open_seconds,
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "reader_peak_mb": query_cost.peak_mb,
    }


def _write_passages(path: Path, num_passages: int, num_queries: int) -> list[str]:
    """Write passages in the format of the published Wikipedia passages, which is a TSV file.

    Returns:
        Queries, each of which is a part of a passage. These passages are spread over the file.
    """
    queries: list[str] = []
    passages_per_query = max(1, num_passages // num_queries)
    with path.open("w", encoding="utf-8") as file:
        file.write("id\ttext\ttitle\n")
        for index, words in enumerate(draw_passages(num_passages)):
            number = index + 1
            file.write(f"{number}\t{' '.join(words)}\tpassage {number}\n")
            if index % passages_per_query == 0 and len(queries) < num_queries:
                query = words[_QUERY_START : _QUERY_START + _WORDS_IN_QUERY]
                queries.append(" ".join(query))
    return queries


def draw_passages(num_passages: int) -> Iterator[list[str]]:
    """Yield the words of each passage, which are the same in each run.

    The words are invented, and the n-th word is n times as rare as the first (Zipf's law).
    """
    generator = np.random.default_rng(0)
    vocabulary = _draw_words(generator)
    weights = 1 / np.arange(1, _NUM_WORDS + 1)
    cumulative = np.cumsum(weights / weights.sum())
    for start in range(0, num_passages, _PASSAGES_AT_ONCE):
        count = min(_PASSAGES_AT_ONCE, num_passages - start)
        draws = generator.random((count, _WORDS_IN_PASSAGE))
        # The last sum can be rounded to less than 1, and then a draw can exceed it.
        indices = np.minimum(np.searchsorted(cumulative, draws), _NUM_WORDS - 1)
        yield from vocabulary[indices].tolist()


def _draw_words(generator: np.random.Generator) -> NDArray[np.str_]:
    """Draw invented words of 3 to 10 letters."""
    letters = np.array(list("abcdefghijklmnoprstuvwz"))
    lengths = generator.integers(3, 11, _NUM_WORDS)
    return np.array(["".join(generator.choice(letters, length)) for length in lengths])


def run_in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process, and return its result."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _build(source: Path, index: Path) -> _BuildCost:
    """Build an index of a file of passages."""
    # Imports are part of the memory of this process, but not of its seconds.
    from lm_factuality.retrieval.build import build_index

    start = time.perf_counter()
    build_index(source, index)
    return _BuildCost(time.perf_counter() - start, peak_mb())


def _ask(folder: Path, queries: list[str]) -> _QueryCost:
    """Open the index in a folder, and ask it one query after another."""
    from lm_factuality.retrieval.build import open_index

    start = time.perf_counter()
    index = open_index(folder)
    open_seconds = time.perf_counter() - start
    latencies = []
    for query in queries:
        start = time.perf_counter()
        index.retrieve([query], _NUM_RETRIEVED)
        latencies.append(1000 * (time.perf_counter() - start))
    return _QueryCost(open_seconds, latencies, peak_mb())
