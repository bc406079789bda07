"""Measures the time and the memory of whole builds, for growing numbers of documents.

``python -m bench.factor_gen scale`` calls `measure_build` for each number of documents.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import psutil

from bench.sample.articles import training_stream
from bench.sample.world import build_world
from bench.timing import Record
from lm_factuality.ground.errors import DataError

_FIRST_SEED = 1000
_ARTICLES_OF_A_WORLD = 500  # before the articles of the next fictional world begin
_SECONDS_BETWEEN_LOOKS = 0.2  # at the memory
_CONFIG = """\
corpus: {corpus}
generate: rules
filter: none
"""


def measure_build(folder: Path, num_documents: int, options: Sequence[str] = ()) -> Record:
    """Build a benchmark with ``rules`` and no filter, in a process of its own.

    Args:
        folder: A folder for the documents and the benchmark.
        num_documents: The number of documents to build from.
        options: More options of ``factor-gen build``.

    Returns:
        The seconds, the documents per second, the highest memory of all processes of the build
        together in MB, and the number of rows.

    Raises:
        DataError: The build failed.
    """
    corpus = folder / f"{num_documents}.jsonl"
    write_documents(corpus, num_documents)
    config = folder / f"scale_{num_documents}.yaml"
    config.write_text(_CONFIG.format(corpus=corpus.name), encoding="utf-8")
    # The same number of documents can be measured twice.
    out = folder / f"out_{num_documents}_{random.getrandbits(32)}"
    command = [sys.executable, "-m", "factor_gen", "build", str(config), "--out", str(out)]
    command += options

    log = folder / "log"
    peak_bytes = 0
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        while process.poll() is None:
            peak_bytes = max(peak_bytes, _resident_bytes(process.pid))
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    seconds = time.perf_counter() - start
    if process.returncode:
        end_of_log = log.read_text(encoding="utf-8")[-2000:]
        raise DataError(f"{' '.join(command)} failed:\n{end_of_log}")

    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return {
        "documents": num_documents,
        "seconds": seconds,
        "rate": num_documents / seconds,
        "peak_mb": peak_bytes / 1e6,
        "rows": manifest["counts"]["rows"],
    }


def write_documents(path: Path, count: int) -> None:
    """Write articles of fictional encyclopedias as JSON lines.

    Args:
        path: The file.
        count: The number of articles. Each has about 100 words, and no two are alike.
    """
    with path.open("w", encoding="utf-8") as file:
        for number, article in enumerate(islice(_write_articles(), count)):
            document = {"id": f"article-{number}", "text": f"Entry {number}\n{article}"}
            file.write(json.dumps(document, ensure_ascii=False) + "\n")


def _write_articles() -> Iterator[str]:
    """Yield articles of one fictional world after another, without end."""
    seed = _FIRST_SEED
    while True:
        articles = training_stream(build_world(seed), seed)
        yield from islice(articles, _ARTICLES_OF_A_WORLD)
        seed += 1


def _resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and of all its descendants together.

    A page that several processes share counts once for each of them.
    """
    try:
        parent = psutil.Process(pid)
        processes = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in processes:
        # A process may end while the others are looked at.
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
