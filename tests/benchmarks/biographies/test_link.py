"""Equation 1, and the scores that follow."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pytest

from lm_factuality.benchmarks.biographies.decisions import read_decisions
from lm_factuality.benchmarks.biographies.link import link_greedily, link_groups, link_one_to_one
from lm_factuality.benchmarks.biographies.scores import (
    attributed_entities,
    length_penalty,
    response_type,
    score_biography,
)
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, Judgement
from tests.benchmarks.biographies.recorded import generation

OUTCOMES = {"+": "supported", "-": "not_supported", "?": "unscored", "i": "irrelevant"}


def matrix_of(*rows: str) -> tuple[tuple[Judgement, ...], ...]:
    """A row of signs for each fact, a sign for each entity."""
    return tuple(tuple(Judgement(OUTCOMES[sign]) for sign in row) for row in rows)


def judged(groups, *rows: str, linking="greedy", protocol="paper", titles=None) -> JudgedBiography:
    entities = tuple(titles or (f"E{number}" for number in range(len(rows[0]))))
    matrix = matrix_of(*rows)
    links = link_groups(groups, entities, matrix, linking, protocol)
    facts = tuple(Fact(f"fact {number}", 0) for number in range(len(rows)))
    return JudgedBiography(
        generation("E", "E was.", entities), ("E was.",), facts, groups, entities, matrix, links
    )


def test_greedy_and_hungarian_differ_where_two_individuals_want_one_entity():
    rows = ("+-", "+-", "++", "+-", "++")
    groups = ((0, 1), (2, 3, 4))
    one, other = judged(groups, *rows), judged(groups, *rows, linking="hungarian")
    assert (one.links, other.links) == ((0, 0), (0, 1))
    assert score_biography(one)["d_factscore"] == 1
    assert score_biography(other)["d_factscore"] == pytest.approx(4 / 5)
    assert score_biography(one)["factscore"] == score_biography(other)["factscore"] == 1
    assert (score_biography(one)["num_entities"], score_biography(other)["num_entities"]) == (1, 2)


def test_ties_go_to_the_entity_that_was_retrieved_earlier_or_to_the_alphabet():
    assert judged(((0, 1),), "++", "++", titles=("Zed", "Abe")).links == (0,)
    assert judged(((0, 1),), "++", "++", titles=("Zed", "Abe"), protocol="code").links == (1,)


def test_more_individuals_than_entities():
    rows, groups = ("+", "+", "+"), ((0,), (1, 2))
    assert judged(groups, *rows).links == (0, 0)
    found = judged(groups, *rows, linking="hungarian")
    assert found.links == (None, 0)
    assert score_biography(found)["d_factscore"] == pytest.approx(2 / 3)


def test_an_individual_that_nothing_supports_has_no_entity():
    found = judged(((0,), (1, 2)), "--", "-+", "?-")
    assert found.links == (None, 1)
    scores = score_biography(found)
    assert (scores["d_factscore"], scores["unscored_grouped"]) == (
        pytest.approx(1 / 3),
        0,
    )  # the page decides on the last fact
    assert (scores["factscore"], scores["unscored"]) == (pytest.approx(1 / 2), 1)
    nobody = score_biography(judged(((0, 1),), "?-", "--"))
    assert (nobody["d_factscore"], nobody["d_factscore_worst"], nobody["d_factscore_best"]) == (
        0,
        0,
        0.5,
    )


def test_hungarian_is_the_best_assignment_and_greedy_the_best_for_each():
    draw = random.Random(3)
    for _ in range(200):
        rows, columns = draw.randint(1, 4), draw.randint(1, 4)
        counts = np.array([[draw.randint(0, 5) for _ in range(columns)] for _ in range(rows)])
        order = list(range(columns))
        chosen = link_one_to_one(counts, order)
        taken = [entity for entity in chosen if entity is not None]
        assert len(taken) == len(set(taken))
        reached = sum(
            counts[row, entity] for row, entity in enumerate(chosen) if entity is not None
        )
        padded = [*order, *([None] * rows)]
        best = max(
            sum(counts[row, entity] for row, entity in enumerate(each) if entity is not None)
            for each in itertools.permutations(padded, rows)
        )
        assert reached == best
        for row, entity in zip(counts, link_greedily(counts, order), strict=True):
            assert (entity is None and not row.any()) or row[entity] == row.max()


def test_irrelevant_facts_count_in_the_denominator_and_are_told():
    scores = score_biography(judged(((0, 1, 2, 3),), "+-", "ii", "i-", "i+"))
    assert (scores["factscore"], scores["irrelevant"]) == (0.5, 1)
    assert scores["d_factscore"] == 0.25


def test_a_fact_is_from_its_own_individuals_entity_if_that_supports_it():
    found = judged(((0, 1), (2, 3)), "+++", "-++", "-+-", "+--", titles=("C", "B", "A"))
    assert found.links == (1, 1) or found.links == (1, 0)
    assert attributed_entities(found)[:2] == [1, 1]
    assert attributed_entities(found, "code") == [1, 1, 1, 0]
    assert attributed_entities(judged(((0,),), "--")) == [None]


@pytest.mark.parametrize(
    "name",
    [
        "chatgpt-0301__ambig",
        "chatgpt-0301__no-ambig",
        "llama2-13b-chat__ambig",
        "llama2-13b-chat__no-ambig",
    ],
)
def test_the_code_protocol_keeps_what_the_authors_attributed(name, shared):
    """The released files have of each fact's supporters only the one chosen: it is chosen again,
    and their mean number of entities follows."""
    decisions = read_decisions(shared / "data" / "ambigbio" / "decisions" / f"{name}.json.gz")
    numbers = []
    for response in filter(None, decisions.responses):
        titles = sorted(
            {fact.supporting_topic for fact in response.facts if fact.supporting_topic is not None}
        ) or ["nobody"]
        rows = [
            "".join("+" if fact.supporting_topic == title else "-" for title in titles)
            for fact in response.facts
        ]
        found = judged((tuple(range(len(rows))),), *rows, titles=titles)
        chosen = [
            None if entity is None else titles[entity]
            for entity in attributed_entities(found, "code")
        ]
        assert chosen == [fact.supporting_topic for fact in response.facts]
        numbers.append(score_biography(found, "code")["num_entities"])
    published = json.loads((shared / "reference" / "ambigbio_figures.json").read_text())[name]
    assert sum(numbers) / len(numbers) == pytest.approx(
        published["num_supporting_topics"], abs=1e-12
    )


@pytest.mark.parametrize(
    ("biographies", "entities", "kind"),
    [
        (1, 1, "one_bio_one_entity"),
        (1, 3, "one_bio_many_entities"),
        (2, 2, "many_bios_many_entities"),
        (2, 1, "other"),
        (1, 0, "other"),
        (3, 2, "many_bios_many_entities"),
    ],
)
def test_types_of_section_2_4(biographies, entities, kind):
    assert response_type(biographies, entities) == kind


def test_the_length_penalty():
    assert length_penalty(10) == length_penalty(25) == 1
    assert length_penalty(5) == pytest.approx(math.exp(-1))
    scores = score_biography(judged((tuple(range(5)),), *["+"] * 5))
    assert (scores["factscore"], scores["factscore_penalised"]) == (1, pytest.approx(math.exp(-1)))


def test_scores_lie_between_worst_and_best_and_d_factscore_never_above():
    draw = random.Random(5)
    for _ in range(500):
        size, columns = draw.randint(1, 8), draw.randint(1, 3)
        rows = ["".join(draw.choices("+-?i", k=columns)) for _ in range(size)]
        cut = draw.randint(0, size)
        groups = tuple(group for group in (tuple(range(cut)), tuple(range(cut, size))) if group)
        scores = score_biography(
            judged(groups, *rows, linking=draw.choice(("greedy", "hungarian")))
        )
        for value, worst, best in (
            (scores["factscore"], scores["factscore_worst"], scores["factscore_best"]),
            (scores["d_factscore"], scores["d_factscore_worst"], scores["d_factscore_best"]),
        ):
            assert worst <= best
            assert value is None or worst <= value <= best
        assert scores["d_factscore_worst"] <= scores["factscore_worst"]
        if "?" not in "".join(rows):
            assert scores["difference"] >= 0
