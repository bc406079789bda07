"""The choice of contradictions: types, and what the rows together give away."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from factor_gen.choose import CandidatePair, ChosenRow, DocumentOutcome, choose_rows, combine_edits
from factor_gen.records import ERROR_TYPES, Candidate, Example
from factor_gen.settings import ChooseSettings
from factor_gen.surface import STATISTICS
from lm_factuality.benchmarks.factor.metrics import pick_probabilities


def make_candidate(text: str, error_type: str = "entity", *, rejected: str = "") -> Candidate:
    """Return a contradiction. The choice does not depend on its edit and its generator.

    Args:
        text: The false sentence.
        error_type: Its error type.
        rejected: Why a filter rejected it. Empty if none did.
    """
    return Candidate(text, error_type, "old -> new", "test", rejected=rejected)


def make_example(
    candidates: Iterable[Candidate], doc_id: str = "a", completion: str = "It is true."
) -> Example:
    """Return a document whose contradictions were generated and filtered."""
    return Example(doc_id, "Before. ", completion, ERROR_TYPES, tuple(candidates))


def choose(examples: Iterable[Example], seed: int = 0, **settings: Any) -> list[DocumentOutcome]:
    """Return what became of documents, each of which may give a row or not.

    Args:
        examples: The documents of a corpus.
        seed: The seed of the build.
        settings: Fields of `ChooseSettings`, such as ``min_types``.
    """
    return list(choose_rows(ChooseSettings(**settings), seed, examples))


def choose_all_rows(examples: Iterable[Example], seed: int = 0, **settings: Any) -> list[ChosenRow]:
    """Return the rows of documents, each of which has to give one. `choose` has the arguments."""
    rows = []
    for outcome in choose(examples, seed, **settings):
        assert isinstance(outcome, ChosenRow)
        rows.append(outcome)
    return rows


def texts_of(contradictions: Iterable[Candidate]) -> set[str]:
    """Return the distinct texts of contradictions."""
    return {contradiction.text for contradiction in contradictions}


def types_of(row: ChosenRow) -> set[str]:
    """Return the distinct error types in a row."""
    return {contradiction.type for contradiction in row.contradictions}


COMMON_TYPES = [
    make_candidate(f"It is {number}.", ("entity", "predicate")[number % 2]) for number in range(200)
]
"""200 contradictions of two types, which are far more than the choice can compare."""

RARE_TYPES = [
    make_candidate("It was.", "link"),
    make_candidate("It is here.", "circumstance"),
    make_candidate("She is.", "coreference"),
]
"""One contradiction of each of the three other types."""


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_rare_types_are_chosen_despite_more_common_types(pick: str) -> None:
    """Each document has 200 candidates of two common types, and one of each of three rare types."""
    documents = [
        make_example([*COMMON_TYPES, *RARE_TYPES], f"document {number}") for number in range(20)
    ]

    rows = choose_all_rows(documents, pick=pick, min_types=3)

    all_types: set[str] = set()
    for row in rows:
        assert len(types_of(row)) == 3
        all_types |= types_of(row)
    assert len(rows) == 20
    assert all_types >= {"link", "circumstance", "coreference"}


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_a_row_of_five_contradictions_has_all_five_types(pick: str) -> None:
    candidates = [
        *[make_candidate(f"It is {number}.", "entity") for number in range(100)],
        *[make_candidate(f"It has {number}.", "predicate") for number in range(100)],
        make_candidate("It was.", "link"),
        make_candidate("It is here.", "circumstance"),
        make_candidate("She is.", "coreference"),
    ]

    [row] = choose_all_rows([make_example(candidates)], pick=pick, contradictions=5)

    assert types_of(row) == {"entity", "predicate", "link", "circumstance", "coreference"}


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_a_row_of_many_contradictions_has_no_text_twice(pick: str) -> None:
    """The choice compares 24 candidates at most, so the other six are chosen without comparison."""
    document = make_example([*COMMON_TYPES, *RARE_TYPES])

    [row] = choose_all_rows([document], pick=pick, contradictions=30)

    distinct_texts = texts_of(row.contradictions)
    assert len(distinct_texts) == 30


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_the_contradictions_of_a_row_edit_different_words(pick: str, seed: int) -> None:
    """Different words count more than different types, which two edits of "nine" would have."""
    completion = "She sold nine boats on Monday in Oslo."
    candidates = [
        make_candidate("She sold nine boats on Friday in Oslo.", "circumstance"),
        make_candidate("She sold nine boats on Tuesday in Oslo.", "circumstance"),
        make_candidate("She sold nine boats on Monday in Bergen.", "circumstance"),
        make_candidate("She sold eight boats on Monday in Oslo.", "entity"),
        make_candidate("She sold seven boats on Monday in Oslo.", "link"),
    ]

    [row] = choose_all_rows([make_example(candidates, completion=completion)], seed, pick=pick)

    texts = texts_of(row.contradictions)
    assert len(texts) == 3
    assert sum("Monday" not in text for text in texts) == 1
    assert sum("Oslo" not in text for text in texts) == 1
    assert sum("nine" not in text for text in texts) == 1


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_contradictions_share_an_edited_word_as_a_last_resort(pick: str) -> None:
    """A row with two edits of "Monday" is better than no row."""
    candidates = [
        make_candidate("She sold nine boats on Friday.", "circumstance"),
        make_candidate("She sold nine boats on Tuesday.", "circumstance"),
        make_candidate("She sold eight boats on Monday.", "entity"),
    ]
    document = make_example(candidates, completion="She sold nine boats on Monday.")

    [row] = choose_all_rows([document], pick=pick)

    assert texts_of(row.contradictions) == {
        "She sold nine boats on Friday.",
        "She sold nine boats on Tuesday.",
        "She sold eight boats on Monday.",
    }


def test_rejected_and_repeated_candidates_do_not_count() -> None:
    """Only two different contradictions are left, and a row needs three."""
    candidates = [
        make_candidate("One."),
        make_candidate("One. "),
        make_candidate("Two."),
        make_candidate("Three.", rejected="filter: not fluent"),
    ]

    [outcome] = choose([make_example(candidates)])

    assert isinstance(outcome, Example)
    assert outcome.unused.startswith("choose: fewer than 3 contradictions")


def test_the_reason_names_the_stage_that_rejected_the_most_contradictions() -> None:
    """The stage ``filter`` rejected two of three, so the user may relax that filter."""
    candidates = [
        make_candidate("One.", rejected="contradiction: not contradictory"),
        make_candidate("Two.", rejected="filter: not fluent"),
        make_candidate("Three.", rejected="filter: not scored"),
    ]

    [outcome] = choose([make_example(candidates)])

    assert isinstance(outcome, Example)
    reason = "fewer than 3 contradictions; the stage filter rejected most"
    assert outcome.unused == f"choose: {reason}"


def test_a_document_with_contradictions_of_too_few_types_gives_no_row() -> None:
    candidates = [
        make_candidate("It is 1.", "entity"),
        make_candidate("It is 2.", "entity"),
        make_candidate("It is 3.", "entity"),
    ]

    [outcome] = choose([make_example(candidates)], min_types=2)

    assert isinstance(outcome, Example)
    assert outcome.unused == "choose: contradictions of fewer than 2 types"


def test_the_desired_shares_of_types_are_reached_over_the_rows() -> None:
    """Eight rows have 24 contradictions, of which two thirds shall be entity errors."""
    candidates = [
        make_candidate(f"{error_type} {number}.", error_type)
        for error_type in ("entity", "predicate", "link")
        for number in range(3)
    ]
    examples = [make_example(candidates) for _ in range(8)]

    rows = choose_all_rows(examples, balance={"entity": 2, "predicate": 1})

    counts_by_type: Counter[str] = Counter()
    for row in rows:
        counts_by_type.update(contradiction.type for contradiction in row.contradictions)
    assert counts_by_type == {"entity": 16, "predicate": 8}


def test_unused_document_passes_unchanged() -> None:
    """The build reports at its end why an earlier stage dropped the document."""
    unused = Example("a", unused="select: empty")

    assert choose([unused]) == [unused]


def make_biased_examples(count: int) -> list[Example]:
    """Return documents about prices of grain, in which every edit is unusual for the corpus.

    Prices mostly rise, in round numbers, and names are short. The contradictions often fall, have
    other numbers and longer names, so that a random choice gives the true completion away.
    """
    rng = random.Random(0)
    examples = []
    for number in range(count):
        verb = "rose" if rng.random() < 0.65 else "fell"
        opposite = "fell" if verb == "rose" else "rose"
        amount = rng.choice([10, 20, 30, 40, 57, 68])
        name = rng.choice(["Ode", "Ilm", "Sollingen", "Harkenau"])
        text = f"The price of {name} grain {verb} by {amount} percent last year."

        candidates = [
            make_candidate(text.replace(verb, opposite), "predicate"),
            make_candidate(text.replace(verb, f"never {verb}"), "predicate"),
        ]
        for new_amount in (10, 20, 57, 68, 1057):
            if new_amount != amount:
                edited = text.replace(str(amount), str(new_amount))
                candidates.append(make_candidate(edited, "circumstance"))
        for new_name in ("Ode", "Ilm", "Sollingen", "Upper Sollingen", "Ülmenau"):
            if new_name != name:
                candidates.append(make_candidate(text.replace(name, new_name)))
        examples.append(make_example(candidates, str(number), text))
    return examples


def choices_of(row: ChosenRow) -> list[str]:
    """Return the choices of a row, the true completion first."""
    contradictions = [contradiction.text for contradiction in row.contradictions]
    return [row.example.completion, *contradictions]


def best_blind_accuracy(rows: Sequence[ChosenRow]) -> float:
    """Return the accuracy of the best rule that sees only a surface statistic, such as the length.

    Each rule picks the choice with the greatest value of a statistic, or the least. By chance, it
    is the true completion in a quarter of the rows.
    """
    accuracies = []
    for statistic in STATISTICS.values():
        for sign in (1, -1):
            hits = 0.0
            for row in rows:
                values = [sign * statistic(text) for text in choices_of(row)]
                hits += pick_probabilities(values)[0]
            accuracies.append(hits / len(rows))
    return max(accuracies)


def mean_word_excess(rows: Sequence[ChosenRow]) -> float:
    """Return by how many words per row the contradictions differ from the true completions.

    Over all rows, a word that the contradictions have too often makes up for another row in which
    they lack it. A value of 0 means that words tell nothing about truth.
    """
    excess: Counter[str] = Counter()
    for row in rows:
        for contradiction in row.contradictions:
            excess.update(contradiction.text.split())
            excess.subtract(row.example.completion.split())
    return sum(map(abs, excess.values())) / len(rows)


def test_balanced_choice_leaks_less_by_surface_than_random_choice() -> None:
    """A model could pick the true completion by its length or its numbers, without knowledge."""
    examples = make_biased_examples(300)

    balanced = choose_all_rows(examples, pick="balanced")
    random_rows = choose_all_rows(examples, pick="random")

    # Chance is 0.25.
    assert best_blind_accuracy(balanced) < 0.28
    assert best_blind_accuracy(random_rows) > 0.3


def test_balanced_choice_leaks_less_by_words_than_random_choice() -> None:
    """A model must not recognise contradictions by words that they have too often.

    The measure is the number of such words in a row, here at least a fifth less.
    """
    examples = make_biased_examples(300)

    balanced = choose_all_rows(examples, pick="balanced")
    random_rows = choose_all_rows(examples, pick="random")

    assert mean_word_excess(balanced) < 0.8 * mean_word_excess(random_rows)


def most_central_choice(row: ChosenRow) -> str:
    """Return the choice of a row that has the most words in common with the others."""
    choices = choices_of(row)

    def count_unshared_words(choice: str) -> int:
        words = set(choice.split())
        return sum(len(words ^ set(other_choice.split())) for other_choice in choices)

    return min(choices, key=count_unshared_words)


def count_true_central(rows: Iterable[ChosenRow]) -> int:
    """Count the rows whose most central choice is the true completion."""
    return sum(most_central_choice(row) == row.example.completion for row in rows)


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_the_true_completion_is_the_most_central_choice_if_that_is_not_hidden(pick: str) -> None:
    """All contradictions are edits of it, so it has the most words in common with the others."""
    rows = choose_all_rows(make_biased_examples(200), pick=pick, hide_most_central=False)

    assert count_true_central(rows) == 200


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_the_most_central_choice_can_be_hidden(pick: str) -> None:
    """Otherwise a rule that picks the choice most like the others would always be right."""
    rows = choose_all_rows(make_biased_examples(200), pick=pick, hide_most_central=True)

    # By chance it is the true completion in a quarter of 200 rows (standard deviation 6).
    assert 40 <= count_true_central(rows) <= 60


@pytest.mark.parametrize("pick", ["balanced", "random"])
def test_rows_with_a_hidden_central_choice_have_three_types_and_distinct_texts(pick: str) -> None:
    """To hide it, the edit of one contradiction is made in the others too."""
    rows = choose_all_rows(make_biased_examples(200), pick=pick, hide_most_central=True)

    for row in rows:
        assert types_of(row) == {"entity", "predicate", "circumstance"}
        assert len(set(choices_of(row))) == 4


def test_two_edits_are_combined_unless_they_change_neighbouring_words() -> None:
    """Two edits of neighbouring words together may make no sense."""
    completion = "The red house rose in 1900."
    candidates = [
        make_candidate("The red house fell in 1900."),
        make_candidate("The blue house rose in 1900."),
        make_candidate("The red barn rose in 1870."),
    ]

    compounds = combine_edits(completion, candidates)

    # The third edit changes "house", which stands beside "red" and "rose".
    assert compounds.keys() == {CandidatePair(0, 1), CandidatePair(1, 0)}
    assert texts_of(compounds.values()) == {"The blue house fell in 1900."}


def test_a_row_has_no_compounds_if_some_edits_cannot_be_combined() -> None:
    """A contradiction with one edit among others with two edits would stand out."""
    candidates = [
        make_candidate("The red house fell in 1900."),
        make_candidate("The blue house rose in 1900."),
        make_candidate("The red barn rose in 1870."),
    ]
    document = make_example(candidates, completion="The red house rose in 1900.")

    [row] = choose_all_rows([document], hide_most_central=True)

    assert texts_of(row.contradictions) == {
        "The red house fell in 1900.",
        "The blue house rose in 1900.",
        "The red barn rose in 1870.",
    }
