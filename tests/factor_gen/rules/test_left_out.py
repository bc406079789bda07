"""One of two things that are named together, left out; each refusal beside a neighbour that is
allowed."""

from __future__ import annotations

import random

import pytest

from factor_gen.generate.rules.left_out import OPERATOR, left_out
from factor_gen.generate.rules.sentence import read
from factor_gen.records import ENTITY
from tests.factor_gen.rules.support import TAGGER, results

CASES: list[tuple[str, str, str, str]] = [
    # ground, what is refused, its neighbour that is allowed, what becomes of that
    (
        "both",
        "She bought both boats and mills.",
        "She bought boats and mills.",
        "She bought boats but not mills.",
    ),
    (
        "or",
        "She bought either boats or mills.",
        "She bought boats or mills.",
        "She bought boats but not mills.",
    ),
    (
        "together",
        "She bought the boat and the mill together.",
        "She bought the boat and the mill.",
        "She bought the boat but not the mill.",
    ),
    (
        "what is shared",
        "They wrote of boats and mills that share an owner.",
        "They wrote of boats and mills.",
        "They wrote of boats but not mills.",
    ),
    (
        "between",
        "She chose between boats and mills.",
        "She chose from boats and mills.",
        "She chose from boats but not mills.",
    ),
    (
        "as",
        "They were kept as boats and mills.",
        "They were kept in boats and mills.",
        "They were kept in boats but not mills.",
    ),
    (
        "like",
        "She wrote of towns like boats and mills.",
        "She wrote of towns in boats and mills.",
        "She wrote of towns in boats but not mills.",
    ),
    (
        "than",
        "She was older than the boats and the mills.",
        "She was older in the boats and the mills.",
        "She was older in the boats but not the mills.",
    ),
    (
        "of two numbers",
        "She bought a boat and mills.",
        "She bought a boat and a mill.",
        "She bought a boat but not a mill.",
    ),
    (
        "one article for both",
        "She bought her boat and mill.",
        "She bought her boat and her mill.",
        "She bought her boat but not her mill.",
    ),
    (
        "no article and no plural",
        "She wrote of wood and coal.",
        "She wrote of woods and coals.",
        "She wrote of woods but not coals.",
    ),
    (
        "names",
        "She bought Tarn and Vale.",
        "She bought a Tarn and a Vale.",
        "She bought a Tarn but not a Vale.",
    ),
    (
        "adjectives of one thing",
        "She bought old and green boats.",
        "She bought old boats and green boats.",
        "She bought old boats but not green boats.",
    ),
    (
        "subjects",
        "In May the boat and the mill were sold.",
        "In May she bought the boat and the mill.",
        "In May she bought the boat but not the mill.",
    ),
    (
        "no verb before them",
        "Of boats and mills, she wrote.",
        "She wrote of boats and mills.",
        "She wrote of boats but not mills.",
    ),
    (
        "another verb after them",
        "She bought boats and mills in towns that were old.",
        "She bought boats and mills in towns, that were old.",
        "She bought boats but not mills in towns, that were old.",
    ),
    (
        "two clauses",
        "She bought boats and mills were sold.",
        "She bought boats and mills; they were sold.",
        "She bought boats but not mills; they were sold.",
    ),
    (
        "no end",
        "She bought boats and mills quickly.",
        "She bought boats and mills.",
        "She bought boats but not mills.",
    ),
    (
        "two verbs",
        "She bought boats and wrote of them.",
        "She bought boats and mills.",
        "She bought boats but not mills.",
    ),
    (
        "a title",
        "She read “That Was How He Saw boats and mills.”",
        "She read “that was how he saw boats and mills.”",
        "She read “that was how he saw boats but not mills.”",
    ),
    (
        "after a comma",
        "She bought the boat, and was old.",
        "She bought the boat, and the mill.",
        "She bought the boat, but not the mill.",
    ),
]


@pytest.mark.parametrize(
    ("refused", "allowed", "expected"),
    [each[1:] for each in CASES],
    ids=[each[0] for each in CASES],
)
def test_one_of_two(refused: str, allowed: str, expected: str) -> None:
    assert results(left_out, refused, tries=1) == set()
    assert results(left_out, allowed, tries=1) == {expected}


def test_each_pair_by_itself() -> None:
    found = list(
        left_out(
            read(TAGGER, "", "She bought boats and mills, or towns and rivers."), random.Random(0)
        )
    )
    assert [(each.operator, each.type, each.replacements[0].new) for each in found] == [
        (OPERATOR, ENTITY, "but not")
    ] * len(found)
    assert results(left_out, "She wrote of boats and mills to towns and rivers.", tries=1) == {
        "She wrote of boats but not mills to towns and rivers.",
        "She wrote of boats and mills to towns but not rivers.",
    }
