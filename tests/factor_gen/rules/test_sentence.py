"""Verbs whose denial would not deny the sentence: in relative clauses, or with a subject that
counts or picks out."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from factor_gen.generate.rules import negation
from factor_gen.generate.rules.edits import Edit
from factor_gen.generate.rules.sentence import Sentence, read
from tests.factor_gen.rules.support import TAGGER, results

QUALIFIED: list[tuple[str, str, bool]] = [
    # sentence, verb, whether it is qualified
    ("The boats are old.", "are", False),
    ("The boats that are old burned.", "are", True),
    ("The boats which are old burned.", "are", True),
    ("The man who was old left.", "was", True),
    ("The man whose boat was old left.", "was", True),
    ("The town where he was born burned.", "was", True),
    ("The boat you bought was old.", "bought", True),  # no relative pronoun
    ("The boat you bought was old.", "was", False),
    ("The boat the man bought was old.", "bought", True),
    ("In those days the town was old.", "was", False),
    ("Last year the house was a museum.", "was", False),
    ("You bought the boat.", "bought", False),
    ("The man knew that she bought it.", "knew", False),
    ("The man knew that she bought it.", "bought", True),
    ("That was old.", "was", False),  # a pronoun of its own
    ("What he bought, was old.", "was", False),  # another clause
    ("All boats are old.", "are", True),
    ("Each boat was old.", "was", True),
    ("Every man in the town was old.", "was", True),
    ("Both boats were old.", "were", True),
    ("Everything was old.", "was", True),
    ("No boats are old.", "are", True),
    ("None were old.", "were", True),
    ("In all, the boats are old.", "are", False),
    ("The boats are all old.", "are", False),
]


@pytest.mark.parametrize(("text", "verb", "expected"), QUALIFIED)
def test_what_is_qualified(text: str, verb: str, expected: bool) -> None:
    sentence = read(TAGGER, "", text)
    assert sentence.is_qualified(sentence.small.index(verb)) is expected


def denied(sentence: Sentence, rng: random.Random) -> Iterable[Edit]:
    return negation.denials(sentence)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The man bought the mill.", {"The man did not buy the mill."}),
        ("Every man bought the mill.", set()),
        ("The boats are old.", {"The boats are not old."}),
        ("All boats are old.", set()),
        ("The boat will be sold.", {"The boat will not be sold."}),
        ("Each boat will be sold.", set()),
        ("The boat you bought was old.", {"The boat you bought was not old."}),
        ("It is a mill that was old.", {"It is not a mill that was old."}),
        ("It is much older than the mill.", set()),
        ("To see the yard, the gate is opened.", set()),
        ("Let users have access to it.", set()),
        ("It raises an exception in this case.", {"It does not raise an exception in this case."}),
        ("He was sadly killed in the mill.", set()),
        ('The mark is " " in the second table.', set()),
        ("To see the yard, open the gate.", {"To see the yard, do not open the gate."}),
        ("In order to see the yard, the gate is opened.", set()),
        ("In order not to wake them, the gate is opened.", set()),
        ("In order to quickly see the yard, the gate is opened.", set()),
        (
            "In order to see the yard, open the gate.",
            {"In order to see the yard, do not open the gate."},
        ),
        ("So as to see the yard, the gate is opened.", set()),
        ("The more it rains, the fuller it is.", set()),
        ("Each time it rains, the boats are moved.", set()),
        ("The boat was sold, as well as the mill.", set()),
        ("You should know the town.", set()),
        ("Much grain is sold.", {"Much grain is not sold."}),  # left out for what it asserts
        ("They would have a boat.", {"They would not have a boat."}),
        ("They have had a boat.", {"They have not had a boat."}),
        ("The oak has fully grown roots.", set()),
        (
            "The oak has slowly grown into the mill.",
            {"The oak has not slowly grown into the mill."},
        ),
        ("They have carefully painted the boats.", {"They have not carefully painted the boats."}),
        ("The boats have masts.", {"The boats do not have masts."}),
        ("The boats have the masts painted.", set()),
        ("The boat is deeper now.", {"The boat is not deeper now."}),
        ("It is fully automatic.", {"It is not fully automatic."}),
        ("It is probably automatic.", set()),
    ],
)
def test_what_is_qualified_is_not_denied(text: str, expected: set[str]) -> None:
    assert results(denied, text, tries=1) == expected
