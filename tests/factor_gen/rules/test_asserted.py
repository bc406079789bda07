"""A change of what a sentence doesn't assert contradicts nothing: a sentence for each ground, and a
neighbour that is allowed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from factor_gen.generate.rules import asserted
from factor_gen.generate.rules.asserted import REASONS, unasserted
from factor_gen.generate.rules.edits import edit
from factor_gen.generate.rules.sentence import Sentence, read
from factor_gen.generate.rules.words import frequency
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, LINK, PREDICATE
from tests.factor_gen.rules.support import TAGGER

PHRASE, CONCEDED, GROUND, DENIED, CONDITION, POSSIBLE, SEVERAL = (
    "part of a fixed phrase",
    "part of a concession",
    "a ground for what follows",
    "part of a denial",
    "part of a condition",
    "one of several that may be",
    "an example, or one of two",
)
FLIP, TURN = "negation added", "negation removed"
Case = tuple[str, str, str, str, str]  # text, operator, type, old, new

REFUSED: list[tuple[str, Case, Case]] = [
    # reason, what is refused, its neighbour that is allowed
    (
        PHRASE,
        ("On the other hand she sold it.", "property", ENTITY, "other", "same"),
        ("She sold the other mill.", "property", ENTITY, "other", "same"),
    ),
    (
        PHRASE,
        ("On the other hand she sold it.", "name", ENTITY, "other hand", "left foot"),
        ("On the other hand she sold it.", "name", ENTITY, "On the other hand", "At once"),
    ),
    # conceded
    (
        CONCEDED,
        ("She left although the river rose.", "antonym", PREDICATE, "rose", "fell"),
        ("She left although the river rose.", "noun", ENTITY, "river", "lake"),
    ),
    (
        CONCEDED,
        ("Despite the rain the river rose.", "antonym", PREDICATE, "rose", "fell"),
        ("Despite the rain, the river rose.", "antonym", PREDICATE, "rose", "fell"),
    ),
    # at odds with what follows
    (
        GROUND,
        ("The bank refused to wait until May.", "antonym", PREDICATE, "refused", "agreed"),
        ("The bank refused to wait in May.", "antonym", PREDICATE, "refused", "agreed"),
    ),
    (
        GROUND,
        ("The bank refused to wait until May.", "antonym", PREDICATE, "refused", "agreed"),
        ("The bank refused to wait until May.", "antonym", PREDICATE, "refused", "never had"),
    ),
    *(
        (
            GROUND,
            ("The river rose quickly because it rained.", operator, kind, old, new),
            ("The river rose quickly as it rained.", operator, kind, old, new),
        )
        for operator, kind, old, new in (
            ("antonym", PREDICATE, "rose", "fell"),
            ("adverb", CIRCUMSTANCE, "quickly", "slowly"),
            ("comparison", CIRCUMSTANCE, "quickly", "slowly"),
        )
    ),
    (
        GROUND,
        ("The river rose so it rained.", "antonym", PREDICATE, "rose", "fell"),
        ("It rained so the river rose.", "antonym", PREDICATE, "rose", "fell"),
    ),
    (
        GROUND,
        ("It will sell boats and buy mills.", FLIP, PREDICATE, "will", "will not"),
        ("It will sell boats and mills.", FLIP, PREDICATE, "will", "will not"),
    ),
    (
        GROUND,
        ("Much grain is sold.", FLIP, PREDICATE, "is", "is not"),
        ("The grain is sold.", FLIP, PREDICATE, "is", "is not"),
    ),
    (
        GROUND,
        ("Some boats are green.", FLIP, PREDICATE, "are", "are not"),
        ("The boats are green.", FLIP, PREDICATE, "are", "are not"),
    ),
    (
        GROUND,
        ("Several men always sail.", "adverb", PREDICATE, "always", "never"),
        ("Several men always sail.", "adverb", CIRCUMSTANCE, "always", "seldom"),
    ),
    (
        GROUND,
        ("Some boats are green.", FLIP, PREDICATE, "are", "are not"),
        ("Some boats are green.", "antonym", PREDICATE, "are", "were"),
    ),
    (
        GROUND,
        ("The boat is green. The boat sails.", FLIP, PREDICATE, "is", "is not"),
        ("The boat sails. The boat is green.", FLIP, PREDICATE, "is", "is not"),
    ),
    (
        GROUND,
        ("The boat is green and opens there.", FLIP, PREDICATE, "is", "is not"),
        ("The boat sails and is green.", FLIP, PREDICATE, "is", "is not"),
    ),
    *(
        (
            GROUND,
            (f"Shut the door, {word} the mill burns.", FLIP, PREDICATE, "Shut", "Do not shut"),
            (f"Shut the door, {other} the mill burns.", FLIP, PREDICATE, "Shut", "Do not shut"),
        )
        for word, other in (("or", "where"), ("otherwise", "where"), ("meaning", "where"))
    ),
    # denied
    (
        DENIED,
        ("Do not open it on Monday.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
        ("Do open it on Monday.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
    ),
    (
        DENIED,
        ("They didn’t open it on Monday.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
        ("They didn’t come, they left it on Monday.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
    ),
    (
        DENIED,
        ("They never opened it on Monday.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
        (
            f"They never opened it {'very ' * 90}late on Monday.",
            "date",
            CIRCUMSTANCE,
            "Monday",
            "Tuesday",
        ),
    ),
    (
        DENIED,
        ("They never opened it (on Monday).", "noun", ENTITY, "it", "mills"),
        ("They never opened it (on Monday).", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
    ),
    (
        DENIED,
        ("The mill (never on Monday) opened.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
        ("The mill (never new) opened on Monday.", "date", CIRCUMSTANCE, "Monday", "Tuesday"),
    ),
    (
        DENIED,
        ("She never does not open it.", "noun", ENTITY, "it", "mills"),
        ("She never does not open it.", TURN, PREDICATE, "does not open", "opens"),
    ),
    (
        DENIED,
        ("She never came before he left.", "order", LINK, "before", "after"),
        ("She never came before he left.", "cause", LINK, "before", "because"),
    ),
    *(
        (
            DENIED,
            (f"She sold the mill {words} a boat.", "noun", ENTITY, "boat", "ship"),
            (f"She sold the mill {words} a boat.", "noun", ENTITY, "mill", "farm"),
        )
        for words in (
            "instead of",
            "rather than",
            "other than",
            "apart from",
            "except for",
            "as though",
        )
    ),
    # supposed
    *(
        (
            CONDITION,
            (f"The gate shuts {words} the river rises.", "antonym", PREDICATE, "rises", "falls"),
            (f"The gate shut {words} the river rose.", "antonym", PREDICATE, "rose", "fell"),
        )
        for words in (
            "when",
            "whenever",
            "once",
            "till",
            "while",
            "each time",
            "every time",
            "by the time",
            "the next time",
        )
    ),
    *(
        (
            CONDITION,
            (f"The gate shuts {words} the river rises.", "antonym", PREDICATE, "rises", "falls"),
            ("The gate shuts and the river rises.", "antonym", PREDICATE, "rises", "falls"),
        )
        for words in ("until", "as soon as", "as long as")
    ),
    (
        CONDITION,
        ("The gate shuts when Mary Hollis comes.", "name", ENTITY, "Mary Hollis", "Anna Berg"),
        ("The gate shuts when she comes.", "pronoun", COREFERENCE, "she", "he"),
    ),
    *(
        (
            CONDITION,
            (f"The gate shut {word} the river rose.", "antonym", PREDICATE, "rose", "fell"),
            (
                f"The gate shut {word} it rained, the river rose.",
                "antonym",
                PREDICATE,
                "rose",
                "fell",
            ),
        )
        for word in ("supposing", "provided", "assuming", "lest")
    ),
    (
        CONDITION,
        ("If the river rose, she left.", "antonym", PREDICATE, "rose", "fell"),
        ("If she came, the river rose.", "antonym", PREDICATE, "rose", "fell"),
    ),
    *(
        (
            CONDITION,
            (f"He decided on {word} the mill opened.", "antonym", PREDICATE, "opened", "closed"),
            ("He decided on Monday, the mill opened.", "antonym", PREDICATE, "opened", "closed"),
        )
        for word in ("which", "what", "whose", "how", "who", "where")
    ),
    (
        CONDITION,
        ("As the river rose, she left.", "antonym", PREDICATE, "rose", "fell"),
        ("As the river rose, she left.", "noun", ENTITY, "river", "lake"),
    ),
    (
        CONDITION,
        ("She left if the mill, or the boat, was old.", "property", ENTITY, "old", "new"),
        ("She left, if the mill, or the boat, was old.", "property", ENTITY, "old", "new"),
    ),
    (
        CONDITION,
        ("She left unless the mill, or the boat, was old.", "property", ENTITY, "old", "new"),
        (
            "She left unless the mill, or the boat, burned; it was old.",
            "property",
            ENTITY,
            "old",
            "new",
        ),
    ),
    # possible
    (
        POSSIBLE,
        ("A boat leaves Tarn, May 3, 2023.", "date", CIRCUMSTANCE, "May", "June"),
        ("A boat left Tarn, May 3, 2023.", "date", CIRCUMSTANCE, "May", "June"),
    ),
    (
        POSSIBLE,
        ("The boats are seen in Tarn, May 3, 2023.", FLIP, PREDICATE, "are", "are not"),
        ("The boats are seen in Tarn, May 3.", FLIP, PREDICATE, "are", "are not"),
    ),
    *(
        (
            POSSIBLE,
            (f"The boat {word} carry wood there.", *change),
            ("The boat did carry wood there.", *change),
        )
        for word in ("can", "may", "might", "could", "possibly", "allows", "optionally")
        for change in [("noun", ENTITY, "wood", "coal")]
    ),
    *(
        (
            POSSIBLE,
            ("The boat may often carry wood outside.", *change),
            ("The boat did often carry wood outside.", *change),
        )
        for change in (
            ("antonym", PREDICATE, "carry", "drop"),
            ("adverb", CIRCUMSTANCE, "often", "seldom"),
            ("place and time", CIRCUMSTANCE, "outside", "inside"),
        )
    ),
    (
        POSSIBLE,
        ("The boat could carry wood in May.", "noun", ENTITY, "wood", "coal"),
        ("The boat could carry wood in May.", "date", CIRCUMSTANCE, "in May", "in June"),
    ),
    (
        POSSIBLE,
        ("In May the boat may carry wood.", "noun", ENTITY, "wood", "coal"),
        ("In May the boat carries wood.", "noun", ENTITY, "wood", "coal"),
    ),
    (
        POSSIBLE,
        ("The boat may carry mills and boats.", "noun", ENTITY, "mills", "barns"),
        ("The boat may carry mills and boats.", "left out", ENTITY, "and", "but not"),
    ),
    # numbers of an example
    *(
        (
            CONDITION,
            (f"The boat {word} carry 36 men in 1921.", operator, CIRCUMSTANCE, old, new),
            ("The boat could carry 36 men in 1921.", operator, CIRCUMSTANCE, old, new),
        )
        for word in ("may", "might", "say", "perhaps", "maybe")
        for operator, old, new in (("number", "36", "48"), ("date", "1921", "1923"))
    ),
    *(
        (
            CONDITION,
            (f"The boat carries 36 men{words}.", "number", CIRCUMSTANCE, "36", "48"),
            (f"The boat carries 36 men{words}.", "quantity", CIRCUMSTANCE, "36", "48"),
        )
        for words in (", for example", ", as you wish", ", as they choose", " in any town")
    ),
    (  # what was, and of what another clause says
        CONDITION,
        ("The boat carries 36 men in any town.", "number", CIRCUMSTANCE, "36", "48"),
        ("For example, it carried 36 men; any boat did.", "number", CIRCUMSTANCE, "36", "48"),
    ),
    (
        CONDITION,
        ("The boat may carry 36 men.", "number", CIRCUMSTANCE, "36", "48"),
        ("The boat carried 36 men in May.", "number", CIRCUMSTANCE, "36", "48"),
    ),
    (
        CONDITION,
        ("The boat carried 36 men, say.", "number", CIRCUMSTANCE, "36", "48"),
        (f"The boat carried 36 men{' very' * 90} often, say.", "number", CIRCUMSTANCE, "36", "48"),
    ),
    (
        POSSIBLE,
        ("The boat may carry wood.", "antonym", PREDICATE, "carry", "drop"),
        ("The boat may carry wood.", FLIP, PREDICATE, "carry", "not carry"),
    ),
    # one of several
    *(
        (
            SEVERAL,
            (f"She sold things {words} boats.", "noun", ENTITY, "boats", "ships"),
            (f"She sold things {words} wood; boats sank.", "noun", ENTITY, "boats", "ships"),
        )
        for words in ("e.g.", "i.e.", "such as", "for example", "for instance", "including")
    ),
    (
        SEVERAL,
        ("The list includes old boats.", "property", ENTITY, "old", "new"),
        ("The list (includes wood) has old boats.", "property", ENTITY, "old", "new"),
    ),
    (
        SEVERAL,
        ("She sold, for example, boats.", "noun", ENTITY, "boats", "ships"),
        ("For example, she sold boats.", "noun", ENTITY, "boats", "ships"),
    ),
    (
        SEVERAL,
        ("She sold things such as boats after May.", "noun", ENTITY, "boats", "ships"),
        ("She sold things such as boats after May.", "order", LINK, "after", "before"),
    ),
    (
        SEVERAL,
        ("She had things such as what was old.", "property", ENTITY, "old", "new"),
        ("She had things such as what was old.", FLIP, PREDICATE, "was", "was not"),
    ),
    (
        SEVERAL,
        ("It opened on Monday or Tuesday.", "date", CIRCUMSTANCE, "Monday", "Friday"),
        ("It opened on Monday and Tuesday.", "date", CIRCUMSTANCE, "Monday", "Friday"),
    ),
    (
        SEVERAL,
        ("It opened on Monday or Tuesday.", "date", CIRCUMSTANCE, "Tuesday", "Friday"),
        ("It opened on Monday or else Tuesday.", "date", CIRCUMSTANCE, "Tuesday", "Friday"),
    ),
    (
        SEVERAL,
        ("It opened on Monday and/or Tuesday.", "date", CIRCUMSTANCE, "Monday", "Friday"),
        ("It opened or closed on Monday.", "antonym", PREDICATE, "opened", "burned"),
    ),
]


def why(case: Case) -> str | None:
    text, operator, kind, old, new = case
    start = text.index(old)
    return unasserted(read(TAGGER, "", text), edit(operator, kind, (start, start + len(old), new)))


@pytest.mark.parametrize(
    ("reason", "refused", "allowed"),
    REFUSED,
    ids=[f"{number}-{each[1][0]}" for number, each in enumerate(REFUSED)],
)
def test_what_is_not_asserted_is_not_changed(
    reason: str, refused: Case, allowed: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why(refused) == reason
    assert why(allowed) is None
    monkeypatch.setattr(asserted, "REASONS", [name for name in REASONS if name != reason])
    assert why(refused) is None, "another ground refuses it too, so that the case proves nothing"


def test_what_only_seems_so_is_a_denial() -> None:
    assert why(("She smiled as if she owned a boat.", "noun", ENTITY, "boat", "ship")) == DENIED


def test_every_ground_has_a_case() -> None:
    assert {reason for reason, *_ in REFUSED} == set(REASONS)


SENTENCE = Sentence("It is a mill.", (), (), ())


@pytest.mark.parametrize(
    ("old", "other", "every", "share"),
    [
        ("mill", "house", False, 1.0),  # the commoner word is always taken
        ("house", "mill", False, None),  # the rarer one as often as it is met
        ("large", "big", False, 1.0),
        ("bought", "sold", False, None),
        ("mill", "zzqxv", False, None),  # a word nobody knows
        ("zzqxv", "mill", False, 1.0),
        ("house", "mill", True, 1.0),  # where there is little else to change
        ("mill", "zzqxv", True, 1.0),
    ],
)
def test_a_word_gives_way_to_another_as_often_as_that_is_met(
    old: str, other: str, every: bool, share: float | None
) -> None:
    tries, sentence = 4000, Sentence("It is a mill.", (), (), (), every=every)
    found = (
        sum(sentence.drawn(random.Random(seed), old, [other]) == [other] for seed in range(tries))
        / tries
    )
    expected = min(1.0, frequency(other) / frequency(old)) if share is None else share
    assert found == pytest.approx(expected, abs=0 if share else 0.03)


def test_words_are_drawn_one_by_one_in_any_order() -> None:
    drawn = Counter(
        tuple(SENTENCE.drawn(random.Random(seed), "zzqxv", ["mill", "boat", "house"]))
        for seed in range(600)
    )
    assert len(drawn) == 6  # each order of the three
    assert min(drawn.values()) > 60
    mixed = [SENTENCE.drawn(random.Random(seed), "house", ["home", "mill"]) for seed in range(300)]
    assert any(each == ["home"] for each in mixed)
    assert any(set(each) == {"home", "mill"} for each in mixed)
