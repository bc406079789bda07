"""A row of samples as the report shows it and as two models are compared by it, whatever the
benchmark."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Counts = tuple[float, ...]
_MOST = 1e100


@dataclass(frozen=True)
class SampleRow:
    """``key`` is the same for every model (see ``key_of``); ``cluster`` is what rows are drawn by.
    ``doc`` holds the texts that all models share (with the row's ``id``), ``detail`` what this
    model made of them. ``outcome`` is ``right``, ``wrong``, ``unscored`` or ``none``, ``margin`` by
    how much (higher is better), ``facets`` error types or the domain. ``parts`` are the row's part
    in each score that is compared: (value times weight, weight), or counts (true and false alarms,
    missed, passed)."""

    key: str
    cluster: str
    title: str
    doc: Mapping[str, Any]
    outcome: str
    margin: float | None
    facets: Sequence[str]
    detail: Mapping[str, Any]
    parts: Mapping[str, Counts] = field(default_factory=dict)


def key_of(sample: Mapping[str, Any], *texts: str) -> str:
    """A key for the row of a sample, from its number and the texts that make it what it is."""
    content = json.dumps([sample["doc_id"], *texts], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def mean_part(value: Any, weight: float = 1.0) -> Counts:
    return float(value) * weight, weight


def snippet(text: str, most: int = 90) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def is_number(value: float) -> bool:
    """Whether ``value`` is finite, also when squared and summed; no score or log-probability is
    near the limit."""
    return math.isfinite(value) and abs(value) <= _MOST


def finite(row: SampleRow) -> SampleRow:
    """The same row, with None in place of numbers that are not finite (see ``is_number``): no page
    and no score holds those. Raises TypeError: what rows are known by or grouped by is no text, or
    a score has no counts."""
    for each in (row.key, row.cluster, row.title, *row.facets):
        if not isinstance(each, str):
            raise TypeError(f"found {repr(each)[:60]}, expected a text")
    if not all(row.parts.values()):
        raise TypeError("a score without counts")
    parts = {name: counts for name, counts in row.parts.items() if all(map(is_number, counts))}
    sound = {name: finite_values(getattr(row, name)) for name in ("doc", "detail", "margin")}
    return replace(row, **sound, parts=parts)


def finite_values(value: Any) -> Any:
    """JSON with None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if is_number(value) else None
    if isinstance(value, Mapping):
        return {key: finite_values(each) for key, each in value.items()}
    return [finite_values(each) for each in value] if isinstance(value, list | tuple) else value
