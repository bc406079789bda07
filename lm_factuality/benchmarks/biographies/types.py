"""What the steps of D-FActScore hand to each other, and a judged biography as JSON and back.

A line of ``verdicts.jsonl`` holds such a record.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt

from lm_factuality.ground import records

Outcome = Literal["supported", "not_supported", "irrelevant", "unscored"]
Score = Annotated[float, Field(strict=True, ge=0, le=1)]


@dataclass(frozen=True)
class Passage:
    """A retrieved passage."""

    title: str
    """The entity whose page it is from."""

    text: str


@dataclass(frozen=True)
class Generation:
    """What a model wrote about a name."""

    index: str
    question: str
    name: str
    output: str
    """The model's text, with citations like [1]."""

    passages: tuple[Passage, ...]
    """What the model was given. Citations count them from 1."""

    @property
    def entities(self) -> tuple[str, ...]:
        """The candidates for linking: the distinct titles, in the order of retrieval."""
        return tuple(dict.fromkeys(passage.title for passage in self.passages))


@dataclass(frozen=True)
class Fact:
    """An atomic fact."""

    text: str
    sentence: StrictInt
    """The sentence that it was taken from, counted from 0."""


@dataclass(frozen=True)
class Judgement:
    """What the page of one entity says of one fact."""

    outcome: Outcome
    score: Score | None = None
    reason: str = ""
    """The judge's reason, or why there is no verdict."""

    evidence: tuple[str, ...] = ()
    """The passages of the page that the judge was shown."""


@dataclass(frozen=True)
class JudgedBiography:
    """A generation with all that was found out about it."""

    generation: Generation
    sentences: tuple[str, ...]
    facts: tuple[Fact, ...]
    groups: tuple[tuple[StrictInt, ...], ...]
    """The numbers of the facts of each individual that a reader sees."""

    entities: tuple[str, ...]
    matrix: tuple[tuple[Judgement, ...], ...]
    """The judgement of each fact (rows) by each entity (columns)."""

    links: tuple[StrictInt | None, ...]
    """The number of the entity of each group, or None."""

    abstained: StrictBool = False
    """Whether the model declined to answer."""

    problem: str | None = None
    """Why a response could not be judged, so that it has no facts."""

    ungrouped: str | None = None
    """Why the facts are in no groups, though they have judgements."""


@dataclass(frozen=True)
class Record:
    """A line of ``verdicts.jsonl``."""

    judged: JudgedBiography
    protocol: str | None
    """The protocol it was judged with. None if the line does not say."""

    linking: str | None


def to_record(judged: JudgedBiography) -> dict[str, Any]:
    """Return a judged biography as JSON-able values.

    Evidence that several judgements share is written once, under ``evidence``. Judgements name it
    by its numbers.
    """
    record = asdict(judged)
    texts: dict[str, int] = {}
    for cells in record["matrix"]:
        for cell in cells:
            cell["evidence"] = [texts.setdefault(text, len(texts)) for text in cell["evidence"]]
    return {**record, "evidence": list(texts)}


def from_record(record: Any) -> JudgedBiography:
    """Return the judged biography that `to_record` made a record of. Other keys do not matter.

    Raises:
        ValueError: A key is missing or holds something else, or parts do not fit together, such as
            a group and the number of a fact that does not exist.
    """
    try:
        judged = records.to_model(JudgedBiography, _with_evidence(record))
        _check(judged)
    except ValueError as error:
        raise ValueError(f"not a record of a judged biography: {error}") from error
    return judged


def read_lines(path: Path) -> list[Record]:
    """Read all lines of a ``verdicts.jsonl``.

    Raises:
        DataError: The file cannot be read, or lines are no records. The error names them.
    """
    return records.read_lines(
        path,
        lambda line: Record(from_record(line), line.get("protocol"), line.get("linking")),
        "make it with: lm-factuality judge ambigbio ... --out DIR",
    )


def _with_evidence(record: Any) -> Any:
    """Put the texts of the evidence in the place of their numbers."""
    matrix = []
    try:
        texts = dict(enumerate(record["evidence"]))
        for cells in record["matrix"]:
            row = []
            for cell in cells:
                row.append({**cell, "evidence": [texts[number] for number in cell["evidence"]]})
            matrix.append(row)
        record = {**record, "matrix": matrix}
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"'matrix' and 'evidence': {type(error).__name__}: {error}; expected judgements with"
            " the numbers of their evidence"
        ) from error
    return record


def _check(judged: JudgedBiography) -> None:
    """Raise ValueError if numbers name nothing, or lists do not have the same lengths."""
    members = [fact for group in judged.groups for fact in group]
    if len(set(members)) < len(members):
        raise ValueError("'groups': a fact is in two groups, or twice in one")
    sentences = [fact.sentence for fact in judged.facts]
    links = [link for link in judged.links if link is not None]
    _check_numbers("the sentence of a fact", sentences, len(judged.sentences))
    _check_numbers("a fact in 'groups'", members, len(judged.facts))
    _check_numbers("an entity in 'links'", links, len(judged.entities))
    _check_length("links", judged.links, len(judged.groups))
    _check_length("matrix", judged.matrix, len(judged.facts))
    for cells in judged.matrix:
        _check_length("a row of 'matrix'", cells, len(judged.entities))


def _check_numbers(part: str, numbers: Sequence[int], count: int) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise ValueError(
                f"{part}: found {number}, expected the number of one of {count}, counted from 0"
            )


def _check_length(part: str, elements: Sequence[Any], count: int) -> None:
    if len(elements) != count:
        raise ValueError(
            f"{part} has {len(elements)} elements, expected {count}, one for each group, fact or"
            " entity"
        )
