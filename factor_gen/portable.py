"""What may leave this machine: text that a file in UTF-8 can hold, and settings without this machine's folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def whole(text: str) -> str:
    """``text`` with U+FFFD for halves of surrogate pairs, which are no characters: JSON may hold them, and Python puts them in
    the place of bytes of a file's name that are not UTF-8."""
    return _SURROGATE.sub(_REPLACEMENT, text)


def portable(value: Any) -> Any:
    """``value`` with the last part alone of every absolute path in it; the name of a model stays as it is."""
    if isinstance(value, Mapping):
        return {key: portable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [portable(each) for each in value]
    is_path = isinstance(value, str) and (value.startswith("~/") or Path(value).is_absolute())
    return whole(Path(value).name) if is_path else value
