"""Marks by a judge that reads no prompt and knows only whether passages support a claim (a classifier, the lexical one).

It is asked twice of each generation: does the finished sentence (to word overlap: what the model wrote after the stem) support
the true wording of the fact, and does it support the false one? The wording with the higher score wins if that score is enough
for "supported"; otherwise, and where both score the same, the generation is neutral. So a generation that violates the fact in
words of its own is neutral to this judge, not false: it sees only the row's own false wording. Wordings that do not differ in a
content word ("he" and "she", "is" and "is not") are beyond word overlap, and their generations are unscored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judges.lexical.words import read
from judges.verify import SUPPORTED, Pair, Verification, verify
from lm_factuality.benchmarks.factor_generation.marks import FALSE, NEUTRAL, TRUE, Mark

if TYPE_CHECKING:
    from judges.judge import Judge

CAUTION = (
    "The judge reads no prompt and sees only whether a generation supports the row's own true or false wording: one that states "
    "(to word overlap) or violates the fact in other words counts as neutral. A language model as the judge can find those."
)
NO_CONTENT_WORD = "the wordings differ in no content word, all that the lexical judge sees"


def pairs(subjects: Sequence[Mapping[str, Any]], by_words: bool) -> list[Pair]:
    """The two questions about each of ``subjects`` that can be asked, the true wording's first. Subjects are those of the
    prompt ``factor_generation/mark``. ``by_words``: the judge sees content words alone."""
    return [pair for subject in subjects if _can_tell(subject, by_words) for pair in _pairs(subject, by_words)]


def marks(judge: Judge, subjects: Sequence[Mapping[str, Any]], description: str) -> list[Mark]:
    """The mark of each of ``subjects``."""
    by_words = judge.config.capabilities.by_words
    found = iter(verify(judge, pairs(subjects, by_words), description))
    return [_mark(next(found), next(found)) if _can_tell(each, by_words) else Mark(None, NO_CONTENT_WORD) for each in subjects]


def _pairs(subject: Mapping[str, Any], by_words: bool) -> list[Pair]:
    if not by_words:
        return [Pair(subject[wording], (subject["sentence"],)) for wording in ("correct", "incorrect")]
    written = subject["sentence"][len(subject["stem"]) :].strip()
    return [Pair(subject[edit], (written,)) for edit in ("true_edit", "false_edit")]


def _can_tell(subject: Mapping[str, Any], by_words: bool) -> bool:
    if not by_words:
        return True
    true, false = read(subject["true_edit"]).stems, read(subject["false_edit"]).stems
    return bool(true and false and true != false)


def _mark(true: Verification, false: Verification) -> Mark:
    for each in (true, false):
        if each.score is None:
            return Mark(None, each.reason)
    if true.score == false.score:
        return Mark(NEUTRAL)
    winner, label = max((true, TRUE), (false, FALSE), key=lambda pair: pair[0].score or 0.0)
    return Mark(label if winner.verdict == SUPPORTED else NEUTRAL)
