"""Compares two completions: their distance in words, and signs that mean the same."""

import unicodedata

from lm_factuality.ground.packages import need
from lm_factuality.ground.sentences import spaced


def distance(one: str, other: str) -> int:
    """Return the Levenshtein distance in words, as in table 2.

    A word is what stands between white space; in scripts without white space it is a sign.

    Raises:
        ConfigError: rapidfuzz is not installed.
    """
    levenshtein = need("rapidfuzz.distance", "the audit", "generate").Levenshtein
    return int(levenshtein.distance(spaced(one).split(), spaced(other).split()))


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\u2026": "...",
    }
)


def plain_signs(text: str) -> str:
    """Return ``text`` with typewriter quotes, dashes and dots."""
    return text.translate(_SIGNS)


def plain_letters(text: str) -> str:
    """Return ``text`` with plain signs and without accents."""
    parts = unicodedata.normalize("NFKD", plain_signs(text))
    return "".join(character for character in parts if not unicodedata.combining(character))


def final_mark(text: str) -> str:
    """Return the sign that ends the last sentence, before closing quotes and brackets.

    Example:
        ``final_mark('He said "no."')`` is ``"."``; without a sign it is empty.
    """
    stripped = text.rstrip().rstrip("\"'\u2019\u201d\u00bb)]").rstrip()
    return stripped[-1] if stripped.endswith((".", "?", "!", "\u2026")) else ""


def first_letter_is_capital(text: str) -> bool | None:
    """Whether the first letter or digit is a capital; None if it has no two cases."""
    first = next((character for character in text if character.isalnum()), "")
    return first.isupper() if first.lower() != first.upper() else None


def bare(text: str) -> str:
    """Return what tells two texts apart when case, space and punctuation do not.

    Signs stay between and before digits, where they make another number.

    Example:
        ``bare("At 1:30, -2 degrees!")`` is ``"at1:30-2degrees"``.
    """
    folded = " ".join(plain_signs(text).casefold().split())
    kept = []
    for place, character in enumerate(folded):
        before = folded[place - 1 : place] if place else ""
        after = folded[place + 1 : place + 2]
        is_sign = character == "-" or (character in ".,:/" and before.isdigit())
        is_in_number = is_sign and after.isdigit()
        is_mark = unicodedata.category(character)[0] in "MS"
        if character.isalnum() or is_in_number or is_mark:
            kept.append(character)
    return "".join(kept)
