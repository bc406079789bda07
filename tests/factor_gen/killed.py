"""A build in a process of its own, which a test kills at a chosen point."""

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
from tests.factor_gen.tiny_stages import TROUBLE, cause_trouble, open_tiny, trouble

_SCRIPT = """\
import sys
from tests.factor_gen import killed
killed.build_with_trouble(*sys.argv[1:])
"""
_MAX_SECONDS = 60
"""How long the build may take until it comes to the point at which it is killed."""


def build_until(stage: str, place: str, *, config: Path, out: Path, folder: Path) -> None:
    """Run a build in another process, and kill the process at a point of the build.

    Args:
        stage: The stage in which it is killed. ``read`` stands for the reading of the corpus, and
            ``move`` for the moving of finished files to their place.
        place: The id of the document at which it is killed or, for ``move``, the name of the file.
        config: The YAML of the build.
        out: The folder of the benchmark.
        folder: A folder for the file by which the process tells that it has come to the point.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        TROUBLE: trouble("wait", stage=stage, doc_id=place, folder=folder),
    }
    command = [sys.executable, "-c", _SCRIPT, str(config), str(out)]
    process = subprocess.Popen(command, env=environment, cwd=folder)
    try:
        _wait_for_file(folder / f"{stage}-wait", process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _wait_for_file(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has written a file. Fail if it ends before."""
    deadline = time.monotonic() + _MAX_SECONDS
    while not path.exists():
        assert process.poll() is None, "the build ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def build_with_trouble(config: str, out: str) -> None:
    """Run a build with tiny stages, in which trouble can happen at two more points.

    The stages of `TROUBLE` include ``read``, at a document that is read from the corpus, and
    ``move``, at a finished file that is moved to its place.

    Args:
        config: The path of the YAML of the build.
        out: The path of the folder of the benchmark.
    """
    real_split = pipeline.split_into_sentences
    real_replace = Path.replace

    def split_into_sentences(documents: Iterable[Example], *arguments: Any) -> Iterator[Example]:
        """Split documents as the build does, with trouble at some of them."""
        for example in real_split(documents, *arguments):
            cause_trouble("read", example.doc_id)
            yield example

    def replace_file(path: Path, target: Path) -> Path:
        """Move a file, with trouble if it is a finished file of the benchmark."""
        # Finished files wait in this folder until all of them are written.
        if path.parent.name == ".output.part":
            cause_trouble("move", path.name)
        return real_replace(path, target)

    pipeline.split_into_sentences = split_into_sentences
    Path.replace = replace_file
    pipeline.build(replace(load_build(Path(config)), workers=1), Path(out), opener=open_tiny)
