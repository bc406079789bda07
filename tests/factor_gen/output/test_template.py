"""The template of a corpus, which users copy."""

from __future__ import annotations

from factor_gen.config import load_build
from factor_gen.settings import (
    BuildSettings,
    CorpusSettings,
    GenerateSettings,
    OfflineSettings,
)
from tests.conftest import REPOSITORY


def test_template_shows_default_of_every_optional_key() -> None:
    """A user who copies the template sees every key with its default.

    The settings that are not named below have the defaults of their classes.
    """
    folder = REPOSITORY / "configs" / "corpora"

    settings = load_build(folder / "_my_corpus.yaml")

    assert settings == BuildSettings(
        name="my_factor",
        folder=folder,
        corpus=CorpusSettings(path="my_texts/*.txt"),
        generate=GenerateSettings(generator="rules"),
        # This is the default check for contradictions by rules.
        contradiction=OfflineSettings(),
    )
