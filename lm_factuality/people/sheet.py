"""A sheet: what is drawn for it, in which order, and how people see it, as a page and as a table."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lm_factuality.benchmarks.asked import SKIP, Item, Option, Question, Unit
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed
from lm_factuality.ground.files import write_json, write_text
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.ground.tables import write_table
from lm_factuality.people.labels import BESIDE, COLUMNS, Entry, Key, Stratum, read_key
from lm_factuality.people.units import Pool

_APART = 10  # items at least between an item and its repetition, where there are so many
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet begins to compute


@dataclass(frozen=True)
class Drawn:
    """A unit of a source, the stratum that it was drawn from and the probability with which it was."""

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
    """``count`` of ``units`` in random order: from all alike, or from the strata that they fall into ``by``, as many from each as
    from any other that is large enough. Within a stratum each unit is as likely as another. Raises ConfigError: more than there
    are, fewer than there are strata, or strata that the units do not have."""
    known = sorted({name for _, unit in units for name, value in unit.strata.items() if value})
    if unknown := next((name for name in by if name not in known), None):
        raise ConfigError(f"--stratify {unknown!r}: expected {listed(known) or 'none'}{did_you_mean(unknown, known)}")
    if not 0 < count <= len(units):
        raise ConfigError(f"--rows {count}: expected 1 to {len(units)}, which is how many people can be asked about")
    strata: dict[str, list[tuple[int, Unit]]] = defaultdict(list)
    for source, unit in units:
        strata[unit.stratum(by)].append((source, unit))
    if count < len(strata):
        raise ConfigError(f"--rows {count}: there are {len(strata)} strata ({listed(sorted(strata))}); expected a row of each")
    drawn: list[Drawn] = []
    counts = []
    for place, name in enumerate(sorted(strata, key=lambda each: (len(strata[each]), each))):  # small ones give all they have
        own = strata[name]
        share = min(len(own), (count - len(drawn)) // (len(strata) - place))
        drawn += [Drawn(source, unit, name, share / len(own)) for source, unit in rng.sample(own, share)]
        counts.append(Stratum(name, len(own), share))
    rng.shuffle(drawn)
    return drawn, counts


def make_sheet(
    pool: Pool, rows: int, stratify: Sequence[str] = (), repeat: float = 0.0, scatter: bool = False, seed: int = 0
) -> Sheet:
    """A sheet with all items of ``rows`` units, drawn from all alike or by strata. Those of a unit stand together, so that its
    text is read once, or ``scatter``-ed. The share ``repeat`` of them, drawn from the first two thirds, comes again later. The
    same seed on the same files gives the same sheet. Raises ConfigError: more rows than there are, fewer than there are strata,
    strata that there are not, or no share."""
    if not 0 <= repeat <= 1:
        raise ConfigError(f"--repeat {repeat}: expected a share from 0 to 1")
    rng = random.Random(seed)
    drawn, strata = draw(pool.units, rows, stratify, rng)
    questions = {each.name: each for each in pool.benchmark.people.questions} if pool.benchmark.people else {}
    items = [(each, item) for each in drawn for item in each.unit.items]
    if scatter:
        rng.shuffle(items)
    wanted, end = round(repeat * len(items)), len(items)
    again = rng.sample(range(max(wanted, 2 * end // 3)), wanted)
    later = [(rng.uniform(min(place + _APART, end), end), place) for place in again]
    places = [place for _, place in sorted([*((float(place), place) for place in range(end)), *later])]
    entries: list[Entry] = []
    first: dict[int, int] = {}
    for number, place in enumerate(places, start=1):
        each, item = items[place]
        options = tuple(option.value for option in item.options or questions[item.question].options)
        what = (each.source, each.unit.key, each.unit.cluster, item.id, item.question, options, item.judge)
        how = (each.stratum, dict(each.unit.strata), each.probability, 1 / each.probability, first.get(place))
        entries.append(Entry(number, *what, *how))
        first.setdefault(place, number)
    asked = tuple(name for name in questions if any(entry.question == name for entry in entries))
    key = Key(pool.benchmark.kind, seed, asked, tuple(stratify), pool.sources, tuple(strata), tuple(entries))
    return Sheet(key.named(), tuple(items[place][1] for place in places), questions)


def write_sheet(sheet: Sheet, out: Path, csv_only: bool = False) -> list[Path]:
    """Writes ``NAME.html`` (unless ``csv_only``), ``NAME.csv`` and ``NAME.key.json``, NAME being that of ``out``. Raises
    DataError: they cannot be written, or there is the key of another sheet, without which its labels are lost."""
    page, table, key = (out.with_suffix(ending) for ending in (".html", ".csv", ".key.json"))
    if key.exists() and (other := read_key(key).sheet) != sheet.key.sheet:
        raise DataError(f"{key}: is the key of sheet {other}, whose labels nobody could read without it; choose another --out")
    write_json(key, asdict(sheet.key))
    write_table(table, [_cells(sheet, number, item) for number, item in enumerate(sheet.items, start=1)], (*COLUMNS, *BESIDE))
    if not csv_only:
        write_text(page, build_page(sheet))
    return [table, key] if csv_only else [page, table, key]


def build_page(sheet: Sheet) -> str:
    """The HTML: one file, blind to judge, model and stratum. Texts that occur often are in it once."""
    texts: dict[str, int] = {}

    def shown(item: Item) -> list[object]:
        own, *beside = (texts.setdefault(text, len(texts)) for text in (item.text, *(text for _, text in item.context)))
        headings = (heading for heading, _ in item.context)
        return [item.question, own, list(zip(headings, beside, strict=True)), _options(item.options)]

    questions = {each.name: {"ask": each.ask, "options": _options(each.options)} for each in sheet.questions.values()}
    items = [shown(item) for item in sheet.items]
    what = {"sheet": sheet.key.sheet, "skip": SKIP, "columns": COLUMNS, "questions": questions}
    style = read_asset("look.css") + read_file(f"{__package__}/page/sheet.css")
    script = read_asset("elements.js") + "".join(read_file(f"{__package__}/page/{name}.js") for name in ("progress", "sheet"))
    page = f"{__package__}/page/sheet.html"
    return one_file(page, style, script, content={**what, "items": items, "texts": list(texts)})


def _options(options: Sequence[Option]) -> list[tuple[str, str, str]]:
    return [(each.value, each.label, each.key) for each in options]


def _cells(sheet: Sheet, number: int, item: Item) -> dict[str, object]:
    """An item for a spreadsheet, whose columns to fill in come first; no cell can be taken for a formula."""
    question = sheet.questions[item.question]
    options = (*(item.options or question.options), Option(SKIP, "cannot tell", ""))
    beside = "\n\n".join(f"[{heading}]\n{text}" for heading, text in item.context)
    texts = (question.ask, "\n".join(f"{each.value}: {each.label}" for each in options), item.text, beside)
    safe = (f"'{text}" if text.startswith(_FORMULA) else text for text in texts)
    return {"sheet": sheet.key.sheet, "number": number, "question": item.question, **dict(zip(BESIDE, safe, strict=True))}
