"""Whether a response declines to give a biography; such a response has no facts and is in no score but the respond ratio."""

import re

from lm_factuality.benchmarks.felm_gen.answers import EMPTY, REFUSAL, no_answer
from lm_factuality.ground.packaged import load_words
from lm_factuality.ground.sentences import split_sentences

_WORDS = load_words(__package__)
_SORRY = r"(?:i'?m|i am)(?: \w+){0,2} sorry|(?:my )?(?:sorry|apologies)|i (?:\w+ )?apologi[sz]e"
_OPENING = rf"^\W*(?:(?:unfortunately|sadly|regrettably|however|{_SORRY})\b[\s,:;-]*(?:but |that )?)*"
# In the first person; or an apology that is all.
_DECLINES = re.compile(rf"{_OPENING}(?:i (?:\w+ )?(?:{_WORDS['cannot']})\b|\W*$)", re.IGNORECASE)
_NOTHING_FOUND = re.compile(_WORDS["nothing_found"], re.IGNORECASE)
_ASKS = re.compile(rf"^\W*(?:{_WORDS['asks']})", re.IGNORECASE)
_TURN = re.compile(
    r";\s*|,?\s+(?:but|although|though|however|yet|except|other than|apart from)\b[\s,]*(?:that\b\s*)?", re.IGNORECASE
)


def is_abstention(output: str) -> bool:
    """Whether the response is empty, or every sentence of it declines ("I'm sorry, I cannot ..."), says that nothing was found,
    or asks for more, and not all only ask. One that complains of scant information, or is sorry, and then tells something of
    anybody is no abstention: what it tells is judged."""
    text = output.replace("\u2019", "'").strip()
    if no_answer(text) == EMPTY:
        return True
    parts = [part for sentence in split_sentences(text) for part in _parts(sentence)]
    declining = [_declines(part) for part in parts]
    return any(declining) and all(
        declines or _ASKS.match(part) is not None for declines, part in zip(declining, parts, strict=True)
    )


def _parts(sentence: str) -> list[str]:
    """A sentence, cut where it turns ("..., but he was a painter"), without the words it opens with."""
    opening = re.match(_OPENING, sentence, re.IGNORECASE)
    start = opening.end() if opening else 0
    if not re.search(r"\w", sentence[start:]):
        return [sentence]
    return [part for part in _TURN.split(sentence[start:]) if re.search(r"\w", part)]


def _declines(part: str) -> bool:
    return bool(_DECLINES.match(part) or _NOTHING_FOUND.search(part)) or no_answer(part) == REFUSAL
