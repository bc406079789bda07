"""Measure how far the annotators of a sheet agree with each other, themselves and the judge.

The command `lm-factuality people agree` prints these measures as tables, together with published
figures of the same kind.
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
"""The name of the group of all items."""

UNDECIDED = "undecided"
"""The name of the group of items without a majority answer."""

JUDGE = "(judge)"
"""The name under which the judge's verdict stands among the answers of people."""

TOGETHER = "(people together)"
"""The name under which the majority answer stands among the answers of people."""

AGREEMENT = "agreement, %"
"""The column for the share of equal answers."""

LEFT_OUT = ("skipped", "one answer", "no majority", "no answer", "unscored by the judge")
"""The reasons for which answers and items do not count, in the order of the columns."""


@dataclass(frozen=True)
class AgreementCell:
    """A measure in a row and a column of a table."""

    table: str
    """The name of the table in ``tables.yaml``."""

    row: tuple[str, ...]
    """The texts that begin the row, such as the question and the group of items."""

    column: str
    """The heading of the column."""

    measure: Measure
    """The value, with its interval if it has one."""

    times: int = 100
    """The factor by which the measure is multiplied to print it: 100 prints percent."""

    digits: int = 1
    """The number of decimals to print."""

    @property
    def text(self) -> str:
        """Format the value with its interval, such as ``81.5 (77.0 - 85.9)``, or ``-`` for none."""
        measure = self.measure
        if measure.value is None:
            return "-"
        # Some measures, such as the number of items, have no interval.
        value = self._format_number(measure.value)
        if measure.low is None or measure.high is None:
            return value
        return f"{value} ({self._format_number(measure.low)} - {self._format_number(measure.high)})"

    def _format_number(self, number: float) -> str:
        """Format a number as this cell prints it: 0.815 as ``81.5`` in percent."""
        # Adding 0.0 turns -0.0 into 0.0.
        scaled = self.times * number + 0.0
        return f"{scaled:.{self.digits}f}"


def count_cell(table: str, row: tuple[str, ...], column: str, number: int) -> AgreementCell:
    """Build a cell that shows a number of items, people or responses as an integer."""
    return AgreementCell(table, row, column, Measure(number, None, None, number), times=1, digits=0)


def tables_of(cells: Sequence[AgreementCell], figures: Figures) -> Iterator[ComparisonTable]:
    """Arrange measures of agreement as tables, with published figures beside them.

    Args:
        cells: The measures, each with its table, row and column.
        figures: Published values. A published column is added if the table has its heading or one
            of its rows.

    Yields:
        The tables that have cells, in the order of ``tables.yaml``.
    """
    for name, description in load_yaml(__package__, "tables.yaml").items():
        texts = {(cell.row, cell.column): cell.text for cell in cells if cell.table == name}
        if not texts:
            continue
        _add_published(texts, figures.get(name, {}))

        # Dictionaries keep the first occurrence of each row and column, in order.
        rows = dict.fromkeys(row for row, _ in texts)
        columns = dict.fromkeys(column for _, column in texts)
        # A heading that starts with # is of a column of numbers.
        header = (*description["rows"], *(f"#{column}" for column in columns))
        lines = []
        for row in rows:
            values_of_row = [texts.get((row, column), "") for column in columns]
            lines.append((*row, *values_of_row))
        yield ComparisonTable(description["title"], header, lines, (description["note"], ""))


def _add_published(
    texts: dict[tuple[tuple[str, ...], str], str],
    figures: Mapping[str, Mapping[str, Number]],
) -> None:
    """Add published figures to the texts of a table, where they can be compared with its cells.

    Args:
        texts: The text of each cell by row and column, to which cells are added.
        figures: Published values by column and row, such as ``{"GPT-4": {"fluent | all": 81.5}}``.
            A column is added if the table has its heading or one of its rows.
    """
    for column, values in figures.items():
        published = {}
        for row, value in values.items():
            # The row "fluent | all" of a YAML file is the tuple (fluent, all).
            published[tuple(row.split(" | ")), column] = f"{value:g}"
        published_rows = {row for row, _ in published}
        if any(heading == column or row in published_rows for row, heading in texts):
            texts.update(published)


@dataclass(frozen=True)
class AnsweredItem:
    """An item of a sheet that at least one person answered, with all answers to it."""

    item: SheetItem
    """The item where the sheet shows it first."""

    answers: Mapping[str, str]
    """The answers by name, without skipped ones.

    A person's answer to the repeated item is under ``NAME again``, the majority answer under
    `TOGETHER`, and the judge's verdict under `JUDGE`.
    """

    first_answers: tuple[str, ...]
    """The answers of people when the item was shown first, without skipped ones."""

    skipped: int
    """The number of skipped answers."""


def agreement_of(key: Key, labels: Labels, by: str = "") -> list[AgreementCell]:
    """Measure the agreement on each question, over all items and within groups of items.

    Shares count items by their weights. The cells are of these tables:

    - ``people``: how far people agree. Fleiss' kappa takes the items with the largest number of
      answers, Krippendorff's alpha all items with at least two answers.
    - ``pairs``: two people, one person the first and the second time, or people and the judge.
    - ``answers``: the share of items with each majority answer.
    - ``left out``: the numbers of answers and items that count nowhere.

    Args:
        key: The key of the sheet.
        labels: People's answers to the sheet.
        by: The kind of groups: a stratum of the units, such as ``domain``, or another question
            on the same text, whose majority answers then are the groups. Defaults to no groups.

    Returns:
        The cells of all tables, by question and group.

    Raises:
        ConfigError: There is no such stratum or question.
    """
    # Units can be grouped by strata, and items also by answers to other questions.
    strata = {name for item in key.items for name in item.strata}
    names = [*sorted(strata), *key.questions]
    if by and by not in names:
        raise ConfigError(
            f"--by {by!r}: expected one of {', '.join(names)}{did_you_mean(by, names)}"
        )

    groups: dict[tuple[str, str], list[AnsweredItem]] = defaultdict(list)
    for answered in _answered_items(key, labels):
        question = answered.item.question
        # Every item is in the group of all items, and in one of the others if there are any.
        groups[question, ALL].append(answered)
        if by and by != question:
            groups[question, _group_of(answered.item, by, key, labels)].append(answered)

    def sort_position(row: tuple[str, str]) -> tuple[int, bool, bool, str]:
        """Sort by question. All items come first, undecided ones last."""
        question, group = row
        return key.questions.index(question), group != ALL, group == UNDECIDED, group

    cells: list[AgreementCell] = []
    for row in sorted(groups, key=sort_position):
        items = groups[row]
        cells += _cells_of_people(row, items, labels.people)
        # Groups can be too small to compare single people.
        is_all = row[1] == ALL
        pairs = _pairs_to_compare(labels.people) if is_all else [(TOGETHER, JUDGE)]
        for first, second in pairs:
            cells += _cells_of_pair((*row, first, second), items, key.benchmark)
        cells += _shares_of_answers(row, items)
        cells += _count_left_out(row, items, key, labels.people)
    return cells


def _answered_items(key: Key, labels: Labels) -> Iterator[AnsweredItem]:
    """Yield each item that people answered, with the majority answer and the judge's verdict.

    Args:
        key: The key of the sheet, with the judge's verdicts.
        labels: People's answers to the sheet.

    Yields:
        The items in the order of the sheet, without skipped answers.
    """
    for item in key.items:
        people_answers = labels.answers.get(item.number)
        # Nobody answered this item, or the sheet shows it for the second time.
        if people_answers is None:
            continue
        majority_answers = labels.majority_answers.get(item.unit_key, {})
        all_answers = {
            **people_answers,
            TOGETHER: majority_answers.get(item.item, SKIP),
            JUDGE: item.judge or SKIP,
        }
        answers = {name: answer for name, answer in all_answers.items() if answer != SKIP}
        first_answers = tuple(answers[person] for person in labels.people if person in answers)
        num_skipped = list(people_answers.values()).count(SKIP)
        yield AnsweredItem(item, answers, first_answers, num_skipped)


def _group_of(item: SheetItem, by: str, key: Key, labels: Labels) -> str:
    """Return the group of an item: its stratum, or the majority answer to another question.

    Args:
        item: The item.
        by: The kind of stratum, such as ``domain``, or the name of the other question.
        key: The key of the sheet.
        labels: People's answers to the sheet.

    Returns:
        The group. It is ``none`` without a stratum and `UNDECIDED` without a majority answer.
    """
    if by not in key.questions:
        return item.strata.get(by) or "none"
    # Questions on the same text share the end of the id: "fluent:0" and "error_type:0".
    item_of_same_text = by + item.item.removeprefix(item.question)
    return labels.majority_answers.get(item.unit_key, {}).get(item_of_same_text, UNDECIDED)


def _cells_of_people(
    row: tuple[str, str], items: Sequence[AnsweredItem], people: Sequence[str]
) -> list[AgreementCell]:
    """Measure how far people agree with each other.

    Args:
        row: The question and the group of the items.
        items: The items of this question and group.
        people: The names of all annotators.

    Returns:
        The numbers of items and people, the share of equal answers, and the two coefficients.
    """
    with_answer = [answered for answered in items if answered.first_answers]
    with_several = [answered for answered in items if len(answered.first_answers) > 1]
    # Not everybody answers every question.
    num_people = sum(
        any(person in answered.answers for answered in with_answer) for person in people
    )
    agreements = [pairwise_agreement(answered.first_answers) for answered in with_several]
    several_answers = [answered.first_answers for answered in with_several]
    alpha = _measure_coefficient(with_several, several_answers, krippendorff_alpha)

    # Fleiss' kappa needs the same number of answers to every item.
    most_answers = max(map(len, several_answers), default=0)
    complete = [item for item in with_several if len(item.first_answers) == most_answers]
    complete_answers = [answered.first_answers for answered in complete]
    kappa = _measure_coefficient(complete, complete_answers, fleiss_kappa)
    return [
        count_cell("people", row, "items", len(with_answer)),
        count_cell("people", row, "people", num_people),
        AgreementCell("people", row, AGREEMENT, _measure_share(with_several, agreements)),
        AgreementCell("people", row, "Fleiss' kappa", kappa, times=1, digits=2),
        AgreementCell("people", row, "Krippendorff's alpha", alpha, times=1, digits=2),
    ]


def _pairs_to_compare(people: Sequence[str]) -> list[tuple[str, str]]:
    """List the names whose answers are compared by twos.

    Args:
        people: The names of the annotators.

    Returns:
        All pairs of people, each person and the same person again, people together and the judge,
        and each person and the judge.
    """
    # The order of the pairs is that of the rows in the table.
    pairs = list(combinations(people, 2))
    pairs += [(person, f"{person} again") for person in people]
    pairs.append((TOGETHER, JUDGE))
    # The only person is the same as people together.
    if len(people) > 1:
        pairs += [(person, JUDGE) for person in people]
    return pairs


def _cells_of_pair(
    row: tuple[str, str, str, str], items: Sequence[AnsweredItem], kind: str
) -> Iterator[AgreementCell]:
    """Measure how far two people, or people and the judge, agree.

    Args:
        row: The question, the group of items, and the names of the two that are compared.
        items: The items of this question and group.
        kind: The kind of the benchmark, which declares which answers call a text right.

    Yields:
        The number of items, the share of equal answers and Cohen's kappa, and for the judge its
        sensitivity, specificity and balanced accuracy. Nothing if no item has both answers.
    """
    question, _, first, second = row
    items_of_both = []
    answer_pairs = []
    for answered in items:
        if first in answered.answers and second in answered.answers:
            items_of_both.append(answered)
            answer_pairs.append((answered.answers[first], answered.answers[second]))
    if not items_of_both:
        return

    # The share of equal answers is the mean of these truth values.
    agreements = [answer == second_answer for answer, second_answer in answer_pairs]
    kappa = _measure_coefficient(items_of_both, answer_pairs, cohen_kappa)
    yield count_cell("pairs", row, "items", len(items_of_both))
    yield AgreementCell("pairs", row, AGREEMENT, _measure_share(items_of_both, agreements))
    yield AgreementCell("pairs", row, "Cohen's kappa", kappa, times=1, digits=2)
    if second == JUDGE:
        yield from _judge_accuracy(row, items_of_both, _options_that_say_right(kind, question))


def _judge_accuracy(
    row: tuple[str, str, str, str], items: Sequence[AnsweredItem], calls_right: Mapping[str, bool]
) -> Iterator[AgreementCell]:
    """Measure how often the judge agrees where people say wrong, and where they say right.

    Args:
        row: The question, the group of items, the name of the people, and `JUDGE`.
        items: The items that both of them answered.
        calls_right: Whether an option calls the text right. Items with other answers are left out.

    Yields:
        Sensitivity (the share of people's wrong that the judge also calls wrong), specificity (the
        same for right) and their mean, the balanced accuracy. Nothing without items.
    """
    rater = row[2]
    # Answers such as "irrelevant" call a text neither right nor wrong.
    decided = [
        answered
        for answered in items
        if answered.answers[rater] in calls_right and answered.answers[JUDGE] in calls_right
    ]
    if not decided:
        return
    wrong_items = [answered for answered in decided if not calls_right[answered.answers[rater]]]
    right_items = [answered for answered in decided if calls_right[answered.answers[rater]]]
    # These are the judge's hits, item by item.
    called_wrong = [not calls_right[answered.answers[JUDGE]] for answered in wrong_items]
    called_right = [calls_right[answered.answers[JUDGE]] for answered in right_items]

    counts = [_agreement_counts(answered, rater, calls_right) for answered in decided]
    clusters = [answered.item.cluster for answered in decided]
    balanced = measure_share(counts, clusters, _balanced_accuracy)
    yield AgreementCell("pairs", row, "sensitivity, %", _measure_share(wrong_items, called_wrong))
    yield AgreementCell("pairs", row, "specificity, %", _measure_share(right_items, called_right))
    yield AgreementCell("pairs", row, "balanced, %", balanced)


def _agreement_counts(
    answered: AnsweredItem, rater: str, calls_right: Mapping[str, bool]
) -> tuple[float, float, float, float]:
    """Return what an item adds to the sums that the balanced accuracy is computed from.

    Args:
        answered: The item, with its weight.
        rater: The name of the people whose answer is taken as the truth.
        calls_right: Whether an option calls the text right.

    Returns:
        Agreements and items where people say wrong, then agreements and items where they say right.
    """
    people_say_right = calls_right[answered.answers[rater]]
    judge_says_right = calls_right[answered.answers[JUDGE]]
    # An item that stands for many undrawn ones weighs more.
    weight = answered.item.weight
    agreement = weight if people_say_right == judge_says_right else 0.0
    if people_say_right:
        return 0.0, 0.0, agreement, weight
    return agreement, weight, 0.0, 0.0


def _balanced_accuracy(sums: Sequence[float]) -> float:
    """Compute the mean of sensitivity and specificity from summed `_agreement_counts`."""
    wrong_agreed, wrong_total, right_agreed, right_total = sums
    return (ratio(wrong_agreed, wrong_total) + ratio(right_agreed, right_total)) / 2


def _options_that_say_right(kind: str, question_name: str) -> dict[str, bool]:
    """Find the options of a question that call a text right (True) or wrong (False).

    Args:
        kind: The kind of the benchmark.
        question_name: The name of the question.

    Returns:
        Whether the option calls the text right, by its value: ``{"true": True, "false": False}``.
        Options that say neither are missing.
    """
    benchmark = find_benchmark(kind)
    if benchmark is None or benchmark.people is None:
        return {}
    calls_right = {}
    for question in benchmark.people.questions:
        if question.name == question_name:
            # Options such as "irrelevant" say neither.
            decisive = [option for option in question.options if option.good is not None]
            calls_right = {option.value: bool(option.good) for option in decisive}
    return calls_right


def _shares_of_answers(
    row: tuple[str, str], items: Sequence[AnsweredItem]
) -> Iterator[AgreementCell]:
    """Measure the share of items with each majority answer.

    Args:
        row: The question and the group of the items.
        items: The items. Those without a majority answer are left out.

    Yields:
        The share of each answer that is the majority answer of some item.
    """
    decided = [answered for answered in items if TOGETHER in answered.answers]
    # Items of one question can have different options.
    options = dict.fromkeys(option for answered in decided for option in answered.item.options)
    for option in options:
        has_option = [answered.answers[TOGETHER] == option for answered in decided]
        share = _measure_share(decided, has_option)
        if share.value:
            yield AgreementCell("answers", (*row, option), "share, %", share)


def _count_left_out(
    row: tuple[str, str], items: Sequence[AnsweredItem], key: Key, people: Sequence[str]
) -> Iterator[AgreementCell]:
    """Count the answers and items that count in no measure.

    Args:
        row: The question and the group of the items.
        items: The answered items of this question and group.
        key: The key of the sheet.
        people: The names of all annotators.

    Yields:
        The number for each reason in `LEFT_OUT` that occurs.
    """
    question, group = row
    asked = [item for item in key.items if item.question == question and item.repeat_of is None]
    counts = dict.fromkeys(LEFT_OUT, 0)
    # Without any verdict, no judge was asked, so none left an item unscored.
    was_judged = any(item.judge for item in asked)
    for answered in items:
        num_answers = len(answered.first_answers)
        counts["skipped"] += answered.skipped
        if num_answers == 1 and len(people) > 1:
            counts["one answer"] += 1
        if TOGETHER not in answered.answers:
            counts["no majority"] += num_answers > 1
        elif was_judged and JUDGE not in answered.answers:
            counts["unscored by the judge"] += 1
    # Items without an answer are in no group but that of all items.
    if group == ALL:
        counts["no answer"] = len(asked) - len(items)

    for reason, number in counts.items():
        if number:
            yield count_cell("left out", row, reason, number)


def _measure_share(items: Sequence[AnsweredItem], values: Sequence[float]) -> Measure:
    """Measure the mean of one value per item, with its 95% interval by clusters.

    Args:
        items: The items, whose weights count.
        values: The value of each item, from 0 to 1.

    Returns:
        The weighted mean, which is not defined without items.
    """
    weighted_counts = []
    for answered, value in zip(items, values, strict=True):
        weight = answered.item.weight
        weighted_counts.append((weight * value, weight))
    # Items of one document are not independent.
    clusters = [answered.item.cluster for answered in items]
    return measure_share(weighted_counts, clusters, lambda sums: ratio(*sums))


def _measure_coefficient(
    items: Sequence[AnsweredItem],
    answers: Sequence[Sequence[str]],
    compute: Callable[[Sequence[Sequence[str]]], float],
) -> Measure:
    """Measure a coefficient such as Fleiss' kappa, with its 95% interval by clusters.

    Args:
        items: The items.
        answers: The answers to each item.
        compute: Computes the coefficient of the answers to some items.
    """
    clusters = [answered.item.cluster for answered in items]
    return measure_coefficient(answers, clusters, compute)
