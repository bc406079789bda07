"""What a model's name tells: its family and, if need be, its size."""

import re
from collections.abc import Mapping
from typing import Any

from lm_factuality.ground.packages import load_yaml

OTHER = "other"

_NAMES: Mapping[str, Any] = load_yaml(__package__, "model_names.yaml")
FAMILIES: Mapping[str, str] = _NAMES["families"]
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([mb])(?![a-z0-9])")
_UNITS = {"m": 1e6, "b": 1e9}


def short_name(model: str) -> str:
    """The name without the organisation or the folders before it, in lower case."""
    return model.rstrip("/").rsplit("/", 1)[-1].lower()


def family(model: str) -> str:
    """The family that a model's name puts it in, or ``other``."""
    name = short_name(model)
    return next((word for word, pattern in FAMILIES.items() if re.search(pattern, name)), OTHER)


def size_in_name(model: str) -> float | None:
    """The number of parameters that a model's name gives, None if it gives none."""
    name = short_name(model)
    found = _SIZE.findall(name)
    return float(found[-1][0]) * _UNITS[found[-1][1]] if found else _NAMES["sizes"].get(name)


def size_label(size: float) -> str:
    """A number of parameters as models are called by it: 125M, 2.7B; empty for none."""
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if size >= unit:
            return (
                f"{size / unit:.2g}{letter}" if size < 10 * unit else f"{size / unit:.0f}{letter}"
            )
    return f"{size:.0f}" if size else ""
