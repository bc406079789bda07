"""What people said on a sheet: the CSV or JSON that its page exports, or its CSV file, filled in."""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.ground.errors import did_you_mean, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.people.key import Entry, Key

COLUMNS = ("sheet", "number", "question", "answer", "person", "note")
BESIDE = ("ask", "options", "text", "beside")  # columns of the CSV that people read and nobody reads back
_EXPECTED = "expected the CSV or JSON that the page of a sheet exports, or the sheet's CSV file with answers filled in"
_CURE = "correct the files and read them again; of labels with a mistake none is used"
UnitKey = tuple[int, str]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    sheet: str
    number: str
    question: str
    answer: str
    person: str
    note: str = ""


@dataclass(frozen=True)
class Label:
    """The answer of a person to an item of the sheet."""

    entry: Entry
    answer: str
    person: str
    note: str = ""


@dataclass(frozen=True)
class Labels:
    """All answers. ``decided`` is what people together say: by unit and item the answer of most who gave one. Not
    decided are so many items with ``ties``, those that all ``skipped``, and those that nobody answered (``missing``)."""

    labels: tuple[Label, ...]
    decided: Mapping[UnitKey, Mapping[str, str]] = field(default_factory=dict)
    ties: int = 0
    skipped: int = 0
    missing: int = 0

    @property
    def people(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(sorted({each.person for each in self.labels}))


def read_labels(paths: Sequence[Path], key: Key) -> Labels:
    """The answers in all files, held against the key of their sheet. An item that a person saw twice counts once in ``decided``,
    as it was answered first.

    Raises:
        DataError: a file cannot be read, or lines are no labels of this sheet: every problem of all files.
    """
    known = {entry.number: entry for entry in key.items}
    found: dict[tuple[int, str], Label] = {}
    places: dict[tuple[int, str], str] = {}
    problems: list[str] = []
    for path in paths:
        for where, line in _lines(path):
            label = line if isinstance(line, str) else _label(line, key, known)
            if isinstance(label, str):
                problems.append(f"{where}: {label}")
                continue
            place = label.entry.number, label.person
            if place in found:
                problems.append(f"{where}: {label.person!r} answers number {place[0]} again, as in {places[place]}")
            found.setdefault(place, label)
            places.setdefault(place, where)
    if not found and not problems:
        problems.append(f"{', '.join(map(str, paths))}: no answers; {_EXPECTED}")
    refuse(problems, "problems", _CURE if found else "")
    return _decide(tuple(found.values()), key)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The place of each line with what it holds, or with a sentence that says why it holds none."""
    text = read_text(path, _EXPECTED)
    if path.suffix.lower() == ".json":
        try:
            content = parse_json(text)
            lines = content["labels"] if isinstance(content, dict) and content.get("format") == 1 else None
        except (ValueError, KeyError, RecursionError) as error:
            yield str(path), f"not JSON of labels: {error}; {_EXPECTED}"
            return
        if not isinstance(lines, list):
            yield str(path), f"no 'labels' of format 1; {_EXPECTED}"
            return
        yield from ((f"{path}, label {number}", line) for number, line in enumerate(lines, start=1))
        return
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        if problem := _wrong_header(header):
            yield f"{path}:1", problem
            return
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if len(cells) != len(header):
                yield where, f"{len(cells)} cells, expected {len(header)} as in the header"
            else:
                line = dict(zip(header, cells, strict=True))
                yield where, {name: line[name] for name in COLUMNS if name in line}
    except csv.Error as error:
        yield f"{path}:{reader.line_num}", f"no CSV: {error}"


def _wrong_header(header: Sequence[str]) -> str:
    expected = f"expected {','.join(COLUMNS)}"
    other = next((mark for mark in (";", "\t", "|") if len(header) == 1 and mark in header[0]), None)
    if other:
        return f"cells are separated by {other!r}, expected commas; save the file as CSV with commas"
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        return f"column {twice[0]!r} is there twice; {expected}"
    unknown = [name for name in header if name not in (*COLUMNS, *BESIDE)]
    missing = [name for name in COLUMNS[:-1] if name not in header]
    if unknown or missing:
        what = f"no column {missing[0]!r}" if missing else f"unknown column {unknown[0]!r}"
        return f"{what}{did_you_mean(unknown[0], COLUMNS) if unknown else ''}; {expected}"
    return ""


def _label(line: Any, key: Key, known: Mapping[int, Entry]) -> Label | str:
    try:
        read = to_model(_Line, line)
    except ValueError as error:
        return str(error)
    entry = known.get(int(read.number)) if read.number.isdecimal() else None
    answer, person = read.answer.strip(), read.person.strip()
    if read.sheet != key.sheet:
        return f"of sheet {read.sheet!r}, expected {key.sheet}"
    if entry is None:
        return f"number {read.number!r} is none of the sheet's, expected 1 to {len(known)}"
    if read.question != entry.question:
        return f"question {read.question!r}, but number {entry.number} asks {entry.question!r}"
    if answer not in (*entry.options, SKIP):
        said = "no answer" if not answer else f"answer {answer!r}"
        return f"{said}, expected {', '.join(entry.options)} or {SKIP}{did_you_mean(answer, entry.options)}"
    return Label(entry, answer, person, read.note) if person else "no person, expected the name of whoever answered"


def _decide(labels: tuple[Label, ...], key: Key) -> Labels:
    votes: dict[tuple[UnitKey, str], dict[str, str]] = defaultdict(dict)
    for each in sorted(labels, key=lambda label: label.entry.number):
        votes[each.entry.unit_key, each.entry.item].setdefault(each.person, each.answer)
    decided: dict[UnitKey, dict[str, str]] = {}
    counts = Counter[str]()
    for entry in key.items:
        if entry.repeat_of is not None:
            continue
        said = votes[entry.unit_key, entry.item].values()
        given = Counter(answer for answer in said if answer != SKIP).most_common(2)
        if not given:
            counts["skipped" if said else "missing"] += 1
        elif len(given) > 1 and given[0][1] == given[1][1]:
            counts["ties"] += 1
        else:
            decided.setdefault(entry.unit_key, {})[entry.item] = given[0][0]
    return Labels(labels, decided, counts["ties"], counts["skipped"], counts["missing"])
