"""A sheet: what people can be asked about (samples of runs, rows of a file), what is drawn of it,
and how people see it."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.asked import SKIP, Item, Option, Question, Unit
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.benchmarks.pairs import reading, row_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed
from lm_factuality.ground.files import sha256_of, write_json, write_text
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.ground.tables import write_table
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import BESIDE, COLUMNS, Entry, Key, Source, Stratum, read_key
from lm_factuality.results.read import read_results_files

_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[^/]*)\.jsonl")
_APART = 10  # items at least between an item and its repetition, where there are so many
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet begins to compute


@dataclass(frozen=True)
class Pool:
    """All units that people can be asked about, each with the place of its source."""

    benchmark: Benchmark
    sources: tuple[Source, ...]
    units: tuple[tuple[int, Unit], ...]


def read_pool(
    paths: Sequence[Path], task: str | None = None, questions: Sequence[str] = ()
) -> Pool:
    """The units of results files (or folders of them), of samples files, or of data files; of
    several runs of one model the latest counts. ``task`` is needed where runs have several tasks
    that people can be asked about; ``questions`` restrict what is asked. Raises ConfigError: no
    such task or question, or several tasks and none is named; DataError: a file cannot be used, or
    there is nothing in it that people can be asked."""
    data = [path for path in paths if not _is_of_run(path)]
    if data and (len(data) < len(paths) or task):
        raise ConfigError(
            f"{data[0]}: no results or samples of a run; a data file is a source by itself, and has"
            " no --task"
        )
    pool = _of_data(data) if data else _of_runs(paths, task)
    known = [each.name for each in pool.benchmark.people.questions] if pool.benchmark.people else []
    if unknown := next((name for name in questions if name not in known), None):
        raise ConfigError(
            f"--question {unknown!r}: expected one of"
            f" {', '.join(known)}{did_you_mean(unknown, known)}"
        )
    chosen = questions or known
    cut = [
        (place, tuple(each for each in unit.items if each.question in chosen), unit)
        for place, unit in pool.units
    ]
    units = tuple((place, replace(unit, items=items)) for place, items, unit in cut if items)
    if not units:
        raise DataError(
            f"{', '.join(map(str, paths))}: holds nothing that people can be asked about"
        )
    return replace(pool, units=units)


def _is_of_run(path: Path) -> bool:
    is_folder = path.is_dir() and next(path.rglob("results_*.json"), None) is not None
    return (
        is_folder or _SAMPLES.fullmatch(path.name) is not None or path.name.startswith("results_")
    )


def _of_runs(paths: Sequence[Path], task: str | None) -> Pool:
    runs = []
    for path in paths:
        named = _SAMPLES.fullmatch(path.name)
        for file in read_results_files(
            [path.with_name(f"results_{named[2]}.json") if named else path]
        ):
            own = (
                each
                for each in file.tasks
                if each.samples is not None and (not named or each.task == named[1])
            )
            runs += [
                (file, each, benchmark)
                for each in own
                if (benchmark := find_benchmark(each.kind)) and _asks(benchmark)
            ]
    names = sorted({each.task for _, each, _ in runs})
    if (task or len(names) != 1) and task not in names:
        kinds = ", ".join(each.kind for each in all_benchmarks() if _asks(each))
        known = (
            f"expected one of {listed(names)}{did_you_mean(task or '', names)}"
            if names
            else f"none with samples of {kinds}"
        )
        raise ConfigError(f"--task: found {repr(task) if task else f'{len(names)} tasks'}, {known}")
    latest = {
        run[0].label: run
        for run in sorted(runs, key=lambda run: run[0].date_text)
        if run[1].task == (task or names[0])
    }
    sources, units, benchmark = [], [], next(iter(latest.values()))[2]
    for place, (file, result, _) in enumerate(latest.values()):
        samples = result.samples or Path()
        sources.append(
            Source(
                str(file.path),
                sha256_of(file.path),
                result.task,
                file.label,
                str(samples),
                sha256_of(samples),
            )
        )
        units += [(place, unit) for unit in units_of_run(benchmark, result, file.label)]
    return Pool(benchmark, tuple(sources), tuple(units))


def _asks(benchmark: Benchmark) -> bool:
    return (
        benchmark.people is not None
        and benchmark.people.data is None
        and benchmark.page.samples is not None
    )


def units_of_run(benchmark: Benchmark, result: TaskResult, model: str) -> Iterator[Unit]:
    """The samples, in the groups in which the report shows them; without items where there is
    nothing to ask."""
    people, shown = benchmark.people, benchmark.page.samples
    if people is None or shown is None or result.samples is None:
        return
    words = dict(zip(("right", "wrong", "unscored", "none"), shown.outcomes, strict=True))
    for sample in read_samples(result.samples):
        row = row_of(result, shown, sample)
        with reading(result, sample):
            items = tuple(people.items(result, sample))
        strata = {
            "model": model,
            "verdict": words[row.outcome],
            shown.facet.lower(): " + ".join(row.facets),
        }
        yield Unit(row.key, row.cluster, items, strata)


def _of_data(paths: Sequence[Path]) -> Pool:
    benchmark, read = next(
        (each, each.people.data) for each in all_benchmarks() if each.people and each.people.data
    )
    tables = [
        next(iter(sorted(path.glob("*.csv"))), path) if path.is_dir() else path for path in paths
    ]
    units = tuple((place, unit) for place, table in enumerate(tables) for unit in read(table))
    return Pool(benchmark, tuple(Source(str(table), sha256_of(table)) for table in tables), units)


@dataclass(frozen=True)
class Drawn:
    """A unit of a source, the stratum that it was drawn from and the probability with which it
    was."""

    source: int
    unit: Unit
    stratum: str
    probability: float


@dataclass(frozen=True)
class Sheet:
    """The key, the item of each of its entries, and the questions on them."""

    key: Key
    items: tuple[Item, ...]
    questions: dict[str, Question]


def draw(
    units: Sequence[tuple[int, Unit]], count: int, by: Sequence[str], rng: random.Random
) -> tuple[list[Drawn], list[Stratum]]:
    """``count`` of ``units`` in random order: from all alike, or from the strata that they fall
    into ``by``, as many from each as from any other that is large enough. Within a stratum each
    unit is as likely as another. Raises ConfigError: more than there are, fewer than there are
    strata, or strata that the units do not have."""
    known = sorted({name for _, unit in units for name, value in unit.strata.items() if value})
    if unknown := next((name for name in by if name not in known), None):
        raise ConfigError(
            f"--stratify {unknown!r}: expected"
            f" {listed(known) or 'none'}{did_you_mean(unknown, known)}"
        )
    if not 0 < count <= len(units):
        raise ConfigError(
            f"--rows {count}: expected 1 to {len(units)}, which is how many people can be asked"
            " about"
        )
    strata: dict[str, list[tuple[int, Unit]]] = defaultdict(list)
    for source, unit in units:
        strata[unit.stratum(by)].append((source, unit))
    if count < len(strata):
        raise ConfigError(
            f"--rows {count}: there are {len(strata)} strata ({listed(sorted(strata))}); expected a"
            " row of each"
        )
    drawn: list[Drawn] = []
    counts = []
    for place, name in enumerate(
        sorted(strata, key=lambda each: (len(strata[each]), each))
    ):  # small ones give all they have
        own = strata[name]
        share = min(len(own), (count - len(drawn)) // (len(strata) - place))
        drawn += [
            Drawn(source, unit, name, share / len(own)) for source, unit in rng.sample(own, share)
        ]
        counts.append(Stratum(name, len(own), share))
    rng.shuffle(drawn)
    return drawn, counts


def make_sheet(
    pool: Pool,
    rows: int,
    stratify: Sequence[str] = (),
    repeat: float = 0.0,
    scatter: bool = False,
    seed: int = 0,
) -> Sheet:
    """A sheet with all items of ``rows`` units, drawn from all alike or by strata. Those of a unit
    stand together, so that its text is read once, or ``scatter``-ed. The share ``repeat`` of them,
    drawn from the first two thirds, comes again later. The same seed on the same files gives the
    same sheet. Raises ConfigError: rows, strata or a share that cannot be."""
    if not 0 <= repeat <= 1:
        raise ConfigError(f"--repeat {repeat}: expected a share from 0 to 1")
    rng = random.Random(seed)
    drawn, strata = draw(pool.units, rows, stratify, rng)
    questions = (
        {each.name: each for each in pool.benchmark.people.questions}
        if pool.benchmark.people
        else {}
    )
    items = [(each, item) for each in drawn for item in each.unit.items]
    if scatter:
        rng.shuffle(items)
    wanted, end = round(repeat * len(items)), len(items)
    again = rng.sample(range(max(wanted, 2 * end // 3)), wanted)
    later = [(rng.uniform(min(place + _APART, end), end), place) for place in again]
    places = [
        place for _, place in sorted([*((float(place), place) for place in range(end)), *later])
    ]
    entries: list[Entry] = []
    first: dict[int, int] = {}
    for number, place in enumerate(places, start=1):
        each, item = items[place]
        options = tuple(option.value for option in item.options or questions[item.question].options)
        what = (
            each.source,
            each.unit.key,
            each.unit.cluster,
            item.id,
            item.question,
            options,
            item.judge,
        )
        how = (
            each.stratum,
            dict(each.unit.strata),
            each.probability,
            1 / each.probability,
            first.get(place),
        )
        entries.append(Entry(number, *what, *how))
        first.setdefault(place, number)
    asked = tuple(name for name in questions if any(entry.question == name for entry in entries))
    key = Key(
        pool.benchmark.kind,
        seed,
        asked,
        tuple(stratify),
        pool.sources,
        tuple(strata),
        tuple(entries),
    )
    return Sheet(key.named(), tuple(items[place][1] for place in places), questions)


def write_sheet(sheet: Sheet, out: Path, csv_only: bool = False) -> list[Path]:
    """Writes ``NAME.html`` (unless ``csv_only``), ``NAME.csv`` and ``NAME.key.json``, NAME being
    that of ``out``. Raises DataError: they cannot be written, or there is the key of another sheet,
    without which its labels are lost."""
    page, table, key = (out.with_suffix(ending) for ending in (".html", ".csv", ".key.json"))
    if key.exists() and (other := read_key(key).sheet) != sheet.key.sheet:
        raise DataError(
            f"{key}: is the key of sheet {other}, whose labels nobody could read without it; choose"
            " another --out"
        )
    write_json(key, asdict(sheet.key))
    write_table(
        table,
        [_cells(sheet, number, item) for number, item in enumerate(sheet.items, start=1)],
        (*COLUMNS, *BESIDE),
    )
    if not csv_only:
        write_text(page, build_page(sheet))
    return [table, key] if csv_only else [page, table, key]


def build_page(sheet: Sheet) -> str:
    """The HTML: one file, blind to judge, model and stratum. Texts that occur often are in it
    once."""
    texts: dict[str, int] = {}

    def shown(item: Item) -> list[object]:
        own, *beside = (
            texts.setdefault(text, len(texts))
            for text in (item.text, *(text for _, text in item.context))
        )
        headings = (heading for heading, _ in item.context)
        return [
            item.question,
            own,
            list(zip(headings, beside, strict=True)),
            _options(item.options),
        ]

    questions = {
        each.name: {"ask": each.ask, "options": _options(each.options)}
        for each in sheet.questions.values()
    }
    items = [shown(item) for item in sheet.items]
    what = {"sheet": sheet.key.sheet, "skip": SKIP, "columns": COLUMNS, "questions": questions}
    style = read_asset("look.css") + read_file(f"{__package__}/page/sheet.css")
    script = read_asset("elements.js") + "".join(
        read_file(f"{__package__}/page/{name}.js") for name in ("progress", "sheet")
    )
    page = f"{__package__}/page/sheet.html"
    return one_file(page, style, script, content={**what, "items": items, "texts": list(texts)})


def _options(options: Sequence[Option]) -> list[tuple[str, str, str]]:
    return [(each.value, each.label, each.key) for each in options]


def _cells(sheet: Sheet, number: int, item: Item) -> dict[str, object]:
    """An item for a spreadsheet, whose columns to fill in come first; no cell can be taken for a
    formula."""
    question = sheet.questions[item.question]
    options = (*(item.options or question.options), Option(SKIP, "cannot tell", ""))
    beside = "\n\n".join(f"[{heading}]\n{text}" for heading, text in item.context)
    texts = (
        question.ask,
        "\n".join(f"{each.value}: {each.label}" for each in options),
        item.text,
        beside,
    )
    safe = (f"'{text}" if text.startswith(_FORMULA) else text for text in texts)
    return {
        "sheet": sheet.key.sheet,
        "number": number,
        "question": item.question,
        **dict(zip(BESIDE, safe, strict=True)),
    }
