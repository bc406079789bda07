"""Analyses texts: finds their sentences, parts of speech, names, dates and quantities.

The selection of sentences, the rules and the audit read texts with this package.
"""

from functools import lru_cache

from factor_gen.settings import TypesSettings
from factor_gen.text.analysis import Analysis, Entity, Tagger, Token
from factor_gen.text.pattern import PatternTagger
from factor_gen.text.spacy_model import SpacyTagger

__all__ = ["Analysis", "Entity", "Tagger", "Token", "load_tagger"]


@lru_cache(maxsize=4)
def load_tagger(settings: TypesSettings) -> Tagger:
    """Return the tagger that the settings name.

    Raises:
        ConfigError: A library that the tagger needs is not installed.
    """
    return SpacyTagger(settings.model) if settings.tagger == "spacy" else PatternTagger()
