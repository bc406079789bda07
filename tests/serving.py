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
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "HF_HUB_OFFLINE": "1",
}
_STARTUP_SECONDS = 300


@contextlib.contextmanager
def serve(command_for_port: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Run a server on a free port until the context ends.

    Args:
        command_for_port: Returns the command that serves on a port of 127.0.0.1.

    Yields:
        The URL of the server, once it is healthy.
    """
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        command_for_port(port),
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_healthy(process, url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


def _free_port() -> str:
    """Return a port of 127.0.0.1 that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until a server replies, and fail if it ends or takes too long."""
    deadline = time.monotonic() + _STARTUP_SECONDS
    while not _is_healthy(url):
        assert process.poll() is None, f"{process.args[0]} ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{process.args[0]} is not up"
        time.sleep(1)


def _is_healthy(url: str) -> bool:
    """Ask a server whether it is healthy."""
    try:
        urllib.request.urlopen(f"{url}/health", timeout=5)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
    return True


def command_to_serve(program: str, model: Path, context: int) -> Callable[[str], list[str]]:
    """Return a function that gives the command to serve a model on a port.

    Args:
        program: ``vllm`` or ``transformers``, which are installed beside this Python.
        model: The folder of the model.
        context: The most tokens of a prompt and its answer.
    """
    executable = str(Path(sys.executable).with_name(program))
    options_by_program = {
        "vllm": ["--dtype", "float32", "--enforce-eager", "--max-model-len", str(context)],
        "transformers": ["--device", "cpu", "--dtype", "float32"],
    }
    options = ["--host", "127.0.0.1", *options_by_program[program]]
    return lambda port: [executable, "serve", str(model), "--port", port, *options]
