"""Servers that users run, started for a test."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ENVIRONMENT: Mapping[str, str] = {
    **os.environ,
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
}
_STARTUP_SECONDS = 300


@contextlib.contextmanager
def serve(command: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Runs the command made for a free port of 127.0.0.1, and gives the URL of the server when it
    is healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    process = subprocess.Popen(
        command(port), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + _STARTUP_SECONDS
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                assert process.poll() is None, f"{process.args[0]} ended with {process.returncode}"
                assert time.monotonic() < deadline, (
                    f"{process.args[0]} is not up after {_STARTUP_SECONDS} s"
                )
                time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def started(program: str, model: Path, context: int) -> Callable[[str], list[str]]:
    """The command for a port by which ``vllm`` or ``transformers`` serves ``model``."""
    more = {
        "vllm": ["--dtype", "float32", "--enforce-eager", "--max-model-len", str(context)],
        "transformers": ["--device", "cpu", "--dtype", "float32"],
    }
    path = str(Path(sys.executable).with_name(program))
    return lambda port: [
        path,
        "serve",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        port,
        *more[program],
    ]
