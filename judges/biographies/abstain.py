"""Whether a response declines to give a biography; such a response has no facts and is in no score but the respond ratio."""

from __future__ import annotations

import re

from judges.felm.claims import split_sentences
from judges.felm_gen.answers import no_answer

_DECLINES = re.compile(  # in the first person, or of the whole answer
    r"^\W*(?:(?:i'?m|i am)(?: \w+){0,2} sorry\b|(?:sorry|apologies)\b|i apologi[sz]e\b|"
    r"unfortunately,? (?:i|there (?:is|are) (?:no|not))\b|i (?:\w+ )?(?:can'?t|cannot|can not|could ?n[o']t|could not|am unable|"
    r"was unable|am not able|do not have|don't have|did not find|didn't find|found no)\b)",
    re.IGNORECASE,
)  # fmt: skip
_NOTHING_FOUND = re.compile(
    r"\b(?:no|not enough|not any|insufficient|no sufficient|no relevant) (?:\w+ ){0,3}?(?:information|details?|data|results?)"
    r"\b|\b(?:do|does|did) not (?:\w+ )?(?:contain|include|provide|mention|have|give)\b|\bnone of the\b|"
    r"\bno (?:person|individual|one)\b|\b(?:could|can) ?not be (?:found|written|provided|determined)\b|"
    r"\bnot (?:possible|clear)\b|\bplease (?:provide|specify|give)\b",
    re.IGNORECASE,
)  # fmt: skip


def is_abstention(output: str) -> bool:
    """Whether the response is empty, begins by declining in the first person ("I'm sorry, ..."), or says in every sentence that
    nothing was found. One that complains of scant information and then gives some is no abstention."""
    text = output.replace("\u2019", "'").strip()
    if no_answer(text) is not None or _DECLINES.match(text):
        return True
    sentences = split_sentences(text)
    return all(_NOTHING_FOUND.search(sentence) for sentence in sentences)
