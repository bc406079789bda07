"""Which error types a completion has something to edit for (appendix A.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from factor_gen.language import ENGLISH
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, LINK, PREDICATE, Example
from factor_gen.settings import TypesSettings
from factor_gen.text import Analysis, Tagger, load_tagger
from factor_gen.text.analysis import DATE, DURATION, MONEY, NUMBER, PERCENT, PLACE, TIME
from factor_gen.text.lists import DATA, fingerprint, rows

_OF_CIRCUMSTANCE = frozenset([PLACE, DATE, TIME, DURATION, NUMBER, MONEY, PERCENT])
_PRONOUNS = ("PRP", "PRP$")


class Types:
    """Sets ``Example.types``: nouns make a sentence fit for entity errors, verbs for predicate errors, pronouns for coreference
    errors, and causal and temporal link words for link errors. For circumstance errors the paper looks for places, dates and
    times; we add quantities and adverbs in -ly, for manner and extent are circumstances too (section 3.1)."""

    name = "types"

    def __init__(self, settings: TypesSettings, language: str = ENGLISH) -> None:
        self.settings, self._language = settings, language

    @cached_property
    def _tagger(self) -> Tagger:
        return load_tagger(self.settings)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {"types": list(self.settings.types), "tagger": dict(self._tagger.fingerprint), "links": fingerprint([DATA])}

    def run(self, examples: Sequence[Example]) -> list[Example]:
        return [each if each.unused else self._typed(each) for each in examples]

    def _typed(self, example: Example) -> Example:
        if self._language != ENGLISH:  # the taggers know no other language: the generator finds what there is to edit
            return replace(example, types=self.settings.types)
        found = types_of(self._tagger.analyse(example.completion))
        types = tuple(each for each in self.settings.types if each in found)
        return replace(example, types=types) if types else example.drop(self.name, "nothing to edit")


def types_of(analysis: Analysis) -> frozenset[str]:
    """The error types that a sentence has something to edit for."""
    tags = {token.tag for token in analysis.tokens}
    kinds = {entity.kind for entity in analysis.entities}
    words = " " + " ".join(token.text.lower() for token in analysis.tokens) + " "
    links = (row[0] for row in rows(DATA / "links.txt"))
    found = {
        ENTITY: any(tag.startswith("NN") for tag in tags),
        PREDICATE: any(tag.startswith("VB") for tag in tags),
        COREFERENCE: any(tag in _PRONOUNS for tag in tags),
        CIRCUMSTANCE: bool(kinds & _OF_CIRCUMSTANCE) or any(each.text.endswith("ly") for each in analysis.tokens),
        LINK: any(f" {link} " in words for link in links),
    }
    return frozenset(kind for kind, is_there in found.items() if is_there)
