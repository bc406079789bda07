"""Generations on disk: lm_eval's samples files, and the ones that a run saves before its judge begins."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.thinking import said
from lm_factuality.harness.generation import Generation


@dataclass(frozen=True)
class Samples:
    """The documents of a run and what the model said of each, without what it thought."""

    docs: tuple[Mapping[str, Any], ...]
    responses: tuple[tuple[str, ...], ...]


def to_line(doc: Mapping[str, Any], responses: Sequence[str]) -> str:
    """A line that ``read_samples`` reads; lm_eval's samples have the same two keys, among others. Takes whatever a document
    holds, for a value that is no JSON must not cost the generations."""
    return json.dumps({"doc": doc, "resps": [list(responses)]}, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class _Line:
    """A line of either file; ``resps`` has a list for each request."""

    doc: dict[str, Any]
    resps: list[list[str]]
    filter: str | None = None

    @property
    def responses(self) -> tuple[str, ...]:
        return tuple(said(text) for texts in self.resps for text in texts)


def read_samples(paths: Sequence[Path], generation: Generation) -> Samples:
    """The samples of all files together; more than one file is what a run in several processes leaves.

    A file of lm_eval that holds its samples once for each filter counts once.

    Raises:
        DataError: every line of a file that cannot be used, and why.
    """
    found: list[_Line] = []
    parse = partial(_parse, generation, {})
    for path in paths:
        lines = read_lines(path, parse, "expected the samples of a run with --log_samples, or the generations that it saved")
        found += [each for each in lines if each.filter == lines[0].filter]
    if not found:
        raise DataError(f"{', '.join(map(str, paths))}: no samples; expected lm_eval's samples_{generation.name}_*.jsonl")
    return Samples(tuple(each.doc for each in found), tuple(each.responses for each in found))


def _parse(generation: Generation, seen: dict[str, set[str | None]], record: Any) -> _Line:
    line = to_model(_Line, record)
    if problem := generation.check(line.doc, line.responses):
        raise ValueError(problem)
    filters = seen.setdefault(json.dumps(line.doc, sort_keys=True), set())
    if filters & {line.filter, None} or (filters and line.filter is None):
        raise ValueError("the same document as in an earlier line; give the files of one run only")
    filters.add(line.filter)
    return line
