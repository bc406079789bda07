"""What has to follow a phrase, and stand before it, so that another of its line contradicts the
sentence."""

from __future__ import annotations

from functools import partial

import pytest

from factor_gen.generate.rules import phrases
from tests.factor_gen.rules.support import results

STAYS, ADVERB, COMPARISON, QUANTITY, PLACE, ORDER, CAUSE = (
    None,
    "adverb",
    "comparison",
    "quantity",
    "place and time",
    "order",
    "cause",
)

CASES: list[tuple[str, str, str | None]] = [
    # operator, sentence, what becomes of it
    # an obligation taken away
    (ADVERB, "She has to sell the mill.", "She does not have to sell the mill."),
    (ADVERB, "They have to sell the mill.", "They do not have to sell the mill."),
    (ADVERB, "They had to sell the mill.", "They did not have to sell the mill."),
    (ADVERB, "They need to sell the mill.", "They do not need to sell the mill."),
    (ADVERB, "She needs to sell the mill.", "She does not need to sell the mill."),
    (ADVERB, "They must sell the mill.", "They need not sell the mill."),
    (ADVERB, "They may sell the mill.", "They cannot sell the mill."),
    (ADVERB, "They will have to sell the mill.", STAYS),
    (ADVERB, "They did have to sell the mill.", STAYS),
    (ADVERB, "She is said to have to sell the mill.", STAYS),
    (ADVERB, "The men who have to sell the mill left.", STAYS),
    (ADVERB, "All men have to sell the mill.", STAYS),
    (ADVERB, "They felt the need to sell the mill.", STAYS),
    (ADVERB, "She has to the north a mill.", STAYS),
    (ADVERB, "All men must sell the mill.", STAYS),
    (ADVERB, "The men who must sell the mill left.", STAYS),
    (ADVERB, "They must have sold the mill.", STAYS),
    (ADVERB, "They may want to sell the mill.", STAYS),
    # how often
    (ADVERB, "They usually sell.", "They rarely sell."),
    (ADVERB, "They usually do not sell.", STAYS),
    (ADVERB, "They must usually sell.", STAYS),
    # one of a kind, or another
    (COMPARISON, "She kept it in the same place.", "She kept it in a different place."),
    (COMPARISON, "She kept it in a different place.", "She kept it in the same place."),
    (COMPARISON, "She kept it in another place.", "She kept it in the same place."),
    (COMPARISON, "She kept the same place.", STAYS),
    (COMPARISON, "She kept it in the same places.", STAYS),
    (COMPARISON, "It came with version 3 or later.", "It came with version 3 or earlier."),
    (COMPARISON, "She sold more than 30 boats.", "She sold less than 30 boats."),
    (COMPARISON, "It rose to more than 30 boats.", STAYS),
    # by doing, or without
    (PLACE, "She left without selling the mill.", "She left by selling the mill."),
    (PLACE, "She left by selling the mill.", "She left without selling the mill."),
    (PLACE, "Save the mill by selling boats.", STAYS),
    (PLACE, "She left without selling any mill.", STAYS),
    (PLACE, "She left by having a boat.", STAYS),
    # quantities
    (QUANTITY, "All boats are old.", "Few boats are old."),
    (QUANTITY, "It is filled with all boats.", STAYS),
    (QUANTITY, "The mill has a wheel.", "The mill has no wheel."),
    (QUANTITY, "The mill which has a wheel burned.", STAYS),
    (QUANTITY, "Every mill has a wheel.", STAYS),
    (QUANTITY, "All of the boats are old.", "None of the boats are old."),
    (QUANTITY, "More than one boat is old.", "Only one boat is old."),
    # order
    (ORDER, "She came after the storm.", "She came before the storm."),
    (ORDER, "She came after a while.", STAYS),
    (ORDER, "She came after all.", STAYS),
    (ORDER, "She came after; it was old.", STAYS),
    (ORDER, "She came after a long time.", STAYS),
    (ORDER, "She came after the few minutes.", STAYS),
    # causes and conditions
    (CAUSE, "It closed because the roof was open.", STAYS),
    (CAUSE, "It closed only because of the leak.", STAYS),
    (CAUSE, "It closed, or because of the leak.", STAYS),
    (CAUSE, "Although it closed because of the leak, she left.", STAYS),
    (CAUSE, "It closed because of the rain.", "It closed despite the rain."),
    (CAUSE, "It closed due to the rain.", "It closed despite the rain."),
    (CAUSE, "They were due to the rain.", STAYS),
    (CAUSE, "They were because of the rain.", STAYS),
    (CAUSE, "It closes only if the mill closes.", "It closes even if the mill closes."),
    (CAUSE, "It closes only when the mill closes.", "It closes even when the mill closes."),
    (CAUSE, "It closes if the mill closes.", "It closes unless the mill closes."),
    (CAUSE, "It closes if the mill does not close.", STAYS),
    (CAUSE, "It closes if the mill closes, or else it burns.", STAYS),
    (CAUSE, "It closes if the mill closes, but only in May.", STAYS),
    (CAUSE, "It closes regardless of the rain.", "It closes depending on the rain."),
]


@pytest.mark.parametrize(
    ("operator", "text", "expected"), CASES, ids=[f"{each[0]}-{each[1]}" for each in CASES]
)
def test_what_stands_around_a_phrase(
    operator: str, text: str, expected: str | None, always: None
) -> None:
    found = results(partial(phrases.phrase, operator), text)
    assert (expected in found) if expected else found == set()
