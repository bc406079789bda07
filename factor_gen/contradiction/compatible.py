"""Edits that contradict nothing, because the sentence may be true before and after them.

Every kind of check rejects these first, since a word list, a language model or an NLI model takes
many of them for contradictions: *over 200* and *over 300*, *in Wales* and *in Britain*.
"""

import re
from typing import NamedTuple

from factor_gen.contradiction.changes import TextChange, find_changes
from factor_gen.contradiction.places import DATA, is_within
from factor_gen.text.analysis import NUMERAL_VALUES
from factor_gen.text.conditions import Tables, TokenContext
from factor_gen.text.lists import WORDS, read_rows, read_word_lists

COMPATIBLE_REASONS = (
    "part of a name or reference",
    "a pronoun that means nobody in particular",
    "quantities that may both hold",
    "a time within the other",
    "times that may both hold",
    "a place within the other, or the same",
    "an example among others",
    "part of what may be, or of a condition",
)
"""Why a sentence may be true both before and after an edit.

Each reason is the name of a table of ``compatible.yaml``. The first one that matches counts.
"""

NEGATIONS = frozenset(read_word_lists(DATA)["negations"])
_NUMBER = rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join(NUMERAL_VALUES)})\b"
_QUANTITY = re.compile(rf"(?<![\w.])[$€£¥]?({_NUMBER})", re.IGNORECASE)
_DATE_PARTS = {name: re.compile(pattern) for name, pattern in read_rows(DATA / "dates.tsv")}
_DATE_WORD = (
    r"(?:[A-Z][a-z]+day|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
    r"|\d+(?:st|nd|rd|th)?)"
)
_DATE_BEFORE = re.compile(rf"(?:\b{_DATE_WORD},?\s){{1,6}}\Z")
_DATE_AFTER = re.compile(rf"\A(?:,?\s?{_DATE_WORD}\b)+")
_NEAR = 60  # characters on either side of an edit
_LONGEST_CLAUSE = 400  # characters before an edit
# So many characters are searched for a quantity after an edit, and for a comparator before it.
_MAX_QUANTITY_DISTANCE = 40
_CLAUSE_END = re.compile(r"[;:]|\.(?!\w)|,(?! (?:and|or)\b)|\s[-–—]+\s")
_ALMOST_ZERO = 1e-9  # stands for 0: all multiples of 0 are equal, so "over 0" would be no range


class Comparator(NamedTuple):
    """Words beside a quantity that make it a range, such as *over* or *or more*.

    *Over 200* is the range from 1 to infinity times 200.
    """

    side: str
    """Where the words stand: ``before`` or ``after`` the quantity."""
    pattern: re.Pattern[str]
    """Finds the words in the text before or after the quantity, right beside it."""
    least_factor: float
    """The least value of the range, as a multiple of the quantity."""
    most_factor: float
    """The greatest value of the range, as a multiple of the quantity."""


class ValueRange(NamedTuple):
    """The values that a quantity may have: 200 to infinity for *over 200*."""

    least: float
    most: float

    @property
    def is_exact(self) -> bool:
        """Whether the quantity has one value, as without a comparator."""
        return self.least == self.most

    def overlaps(self, other: "ValueRange") -> bool:
        """Whether both ranges have a value in common.

        Ranges that touch in one value overlap only if one of them is exactly this value.

        Example:
            - *over 200* and *under 300*: they overlap.
            - *over 200* and *under 200*: they touch in 200, but do not overlap.
            - *200* and *up to 200*: they touch in 200, which is an exact value, and so overlap.
        """
        least = max(self.least, other.least)
        most = min(self.most, other.most)
        if least == most:
            return self.is_exact or other.is_exact
        return least < most


def _read_comparators() -> list[Comparator]:
    """Read the comparators from ``comparators.tsv``, whose columns are the fields of `Comparator`.

    Example:
        The line ``before  over  1  inf`` is the comparator of *over 200*.
    """
    comparators = []
    for side, words, least_factor, most_factor in read_rows(DATA / "comparators.tsv"):
        # The words end the text before the quantity, or begin the text after it.
        expression = rf"(?<!\w)(?:{words})\s*$" if side == "before" else rf"\A(?:{words})"
        pattern = re.compile(expression, re.IGNORECASE)
        comparators.append(Comparator(side, pattern, float(least_factor), float(most_factor)))
    return comparators


_COMPARATORS = _read_comparators()


def compatible_reason(sentence: str, edited: str) -> str | None:
    """Tell why an edit of a sentence contradicts nothing: the sentence may be true in both forms.

    Example:
        *over 300 boats* in the place of *over 200 boats* gives ``quantities that may both hold``.

    Args:
        sentence: The sentence before the edit.
        edited: The sentence after it. It does not matter how wide the edit was thought to be.

    Returns:
        One of `COMPATIBLE_REASONS`, that of the first change. None if a change may contradict the
        sentence.
    """
    reasons = [compatible_reason_of_change(change) for change in find_changes(sentence, edited)]
    # One change that contradicts the sentence, and so has no reason, is enough.
    return reasons[0] if reasons and all(reasons) else None


def compatible_reason_of_change(change: TextChange) -> str | None:
    """Say why a change contradicts nothing: the first of `COMPATIBLE_REASONS` that holds, or None.

    Example:
        *over 300* in the place of *over 200* gives ``quantities that may both hold``.
    """
    features = {
        "old": [change.old],
        "new": [change.new],
        "before": [change.before[-_NEAR:]],
        "after": [change.after[:_NEAR]],
        "all before": [change.before],
        "clause": [last_clause(change.before)],
    }
    # The tables of compatible.yaml ask for no tokens, but only for these texts and for the change
    # itself. So no tokens are selected, and the change stands in the place of a sentence.
    context = TokenContext(sentence=change, tables=_TABLES, start=0, end=0, facts=features)
    return context.first_match(COMPATIBLE_REASONS)


def last_clause(text: str) -> str:
    """Return the end of a text, from the last comma or other mark on.

    Example:
        `` he said that`` of ``On Monday, he said that``.
    """
    return _CLAUSE_END.split(text[-_LONGEST_CLAUSE:])[-1]


def _quantities_overlap(change: TextChange) -> bool:
    """Whether a sentence may be true before and after an edit of a quantity.

    Example:
        Both *over 200 boats* and *over 300 boats* are true of 350 boats.

    Args:
        change: An edit of a number, or of a comparator before it, such as *over*.

    Returns:
        Whether the ranges before and after the edit differ and have a value in common. False if the
        edit changes no quantity.
    """
    changes_number = _QUANTITY.search(f"{change.old} {change.new}")
    changes_comparator = any(
        comparator.side == "before" and comparator.pattern.search(change.old)
        for comparator in _COMPARATORS
    )
    if not changes_number and not changes_comparator:
        return False

    old_range = _value_range(change.before, change.old + change.after)
    new_range = _value_range(change.before, change.new + change.after)
    if old_range is None or new_range is None:
        return False
    # With equal ranges, other words differ, as in "5 cats" and "5 dogs".
    if old_range == new_range:
        return False
    return old_range.overlaps(new_range)


def _value_range(before: str, after: str) -> ValueRange | None:
    """Find the quantity at a position of a text, and the values that it may have.

    Example:
        ``_value_range("sold over ", "200 boats")`` is from 200 to infinity.

    Args:
        before: The text before the position.
        after: The text after it. The quantity begins in its first 40 characters.

    Returns:
        The range; None if there is no quantity.
    """
    text = before + after
    position = len(before)
    # The character before the position may be a currency sign, which belongs to the quantity.
    quantity = _QUANTITY.search(text, max(0, position - 1), position + _MAX_QUANTITY_DISTANCE)
    if quantity is None:
        return None

    value = _value_of_number(quantity.group(1))
    comparator = _find_comparator(text, quantity)
    if comparator is None:
        return ValueRange(value, value)
    return ValueRange(value * comparator.least_factor, value * comparator.most_factor)


def _value_of_number(number: str) -> float:
    """Read a number in digits or in words: 1200 for ``1,200``, and 2 for ``Two``.

    Returns:
        The value; instead of 0, a value that is almost zero.
    """
    word = number.lower()
    if word in NUMERAL_VALUES:
        return NUMERAL_VALUES[word]
    return float(number.replace(",", "")) or _ALMOST_ZERO


def _find_comparator(text: str, quantity: re.Match[str]) -> Comparator | None:
    """Find the words that make a quantity a range: *over* in *over 200*, *or more* in *5 or more*.

    Args:
        text: The sentence.
        quantity: The match of the quantity in it.

    Returns:
        The first comparator of the list that stands right before or right after the quantity.
    """
    start, end = quantity.span()
    # Only the nearest words matter. The text after the quantity needs no cut, because the patterns
    # match at its beginning alone.
    text_beside = {"before": text[:start][-_MAX_QUANTITY_DISTANCE:], "after": text[end:]}
    for comparator in _COMPARATORS:
        if comparator.pattern.search(text_beside[comparator.side]):
            return comparator
    return None


def _may_have_both_dates(change: TextChange) -> bool:
    """Whether an event may have both the old and the new date, as *May 1985* and *the 1980s*.

    Two different dates may both be true if every part that both of them state is equal.

    Example:
        - *May 1985* and *the 1980s*: both state the decade, which is equal. True.
        - *Monday* and *1985*: no part is in both. True.
        - *May 1985* and *June 1985*: the months differ. False.

    Args:
        change: An edit of a date. The result is False if the old or the new text is no date.
    """
    # If "May 1985" becomes "1985", only "May" is changed. The words around it belong to both dates.
    match_before = _DATE_BEFORE.search(change.before)
    match_after = _DATE_AFTER.search(change.after)
    before = match_before.group() if match_before else ""
    after = match_after.group() if match_after else ""
    old_parts = _parts_of_date(before + change.old + after)
    new_parts = _parts_of_date(before + change.new + after)

    are_dates = bool(old_parts and new_parts)
    if not are_dates or old_parts == new_parts:
        return False
    common_parts = old_parts.keys() & new_parts.keys()
    return all(old_parts[part] == new_parts[part] for part in common_parts)


def _parts_of_date(date: str) -> dict[str, str]:
    """Read the parts that a date states or implies.

    Example:
        *May 1985* has the month ``May``, the year ``1985``, the decade ``198`` and the century
        ``20``.

    Args:
        date: The text of a date.

    Returns:
        The parts by name, such as ``year``; none if the text is no date.
    """
    parts = {}
    for name, pattern in _DATE_PARTS.items():
        match = pattern.search(date)
        if match:
            parts[name] = match.group(1)
    # A number without a month is no day.
    if "month" not in parts:
        parts.pop("day", None)
    # 1985 is in the decade 198, which is in the 20th century.
    if "year" in parts:
        parts["decade"] = parts["year"][:3]
    if "decade" in parts:
        parts["century"] = str(int(parts["decade"][:2]) + 1)
    return parts


_TABLES = Tables(
    __package__,
    "data/compatible.yaml",
    {**WORDS, "number": frozenset([_NUMBER]), "denial": NEGATIONS},
    {
        "open quantities": lambda context: (_quantities_overlap(context.sentence),),
        "time within": lambda context: (_may_have_both_dates(context.sentence),),
        "place within": lambda context: (
            is_within(context.sentence.old, context.sentence.new),
            is_within(context.sentence.new, context.sentence.old),
        ),
    },
)
