"""Servers that users run, started for a test."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence

ENVIRONMENT: Mapping[str, str] = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
_STARTUP_SECONDS = 300


@contextlib.contextmanager
def serve(command: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Runs the command made for a free port of 127.0.0.1, and gives the URL of the server when it is healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    process = subprocess.Popen(command(port), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + _STARTUP_SECONDS
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                assert process.poll() is None, f"{process.args[0]} ended with {process.returncode}"
                assert time.monotonic() < deadline, f"{process.args[0]} is not up after {_STARTUP_SECONDS} s"
                time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)
