"""Two completions compared: how far they lie apart in words, and signs that mean the same and look
different."""

import unicodedata
from collections.abc import Sequence

from lm_factuality.ground.packages import need
from lm_factuality.ground.sentences import spaced


def distance(one: str, other: str) -> int:
    """Levenshtein distance in words (what stands between white space; of scripts without it,
    signs), as in table 2. Raises ConfigError: rapidfuzz is not installed."""
    levenshtein = need("rapidfuzz.distance", "the audit", "generate").Levenshtein
    return int(levenshtein.distance(spaced(one).split(), spaced(other).split()))


def summed_distances(choices: Sequence[str]) -> list[int]:
    """The word edit distances from each choice to all others, added up."""
    return [sum(distance(choice, other) for other in choices) for choice in choices]


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\u2026": "...",
    }
)


def plain_signs(text: str) -> str:
    """``text`` with typewriter quotes, dashes and dots."""
    return text.translate(_SIGNS)


def plain_letters(text: str) -> str:
    """``text`` with plain signs and without accents."""
    parts = unicodedata.normalize("NFKD", plain_signs(text))
    return "".join(character for character in parts if not unicodedata.combining(character))


def final_mark(text: str) -> str:
    """The full stop, question mark, exclamation mark or dots that the text ends in, before closing
    quotes and brackets; empty if there is none."""
    stripped = text.rstrip().rstrip("\"'\u2019\u201d\u00bb)]").rstrip()
    return stripped[-1] if stripped.endswith((".", "?", "!", "\u2026")) else ""


def first_letter_is_capital(text: str) -> bool | None:
    """Whether the first letter is a capital; None if no letter with two cases comes first."""
    first = next((character for character in text if character.isalnum()), "")
    return first.isupper() if first.lower() != first.upper() else None


def bare(text: str) -> str:
    """What is left to tell two texts apart when case, space and punctuation do not: signs stay
    between and before digits, where they make another number."""
    folded = " ".join(plain_signs(text).casefold().split())
    kept = []
    for place, character in enumerate(folded):
        before, after = folded[place - 1 : place] if place else "", folded[place + 1 : place + 2]
        is_in_number = after.isdigit() and (
            character == "-" or (character in ".,:/" and before.isdigit())
        )
        if character.isalnum() or is_in_number or unicodedata.category(character)[0] in "MS":
            kept.append(character)
    return "".join(kept)
