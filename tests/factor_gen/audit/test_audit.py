"""Planted leaks are found, clean files are found clean, and the published files' figures are as
known."""

from __future__ import annotations

import json
import random
import re
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
from tests.factor_gen.audit.rows import Change, on_false, on_true, row, synthetic


@pytest.fixture(scope="module")
def clean() -> BenchmarkAudit:
    return audit_rows(synthetic())


def test_nothing_is_found_where_choices_are_drawn_alike(clean: BenchmarkAudit) -> None:
    assert clean.leaks == []
    assert {flag.reason for flag in clean.flags} <= {"edit of more than half of the words"}
    learned = clean.baseline(CLASSIFIER)
    assert learned.pairs_won.low <= 0.5 <= learned.pairs_won.high
    first, floor, _ = summarise_audit(clean, "clean")
    assert first.startswith(
        "clean: no blind baseline tells true completions from contradictions; the best, "
    )
    assert "Guess baseline: 24." in floor or "Guess baseline: 25." in floor
    assert ", not 25.0%" not in floor


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            on_true(lambda text: text.replace(" by ", " by all of ")),
            {"most words", "most characters"},
        ),
        (
            on_false(lambda text: text.replace(" by ", " by all of ")),
            {"least words", "least characters"},
        ),
        (
            on_true(lambda text: text.replace("council", "Council")),
            {"most capital letters", "most capitalised words"},
        ),
        (on_true(lambda text: text.replace(".", " .")), {"most spaces before punctuation"}),
        (on_true(lambda text: text.replace(" year ", " year, ")), {"most punctuation marks"}),
        (on_true(lambda text: text.replace("old", "öld")), {"most rare characters"}),
        (on_true(lambda text: text.replace("near", "near 5")), {"most digits"}),
        (on_true(lambda text: text.replace("In the", "At the")), {"first in sorted order"}),
    ],
)
def test_what_can_be_seen_is_found(change: Change, found: set[str]) -> None:
    rows = synthetic(80, change)
    assert found <= {
        each.name
        for each in evaluate_baselines(list(surface_scores(rows)), rows)
        if each.is_above_chance
    }


def test_edits_that_say_nothing_are_above_no_chance_though_the_true_one_is_seldom_the_greatest() -> (
    None
):
    """Each contradiction has one word more or one less, by lot: of four choices the true one is the
    greatest in an eighth."""

    def edits(texts: list[str], dice: random.Random) -> list[str]:
        edited = [
            texts[0].replace(f" {word}", dice.choice(("", f" {word} {word}")))
            for word in ("old", "near", "day")
        ]
        return [texts[0], *edited]

    found = audit_rows(synthetic(160, edits, share=1))
    words = [found.baseline(f"{end} words") for end in ("most", "least")]
    assert sum(each.rows_won.value for each in words) == pytest.approx(0.25, abs=0.06)
    assert sum(each.pairs_won.value for each in words) == pytest.approx(1)
    assert not any(each.is_above_chance for each in words)

    def change(texts: list[str], dice: random.Random) -> list[str]:
        true, *false = edits(texts, dice)
        return [true.replace(" by ", " by all of ") if dice.random() < 0.3 else true, *false]

    leaking = audit_rows(synthetic(160, change, share=1))
    most = leaking.baseline("most words")
    assert most.is_above_chance
    assert most in leaking.leaks
    first, floor, _ = summarise_audit(leaking, "planted")
    assert first.startswith("planted: gives true completions away: ")
    assert "chance 50%, p < 0.001" in first
    assert ", not 25.0%" in floor


def test_places_are_counted_as_the_choice_of_contradictions_counts_them() -> None:
    texts = ["Aa bb, cc.", "Aa bb cc.", "aa bb, cc 12.", "Aa bb, cc!"]
    rows = [row(*texts)]
    taken = (
        BalanceLedger(3)
        .rank_changes(texts[0], texts[1:], np.array([[0, 1, 2]]))
        .reshape(len(STATISTICS) + 1, 4)
    )
    found = {
        each.name: each.rows_won.value for each in evaluate_baselines([*surface_scores(rows)], rows)
    }
    orders = [
        *((f"least {name}", f"most {name}") for name in STATISTICS),
        ("first in sorted order", "last in sorted order"),
    ]
    for (least, most), shares in zip(
        orders, taken / 12 + 0.25, strict=True
    ):  # parts of a row above an even share
        assert (found[least], found[most]) == pytest.approx((shares[0], shares[-1]))


def test_a_true_one_in_the_middle_of_its_edits_is_told_with_a_way_out(
    clean: BenchmarkAudit,
) -> None:
    def edits(texts: list[str], _: random.Random) -> list[str]:
        return [
            texts[0],
            *(texts[0].replace(f" {word} ", f" {word}s ") for word in ("old", "near", "day")),
        ]

    found = audit_rows(synthetic(40, edits, share=1))
    assert found.baseline(CENTRAL).rows_won.value == 1
    advice = summarise_audit(found, "edits")[1]
    assert "Picking the most central choice wins 100.0%" in advice
    assert "hide_most_central: true" in advice
    assert "hide_most_central" not in summarise_audit(clean, "clean")[1]


def test_copies_count_once() -> None:
    rows = synthetic(20)
    found = audit_rows(
        [*rows, *(replace(each, doc_id=f"copy of {each.doc_id}") for each in rows[:5] * 9)]
    )
    assert (found.rows, found.sampled) == (65, 20)


def test_a_vocabulary_of_contradictions_is_found_by_the_classifier_and_by_nothing_that_is_seen() -> (
    None
):
    change = on_false(lambda text: text.replace("spring", "winter"))  # of the same length
    found = audit_rows(synthetic(100, change, share=0.6))
    leaks = [leak.name for leak in found.leaks]
    assert CLASSIFIER in leaks
    assert not [name for name in leaks if name.startswith(("most", "least"))]
    assert found.baseline(CLASSIFIER).rows_won.value > 0.6


def test_baselines_see_a_sample_and_say_so(clean: BenchmarkAudit) -> None:
    found = audit_rows(synthetic(), sample_size=40)
    assert found.rows == 150
    assert found.sampled == 40
    assert all(each.rows == 40 for each in found.baselines)
    assert "40 of 150 rows" in found.notes[0]
    assert found.distance == clean.distance


def test_one_document_has_no_others_to_learn_from() -> None:
    found = audit_rows(
        [
            replace(row, doc_id="same")
            for row in synthetic(60, on_true(lambda text: text.upper()), 1)
        ]
    )
    assert CLASSIFIER not in {each.name for each in found.baselines}
    assert any("one document" in note for note in found.notes)
    verdicts = {row[-1] for row in baseline_table(found, "one").rows}
    assert verdicts == {"too few documents to tell"}
    assert (
        summarise_audit(found, "one")[0]
        == "one: 1 documents are too few to tell what it gives away; 10 are needed."
    )
    json.dumps(found.to_json(), allow_nan=False)


def test_types_are_counted_and_rows_that_cannot_be_scored_left_out() -> None:
    rows = [replace(each, error_types=("", "Entity", "entity", "link")) for each in synthetic(4)]
    rows.append(make_row("file:9", "d9", None, ["a b", "c d"], 0, ["", ""]))
    found = audit_rows(rows)
    assert found.types == {"entity": 8, "link": 4}
    assert (found.rows, found.sampled) == (5, 4)
    assert found.flags[-1].reason == "cannot be scored"


def test_no_rows_at_all() -> None:
    found = audit_rows([])
    assert found.baselines == ()
    assert json.dumps(found.to_json(), allow_nan=False)
    assert paper_table(found).rows[0][1] == "-"


@pytest.fixture(scope="module")
def expert(shared: Path) -> tuple[list[Row], BenchmarkAudit]:
    rows = read_benchmark(str(shared / "data" / "factor" / "expert_factor.csv")).rows
    return list(rows), audit_rows(rows)


def test_expert_gives_most_answers_away_by_spacing(
    expert: tuple[list[Row], BenchmarkAudit],
) -> None:
    _, found = expert
    assert (found.rows, found.documents) == (236, 175)
    spaces = found.baseline("most spaces before punctuation")
    assert spaces.rows_won.value == pytest.approx(0.740, abs=5e-4)
    assert spaces.is_above_chance
    only_true = [
        flag
        for flag in found.flags
        if flag.reason == "only the true one has a space before punctuation"
    ]
    assert len(only_true) == 148
    assert found.baseline(
        "most central (least summed edit distance)"
    ).rows_won.value == pytest.approx(0.843, abs=5e-4)
    assert (found.distance.mean, found.distance.deviation) == pytest.approx(
        (4.0, 3.1), abs=0.2
    )  # table 2


def test_normalised_spacing_leaves_only_double_spaces_of_expert_to_find(
    shared: Path, monkeypatch: pytest.MonkeyPatch, expert: tuple[list[Row], BenchmarkAudit]
) -> None:
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(shared / "data" / "factor"))
    published, _ = expert

    cleaned = read_benchmark(str(TASKS / "factor" / "expert_factor_clean.yaml")).rows

    for row_before, row_after in zip(published, cleaned, strict=True):
        for before, after in zip(row_before.choices, row_after.choices, strict=True):
            assert after == re.sub(r"\s+([.,;:!?])", r"\1", before)
    audit = audit_rows(cleaned)
    assert [leak.name for leak in audit.leaks] == [CLASSIFIER]
    assert audit.baseline("most spaces before punctuation").pairs_won.value == 0.5
    assert audit.guess_baseline.value == pytest.approx(0.158, abs=0.005)
