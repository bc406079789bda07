"""How far the people of a sheet agree: with each other, with themselves and with the judge.

The command `lm-factuality people agree` prints these figures as tables, with published figures of
the same kind beside them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.benchmarks.declaration import ComparisonTable
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import Number
from lm_factuality.people.labels import Key, Labels, SheetItem
from lm_factuality.scores.agreement import (
    Measure,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    measure_coefficient,
    measure_share,
    pairwise_agreement,
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
class AgreementCell:
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
        texts = []
        for number in (measure.value, measure.low, measure.high):
            if number is not None:
                # + 0.0 makes 0 of -0.
                texts.append(f"{self.times * number + 0.0:.{self.digits}f}")
        interval = f" ({' - '.join(texts[1:])})" if texts[1:] else ""
        return f"{texts[0]}{interval}" if texts else "-"


def count_cell(table: str, row: tuple[str, ...], column: str, number: int) -> AgreementCell:
    """Return a cell with a number of items."""
    return AgreementCell(table, row, column, Measure(number, None, None, number), 1, 0)


def tables_of(cells: Sequence[AgreementCell], figures: Figures) -> Iterator[ComparisonTable]:
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
                for row, text in published.items():
                    rows[row] = None
                    texts[row, column] = text
        header = (*about["rows"], *(f"#{column}" for column in columns))
        lines = [(*row, *(texts.get((row, column), "") for column in columns)) for row in rows]
        yield ComparisonTable(about["title"], header, lines, (about["note"], ""))


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


def agreement_of(key: Key, labels: Labels, by: str = "") -> list[AgreementCell]:
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
    names = [*sorted({name for item in key.items for name in item.strata}), *key.questions]
    if by and by not in names:
        raise ConfigError(
            f"--by {by!r}: expected one of {', '.join(names)}{did_you_mean(by, names)}"
        )
    groups: dict[tuple[str, str], list[AnsweredItem]] = defaultdict(list)
    for answered in _answered_items(key, labels):
        item = answered.item
        groups[item.question, ALL].append(answered)
        if by == item.question:
            continue
        if by in key.questions:
            same_text = by + item.item.removeprefix(item.question)
            group = labels.majority_answers.get(item.unit_key, {}).get(same_text, UNDECIDED)
            groups[item.question, group].append(answered)
        elif by:
            groups[item.question, item.strata.get(by) or "none"].append(answered)

    def place(row: tuple[str, str]) -> tuple[object, ...]:
        question, group = row
        return key.questions.index(question), group != ALL, group == UNDECIDED, group

    people = labels.people
    cells: list[AgreementCell] = []
    for row in sorted(groups, key=place):
        cells += _cells_of_people(row, groups[row], people)
        for first, second in _pairs(people) if row[1] == ALL else [(TOGETHER, JUDGE)]:
            cells += _cells_of_pair((*row, first, second), groups[row], key.benchmark)
        cells += _shares_of_answers(row, groups[row])
        cells += _left_out(row, groups[row], key, people)
    return cells


def _answered_items(key: Key, labels: Labels) -> Iterator[AnsweredItem]:
    for item in key.items:
        of_people = labels.answers.get(item.number)
        if of_people is None:
            continue
        decided = labels.majority_answers.get(item.unit_key, {}).get(item.item, SKIP)
        answers = {}
        for name, answer in {**of_people, TOGETHER: decided, JUDGE: item.judge or SKIP}.items():
            if answer != SKIP:
                answers[name] = answer
        first_answers = tuple(answers[person] for person in labels.people if person in answers)
        skipped = list(of_people.values()).count(SKIP)
        yield AnsweredItem(item, answers, first_answers, skipped)


def _cells_of_people(
    row: tuple[str, str], items: Sequence[AnsweredItem], people: Sequence[str]
) -> list[AgreementCell]:
    """Say how far people agree."""
    some = [answered for answered in items if answered.first_answers]
    several = [answered for answered in some if len(answered.first_answers) > 1]
    most = max((len(answered.first_answers) for answered in several), default=0)
    complete = [answered for answered in several if len(answered.first_answers) == most]
    num_people = sum(any(person in answered.answers for answered in some) for person in people)
    agreements = [pairwise_agreement(answered.first_answers) for answered in several]
    alpha = _coefficient(several, [each.first_answers for each in several], krippendorff_alpha)
    kappa = _coefficient(complete, [each.first_answers for each in complete], fleiss_kappa)
    return [
        count_cell("people", row, "items", len(some)),
        count_cell("people", row, "people", num_people),
        AgreementCell("people", row, AGREEMENT, _share(several, agreements)),
        AgreementCell("people", row, "Fleiss' kappa", kappa, 1, 2),
        AgreementCell("people", row, "Krippendorff's alpha", alpha, 1, 2),
    ]


def _pairs(people: Sequence[str]) -> list[tuple[str, str]]:
    """Return who is compared with whom."""
    pairs = list(combinations(people, 2))
    pairs += [(person, f"{person} again") for person in people]
    pairs.append((TOGETHER, JUDGE))
    if len(people) > 1:
        pairs += [(person, JUDGE) for person in people]
    return pairs


def _cells_of_pair(
    row: tuple[str, ...], items: Sequence[AnsweredItem], kind: str
) -> Iterator[AgreementCell]:
    """Yield how far the two agree that end the row."""
    question, _, first, second = row
    both = [answered for answered in items if {first, second} <= answered.answers.keys()]
    if not both:
        return
    pairs = [(answered.answers[first], answered.answers[second]) for answered in both]
    yield count_cell("pairs", row, "items", len(both))
    yield AgreementCell("pairs", row, AGREEMENT, _share(both, [a == b for a, b in pairs]))
    yield AgreementCell("pairs", row, "Cohen's kappa", _coefficient(both, pairs, cohen_kappa), 1, 2)
    if second != JUDGE:
        return

    # How often the judge agrees where people say wrong, and where they say right.
    is_right = _options_that_say_right(kind, question)
    decided = []
    counts = []
    for answered, (of_people, of_judge) in zip(both, pairs, strict=True):
        if of_people in is_right and of_judge in is_right:
            person, judge = is_right[of_people], is_right[of_judge]
            decided.append(answered)
            counts.append((not (person or judge), not person, person and judge, person))
    if not decided:
        return
    for name, start in (("sensitivity, %", 0), ("specificity, %", 2)):
        side = [place for place, count in enumerate(counts) if count[start + 1]]
        agreed = [counts[place][start] for place in side]
        yield AgreementCell("pairs", row, name, _share([decided[place] for place in side], agreed))
    rows = []
    for answered, count in zip(decided, counts, strict=True):
        rows.append([answered.item.weight * number for number in count])
    clusters = [answered.item.cluster for answered in decided]
    balanced = measure_share(rows, clusters, lambda sums: (ratio(*sums[:2]) + ratio(*sums[2:])) / 2)
    yield AgreementCell("pairs", row, "balanced, %", balanced)


def _options_that_say_right(kind: str, question: str) -> dict[str, bool]:
    """Return the options of a question that call a text right (True) or wrong (False)."""
    benchmark = find_benchmark(kind)
    questions = benchmark.people.questions if benchmark and benchmark.people else ()
    options = [option for each in questions if each.name == question for option in each.options]
    return {option.value: option.good for option in options if option.good is not None}


def _shares_of_answers(
    row: tuple[str, ...], items: Sequence[AnsweredItem]
) -> Iterator[AgreementCell]:
    """Yield how often most people gave an answer, for each that they gave."""
    decided = [answered for answered in items if TOGETHER in answered.answers]
    for option in dict.fromkeys(option for each in decided for option in each.item.options):
        measure = _share(decided, [each.answers[TOGETHER] == option for each in decided])
        if measure.value:
            yield AgreementCell("answers", (*row, option), "share, %", measure)


def _left_out(
    row: tuple[str, str], items: Sequence[AnsweredItem], key: Key, people: Sequence[str]
) -> Iterator[AgreementCell]:
    """Yield how many answers and items count nowhere, by the reason."""
    question, group = row
    asked = [item for item in key.items if item.question == question and item.repeat_of is None]
    decided = [answered for answered in items if TOGETHER in answered.answers]
    numbers = [len(answered.first_answers) for answered in items]
    counts = dict.fromkeys(LEFT_OUT, 0)
    counts["skipped"] = sum(answered.skipped for answered in items)
    counts["one answer"] = numbers.count(1) if len(people) > 1 else 0
    counts["no majority"] = sum(
        len(each.first_answers) > 1 and TOGETHER not in each.answers for each in items
    )
    if group == ALL:
        counts["no answer"] = len(asked) - len(items)
    if any(item.judge for item in asked):  # Else no judge was asked, or none answered.
        counts["unscored by the judge"] = sum(JUDGE not in each.answers for each in decided)
    for reason, number in counts.items():
        if number:
            yield count_cell("left out", row, reason, number)


def _share(items: Sequence[AnsweredItem], values: Sequence[float]) -> Measure:
    """Return the mean of values from 0 to 1, each counted by the weight of its item."""
    sums = []
    for answered, value in zip(items, values, strict=True):
        sums.append((answered.item.weight * value, answered.item.weight))
    clusters = [answered.item.cluster for answered in items]
    return measure_share(sums, clusters, lambda totals: ratio(*totals))


def _coefficient(
    items: Sequence[AnsweredItem],
    answers: Sequence[Sequence[str]],
    value: Callable[[Sequence[Sequence[str]]], float],
) -> Measure:
    return measure_coefficient(answers, [answered.item.cluster for answered in items], value)
