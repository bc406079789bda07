"""The stage ``types`` (appendix A.1): which error types a completion has something to edit for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from factor_gen.language import ENGLISH
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, LINK, PREDICATE, Example
from factor_gen.settings import TypesSettings
from factor_gen.text import Analysis, Tagger, load_tagger
from factor_gen.text.analysis import (
    DATE,
    DURATION,
    MONEY,
    NUMBER,
    PERCENT,
    PLACE,
    TIME,
)
from factor_gen.text.lists import DATA, entries, fingerprint

_OF_CIRCUMSTANCE = frozenset([PLACE, DATE, TIME, DURATION, NUMBER, MONEY, PERCENT])
_PRONOUNS = ("PRP", "PRP$")
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
