"""What counts as an answer: an empty generation and a refusal hold no errors, but that does not make them factual."""

import re

from lm_factuality.ground.packages import load_words
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import UNFINISHED, said, without_thinking

EMPTY, REFUSAL = "empty", "refusal"
_WORDS = load_words(__package__)
_REFUSING = re.compile(
    rf"\bI(?:'m| am)? (?:\w+ ){{0,2}}?(?:(?:{_WORDS['will_not']}) (?:\w+ ){{0,2}}?(?:{_WORDS['refused']})|"
    rf"(?:don'?t|do not) (?:\w+ )?(?:have (?:\w+ ){{0,3}}?(?:{_WORDS['lacked']})|know))\b|"
    rf"\bno information (?:on|about|available)\b|^\W*(?:{_WORDS['apology']})\W*$",
    re.IGNORECASE,
)
_AROUND_IT = re.compile(_WORDS["around"], re.IGNORECASE)
_GIVES_ALL_THE_SAME = re.compile(r"\bbut (?:here|based)\b|:\s*\n|^[^\S\n]*(?:\d+[.)]|[-*•])\s", re.IGNORECASE | re.MULTILINE)


def to_answer(generation: str) -> str:
    """The generation without the thinking that some models put before their answer; all of it if the thinking never ends."""
    return said(generation).strip()


def why_none(problem: str | None) -> tuple[str | None, str | None]:
    """(no_answer, unscored) in a record, by what ``no_answer`` finds: an unfinished thought does not decline to answer."""
    return (None, problem) if problem in (None, UNFINISHED) else (problem, f"no answer: {problem}")


def no_answer(generation: str) -> str | None:
    """Why ``generation`` is no answer: ``empty``, ``refusal`` or ``UNFINISHED``; None if it is one.

    A refusal is a text without a list whose every sentence either refuses or is what people put round a refusal (an apology, an
    offer), and of which at least one refuses. A text that says something of the matter besides is an answer and is judged.
    """
    text = without_thinking(generation)
    if text is None:
        return UNFINISHED
    if not re.search(r"\w", text):
        return EMPTY
    if _GIVES_ALL_THE_SAME.search(text):
        return None
    sentences = split_sentences(text.strip().replace("’", "'"))
    refusing = [bool(_REFUSING.search(sentence)) for sentence in sentences]
    around = [bool(_AROUND_IT.search(sentence)) for sentence in sentences]
    return REFUSAL if any(refusing) and all(map(max, refusing, around)) else None
