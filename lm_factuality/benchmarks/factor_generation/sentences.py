"""The sentence that a model made out of a stem."""

import re

from lm_factuality.ground.sentences import split_sentences

_WORD = re.compile(r"\w")
_CONTEXT = 600  # characters of a prefix that a judge sees


def complete(stem: str, generation: str) -> str | None:
    """``stem``, which may be empty, and what was generated after it up to the end of the sentence or line; None if no word was.

    Tokenizers of the SentencePiece kind lose the space before a generation, so one that begins with a letter or digit is taken
    to begin a new word.
    """
    continuation = generation.strip("\n").split("\n", 1)[0]
    if not _WORD.search(continuation):
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


def end_of(prefix: str, length: int = _CONTEXT) -> str:
    """The last ``length`` characters of ``prefix``, from a whole word on."""
    prefix = prefix.strip()
    if len(prefix) <= length:
        return prefix
    return f"... {prefix[-length:].split(maxsplit=1)[-1]}"
