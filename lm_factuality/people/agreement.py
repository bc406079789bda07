"""How far the people of a sheet agree: with each other, with themselves where an item came twice,
and with the judge; and the cells of its tables, with what was published of the same."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.benchmarks.declaration import Table
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.plots import new_figure, save_figure
from lm_factuality.ground.settings import Number
from lm_factuality.people.labels import Entry, Key, Labels
from lm_factuality.scores.agreement import (
    Measure,
    agreeing,
    coefficient,
    cohen,
    fleiss,
    krippendorff,
    share,
)
from lm_factuality.scores.statistics import ratio

Figures = dict[str, dict[str, dict[str, Number]]]
"""Published values as printed, by table, column and row (``cell | cell``), as in
``configs/reproduce/people_figures.yaml``."""
ALL, UNDECIDED = "all", "undecided"  # groups: every item, and those that people did not decide
JUDGE, TOGETHER = (
    "(judge)",
    "(people together)",
)  # who answers besides people, by names that none of these has
AGREEMENT = "agreement, %"


@dataclass(frozen=True)
class Cell:
    """A measure in a ``column`` and a ``row`` of a ``table``, printed ``times`` as large with
    ``digits`` decimals."""

    table: str
    row: tuple[str, ...]
    column: str
    measure: Measure
    times: int = 100
    digits: int = 1

    @property
    def shown(self) -> str:
        """With its interval; ``-`` where it is not defined."""
        ends = self.measure.value, self.measure.low, self.measure.high
        value, low, high = (
            None if each is None else f"{self.times * each + 0.0:.{self.digits}f}" for each in ends
        )
        return "-" if value is None else value if low is None else f"{value} ({low} - {high})"


def count(table: str, row: tuple[str, ...], column: str, number: int) -> Cell:
    return Cell(table, row, column, Measure(number, None, None, number), 1, 0)


def draw(cells: Sequence[Cell], columns: Sequence[str], what: str, path: Path) -> None:
    """Draws the cells of some columns, each with its interval; raises as ``save_figure``."""
    known = [
        (cell, cell.measure.value)
        for cell in reversed(cells)
        if cell.column in columns and cell.measure.value is not None
    ]
    figure = new_figure(8, 1 + 0.3 * len(known))
    axes = figure.subplots()
    for place, (cell, value) in enumerate(known):
        ends = [value if end is None else end for end in (cell.measure.low, cell.measure.high)]
        axes.plot([cell.times * end for end in ends], [place, place], color="gray")
        axes.plot([cell.times * value], [place], "o", color="C0")
    axes.set_yticks(
        range(len(known)),
        [", ".join((*cell.row, *([cell.column] if columns[1:] else []))) for cell, _ in known],
    )
    axes.set(xlabel=f"{what}, with 95% intervals")
    axes.grid(axis="x", alpha=0.3)
    save_figure(figure, path)


def tables_of(cells: Sequence[Cell], figures: Figures) -> Iterator[Table]:
    """The tables of ``tables.yaml`` that have cells, and published figures that share a row or a
    column with these."""
    for name, about in load_yaml(__package__, "tables.yaml").items():
        found = {(cell.row, cell.column): cell.shown for cell in cells if cell.table == name}
        rows, columns = (
            dict.fromkeys(row for row, _ in found),
            dict.fromkeys(column for _, column in found),
        )
        for column, values in figures.get(name, {}).items() if found else ():
            published = {(*row.split(" | "),): f"{value:g}" for row, value in values.items()}
            if column in columns or not rows.keys().isdisjoint(published):
                found |= {(row, column): value for row, value in published.items()}
                columns[column] = None
                rows |= dict.fromkeys(published)
        lines = [(*row, *(found.get((row, column), "") for column in columns)) for row in rows]
        if found:
            yield Table(
                about["title"],
                (*about["rows"], *(f"#{column}" for column in columns)),
                lines,
                (about["note"], ""),
            )


@dataclass(frozen=True)
class _Looked:
    """An item that somebody answered: who ``said`` what, without ``SKIP``, and how often it was
    skipped."""

    entry: Entry
    said: Mapping[str, str]
    skipped: int


def agreement_of(key: Key, labels: Labels, by: str = "") -> list[Cell]:
    """What is known of the agreement on each question, over all items, and then within groups:
    ``by`` a stratum of the items' units, or by what people answered to another question on the same
    text. ``people``: the agreement of two of them on an item, Fleiss' kappa over the items that as
    many answered as any, alpha over all with two answers. ``pairs``: two people, one and the same
    again, or people and the judge, who has a sensitivity to what people call wrong, and a
    specificity to what they call right. ``answers``: what most say. ``left out``: skipped answers,
    and items with one answer, no majority, no answer at all, or no verdict. Shares are weighted.
    Raises ConfigError: no such groups."""
    known = [*sorted({name for entry in key.items for name in entry.strata}), *key.questions]
    if by and by not in known:
        raise ConfigError(
            f"--by {by!r}: expected one of {', '.join(known)}{did_you_mean(by, known)}"
        )
    found: list[Cell] = []
    people, looked = sorted({label.person for label in labels.labels}), list(_looked(key, labels))
    for question in key.questions:
        groups: dict[str, list[_Looked]] = defaultdict(list)
        for each in (each for each in looked if each.entry.question == question):
            entry, group = each.entry, each.entry.strata.get(by) or "none"
            if by in key.questions:
                group = labels.decided.get(entry.unit_key, {}).get(
                    by + entry.item.removeprefix(question), UNDECIDED
                )
            for name in (ALL, group) if by not in ("", question) else (ALL,):
                groups[name].append(each)
        for name in sorted(groups, key=lambda name: (name != ALL, name == UNDECIDED, name)):
            found += _cells(key, people, (question, name), groups[name])
    return found


def _looked(key: Key, labels: Labels) -> Iterator[_Looked]:
    said: dict[int, dict[str, str]] = defaultdict(dict)
    for label in sorted(labels.labels, key=lambda label: label.entry.number):
        own = said[label.entry.repeat_of or label.entry.number]
        own[f"{label.person} again" if label.person in own else label.person] = label.answer
    for entry in key.items:
        if entry.number in said:
            decided = labels.decided.get(entry.unit_key, {}).get(entry.item, SKIP)
            named = {**said[entry.number], TOGETHER: decided, JUDGE: entry.judge or SKIP}
            skipped = list(said[entry.number].values()).count(SKIP)
            yield _Looked(
                entry, {name: answer for name, answer in named.items() if answer != SKIP}, skipped
            )


def _cells(
    key: Key, people: Sequence[str], about: tuple[str, str], looked: Sequence[_Looked]
) -> Iterator[Cell]:
    given = [
        (each, [each.said[person] for person in people if person in each.said]) for each in looked
    ]
    several = [(each, answers) for each, answers in given if len(answers) > 1]
    most = max((len(answers) for _, answers in several), default=0)
    yield count("people", about, "items", sum(bool(answers) for _, answers in given))
    yield count(
        "people",
        about,
        "people",
        sum(any(person in each.said for each in looked) for person in people),
    )
    yield Cell(
        "people", about, AGREEMENT, _share((each, agreeing(answers)) for each, answers in several)
    )
    complete = [(each, answers) for each, answers in several if len(answers) == most]
    for name, items, value in (
        ("Fleiss' kappa", complete, fleiss),
        ("Krippendorff's alpha", several, krippendorff),
    ):
        measure = coefficient(
            [answers for _, answers in items], [each.entry.cluster for each, _ in items], value
        )
        yield Cell("people", about, name, measure, 1, 2)
    yield from _pairs(key, people, about, looked)
    decided = [each for each in looked if TOGETHER in each.said]
    options = dict.fromkeys(option for each in decided for option in each.entry.options)
    for option in (
        option for option in options if any(each.said[TOGETHER] == option for each in decided)
    ):
        yield Cell(
            "answers",
            (*about, option),
            "share, %",
            _share((each, each.said[TOGETHER] == option) for each in decided),
        )
    asked = [each for each in key.items if each.question == about[0] and each.repeat_of is None]
    left_out = {
        "skipped": sum(each.skipped for each in looked),
        "one answer": sum(len(answers) == 1 for _, answers in given) if len(people) > 1 else 0,
        "no majority": sum(TOGETHER not in each.said for each, _ in several),
        "no answer": len(asked) - len(looked) if about[1] == ALL else 0,
        "unscored by the judge": sum(JUDGE not in each.said for each in decided)
        if any(each.judge for each in asked)
        else 0,
    }
    yield from (
        count("left out", about, reason, number) for reason, number in left_out.items() if number
    )


def _share(values: Iterable[tuple[_Looked, float]]) -> Measure:
    rows = [(each.entry, value) for each, value in values]
    weighted = [(entry.weight * value, entry.weight) for entry, value in rows]
    return share(weighted, [entry.cluster for entry, _ in rows], lambda sums: ratio(*sums))


def _pairs(
    key: Key, people: Sequence[str], about: tuple[str, str], looked: Sequence[_Looked]
) -> Iterator[Cell]:
    """Every two people, each with themselves, the judge with all and, of several, each; of a group
    the judge with all."""
    benchmark = find_benchmark(key.benchmark)
    questions = benchmark.people.questions if benchmark and benchmark.people else ()
    options = [option for each in questions if each.name == about[0] for option in each.options]
    good = {option.value: option.good for option in options if option.good is not None}
    pairs = [
        *combinations(people, 2),
        *((each, f"{each} again") for each in people),
        (TOGETHER, JUDGE),
    ]
    pairs += [(each, JUDGE) for each in people if len(people) > 1]
    for one, other in pairs if about[1] == ALL else [(TOGETHER, JUDGE)]:
        both = [
            (each, each.said[one], each.said[other])
            for each in looked
            if one in each.said and other in each.said
        ]
        if not both:
            continue
        row, clusters = (*about, one, other), [each.entry.cluster for each, _, _ in both]
        yield count("pairs", row, "items", len(both))
        yield Cell("pairs", row, AGREEMENT, _share((each, a == b) for each, a, b in both))
        yield Cell(
            "pairs",
            row,
            "Cohen's kappa",
            coefficient([(a, b) for _, a, b in both], clusters, cohen),
            1,
            2,
        )
        called = [
            (each, good[a], good[b])
            for each, a, b in both
            if other == JUDGE and a in good and b in good
        ]
        for name, kind in (("sensitivity, %", False), ("specificity, %", True)) if called else ():
            yield Cell(
                "pairs", row, name, _share((each, b is kind) for each, a, b in called if a is kind)
            )
        if called:
            cells = [
                [each.entry.weight * x for x in (not (a or b), not a, a and b, a)]
                for each, a, b in called
            ]
            clusters = [each.entry.cluster for each, _, _ in called]
            balanced = share(
                cells, clusters, lambda sums: (ratio(*sums[:2]) + ratio(*sums[2:])) / 2
            )
            yield Cell("pairs", row, "balanced, %", balanced)
