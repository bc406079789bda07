"""Error types: which ones a completion has something to edit for, and of which one an edit is.

The first follows appendix A.1 of the paper, the second section 3.1, after Pagnoni et al. (2021).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from factor_gen.language import ENGLISH
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, LINK, PREDICATE, Example
from factor_gen.settings import TypesSettings
from factor_gen.text import Analysis, Tagger, Token, load_tagger
from factor_gen.text.analysis import (
    DATE,
    DURATION,
    MONEY,
    NAMES,
    NATIONALITY,
    NUMBER,
    PERCENT,
    PLACE,
    TIME,
)
from factor_gen.text.lists import DATA, entries, fingerprint
from lm_factuality.ground.packages import load_yaml

_OF_CIRCUMSTANCE = frozenset([PLACE, DATE, TIME, DURATION, NUMBER, MONEY, PERCENT])
_NAMED = (*NAMES, NATIONALITY)
_PRONOUNS = ("PRP", "PRP$")
_WORDS: Mapping[str, list[str]] = load_yaml(__package__, "types.yaml")
_LINKS = entries(DATA / "links.txt")


class Types:
    """The stage that sets ``Example.types``.

    Nouns make a sentence fit for entity errors, verbs for predicate errors, pronouns for
    coreference errors, and causal and temporal link words for link errors. For circumstance errors
    the paper looks for places, dates and times. We add quantities and adverbs in -ly, because
    manner and extent are circumstances too (section 3.1).
    """

    name = "types"

    def __init__(self, settings: TypesSettings, language: str = ENGLISH) -> None:
        self.settings = settings
        self._language = language

    @cached_property
    def _tagger(self) -> Tagger:
        return load_tagger(self.settings)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the types depend on."""
        return {
            "types": list(self.settings.types),
            "tagger": dict(self._tagger.fingerprint),
            "links": fingerprint([DATA]),
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Set the types of the examples that are in use; drop those with nothing to edit."""
        return [example if example.unused else self._typed(example) for example in examples]

    def _typed(self, example: Example) -> Example:
        types = self.settings.types
        # The taggers know English alone. In other languages the generator finds what to edit.
        if self._language == ENGLISH:
            possible = types_of(self._tagger.analyse(example.completion))
            types = tuple(error_type for error_type in types if error_type in possible)
        return (
            replace(example, types=types) if types else example.drop(self.name, "nothing to edit")
        )


def types_of(analysis: Analysis) -> frozenset[str]:
    """The error types that a sentence has something to edit for."""
    tokens = analysis.tokens
    text = f" {' '.join(token.text.lower() for token in tokens)} "
    has_circumstance = any(entity.kind in _OF_CIRCUMSTANCE for entity in analysis.entities)
    is_fit = {
        ENTITY: any(token.tag.startswith("NN") for token in tokens),
        PREDICATE: any(token.tag.startswith("VB") for token in tokens),
        COREFERENCE: any(token.tag in _PRONOUNS for token in tokens),
        CIRCUMSTANCE: has_circumstance or any(token.text.endswith("ly") for token in tokens),
        LINK: any(f" {link} " in text for link in _LINKS),
    }
    return frozenset(error_type for error_type in is_fit if is_fit[error_type])


class _Change(NamedTuple):
    """A token that one of two sentences has and the other has not."""

    analysis: Analysis
    position: int

    @property
    def token(self) -> Token:
        return self.analysis.tokens[self.position]

    @property
    def word(self) -> str:
        return self.token.text.lower()


def type_of(completion: str, contradiction: str, tagger: Tagger) -> str:
    """Tell the error type of the edit that makes the contradiction: the first that holds.

    - predicate: it negates
    - link: it changes link words alone
    - coreference: it gives a pronoun to somebody else
    - predicate: it puts another verb, or another property after a copula
    - circumstance: all that it changes is a place after its preposition, a time, a quantity or an
      adverb. (The paper's prompt for entities leaves quantities alone.)
    - entity
    """
    removed, added = _changes(tagger.analyse(completion), tagger.analyse(contradiction))
    negations = [
        sum(change.word in _WORDS["negations"] for change in changes)
        for changes in (removed, added)
    ]
    if negations[0] != negations[1]:
        return PREDICATE
    if _are_links(removed) or _are_links(added):
        return LINK
    tags = [change.token.tag for change in removed]
    if not set(tags).isdisjoint(_PRONOUNS) and not any(
        tag.startswith(("NN", "JJ", "CD")) for tag in tags
    ):
        return COREFERENCE
    if any(_is_predicate(change) for change in added or removed):
        return PREDICATE
    # Articles, prepositions and marks are taken along by an edit.
    content = [
        change for change in (*removed, *added) if change.token.tag not in _WORDS["small tags"]
    ]
    return CIRCUMSTANCE if all(map(_is_circumstance, content)) else ENTITY


def _changes(old: Analysis, new: Analysis) -> tuple[list[_Change], list[_Change]]:
    """The tokens that were removed and those that were added."""
    from rapidfuzz.distance import Levenshtein

    removed: list[_Change] = []
    added: list[_Change] = []
    words = [[token.text for token in analysis.tokens] for analysis in (old, new)]
    for opcode in Levenshtein.opcodes(*words):
        if opcode.tag != "equal":
            removed += [_Change(old, at) for at in range(opcode.src_start, opcode.src_end)]
            added += [_Change(new, at) for at in range(opcode.dest_start, opcode.dest_end)]
    return removed, added


def _are_links(changes: Sequence[_Change]) -> bool:
    words = [change.word for change in changes if change.token.text.isalpha()]
    return bool(words) and (" ".join(words) in _LINKS or _LINKS.issuperset(words))


def _is_predicate(change: _Change) -> bool:
    """Whether it is a verb, no participle before a noun, or a property that a copula states."""
    tokens, at, tag = change.analysis.tokens, change.position, change.token.tag
    is_before_noun = any(token.tag.startswith("NN") for token in tokens[at + 1 : at + 2])
    if is_before_noun and tag.startswith(("VBN", "VBG", "JJ")):
        return False
    before = [token.text.lower() for token in tokens[max(0, at - 2) : at]]
    is_stated = tag.startswith("JJ") and not set(before).isdisjoint(_WORDS["copulas"])
    return is_stated or tag.startswith(("VB", "MD"))


def _is_circumstance(change: _Change) -> bool:
    token, analysis = change.token, change.analysis
    if token.tag.startswith(("RB", "CD")) or change.word in _WORDS["times"]:
        return True
    for entity in analysis.entities:
        if entity.start <= token.start < entity.end:
            before = analysis.text[: entity.start].lower().split()[-1:]
            is_placed = not set(before).isdisjoint(_WORDS["prepositions"])
            return is_placed if entity.kind == PLACE else entity.kind not in _NAMED
    return False
