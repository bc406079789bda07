"""Measure how far the annotators of a sheet agree with each other, themselves and the judge.

The command `lm-factuality people agree` prints these measures as tables, together with published
figures of the same kind.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.asked import SKIP
from lm_factuality.benchmarks.declaration import ComparisonTable
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import Number
from lm_factuality.people.labels import Key, Labels, SheetItem
from lm_factuality.people.sheet import check_option
from lm_factuality.scores.agreement import (
    Measure,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    measure_coefficient,
    measure_of,
    pairwise_agreement,
)
from lm_factuality.scores.intervals import balanced_accuracy_interval
from lm_factuality.scores.statistics import Outcome, clustered_interval, mean

Figures = dict[str, dict[str, dict[str, Number]]]
"""Published values as printed, by table, column and row (``cell | cell``), as in
``configs/reproduce/people_figures.yaml``."""

ALL = "all"
"""The name of the group of all items."""

UNDECIDED = "undecided"
"""The name of the group of items without a majority answer."""

JUDGE = "(judge)"
"""The name under which the judge's verdict stands among the answers of people."""

MAJORITY = "(people together)"
"""The name under which the majority answer stands among the answers of people."""

AGREEMENT = "agreement, %"
"""The column for the share of equal answers."""


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
        value = self._format_number(measure.value)
        # Some measures, such as the number of items, have no interval.
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


def coefficient_cell(
    table: str, row: tuple[str, ...], column: str, coefficient: Measure
) -> AgreementCell:
    """Build a cell that shows a coefficient such as kappa with two decimals, not in percent."""
    return AgreementCell(table, row, column, coefficient, times=1, digits=2)


def tables_of(cells: Sequence[AgreementCell], figures: Figures) -> Iterator[ComparisonTable]:
    """Arrange measures of agreement as tables, with published figures beside them.

    Args:
        cells: The measures, each with its table, row and column.
        figures: Published values, to be shown where a table has comparable measures.

    Yields:
        The tables that have cells, in the order of ``tables.yaml``.
    """
    for name, layout in load_yaml(__package__, "tables.yaml").items():
        cells_of_table = [cell for cell in cells if cell.table == name]
        if cells_of_table:
            yield _arrange_cells(cells_of_table, figures.get(name, {}), layout)


def _arrange_cells(
    cells: Sequence[AgreementCell],
    figures: Mapping[str, Mapping[str, Number]],
    layout: Mapping[str, Any],
) -> ComparisonTable:
    """Arrange the cells of one table in lines, with the published columns after the measured ones.

    Example:
        The row ``("fluent", "all")`` with 40 in the column ``items`` and 2 in ``people`` becomes
        the line ``["fluent", "all", "40", "2"]``.

    Args:
        cells: The measured cells. Rows and columns keep their order.
        figures: Published values by column and row, such as ``{"GPT-4": {"fluent | all": 81.5}}``.
        layout: The table's entry in ``tables.yaml``: its title, its note, and the headings of the
            texts with which each line begins (``rows``).
    """
    columns: list[str] = []
    texts_by_row: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for cell in cells:
        if cell.column not in columns:
            columns.append(cell.column)
        texts_by_row[cell.row][cell.column] = cell.text

    for column, values in figures.items():
        # The row "fluent | all" of a YAML file is the tuple (fluent, all).
        published = {tuple(row.split(" | ")): f"{value:g}" for row, value in values.items()}
        has_common_row = any(row in published for row in texts_by_row)
        is_comparable = column in columns or has_common_row
        if not is_comparable:
            continue
        if column not in columns:
            columns.append(column)
        for row, text in published.items():
            texts_by_row[row][column] = text

    lines = []
    for row, text_by_column in texts_by_row.items():
        # A row can lack some columns, such as published values for it.
        texts = [text_by_column.get(column, "") for column in columns]
        lines.append([*row, *texts])
    # In a `ComparisonTable`, a heading that begins with "#" is that of a column of numbers.
    headings = [*layout["rows"], *(f"#{column}" for column in columns)]
    # The empty note puts a blank line after the table.
    return ComparisonTable(layout["title"], headings, lines, (layout["note"], ""))


@dataclass(frozen=True)
class AnsweredItem:
    """An item (question about a text) that at least one person answered, with all answers."""

    item: SheetItem
    """The item where the sheet shows it first."""

    answers: Mapping[str, str]
    """The answers by name, without skipped ones.

    A person's answer to the repeated item is under ``NAME again``, the majority answer under
    `MAJORITY`, and the judge's verdict under `JUDGE`.
    """

    people_answers: tuple[str, ...]
    """The answers of people when they saw the item first, without skipped ones."""

    num_skipped: int
    """The number of skipped answers."""


class ItemGroup(NamedTuple):
    """A group of items, by the two texts with which its rows in tables begin."""

    question: str
    """The question that all its items ask, such as ``fluent``."""

    name: str
    """`ALL`, or what the items have in common, such as the domain ``math``."""


class ItemAnswers(NamedTuple):
    """The answers to one item that are compared with each other."""

    item: SheetItem
    """The item, with the weight and the cluster that it counts with."""

    answers: tuple[str, ...]
    """The answers, such as ``("true", "false")`` of two people."""


def agreement_of(key: Key, labels: Labels, by: str = "") -> list[AgreementCell]:
    """Measure the agreement on each question, over all items and within groups of items.

    Shares count items by their weights.

    Args:
        key: The key of the sheet.
        labels: People's answers to the sheet.
        by: What to group items by: a kind of stratum, such as ``domain``, or a question. The items
            of a group then have the same majority answer to this question on the same text.
            By default, there are no groups.

    Returns:
        The cells of the tables ``people``, ``pairs``, ``answers`` and ``left out``, by question and
        group.

    Raises:
        ConfigError: There is no such stratum or question.
    """
    if by:
        strata = {name for item in key.items for name in item.strata}
        check_option("--by", by, [*sorted(strata), *key.questions])

    items_by_question: dict[str, list[AnsweredItem]] = defaultdict(list)
    for answered in _answered_items(key, labels):
        items_by_question[answered.item.question].append(answered)

    cells: list[AgreementCell] = []
    for question in key.questions:
        items = items_by_question[question]
        if items:
            cells += _agreement_on_group(ItemGroup(question, ALL), items, key, labels.people)
        # A question that is grouped by its own answers would agree with itself.
        if by and by != question:
            for name, group_items in _group_items(items, by, key, labels).items():
                group = ItemGroup(question, name)
                cells += _agreement_on_group(group, group_items, key, labels.people)
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
        answers_on_sheet = labels.answers.get(item.number)
        # Nobody answered this item, or it repeats an earlier one, which has the answers to both.
        if answers_on_sheet is None:
            continue
        answers = dict(answers_on_sheet)
        item_id = item.item
        majority_answers = labels.majority_answers.get(item.unit_key, {})
        # The judge and people together take part in comparisons like another person.
        answers[MAJORITY] = majority_answers.get(item_id, SKIP)
        answers[JUDGE] = item.judge or SKIP
        given_answers = {name: answer for name, answer in answers.items() if answer != SKIP}
        # The names of people leave out the answers under "NAME again", which repeat an item.
        people_answers = [
            given_answers[person] for person in labels.people if person in given_answers
        ]
        yield AnsweredItem(
            item=item,
            answers=given_answers,
            people_answers=tuple(people_answers),
            num_skipped=list(answers_on_sheet.values()).count(SKIP),
        )


def _group_items(
    items: Sequence[AnsweredItem], by: str, key: Key, labels: Labels
) -> dict[str, list[AnsweredItem]]:
    """Group the items of a question by stratum, or by the answer to another question.

    Args:
        items: The items.
        by: The kind of stratum, such as ``domain``, or the name of the other question.
        key: The key of the sheet.
        labels: People's answers to the sheet.

    Returns:
        The items by group, such as ``math``. Groups are sorted by name, with `UNDECIDED` last.
    """
    groups: dict[str, list[AnsweredItem]] = defaultdict(list)
    for answered in items:
        if by in key.questions:
            name = _majority_answer_to(by, answered.item, labels)
        else:
            name = answered.item.strata.get(by) or "none"
        groups[name].append(answered)
    # False sorts before True.
    names = sorted(groups, key=lambda name: (name == UNDECIDED, name))
    return {name: groups[name] for name in names}


def _majority_answer_to(question: str, item: SheetItem, labels: Labels) -> str:
    """Return what most people answered to another question on an item's text, or `UNDECIDED`."""
    # Questions on the same text share the end of the id: "fluent:0" and "error_type:0".
    item_of_same_text = question + item.item.removeprefix(item.question)
    return labels.majority_answers.get(item.unit_key, {}).get(item_of_same_text, UNDECIDED)


def _agreement_on_group(
    group: ItemGroup, items: Sequence[AnsweredItem], key: Key, people: Sequence[str]
) -> list[AgreementCell]:
    """Measure how far people and the judge agree on a group of items.

    Args:
        group: The group.
        items: Its answered items.
        key: The key of the sheet.
        people: The names of all annotators.

    Returns:
        The cells of the group in the tables ``people``, ``pairs``, ``answers`` and ``left out``.
    """
    cells = _agreement_of_people(group, items, people)
    # Over all items, every pair of people is compared. Other groups can be too small for that, so
    # only people together are compared with the judge.
    pairs = _pairs_to_compare(people) if group.name == ALL else [(MAJORITY, JUDGE)]
    right_by_option = _right_by_option(key.benchmark, group.question)
    for first, second in pairs:
        cells += _agreement_of_pair(group, first, second, items, right_by_option)

    cells += _shares_of_answers(group, items)
    left_out_by_reason = _count_left_out(group, items, key, len(people))
    for reason, number in left_out_by_reason.items():
        if number > 0:
            cells.append(count_cell("left out", group, reason, number))
    return cells


def _agreement_of_people(
    group: ItemGroup, items: Sequence[AnsweredItem], people: Sequence[str]
) -> list[AgreementCell]:
    """Measure how far people agree with each other.

    Args:
        group: The group of the items.
        items: The answered items of the group.
        people: The names of all annotators.

    Returns:
        The numbers of items and people, the share of equal answers, and the two coefficients.
    """
    num_answered = 0
    respondents = set()
    comparable_items = []
    for answered in items:
        respondents.update(answered.answers.keys() & people)
        # All answers to an item may be skipped.
        if answered.people_answers:
            num_answered += 1
        # A single answer cannot agree with another one.
        if len(answered.people_answers) > 1:
            comparable_items.append(ItemAnswers(answered.item, answered.people_answers))
    # Fleiss' kappa needs the same number of answers to every item.
    most_answers = max((len(item.answers) for item in comparable_items), default=0)
    complete_items = [item for item in comparable_items if len(item.answers) == most_answers]

    kappa = _measure_coefficient(complete_items, fleiss_kappa)
    alpha = _measure_coefficient(comparable_items, krippendorff_alpha)
    return [
        count_cell("people", group, "items", num_answered),
        count_cell("people", group, "people", len(respondents)),
        AgreementCell("people", group, AGREEMENT, _measure_agreement(comparable_items)),
        coefficient_cell("people", group, "Fleiss' kappa", kappa),
        coefficient_cell("people", group, "Krippendorff's alpha", alpha),
    ]


def _pairs_to_compare(people: Sequence[str]) -> list[tuple[str, str]]:
    """List who is compared with whom in the table of pairs, in the order of its rows.

    For Ann and Bob: Ann with Bob, Ann with ``Ann again``, Bob with ``Bob again``, the majority with
    the judge, Ann with the judge, and Bob with the judge.
    """
    pairs = list(combinations(people, 2))
    # A person's answer to a repeated item is filed under "NAME again".
    pairs += [(person, f"{person} again") for person in people]
    pairs.append((MAJORITY, JUDGE))
    # With one person, the majority answer is that person's answer.
    if len(people) > 1:
        pairs += [(person, JUDGE) for person in people]
    return pairs


def _right_by_option(kind: str, question_name: str) -> dict[str, bool]:
    """Find which options of a question call a text right (True), and which wrong (False).

    Args:
        kind: The kind of the benchmark.
        question_name: The name of the question.

    Returns:
        Whether the option calls the text right, by its value: ``{"true": True, "false": False}``.
        Options that say neither, such as ``irrelevant``, are missing.
    """
    benchmark = find_benchmark(kind)
    if benchmark is None or benchmark.people is None:
        return {}
    for question in benchmark.people.questions:
        if question.name == question_name:
            # Options that are neither good nor bad have None here.
            return {
                option.value: option.good for option in question.options if option.good is not None
            }
    return {}


def _agreement_of_pair(
    group: ItemGroup,
    first: str,
    second: str,
    items: Sequence[AnsweredItem],
    right_by_option: Mapping[str, bool],
) -> Iterator[AgreementCell]:
    """Measure how far two people, or people and the judge, agree.

    Args:
        group: The group of the items.
        first: The name of a person, or `MAJORITY`.
        second: The name of another person, or `JUDGE`.
        items: The answered items of the group.
        right_by_option: Whether an answer calls the text right, such as ``{"true": True}``.

    Yields:
        The number of items, the share of equal answers and Cohen's kappa, and for the judge its
        sensitivity, specificity and balanced accuracy. Nothing if no item has both answers.
    """
    pairs = []
    for answered in items:
        answers = answered.answers
        if first in answers and second in answers:
            pairs.append(ItemAnswers(answered.item, (answers[first], answers[second])))
    if not pairs:
        return

    row = (*group, first, second)
    kappa = _measure_coefficient(pairs, cohen_kappa)
    yield count_cell("pairs", row, "items", len(pairs))
    yield AgreementCell("pairs", row, AGREEMENT, _measure_agreement(pairs))
    yield coefficient_cell("pairs", row, "Cohen's kappa", kappa)
    if second == JUDGE:
        for column, measure in _judge_accuracy(pairs, right_by_option).items():
            yield AgreementCell("pairs", row, column, measure)


def _judge_accuracy(
    pairs: Sequence[ItemAnswers], right_by_option: Mapping[str, bool]
) -> dict[str, Measure]:
    """Measure how often the judge agrees where people say wrong, and where they say right.

    Args:
        pairs: For each item, the answer of people and then that of the judge.
        right_by_option: Whether an answer calls the text right, such as ``{"true": True}``. Items
            with an answer that is missing from it do not count.

    Returns:
        The measures by their columns, or nothing if no item counts. The sensitivity is the share of
        texts called wrong by people that the judge calls wrong. The specificity is the share of
        texts called right by people that the judge calls right. The balanced accuracy is the mean
        of both.
    """
    # For each text that people call wrong or right: 1 if the judge agrees, and 0 if not.
    wrong_texts: list[Outcome] = []
    right_texts: list[Outcome] = []
    for item, (people_answer, judge_answer) in pairs:
        people_say_right = right_by_option.get(people_answer)
        judge_says_right = right_by_option.get(judge_answer)
        # Answers such as "irrelevant" call a text neither right nor wrong.
        if people_say_right is None or judge_says_right is None:
            continue
        texts = right_texts if people_say_right else wrong_texts
        texts.append(_outcome_of(item, judge_says_right == people_say_right))
    if not wrong_texts and not right_texts:
        return {}
    return {
        "sensitivity, %": _measure_mean(wrong_texts),
        "specificity, %": _measure_mean(right_texts),
        "balanced, %": _measure_balanced_accuracy(wrong_texts, right_texts),
    }


def _measure_balanced_accuracy(
    wrong_texts: Sequence[Outcome], right_texts: Sequence[Outcome]
) -> Measure:
    """Measure the mean of sensitivity and specificity, with its 95% interval by clusters.

    Args:
        wrong_texts: 1 if the judge agrees and 0 if not, for each text that people call wrong.
        right_texts: The same for each text that people call right.
    """
    # A positive is a text that the judge calls wrong. The interval takes the weights of the texts
    # of each cluster in this order.
    no_weights = {"tp": 0.0, "fp": 0.0, "fn": 0.0, "tn": 0.0}
    weights_by_cluster: dict[str, dict[str, float]] = defaultdict(no_weights.copy)
    for outcome in wrong_texts:
        case = "tp" if outcome > 0 else "fn"
        weights_by_cluster[outcome.cluster][case] += outcome.weight
    for outcome in right_texts:
        case = "tn" if outcome > 0 else "fp"
        weights_by_cluster[outcome.cluster][case] += outcome.weight

    counts = [list(weights.values()) for weights in weights_by_cluster.values()]
    interval = balanced_accuracy_interval(counts)
    balanced_accuracy = (mean(wrong_texts) + mean(right_texts)) / 2
    return measure_of(balanced_accuracy, interval, len(wrong_texts) + len(right_texts))


def _shares_of_answers(group: ItemGroup, items: Sequence[AnsweredItem]) -> Iterator[AgreementCell]:
    """Measure the share of items with each majority answer.

    Args:
        group: The group of the items.
        items: The answered items of the group. Those without a majority answer are left out.

    Yields:
        The share of each answer that is the majority answer of some item.
    """
    decided = [answered for answered in items if MAJORITY in answered.answers]
    # Items of one question can have different options. The dictionary keeps each of them once, in
    # the order of the sheet.
    options = dict.fromkeys(option for answered in decided for option in answered.item.options)
    for option in options:
        outcomes = []
        for answered in decided:
            is_majority = answered.answers[MAJORITY] == option
            outcomes.append(_outcome_of(answered.item, is_majority))
        share = _measure_mean(outcomes)
        # Answers that are the majority of no item get no cell, since there can be many.
        if share.value:
            yield AgreementCell("answers", (*group, option), "share, %", share)


def _count_left_out(
    group: ItemGroup, items: Sequence[AnsweredItem], key: Key, num_people: int
) -> dict[str, int]:
    """Count the answers and items that no measure of agreement counts, by the reason.

    Args:
        group: The group of the items.
        items: The answered items of the group.
        key: The key of the sheet, with all items and the judge's verdicts.
        num_people: The number of annotators.

    Returns:
        A number for each reason, such as ``{"skipped": 2, "one answer": 0, ...}``.
    """
    asked_items = [
        item for item in key.items if item.question == group.question and item.repeat_of is None
    ]
    num_skipped = 0
    num_with_one_answer = 0
    num_undecided = 0
    num_unjudged = 0
    for answered in items:
        num_skipped += answered.num_skipped
        if len(answered.people_answers) == 1:
            num_with_one_answer += 1
        if MAJORITY in answered.answers:
            num_unjudged += JUDGE not in answered.answers
        elif len(answered.people_answers) > 1:
            num_undecided += 1

    # With one annotator, no item has more than one answer.
    if num_people == 1:
        num_with_one_answer = 0
    # If no item has a verdict, no judge was asked, and a missing verdict is no unscored item.
    if not any(item.judge for item in asked_items):
        num_unjudged = 0
    # Other groups consist of answered items.
    num_unanswered = len(asked_items) - len(items) if group.name == ALL else 0
    return {
        "skipped": num_skipped,
        "one answer": num_with_one_answer,
        "no majority": num_undecided,
        "no answer": num_unanswered,
        "unscored by the judge": num_unjudged,
    }


def _measure_agreement(items: Sequence[ItemAnswers]) -> Measure:
    """Measure the share of pairs of equal answers, as the weighted mean over the items."""
    return _measure_mean(
        [_outcome_of(item, pairwise_agreement(answers)) for item, answers in items]
    )


def _measure_mean(outcomes: Sequence[Outcome]) -> Measure:
    """Measure the weighted mean of items, with its 95% interval by clusters."""
    return measure_of(mean(outcomes), clustered_interval(outcomes), len(outcomes))


def _outcome_of(item: SheetItem, value: float) -> Outcome:
    """Return a value from 0 to 1 with the cluster and the weight with which its item counts."""
    return Outcome(value, item.cluster, item.weight)


def _measure_coefficient(
    items: Sequence[ItemAnswers], compute: Callable[[Sequence[Sequence[str]]], float]
) -> Measure:
    """Measure a coefficient such as Fleiss' kappa, with its 95% interval by clusters.

    Args:
        items: The items with their answers.
        compute: Computes the coefficient of the answers to some items.
    """
    answers = [answered.answers for answered in items]
    clusters = [answered.item.cluster for answered in items]
    return measure_coefficient(answers, clusters, compute)
