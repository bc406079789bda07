"""The words by which models say that something is right, wrong or uncertain.

FELM and FACTOR for chat models read answers with them. The lists are in ``words.yaml``.
"""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from lm_factuality.ground.packages import load_patterns

Verdict: TypeAlias = Literal["right", "wrong", "unsure"]

HEDGED = "hedged"
"""The reason why an answer with a reservation, such as "Mostly true", is unscored."""

TAKEN_BACK = "an answer that is taken back"
"""The reason why an answer is unscored if the text behind it says something else."""

_PATTERNS = load_patterns(__package__)


def first_verdict(text: str) -> Verdict | None:
    """Return what the first phrase of a text that judges something says.

    Example:
        ``is not wrong`` is right, ``contains an error`` is wrong, ``is mostly true`` is unsure,
        and ``was built in 1902`` has no verdict.
    """
    match = _PATTERNS["verdict"].search(text)
    # The groups of the pattern have the names of the verdicts.
    return match.lastgroup if match else None  # type: ignore[return-value]


def withdraws_answer(explanation: str) -> bool:
    """Return whether a text behind an answer withdraws the answer in so many words.

    Example:
        ``Wait, I misread it.`` withdraws it. ``Actually, it was built in 1902.`` explains it.
    """
    return bool(
        _PATTERNS["withdraws"].search(explanation)
        or _PATTERNS["actually_answers"].search(explanation)
    )


def texts_behind(matches: Sequence[re.Match[str]], text: str) -> list[str]:
    """Return the text behind each match of a pattern, up to the next match or the end of the text.

    Args:
        matches: The matches, in order.
        text: The text in which they were found.
    """
    starts = [*(match.start() for match in matches), len(text)]
    ends = [match.end() for match in matches]
    # The last start has no match, and ends what stands behind the last one.
    return [text[end:start] for end, start in zip(ends, starts[1:], strict=True)]
