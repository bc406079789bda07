"""What the taggers find in a text: tokens with their parts of speech, names, dates and quantities.

Every tagger returns an `Analysis`. Names are found by each tagger in its own way, dates and
quantities by the regular expressions in ``times.tsv``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from factor_gen.text.lists import DATA, LISTS, read_rows

# The kinds of names.
PERSON = "person"
PLACE = "place"
ORGANISATION = "organisation"
NATIONALITY = "nationality"
NAME = "name"
# The kinds of times and quantities.
DATE = "date"
TIME = "time"
DURATION = "duration"
MONEY = "money"
PERCENT = "percent"
NUMBER = "number"
NAMES = (PERSON, PLACE, ORGANISATION, NAME)
MONTHS = LISTS["month names"]
SHORT_MONTHS = LISTS["short months"]
DAYS = LISTS["day names"]
CARDINALS = LISTS["cardinals"]
TENS = LISTS["tens"]
# The value of each numeral, such as 2.0 for "two" and 30.0 for "thirty".
NUMERAL_VALUES = {word: float(value) for value, word in enumerate(CARDINALS, start=1)}
NUMERAL_VALUES |= {word: 10.0 * value for value, word in enumerate(TENS, start=2)}
_PLACEHOLDER = re.compile(r"<[a-z ]+>")  # such as <year>, for a longer expression


class Token(NamedTuple):
    """A word or punctuation mark of a text."""

    text: str

    start: int
    """The index of its first character in the text."""

    end: int
    """The index after its last character."""

    tag: str = ""
    """Its part of speech as a tag of the Penn Treebank, such as ``NN``."""


class Entity(NamedTuple):
    """A name, date or quantity in a text."""

    text: str

    start: int
    """The index of its first character in the text."""

    end: int
    """The index after its last character."""

    kind: str
    """One of the constants of this module, such as `PERSON` or `DATE`."""


class Analysis(NamedTuple):
    """A text with its tokens and its entities."""

    text: str

    tokens: tuple[Token, ...]

    entities: tuple[Entity, ...]
    """The entities in the order of the text. No two of them overlap."""


class Tagger(Protocol):
    """Finds the parts of speech and the entities of a text.

    The result must depend on the fingerprint and the text only.
    """

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The name and settings of the tagger, and the versions that decide its result."""
        ...

    def analyse(self, text: str) -> Analysis:
        """Find the tokens and the entities of a text."""
        ...


def find_times_and_quantities(text: str) -> list[Entity]:
    """Find the dates, times, durations and quantities of a text, in order.

    Where two expressions of ``times.tsv`` match overlapping words, the one listed first wins.

    Example:
        ``It rose 5% in May`` has the percentage ``5%`` and the date ``May``.
    """
    entities = []
    for kind, pattern in _compile_patterns():
        for match in pattern.finditer(text):
            # Some expressions also match the empty text.
            if match.group():
                entities.append(Entity(match.group(), match.start(), match.end(), kind))
    return drop_overlaps(entities)


@cache
def _compile_patterns() -> Sequence[tuple[str, re.Pattern[str]]]:
    """Compile the regular expressions of ``times.tsv``, and return each with its kind of entity.

    The lines may use placeholders. ``<day names>`` stands for any word of the list ``day names``,
    and ``<year>`` for the expression of the line ``<year>``, which is no kind of entity itself.

    Example:
        ``date  on <day names>`` becomes ``("date", re.compile("on (?:Monday|Tuesday|...)"))``.
    """
    expression_of = {f"<{name}>": f"(?:{'|'.join(words)})" for name, words in LISTS.items()}
    patterns = []
    for name, expression in read_rows(DATA / "times.tsv"):
        expanded = _PLACEHOLDER.sub(lambda match: expression_of[match.group()], expression)
        if _PLACEHOLDER.fullmatch(name):
            expression_of[name] = f"(?:{expanded})"
            continue
        patterns.append((name, re.compile(expanded)))
    return patterns


def drop_overlaps(entities: Iterable[Entity]) -> list[Entity]:
    """Drop each entity that overlaps an earlier one, and return the others in order of the text."""
    disjoint = []
    # The indexes of the characters that belong to an entity that stays.
    covered: set[int] = set()
    for entity in entities:
        characters = range(entity.start, entity.end)
        if covered.isdisjoint(characters):
            covered.update(characters)
            disjoint.append(entity)
    return sorted(disjoint, key=lambda entity: entity.start)
