"""How far the people of a sheet agree: with each other, with themselves and with the judge.

The command `lm-factuality people agree` prints these figures as tables, with published figures of
the same kind beside them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from lm_factuality.people.labels import Key, Labels, SheetItem
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

ALL = "all"
"""The group of all items."""

UNDECIDED = "undecided"
"""The group of items that people did not decide."""

# Who answers besides people, by names that no person has.
JUDGE = "(judge)"
TOGETHER = "(people together)"

AGREEMENT = "agreement, %"
LEFT_OUT = ("skipped", "one answer", "no majority", "no answer", "unscored by the judge")


@dataclass(frozen=True)
class Cell:
    """A measure in a row and a column of a table."""

    table: str
    row: tuple[str, ...]
    column: str
    measure: Measure
    times: int = 100
    """What the measure is multiplied by to print it."""

    digits: int = 1

    @property
    def text(self) -> str:
        """The value with its interval; ``-`` where it is not defined."""
        measure = self.measure
        if measure.value is None:
            return "-"
        if measure.low is None or measure.high is None:
            return self._print(measure.value)
        interval = f"{self._print(measure.low)} - {self._print(measure.high)}"
        return f"{self._print(measure.value)} ({interval})"

    def _print(self, value: float) -> str:
        return f"{self.times * value + 0.0:.{self.digits}f}"  # + 0.0 makes 0 of -0.


def count_cell(table: str, row: tuple[str, ...], column: str, number: int) -> Cell:
    """Return a cell with a number of items."""
    return Cell(table, row, column, Measure(number, None, None, number), 1, 0)


def draw_cells(cells: Sequence[Cell], columns: Sequence[str], label: str, path: Path) -> None:
    """Draw the cells of some columns, each with its interval, as an image file."""
    drawn = []
    for cell in reversed(cells):
        if cell.column in columns and cell.measure.value is not None:
            drawn.append((cell, cell.times * cell.measure.value))
    figure = new_figure(8, 1 + 0.3 * len(drawn))
    axes = figure.subplots()
    for height, (cell, value) in enumerate(drawn):
        if cell.measure.low is not None and cell.measure.high is not None:
            ends = [cell.times * cell.measure.low, cell.times * cell.measure.high]
            axes.plot(ends, [height, height], color="gray")
        axes.plot([value], [height], "o", color="C0")
    names = [(*cell.row, cell.column) if len(columns) > 1 else cell.row for cell, _ in drawn]
    axes.set_yticks(range(len(drawn)), [", ".join(name) for name in names])
    axes.set(xlabel=f"{label}, with 95% intervals")
    axes.grid(axis="x", alpha=0.3)
    save_figure(figure, path)


def tables_of(cells: Sequence[Cell], figures: Figures) -> Iterator[Table]:
    """Yield the tables of ``tables.yaml`` that have cells.

    Args:
        figures: Published values. Those that share a row or a column with the cells are added.
    """
    for name, about in load_yaml(__package__, "tables.yaml").items():
        texts = {(cell.row, cell.column): cell.text for cell in cells if cell.table == name}
        if not texts:
            continue
        rows = dict.fromkeys(row for row, _ in texts)
        columns = dict.fromkeys(column for _, column in texts)
        for column, values in figures.get(name, {}).items():
            published = {tuple(row.split(" | ")): f"{value:g}" for row, value in values.items()}
            if column in columns or rows.keys() & published.keys():
                columns[column] = None
                rows.update(dict.fromkeys(published))
                texts.update({(row, column): text for row, text in published.items()})
        header = (*about["rows"], *(f"#{column}" for column in columns))
        lines = [(*row, *(texts.get((row, column), "") for column in columns)) for row in rows]
        yield Table(about["title"], header, lines, (about["note"], ""))


@dataclass(frozen=True)
class AnsweredItem:
    """An item that somebody answered."""

    item: SheetItem
    answers: Mapping[str, str]
    """What each person said, the second time as ``NAME again``; what most people said, as
    `TOGETHER`; and the judge. Whoever could not tell is missing."""

    first_answers: tuple[str, ...]
    """What people said the first time, of those who could tell."""

    skipped: int
    """How many of the people could not tell."""


def agreement_of(key: Key, labels: Labels, by: str = "") -> list[Cell]:
    """Measure the agreement on each question, over all items and within groups.

    Shares count items by their weights. The cells are of these tables:

    - ``people``: how far people agree. Fleiss' kappa is over the items that as many people
      answered as any, Krippendorff's alpha over all items with two answers.
    - ``pairs``: two people, one person the first and the second time, or people and the judge.
    - ``answers``: the share of items for which most people gave an answer.
    - ``left out``: the numbers of answers and items that count nowhere.

    Args:
        by: What makes the groups: a stratum of the units, such as ``domain``, or another question
            on the same text, whose answers then are the groups. Defaults to no groups.

    Raises:
        ConfigError: There is no such stratum or question.
    """
    known = [*sorted({name for item in key.items for name in item.strata}), *key.questions]
    if by and by not in known:
        raise ConfigError(
            f"--by {by!r}: expected one of {', '.join(known)}{did_you_mean(by, known)}"
        )
    people = sorted({label.person for label in labels.labels})
    answered_items = _answered_items(key, labels)
    cells: list[Cell] = []
    for question in key.questions:
        groups: dict[str, list[AnsweredItem]] = defaultdict(list)
        for answered in answered_items:
            if answered.item.question == question:
                groups[ALL].append(answered)
                if by not in ("", question):
                    groups[_group_of(answered.item, by, key, labels)].append(answered)
        for name in sorted(groups, key=lambda name: (name != ALL, name == UNDECIDED, name)):
            cells += _Group(key, people, (question, name), groups[name]).cells()
    return cells


def _answered_items(key: Key, labels: Labels) -> list[AnsweredItem]:
    answers: dict[int, dict[str, str]] = defaultdict(dict)
    for label in sorted(labels.labels, key=lambda label: label.item.number):
        of_item = answers[label.item.repeat_of or label.item.number]
        is_second = label.person in of_item
        of_item[f"{label.person} again" if is_second else label.person] = label.answer

    people = sorted({label.person for label in labels.labels})
    answered_items = []
    for item in key.items:
        if item.number not in answers:
            continue
        of_item = answers[item.number]
        skipped = list(of_item.values()).count(SKIP)
        of_item[TOGETHER] = labels.decided.get(item.unit_key, {}).get(item.item, SKIP)
        of_item[JUDGE] = item.judge or SKIP
        told = {name: answer for name, answer in of_item.items() if answer != SKIP}
        first_answers = tuple(told[person] for person in people if person in told)
        answered_items.append(AnsweredItem(item, told, first_answers, skipped))
    return answered_items


def _group_of(item: SheetItem, by: str, key: Key, labels: Labels) -> str:
    if by not in key.questions:
        return item.strata.get(by) or "none"
    same_text = by + item.item.removeprefix(item.question)
    return labels.decided.get(item.unit_key, {}).get(same_text, UNDECIDED)


@dataclass(frozen=True)
class _Group:
    """The answered items of a group, on one question."""

    key: Key
    people: Sequence[str]
    row: tuple[str, str]
    """The question and the name of the group, with which a row of a table begins."""

    items: Sequence[AnsweredItem]

    def cells(self) -> Iterator[Cell]:
        """Yield the cells of all tables, in the order of their columns."""
        some = [each for each in self.items if each.first_answers]
        several = [each for each in some if len(each.first_answers) > 1]
        most = max((len(each.first_answers) for each in several), default=0)
        complete = [each for each in several if len(each.first_answers) == most]
        people = [name for name in self.people if any(name in each.answers for each in some)]
        yield count_cell("people", self.row, "items", len(some))
        yield count_cell("people", self.row, "people", len(people))
        agreement = _share([(each.item, agreeing(each.first_answers)) for each in several])
        yield Cell("people", self.row, AGREEMENT, agreement)
        kappa = _coefficient([(each.item, each.first_answers) for each in complete], fleiss)
        yield Cell("people", self.row, "Fleiss' kappa", kappa, 1, 2)
        alpha = _coefficient([(each.item, each.first_answers) for each in several], krippendorff)
        yield Cell("people", self.row, "Krippendorff's alpha", alpha, 1, 2)
        for first, second in self._pairs():
            yield from self._cells_of_pair(first, second)
        yield from self._shares_of_answers()
        yield from self._left_out()

    def _pairs(self) -> list[tuple[str, str]]:
        """Return who is compared with whom: within a group only people with the judge."""
        if self.row[1] != ALL:
            return [(TOGETHER, JUDGE)]
        pairs = list(combinations(self.people, 2))
        pairs += [(person, f"{person} again") for person in self.people]
        pairs.append((TOGETHER, JUDGE))
        if len(self.people) > 1:
            pairs += [(person, JUDGE) for person in self.people]
        return pairs

    def _cells_of_pair(self, first: str, second: str) -> Iterator[Cell]:
        both = [
            (each.item, each.answers[first], each.answers[second])
            for each in self.items
            if first in each.answers and second in each.answers
        ]
        if not both:
            return
        row = (*self.row, first, second)
        yield count_cell("pairs", row, "items", len(both))
        yield Cell("pairs", row, AGREEMENT, _share([(item, a == b) for item, a, b in both]))
        kappa = _coefficient([(item, (a, b)) for item, a, b in both], cohen)
        yield Cell("pairs", row, "Cohen's kappa", kappa, 1, 2)
        if second == JUDGE:
            yield from self._cells_of_judge(row, both)

    def _cells_of_judge(
        self, row: tuple[str, ...], both: Sequence[tuple[SheetItem, str, str]]
    ) -> Iterator[Cell]:
        """Yield how often the judge agrees where people say wrong, and where they say right."""
        is_right = _options_that_say_right(self.key.benchmark, self.row[0])
        rated = [
            (item, is_right[person], is_right[judge])
            for item, person, judge in both
            if person in is_right and judge in is_right
        ]
        if not rated:
            return
        wrong = [(item, not judge) for item, person, judge in rated if not person]
        right = [(item, judge) for item, person, judge in rated if person]
        yield Cell("pairs", row, "sensitivity, %", _share(wrong))
        yield Cell("pairs", row, "specificity, %", _share(right))
        sums = []
        for item, person, judge in rated:
            counts = [not (person or judge), not person, person and judge, person]
            sums.append([item.weight * count for count in counts])
        balanced = share(
            sums,
            [item.cluster for item, _, _ in rated],
            lambda totals: (ratio(*totals[:2]) + ratio(*totals[2:])) / 2,
        )
        yield Cell("pairs", row, "balanced, %", balanced)

    def _shares_of_answers(self) -> Iterator[Cell]:
        """Yield how often most people gave an answer, for each that they gave."""
        decided = [answered for answered in self.items if TOGETHER in answered.answers]
        options = dict.fromkeys(option for each in decided for option in each.item.options)
        for option in options:
            measure = _share([(each.item, each.answers[TOGETHER] == option) for each in decided])
            if measure.value:
                yield Cell("answers", (*self.row, option), "share, %", measure)

    def _left_out(self) -> Iterator[Cell]:
        """Yield how many answers and items count nowhere, by the reason."""
        question, group = self.row
        asked = [
            item for item in self.key.items if item.question == question and item.repeat_of is None
        ]
        counts = dict.fromkeys(LEFT_OUT, 0)
        for answered in self.items:
            is_decided = TOGETHER in answered.answers
            counts["skipped"] += answered.skipped
            counts["one answer"] += len(answered.first_answers) == 1 and len(self.people) > 1
            counts["no majority"] += len(answered.first_answers) > 1 and not is_decided
            counts["unscored by the judge"] += is_decided and JUDGE not in answered.answers
        if group == ALL:
            counts["no answer"] = len(asked) - len(self.items)
        if not any(item.judge for item in asked):
            counts["unscored by the judge"] = 0  # No judge was asked, or it answered nothing.
        for reason, number in counts.items():
            if number:
                yield count_cell("left out", self.row, reason, number)


def _options_that_say_right(kind: str, question: str) -> dict[str, bool]:
    """Return the options of a question that call a text right (True) or wrong (False)."""
    benchmark = find_benchmark(kind)
    questions = benchmark.people.questions if benchmark and benchmark.people else ()
    options = [option for each in questions if each.name == question for option in each.options]
    return {option.value: option.good for option in options if option.good is not None}


def _share(values: Sequence[tuple[SheetItem, float]]) -> Measure:
    """Return the mean of values from 0 to 1, each counted by the weight of its item."""
    sums = [(item.weight * value, item.weight) for item, value in values]
    clusters = [item.cluster for item, _ in values]
    return share(sums, clusters, lambda totals: ratio(*totals))


def _coefficient(
    answers: Sequence[tuple[SheetItem, Sequence[str]]],
    value: Callable[[Sequence[Sequence[str]]], float],
) -> Measure:
    clusters = [item.cluster for item, _ in answers]
    return coefficient([of_item for _, of_item in answers], clusters, value)
