"""Conditions on what stands around some tokens, kept as tables in YAML.

A table is a list of rules. A rule is a mapping of features to the values that they must have, all
of which must hold::

    refused phrases:
      - {word 0: [must], words after: [or]}      # must leave or be shut in
      - {tag -1: [DT, NN*], not tags: [VBD]}

A feature of one token names a column and a position. Columns are ``word`` (in lower case), ``tag``,
``shape`` (see `shape`) and ``kind``, of the entity that begins with the token. Positions are ``0``
for the first of the tokens in question, ``-1`` for the token before them, ``1`` for the token after
them, ``first`` and ``second`` for those of the sentence, ``last`` for the last in question, and
``governor`` for the nearest before them that is no adverb and no *not*. A position outside the
sentence has an empty value.

A feature of several tokens is a column in the plural, and where they stand: ``words before``,
``3 tags after``, ``clause words after``, ``tags inside``; ``words`` are those of the whole
sentence. ``token`` is such a column too (``mill/NN``). ``line of tags before`` is one text, the
nearest tag first, with a space after each. All others are features of the `Tables`, or facts that
the context states.

A list of values stands for any of them: words, ``NN*`` for all that begin so, or ``<name>`` for a
list of words. ``true`` asks for a feature that is there, ``false`` for one that is not, and a text
is a regular expression, in which ``<name>`` stands for any of a list. ``not`` before a feature
negates it, and ``is`` names other tables, of one of which a rule must hold. ``then`` is what
follows if the rule holds.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from factor_gen.text.lists import WORDS
from lm_factuality.ground.packages import load_yaml

Feature = Callable[["TokenContext"], Iterable[object]]
"""What a context has, of which a condition asks for one: words, texts, or truth values."""
Condition = Callable[["TokenContext"], bool]

Rule = tuple[Sequence[Condition], str]
"""Conditions that must hold together, and what follows if they do."""

_ONE_TOKEN = re.compile(r"(word|tag|kind|shape) (-?\d+|first|second|last|governor)")
_SEVERAL_TOKENS = re.compile(r"(?:(\d+|clause) )?(word|tag|kind|token)s(?: (before|after|inside))?")
_LIST = re.compile(r"<([a-z ]+)>")
_CLAUSE_ENDS = (",", ".", ";", ":")
_PASSED = WORDS["adverbs"] | WORDS["not"]


def shape(word: str) -> str:
    """How a word is written: ``small``, ``capitals`` or ``capital``; empty if it has no letter."""
    if word.islower():
        return "small"
    if word.isupper() and len(word) > 1:
        return "capitals"
    return "capital" if word[0].isupper() else ""


class Tables:
    """The tables of one file."""

    def __init__(
        self,
        package: str,
        name: str,
        words: Mapping[str, frozenset[str]],
        features: Mapping[str, Feature],
    ) -> None:
        """Name the file ``name`` beside the code of a package; it is read when it is needed.

        Args:
            words: The lists that ``<...>`` stands for.
            features: What the rules may ask for beside words, tags, kinds and shapes.
        """
        self._file = package, name
        self._words = words
        self._features = features

    @cached_property
    def rules(self) -> Mapping[str, Sequence[Rule]]:
        """The rules of each table."""
        tables: dict[str, list[Rule]] = {}
        for table, listed in load_yaml(*self._file).items():
            rules = tables[table] = []
            for rule in listed:
                result = rule.pop("then", "")
                rules.append(([self._condition(*item) for item in rule.items()], result))
        return tables

    def _condition(self, name: str, value: Any) -> Condition:
        feature = name.removeprefix("not ")
        wanted = feature == name
        if feature == "is":
            return lambda context: any(map(context.matches, value)) is wanted
        read = self._reader(feature)
        if isinstance(value, bool):
            return lambda context: any(read(context)) is value
        test = self._test(value)
        return lambda context: any(map(test, read(context))) is wanted

    def _test(self, value: list[str] | str) -> Callable[[Any], object]:
        """Return what tells whether a word or text is one of the values."""
        if isinstance(value, str):
            expression = _LIST.sub(
                lambda name: f"(?:{'|'.join(sorted(self._words[name[1]], reverse=True))})", value
            )
            return re.compile(expression, re.IGNORECASE | re.DOTALL).search
        words: set[str] = set()
        for word in value:
            words |= self._words[word[1:-1]] if word.startswith("<") else {word}
        beginnings = tuple(word[:-1] for word in words if word.endswith("*"))
        return lambda word: word in words or word.startswith(beginnings)

    def _reader(self, feature: str) -> Feature:
        """Return what finds the values of a feature."""
        if feature.startswith("line of "):
            read = self._reader(feature.removeprefix("line of "))
            return lambda context: (" ".join([*map(str, read(context)), ""]),)
        one_token = _ONE_TOKEN.fullmatch(feature)
        if one_token:
            column, position = one_token.groups()
            find = _POSITIONS.get(position) or _at_distance(int(position))
            return lambda context: (context.value_at(column, find(context)),)
        several_tokens = _SEVERAL_TOKENS.fullmatch(feature)
        if several_tokens:
            reach, column, side = several_tokens.groups()
            return lambda context: context.values_around(column, side, reach)
        return lambda context: (
            context.facts[feature] if feature in context.facts else self._features[feature](context)
        )


@dataclass(frozen=True)
class TokenColumns:
    """Words with what else is known of each."""

    columns: Mapping[str, Sequence[str]]


class TokenContext(NamedTuple):
    """Some tokens of a sentence, around which the conditions look."""

    sentence: Any
    """It has ``columns``: sequences with the words, tags, shapes and kinds of all tokens."""
    tables: Tables
    start: int
    """The first of the tokens."""
    end: int
    """The token after the last."""
    facts: Mapping[str, Iterable[object]] = {}
    """What else the rules may ask for, by feature."""

    def matches(self, table: str) -> bool:
        """Whether a rule of the table holds here."""
        return self.first_result(table) is not None

    def first_result(self, table: str) -> str | None:
        """What follows by the first rule of the table that holds here; None if none holds."""
        for conditions, result in self.tables.rules[table]:
            if all(condition(self) for condition in conditions):
                return result
        return None

    def value_at(self, column: str, position: int) -> str:
        """The value of a token; empty where there is none."""
        values: Sequence[str] = self.sentence.columns[column]
        return values[position] if 0 <= position < len(values) else ""

    def values_around(
        self, column: str, side: str | None, reach: str | None = None
    ) -> Sequence[str]:
        """The values of several tokens, the nearest first.

        Args:
            side: ``before``, ``after`` or ``inside``; None for all tokens of the sentence.
            reach: How many tokens at most, or ``clause`` for those up to the mark that ends it.
        """
        values: Sequence[str] = self.sentence.columns[column]
        if side == "inside":
            return values[self.start : self.end]
        if side == "before":
            values = values[: self.start][::-1]
        elif side == "after":
            values = values[self.end :]
        if reach == "clause":
            words = self.values_around("word", side)
            ends = [i for i, word in enumerate(words) if word in _CLAUSE_ENDS]
            return values[: ends[0]] if ends else values
        return values[: int(reach)] if reach else values


def _governor(context: TokenContext) -> int:
    """Which token governs the first: the nearest before it that is no adverb and no *not*.

    It is -1 if there is none.
    """
    i = context.start - 1
    while i >= 0:
        word = context.value_at("word", i)
        if word not in _PASSED and not (context.value_at("tag", i) == "RB" and word.endswith("ly")):
            break
        i -= 1
    return i


def _at_distance(distance: int) -> Callable[[TokenContext], int]:
    if distance > 0:
        return lambda context: context.end + distance - 1
    return lambda context: context.start + distance


_POSITIONS: Mapping[str, Callable[[TokenContext], int]] = {
    "first": lambda context: 0,
    "second": lambda context: 1,
    "last": lambda context: context.end - 1,
    "governor": _governor,
}
