"""A judged biography as JSON and back: what ``verdicts.jsonl`` holds, and what the page and the comparison with people read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judges.biographies.types import Fact, Generation, JudgedBiography, Judgement, Passage
from lm_factuality.errors import DataError


def to_record(judged: JudgedBiography) -> dict[str, Any]:
    """JSON-able; evidence that several judgements share is written once, under ``evidence``, and named by its numbers."""
    record = asdict(judged)
    texts: dict[str, int] = {}
    for row, judgements in zip(record["matrix"], judged.matrix, strict=True):
        for cell, judgement in zip(row, judgements, strict=True):
            cell["evidence"] = [texts.setdefault(text, len(texts)) for text in judgement.evidence]
    return {**record, "evidence": list(texts)}


def from_record(record: Mapping[str, Any]) -> JudgedBiography:
    """The inverse of ``to_record``; other keys do not matter.

    Raises:
        DataError: a key is missing, or holds something else.
    """
    try:
        given, evidence = record["generation"], record["evidence"]
        passages = tuple(Passage(each["title"], each["text"]) for each in given["passages"])
        return JudgedBiography(
            generation=Generation(given["index"], given["question"], given["name"], given["output"], passages),
            sentences=tuple(record["sentences"]),
            facts=tuple(Fact(each["text"], each["sentence"]) for each in record["facts"]),
            groups=tuple(tuple(group) for group in record["groups"]),
            entities=tuple(record["entities"]),
            matrix=tuple(tuple(_judgement(cell, evidence) for cell in row) for row in record["matrix"]),
            links=tuple(record["links"]),
            abstained=record["abstained"],
            problem=record["problem"],
            ungrouped=record.get("ungrouped"),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(f"not a record of a judged biography: {type(error).__name__}: {error}") from error


def read_records(path: Path) -> list[JudgedBiography]:
    """All biographies of a ``verdicts.jsonl``.

    Raises:
        DataError: the file cannot be read, or a line is none.
    """
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: cannot be read: {error}; make it with: lm-factuality judge ambigbio ... --out DIR"
        ) from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(from_record(json.loads(line)))
            except (json.JSONDecodeError, DataError) as error:
                raise DataError(f"{path}:{number}: {error}") from error
    return found


def _judgement(cell: Mapping[str, Any], evidence: list[str]) -> Judgement:
    return Judgement(
        cell["outcome"], cell["score"], cell["reason"], tuple(evidence[number] for number in cell["evidence"])
    )
