"""The family and the size of a model, as its name tells them.

Leaderboards and plots call it to group models and to order them by size.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lm_factuality.ground.packages import load_yaml

OTHER = "other"
"""The family of models whose name is in none of the known families."""

_NAMES: Mapping[str, Any] = load_yaml(__package__, "model_names.yaml")
FAMILIES: Mapping[str, str] = _NAMES["families"]
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([mb])(?![a-z0-9])")
_UNITS = {"m": 1e6, "b": 1e9}


def short_name(model: str) -> str:
    """Return a model's name in lower case, without the organisation or folders before it.

    Example:
        ``EleutherAI/pythia-1.4B`` becomes ``pythia-1.4b``.
    """
    return model.rstrip("/").rsplit("/", 1)[-1].lower()


def display_name(name: str, names: Iterable[str]) -> str:
    """Shorten the path of a model's folder to its last part, if no other model has the same.

    Args:
        name: The name of a model on the Hub, which stays as it is, or a path.
        names: The names of all models of the report.

    Example:
        ``/data/models/pythia`` gives ``pythia``, and ``EleutherAI/pythia-70m`` stays.
    """
    # A name on the Hub has at most one slash, between the organisation and the model.
    is_path = name.count("/") > 1 or name.startswith((".", "/"))
    if not is_path:
        return name
    # Readers know a folder by its last part.
    last_part = name.rsplit("/", 1)[-1]
    last_parts = [model_name.rsplit("/", 1)[-1] for model_name in names]
    return last_part if last_parts.count(last_part) == 1 else name


def family(model: str) -> str:
    """Return the family of a model by its name, such as ``pythia``, or ``other``."""
    name = short_name(model)
    for family_name, pattern in FAMILIES.items():
        if re.search(pattern, name):
            return family_name
    return OTHER


def size_in_name(model: str) -> float | None:
    """Return the number of parameters that a model's name states, or that we know for the name.

    Args:
        model: The name, such as ``EleutherAI/pythia-1.4b``, which states 1.4e9 parameters.

    Returns:
        The number. For a name without one, such as ``gpt2-xl``, it is looked up in
        ``model_names.yaml``; None if it is not listed there.
    """
    name = short_name(model)
    stated_sizes = _SIZE.findall(name)
    if stated_sizes:
        # If a name states several sizes, the last one counts.
        number, unit = stated_sizes[-1]
        return float(number) * _UNITS[unit]
    listed_size: float | None = _NAMES["sizes"].get(name)
    return listed_size


def size_label(size: float) -> str:
    """Format a number of parameters as in the names of models.

    Example:
        125e6 becomes ``125M``, 2.7e9 becomes ``2.7B``, and 0 an empty string.
    """
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if size >= unit:
            # Two digits are enough for 2.7B, and larger numbers have no decimals, as in 125M.
            number_format = ".2g" if size < 10 * unit else ".0f"
            return f"{size / unit:{number_format}}{letter}"
    return f"{size:.0f}" if size else ""
