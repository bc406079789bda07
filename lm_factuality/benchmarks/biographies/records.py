"""A judged biography as JSON and back: what ``verdicts.jsonl`` holds, and what the page and the comparison with people read."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictBool, StrictInt

from lm_factuality.benchmarks.biographies.types import Fact, Generation, JudgedBiography, Judgement, Outcome
from lm_factuality.ground import records


@dataclass(frozen=True)
class Record:
    """A line of ``verdicts.jsonl``: ``protocol`` and ``linking`` are those it was judged with, None where it does not say."""

    judged: JudgedBiography
    protocol: str | None
    linking: str | None


class _Cell(BaseModel):
    outcome: Outcome
    score: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    reason: str
    evidence: tuple[StrictInt, ...]


class _Line(BaseModel):
    generation: Generation
    sentences: tuple[str, ...]
    facts: tuple[Fact, ...]
    groups: tuple[tuple[StrictInt, ...], ...]
    entities: tuple[str, ...]
    evidence: tuple[str, ...]
    matrix: tuple[tuple[_Cell, ...], ...]
    links: tuple[StrictInt | None, ...]
    abstained: StrictBool
    problem: str | None = None
    ungrouped: str | None = None
    protocol: str | None = None
    linking: str | None = None


def to_record(judged: JudgedBiography) -> dict[str, Any]:
    """JSON-able; evidence that several judgements share is written once, under ``evidence``, and named by its numbers."""
    record = asdict(judged)
    texts: dict[str, int] = {}
    for row, judgements in zip(record["matrix"], judged.matrix, strict=True):
        for cell, judgement in zip(row, judgements, strict=True):
            cell["evidence"] = [texts.setdefault(text, len(texts)) for text in judgement.evidence]
    return {**record, "evidence": list(texts)}


def from_record(record: Any) -> JudgedBiography:
    """The inverse of ``to_record``; other keys do not matter.

    Raises:
        ValueError: a key is missing or holds something else, or parts do not fit together: a matrix of another shape than facts
            by entities, groups of facts and links to entities that are not there, a fact in two groups.
    """
    return _parse(record).judged


def read_records(path: Path) -> list[JudgedBiography]:
    """All biographies of a ``verdicts.jsonl``, as ``read_lines`` reads them."""
    return [each.judged for each in read_lines(path)]


def read_lines(path: Path) -> list[Record]:
    """All lines of a ``verdicts.jsonl``.

    Raises:
        DataError: the file cannot be read, or lines are no records; they are named.
    """
    return records.read_lines(path, _parse, "make it with: lm-factuality judge ambigbio ... --out DIR")


def _parse(record: Any) -> Record:
    try:
        line = records.to_model(_Line, record)
        return Record(_judged(line), line.protocol, line.linking)
    except ValueError as error:
        raise ValueError(f"not a record of a judged biography: {error}") from error


def _judged(line: _Line) -> JudgedBiography:
    for name, values, other, others in (
        ("matrix", line.matrix, "facts", line.facts),
        ("links", line.links, "groups", line.groups),
    ):
        if len(values) != len(others):
            raise ValueError(f"{name!r} has {len(values)} elements, expected {len(others)}, as many as {other!r}")
    for number, fact in enumerate(line.facts):
        _check_numbers(f"facts[{number}]: sentence", [fact.sentence], line.sentences)
    for number, (group, link) in enumerate(zip(line.groups, line.links, strict=True)):
        _check_numbers(f"groups[{number}]: fact", group, line.facts)
        _check_numbers(f"links[{number}]: entity", [] if link is None else [link], line.entities)
    members = [fact for group in line.groups for fact in group]
    if len(set(members)) < len(members):
        raise ValueError("'groups': a fact is in two groups, or twice in one")
    for number, row in enumerate(line.matrix):
        if len(row) != len(line.entities):
            raise ValueError(f"matrix[{number}]: found {len(row)} judgements, expected {len(line.entities)}, one an entity")
        for cell in row:
            _check_numbers(f"matrix[{number}]: evidence", cell.evidence, line.evidence)
    matrix = tuple(
        tuple(Judgement(each.outcome, each.score, each.reason, tuple(line.evidence[n] for n in each.evidence)) for each in row)
        for row in line.matrix
    )
    return JudgedBiography(**{**{each.name: getattr(line, each.name) for each in fields(JudgedBiography)}, "matrix": matrix})


def _check_numbers(where: str, numbers: list[int] | tuple[int, ...], counted: tuple[Any, ...]) -> None:
    for number in numbers:
        if not 0 <= number < len(counted):
            raise ValueError(f"{where}: found {number}, expected the number of one of {len(counted)}, counted from 0")
