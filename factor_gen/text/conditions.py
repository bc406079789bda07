"""Reads tables of conditions on words and the tokens around them, which are kept in YAML.

The taggers and the rules ask `TokenContext.matches` whether a rule of a table holds for some
tokens. A table is a list of rules. A rule maps features to the values that they must have. It holds
if all of them have::

    refused phrases:
      - {word 0: [must], words after: [or]}
      - {tag -1: [DT, NN*], not tags: [VBD]}

The first rule holds for *must* in *they must leave or stay*.

Features of one token name a column and a position, such as ``tag -1``. The columns are ``word`` (in
lower case), ``tag``, ``shape`` (see `shape`) and ``kind``, of the entity that begins with the
token. The positions are:

- ``0``: the first of the tokens in question; ``last``: the last of them
- ``-1``: the token before them; ``1``: the token after them; and so on
- ``first`` and ``second``: the first tokens of the sentence
- ``governor``: the nearest token before them that is no adverb and no *not*

A position outside the sentence has an empty value.

Features of several tokens name a column in the plural and a side: ``words before``, ``3 tags
after``, ``clause words after``, ``tags inside``; ``words`` are those of the whole sentence. The
column ``token`` (``mill/NN``) can be used here as well. ``line of tags before`` is one text, with
the nearest tag first and a space after each. All other features are those of the `Tables`, or facts
that the context states.

A list of values is met by any of them: a word, ``NN*`` for all values that begin so, or ``<name>``
for a list of words. A text is a regular expression, in which ``<name>`` stands for any word of a
list. ``true`` is met if a value of the feature is true, and ``false`` if none is. ``not`` before a
feature negates the condition. ``is`` lists other tables, and is met if a rule of one of them holds.
``then`` is the result of a rule that holds.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

from factor_gen.text.lists import WORDS
from lm_factuality.ground.packages import load_yaml

Feature = Callable[["TokenContext"], Iterable[object]]
"""Finds the values of a feature in a context: words, texts, or truth values."""
Condition = Callable[["TokenContext"], bool]
"""Tells whether a condition of a rule is met in a context."""

_ONE_TOKEN = re.compile(r"(word|tag|kind|shape) (-?\d+|first|second|last|governor)")
_SEVERAL_TOKENS = re.compile(r"(?:(\d+|clause) )?(word|tag|kind|token)s(?: (before|after|inside))?")
_LIST = re.compile(r"<([a-z ]+)>")
_CLAUSE_ENDS = (",", ".", ";", ":")
_ADVERBS = WORDS["adverbs"] | WORDS["not"]


class Rule(NamedTuple):
    """A rule of a table."""

    conditions: Sequence[Condition]
    """The conditions, all of which must be met."""

    result: str
    """The ``then`` of the rule; empty if it has none."""


def shape(word: str) -> str:
    """Return how a word is written: ``small``, ``capital`` or ``capitals``.

    Example:
        ``bank`` is small, ``Bank`` has a capital, ``IMF`` is in capitals, and ``15`` gives an empty
        text.
    """
    if word.islower():
        return "small"
    if word.isupper() and len(word) > 1:
        return "capitals"
    return "capital" if word[0].isupper() else ""


class Tables:
    """The tables of a YAML file. The module's docstring explains their form."""

    def __init__(
        self,
        package: str,
        name: str,
        words: Mapping[str, frozenset[str]],
        features: Mapping[str, Feature],
    ) -> None:
        """Create the tables. The file is read when a rule is needed.

        Args:
            package: The package in whose folder the file lies, such as ``factor_gen.text``.
            name: The path of the file in that folder.
            words: The lists that ``<name>`` stands for.
            features: The features that rules may ask for besides those of tokens.
        """
        self._package = package
        self._name = name
        self._words = words
        self._features = features

    @cached_property
    def rules(self) -> Mapping[str, Sequence[Rule]]:
        """The rules of each table."""
        tables = {}
        for table, entries in load_yaml(self._package, self._name).items():
            tables[table] = [self._parse_rule(entry) for entry in entries]
        return tables

    def _parse_rule(self, entry: dict[str, Any]) -> Rule:
        """Parse a rule, such as ``{word 0: [must], tag -1: [NN*], then: VB}``."""
        result = entry.pop("then", "")
        conditions = [self._parse_condition(name, value) for name, value in entry.items()]
        return Rule(conditions, result)

    def _parse_condition(self, name: str, value: list[str] | str | bool) -> Condition:
        """Parse a condition of a rule into a function that tells whether some tokens meet it.

        For example, ``not word -1: [the, a]`` is met if the word before the tokens is no article.

        Args:
            name: The name of a feature, perhaps after ``not``, or ``is`` for other tables.
            value: The values to compare the feature with, the names of the other tables, or whether
                the feature must be true.

        Returns:
            A function that takes the context of some tokens and tells whether they meet the
            condition.
        """
        if name.startswith("not "):
            condition = self._parse_condition(name.removeprefix("not "), value)
            return lambda context: not condition(context)
        if isinstance(value, bool):
            # A feature such as "has title" is true or false itself.
            feature = self._parse_feature(name)
            return lambda context: any(feature(context)) is value
        if name == "is":
            return lambda context: any(context.matches(table) for table in value)

        feature = self._parse_feature(name)
        is_listed = self._parse_values(value)
        return lambda context: any(map(is_listed, feature(context)))

    def _parse_feature(self, name: str) -> Feature:
        """Parse the name of a feature into a function that finds its values in a context.

        A context is some tokens of a sentence, with those around them.

        Args:
            name: A feature of one token, such as ``tag -1`` for the tag of the token before, of
                several tokens, such as ``3 words after``, or one of our own, such as ``has title``.

        Returns:
            A function that takes a context and returns values, such as ``["NN"]``.
        """
        # "line of tags before" is one text that holds the values of "tags before".
        if name.startswith("line of "):
            feature = self._parse_feature(name.removeprefix("line of "))
            return lambda context: ["".join(f"{value} " for value in feature(context))]

        one_token = _ONE_TOKEN.fullmatch(name)
        if one_token:
            column, position = one_token.groups()
            find_index = _POSITIONS.get(position) or _at_distance(int(position))
            return lambda context: [context.value_at(column, find_index(context))]

        several_tokens = _SEVERAL_TOKENS.fullmatch(name)
        if several_tokens:
            reach, column, side = several_tokens.groups()
            return lambda context: context.values_around(column, side, reach)

        # Facts come first, since a table may not know which of them its contexts state.
        return lambda context: (
            context.facts[name] if name in context.facts else self._features[name](context)
        )

    def _parse_values(self, value: list[str] | str) -> Callable[[Any], object]:
        """Parse the values of a condition into a function that compares a word or text with them.

        Args:
            value: Words such as ``[NN*, <months>]``, or a regular expression. ``<months>`` stands
                for the words of the list ``months``.

        Returns:
            A function that tells whether a word is one of the values, or whether the expression
            matches a text.
        """
        if isinstance(value, str):
            expression = _LIST.sub(self._alternatives, value)
            # The expression may match anywhere, in capitals or not.
            return re.compile(expression, re.IGNORECASE | re.DOTALL).search

        words: set[str] = set()
        for word in value:
            words |= self._words[word[1:-1]] if word.startswith("<") else {word}
        # "NN*" stands for all values that begin with "NN".
        beginnings = tuple(word[:-1] for word in words if word.endswith("*"))
        return lambda word: word in words or word.startswith(beginnings)

    def _alternatives(self, list_name: re.Match[str]) -> str:
        """Return a regular expression for any word of a list, such as ``(?:may|can)``."""
        words = self._words[list_name[1]]
        # The longest of words with the same beginning must come first.
        return f"(?:{'|'.join(sorted(words, reverse=True))})"


@dataclass(frozen=True)
class TokenColumns:
    """The tokens of a text, in the form that `TokenContext` needs."""

    columns: Mapping[str, Sequence[str]]
    """The words, tags, shapes and kinds of all tokens, under ``word``, ``tag`` and so on."""


class TokenContext(NamedTuple):
    """Some tokens of a sentence and their surroundings, for which the rules of tables may hold."""

    sentence: Any
    """An object with ``columns``, as `TokenColumns` has them."""

    tables: Tables

    start: int
    """The index of the first of the tokens."""

    end: int
    """The index after the last of them."""

    facts: Mapping[str, Iterable[object]] = {}
    """The values of further features that the rules may ask for."""

    def matches(self, table: str) -> bool:
        """Tell whether any rule of a table holds for the tokens."""
        return self.first_result(table) is not None

    def first_result(self, table: str) -> str | None:
        """Return the ``then`` of the first rule of a table that holds; None if none holds."""
        for rule in self.tables.rules[table]:
            if all(condition(self) for condition in rule.conditions):
                return rule.result
        return None

    def value_at(self, column: str, index: int) -> str:
        """Return the value of a token; an empty text if the sentence has no token there."""
        values: Sequence[str] = self.sentence.columns[column]
        # Python would take a negative index for one from the end.
        return values[index] if 0 <= index < len(values) else ""

    def values_around(
        self, column: str, side: str | None, reach: str | None = None
    ) -> Sequence[str]:
        """Return the values of several tokens, such as the words before these, the nearest first.

        Args:
            column: Which values, such as ``word``.
            side: ``before`` or ``after`` the tokens, or ``inside`` for themselves; None for all
                tokens of the sentence.
            reach: How many tokens at most, such as ``3``, or ``clause`` for all up to the next
                comma, full stop, semicolon or colon. None for all.
        """
        values: Sequence[str] = self.sentence.columns[column]
        # The reach has no meaning for the tokens themselves.
        if side == "inside":
            return values[self.start : self.end]
        if side == "before":
            values = values[: self.start][::-1]
        elif side == "after":
            values = values[self.end :]

        if reach is None:
            return values
        if reach == "clause":
            words = self.values_around("word", side)
            clause = list(takewhile(lambda word: word not in _CLAUSE_ENDS, words))
            return values[: len(clause)]
        return values[: int(reach)]


def _at_distance(distance: int) -> Callable[[TokenContext], int]:
    """Return a function that finds the token at a distance, such as ``-1`` for the one before."""
    # Positions after the tokens are counted from the last of them.
    if distance > 0:
        return lambda context: context.end + distance - 1
    return lambda context: context.start + distance


def _find_governor(context: TokenContext) -> int:
    """Find the word that governs the tokens: the nearest one before that is no adverb.

    Returns:
        Its index, such as that of *may* for *leave* in *they may never leave*. It is -1 if there is
        none.
    """
    for index in range(context.start - 1, -1, -1):
        word = context.value_at("word", index)
        is_adverb = context.value_at("tag", index) == "RB" and word.endswith("ly")
        if word not in _ADVERBS and not is_adverb:
            return index
    return -1


_POSITIONS: Mapping[str, Callable[[TokenContext], int]] = {
    "first": lambda context: 0,
    "second": lambda context: 1,
    "last": lambda context: context.end - 1,
    "governor": _find_governor,
}
