"""A sheet: what people look at, as a page and as a table, and its key."""

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.asked import SKIP, Option, Question
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_text
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.people.draw import Placed, arrange, draw
from lm_factuality.people.key import Entry, Key, read_key
from lm_factuality.people.labels import BESIDE, COLUMNS
from lm_factuality.people.units import Pool

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet begins to compute


@dataclass(frozen=True)
class Sheet:
    """The items in their order with the questions on them, and the key."""

    key: Key
    placed: tuple[Placed, ...]
    questions: dict[str, Question]

    def options(self, placed: Placed) -> tuple[Option, ...]:
        """What may be answered to an item, besides ``SKIP``."""
        return placed.item.options or self.questions[placed.item.question].options


def make_sheet(
    pool: Pool, rows: int, stratify: Sequence[str] = (), repeat: float = 0.0, scatter: bool = False, seed: int = 0
) -> Sheet:
    """A sheet with all items of ``rows`` units (see ``draw`` and ``arrange``). The same seed on the same files gives the same
    sheet.

    Raises:
        ConfigError: as ``draw`` raises it.
    """
    rng = random.Random(seed)
    drawn, strata = draw(pool.units, rows, stratify, rng)
    placed = tuple(arrange(drawn, repeat, scatter, rng))
    questions = {each.name: each for each in pool.people.questions}
    entries = tuple(
        Entry(
            number,
            each.drawn.source,
            each.drawn.unit.key,
            each.drawn.unit.cluster,
            each.item.id,
            each.item.question,
            tuple(option.value for option in each.item.options or questions[each.item.question].options),
            each.item.judge,
            each.drawn.stratum,
            dict(each.drawn.unit.strata),
            each.drawn.probability,
            1 / each.drawn.probability,
            None if each.repeats is None else each.repeats + 1,
        )
        for number, each in enumerate(placed, start=1)
    )
    asked = tuple(name for name in questions if any(entry.question == name for entry in entries))
    key = Key(pool.benchmark.kind, seed, asked, tuple(stratify), pool.sources, tuple(strata), entries)
    return Sheet(key.named(), placed, questions)


def write_sheet(sheet: Sheet, out: Path, csv_only: bool = False) -> list[Path]:
    """Writes ``NAME.html`` (unless ``csv_only``), ``NAME.csv`` and ``NAME.key.json``, NAME being that of ``out``.

    Raises:
        DataError: they cannot be written, or there is the key of another sheet, without which its labels are lost.
    """
    page, table, key = (out.with_suffix(ending) for ending in (".html", ".csv", ".key.json"))
    if key.exists() and (other := read_key(key).sheet) != sheet.key.sheet:
        raise DataError(f"{key}: is the key of sheet {other}, whose labels nobody could read without it; choose another --out")
    write_json(key, sheet.key.to_json())
    write_text(table, _table(sheet))
    if csv_only:
        return [table, key]
    write_text(page, build_page(sheet))
    return [page, table, key]


def build_page(sheet: Sheet) -> str:
    """The HTML: one file, blind to judge, model and stratum. Texts that occur often are in it once."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def options(given: Sequence[Option]) -> list[list[str]]:
        return [[each.value, each.label, each.key] for each in given]

    items = [
        [
            each.item.question,
            number(each.item.text),
            [[heading, number(text)] for heading, text in each.item.context],
            options(each.item.options) or None,
        ]
        for each in sheet.placed
    ]
    content: dict[str, Any] = {
        "sheet": sheet.key.sheet,
        "skip": SKIP,
        "columns": COLUMNS,
        "questions": {name: {"ask": each.ask, "options": options(each.options)} for name, each in sheet.questions.items()},
        "items": items,
        "texts": list(texts),
    }
    style = read_asset("look.css") + read_file(f"{__package__}/page/sheet.css")
    script = read_asset("elements.js") + "".join(read_file(f"{__package__}/page/{name}.js") for name in ("progress", "sheet"))
    return one_file(f"{__package__}/page/sheet.html", style, script, content=content)


def _table(sheet: Sheet) -> str:
    """The items for a spreadsheet, the columns to fill in first."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow((*COLUMNS, *BESIDE))
    for number, each in enumerate(sheet.placed, start=1):
        item = each.item
        answers = "\n".join(f"{option.value}: {option.label}" for option in sheet.options(each)) + f"\n{SKIP}: cannot tell"
        beside = "\n\n".join(f"[{heading}]\n{text}" for heading, text in item.context)
        shown = (sheet.questions[item.question].ask, answers, item.text, beside)
        writer.writerow((sheet.key.sheet, number, item.question, "", "", "", *map(_as_text, shown)))
    return file.getvalue()


def _as_text(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
