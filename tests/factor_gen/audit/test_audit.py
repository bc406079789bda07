"""An audit finds planted leaks, none in clean rows, and the known ones of published files."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL, CLASSIFIER, surface_scores
from factor_gen.audit.evaluate import evaluate_baselines
from factor_gen.audit.read import read_benchmark
from factor_gen.audit.records import BenchmarkAudit
from factor_gen.audit.tables import baseline_table, paper_table, summarise_audit
from factor_gen.surface import STATISTICS, BalanceLedger
from lm_factuality.benchmarks.factor.rows import Row, make_row
from tests.conftest import TASKS
from tests.factor_gen.audit.rows import (
    Change,
    edit_completion,
    edit_contradictions,
    factor_row,
    synthetic_rows,
)


@pytest.fixture(scope="module")
def clean_audit() -> BenchmarkAudit:
    """Return the audit of rows in which nothing gives the true completion away."""
    return audit_rows(synthetic_rows())


def test_clean_rows_have_no_leaks(clean_audit: BenchmarkAudit) -> None:
    assert clean_audit.leaks == []


def test_clean_rows_are_flagged_only_for_large_edits(
    clean_audit: BenchmarkAudit,
) -> None:
    """The choices are random sentences, so they are no small edits of each other."""
    reasons = {flag.reason for flag in clean_audit.flags}

    assert reasons <= {"edit of more than half of the words"}


def test_a_classifier_learns_nothing_from_clean_rows(clean_audit: BenchmarkAudit) -> None:
    """By chance, a classifier wins half of the pairs."""
    pairs_won = clean_audit.baseline(CLASSIFIER).pairs_won

    assert pairs_won.low <= 0.5 <= pairs_won.high


def test_the_summary_says_that_clean_rows_have_no_leaks(clean_audit: BenchmarkAudit) -> None:
    [leaks, _guess_baseline, _flagged_rows] = summarise_audit(clean_audit, "clean")

    assert leaks.startswith(
        "clean: no blind baseline tells true completions from contradictions; the best, "
    )


def test_guesses_win_a_quarter_of_the_clean_rows(clean_audit: BenchmarkAudit) -> None:
    """A row has four choices, and nothing favours one of them."""
    [_leaks, guess_baseline, _flagged_rows] = summarise_audit(clean_audit, "clean")

    # If the interval did not contain 25%, "of rows, not 25.0%" would stand here.
    assert guess_baseline.startswith("Guess baseline: 24.6% (23.1% - 26.1%) of rows. ")


def names_above_chance(rows: Sequence[Row]) -> set[str]:
    """Return the surface baselines that tell true completions from contradictions."""
    baselines = evaluate_baselines(list(surface_scores(rows)), rows)
    return {baseline.name for baseline in baselines if baseline.is_above_chance}


@pytest.mark.parametrize(
    ("change", "leaks"),
    [
        pytest.param(
            edit_completion(lambda text: text.replace(" by ", " by all of ")),
            {"most words", "most characters"},
            id="more words",
        ),
        pytest.param(
            edit_contradictions(lambda text: text.replace(" by ", " by all of ")),
            {"least words", "least characters"},
            id="fewer words",
        ),
        pytest.param(
            edit_completion(lambda text: text.replace("council", "Council")),
            {"most capital letters", "most capitalised words"},
            id="a capital",
        ),
        pytest.param(
            edit_completion(lambda text: text.replace(".", " .")),
            {"most spaces before punctuation"},
            id="a space",
        ),
        pytest.param(
            edit_completion(lambda text: text.replace(" year ", " year, ")),
            {"most punctuation marks"},
            id="a comma",
        ),
        pytest.param(
            edit_completion(lambda text: text.replace("old", "öld")),
            {"most rare characters"},
            id="an umlaut",
        ),
        pytest.param(
            edit_completion(lambda text: text.replace("near", "near 5")),
            {"most digits"},
            id="a digit",
        ),
        pytest.param(
            edit_completion(lambda text: text.replace("In the", "At the")),
            {"first in sorted order"},
            id="another first letter",
        ),
    ],
)
def test_surface_leak_is_found(change: Change, leaks: set[str]) -> None:
    """The difference is planted in 70% of the rows, and each named baseline uses it."""
    assert names_above_chance(synthetic_rows(80, change)) >= leaks


def change_length_at_random(choices: list[str], rng: random.Random) -> list[str]:
    """Return edits of the true completion, each with one word more or less, by lot.

    The true completion has the most words only if all three edits lose one, in an eighth of the
    rows. Its number of words tells nothing else.
    """
    completion = choices[0]
    edited = []
    for word in ("old", "near", "day"):
        replacement = rng.choice(("", f" {word} {word}"))
        edited.append(completion.replace(f" {word}", replacement))
    return [completion, *edited]


def change_length_and_lengthen_some(choices: list[str], rng: random.Random) -> list[str]:
    """Change the lengths at random, and add two words to 30% of the true completions."""
    completion, *contradictions = change_length_at_random(choices, rng)
    if rng.random() < 0.3:
        completion = completion.replace(" by ", " by all of ")
    return [completion, *contradictions]


def test_random_lengths_are_no_leak() -> None:
    """Each contradiction has a word more or a word less than the true completion, by lot."""
    audit = audit_rows(synthetic_rows(160, change_length_at_random, share_changed=1))

    assert not audit.baseline("most words").is_above_chance
    assert not audit.baseline("least words").is_above_chance


def test_the_true_completion_is_the_longest_in_an_eighth_of_rows_of_random_lengths() -> None:
    """It has the most words only if all three contradictions lose a word: 1/2 * 1/2 * 1/2.

    It has the least words in another eighth of the rows.
    """
    audit = audit_rows(synthetic_rows(160, change_length_at_random, share_changed=1))

    most_words = audit.baseline("most words")
    least_words = audit.baseline("least words")
    rows_won = most_words.rows_won.value + least_words.rows_won.value
    assert rows_won == pytest.approx(1 / 8 + 1 / 8, abs=0.06)
    # One of the two baselines wins a pair if the other loses it.
    assert most_words.pairs_won.value + least_words.pairs_won.value == pytest.approx(1)


@pytest.fixture(scope="module")
def leaking_audit() -> BenchmarkAudit:
    """Return the audit of rows in which some true completions are longer."""
    return audit_rows(synthetic_rows(160, change_length_and_lengthen_some, share_changed=1))


def test_a_leak_in_some_rows_is_found_among_random_lengths(leaking_audit: BenchmarkAudit) -> None:
    """Three of ten true completions are two words longer."""
    most_words = leaking_audit.baseline("most words")

    assert most_words.is_above_chance
    assert most_words in leaking_audit.leaks


def test_summary_reports_leaks_and_guess_baseline(
    leaking_audit: BenchmarkAudit,
) -> None:
    """Some true completions are longer, which a blind rule can use.

    So a model without knowledge scores more than the 25% of four choices.
    """
    [leaks, guess_baseline, _flagged_rows] = summarise_audit(leaking_audit, "planted")

    assert leaks.startswith("planted: gives true completions away: ")
    assert "chance 50%, p < 0.001" in leaks
    assert ", not 25.0%" in guess_baseline


RANKED_CHOICES = ["Aa bb, cc.", "Aa bb cc.", "aa bb, cc 12.", "Aa bb, cc!"]
"""Choices that tie in some surface statistics and differ in others. The first is true."""


def test_audit_and_build_rank_choices_alike() -> None:
    """Otherwise the build would balance other ranks than those that the audit looks at."""
    row = factor_row(*RANKED_CHOICES)
    changes = BalanceLedger(3).rank_changes(
        RANKED_CHOICES[0], RANKED_CHOICES[1:], np.array([[0, 1, 2]])
    )
    # The ledger counts twelfths of a row above a fair share, for four ranks in each order.
    rank_shares = changes.reshape(-1, 4) / 12 + 0.25
    least_names = [f"least {name}" for name in STATISTICS] + ["first in sorted order"]
    most_names = [f"most {name}" for name in STATISTICS] + ["last in sorted order"]

    baselines = evaluate_baselines(list(surface_scores([row])), [row])

    rows_won = {baseline.name: baseline.rows_won.value for baseline in baselines}
    assert [rows_won[name] for name in least_names] == pytest.approx(list(rank_shares[:, 0]))
    assert [rows_won[name] for name in most_names] == pytest.approx(list(rank_shares[:, -1]))


def edit_three_words(choices: list[str], rng: random.Random) -> list[str]:
    """Return three edits of the true completion, each of which changes another word."""
    completion = choices[0]
    edited = []
    for word in ("old", "near", "day"):
        edited.append(completion.replace(f" {word} ", f" {word}s "))
    return [completion, *edited]


def test_summary_advises_to_hide_the_most_central_choice() -> None:
    """The most central choice has the most words in common with the others."""
    audit = audit_rows(synthetic_rows(40, edit_three_words, share_changed=1))

    assert audit.baseline(CENTRAL).rows_won.value == 1
    [_leaks, guess_baseline, _flagged_rows] = summarise_audit(audit, "edits")
    assert "Picking the most central choice wins 100.0%" in guess_baseline
    assert "hide_most_central: true" in guess_baseline


def test_no_advice_to_hide_the_most_central_choice_of_clean_rows(
    clean_audit: BenchmarkAudit,
) -> None:
    """In these rows, the most central choice is rarely the true completion."""
    [_leaks, guess_baseline, _flagged_rows] = summarise_audit(clean_audit, "clean")

    assert "Picking the most central choice wins 28.0%" in guess_baseline
    assert "hide_most_central" not in guess_baseline


def test_copies_of_rows_count_once() -> None:
    """Copies of a row are no further evidence."""
    rows = synthetic_rows(20)
    nine_copies_of_five_rows = rows[:5] * 9
    copies = [replace(row, doc_id=f"copy of {row.doc_id}") for row in nine_copies_of_five_rows]

    audit = audit_rows([*rows, *copies])

    assert audit.rows == 20 + 9 * 5
    assert audit.sampled == 20


def test_only_the_classifier_finds_telltale_words() -> None:
    """The two words have the same length, so the baselines of the surface find nothing."""
    change = edit_contradictions(lambda text: text.replace("spring", "winter"))

    audit = audit_rows(synthetic_rows(100, change, share_changed=0.6))

    leaks = [leak.name for leak in audit.leaks]
    assert CLASSIFIER in leaks
    assert not [name for name in leaks if name.startswith(("most", "least"))]
    assert audit.baseline(CLASSIFIER).rows_won.value > 0.6


@pytest.fixture(scope="module")
def sampled_audit() -> BenchmarkAudit:
    """Return the audit of 40 of the 150 clean rows."""
    return audit_rows(synthetic_rows(), sample_size=40)


def test_baselines_score_a_sample_of_the_rows(sampled_audit: BenchmarkAudit) -> None:
    """An audit of a million rows would take hours."""
    assert sampled_audit.rows == 150
    assert sampled_audit.sampled == 40
    assert {baseline.rows for baseline in sampled_audit.baselines} == {40}


def test_audit_of_a_sample_is_noted(sampled_audit: BenchmarkAudit) -> None:
    """Rare leaks may be missed in a sample."""
    assert "40 of 150 rows" in sampled_audit.notes[0]


def test_edit_distance_is_computed_over_all_rows(
    sampled_audit: BenchmarkAudit, clean_audit: BenchmarkAudit
) -> None:
    """It takes little time to compute, so no sample is needed."""
    assert sampled_audit.distance == clean_audit.distance


@pytest.fixture(scope="module")
def audit_of_one_document() -> BenchmarkAudit:
    """Return the audit of rows of one document, in which the true completion is in capitals."""
    rows = synthetic_rows(60, edit_completion(lambda text: text.upper()), share_changed=1)
    return audit_rows([replace(row, doc_id="same") for row in rows])


def test_no_classifier_learns_from_one_document(audit_of_one_document: BenchmarkAudit) -> None:
    """The classifier would have to learn from the document that it scores."""
    names = {baseline.name for baseline in audit_of_one_document.baselines}

    assert CLASSIFIER not in names
    assert any("one document" in note for note in audit_of_one_document.notes)


def test_leaks_of_one_document_are_not_reported(
    audit_of_one_document: BenchmarkAudit,
) -> None:
    """A habit of the author of the only document would look like a leak."""
    table = baseline_table(audit_of_one_document, "one")
    conclusion, *_ = summarise_audit(audit_of_one_document, "one")

    for *_, verdict in table.rows:
        assert verdict == "too few documents to tell"
    assert conclusion == "one: 1 documents are too few to tell what it gives away; 10 are needed."


def test_the_audit_of_one_document_is_valid_json(audit_of_one_document: BenchmarkAudit) -> None:
    """Numbers that are not defined are null, since JSON has no NaN."""
    text = json.dumps(audit_of_one_document.to_json(), allow_nan=False)

    [first_baseline, *_] = json.loads(text)["baselines"]
    assert first_baseline["p_value"] is None


def test_error_types_are_counted_ignoring_case() -> None:
    types = ("", "Entity", "entity", "link")
    rows = [replace(row, error_types=types) for row in synthetic_rows(4)]

    assert audit_rows(rows).types == {"entity": 8, "link": 4}


def test_unscorable_row_is_flagged_and_left_out() -> None:
    """The row has no prefix."""
    without_prefix = make_row("file:9", "d9", None, ["a b", "c d"], 0, ["", ""])

    audit = audit_rows([*synthetic_rows(4), without_prefix])

    assert audit.rows == 5
    assert audit.sampled == 4
    assert audit.flags[-1].reason == "cannot be scored"


def test_an_audit_of_no_rows_has_no_baselines() -> None:
    assert audit_rows([]).baselines == ()


def test_an_audit_of_no_rows_is_valid_json() -> None:
    """Numbers that are not defined are null, since JSON has no NaN."""
    text = json.dumps(audit_rows([]).to_json(), allow_nan=False)

    assert json.loads(text)["distance"] == {"mean": None, "deviation": None, "pairs": 0}


def test_the_edit_distance_of_no_rows_is_shown_as_a_dash() -> None:
    [first_row, *_] = paper_table(audit_rows([])).rows

    quantity, value_of_benchmark, *_values_of_paper = first_row
    assert quantity == "edit distance (words)"
    assert value_of_benchmark == "-"


@pytest.fixture(scope="module")
def expert_rows(shared: Path) -> list[Row]:
    """Return the rows of the published Expert-FACTOR."""
    return list(read_benchmark(str(shared / "data" / "factor" / "expert_factor.csv")).rows)


@pytest.fixture(scope="module")
def expert_audit(expert_rows: list[Row]) -> BenchmarkAudit:
    """Return the audit of the published Expert-FACTOR."""
    return audit_rows(expert_rows)


def test_every_row_of_expert_factor_is_audited(expert_audit: BenchmarkAudit) -> None:
    """The published file has 236 rows of 175 documents."""
    assert expert_audit.rows == 236
    assert expert_audit.documents == 175


def test_spacing_reveals_most_answers_of_expert_factor(expert_audit: BenchmarkAudit) -> None:
    """In many rows, only the true completion has a space before punctuation."""
    spaces = expert_audit.baseline("most spaces before punctuation")

    assert spaces.is_above_chance
    assert spaces.rows_won.value == pytest.approx(0.740, abs=5e-4)


def test_148_rows_of_expert_factor_are_flagged_for_their_spacing(
    expert_audit: BenchmarkAudit,
) -> None:
    """In these rows, only the true completion has a space before a full stop or comma."""
    reasons = [flag.reason for flag in expert_audit.flags]

    assert reasons.count("only the true one has a space before punctuation") == 148


def test_the_true_completion_of_expert_factor_is_mostly_the_most_central_choice(
    expert_audit: BenchmarkAudit,
) -> None:
    """Contradictions are edits of it, so it has the most in common with the others."""
    central = expert_audit.baseline("most central (least summed edit distance)")

    assert central.rows_won.value == pytest.approx(0.843, abs=5e-4)


def test_edit_distance_of_expert_factor_matches_table_2(
    expert_audit: BenchmarkAudit,
) -> None:
    """The paper states 4.0 ± 3.1 words."""
    assert expert_audit.distance.mean == pytest.approx(4.0, abs=0.2)
    assert expert_audit.distance.deviation == pytest.approx(3.1, abs=0.2)


@pytest.fixture(scope="module")
def cleaned_expert_rows(shared: Path) -> list[Row]:
    """Return the rows of Expert-FACTOR without spaces before punctuation, as our task has them."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))
        return list(read_benchmark(str(TASKS / "factor" / "expert_factor_clean.yaml")).rows)


def test_the_clean_expert_factor_differs_only_in_spaces_before_punctuation(
    expert_rows: list[Row], cleaned_expert_rows: list[Row]
) -> None:
    """So scores on both files can be compared."""
    for published, cleaned in zip(expert_rows, cleaned_expert_rows, strict=True):
        assert list(cleaned.choices) == [
            re.sub(r"\s+([.,;:!?])", r"\1", choice) for choice in published.choices
        ]


def test_only_the_classifier_finds_a_leak_in_the_clean_expert_factor(
    cleaned_expert_rows: list[Row],
) -> None:
    """The classifier learns that true completions have double spaces."""
    audit = audit_rows(cleaned_expert_rows)

    assert [leak.name for leak in audit.leaks] == [CLASSIFIER]
    assert audit.baseline("most spaces before punctuation").pairs_won.value == 0.5
    assert audit.guess_baseline.value == pytest.approx(0.158, abs=0.005)
