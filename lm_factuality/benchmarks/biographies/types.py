"""What the steps of D-FActScore hand to each other, and a judged biography as JSON and back: what
``verdicts.jsonl`` holds."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt

from lm_factuality.ground import records

Outcome = Literal["supported", "not_supported", "irrelevant", "unscored"]


@dataclass(frozen=True)
class Passage:
    """A retrieved passage; ``title`` names the entity whose page it is from."""

    title: str
    text: str


@dataclass(frozen=True)
class Generation:
    """``output`` is what a model wrote, citations like [1] included, when asked ``question`` about
    ``name`` and given ``passages``, which its citations count from 1."""

    index: str
    question: str
    name: str
    output: str
    passages: tuple[Passage, ...]

    @property
    def entities(self) -> tuple[str, ...]:
        """The candidates for linking: the distinct titles of the passages, in the order of
        retrieval."""
        return tuple(dict.fromkeys(passage.title for passage in self.passages))


@dataclass(frozen=True)
class Fact:
    """An atomic fact, and the sentence that it was taken from, counted from 0."""

    text: str
    sentence: StrictInt


@dataclass(frozen=True)
class Judgement:
    """What the page of one entity says of one fact. ``score`` is in [0, 1]; ``evidence`` are the
    passages of the page that were shown to the judge, ``reason`` its reason, or why there is no
    verdict."""

    outcome: Outcome
    score: float | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgedBiography:
    """A generation with all that was found out about it. ``groups`` hold the numbers of the facts
    of each individual that a reader sees; ``matrix[fact][entity]`` has the judgement of each fact
    by each of ``entities``; ``links`` the entity of each group (its number), or None. ``abstained``
    says that the model declined to answer; ``problem`` why a response could not be judged (both
    mean: no facts); ``ungrouped`` why the facts are in no groups, though they have judgements."""

    generation: Generation
    sentences: tuple[str, ...]
    facts: tuple[Fact, ...]
    groups: tuple[tuple[int, ...], ...]
    entities: tuple[str, ...]
    matrix: tuple[tuple[Judgement, ...], ...]
    links: tuple[int | None, ...]
    abstained: bool = False
    problem: str | None = None
    ungrouped: str | None = None


@dataclass(frozen=True)
class Record:
    """A line of ``verdicts.jsonl``: ``protocol`` and ``linking`` are those it was judged with, None
    where it does not say."""

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
    """JSON-able; evidence that several judgements share is written once, under ``evidence``, and
    named by its numbers."""
    record = asdict(judged)
    texts: dict[str, int] = {}
    for row, judgements in zip(record["matrix"], judged.matrix, strict=True):
        for cell, judgement in zip(row, judgements, strict=True):
            cell["evidence"] = [texts.setdefault(text, len(texts)) for text in judgement.evidence]
    return {**record, "evidence": list(texts)}


def from_record(record: Any) -> JudgedBiography:
    """The inverse of ``to_record``; other keys do not matter. Raises ValueError: a key is missing
    or holds something else, or parts do not fit together: a matrix of another shape than facts by
    entities, groups of facts and links to entities that are not there, a fact in two groups."""
    return _parse(record).judged


def read_lines(path: Path) -> list[Record]:
    """All lines of a ``verdicts.jsonl``. Raises DataError: the file cannot be read, or lines are no
    records; they are named."""
    return records.read_lines(
        path, _parse, "make it with: lm-factuality judge ambigbio ... --out DIR"
    )


def _parse(record: Any) -> Record:
    try:
        line = records.to_model(_Line, record)
        return Record(_judged(line), line.protocol, line.linking)
    except ValueError as error:
        raise ValueError(f"not a record of a judged biography: {error}") from error


def _judged(line: _Line) -> JudgedBiography:
    for name, other in (("matrix", "facts"), ("links", "groups")):
        found, expected = len(getattr(line, name)), len(getattr(line, other))
        if found != expected:
            raise ValueError(
                f"{name!r} has {found} elements, expected {expected}, as many as {other!r}"
            )
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
            raise ValueError(
                f"matrix[{number}]: found {len(row)} judgements, expected {len(line.entities)}, one"
                " an entity"
            )
        for cell in row:
            _check_numbers(f"matrix[{number}]: evidence", cell.evidence, line.evidence)
    matrix = tuple(
        tuple(
            Judgement(
                each.outcome,
                each.score,
                each.reason,
                tuple(line.evidence[n] for n in each.evidence),
            )
            for each in row
        )
        for row in line.matrix
    )
    return JudgedBiography(
        **{
            **{each.name: getattr(line, each.name) for each in fields(JudgedBiography)},
            "matrix": matrix,
        }
    )


def _check_numbers(
    where: str, numbers: list[int] | tuple[int, ...], counted: tuple[Any, ...]
) -> None:
    for number in numbers:
        if not 0 <= number < len(counted):
            raise ValueError(
                f"{where}: found {number}, expected the number of one of {len(counted)}, counted"
                " from 0"
            )
