"""What people said on a sheet: the CSV or JSON that its page exports, or its CSV file, filled in;
and its key: what each of its items is, what the judge said of it and how it was drawn, which is not
for annotators."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.ground.errors import DataError, did_you_mean, refuse, short
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.ground.tables import read_table

_KEY = "expected the NAME.key.json that 'lm-factuality people sheet' wrote beside the sheet"
COLUMNS = ("sheet", "number", "question", "answer", "person", "note")
BESIDE = (
    "ask",
    "options",
    "text",
    "beside",
)  # columns of the CSV that people read and nobody reads back
_EXPECTED = (
    "expected the CSV or JSON that the page of a sheet exports, or the sheet's CSV file with"
    " answers filled in"
)


@dataclass(frozen=True)
class Source:
    """A file that items come from, its SHA-256, and of a run its ``task``, its ``model`` and its
    samples file."""

    file: str
    sha256: str
    task: str = ""
    model: str = ""
    samples: str = ""
    samples_sha256: str = ""


@dataclass(frozen=True)
class Stratum:
    """So many ``units`` that people can be asked about, of which so many were ``drawn`` at
    random."""

    name: str
    units: StrictInt
    drawn: StrictInt


@dataclass(frozen=True)
class Entry:
    """An item of the sheet, by its ``number`` there, from 1. ``source`` is the place of its source,
    ``unit`` its sample (the key of its ``SampleRow``) or its row, ``item`` its id in that;
    ``strata`` are all groups of its unit, ``stratum`` is the one that it was drawn from, with what
    ``probability`` (its ``weight`` is one over that). ``judge`` is None where it is unscored.
    ``repeat_of`` is the number of the same item where it is shown for the first time."""

    number: StrictInt
    source: StrictInt
    unit: str
    cluster: str
    item: str
    question: str
    options: tuple[str, ...]
    judge: str | None
    stratum: str
    strata: Mapping[str, str]
    probability: Annotated[float, Field(gt=0, le=1)]
    weight: Annotated[float, Field(ge=1)]
    repeat_of: StrictInt | None = None

    @property
    def unit_key(self) -> tuple[int, str]:
        """Its unit, among those of all sources."""
        return self.source, self.unit


@dataclass(frozen=True)
class Key:
    """``benchmark`` is the kind of the sources, ``questions`` are those asked; ``stratify`` is what
    strata are by, empty for one stratum. ``sheet`` is the sheet's id, which follows from all the
    rest."""

    benchmark: str
    seed: int
    questions: tuple[str, ...]
    stratify: tuple[str, ...]
    sources: tuple[Source, ...]
    strata: tuple[Stratum, ...]
    items: tuple[Entry, ...]
    sheet: str = ""
    format: Literal[1] = 1

    def named(self) -> "Key":
        content = json.dumps(asdict(replace(self, sheet="")), sort_keys=True)
        return replace(self, sheet=hashlib.sha256(content.encode()).hexdigest()[:12])


def read_key(path: Path) -> Key:
    """The key of a sheet. Raises DataError: it cannot be read, is no key, or was changed since the
    sheet was made."""
    try:
        key = to_model(Key, parse_json(read_text(path, _KEY)))
    except ValueError as error:
        raise DataError(f"{path}: not the key of a sheet: {error}; {_KEY}") from error
    if key.named().sheet != key.sheet:
        raise DataError(
            f"{path}: its content is not that of sheet {key.sheet}: it was changed by hand; make"
            " the sheet again"
        )
    return key


@dataclass(frozen=True)
class Label:
    entry: Entry
    answer: str
    person: str
    note: str = ""


@dataclass(frozen=True)
class Labels:
    """All answers; ``decided``: by unit and item what most people say who could tell, items with a
    tie left out."""

    labels: tuple[Label, ...]
    decided: Mapping[tuple[int, str], Mapping[str, str]]


def read_labels(paths: Sequence[Path], key: Key) -> Labels:
    """The answers in all files, held against the key of their sheet. An item that a person saw
    twice counts once in ``decided``, as first answered. Raises DataError: files that cannot be
    read, and lines that are no labels of this sheet, all of them."""
    known = {str(entry.number): entry for entry in key.items}
    found: dict[tuple[int, str], tuple[Label, str]] = {}
    problems: list[str] = []
    for where, line in (each for path in paths for each in _lines(path)):
        label = str(line) if isinstance(line, ValueError) else _label(line, key.sheet, known)
        if isinstance(label, str):
            problems.append(f"{where}{label}")
            continue
        first = found.setdefault((label.entry.number, label.person), (label, where))
        if first[0] is not label:
            problems.append(
                f"{where}{label.person!r} answers number {label.entry.number} again, as in"
                f" {first[1][:-2]}"
            )
    refuse(
        problems,
        "problems",
        "correct them and read the files again; none of the labels is used" if found else "",
    )
    labels = tuple(label for label, _ in found.values())
    return Labels(labels, _decided(labels))


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The place of each line, with what it holds, or with an error that says why there are none."""
    if path.suffix.lower() == ".json":
        try:
            content = parse_json(read_text(path, _EXPECTED))
        except ValueError as error:
            content = [ValueError(f"not JSON: {error}; {_EXPECTED}")]
        lines = (
            content
            if isinstance(content, list) and content
            else [ValueError(f"no list of labels; {_EXPECTED}")]
        )
        yield from (
            (f"{path}, label {number}: ", line) for number, line in enumerate(lines, start=1)
        )
        return
    table = read_table(path)
    if table.records and (problem := _wrong_header(list(table.records[0].values))):
        yield f"{path}:1: ", ValueError(problem)
    else:
        yield from (("", ValueError(each)) for each in table.problems)
        yield from ((f"{each.location}: ", each.values) for each in table.records)


def _wrong_header(header: Sequence[str]) -> str:
    expected = f"expected {','.join(COLUMNS)}"
    if other := next(
        (mark for mark in (";", "\t", "|") if len(header) == 1 and mark in header[0]), None
    ):
        return (
            f"cells are separated by {other!r}, expected commas; save the file as CSV with commas"
        )
    wrong = [f"no column {name!r}" for name in COLUMNS[:-1] if name not in header]
    unknown = (name for name in header if name not in (*COLUMNS, *BESIDE))
    wrong += [f"unknown column {name!r}{did_you_mean(name, COLUMNS)}" for name in unknown]
    return "; ".join([*wrong, expected]) if wrong else ""


def _label(line: Any, sheet: str, known: Mapping[str, Entry]) -> Label | str:
    if not isinstance(line, Mapping):
        return f"found {short(line)}, expected an object with the keys {', '.join(COLUMNS)}"
    said = {name: "" if line.get(name) is None else str(line[name]).strip() for name in COLUMNS}
    if said["sheet"] != sheet:
        return f"sheet {said['sheet']!r}, expected {sheet}"
    entry, answer = known.get(said["number"]), said["answer"]
    if entry is None:
        return f"number {said['number']!r} is none of the sheet's, expected 1 to {len(known)}"
    answer = (
        answer if answer in entry.options else answer.lower()
    )  # a spreadsheet makes TRUE of true
    problems = []
    if said["question"] != entry.question:
        problems.append(
            f"question {said['question']!r}, but number {entry.number} asks {entry.question!r}"
        )
    if answer not in (*entry.options, SKIP):
        hint = did_you_mean(answer, entry.options)
        problems.append(
            f"answer {answer!r}, expected {', '.join(entry.options)} or {SKIP}{hint}"
            if answer
            else "no answer"
        )
    if not said["person"]:
        problems.append("no person, expected the name of the person who answered")
    return "; ".join(problems) or Label(entry, answer, said["person"], said["note"])


def _decided(labels: Sequence[Label]) -> dict[tuple[int, str], dict[str, str]]:
    votes: dict[tuple[tuple[int, str], str], dict[str, str]] = defaultdict(dict)
    for each in sorted(labels, key=lambda label: label.entry.number):
        votes[each.entry.unit_key, each.entry.item].setdefault(each.person, each.answer)
    decided: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for (unit, item), said in votes.items():
        given = Counter(answer for answer in said.values() if answer != SKIP).most_common(2)
        if given and (len(given) == 1 or given[0][1] > given[1][1]):
            decided[unit][item] = given[0][0]
    return dict(decided)
