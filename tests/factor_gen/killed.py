"""A build in a process of its own, for the tests that kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from factor_gen import pipeline
from factor_gen.config import load_build
from factor_gen.records import Example
from tests.conftest import REPOSITORY
from tests.factor_gen.tiny_stages import TROUBLE, cause_trouble, open_tiny

_SCRIPT = "import sys\nfrom tests.factor_gen import killed\nkilled.main(*sys.argv[1:])\n"


def build_until(stage: str, place: str, config: Path, out: Path, folder: Path) -> None:
    """Builds in another process and kills it when it waits, as it does in ``stage`` at ``place``;
    ``folder`` takes the marks."""
    marker = folder / f"{stage}-wait"
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        TROUBLE: f"{stage} wait {place} {folder}",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(config), str(out)], env=environment, cwd=folder
    )
    try:
        deadline = time.monotonic() + 60
        while not marker.exists():
            assert process.poll() is None, "the build ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def main(config: str, out: str) -> None:
    """Builds; trouble can be had while the corpus is read as well, and at a file that is shown."""
    real = pipeline.split_into_sentences
    real_replace = Path.replace

    def split_into_sentences(documents: Iterable[object], *given: Any) -> Iterator[Example]:
        for example in real(documents, *given):  # type: ignore[arg-type]
            cause_trouble("read", example.doc_id)
            yield example

    def replace_file(path: Path, target: Path) -> Path:
        if path.parent.name == ".output.part":
            cause_trouble("show", path.name)
        return real_replace(path, target)

    pipeline.split_into_sentences = split_into_sentences  # type: ignore[assignment]
    Path.replace = replace_file  # type: ignore[assignment,method-assign]
    pipeline.build(replace(load_build(config), workers=1), Path(out), opener=open_tiny)
