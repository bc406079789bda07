"""What a judge says of a generation: true, false or neutral, or why it is unscored.

A judge that reads no prompt and knows only whether passages support a claim (a classifier, the lexical one) is asked twice of
each generation: does the finished sentence (to word overlap: what the model wrote after the stem) support the true wording of the
fact, and does it support the false one? The wording with the higher score wins if that score is enough for "supported";
otherwise, and where both score the same, the generation is neutral. So a generation that violates the fact in words of its own is
neutral to this judge, not false: it sees only the row's own false wording. Wordings that do not differ in a content word ("he"
and "she", "is" and "is not") are beyond word overlap, and their generations are unscored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from judges.lexical.words import read
from judges.typed import Reply, Typed
from judges.verify import SUPPORTED, Pair, Verification, verify

if TYPE_CHECKING:
    from judges.judge import Judge

CAUTION = (
    "The judge reads no prompt and sees only whether a generation supports the row's own true or false wording: one that states "
    "(to word overlap) or violates the fact in other words counts as neutral. A language model as the judge can find those."
)
_NO_CONTENT_WORD = "the wordings differ in no content word, all that the lexical judge sees"
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


def support_pairs(subjects: Sequence[Mapping[str, Any]], by_words: bool) -> list[Pair]:
    """The two questions about each of ``subjects`` that can be asked, the true wording's first. Subjects are those of the
    prompt ``factor_generation/mark``. ``by_words``: the judge sees content words alone."""
    return [pair for subject in subjects if _can_tell(subject, by_words) for pair in _pairs(subject, by_words)]


def support_marks(judge: Judge, subjects: Sequence[Mapping[str, Any]], description: str) -> list[Mark]:
    """The mark of each of ``subjects``."""
    by_words = judge.config.capabilities.by_words
    found = iter(verify(judge, support_pairs(subjects, by_words), description))
    return [_mark(next(found), next(found)) if _can_tell(each, by_words) else Mark(None, _NO_CONTENT_WORD) for each in subjects]


def _pairs(subject: Mapping[str, Any], by_words: bool) -> list[Pair]:
    if not by_words:
        return [Pair(subject[wording], (subject["sentence"],)) for wording in ("correct", "incorrect")]
    written = subject["sentence"][len(subject["stem"]) :].strip()
    return [Pair(subject[edit], (written,)) for edit in ("true_edit", "false_edit")]


def _can_tell(subject: Mapping[str, Any], by_words: bool) -> bool:
    true, false = (read(subject[edit]).stems for edit in ("true_edit", "false_edit"))
    return not by_words or bool(true and false and true != false)


def _mark(true: Verification, false: Verification) -> Mark:
    for each in (true, false):
        if each.score is None:
            return Mark(None, each.reason)
    if true.score == false.score:
        return Mark(NEUTRAL)
    winner, label = max((true, TRUE), (false, FALSE), key=lambda pair: pair[0].score or 0.0)
    return Mark(label if winner.verdict == SUPPORTED else NEUTRAL)
