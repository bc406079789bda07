"""The key of a sheet, and what people answered on the sheet.

The key says what each item of a sheet is, what the judge said about it and how it was drawn. It is
not for annotators. Labels are the CSV or JSON that the page of a sheet exports, or the sheet's CSV
file with the answers filled in. The commands `lm-factuality people` and leaderboards read both.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

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
_EXPECTED_LABELS = (
    "expected the CSV or JSON that the page of a sheet exports, or the sheet's CSV file with"
    " answers filled in"
)


@dataclass(frozen=True)
class Source:
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
class SheetItem:
    """An item of a sheet, with all that annotators do not see."""

    number: StrictInt
    """Its place on the sheet, from 1."""

    source: StrictInt
    """The place of its source in `Key.sources`, from 0."""

    unit: str
    """The sample (by the key of its `SampleRow`) or row of a data file that the item is part of."""

    cluster: str
    item: str
    """The item's id within its unit."""

    question: str
    options: tuple[str, ...]
    judge: str | None
    """What the judge said; None if it left the item unscored."""

    stratum: str
    """The stratum that the unit was drawn from."""

    strata: Mapping[str, str]
    """All groups that the unit is in, by what they are called."""

    probability: Annotated[float, Field(gt=0, le=1)]
    """How likely the unit was drawn."""

    weight: Annotated[float, Field(ge=1)]
    """One over the probability."""

    repeat_of: StrictInt | None = None
    """The number of the same item where the sheet shows it first; None there."""

    @property
    def unit_key(self) -> tuple[int, str]:
        """The unit, among the units of all sources."""
        return self.source, self.unit


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

    sources: tuple[Source, ...]
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
class Label:
    """What a person answered to an item."""

    item: SheetItem
    answer: str
    person: str


@dataclass(frozen=True)
class Labels:
    """All answers to a sheet."""

    labels: tuple[Label, ...]

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
    return key


def read_labels(paths: Sequence[Path], key: Key) -> Labels:
    """Read what people answered on the sheet of a key.

    Raises:
        DataError: A file cannot be read, or holds lines that are no labels of this sheet. The
            error lists these lines of all files.
    """
    labels: list[Label] = []
    problems: list[str] = []
    locations: dict[tuple[int, str], str] = {}
    for path in paths:
        for location, line in _read_lines(path, problems):
            try:
                label = _to_label(to_model(_Line, line), key)
            except ValueError as error:
                problems.append(f"{location}: {error}")
                continue
            number = label.item.number
            first = locations.get((number, label.person))
            if first is not None:
                problems.append(
                    f"{location}: {label.person!r} answers number {number} again, as in {first}"
                )
                continue
            locations[number, label.person] = location
            labels.append(label)
    refuse(problems, "problems", "correct them and read the files again; no label is used")
    return Labels(tuple(labels), _decide(labels))


def _read_lines(path: Path, problems: list[str]) -> list[tuple[str, Any]]:
    """Return each line of a file with its location. Add rows that are broken to ``problems``."""
    if path.suffix.lower() != ".json":
        table = read_table(path)
        problems += table.problems
        return [(record.location, record.values) for record in table.records]
    try:
        lines = parse_json(read_text(path, _EXPECTED_LABELS))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; {_EXPECTED_LABELS}") from error
    if not isinstance(lines, list) or not lines:
        raise DataError(f"{path}: no list of labels; {_EXPECTED_LABELS}")
    return [(f"{path}, label {number}", line) for number, line in enumerate(lines, start=1)]


class _Line(BaseModel, str_strip_whitespace=True):
    """A row of the table, or an entry of the JSON list."""

    sheet: str
    number: int
    question: str
    answer: Annotated[str, Field(min_length=1, description="an answer")]
    person: Annotated[str, Field(min_length=1, description="the name of who answered")]


def _to_label(line: _Line, key: Key) -> Label:
    """Find the item that a line answers.

    Raises:
        ValueError: The line is no label of the sheet.
    """
    if line.sheet != key.sheet:
        raise ValueError(f"sheet {line.sheet!r}, expected {key.sheet}")
    if not 1 <= line.number <= len(key.items):
        raise ValueError(
            f"number {line.number} is none of the sheet's, expected 1 to {len(key.items)}"
        )
    item = key.items[line.number - 1]
    if line.question != item.question:
        raise ValueError(
            f"question {line.question!r}, but number {line.number} asks {item.question!r}"
        )
    # A spreadsheet makes TRUE of true.
    answer = line.answer if line.answer in item.options else line.answer.lower()
    if answer not in (*item.options, SKIP):
        hint = did_you_mean(answer, item.options)
        raise ValueError(f"answer {answer!r}, expected {', '.join(item.options)} or {SKIP}{hint}")
    return Label(item, answer, line.person)


def _decide(labels: Sequence[Label]) -> dict[tuple[int, str], dict[str, str]]:
    """Return what most people say of each item.

    Of an item that a person saw twice, the first answer counts.
    """
    votes: dict[tuple[tuple[int, str], str], dict[str, str]] = defaultdict(dict)
    for label in sorted(labels, key=lambda label: label.item.number):
        votes[label.item.unit_key, label.item.item].setdefault(label.person, label.answer)

    decided: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for (unit, item), answers in votes.items():
        counts = Counter(answer for answer in answers.values() if answer != SKIP).most_common(2)
        if len(counts) == 1 or (counts and counts[0][1] > counts[1][1]):
            decided[unit][item] = counts[0][0]
    return dict(decided)
