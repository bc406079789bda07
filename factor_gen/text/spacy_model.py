"""The tagger that runs a spaCy model. `factor_gen.text.load_tagger` makes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from factor_gen.text.analysis import (
    NAMES,
    NATIONALITY,
    Analysis,
    Entity,
    Token,
    drop_overlaps,
    find_times_and_quantities,
)
from factor_gen.text.lists import DATA, read_rows
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import need

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_KIND_OF_LABEL = {row[0]: row[1] for row in read_rows(DATA / "spacy.tsv")}
_NAMES_AND_NATIONALITIES = (*NAMES, NATIONALITY)


@dataclass
class SpacyTagger:
    """Finds parts of speech and entities with a spaCy model; see `factor_gen.text.analysis.Tagger`.

    All names are the model's. A date or quantity of the model is taken only if no regular
    expression of ``times.tsv`` matches the words, because the rules can edit those best.

    Raises:
        ConfigError: spaCy or the model is not installed, or the model has no tagger.
    """

    name = "spacy"

    model: str
    """The name of an installed model, such as ``en_core_web_sm``, or a folder.

    The model is loaded when it is needed.
    """

    @cached_property
    def _pipeline(self) -> "Language":
        """The loaded model."""
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
        """Find the tokens with their tags, and the entities.

        In a text that is longer than the model allows, mostly a million characters, the tokens and
        names are those of its beginning only.

        Raises:
            ConfigError: The model has no tagger.
        """
        # spaCy refuses texts with more characters.
        document = self._pipeline(text[: self._pipeline.max_length])
        tokens = []
        for token in document:
            if not token.is_space:
                end = token.idx + len(token.text)
                tokens.append(Token(token.text, token.idx, end, token.tag_))
        has_tags = any(token.tag for token in tokens)
        if tokens and not has_tags:
            raise ConfigError(
                f"types.model: the spaCy model '{self.model}' gives no part-of-speech tags; use one"
                " with a tagger"
            )
        return Analysis(text, tuple(tokens), tuple(_find_entities(document, text)))


def _find_entities(document: "Doc", text: str) -> list[Entity]:
    """Find the names, dates and quantities of a text, in order. No two of them overlap.

    Example:
        In ``Ann paid $5``, the model finds the name ``Ann``, and ``times.tsv`` the amount ``$5``.

    Args:
        document: The text as the model analysed it.
        text: The whole text, of which the document may be the beginning.
    """
    names = []
    dates_and_quantities = []
    for span in document.ents:
        kind = _KIND_OF_LABEL.get(span.label_)
        # We do not need all kinds that a model may find, such as works of art.
        if not kind:
            continue
        entity = Entity(span.text, span.start_char, span.end_char, kind)
        if kind in _NAMES_AND_NATIONALITIES:
            names.append(entity)
        else:
            dates_and_quantities.append(entity)

    # Where entities overlap, the first in this order stays. The model knows names better than our
    # regular expressions do, and these know dates and quantities better.
    by_preference = [*names, *find_times_and_quantities(text), *dates_and_quantities]
    return drop_overlaps(by_preference)
