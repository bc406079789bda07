"""The stage: pools by type, repeatability, and any text at all."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from factor_gen.generate.rules.generator import RulesGenerator
from factor_gen.records import ERROR_TYPES, Candidate, Example
from factor_gen.settings import GenerateSettings, TypesSettings
from factor_gen.types import TypesStage

TYPES = TypesStage(TypesSettings())
PREFIX = "Mary Hollis met Peter Lund in Oslo. Anna Berg said Norway had bought the mill. "
TEXT = "On Monday she sold 36 boats to the largest bank in Norway because the river rose sharply after the storm."


def generator(seed: int = 0, per_type: int = 4) -> RulesGenerator:
    return RulesGenerator(
        GenerateSettings(generator="rules", per_type=per_type), TypesSettings(), seed
    )


def made(text: str, prefix: str = PREFIX, seed: int = 0, per_type: int = 4) -> Example:
    return generator(seed, per_type).run(TYPES.run([Example("1", prefix, text)]))[0]


def replayed(text: str, edit: str) -> set[str]:
    """All texts that the recorded replacements can make, in order from left to right."""
    states = {("", text)}
    for part in edit.split("; "):
        old, new = part.split(" -> ", 1)
        states = {
            (done + rest[:at] + new, rest[at + len(old) :])
            for done, rest in states
            for at in range(len(rest) + 1)
            if rest.startswith(old, at)
        }
    return {done + rest for done, rest in states}


def check(text: str, candidate: Candidate) -> None:
    assert candidate.text.casefold() != text.casefold()
    assert candidate.type in ERROR_TYPES
    assert candidate.generator.startswith("rules/")
    assert candidate.edit.strip()
    assert candidate.text.count("  ") <= text.count("  ")
    assert candidate.text[-1:] == text[-1:] or text[-1:].isalnum()
    if "; " not in text and " -> " not in text and len(text) < 2000:
        assert candidate.text in replayed(text, candidate.edit)


def test_all_that_can_be_made_is_offered_where_a_filter_follows() -> None:
    example = TYPES.run([Example("1", PREFIX, TEXT)])
    settings_ = GenerateSettings(generator="rules", per_type=30), TypesSettings(), 0
    (few,), (many,) = (
        RulesGenerator(*settings_, filtered=each).run(example) for each in (False, True)
    )
    assert {each.text for each in few.candidates} < {each.text for each in many.candidates}


def test_a_question_has_no_contradiction() -> None:
    assert made("After she sold the boats, can the bank in Norway buy 36 boats?").unused


def test_what_contradicts_nothing_is_counted() -> None:
    example = made("The mill sold over 300 boats in Oslo on Monday because the river rose.")
    assert not any("over 2" in each.text or "over 4" in each.text for each in example.candidates)
    assert example.lost["rules: quantities that may both hold"] >= 1


@pytest.mark.parametrize(
    "text",
    [
        "The gnutls_global_init() call is kept.",
        "The file small.txt is kept there by Anna.",
        "It is kept with --large as option.",
    ],
)
def test_identifiers_stay(text: str) -> None:
    word = next(each for each in text.split() if "_" in each or "." in each[:-1] or "-" in each)
    assert all(word in each.text for each in made(text).candidates)


def test_several_types_and_operators() -> None:
    example = made(TEXT)
    assert {each.type for each in example.candidates} >= {
        "entity",
        "predicate",
        "circumstance",
        "coreference",
    }
    assert len({each.generator for each in example.candidates}) >= 5
    assert len({each.text for each in example.candidates}) == len(example.candidates)
    for each in example.candidates:
        check(TEXT, each)


def test_more_values_only_where_there_are_too_few_contradictions() -> None:
    few = [each.generator for each in made("The mill burned in 1921.", per_type=9).candidates]
    assert few == ["rules/date"] * 4
    many = [each.generator for each in made(TEXT, per_type=9).candidates]
    assert (many.count("rules/number"), many.count("rules/date")) == (2, 2)


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("The mill was sold.", ["The mill was never sold."]),
        ("They store the grain in sacks.", ["They no longer store the grain in sacks."]),
        ("The mill has oaken pegs.", ["The mill no longer has oaken pegs."]),
        (
            "You can see the river from the mill.",
            ["You can no longer see the river from the mill."],
        ),
        ("She opened the gate.", ["She never opened the gate."]),
        ("Turn the wheel.", ["Never turn the wheel."]),
        ("To see the yard, open the gate.", []),
        ("In order to see the yard, open the gate.", []),
        ("The mill was sold in 1921.", []),  # never in 1921
        ("The mill is often repaired by them.", []),
    ],
)
def test_a_denial_in_other_words_where_little_else_is_left(text: str, others: list[str]) -> None:
    found = {
        each.text: each
        for each in made(text, per_type=9).candidates
        if each.generator == "rules/negation in time"
    }
    assert list(found) == others
    assert all(each.doubtful == 1 for each in found.values())


def test_the_seed_and_the_document_decide() -> None:
    assert made(TEXT).candidates == made(TEXT).candidates
    assert made(TEXT, seed=1).candidates != made(TEXT).candidates
    alone = generator().run(TYPES.run([Example("1", PREFIX, TEXT)]))[0]
    among = generator().run(
        TYPES.run([Example("0", "", "He left on Monday."), Example("1", PREFIX, TEXT)])
    )[1]
    assert alone == among


def test_no_contradiction_is_a_reason() -> None:
    assert made("Oh, boats and boats.", prefix="").unused == "generate: no contradiction"


def test_unused_examples_pass() -> None:
    unused = Example("1", unused="types: nothing to edit")
    assert generator().run([unused]) == [unused]


def test_the_fingerprint_tells_seeds_and_sizes_apart() -> None:
    assert generator().fingerprint == generator().fingerprint
    assert generator().fingerprint != generator(seed=1).fingerprint
    assert generator().fingerprint != generator(per_type=2).fingerprint


PIECES = st.sampled_from(
    [
        TEXT,
        "He did not sell it.",
        "<p>On Jan. 3, 2019 5.6%</p>",
        "\u0000",
        "\U0001f600",
        "\u202eשלום",
        " ",
        "\n",
        "-",
        "a a an ",
        "(Reuters) - ",
        "“",
        "'s",
        "1,000,000",
        "May",
    ]
)


@settings(max_examples=80, deadline=None)
@given(
    st.text(max_size=200) | st.lists(PIECES, max_size=8).map("".join),
    st.text(max_size=100) | st.just(PREFIX),
)
def test_any_text(text: str, prefix: str) -> None:
    for each in made(text, prefix).candidates:
        check(text, each)


@pytest.mark.parametrize(
    "text",
    ["word", "a" * 100_000, "Tarn " * 20_000, "1," * 50_000, "“" * 50_000, "He said. " * 2_000],
)
def test_long_texts_take_no_long_time(text: str) -> None:
    start = time.process_time()
    made(text, prefix=text)
    assert (
        time.process_time() - start < 20
    )  # of the processor; a rule that looks back from each word takes minutes


def test_news(shared: Path) -> None:
    with (shared / "data" / "factor" / "news_factor.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = list(csv.DictReader(file))[:200]
    examples = generator().run(
        TYPES.run([Example(row["doc_id"], row["full_prefix"], row["completion"]) for row in rows])
    )
    enough = 0
    distances = []
    for row, example in zip(rows, examples, strict=True):
        enough += (
            len(example.candidates) >= 3 and len({each.type for each in example.candidates}) >= 2
        )
        for each in example.candidates:
            check(row["completion"], each)
            distances.append(Levenshtein.distance(row["completion"].split(), each.text.split()))
    assert enough >= 0.56 * len(rows)  # 0.58
    assert sum(distances) / len(distances) <= 2.5
