"""The choice of contradictions: types, determinism, and what the rows together give away."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from factor_gen.choose import ChosenRow, choose_rows, combine_edits
from factor_gen.records import ERROR_TYPES, Candidate, Example
from factor_gen.settings import ChooseSettings
from factor_gen.surface import STATISTICS
from lm_factuality.benchmarks.factor.metrics import pick_probabilities


def candidate(text: str, kind: str = "entity", rejected: str = "") -> Candidate:
    return Candidate(text, kind, "old -> new", "test", rejected=rejected)


def example(
    candidates: Iterable[Candidate], doc_id: str = "a", completion: str = "It is true."
) -> Example:
    return Example(doc_id, "Before. ", completion, ERROR_TYPES, tuple(candidates))


def chosen(
    examples: Iterable[Example], seed: int = 0, **settings: object
) -> list[ChosenRow | Example]:
    return list(choose_rows(ChooseSettings(**settings), seed, examples))  # type: ignore[arg-type]


@pytest.mark.parametrize(("least_types", "is_sure"), [(1, True), (2, False)])
def test_the_doubtful_are_taken_where_others_are_too_few(least_types: int, is_sure: bool) -> None:
    doubtful = replace(candidate("It was.", "link"), doubtful=2)
    (row,) = chosen(
        [example([*(candidate(f"It is {n}.") for n in range(3)), doubtful])], min_types=least_types
    )
    assert isinstance(row, ChosenRow)
    assert (doubtful not in row.contradictions) is is_sure
    (row,) = chosen([example([candidate("It is 1."), candidate("It is 2."), doubtful])])
    assert isinstance(row, ChosenRow)
    assert doubtful in row.contradictions


def test_the_less_doubtful_come_first() -> None:
    """Though they edit the same words."""
    texts = {
        "It is not so old.": 0,
        "He says it is so old.": 0,
        "It is so not old.": 1,
        "Here it is so old.": 2,
    }
    each = [replace(candidate(text), doubtful=doubtful) for text, doubtful in texts.items()]
    for row in chosen(example(each, str(n), "It is so old.") for n in range(10)):
        assert isinstance(row, ChosenRow)
        assert sorted(found.doubtful for found in row.contradictions) == [0, 0, 1]


def test_no_more_doubtful_than_the_settings_allow() -> None:
    each = [replace(candidate(f"It is {doubtful}."), doubtful=doubtful) for doubtful in (0, 1, 2)]
    for most_doubtful, is_row in ((0, False), (1, False), (2, True)):
        (row,) = chosen([example(each)], most_doubtful=most_doubtful)
        assert isinstance(row, ChosenRow) is is_row


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_a_type_that_is_rare_among_many_lasts_too(pick: str) -> None:
    many = [candidate(f"It is {n}.", ("entity", "predicate")[n % 2]) for n in range(200)]
    rare = [
        candidate("It was.", "link"),
        candidate("It is here.", "circumstance"),
        candidate("She is.", "coreference"),
    ]
    rows = chosen([example([*many, *rare], str(n)) for n in range(20)], pick=pick, min_types=3)
    kinds = [
        {each.type for each in row.contradictions} for row in rows if isinstance(row, ChosenRow)
    ]
    assert [len(each) for each in kinds] == [3] * 20
    assert {"link", "circumstance", "coreference"} < set().union(*kinds)
    for row in chosen([example([*many, *rare])], pick=pick, contradictions=5):
        assert isinstance(row, ChosenRow)
        assert {each.type for each in row.contradictions} == set(ERROR_TYPES)
    (row,) = chosen([example([*many, *rare])], pick=pick, contradictions=30)
    assert isinstance(row, ChosenRow)
    assert len({each.text for each in row.contradictions}) == 30


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_no_two_edit_the_same_words_unless_nothing_else_is_left(pick: str) -> None:
    true = "On Monday she sold nine boats in Oslo to the bank."
    edits = [
        ("Monday", "Friday"),
        ("Monday", "Tuesday"),
        ("Oslo", "Bergen"),
        ("nine", "eight"),
        ("nine", "seven"),
    ]
    kinds = [
        "circumstance",
        "circumstance",
        "circumstance",
        "entity",
        "link",
    ]  # more types can be had of the same words
    found = [
        candidate(true.replace(old, new), kind)
        for (old, new), kind in zip(edits, kinds, strict=True)
    ]
    for seed in range(10):
        (row,) = chosen([example(found, completion=true)], seed, pick=pick)
        assert isinstance(row, ChosenRow)
        changed = [
            next(old for old, _ in edits if old not in each.text) for each in row.contradictions
        ]
        assert sorted(changed) == ["Monday", "Oslo", "nine"]
    (row,) = chosen([example([*found[:2], found[3]], completion=true)], pick=pick)
    assert isinstance(row, ChosenRow)
    assert {each.text for each in row.contradictions} == {
        each.text for each in [*found[:2], found[3]]
    }


def test_rejected_and_repeated_candidates_do_not_count() -> None:
    few = [
        candidate("One."),
        candidate("One. "),
        candidate("Two."),
        candidate("Three.", rejected="not fluent"),
    ]
    (row,) = chosen([example(few)])
    assert isinstance(row, Example)
    assert row.unused == "choose: fewer than 3 contradictions"
    (row,) = chosen([example(candidate(f"It is {n}.") for n in range(4))], min_types=2)
    assert isinstance(row, Example)
    assert row.unused == "choose: contradictions of fewer than 2 types"


def test_an_example_that_is_done_with_passes_as_it_is() -> None:
    done = Example("a", unused="select: empty")
    assert chosen([done]) == [done]


def biased_examples(count: int) -> list[Example]:
    """Prices that mostly rise, in round numbers, of short names: every edit makes the text look
    other than the corpus does."""
    rng, found = random.Random(0), []
    for number in range(count):
        verb = "rose" if rng.random() < 0.65 else "fell"
        amount, name = (
            rng.choice([10, 20, 30, 40, 57, 68]),
            rng.choice(["Ode", "Ilm", "Sollingen", "Harkenau"]),
        )
        text = f"The price of {name} grain {verb} by {amount} percent last year."
        other = {"rose": "fell", "fell": "rose"}[verb]
        edits = [
            candidate(text.replace(verb, other), "predicate"),
            candidate(text.replace(verb, f"never {verb}"), "predicate"),
        ]
        edits += [
            candidate(text.replace(str(amount), str(new)), "circumstance")
            for new in (10, 20, 57, 68, 1057)
            if new != amount
        ]
        edits += [
            candidate(text.replace(name, new))
            for new in ("Ode", "Ilm", "Sollingen", "Upper Sollingen", "Ülmenau")
            if new != name
        ]
        found.append(example(edits, str(number), text))
    return found


def worst_leak(rows: Iterable[ChosenRow | Example]) -> float:
    """The accuracy of the best surface statistic."""
    texts = [
        [row.example.completion, *(each.text for each in row.contradictions)]
        for row in rows
        if isinstance(row, ChosenRow)
    ]
    return max(
        sum(pick_probabilities([sign * statistic(text) for text in row])[0] for row in texts)
        / len(texts)
        for statistic in STATISTICS.values()
        for sign in (1, -1)
    )


def word_excess(rows: Iterable[ChosenRow | Example]) -> float:
    """How many words a contradiction has too many or too few of, on average, next to a third of the
    true completion's."""
    heap: Counter[str] = Counter()
    count = 0
    for row in rows:
        if isinstance(row, ChosenRow):
            count += 1
            for each in row.contradictions:
                heap.update(each.text.split())
                heap.subtract(row.example.completion.split())
    return sum(abs(excess) for excess in heap.values()) / count


def test_a_balanced_choice_gives_less_away_than_a_random_one() -> None:
    examples = biased_examples(300)
    balanced, by_lot = chosen(examples), chosen(examples, pick="random")
    assert worst_leak(by_lot) > 0.3
    assert worst_leak(balanced) < 0.28
    assert word_excess(balanced) < 0.8 * word_excess(by_lot)


def most_central(row: ChosenRow) -> str:
    """Which of the choices has the fewest words that it shares with no other."""
    texts = [row.example.completion, *(each.text for each in row.contradictions)]
    words = [set(text.split()) for text in texts]
    apart = [sum(len(one ^ other) for other in words) for one in words]
    return texts[apart.index(min(apart))]


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_the_true_completion_is_no_oftener_in_the_middle_than_the_others(pick: str) -> None:
    examples = biased_examples(200)
    rows = {
        hide: [
            row
            for row in chosen(examples, pick=pick, hide_most_central=hide)
            if isinstance(row, ChosenRow)
        ]
        for hide in (True, False)
    }
    central = {
        hide: sum(most_central(row) == row.example.completion for row in rows[hide])
        for hide in rows
    }
    assert central[False] == 200
    assert 40 <= central[True] <= 60  # one standard deviation of chance is 6
    for row in rows[True]:
        assert {each.type for each in row.contradictions} == {"entity", "predicate", "circumstance"}
        assert len({each.text for each in row.contradictions} | {row.example.completion}) == 4


def test_edits_that_touch_cannot_be_made_together() -> None:
    edits = [
        candidate("The red house fell in 1900."),
        candidate("The blue house rose in 1900."),
        candidate("The red barn rose in 1870."),
    ]
    both = combine_edits("The red house rose in 1900.", edits)
    assert {pair: each.text for pair, each in both.items()} == {
        (0, 1): "The blue house fell in 1900.",
        (1, 0): "The blue house fell in 1900.",
    }
    (row,) = chosen(
        [example(edits, completion="The red house rose in 1900.")], hide_most_central=True
    )
    assert isinstance(row, ChosenRow)
    assert {each.text for each in row.contradictions} == {each.text for each in edits}
