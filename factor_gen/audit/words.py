"""Compares two completions: their distance in words, and characters that mean the same.

The flags and the baselines of the audit call it.
"""

import unicodedata

from lm_factuality.ground.packages import need
from lm_factuality.ground.sentences import spaced


def word_edit_distance(text: str, changed_text: str) -> int:
    """Count how many words must be inserted, deleted or replaced to get from one text to another.

    This is the Levenshtein distance of the paper's table 2. In scripts that separate no words, such
    as Chinese, each character counts as a word.

    Example:
        The distance between ``He was born here`` and ``She was here`` is 2.

    Raises:
        ConfigError: rapidfuzz is not installed.
    """
    # The library is imported when it is needed, as it belongs to an extra.
    levenshtein = need("rapidfuzz.distance", "the audit", "generate").Levenshtein
    return int(levenshtein.distance(spaced(text).split(), spaced(changed_text).split()))


_TYPEWRITER_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\u2026": "...",
    }
)


def to_typewriter_signs(text: str) -> str:
    """Replace typographic quotes, dashes and dots: ``“no…”`` becomes ``"no..."``."""
    return text.translate(_TYPEWRITER_SIGNS)


def to_plain_letters(text: str) -> str:
    """Remove accents and replace typographic signs: ``“Zoë”`` becomes ``"Zoe"``."""
    # NFKD writes an accented letter as the letter and a combining accent.
    characters = unicodedata.normalize("NFKD", to_typewriter_signs(text))
    return "".join(character for character in characters if not unicodedata.combining(character))


def final_punctuation(text: str) -> str:
    """Return the full stop, question mark or the like that ends a text, or an empty text.

    Closing quotes and brackets after it are skipped.

    Example:
        ``He said "no."`` gives ``.``, and ``He said no`` an empty text.
    """
    stripped = text.rstrip().rstrip("\"'\u2019\u201d\u00bb)]").rstrip()
    return stripped[-1] if stripped.endswith((".", "?", "!", "\u2026")) else ""


def first_letter_is_capital(text: str) -> bool | None:
    """Tell whether the first letter or digit of a text is a capital letter.

    Returns:
        None if the text has no letter or digit, or if the first has no capital form, as digits.
    """
    # The first letter may follow a quote or a bracket.
    first = next((character for character in text if character.isalnum()), "")
    return first.isupper() if first.lower() != first.upper() else None


def remove_case_and_punctuation(text: str) -> str:
    """Return a text in lower case without white space and punctuation, to compare it to another.

    A minus, point, comma, colon or slash in a number stays, because without it the number would be
    another one.

    Example:
        ``At 1:30, -2 degrees!`` becomes ``at1:30-2degrees``.
    """
    lower_text = " ".join(to_typewriter_signs(text).casefold().split())
    characters = []
    for index, character in enumerate(lower_text):
        # Unicode's categories that begin with M are accents and vowel signs, and those with S are
        # symbols such as "$" and "+". Without them, another word or amount would remain.
        is_accent_or_symbol = unicodedata.category(character)[0] in "MS"
        if character.isalnum() or is_accent_or_symbol or _is_mark_in_number(lower_text, index):
            characters.append(character)
    return "".join(characters)


def _is_mark_in_number(text: str, index: int) -> bool:
    """Tell whether a character is a mark in a number, as in ``-2``, ``1:30`` and ``3/4``."""
    # At the ends of the text, these slices are empty, where an index would fail.
    previous = text[index - 1 : index]
    following = text[index + 1 : index + 2]
    if not following.isdigit():
        return False
    # A minus stands before the first digit of a number, all other marks between two digits.
    return text[index] == "-" or (previous.isdigit() and text[index] in ".,:/")
