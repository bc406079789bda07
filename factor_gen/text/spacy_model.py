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

_KINDS = {row[0]: row[1] for row in rows(DATA / "spacy.tsv")}
_NAMED = (*NAMES, NATIONALITY)


class SpacyTagger:
    """Finds what a spaCy model says; see `factor_gen.text.analysis.Tagger`.

    Names are the model's. Dates and quantities keep to the shapes of `factor_gen.text.analysis`,
    which the rules can edit, where the model's entity holds one.

    Raises:
        ConfigError: spaCy or the model is not installed, or the model has no tagger.
    """

    name = "spacy"

    def __init__(self, model: str) -> None:
        """Name the model: a package, or a folder."""
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
        """The model's name and version."""
        meta = self._pipeline.meta
        return {
            "tagger": self.name,
            "model": f"{meta.get('lang')}_{meta.get('name')}",
            "version": meta.get("version"),
        }

    def analyse(self, text: str) -> Analysis:
        """The tokens with their tags, and the entities."""
        # The limit is in characters: spaCy refuses longer texts.
        document = self._pipeline(text[: self._pipeline.max_length])
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
        names: list[Entity] = []
        others = times_and_quantities(text)
        for span in document.ents:
            kind = _KINDS.get(span.label_, "")
            entity = Entity(span.text, span.start_char, span.end_char, kind)
            if kind:
                (names if kind in _NAMED else others).append(entity)
        return Analysis(text, tokens, tuple(without_overlaps([*names, *others])))

    def names(self, text: str) -> tuple[Entity, ...]:
        """The names alone."""
        return tuple(entity for entity in self.analyse(text).entities if entity.kind in _NAMED)
