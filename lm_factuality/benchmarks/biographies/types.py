"""What the steps of D-FActScore hand to each other, and a judged biography as JSON and back.

A line of ``verdicts.jsonl`` holds such a record.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt
from pydantic_core import to_jsonable_python

from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.harness.generation import JsonObject

Outcome = Literal["supported", "not_supported", "irrelevant", "unscored"]
SINGLE_SUBJECT = ("",)
"""The entities of a response where they are not told apart: one, without a name."""

Probability = Annotated[float, Field(strict=True, ge=0, le=1)]


@dataclass(frozen=True)
class RetrievedPassage:
    """A passage that a model was given."""

    title: str
    """The entity whose page it is from."""

    text: str


@dataclass(frozen=True)
class GeneratedText:
    """What a model wrote about a name."""

    index: str
    question: str
    name: str
    output: str
    """The model's text, with citations like [1]."""

    passages: tuple[RetrievedPassage, ...]
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
    score: Probability | None = None
    reason: str = ""
    """The judge's reason, or why there is no verdict."""

    evidence: tuple[str, ...] = ()
    """The passages of the page that the judge was shown."""


@dataclass(frozen=True)
class JudgedBiography:
    """A text with all that was found out about it."""

    generation: GeneratedText
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

    @property
    def is_answer(self) -> bool:
        """Whether it can be taken apart."""
        return not self.abstained and self.problem is None


def biography_to_record(judged: JudgedBiography) -> JsonObject:
    """Return a judged biography as JSON values.

    Evidence that several judgements share is written once, under ``evidence``. Judgements name it
    by its numbers.
    """
    record = to_jsonable_python(judged)
    numbers: dict[str, int] = {}
    for cells in record["matrix"]:
        for cell in cells:
            cell["evidence"] = [numbers.setdefault(text, len(numbers)) for text in cell["evidence"]]
    return {**record, "evidence": list(numbers)}


def biography_from_record(record: Any) -> JudgedBiography:
    """Return the judged biography that `to_record` made a record of. Other keys do not matter.

    Raises:
        ValueError: A key is missing or holds something else, or parts do not fit together, such as
            a group and the number of a fact that does not exist.
    """
    try:
        texts = dict(enumerate(record["evidence"]))
        matrix = []
        for cells in record["matrix"]:
            row = []
            for cell in cells:
                row.append({**cell, "evidence": [texts[number] for number in cell["evidence"]]})
            matrix.append(row)
        judged = to_model(JudgedBiography, {**record, "matrix": matrix})
        _check_numbers(judged)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"not a record of a judged biography: {type(error).__name__}: {error}"
        ) from error
    return judged


def read_verdicts(path: Path) -> list[JsonObject]:
    """Read the records of a ``verdicts.jsonl``, each of which `from_record` can read.

    Raises:
        DataError: The file cannot be read, or lines are no records. The error names them.
    """

    def parse(line: Any) -> JsonObject:
        biography_from_record(line)
        return dict(line)

    return read_lines(path, parse, "make it with: lm-factuality judge ambigbio ... --out DIR")


def _check_numbers(judged: JudgedBiography) -> None:
    """Raise ValueError if numbers name nothing, or lists do not have the same lengths."""
    members = [fact for group in judged.groups for fact in group]
    rows = [len(cells) for cells in judged.matrix]
    sentences = {fact.sentence for fact in judged.facts}
    checks = {
        "a sentence in 'facts'": sentences <= set(range(len(judged.sentences))),
        "a fact in 'groups'": set(members) <= set(range(len(judged.facts))),
        "a fact twice in 'groups'": len(set(members)) == len(members),
        "an entity in 'links'": {*judged.links} - {None} <= set(range(len(judged.entities))),
        "the length of 'links'": len(judged.links) == len(judged.groups),
        "the lengths in 'matrix'": rows == [len(judged.entities)] * len(judged.facts),
    }
    wrong = [part for part, is_sound in checks.items() if not is_sound]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: does not fit the rest of the record")
