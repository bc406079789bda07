"""How long a build takes and how much memory, over the number of documents."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from bench.sample.articles import training_stream
from bench.sample.world import build_world
from bench.timing import Record
from lm_factuality.ground.errors import DataError

_TOLD_OF_A_WORLD = 500  # articles before the next world begins
_EVERY = 0.2  # seconds between two looks at the memory


def write_documents(path: Path, count: int) -> None:
    """Writes articles of many fictional encyclopedias as JSONL, each about 100 words, no two
    alike."""
    with path.open("w", encoding="utf-8") as file:
        for number, text in zip(range(count), _articles(), strict=False):
            file.write(
                json.dumps(
                    {"id": f"article-{number}", "text": f"Entry {number}\n{text}"},
                    ensure_ascii=False,
                )
                + "\n"
            )


def _articles() -> Iterator[str]:
    seed = 1000
    while True:
        stream = training_stream(build_world(seed), seed)
        for _, text in zip(range(_TOLD_OF_A_WORLD), stream, strict=False):
            yield text
        seed += 1


def measure(folder: Path, count: int, options: Sequence[str] = ()) -> Record:
    """Builds a benchmark of ``count`` documents with ``rules`` and no filter, in a process of its
    own.

    Returns:
        Seconds on the clock, the greatest sum of resident memory of its processes (MB), and the
        rows that came of it.

    Raises:
        DataError: the build failed.
    """
    corpus = folder / f"{count}.jsonl"
    write_documents(corpus, count)
    config = folder / f"scale_{count}.yaml"
    config.write_text(f"corpus: {corpus.name}\ngenerate: rules\nfilter: none\n", encoding="utf-8")
    out = folder / f"out_{count}_{random.getrandbits(32)}"
    command = [
        sys.executable,
        "-m",
        "factor_gen",
        "build",
        str(config),
        "--out",
        str(out),
        *options,
    ]
    start = time.perf_counter()
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(_EVERY)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise DataError(
            f"{' '.join(command)} failed:\n{(folder / 'log').read_text(encoding='utf-8')[-2000:]}"
        )
    rows = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["counts"]["rows"]
    return {
        "documents": count,
        "seconds": seconds,
        "rate": count / seconds,
        "peak_mb": peak / 1e6,
        "rows": rows,
    }


def _resident(pid: int) -> int:
    """Bytes of memory that the process and all below it hold; shared pages count once a process."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in family:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
