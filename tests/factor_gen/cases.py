"""Cases of tests that are kept as tables in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the content of a YAML file in this folder, whose keys are the kinds of cases."""
    return yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))


def cases_by_key(name: str, section: str | None = None) -> list[tuple[Any, ...]]:
    """Return the cases of a table as the arguments of a test, the key of each case first.

    Args:
        name: The YAML file, which lists cases under each key. A case is a text, or a list of
            several arguments.
        section: The part of the file with the cases. By default, all of the file.

    Example:
        ``{"noun": ["one", ["two", "three"]]}`` gives ``("noun", "one")`` and
        ``("noun", "two", "three")``.
    """
    content = table(name) if section is None else table(name)[section]
    cases = []
    for key, listed_cases in content.items():
        for case in listed_cases:
            arguments = [case] if isinstance(case, str) else case
            cases.append((key, *arguments))
    return cases
