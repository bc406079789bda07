"""The key of a sheet, and what people answered on the sheet.

The key says what each item of a sheet is, what the judge said about it and how it was drawn. It is
not for annotators. Labels are the CSV that the page of a sheet exports, or the sheet's CSV file
with the answers filled in. The commands `lm-factuality people` and leaderboards read both.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StrictInt

from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.ground.errors import DataError, did_you_mean, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.ground.tables import read_table

COLUMNS = ("sheet", "number", "question", "answer", "person", "note")
"""The columns of a file of labels."""

READING_COLUMNS = ("ask", "options", "text", "beside")
"""Further columns of a sheet's CSV file, which people read and no command reads back."""

_EXPECTED_KEY = "expected the NAME.key.json that 'lm-factuality people sheet' wrote with the sheet"


@dataclass(frozen=True)
class SheetSource:
    """A file that items of a sheet come from: the results of a run, or a data file."""

    file: str
    sha256: str
    task: str = ""
    model: str = ""
    samples: str = ""
    samples_sha256: str = ""


@dataclass(frozen=True)
class Stratum:
    """A group of units, of which some were drawn at random."""

    name: str
    units: StrictInt
    drawn: StrictInt


@dataclass(frozen=True)
class DrawnUnit:
    """A unit that was drawn for a sheet, and how."""

    source: StrictInt
    """The place of its source in `Key.sources`, from 0."""

    unit: str
    """The sample (by the key of its `SampleRow`) or row of a data file."""

    cluster: str
    stratum: str
    """The stratum that the unit was drawn from."""

    strata: Mapping[str, str]
    """All groups that the unit is in, by what they are called."""

    probability: Annotated[float, Field(gt=0, le=1)]
    """How likely the unit was drawn."""

    weight: Annotated[float, Field(ge=1)]
    """One over the probability."""

    @property
    def unit_key(self) -> tuple[int, str]:
        """The unit, among the units of all sources."""
        return self.source, self.unit


@dataclass(frozen=True)
class SheetItem(DrawnUnit):
    """An item of a sheet, with all that annotators do not see."""

    number: StrictInt
    """Its place on the sheet, from 1."""

    item: str
    """The item's id within its unit."""

    question: str
    options: tuple[str, ...]
    judge: str | None
    """What the judge said; None if it left the item unscored."""

    repeat_of: StrictInt | None = None
    """The number of the same item where the sheet shows it first; None there."""


@dataclass(frozen=True)
class Key:
    """The key of a sheet."""

    benchmark: str
    """The kind of benchmark that all sources are of."""

    seed: int
    questions: tuple[str, ...]
    """The questions that the sheet asks."""

    stratify: tuple[str, ...]
    """What the strata were made by; empty for one stratum."""

    sources: tuple[SheetSource, ...]
    strata: tuple[Stratum, ...]
    items: tuple[SheetItem, ...]
    sheet: str = ""
    """The id of the sheet, which follows from all other fields."""

    format: Literal[1] = 1

    def named(self) -> "Key":
        """Return the same key with the id that follows from its content."""
        content = json.dumps(asdict(replace(self, sheet="")), sort_keys=True)
        return replace(self, sheet=hashlib.sha256(content.encode()).hexdigest()[:12])


@dataclass(frozen=True)
class Labels:
    """All answers to a sheet."""

    people: tuple[str, ...]

    answers: Mapping[int, Mapping[str, str]]
    """By the number of an item where the sheet shows it first, what each person answered.

    What a person answered when the sheet showed the item again is under ``NAME again``.
    """

    decided: Mapping[tuple[int, str], Mapping[str, str]]
    """By unit and by item, what most of the people say who could tell. Ties are left out."""


def read_key(path: Path) -> Key:
    """Read the key of a sheet.

    Raises:
        DataError: The file cannot be read, is no key, or was changed since the sheet was made.
    """
    try:
        key = to_model(Key, parse_json(read_text(path, _EXPECTED_KEY)))
    except ValueError as error:
        raise DataError(f"{path}: not the key of a sheet: {error}; {_EXPECTED_KEY}") from error
    if key.named() != key:
        raise DataError(
            f"{path}: its content is not that of sheet {key.sheet}: it was changed by hand; make"
            " the sheet again"
        )
    for number, item in enumerate(key.items, 1):
        if item.repeat_of is not None and item.repeat_of not in range(1, number):
            raise DataError(
                f"{path}: repeat_of of item {number} is {item.repeat_of}, expected an item before"
                " it; make the sheet again"
            )
    return key


def read_labels(paths: Sequence[Path], key: Key) -> Labels:
    """Read what people answered on the sheet of a key.

    Raises:
        DataError: A file cannot be read, or holds lines that are no labels of this sheet. The
            error lists these lines of all files.
    """
    labels: dict[tuple[int, str], str] = {}
    problems: list[str] = []
    locations: dict[tuple[int, str], str] = {}
    for path in paths:
        table = read_table(path)
        problems += table.problems
        for record in table.records:
            try:
                label = to_model(LabelLine, record.values)
                answer = _answer_of(label, key)
            except ValueError as error:
                problems.append(f"{record.location}: {error}")
                continue
            place = (label.number, label.person)
            if place in labels:
                again = f"{label.person!r} answers number {label.number} again"
                problems.append(f"{record.location}: {again}, as in {locations[place]}")
                continue
            locations[place] = record.location
            labels[place] = answer
    refuse(problems, "problems", "correct them and read the files again; no label is used")

    answers: dict[int, dict[str, str]] = defaultdict(dict)
    for number, person in sorted(labels):
        of_item = answers[key.items[number - 1].repeat_of or number]
        name = f"{person} again" if person in of_item else person
        of_item[name] = labels[number, person]
    people = tuple(sorted({person for _, person in labels}))
    return Labels(people, answers, _decide(key, people, answers))


class LabelLine(BaseModel, str_strip_whitespace=True):
    """A row of a file of labels."""

    sheet: str
    number: int
    question: str
    answer: Annotated[str, Field(min_length=1, description="an answer")]
    person: Annotated[str, Field(min_length=1, description="the name of who answered")]


def _answer_of(label: LabelLine, key: Key) -> str:
    """Return the answer of a label, as an option of the item that it answers.

    Raises:
        ValueError: The line is no label of the sheet.
    """
    if label.sheet != key.sheet:
        raise ValueError(f"sheet {label.sheet!r}, expected {key.sheet}")
    if not 1 <= label.number <= len(key.items):
        raise ValueError(
            f"number {label.number} is none of the sheet's, expected 1 to {len(key.items)}"
        )
    item = key.items[label.number - 1]
    if label.question != item.question:
        raise ValueError(
            f"question {label.question!r}, but number {label.number} asks {item.question!r}"
        )
    # A spreadsheet makes TRUE of true.
    answer = label.answer if label.answer in item.options else label.answer.lower()
    if answer not in (*item.options, SKIP):
        hint = did_you_mean(answer, item.options)
        raise ValueError(f"answer {answer!r}, expected {', '.join(item.options)} or {SKIP}{hint}")
    return answer


def _decide(
    key: Key, people: Sequence[str], answers: Mapping[int, Mapping[str, str]]
) -> dict[tuple[int, str], dict[str, str]]:
    """Return what most people say of each item, by the first answer of each."""
    decided: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for number, of_item in answers.items():
        item = key.items[number - 1]
        votes = Counter(of_item[person] for person in people if person in of_item)
        del votes[SKIP]
        ranked = votes.most_common(2)
        if len(ranked) == 1 or (ranked and ranked[0][1] > ranked[1][1]):
            decided[item.unit_key][item.item] = ranked[0][0]
    return dict(decided)
