"""Reads tables of conditions on words and the tokens around them, which are kept in YAML.

The taggers and the rules ask `TokenContext.matches` whether a rule of a table holds for some
tokens. A table is a list of rules. A rule maps features to the values that they must have. It holds
if all of them have::

    refused phrases:
      - {word 0: [must], words after: [or]}
      - {tag -1: [DT, NN*], not tags: [VBD]}

The first rule holds for *must* in *they must leave or stay*.

Features of one token name a column and a position, such as ``tag -1``. The columns are ``word`` (in
lower case), ``tag``, ``shape`` (see `letter_case`) and ``kind``, of the entity that begins with the
token. The positions are:

- ``0``: the first of the tokens in question; ``last``: the last of them
- ``-1``: the token before them; ``1``: the token after them; and so on
- ``first``: the first token of the sentence
- ``governor``: the nearest token before them that is no adverb and no *not*

A position outside the sentence has an empty value.

Features of several tokens name a column in the plural and a side: ``words before``, ``3 tags
after``, ``clause words after``; ``words`` are those of the whole sentence. The
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
from functools import cached_property, partial
from typing import Any, NamedTuple

from factor_gen.text.lists import WORDS
from lm_factuality.ground.packages import load_yaml

Feature = Callable[["TokenContext"], Iterable[object]]
"""Finds the values of a feature in a context: words, texts, or truth values."""

_ONE_TOKEN = re.compile(r"(word|tag|kind|shape) (-?\d+|first|last|governor)")
_SEVERAL_TOKENS = re.compile(r"(?:(\d+|clause) )?(word|tag|kind|token)s(?: (before|after))?")
_LIST = re.compile(r"<([a-z ]+)>")
_CLAUSE_ENDS = (",", ".", ";", ":")
_ADVERBS = WORDS["adverbs"] | WORDS["not"]


class Condition(NamedTuple):
    """A condition of a rule, such as ``not word -1: [the, a]``."""

    find_values: Feature
    """Finds the values to look at, such as the word before the tokens."""

    is_expected: Callable[[Any], object]
    """Tells whether a value is one of the listed ones, such as *the* or *a*."""

    is_negated: bool
    """Whether the condition is met by tokens that have no expected value."""

    def is_met(self, context: "TokenContext") -> bool:
        """Tell whether some tokens meet the condition in their context."""
        has_expected_value = any(map(self.is_expected, self.find_values(context)))
        return has_expected_value != self.is_negated


class Rule(NamedTuple):
    """A rule of a table."""

    conditions: Sequence[Condition]
    """The conditions, all of which must be met."""

    result: str
    """The ``then`` of the rule; empty if it has none."""


def letter_case(word: str) -> str:
    """Return the case of a word: ``small``, ``capital``, ``capitals``, or an empty text.

    Example:
        ``small`` for *bank*, ``capital`` for *Bank* and *I*, ``capitals`` for *IMF*, and an empty
        text for *15*.
    """
    if word.islower():
        return "small"
    # A single capital letter, as in "I", does not make a word of capitals.
    if word.isupper() and len(word) > 1:
        return "capitals"
    return "capital" if word[0].isupper() else ""


@dataclass
class Tables:
    """The tables of a YAML file, which is read when a rule is needed.

    The module's docstring explains their form.
    """

    package: str
    """The package in whose folder the file lies, such as ``factor_gen.text``."""

    path: str
    """The path of the file in that folder."""

    words: Mapping[str, frozenset[str]]
    """The lists that ``<name>`` stands for."""

    features: Mapping[str, Feature]
    """The features that rules may ask for besides those of tokens."""

    @cached_property
    def rules(self) -> Mapping[str, Sequence[Rule]]:
        """The rules of each table."""
        tables = {}
        for table, entries in load_yaml(self.package, self.path).items():
            tables[table] = [self._parse_rule(entry) for entry in entries]
        return tables

    def _parse_rule(self, entry: dict[str, Any]) -> Rule:
        """Parse a rule, such as ``{word 0: [must], tag -1: [NN*], then: VB}``."""
        result = entry.pop("then", "")
        conditions = [self._parse_condition(name, value) for name, value in entry.items()]
        return Rule(conditions, result)

    def _parse_condition(self, name: str, expected: Sequence[str] | bool) -> Condition:
        """Parse one condition of a rule, such as ``not word -1: [the, a]``.

        Args:
            name: What is looked at, perhaps after ``not``: the name of a feature, such as
                ``word -1`` for the word before the tokens, or ``is`` for other tables.
            expected: The values that the feature may have, or the names of the other tables. A
                truth value for a feature that is true or false itself, such as ``has title``.
        """
        is_negated = name.startswith("not ")
        feature_name = name.removeprefix("not ")
        is_true = bool
        if isinstance(expected, bool):
            # "has title: false" says the same as "not has title: true".
            if not expected:
                is_negated = not is_negated
            return Condition(self._parse_feature(feature_name), is_true, is_negated)
        if feature_name == "is":
            # The value is the name of a table of which a rule holds, or None, which is not true.
            return Condition(lambda context: [context.first_match(expected)], is_true, is_negated)

        find_values = self._parse_feature(feature_name)
        if isinstance(expected, str):
            return Condition(find_values, self._parse_expression(expected), is_negated)
        return Condition(find_values, self._parse_words(expected), is_negated)

    def _parse_feature(self, name: str) -> Feature:
        """Return the function that finds the values of a feature in the context of some tokens.

        Args:
            name: The name of the feature, such as ``tag -1`` or ``3 words after``. The module's
                docstring explains these names.

        Example:
            The function for ``words before`` returns ``["may", "they"]`` for *leave* in *they may
            leave*.
        """
        if name.startswith("line of "):
            feature = self._parse_feature(name.removeprefix("line of "))
            return partial(_join_values, find_values=feature)

        one_token = _ONE_TOKEN.fullmatch(name)
        if one_token:
            return _feature_of_token(*one_token.groups())

        several_tokens = _SEVERAL_TOKENS.fullmatch(name)
        if several_tokens:
            return _feature_of_tokens(*several_tokens.groups())

        return partial(self._values_by_name, name=name)

    def _values_by_name(self, context: "TokenContext", name: str) -> Iterable[object]:
        """Return the values of a feature that is no word, tag, shape or kind of a token."""
        # Facts come first, since a table may not know which of them its contexts state.
        if name in context.facts:
            return context.facts[name]
        return self.features[name](context)

    def _parse_expression(self, expression: str) -> Callable[[str], object]:
        """Return the function that searches a value for a regular expression, in any case.

        Args:
            expression: The expression. ``<months>`` stands for any word of the list ``months``.
        """
        expression = _LIST.sub(self._alternatives, expression)
        return re.compile(expression, re.IGNORECASE | re.DOTALL).search

    def _parse_words(self, expected: Iterable[str]) -> Callable[[str], bool]:
        """Return the function that tells whether a value is one of some words.

        Args:
            expected: The words. ``<months>`` stands for all words of the list ``months``, and
                ``NN*`` for all values that begin with ``NN``.
        """
        words: set[str] = set()
        for word in expected:
            is_list_name = word.startswith("<")
            words |= self.words[word.strip("<>")] if is_list_name else {word}
        beginnings = tuple(word.removesuffix("*") for word in words if word.endswith("*"))

        return lambda value: value in words or value.startswith(beginnings)

    def _alternatives(self, list_name: re.Match[str]) -> str:
        """Return a regular expression for any word of a list, such as ``(?:may|can)``."""
        words = self.words[list_name[1]]
        # The longest of words with the same beginning must come first.
        return f"(?:{'|'.join(sorted(words, reverse=True))})"


class TokenColumns(NamedTuple):
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

    def first_match(self, tables: Iterable[str]) -> str | None:
        """Return the name of the first table of which a rule holds; None if no rule holds."""
        return next(filter(self.matches, tables), None)

    def first_result(self, table: str) -> str | None:
        """Return the ``then`` of the first rule of a table that holds; None if none holds."""
        for rule in self.tables.rules[table]:
            if all(condition.is_met(self) for condition in rule.conditions):
                return rule.result
        return None

    def value_at(self, column: str, index: int) -> str:
        """Return the value of a token; an empty text if the sentence has no token there."""
        values: Sequence[str] = self.sentence.columns[column]
        # Python would take a negative index for one from the end.
        return values[index] if 0 <= index < len(values) else ""

    def values_around(
        self, column: str, side: str | None, max_count: int | None = None
    ) -> Sequence[str]:
        """Return the values of the tokens before or after the tokens in question.

        Args:
            column: Which values, such as ``word``.
            side: ``before`` or ``after``, with the nearest value first. None: the values of all
                tokens of the sentence, in order.
            max_count: How many values at most.
        """
        values: Sequence[str] = self.sentence.columns[column]
        if side == "before":
            nearest_first = values[: self.start][::-1]
            return nearest_first[:max_count]
        if side == "after":
            return values[self.end :][:max_count]
        return values[:max_count]

    def values_in_clause(self, column: str, side: str | None) -> Sequence[str]:
        """Return the values of the tokens up to the next comma, full stop, semicolon or colon.

        Args:
            column: Which values, such as ``tag``.
            side: ``before`` or ``after`` these tokens. The nearest value comes first.
        """
        # Whatever column is asked for, the words show where the clause ends.
        num_tokens = 0
        for word in self.values_around("word", side):
            if word in _CLAUSE_ENDS:
                break
            num_tokens += 1
        return self.values_around(column, side, num_tokens)


def _join_values(context: TokenContext, find_values: Feature) -> list[str]:
    """Return the values of a feature as one text: ``DT NN `` for ``line of tags after``."""
    return ["".join(f"{value} " for value in find_values(context))]


def _feature_of_token(column: str, position: str) -> Feature:
    """Return the feature of one token, such as ``tag -1``, the tag of the token before the others.

    Args:
        column: Which value of the token, such as ``tag``.
        position: A key of `_POSITIONS`, or a number: ``-1`` is the token before the tokens in
            question, and ``1`` the token after them.
    """
    find_index = _POSITIONS.get(position)
    if find_index is None:
        find_index = partial(_index_at_distance, distance=int(position))
    return lambda context: [context.value_at(column, find_index(context))]


def _index_at_distance(context: TokenContext, distance: int) -> int:
    """Return the index of the token at a distance: -1 is before the tokens in question."""
    # Positions after the tokens are counted from the last of them.
    origin = context.end - 1 if distance > 0 else context.start
    return origin + distance


def _feature_of_tokens(reach: str | None, column: str, side: str | None) -> Feature:
    """Return the feature of several tokens, such as ``3 words after``.

    Args:
        reach: How many tokens at most, or ``clause`` for those in the clause. None for all.
        column: Which values of the tokens, such as ``word``.
        side: ``before`` or ``after`` the tokens in question. None for all tokens.
    """
    if reach == "clause":
        return partial(TokenContext.values_in_clause, column=column, side=side)
    max_count = int(reach) if reach else None
    return partial(TokenContext.values_around, column=column, side=side, max_count=max_count)


def _find_governor(context: TokenContext) -> int:
    """Find the word that governs the tokens: the nearest one before that is no adverb.

    Returns:
        Its index, such as that of *may* for *leave* in *they may never leave*. It is -1, where the
        sentence has no token, if there is none.
    """
    for index in reversed(range(context.start)):
        word = context.value_at("word", index)
        # The list of adverbs has no "quickly", which is recognised by its ending and its tag.
        is_adverb = context.value_at("tag", index) == "RB" and word.endswith("ly")
        if word not in _ADVERBS and not is_adverb:
            return index
    return -1


_POSITIONS: Mapping[str, Callable[[TokenContext], int]] = {
    "first": lambda context: 0,
    "last": lambda context: context.end - 1,
    "governor": _find_governor,
}
