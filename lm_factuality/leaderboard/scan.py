"""Looking for credentials in the files of a submission."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lm_factuality.secrets import is_secret, secrets_in_text

_LONG_ENOUGH = 12  # characters of an environment variable's value that is looked for
_SHOWN = 5


def secrets_in_file(path: Path, values: Mapping[str, str] | None = None) -> list[str]:
    """Where ``path`` holds what looks like a credential, or one of ``values`` (by the name of what it is): a line and, in JSON, a
    key; never the credential."""
    found: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            found += [f"line {number}: {what}" for what in _in_line(line, values or {})]
            if len(found) >= _SHOWN:
                return found
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            return found  # whoever reads the file as JSON says so
        found += [f"{key}: is the name of a credential, and it is set" for key in _secret_keys(content, "")]
    return found[:_SHOWN]


def own_secrets() -> dict[str, str]:
    """The credentials in this process's environment, by the names of their variables."""
    return {
        name: value
        for name, value in os.environ.items()
        if is_secret(name.lower(), value) and len(value) >= _LONG_ENOUGH and not value.startswith(("/", "~"))
    }


def _in_line(line: str, values: Mapping[str, str]) -> list[str]:
    found = [f"looks like {what}" for _, what in secrets_in_text(line)]
    return found + [
        f"holds the value of the environment variable {name}" for name, value in values.items() if value in line
    ]


def _secret_keys(content: Any, where: str) -> Iterator[str]:
    """The places of keys named like a credential whose value is a text, or an object of them (headers)."""
    if isinstance(content, dict):
        for key, value in content.items():
            place = f"{where}.{key}" if where else str(key)
            if isinstance(value, str | dict) and is_secret(str(key), value) and value:
                yield place
            yield from _secret_keys(value, place)
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from _secret_keys(value, f"{where}[{index}]")
