"""Generations on disk: lm_eval's samples files, and the ones that a run saves before its judge begins."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.records import lines_of
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


def read_samples(paths: Sequence[Path], generation: Generation) -> Samples:
    """The samples of all files together; more than one file is what a run in several processes leaves.

    A file of lm_eval that holds its samples once for each filter counts once.

    Raises:
        DataError: every line that cannot be used, and why.
    """
    docs: list[Mapping[str, Any]] = []
    responses: list[tuple[str, ...]] = []
    problems: list[str] = []
    seen: dict[str, str] = {}
    for path in paths:
        first: list[Any] = []  # the filter of the file's first sample
        for number, line in lines_of(path, "expected the samples of a run with --log_samples, or the generations that it saved"):
            where = f"{path}:{number}"
            try:
                record = _parse(line)
                first = first or [record.get("filter")]
                if record.get("filter") != first[0]:
                    continue
                texts = _texts(record["resps"])
                if problem := generation.check(record["doc"], texts):
                    raise ValueError(problem)
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            key = json.dumps(record["doc"], sort_keys=True)
            if seen.setdefault(key, where) != where:
                problems.append(f"{where}: the same document as {seen[key]}; give the files of one run only")
            docs.append(record["doc"])
            responses.append(texts)
    refuse(problems, "lines")
    if not docs:
        raise DataError(f"{', '.join(map(str, paths))}: no samples; expected lm_eval's samples_{generation.name}_*.jsonl")
    return Samples(tuple(docs), tuple(responses))


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"found a {type(record).__name__}, expected a JSON object")  # noqa: TRY004
    for key, kind in (("doc", dict), ("resps", list)):
        if not isinstance(record.get(key), kind):
            raise ValueError(f"no {key!r}, expected a sample of lm_eval: a JSON object with 'doc' and 'resps'")  # noqa: TRY004
    return record


def _texts(resps: Sequence[Any]) -> tuple[str, ...]:
    """The responses out of lm_eval's list of a list for each request."""
    texts = [text for each in resps for text in (each if isinstance(each, list) else [each])]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("'resps' has to hold generated texts, one list a request")
    return tuple(said(text) for text in texts)
