"""Keys that change nothing beside the others of their section: who sets one expects something that will not come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factor_gen.corpus.files import is_text

_OF_A_MODEL = "is for the generator llm, and rules ask no model"
_OF_SPACY = "is for the tagger spacy, and the tagger is pattern"
_OF_A_DATASET = "is for a dataset, and corpus.path names files"
_OF_A_TABLE = "is for tables, and a text file is one document without columns"


def idle_keys(content: Mapping[str, Any], folder: Path) -> dict[tuple[str, str], str]:
    """The (section, key) that change nothing in a build with this ``content``, each with the reason, whether set or not."""
    found: dict[tuple[str, str], str] = {}
    if _value(content, "generate", "generator") == "rules":
        found |= {("generate", key): _OF_A_MODEL for key in ("judge", "prompts", "context")}
    if _value(content, "types", "tagger") in (None, "pattern"):
        found["types", "model"] = _OF_SPACY
    path = _value(content, "corpus", "path")
    if isinstance(path, str) and _value(content, "corpus", "dataset") is None:
        found |= {("corpus", key): _OF_A_DATASET for key in ("config", "split", "revision")}
        if is_text(folder, path):
            found |= {("corpus", key): _OF_A_TABLE for key in ("text", "id")}
    return found


def _value(content: Mapping[str, Any], section: str, key: str) -> Any:
    given = content.get(section)
    return given.get(key) if isinstance(given, Mapping) else None
