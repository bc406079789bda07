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
from functools import cache, partial
from typing import Any

from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.text.analysis import FINITE, MONEY, NUMBER, PERCENT
from factor_gen.text.pattern import SUBJECTS
from lm_factuality.ground.packages import load_yaml

Value = Collection[str] | str | bool
"""What a feature of a place is: words, a text, or whether it is there."""
_ONE_TOKEN = re.compile(r"(word|tag|kind) (-?\d+)")
_SEVERAL_TOKENS = re.compile(r"(\d+|clause) (word|tag)s (before|after)")
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

    @classmethod
    def of_characters(cls, sentence: Sentence, start: int, end: int, **facts: Value) -> "Place":
        """The place of some characters, which need not be whole tokens."""
        first, last = sentence.starts.get(start), sentence.ends.get(end)
        named = {name.replace("_", " "): value for name, value in facts.items()}
        named |= {
            "text before": sentence.text[:start],
            "text after": sentence.text[end:],
            "whole tokens": first is not None and last is not None,
        }
        return cls(sentence, first or 0, (last or 0) + 1, named)

    def meets(self, table: str) -> bool:
        """Whether a rule of the table holds here."""
        return self.first_rule(table) is not None

    def first_rule(self, table: str) -> "Rule | None":
        """The first rule of the table that holds here."""
        for rule in rules(table):
            if all(condition.holds(self) for condition in rule.conditions):
                return rule
        return None


@dataclass(frozen=True)
class Condition:
    """One feature, and the values of which it must have one."""

    read: Callable[[Place], Value]
    values: frozenset[str]
    patterns: tuple[str, ...]
    """Values with ``*``."""
    expression: re.Pattern[str] | None
    wanted: bool

    def holds(self, place: Place) -> bool:
        """Whether the place has one of the values, or has none where that is wanted."""
        value = self.read(place)
        if self.expression is not None:
            return bool(self.expression.search(str(value))) is self.wanted
        if isinstance(value, bool):
            return value is self.wanted
        return any(map(self._is_listed, value)) is self.wanted

    def _is_listed(self, word: str) -> bool:
        return word in self.values or any(fnmatchcase(word, pattern) for pattern in self.patterns)


@dataclass(frozen=True)
class Rule:
    """Conditions that must hold together, and what follows if they do."""

    conditions: tuple[Condition, ...]
    result: str
    """The value of ``then``, in tables that choose one."""


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
    if feature == "is":
        tables = tuple(value)  # type: ignore[arg-type]
        return Condition(partial(_is_one_of, tables), frozenset(), (), None, wanted)
    read = _reader(feature)
    if isinstance(value, bool):
        return Condition(read, frozenset(), ("?*",), None, value)
    if isinstance(value, str):
        return Condition(
            read, frozenset(), (), re.compile(value, re.IGNORECASE | re.DOTALL), wanted
        )
    words: set[str] = set()
    for word in value:
        is_list = word.startswith("<") and word.endswith(">")
        words |= WORDS[word[1:-1]] if is_list else {word}
    patterns = tuple(word for word in words if "*" in word)
    return Condition(read, frozenset(words), patterns, None, wanted)


def _is_one_of(tables: Iterable[str], place: Place) -> bool:
    return any(place.meets(table) for table in tables)


def _reader(feature: str) -> Callable[[Place], Value]:
    """How the value of a feature is found at a place."""
    one_token = _ONE_TOKEN.fullmatch(feature)
    if one_token:
        return partial(_of_one_token, one_token[1], int(one_token[2]))
    several_tokens = _SEVERAL_TOKENS.fullmatch(feature)
    if several_tokens:
        reach, name, side = several_tokens.groups()
        return partial(_of_several_tokens, reach, name, side)
    return lambda place: (
        place.facts[feature] if feature in place.facts else FEATURES[feature](place)
    )


def _of_one_token(name: str, distance: int, place: Place) -> tuple[str]:
    position = place.start + distance if distance <= 0 else place.end + distance - 1
    return (_READERS[name](place.sentence, position),)


def _of_several_tokens(reach: str, name: str, side: str, place: Place) -> list[str]:
    step, first = (-1, place.start - 1) if side == "before" else (1, place.end)
    positions: Iterable[int] = place.sentence.clause(first, step)
    if reach != "clause":
        positions = range(first, first + step * int(reach), step)
    return [_READERS[name](place.sentence, position) for position in positions]


_READERS: Mapping[str, Callable[[Sentence, int], str]] = {
    "word": Sentence.word,
    "tag": Sentence.tag,
    "kind": Sentence.kind_at,
}


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


def _head_noun(place: Place) -> tuple[str]:
    """The last noun of the noun phrase that follows; empty if there is none."""
    head, position = "", place.end
    while place.sentence.tag(position).startswith(("DT", "PRP$", "POS", "JJ", "NN", "CD")):
        if place.sentence.tag(position).startswith("NN"):
            head = place.sentence.word(position)
        position += 1
    return (head,)


def _subject_stands_before(place: Place) -> bool:
    """Whether the verb's subject stands right before it.

    A pronoun is one, and so is a noun phrase that no preposition governs: *in 1932 he*, *in those
    days the town*, but not *in the town*.
    """
    sentence, position = place.sentence, place.start - 1
    if sentence.word(position) in SUBJECTS:
        position -= 1
    else:
        while sentence.tag(position).startswith(("NN", "JJ", "CD", "POS")):
            position -= 1
        if sentence.tag(position).startswith(("DT", "PRP")):
            position -= 1
    return position < place.start - 1 and sentence.tag(position) not in ("IN", "TO")


def _last_finite_tag(place: Place) -> tuple[str, ...]:
    """The tag of the nearest finite verb before the tokens; nothing if there is none."""
    finite = [tag for tag in place.sentence.tags[: place.start] if tag in FINITE]
    return tuple(finite[-1:])


def _verb_follows(place: Place) -> bool:
    """Whether a finite verb stands after the first following token, before the next break."""
    sentence = place.sentence
    for position in range(place.end, min(place.end + _LONGEST_CLAUSE, len(sentence.tokens))):
        if sentence.word(position) in _NO_VERB_BEYOND:
            return False
        if sentence.tag(position) in FINITE and position > place.end:
            return True
    return False


FEATURES: Mapping[str, Callable[[Place], Value]] = {
    "text": lambda place: place.sentence.text,
    "text after": lambda place: place.sentence.text[place.sentence.tokens[place.end - 1].end :],
    "words": lambda place: place.sentence.words,
    "tags": lambda place: place.sentence.tags,
    "words before": lambda place: place.sentence.small[: place.start],
    "words after": lambda place: place.sentence.small[place.end :],
    "tags inside": lambda place: place.sentence.tags[place.start : place.end],
    "tags before": lambda place: place.sentence.tags[: place.start],
    "first word": lambda place: (place.sentence.word(0),),
    "first tag": lambda place: (place.sentence.tag(0),),
    "opening tag": lambda place: (place.sentence.tag(int(place.sentence.tag(0) == "CC")),),
    "last word": lambda place: (place.sentence.word(place.end - 1),),
    "last tag": lambda place: (place.sentence.tag(place.end - 1),),
    "pair before": lambda place: (
        f"{place.sentence.word(place.start - 1)} {place.sentence.small[place.start]}",
    ),
    "several amounts": lambda place: (
        sum(entity.kind in (MONEY, NUMBER, PERCENT) for entity in place.sentence.entities) > 1
    ),
    "pair": lambda place: (" ".join(place.sentence.small[place.end - 1 : place.end + 1]),),
    "small": lambda place: place.sentence.tokens[place.start].text.islower(),
    "is one word": lambda place: place.end == place.start + 1,
    "capital before": lambda place: place.sentence.is_capital(place.start - 1),
    "capital after": lambda place: place.sentence.is_capital(place.end),
    "subject before": _subject_stands_before,
    "governor": lambda place: (place.sentence.word(governor(place.sentence, place.start)),),
    "governor tag": lambda place: (place.sentence.tag(governor(place.sentence, place.start)),),
    "head noun": _head_noun,
    "last finite tag": _last_finite_tag,
    "verb follows": _verb_follows,
    "past": lambda place: place.sentence.is_past,
    "qualified": lambda place: place.sentence.is_qualified(place.start),
}
"""How each feature that is not of some tokens is found."""
