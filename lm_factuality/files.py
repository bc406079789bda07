"""Writing files that are whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lm_factuality.errors import DataError


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` by way of a temporary file beside it; makes the folder if need be.

    Raises:
        DataError: the folder cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {error}; choose another place") from error


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes one line each."""
    write_text(path, "".join(f"{line}\n" for line in lines))
