"""A spaCy pipeline as tagger: one written to disk here, with rules in place of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from factor_gen.settings import TypesSettings
from factor_gen.text import load_tagger
from factor_gen.text.spacy_model import SpacyTagger
from lm_factuality.ground.errors import ConfigError

spacy = pytest.importorskip("spacy")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = spacy.blank("en")
    ruler = model.add_pipe("attribute_ruler")
    ruler.add([[{"LOWER": "sailed"}]], {"TAG": "VBD"})
    ruler.add([[{"LOWER": "he"}]], {"TAG": "PRP"})
    ruler.add([[{"IS_TITLE": True, "LOWER": {"NOT_IN": ["he"]}}]], {"TAG": "NNP"})
    entities = model.add_pipe("entity_ruler")
    entities.add_patterns(
        [
            {"label": "GPE", "pattern": "Lower Tarn"},
            {"label": "PERSON", "pattern": "Ada Roe"},
            {"label": "DATE", "pattern": "that night"},
        ]
    )
    folder = tmp_path_factory.mktemp("spacy") / "model"
    model.to_disk(folder)
    return folder


def test_tags_and_entities_are_the_models(pipeline: Path) -> None:
    tagger = load_tagger(TypesSettings(tagger="spacy", model=str(pipeline)))
    analysis = tagger.analyse("He sailed to Lower Tarn with Ada Roe that night, on 3 May 1921.")
    assert [token.tag for token in analysis.tokens[:2]] == ["PRP", "VBD"]
    assert [(entity.text, entity.kind) for entity in analysis.entities] == [
        ("Lower Tarn", "place"),
        ("Ada Roe", "person"),
        ("that night", "date"),
        ("3 May 1921", "date"),
    ]
    assert [entity.text for entity in tagger.find_names("He sailed to Lower Tarn in 1921.")] == [
        "Lower Tarn"
    ]


def test_a_missing_model_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match="python -m spacy download en_core_web_none"):
        SpacyTagger("en_core_web_none").analyse("Any text.")


def test_a_model_without_tags_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigError, match="gives no part-of-speech tags"):
        SpacyTagger(str(tmp_path / "blank")).analyse("Any text.")
