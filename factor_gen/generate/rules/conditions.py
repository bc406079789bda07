"""Conditions on what stands around some words of a sentence, kept as tables in YAML.

Every operator asks them before it changes the words. A table is a list of rules; a rule is a
mapping of features to the values that they must have, all of which must hold::

    refused phrases:
      - {word 0: [must], words after: [or]}      # must leave or be shut in
      - {tag -1: [DT, NN*], past: true}

``word``, ``tag`` and ``kind`` are those of one token: ``0`` is the first of the words in question,
``-1`` the token before them, ``1`` the token after them. The other features are in `FEATURES`, or
are facts that the operator states. A list of values stands for any of them: words, tags with ``*``
for any ending, or ``<name>`` for a list of `words.tsv`. ``true`` asks for a feature that is there,
``false`` for one that is not, and a text is a regular expression. ``not`` before a feature negates
it, and ``is`` names another table, of which one rule must hold.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.text.analysis import FINITE
from lm_factuality.ground.packages import load_yaml

Value = Collection[str] | str | bool
_ONE_TOKEN = re.compile(r"(word|tag|kind) (-?\d+)")
_TOKENS_NEAR = re.compile(r"(\d+) (word|tag)s (before|after)")
_NO_VERB_BEYOND = (",", ".", ";", ":", "-", "–", "—", "who", "which", "that")
_LONGEST_CLAUSE = 25  # tokens in which the verb of a clause is looked for


@dataclass(frozen=True)
class Place:
    """Some tokens of a sentence, around which the conditions look."""

    sentence: Sentence
    start: int
    """The first of the tokens."""
    end: int
    """The token after the last."""
    facts: Mapping[str, Value] = field(default_factory=dict)
    """What else the rules may ask for, by feature."""

    def meets(self, table: str) -> bool:
        """Whether a rule of the table holds here."""
        return self.first_rule(table) is not None

    def first_rule(self, table: str) -> "Rule | None":
        """The first rule of the table that holds here."""
        for rule in rules(table):
            if all(condition.holds(self) for condition in rule.conditions):
                return rule
        return None

    def value(self, feature: str) -> Value:
        """What the sentence has for a feature here."""
        if feature in self.facts:
            return self.facts[feature]
        if feature in FEATURES:
            return FEATURES[feature](self)
        one_token = _ONE_TOKEN.fullmatch(feature)
        if one_token:
            return (self._read(one_token[1], int(one_token[2])),)
        count, name, side = _TOKENS_NEAR.fullmatch(feature).groups()  # type: ignore[union-attr]
        sign = -1 if side == "before" else 1
        return [self._read(name, sign * distance) for distance in range(1, int(count) + 1)]

    def _read(self, name: str, distance: int) -> str:
        position = self.start + distance if distance <= 0 else self.end + distance - 1
        readers = {
            "word": self.sentence.word,
            "tag": self.sentence.tag,
            "kind": self.sentence.kind_at,
        }
        return readers[name](position)


@dataclass(frozen=True)
class Condition:
    """One feature and the values of which it must have one."""

    feature: str
    values: Collection[str]
    patterns: tuple[str, ...]
    """Values with ``*``."""
    expression: re.Pattern[str] | None
    wanted: bool

    def holds(self, place: Place) -> bool:
        """Whether the place has one of the values, or has none where that is wanted."""
        if self.feature == "is":
            return any(place.meets(table) for table in self.values) is self.wanted
        value = place.value(self.feature)
        if self.expression is not None:
            return bool(self.expression.search(str(value))) is self.wanted
        if isinstance(value, bool):
            return value is self.wanted
        return self._has_one_of(value) is self.wanted

    def _has_one_of(self, words: Iterable[str]) -> bool:
        for word in words:
            if word in self.values:
                return True
            if any(fnmatchcase(word, pattern) for pattern in self.patterns):
                return True
        return False


@dataclass(frozen=True)
class Rule:
    """Conditions that must hold together, and what follows if they do."""

    conditions: tuple[Condition, ...]
    result: str
    """The value of ``then``, for tables that choose one."""


@cache
def rules(table: str) -> tuple[Rule, ...]:
    """The rules of a table of ``conditions.yaml``."""
    return tuple(
        Rule(
            tuple(_condition(name, value) for name, value in rule.items() if name != "then"),
            rule.get("then", ""),
        )
        for rule in _tables()[table]
    )


@cache
def _tables() -> Mapping[str, list[dict[str, Any]]]:
    tables: Mapping[str, list[dict[str, Any]]] = load_yaml(__package__, "data/conditions.yaml")
    return tables


def _condition(name: str, value: list[str] | str | bool) -> Condition:
    feature = name.removeprefix("not ")
    wanted = feature == name
    if isinstance(value, bool):
        return Condition(feature, frozenset(), ("?*",), None, value is wanted)
    if isinstance(value, str):
        return Condition(feature, frozenset(), (), re.compile(value, re.IGNORECASE), wanted)
    words: set[str] = set()
    for word in value:
        is_list = word.startswith("<") and word.endswith(">")
        words |= WORDS[word[1:-1]] if is_list else {word}
    patterns = tuple(word for word in words if "*" in word)
    return Condition(feature, frozenset(words), patterns, None, wanted)


def governor(sentence: Sentence, i: int) -> int:
    """Which token before ``i`` governs a verb there: the nearest that is no adverb and no *not*.

    Returns:
        The token's index; -1 if there is none.
    """
    position = i - 1
    while position >= 0 and (
        sentence.word(position) in WORDS["not"] | WORDS["adverbs"]
        or (sentence.tag(position) == "RB" and sentence.word(position).endswith("ly"))
    ):
        position -= 1
    return position


def _governor_ends_name(place: Place) -> bool:
    position = governor(place.sentence, place.start)
    if position < 0:
        return False
    end = place.sentence.tokens[position].end
    return any(entity.end == end for entity in place.sentence.entities)


def _head_noun(place: Place) -> tuple[str]:
    """The last noun of the noun phrase that follows; empty if there is none."""
    head, position = "", place.end
    while place.sentence.tag(position).startswith(("DT", "PRP$", "POS", "JJ", "NN", "CD")):
        if place.sentence.tag(position).startswith("NN"):
            head = place.sentence.word(position)
        position += 1
    return (head,)


def _verb_follows(place: Place) -> bool:
    """Whether a finite verb stands after the first following token, before the next break."""
    sentence = place.sentence
    for position in range(place.end, min(place.end + _LONGEST_CLAUSE, len(sentence.tokens))):
        if sentence.word(position) in _NO_VERB_BEYOND:
            return False
        if sentence.tag(position) in FINITE and position > place.end:
            return True
    return False


def _first_tag(place: Place, positions: Iterable[int], prefixes: tuple[str, ...]) -> tuple[str]:
    tags = map(place.sentence.tag, positions)
    return (next((tag for tag in tags if tag.startswith(prefixes)), ""),)


FEATURES: Mapping[str, Callable[[Place], Value]] = {
    "words": lambda place: place.sentence.words,
    "first tag": lambda place: (place.sentence.tag(0),),
    "last word": lambda place: (place.sentence.word(place.end - 1),),
    "pair": lambda place: (
        f"{place.sentence.small[place.start]} {place.sentence.word(place.end)}",
    ),
    "small": lambda place: place.sentence.tokens[place.start].text.islower(),
    "is one word": lambda place: place.end == place.start + 1,
    "words before": lambda place: place.sentence.small[: place.start],
    "words after": lambda place: place.sentence.small[place.end :],
    "text after": lambda place: place.sentence.text[place.sentence.tokens[place.end - 1].end :],
    "clause words before": lambda place: [
        place.sentence.word(position) for position in place.sentence.clause(place.start - 1, -1)
    ],
    "clause words after": lambda place: [
        place.sentence.word(position) for position in place.sentence.clause(place.end)
    ],
    "clause tags before": lambda place: [
        place.sentence.tag(position) for position in place.sentence.clause(place.start - 1, -1)
    ],
    "clause tags after": lambda place: [
        place.sentence.tag(position) for position in place.sentence.clause(place.end)
    ],
    "clause prepositions after": lambda place: [
        place.sentence.word(position)
        for position in place.sentence.clause(place.end)
        if place.sentence.tag(position + 1) != "VB"
    ],
    "governor": lambda place: (place.sentence.word(governor(place.sentence, place.start)),),
    "governor tag": lambda place: (place.sentence.tag(governor(place.sentence, place.start)),),
    "governor ends name": _governor_ends_name,
    "head noun": _head_noun,
    "next noun tag": lambda place: _first_tag(
        place, range(place.end, len(place.sentence.tokens)), ("NN",)
    ),
    "last finite tag": lambda place: _first_tag(place, range(place.start - 1, -1, -1), FINITE),
    "verb follows": _verb_follows,
    "past": lambda place: place.sentence.is_past,
    "qualified": lambda place: place.sentence.is_qualified(place.start),
}
"""How each feature that is not of one token is found."""
