"""The stage ``types`` (appendix A.1), which tells the error types that a sentence has edits for.

`factor_gen.stages.open_stage` opens it between the stages ``select`` and ``generate``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from factor_gen.text.lists import DATA, hash_lists, read_first_column

_CIRCUMSTANCE_KINDS = frozenset([PLACE, DATE, TIME, DURATION, NUMBER, MONEY, PERCENT])
# Pronouns that may stand for somebody or something in the text. "We" and "you" seldom do.
_PRONOUNS = re.compile(
    "(?:he|him|his|himself|she|hers?|herself|it|its|itself|they|them|theirs?|themselves)",
    re.IGNORECASE,
)
_LINK_WORDS = read_first_column(DATA / "links.txt")


@dataclass(eq=False, repr=False)
class TypesStage:
    """The stage that sets ``Example.types``, the error types that a completion can be edited for.

    Nouns make a sentence fit for entity errors, verbs for predicate errors, pronouns for
    coreference errors, and causal and temporal link words for link errors. For circumstance errors
    the paper looks for places, dates and times. We add quantities and adverbs in -ly, because
    manner and extent are circumstances too (section 3.1). The tagger is loaded when it is first
    needed.
    """

    name = "types"

    settings: TypesSettings
    """The error types to look for, and the tagger."""

    language: str = ENGLISH
    """The language of the corpus as an ISO 639-1 code."""

    @cached_property
    def _tagger(self) -> Tagger:
        """The tagger that the settings name."""
        return load_tagger(self.settings)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The settings, tagger and word lists that decide the types."""
        return {
            "types": list(self.settings.types),
            "tagger": dict(self._tagger.fingerprint),
            "links": hash_lists([DATA]),
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Set the error types of each example, and drop those with nothing to edit.

        Unused examples pass unchanged.
        """
        return [example if example.unused else self._set_types(example) for example in examples]

    def _set_types(self, example: Example) -> Example:
        """Return the example with its error types, or marked as unused if it has none.

        The types are those of the settings that its completion can be edited for.
        """
        types = self.settings.types

        # The taggers know only English. In other languages the generator finds what to edit.
        if self.language == ENGLISH:
            editable = editable_types(self._tagger.analyse(example.completion))
            types = tuple(error_type for error_type in types if error_type in editable)

        # A sentence such as "Yes." has nothing that the generator could change.
        if not types:
            return example.drop(self.name, "nothing to edit")
        return replace(example, types=types)


def editable_types(analysis: Analysis) -> frozenset[str]:
    """Return the error types for which a sentence has something to edit.

    Example:
        "She left because it rained." gives predicate, coreference and link.
    """
    tokens = analysis.tokens
    has_circumstance = any(entity.kind in _CIRCUMSTANCE_KINDS for entity in analysis.entities)
    # Most adverbs of manner and extent, such as "slowly" and "largely", end in -ly. So do "Italy"
    # and "family", which have other tags.
    has_adverb = any(token.text.endswith("ly") and token.tag == "RB" for token in tokens)
    # In capital letters, "IT" and "HE" are abbreviations or headings.
    has_pronoun = any(
        _PRONOUNS.fullmatch(token.text) and not token.text.isupper() for token in tokens
    )
    # Spaces around the text and the link word keep "as" from being found in "was".
    text = f" {' '.join(token.text.lower() for token in tokens)} "

    is_editable_by_type = {
        ENTITY: any(token.tag.startswith("NN") for token in tokens),
        PREDICATE: any(token.tag.startswith("VB") for token in tokens),
        COREFERENCE: has_pronoun,
        CIRCUMSTANCE: has_circumstance or has_adverb,
        LINK: any(f" {link} " in text for link in _LINK_WORDS),
    }
    return frozenset(
        error_type for error_type, is_editable in is_editable_by_type.items() if is_editable
    )
