"""What a judge replies about a generation: true, false or neutral, or why it is unscored."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from judges.typed import Reply, Typed

Label = Literal["true", "false", "neutral"]
TRUE, FALSE, NEUTRAL = MARKS = get_args(Label)


class MarkReply(Reply):
    """What a generation says about the fact."""

    reason: str
    mark: Label


@dataclass(frozen=True)
class Mark:
    """``label`` is one of ``MARKS``; if it is None, ``reason`` says why."""

    label: str | None
    reason: str | None = None


def vote(replies: Sequence[Typed[MarkReply]]) -> Mark:
    """Several replies about one generation as one mark: the commonest; what could not be read has no vote."""
    counts = Counter(each.value.mark for each in replies if each.value).most_common(2)
    if not counts:
        return Mark(None, replies[0].problem if replies else "no answer")
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return Mark(None, "a tie between answers")
    return Mark(counts[0][0])
