"""Cases of tests that are kept as tables in YAML."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def table(name: str) -> Any:
    """The content of a YAML file beside the tests of factor_gen."""
    return yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))


def cases_by_key(name: str, *keys: str) -> list[tuple[Any, ...]]:
    """The cases of a table, each with its key in front: a case is a text or a list."""
    content = table(name)
    for key in keys:
        content = content[key]
    cases = []
    for key, listed in content.items():
        for case in listed:
            cases.append((key, *([case] if isinstance(case, str) else case)))
    return cases
