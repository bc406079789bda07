"""Sheets: what people can be asked about, which part of it is drawn, and how people see it.

The command `lm-factuality people sheet` makes sheets. `people correct` and leaderboards use the
same functions to find the samples of a sheet again.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.asked import SKIP, Item, Option, People, Question, Unit
from lm_factuality.benchmarks.declaration import SampleDisplay
from lm_factuality.benchmarks.pairs import sample_errors, sample_row_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed
from lm_factuality.ground.files import sha256_of, write_json, write_text
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.ground.tables import write_table
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import (
    COLUMNS,
    READING_COLUMNS,
    Key,
    SheetItem,
    SheetSource,
    Stratum,
    read_key,
)
from lm_factuality.results.read import read_results_files

_LEAST_DISTANCE = 10
"""Items that stand at least between an item and its repetition, where there are so many."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet computes."""


@dataclass(frozen=True)
class Pool:
    """All units that people can be asked about."""

    kind: str
    """The kind of the benchmark."""

    questions: tuple[Question, ...]
    """All questions of the benchmark."""

    sources: tuple[SheetSource, ...]
    units: tuple[Unit, ...]
    """Their sources are places in ``sources``."""


@dataclass(frozen=True)
class Sheet:
    """A sheet: its key, the content of each item of the key, and the questions by name."""

    key: Key
    items: tuple[Item, ...]
    questions: Mapping[str, Question]


def read_pool(
    paths: Sequence[Path], task: str | None = None, questions: Sequence[str] = ()
) -> Pool:
    """Read what people can be asked about.

    Args:
        paths: Results files or folders of them. Or data files of a benchmark that asks people about
            its data. Of several runs of one model the latest counts.
        task: The task to ask about. It is needed where the runs have several.
        questions: The questions to ask. Defaults to all.

    Raises:
        ConfigError: There is no such task or question, or one of several tasks must be named.
        DataError: A file cannot be read, or people can be asked about nothing in it.
    """
    are_runs = [
        path.name.startswith("results_") or any(path.rglob("results_*.json")) for path in paths
    ]
    if any(are_runs):
        pool = _pool_of_runs(read_results_files(paths), task)
    elif task:
        raise ConfigError(f"--task {task}: data files have no task; leave it out")
    else:
        pool = _pool_of_data(paths)
    for name in questions:
        _check_name("--question", name, [question.name for question in pool.questions])
    units = asked_units(pool.units, questions)
    if not units:
        raise DataError(
            f"{', '.join(map(str, paths))}: holds nothing that people can be asked about"
        )
    return replace(pool, units=units)


def asked_units(units: Iterable[Unit], questions: Sequence[str] = ()) -> tuple[Unit, ...]:
    """Return the units with something to ask; of all their items, or of some questions."""
    asked = []
    for unit in units:
        items = tuple(item for item in unit.items if not questions or item.question in questions)
        if items:
            asked.append(replace(unit, items=items))
    return tuple(asked)


def _check_name(option: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        expected = listed(names) or "none"
        raise ConfigError(
            f"{option} {name!r}: expected one of {expected}{did_you_mean(name, names)}"
        )


def _pool_of_data(paths: Sequence[Path]) -> Pool:
    """Read rows of data files, such as FACTOR's; of a folder its first CSV file."""
    units: list[Unit] = []
    sources = []
    benchmark = next(each for each in all_benchmarks() if each.people and each.people.read_units)
    people = benchmark.people
    assert people is not None
    assert people.read_units is not None
    for number, path in enumerate(paths):
        table = min(path.glob("*.csv"), default=path) if path.is_dir() else path
        units += [replace(unit, source=number) for unit in people.read_units(table)]
        sources.append(SheetSource(str(table), sha256_of(table)))
    return Pool(benchmark.kind, people.questions, tuple(sources), tuple(units))


def _pool_of_runs(files: Sequence[ResultsFile], task: str | None) -> Pool:
    """Read the samples of the latest run of each model."""
    runs: dict[str, dict[str, tuple[ResultsFile, TaskResult]]] = defaultdict(dict)
    for file in sorted(files, key=lambda file: file.date_text):
        for result in file.tasks:
            if asked_about(result):
                runs[result.task][file.label] = file, result
    if not runs:
        raise ConfigError(
            "--task: found no samples that people can be asked about, expected those of a judged"
            " task, of a run with --log_samples"
        )
    name = task or (next(iter(runs)) if len(runs) == 1 else "")
    _check_name("--task", name, sorted(runs))
    sources = []
    units: list[Unit] = []
    for number, (file, result) in enumerate(runs[name].values()):
        samples = result.samples or Path()
        hashes = (sha256_of(file.path), sha256_of(samples))
        sources.append(
            SheetSource(str(file.path), hashes[0], result.task, file.label, str(samples), hashes[1])
        )
        units += [replace(unit, source=number) for unit in units_of_run(result, file.label)]
    asked = asked_about(result)
    assert asked is not None  # Other runs are left out above.
    return Pool(result.kind, asked[0].questions, tuple(sources), tuple(units))


def asked_about(result: TaskResult) -> tuple[People, SampleDisplay] | None:
    """Return how people are asked about the samples of a task, and how reports show these.

    It is None of a task whose samples people cannot be asked about.
    """
    benchmark = find_benchmark(result.kind)
    if benchmark is None or benchmark.people is None or benchmark.people.read_units is not None:
        return None
    shown = benchmark.page.samples
    return (benchmark.people, shown) if shown and result.samples else None


def units_of_run(result: TaskResult, model: str) -> Iterator[Unit]:
    """Yield each sample of a task, in the strata in which a report groups samples.

    A sample has no items if there is nothing to ask about it.

    Raises:
        DataError: The task has no samples that people can be asked about.
    """
    asked = asked_about(result)
    if asked is None or result.samples is None:
        raise DataError(f"{result.task}: has no samples that people can be asked about")
    people, shown = asked
    outcomes = dict(zip(("right", "wrong", "unscored", "none"), shown.outcome_labels, strict=True))
    for sample in read_samples(result.samples):
        row = sample_row_of(result, shown, sample)
        with sample_errors(result, sample):
            items = tuple(people.items(result, sample))
        strata = {
            "model": model,
            "verdict": outcomes[row.outcome],
            shown.facet_label.lower(): " + ".join(row.facets),
        }
        yield Unit(row.key, row.cluster, items, strata)


def make_sheet(
    pool: Pool,
    rows: int,
    stratify: Sequence[str] = (),
    repeat: float = 0.0,
    scatter: bool = False,
    seed: int = 0,
) -> Sheet:
    """Draw units and put all their items on a sheet.

    The same seed on the same files gives the same sheet.

    Args:
        pool: The units to draw from.
        rows: How many units to draw.
        stratify: What makes the strata to draw from, such as ``("verdict",)``. Defaults to one
            stratum.
        repeat: The share of items that come again, from 0 to 1. They come from the first two
            thirds of the sheet.
        scatter: Whether to shuffle all items. Otherwise the items of a unit stand together, so
            that people read its text once.

    Raises:
        ConfigError: There are too few units, or no such strata, or ``repeat`` is no share.
    """
    if not 0 <= repeat <= 1:
        raise ConfigError(f"--repeat {repeat}: expected a share from 0 to 1")
    rng = random.Random(seed)
    units, strata = draw(pool.units, rows, stratify, rng)
    drawn = [(unit, item) for unit in units for item in unit.items]
    if scatter:
        rng.shuffle(drawn)

    questions = {question.name: question for question in pool.questions}
    probabilities = {stratum.name: stratum.drawn / stratum.units for stratum in strata}
    items: list[SheetItem] = []
    contents: list[Item] = []
    first_numbers: dict[int, int] = {}
    for number, place in enumerate(_places_on_sheet(len(drawn), repeat, rng), start=1):
        unit, item = drawn[place]
        options = item.options or questions[item.question].options
        stratum = unit.stratum(stratify)
        sheet_item = SheetItem(
            source=unit.source,
            unit=unit.key,
            cluster=unit.cluster,
            stratum=stratum,
            strata=dict(unit.strata),
            probability=probabilities[stratum],
            weight=1 / probabilities[stratum],
            number=number,
            item=item.id,
            question=item.question,
            options=tuple(option.value for option in options),
            judge=item.judge,
            repeat_of=first_numbers.get(place),
        )
        items.append(sheet_item)
        contents.append(item)
        first_numbers.setdefault(place, number)
    asked = {item.question for item in items}
    key = Key(
        benchmark=pool.kind,
        seed=seed,
        questions=tuple(name for name in questions if name in asked),
        stratify=tuple(stratify),
        sources=pool.sources,
        strata=tuple(strata),
        items=tuple(items),
    )
    return Sheet(key.with_sheet_id(), tuple(contents), questions)


def draw(
    units: Sequence[Unit], count: int, stratify: Sequence[str], rng: random.Random
) -> tuple[list[Unit], list[Stratum]]:
    """Draw units from strata, the same number from each that is large enough.

    Within a stratum each unit is as likely as another.

    Returns:
        The drawn units in random order, and the strata.

    Raises:
        ConfigError: There are fewer units than ``count``, more strata, or no such strata.
    """
    names = sorted({name for unit in units for name, value in unit.strata.items() if value})
    for name in stratify:
        _check_name("--stratify", name, names)
    if not 0 < count <= len(units):
        raise ConfigError(
            f"--rows {count}: expected 1 to {len(units)}, which is how many people can be asked"
            " about"
        )
    members: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        members[unit.stratum(stratify)].append(unit)
    if count < len(members):
        raise ConfigError(
            f"--rows {count}: there are {len(members)} strata ({listed(sorted(members))}); expected"
            " a row of each"
        )
    drawn: list[Unit] = []
    strata: list[Stratum] = []
    # Small strata come first: what they cannot give, the larger ones share.
    for name in sorted(members, key=lambda name: (len(members[name]), name)):
        share = min(len(members[name]), (count - len(drawn)) // (len(members) - len(strata)))
        drawn += rng.sample(members[name], share)
        strata.append(Stratum(name, len(members[name]), share))
    rng.shuffle(drawn)
    return drawn, strata


def _places_on_sheet(count: int, repeat: float, rng: random.Random) -> list[int]:
    """Return the order of ``count`` items, in which a share of them comes again."""
    wanted = round(repeat * count)
    positions = [(float(place), place) for place in range(count)]
    for place in rng.sample(range(max(wanted, 2 * count // 3)), wanted):
        positions.append((rng.uniform(min(place + _LEAST_DISTANCE, count), count), place))
    return [place for _, place in sorted(positions)]


def write_sheet(sheet: Sheet, out: Path, csv_only: bool = False) -> list[Path]:
    """Write ``NAME.html`` (unless ``csv_only``), ``NAME.csv`` and ``NAME.key.json``.

    Args:
        out: A path that has the name, with any ending.

    Returns:
        The files written. The last is the key.

    Raises:
        DataError: A file cannot be written, or the key of another sheet is in its place.
    """
    page, table, key = (out.with_suffix(ending) for ending in (".html", ".csv", ".key.json"))
    if key.exists():
        existing = read_key(key).sheet
        if existing != sheet.key.sheet:
            raise DataError(
                f"{key}: is the key of sheet {existing}, whose labels nobody could read without it;"
                " choose another --out"
            )
    write_json(key, asdict(sheet.key))
    rows = [_to_row(sheet, number, item) for number, item in enumerate(sheet.items, start=1)]
    write_table(table, rows, (*COLUMNS, *READING_COLUMNS))
    if csv_only:
        return [table, key]
    write_text(page, build_page(sheet))
    return [page, table, key]


def _to_row(sheet: Sheet, number: int, item: Item) -> dict[str, object]:
    """Return an item as a row of the CSV file."""
    question = sheet.questions[item.question]
    options = (*(item.options or question.options), Option(SKIP, "cannot tell"))
    row: dict[str, object] = {
        "sheet": sheet.key.sheet,
        "number": number,
        "question": item.question,
        "ask": question.ask,
        "options": "\n".join(f"{option.value}: {option.label}" for option in options),
        "text": item.text,
        "beside": "\n\n".join(f"[{heading}]\n{text}" for heading, text in item.context),
    }
    for name in READING_COLUMNS:
        text = str(row[name])
        row[name] = f"'{text}" if text.startswith(_FORMULA_STARTS) else text
    return row


def build_page(sheet: Sheet) -> str:
    """Return the HTML page of a sheet: one file, which names no judge, model or stratum."""
    # A text that occurs in many items, such as a passage, is on the page once.
    numbers = defaultdict[str, int](count().__next__)
    items = []
    for item in sheet.items:
        text = numbers[item.text]
        context = [(heading, numbers[passage]) for heading, passage in item.context]
        items.append([item.question, text, context, _page_options(item.options)])
    questions = {
        name: {"ask": question.ask, "options": _page_options(question.options)}
        for name, question in sheet.questions.items()
    }
    content = {
        "sheet": sheet.key.sheet,
        "skip": SKIP,
        "columns": COLUMNS,
        "questions": questions,
        "items": items,
        "texts": list(numbers),
    }
    folder = f"{__package__}/page"
    style = read_asset("look.css") + read_file(f"{folder}/sheet.css")
    scripts = [read_asset("elements.js")]
    scripts += [read_file(f"{folder}/{name}.js") for name in ("progress", "sheet")]
    return one_file(f"{folder}/sheet.html", style, "".join(scripts), content=content)


def _page_options(options: Sequence[Option]) -> list[tuple[str, str, str]]:
    return [
        (option.value, option.label, option.key or str(place))
        for place, option in enumerate(options, start=1)
    ]
