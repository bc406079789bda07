"""A spaCy model as tagger."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from factor_gen.text.analysis import (
    NAMES,
    NATIONALITY,
    Analysis,
    Entity,
    Token,
    times_and_quantities,
    without_overlaps,
)
from factor_gen.text.lists import DATA, rows
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import need

_NAMED = (*NAMES, NATIONALITY)


class SpacyTagger:
    """See :class:`factor_gen.text.analysis.Tagger`. Names are the model's; dates and quantities
    keep to the shapes of :mod:`factor_gen.text.analysis`, which the rules can edit, where the
    model's entity holds one. Raises ConfigError: spaCy or the model is not installed, or the model
    has no tagger or no entity recogniser."""

    name = "spacy"

    def __init__(self, model: str) -> None:
        self.model = model

    @cached_property
    def _pipeline(self) -> Any:
        spacy = need("spacy", "tagger: spacy", "spacy")
        try:
            return spacy.load(self.model)
        except OSError as error:
            raise ConfigError(
                f"types.model: no spaCy model '{self.model}' is installed and no folder has that"
                f" name; python -m spacy download {self.model}"
            ) from error

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        meta = self._pipeline.meta
        return {
            "tagger": self.name,
            "model": f"{meta.get('lang')}_{meta.get('name')}",
            "version": meta.get("version"),
        }

    def analyse(self, text: str) -> Analysis:
        document = self._pipeline(
            text[: self._pipeline.max_length]
        )  # in characters: spaCy refuses longer texts
        tokens = tuple(
            Token(token.text, token.idx, token.idx + len(token.text), token.tag_)
            for token in document
            if not token.is_space
        )
        if tokens and not any(token.tag for token in tokens):
            raise ConfigError(
                f"types.model: the spaCy model '{self.model}' gives no part-of-speech tags; use one"
                " with a tagger"
            )
        return Analysis(text, tokens, _entities(text, document))

    def names(self, text: str) -> tuple[Entity, ...]:
        return tuple(
            each
            for each in _entities(text, self._pipeline(text[: self._pipeline.max_length]))
            if each.kind in _NAMED
        )


def _entities(text: str, document: Any) -> tuple[Entity, ...]:
    kinds = {row[0]: row[1] for row in rows(DATA / "spacy.tsv", 2)}
    found = [
        Entity(
            text[each.start_char : each.end_char],
            each.start_char,
            each.end_char,
            kinds[each.label_],
        )
        for each in document.ents
        if each.label_ in kinds
    ]
    names = [each for each in found if each.kind in _NAMED]
    quantities = [each for each in found if each.kind not in _NAMED]
    return tuple(without_overlaps((*names, *times_and_quantities(text), *quantities)))
