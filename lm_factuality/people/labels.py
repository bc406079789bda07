"""The key of a sheet, and what people answered on the sheet.

The key says what each item of a sheet is, what the judge said about it and how it was drawn. It is
not for annotators. Labels are the CSV that the page of a sheet exports, or the sheet's CSV file
with the answers filled in. The commands `lm-factuality people` and leaderboards read both.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import multimode
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictInt

from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.ground.errors import DataError, did_you_mean, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.ground.tables import read_table

COLUMNS = ("sheet", "number", "question", "answer", "person", "note")
"""The columns of a file of labels."""

READING_COLUMNS = ("ask", "options", "text", "evidence")
"""Further columns of a sheet's CSV file, which people read and no command reads back."""

_EXPECTED_KEY = "expected the NAME.key.json that 'lm-factuality people sheet' wrote with the sheet"


@dataclass(frozen=True)
class SheetSource:
    """A file that items of a sheet come from: the results of a run, or a data file."""

    file: str
    """The path of the results file or data file."""

    sha256: str
    """The SHA-256 of this file."""

    task: str = ""
    """The task of the run, empty for a data file."""

    model: str = ""
    """The label of the run's model, empty for a data file."""

    samples: str = ""
    """The path of the run's samples file, empty for a data file."""

    samples_sha256: str = ""
    """The SHA-256 of the samples file, empty for a data file."""


@dataclass(frozen=True)
class Stratum:
    """A group of units, of which some were drawn at random."""

    name: str
    """The name, such as ``wrong | none``, or empty if there is one stratum."""

    units: StrictInt
    """The number of units in the stratum."""

    drawn: StrictInt
    """The number of these units that were drawn."""


@dataclass(frozen=True)
class DrawnUnit:
    """A unit, i.e. a sample or a row of a data file, that was drawn for a sheet."""

    source: StrictInt
    """The index of its source in `Key.sources`, from 0."""

    unit: str
    """The key of the sample or row, which is unique within its source."""

    cluster: str
    """The cluster for standard errors, such as the document of the sample."""

    stratum: str
    """The stratum that the unit was drawn from."""

    strata: Mapping[str, str]
    """The groups that the unit is in, by the kind of group: ``{"verdict": "wrong"}``."""

    probability: Annotated[float, Field(gt=0, le=1)]
    """The probability with which the unit was drawn."""

    weight: Annotated[float, Field(ge=1)]
    """One over the probability."""

    @property
    def unit_key(self) -> tuple[int, str]:
        """Return the source and the key of the unit, which identify it among all sources."""
        return self.source, self.unit


@dataclass(frozen=True)
class SheetItem(DrawnUnit):
    """An item of a sheet, i.e. one question about a drawn unit, as the key stores it."""

    number: StrictInt
    """The number of the item on the sheet, from 1."""

    item: str
    """The id of the item within its unit, such as ``verdict:3``."""

    question: str
    """The name of the question."""

    options: tuple[str, ...]
    """The possible answers besides ``skip``."""

    judge: str | None
    """The judge's verdict as an option, or None if the judge left the item unscored."""

    repeat_of: StrictInt | None = None
    """The number under which the sheet shows the same item first, or None if it does so here."""


@dataclass(frozen=True)
class Key:
    """The key of a sheet: all that annotators do not see, such as the judge's verdicts."""

    benchmark: str
    """The kind of benchmark that all sources are of."""

    seed: int
    """The seed of the draw and of the order of items."""

    questions: tuple[str, ...]
    """The questions that the sheet asks."""

    stratify: tuple[str, ...]
    """The kinds of groups that the strata combine, or nothing if there is one stratum."""

    sources: tuple[SheetSource, ...]
    """The files that the items come from."""

    strata: tuple[Stratum, ...]
    """The strata that the units were drawn from."""

    items: tuple[SheetItem, ...]
    """The items in the order of the sheet: item number 1 comes first."""

    sheet: str = ""
    """The id of the sheet, a hash of all other fields."""

    format: Literal[1] = 1
    """The version of the file format."""

    def with_sheet_id(self) -> "Key":
        """Return a copy whose ``sheet`` is the first 12 hex digits of the content's SHA-256."""
        # The id cannot be part of the content that it is the hash of.
        content = json.dumps(asdict(replace(self, sheet="")), sort_keys=True)
        # 12 digits are enough to tell sheets apart, and short enough to read.
        digest = hashlib.sha256(content.encode()).hexdigest()
        return replace(self, sheet=digest[:12])


@dataclass(frozen=True)
class Labels:
    """All answers to a sheet."""

    people: tuple[str, ...]
    """The names of all annotators, sorted."""

    answers: Mapping[int, Mapping[str, str]]
    """The answer of each person, by the number under which the sheet shows the item first.

    If the sheet showed a person an item twice, the second answer is under ``NAME again``.
    """

    majority_answers: Mapping[tuple[int, str], Mapping[str, str]]
    """The answer that most people gave, by `DrawnUnit.unit_key` and by the id of the item.

    Skipped answers do not count, and items with a tie are missing.
    """


def read_key(path: Path) -> Key:
    """Read the key of a sheet, i.e. what annotators do not see, such as the judge's verdicts.

    Args:
        path: The file ``NAME.key.json`` that was written with the sheet.

    Returns:
        The key.

    Raises:
        DataError: The file cannot be read, is no key, or was changed since the sheet was made.
    """
    try:
        key = to_model(Key, parse_json(read_text(path, _EXPECTED_KEY)))
    except ValueError as error:
        raise DataError(f"{path}: not the key of a sheet: {error}; {_EXPECTED_KEY}") from error

    # The id is a hash of the content. A changed key has another id than the one that it states.
    if key.with_sheet_id() != key:
        raise DataError(f"{path}: changed since sheet {key.sheet} was made; make the sheet again")
    for number, item in enumerate(key.items, start=1):
        # An item can only repeat an earlier one.
        if item.repeat_of is not None and not 1 <= item.repeat_of < number:
            raise DataError(
                f"{path}: item {number} repeats item {item.repeat_of}, expected an item before it;"
                " make the sheet again"
            )
    return key


def read_labels(paths: Sequence[Path], key: Key) -> Labels:
    """Read the answers of all annotators to one sheet, and find the majority answer of each item.

    Args:
        paths: The label files, i.e. tables with the columns `COLUMNS`, or lines of JSON with the
            id of an item, a ``verdict`` and perhaps a ``reason``. The name of a file of such lines
            is that of the person.
        key: The key of the sheet.

    Returns:
        The answers of each person, and the majority answers.

    Raises:
        DataError: A file cannot be read, or has lines that are no labels of this sheet. The error
            lists these lines of all files.
    """
    lines = _read_lines(paths, key)
    people = tuple(sorted({line.person for line in lines}))
    answers = _answers_by_item(lines, key)
    return Labels(people, answers, _find_majority_answers(key, people, answers))


class LabelLine(BaseModel, str_strip_whitespace=True):
    """A row of a file of labels: one answer of one person."""

    sheet: str
    """The id of the sheet."""

    number: int
    """The number of the item on the sheet, from 1."""

    question: str
    """The name of the item's question, which must be that of the key."""

    answer: Annotated[str, Field(min_length=1, description="an answer")]
    """One of the options of the item, or ``skip``."""

    person: Annotated[str, Field(min_length=1, description="the name of who answered")]
    """The name of the annotator."""


def _read_lines(paths: Sequence[Path], key: Key) -> list[LabelLine]:
    """Read the lines of all label files of a sheet.

    Args:
        paths: The label files.
        key: The key of the sheet, i.e. of a numbered list of questions.

    Returns:
        One line for each person and number on the sheet. Its answer is spelled as in the key.

    Raises:
        DataError: A file cannot be read, or has wrong lines, which the error lists.
    """
    labels = []
    # The line that answers a number for a person, so that a second one can be refused.
    locations: dict[tuple[int, str], str] = {}
    problems: list[str] = []
    questions = {str(item.number): item.question for item in key.items}
    for path in paths:
        # A file can be the export of the page, or the CSV file of the sheet with answers.
        table = read_table(path)
        problems += table.problems
        for record in table.records:
            try:
                label = to_model(LabelLine, _complete_line(record.values, path, questions))
                label.answer = _checked_answer(label, key)
            except ValueError as error:
                problems.append(f"{record.location}: {error}")
                continue
            label_id = (label.number, label.person)
            if label_id in locations:
                problems.append(
                    f"{record.location}: {label.person!r} answers number {label.number} again, as"
                    f" in {locations[label_id]}"
                )
                continue
            locations[label_id] = record.location
            labels.append(label)
    refuse(problems, "problems", "correct them and read the files again; no label is used")
    return labels


def _complete_line(
    values: Mapping[str, Any], path: Path, questions: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return a line that answers an item by its id with the columns of other label files.

    Example:
        ``{"id": "0a1b2c3d4e5f-7", "verdict": "yes"}`` in ``ann.jsonl`` becomes ``{"sheet":
        "0a1b2c3d4e5f", "number": "7", "question": "fluent", "answer": "yes", "person": "ann"}``.

    Args:
        values: The cells of a line. Those without an id are returned as they are.
        path: The file.
        questions: The name of the question of each item, by its number on the sheet.
    """
    if "id" not in values:
        return values
    sheet, _, number = str(values["id"]).rpartition("-")
    return {
        "sheet": sheet,
        "number": number,
        # A number that is not on the sheet is refused later.
        "question": questions.get(number, ""),
        "answer": values.get("verdict"),
        "person": values.get("person", path.stem),
    }


def _checked_answer(label: LabelLine, key: Key) -> str:
    """Check that a row of a label file answers a question of the sheet, and return the answer.

    Args:
        label: The row of the label file.
        key: The key of the sheet, with its numbered questions (``items``).

    Returns:
        The answer, spelled as the item's option or as ``skip``. For example, ``TRUE`` becomes
        ``true`` if that is an option.

    Raises:
        ValueError: The row is of another sheet or question, or its answer is not an option.
    """
    if label.sheet != key.sheet:
        raise ValueError(f"sheet {label.sheet!r}, expected {key.sheet}")
    # Without this, number 0 would be the last item.
    if not 1 <= label.number <= len(key.items):
        raise ValueError(
            f"number {label.number} is not on the sheet, expected 1 to {len(key.items)}"
        )
    item = key.items[label.number - 1]
    if label.question != item.question:
        raise ValueError(
            f"question {label.question!r}, but number {label.number} asks {item.question!r}"
        )

    answer = label.answer
    if answer not in item.options:
        # Spreadsheet programs turn "true" into "TRUE".
        answer = answer.lower()
    if answer not in (*item.options, SKIP):
        hint = did_you_mean(answer, item.options)
        raise ValueError(f"answer {answer!r}, expected {', '.join(item.options)} or {SKIP}{hint}")
    return answer


def _answers_by_item(lines: Iterable[LabelLine], key: Key) -> dict[int, dict[str, str]]:
    """Collect the answers by the number under which the sheet shows the item first, and by person.

    A sheet may show an item twice, so that people can be compared with themselves.

    Args:
        lines: The lines of all label files.
        key: The key of the sheet, which says which items repeat an earlier one.

    Returns:
        The answers, such as ``{7: {"Ann": "true", "Ann again": "false"}}``.
    """
    answers: dict[int, dict[str, str]] = defaultdict(dict)
    # Sorting by number puts the first answer before the second.
    for line in sorted(lines, key=lambda line: (line.number, line.person)):
        repeated_number = key.items[line.number - 1].repeat_of
        number = line.number if repeated_number is None else repeated_number
        has_answered_before = line.person in answers[number]
        name = f"{line.person} again" if has_answered_before else line.person
        answers[number][name] = line.answer
    return answers


def _find_majority_answers(
    key: Key, people: Sequence[str], answers: Mapping[int, Mapping[str, str]]
) -> dict[tuple[int, str], dict[str, str]]:
    """Find the answer that most people gave to each item, which is one question about a text.

    Args:
        key: The key of the sheet, with its items in order.
        people: The names of the annotators. Each has one vote per item.
        answers: The answers by the number of the item and by person, as in `Labels.answers`.

    Returns:
        The majority answers by unit (the sample that the item is about) and by the id of the item.
        Items without an answer, or with a tie, are missing.
    """
    majority_answers: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for number, answer_by_name in answers.items():
        # The second answer to a repeated item is under "NAME again", which is not among `people`.
        votes = [answer_by_name[person] for person in people if person in answer_by_name]
        winners = multimode(vote for vote in votes if vote != SKIP)
        # Several answers with as many votes are a tie.
        if len(winners) == 1:
            # Numbers count from 1.
            item = key.items[number - 1]
            item_id = item.item
            majority_answers[item.unit_key][item_id] = winners[0]
    return dict(majority_answers)
