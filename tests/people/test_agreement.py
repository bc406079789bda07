"""Agreement on a sheet: who is compared with whom, in which groups and by what weights."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, recall_score

from lm_factuality.ground.errors import ConfigError
from lm_factuality.people.agreement import JUDGE, MAJORITY, agreement_of
from lm_factuality.people.labels import Key, SheetItem, SheetSource, read_labels
from lm_factuality.scores.agreement import Measure, fleiss_kappa, krippendorff_alpha
from lm_factuality.scores.intervals import balanced_accuracy_interval, mean_interval


def sheet_item(number, judge="factual", weight=1.0, strata=None, repeat_of=None):
    """Return a segment of its own unit, or another appearance of item ``repeat_of``."""
    unit = f"u{repeat_of or number}"
    return SheetItem(
        source=0,
        unit=unit,
        cluster=unit,
        stratum="",
        strata=strata or {},
        probability=1 / weight,
        weight=weight,
        number=number,
        item="segment:0",
        question="segment",
        options=("factual", "wrong"),
        judge=judge,
        repeat_of=repeat_of,
    )


def sheet_key(items, benchmark="felm"):
    """Return the key of a sheet that consists of ``items``."""
    return Key(
        benchmark=benchmark,
        seed=0,
        questions=tuple(dict.fromkeys(item.question for item in items)),
        stratify=(),
        sources=(SheetSource("results.json", "0"),),
        strata=(),
        items=tuple(items),
    ).with_sheet_id()


def labels_of(tmp_path, key, **answers_by_person):
    """Write and read labels: ``ann=["factual", None]`` if Ann answers only the first item."""
    lines = ["sheet,number,question,answer,person,note"]
    for person, answers in answers_by_person.items():
        for item, answer in zip(key.items, answers, strict=True):
            if answer is not None:
                lines.append(f"{key.sheet},{item.number},{item.question},{answer},{person},")
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_labels([path], key)


def find_measure(cells, table, column, question="segment", group="all", between=()):
    """Return the measure of one cell, of the two people in ``between`` if there are any."""
    row = (question, group, *between)
    for cell in cells:
        if (cell.table, cell.row, cell.column) == (table, row, column):
            return cell.measure
    raise AssertionError(f"no cell {table}, {row}, {column}")


@pytest.fixture(scope="module")
def random_answers():
    """Return 80 random answers "factual" or "wrong" of a judge and of Ann, Ben and Cy."""
    random = np.random.default_rng(3)
    is_factual = random.random(80) < 0.7
    error_rates = {"judge": 0.25, "ann": 0.1, "ben": 0.1, "cy": 0.1}
    answers = {}
    for name, error_rate in error_rates.items():
        has_erred = random.random(80) < error_rate
        answers[name] = np.where(is_factual != has_erred, "factual", "wrong")
    return answers


@pytest.fixture
def random_cells(random_answers, tmp_path):
    """Return the tables of agreement of ``random_answers``."""
    people = dict(random_answers)
    verdicts = people.pop("judge").tolist()
    key = sheet_key([sheet_item(number, verdict) for number, verdict in enumerate(verdicts, 1)])
    return agreement_of(key, labels_of(tmp_path, key, **people))


@pytest.fixture(scope="module")
def majority(random_answers):
    """Return the answer that two or three of the people give to each item."""
    rows = zip(*(random_answers[name] for name in ("ann", "ben", "cy")), strict=True)
    return [max(row, key=row.count) for row in rows]


def test_table_has_the_coefficients_of_agreement_among_people(random_answers, random_cells):
    """The table has to show the same numbers as the functions that are checked against papers."""
    ann, ben, cy = (random_answers[name] for name in ("ann", "ben", "cy"))
    answers_by_item = np.stack([ann, ben, cy], axis=1).tolist()

    kappa = find_measure(random_cells, "people", "Fleiss' kappa")
    alpha = find_measure(random_cells, "people", "Krippendorff's alpha")
    agreement = find_measure(random_cells, "people", "agreement, %")

    assert kappa.value == pytest.approx(fleiss_kappa(answers_by_item))
    assert alpha.value == pytest.approx(krippendorff_alpha(answers_by_item))
    assert agreement.value == pytest.approx(np.mean([ann == ben, ann == cy, ben == cy]))


def test_kappa_of_two_people_equals_sklearns(random_answers, random_cells):
    kappa = find_measure(random_cells, "pairs", "Cohen's kappa", between=("ann", "cy"))

    assert kappa.value == pytest.approx(
        cohen_kappa_score(random_answers["ann"], random_answers["cy"])
    )


def test_judge_accuracies_equal_sklearns(random_answers, majority, random_cells):
    """The answer of most people counts as the truth, and "wrong" is what the judge should find."""
    judge = random_answers["judge"]
    between = (MAJORITY, JUDGE)

    sensitivity = find_measure(random_cells, "pairs", "sensitivity, %", between=between)
    specificity = find_measure(random_cells, "pairs", "specificity, %", between=between)
    balanced = find_measure(random_cells, "pairs", "balanced, %", between=between)

    assert sensitivity.value == pytest.approx(recall_score(majority, judge, pos_label="wrong"))
    assert specificity.value == pytest.approx(recall_score(majority, judge, pos_label="factual"))
    assert balanced.value == pytest.approx(balanced_accuracy_score(majority, judge))
    assert sensitivity.count == majority.count("wrong")


def test_answer_share_counts_majority_answers(majority, random_cells):
    """Each item counts once, however many people answered it."""
    shares = {cell.row: cell.measure for cell in random_cells if cell.table == "answers"}

    share_of_wrong = shares["segment", "all", "wrong"]
    assert share_of_wrong.value == pytest.approx(majority.count("wrong") / len(majority))


def test_agreement_interval_equals_the_interval_of_a_mean_over_items(random_answers, random_cells):
    """The agreement on an item is the share of the three pairs of people who agree on it."""
    ann, ben, cy = (random_answers[name] for name in ("ann", "ben", "cy"))

    agreement = find_measure(random_cells, "people", "agreement, %")

    pairs_that_agree = np.sum([ann == ben, ann == cy, ben == cy], axis=0)
    agreement_by_item = pairs_that_agree / 3
    assert (agreement.low, agreement.high) == mean_interval(agreement_by_item.tolist())


def test_balanced_accuracy_has_the_interval_of_its_counts(random_answers, majority, random_cells):
    """The answer of most people counts as the truth, and "wrong" is what the judge should find."""
    judge_says_wrong = random_answers["judge"] == "wrong"
    people_say_wrong = np.array(majority) == "wrong"

    balanced = find_measure(random_cells, "pairs", "balanced, %", between=(MAJORITY, JUDGE))

    true_positives = judge_says_wrong & people_say_wrong
    false_positives = judge_says_wrong & ~people_say_wrong
    false_negatives = ~judge_says_wrong & people_say_wrong
    true_negatives = ~judge_says_wrong & ~people_say_wrong
    counts = np.stack(
        [true_positives, false_positives, false_negatives, true_negatives],
        axis=1,
    )
    assert (balanced.low, balanced.high) == pytest.approx(balanced_accuracy_interval(counts))


@pytest.mark.parametrize("num_items", [6, 20])
def test_specificity_of_a_perfect_judge_has_wilsons_interval(tmp_path, num_items):
    """Right verdicts on six items do not show that a judge is always right."""
    key = sheet_key([sheet_item(number, judge="factual") for number in range(1, num_items + 1)])
    labels = labels_of(tmp_path, key, ann=["factual"] * num_items)

    cells = agreement_of(key, labels)

    specificity = find_measure(cells, "pairs", "specificity, %", between=(MAJORITY, JUDGE))
    assert specificity.value == 1
    # The low end of Wilson's interval of n successes in n trials is n / (n + z**2).
    assert specificity.low == pytest.approx(num_items / (num_items + 1.96**2), abs=1e-4)


def test_balanced_accuracy_is_undefined_if_people_find_no_error(tmp_path):
    """It is the mean of two shares, and that of errors which the judge finds is 0 of 0 here."""
    key = sheet_key([sheet_item(number, judge="factual") for number in range(1, 7)])
    labels = labels_of(tmp_path, key, ann=["factual"] * 6)

    cells = agreement_of(key, labels)

    balanced = find_measure(cells, "pairs", "balanced, %", between=(MAJORITY, JUDGE))
    assert balanced == Measure(value=None, low=None, high=None, count=6)


def test_intervals_contain_their_values(random_cells):
    measures = [cell.measure for cell in random_cells if cell.measure.low is not None]

    assert measures
    for measure in measures:
        assert measure.low <= measure.value <= measure.high


@pytest.fixture
def incomplete_cells(tmp_path):
    """Return the tables of six items of which only the first has all answers and agreement.

    ======  ========  =======  =======  ========  =======  =======
    item    1         2        3        4         5        6
    judge   factual   factual  factual  factual   (none)   factual
    Ann     factual   factual  skip     factual   factual  (none)
    Ben     factual   wrong    factual  (none)    factual  (none)
    ======  ========  =======  =======  ========  =======  =======
    """
    verdicts = ["factual", "factual", "factual", "factual", None, "factual"]
    key = sheet_key([sheet_item(number, verdict) for number, verdict in enumerate(verdicts, 1)])
    labels = labels_of(
        tmp_path,
        key,
        ann=["factual", "factual", "skip", "factual", "factual", None],
        ben=["factual", "wrong", "factual", None, "factual", None],
    )
    return agreement_of(key, labels)


def test_omitted_items_are_counted_by_reason(incomplete_cells):
    """Nothing is left out silently: the user sees how many items each figure lacks."""
    left_out = [cell for cell in incomplete_cells if cell.table == "left out"]

    assert {cell.column: cell.measure.value for cell in left_out} == {
        "skipped": 1,  # item 3, by Ann
        "one answer": 2,  # items 3 and 4
        "no majority": 1,  # item 2
        "no answer": 1,  # item 6
        "unscored by the judge": 1,  # item 5
    }


def test_agreement_among_people_needs_two_answers(incomplete_cells):
    items = find_measure(incomplete_cells, "people", "items")
    agreement = find_measure(incomplete_cells, "people", "agreement, %")

    assert items.value == 5  # the items 1 to 5 have an answer
    # Items 1, 2 and 5 have answers of both people, who disagree about item 2.
    assert agreement.value == pytest.approx(2 / 3)


def test_agreement_with_the_judge_needs_a_majority_and_a_verdict(incomplete_cells):
    """Where people are evenly split, it is unknown which verdict would be right."""
    items = find_measure(incomplete_cells, "pairs", "items", between=(MAJORITY, JUDGE))

    assert items.value == 3  # items 1, 3 and 4: item 2 is a tie, item 5 has no verdict


@pytest.fixture
def key_of_three_items_shown_twice():
    """Return the key of a sheet that shows the items 1, 2 and 3, and then each again."""
    first_showings = [sheet_item(number) for number in (1, 2, 3)]
    second_showings = [sheet_item(number + 3, repeat_of=number) for number in (1, 2, 3)]
    return sheet_key(first_showings + second_showings)


def test_self_agreement_compares_first_and_second_answers(tmp_path, key_of_three_items_shown_twice):
    """How often a person repeats an answer limits how well anybody can agree with them."""
    first_answers = ["factual", "wrong", "factual"]
    second_answers = ["factual", "factual", "factual"]
    labels = labels_of(
        tmp_path, key_of_three_items_shown_twice, ann=[*first_answers, *second_answers]
    )

    cells = agreement_of(key_of_three_items_shown_twice, labels)

    agreement = find_measure(cells, "pairs", "agreement, %", between=("ann", "ann again"))
    assert agreement.value == pytest.approx(2 / 3)  # all but the second item
    assert agreement.count == 3


def test_self_agreement_uses_only_items_answered_twice(tmp_path, key_of_three_items_shown_twice):
    first_answers = ["factual", "factual", None]
    second_answers = ["factual", None, "wrong"]
    labels = labels_of(
        tmp_path, key_of_three_items_shown_twice, ben=[*first_answers, *second_answers]
    )

    cells = agreement_of(key_of_three_items_shown_twice, labels)

    items = find_measure(cells, "pairs", "items", between=("ben", "ben again"))
    assert items.value == 1  # only the first item has two answers


def test_repetitions_are_not_counted_as_items(tmp_path, key_of_three_items_shown_twice):
    """An item that is shown twice must not weigh twice in the agreement among people."""
    six_answers = ["factual", "wrong", "factual", "factual", "factual", "factual"]
    labels = labels_of(tmp_path, key_of_three_items_shown_twice, ann=six_answers, ben=six_answers)

    cells = agreement_of(key_of_three_items_shown_twice, labels)

    assert find_measure(cells, "people", "items").value == 3


def test_agreement_counts_items_by_their_weights(tmp_path):
    """An item of weight 9 stands for nine texts, because one in nine of its kind was drawn."""
    key = sheet_key([sheet_item(1, weight=9.0), sheet_item(2), sheet_item(3), sheet_item(4)])
    labels = labels_of(
        tmp_path,
        key,
        ann=["wrong", "wrong", "wrong", "wrong"],
        ben=["wrong", "factual", "factual", "factual"],
    )

    agreement = find_measure(agreement_of(key, labels), "people", "agreement, %")

    # They agree only on the first item, and the weights of all items sum to 12.
    assert agreement.value == pytest.approx(9 / 12)


def test_sensitivity_counts_items_by_their_weights(tmp_path):
    """An item of weight 9 stands for nine texts, because one in nine of its kind was drawn."""
    key = sheet_key(
        [
            sheet_item(1, judge="factual", weight=9.0),
            sheet_item(2, judge="wrong", weight=1.0),
            sheet_item(3, judge="wrong", weight=1.0),
            sheet_item(4, judge="wrong", weight=1.0),
        ]
    )
    labels = labels_of(tmp_path, key, ann=["wrong", "wrong", "wrong", "wrong"])

    cells = agreement_of(key, labels)

    # The judge finds the errors of the last three items and misses that of the first.
    sensitivity = find_measure(cells, "pairs", "sensitivity, %", between=(MAJORITY, JUDGE))
    assert sensitivity.value == pytest.approx(3 / 12)


def test_items_are_grouped_by_a_stratum(tmp_path):
    """A user may ask in which domain people agree least."""
    key = sheet_key(
        [
            sheet_item(1, strata={"domain": "wk"}),
            sheet_item(2, strata={"domain": "wk"}),
            sheet_item(3, strata={"domain": "math"}),
        ]
    )
    labels = labels_of(
        tmp_path,
        key,
        ann=["factual", "factual", "factual"],
        ben=["factual", "wrong", "factual"],
    )

    cells = agreement_of(key, labels, by="domain")

    agreements = [
        cell for cell in cells if cell.table == "people" and cell.column == "agreement, %"
    ]
    assert [cell.row for cell in agreements] == [
        ("segment", "all"),
        ("segment", "math"),
        ("segment", "wk"),
    ]
    # They disagree about the second item, which is one of two of the domain wk.
    assert [cell.measure.value for cell in agreements] == [pytest.approx(2 / 3), 1, 0.5]


def test_an_unknown_kind_of_group_is_refused(tmp_path):
    """A typing error must not give a table of everything."""
    key = sheet_key([sheet_item(1, strata={"domain": "wk"})])
    labels = labels_of(tmp_path, key, ann=["factual"])

    message = "--by 'domian': expected one of domain, segment; did you mean domain"
    with pytest.raises(ConfigError, match=message):
        agreement_of(key, labels, by="domian")


def fluency_cells(tmp_path, answers):
    """Return the tables, grouped by "fluent", of Ann's answers about some contradictions.

    Args:
        answers: The answers to "fluent" and to "non_factual" about each contradiction.
    """
    items = []
    for number, _ in enumerate(answers, start=1):
        for question in ("fluent", "non_factual"):
            items.append(
                SheetItem(
                    source=0,
                    unit=f"u{number}",
                    cluster="c",
                    stratum="",
                    strata={},
                    probability=1.0,
                    weight=1.0,
                    number=len(items) + 1,
                    item=f"{question}:1",
                    question=question,
                    options=("yes", "no"),
                    judge=None,
                )
            )
    key = sheet_key(items, "factor")
    answers_in_order = []
    for answer in answers:
        answers_in_order += [answer["fluent"], answer["non_factual"]]
    return agreement_of(key, labels_of(tmp_path, key, ann=answers_in_order), by="fluent")


def test_answers_can_be_grouped_by_answers_to_another_question(tmp_path):
    """Table 2 of FACTOR shows how many contradictions are non-factual, by whether they are fluent."""
    cells = fluency_cells(
        tmp_path,
        [
            {"fluent": "yes", "non_factual": "yes"},
            {"fluent": "yes", "non_factual": "no"},
            {"fluent": "no", "non_factual": "yes"},
        ],
    )

    shares = {cell.row: cell.measure.value for cell in cells if cell.table == "answers"}
    # A row is the question, the answer to "fluent" (or "all"), and the answer to the question.
    assert shares == {
        ("fluent", "all", "yes"): pytest.approx(2 / 3),
        ("fluent", "all", "no"): pytest.approx(1 / 3),
        ("non_factual", "all", "yes"): pytest.approx(2 / 3),
        ("non_factual", "all", "no"): pytest.approx(1 / 3),
        ("non_factual", "yes", "yes"): 1 / 2,
        ("non_factual", "yes", "no"): 1 / 2,
        ("non_factual", "no", "yes"): 1,
    }


def test_answers_to_the_grouping_question_are_not_grouped(tmp_path):
    """The answers to "fluent" of all contradictions that are called fluent are yes."""
    cells = fluency_cells(
        tmp_path,
        [{"fluent": "yes", "non_factual": "yes"}, {"fluent": "no", "non_factual": "yes"}],
    )

    groups_by_question = defaultdict(set)
    for cell in cells:
        question, group, *_ = cell.row
        groups_by_question[question].add(group)
    assert groups_by_question["fluent"] == {"all"}
    assert groups_by_question["non_factual"] == {"all", "yes", "no"}


def test_a_person_named_judge_is_not_taken_for_the_judge(tmp_path):
    """Names are free text, so a file of labels may have this one."""
    key = sheet_key([sheet_item(1, judge="factual"), sheet_item(2, judge="wrong")])
    labels = labels_of(tmp_path, key, judge=["factual", "factual"], ann=["factual", "factual"])

    cells = agreement_of(key, labels)

    with_ann = find_measure(cells, "pairs", "agreement, %", between=("ann", "judge"))
    with_the_judge = find_measure(cells, "pairs", "agreement, %", between=("judge", JUDGE))
    assert with_ann.value == 1
    assert with_the_judge.value == 0.5
