"""The sentence that a model made out of a stem."""

import re

from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

NO_WORD = "the generation has no word"
_WORD = re.compile(r"\w")
_CONTEXT = 600  # characters of a prefix that a judge sees


def complete(stem: str, generation: str) -> str | None:
    """``stem``, which may be empty, and what was generated after it up to the end of the sentence or line; None if no word was,
    or nothing but a thought without an end (see ``why_none``).

    Tokenizers of the SentencePiece kind lose the space before a generation, so one that begins with a letter or digit is taken
    to begin a new word.
    """
    continuation = generation.strip("\n").split("\n", 1)[0]
    if without_thinking(generation) is None or not _WORD.search(continuation):
        return None
    if _WORD.match(continuation):
        continuation = f" {continuation}"
    last = stem.split()[-1] if stem else ""  # an abbreviation there, or an initial, ends no sentence
    taken = ""
    for piece in split_sentences(last + continuation):
        taken = f"{taken} {piece}" if taken else piece
        if _WORD.search(taken[len(last) :]):
            break
    return (stem[: len(stem) - len(last)] + taken).lstrip()


def why_none(generation: str) -> str:
    """Why there is no sentence where ``complete`` finds none."""
    return NO_WORD if without_thinking(generation) is not None else UNFINISHED


def end_of(prefix: str, length: int = _CONTEXT) -> str:
    """The last ``length`` characters of ``prefix``, from a whole word on."""
    prefix = prefix.strip()
    if len(prefix) <= length:
        return prefix
    return f"... {prefix[-length:].split(maxsplit=1)[-1]}"
