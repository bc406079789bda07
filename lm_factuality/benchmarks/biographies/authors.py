"""The authors' own prompts of AmbigBio, read from a checkout of their repository, none of which is in this one: JSON in ALCE's
format, with an instruction, demonstrations, and the forms of a demonstration and of a document."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model

PROMPTS = {"ambiguous": "with_ambig", "unambiguous": "no_ambig"}  # by the demonstrations that the suite has for the same setting
NAMES = (*PROMPTS.values(), "careful")
_SHOTS, _DOCUMENTS, _SEED = 2, 5, 42  # of their configurations


class _Document(BaseModel):
    title: str
    text: str


class _Demonstration(BaseModel):
    question: str
    answer: str | list[str]
    docs: list[_Document]


class _Prompt(BaseModel):
    instruction: str
    demo_sep: str
    demo_prompt: str
    doc_prompt: str
    demos: list[_Demonstration] = Field(min_length=_SHOTS)


class AuthorsPrompt:
    """One prompt: of ``place``, a checkout of d223302/Merging-Facts-Crafting-Fallacies, the one called ``name`` (one of
    ``NAMES``), or the file ``place``.

    Raises:
        ConfigError: there is no such prompt, or it is not in ALCE's format.
    """

    def __init__(self, place: Path, name: str) -> None:
        if name not in NAMES:
            raise ConfigError(f"prompt: found {name!r}, expected one of {', '.join(NAMES)}")
        path = place if place.is_file() else place / "ALCE" / "AmbigBio_prompts" / f"AmbigBio_default_{name}.json"
        expected = "expected a checkout of d223302/Merging-Facts-Crafting-Fallacies, or a prompt in ALCE's format"
        try:
            self._prompt = to_model(_Prompt, parse_json(read_text(path, expected), is_shared=False))
        except DataError as error:
            raise ConfigError(f"prompts: {error}") from error
        except ValueError as error:
            raise ConfigError(f"prompts: {path}: {error}; {expected}") from error
        self.hash = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        demos = self._prompt.demos
        chosen = np.random.RandomState(_SEED).choice(len(demos), _SHOTS, replace=False)  # as their script draws them
        self._head = "".join(
            self._written(each.question, each.docs)
            + (each.answer if isinstance(each.answer, str) else "\n" + "\n".join(each.answer))
            + self._prompt.demo_sep
            for each in (demos[number] for number in chosen)
        )

    def render(self, doc: Mapping[str, Any]) -> str:
        """The prompt about a document of lm_eval, byte for byte as their script writes it: in place of the name it has the whole
        question ("Tell me a bio of ...")."""
        return self._head + self._written(doc["question"], [_Document(**passage) for passage in doc["passages"]])

    def _written(self, question: str, documents: list[_Document]) -> str:
        form = self._prompt.doc_prompt
        shown = "".join(
            form.replace("{T}", each.title).replace("{P}", each.text).replace("{ID}", str(number))
            for number, each in enumerate(documents[:_DOCUMENTS], 1)
        )
        text = self._prompt.demo_prompt.replace("{INST}", self._prompt.instruction).replace("{Q}", question)
        return text.replace("{D}", shown).replace("{A}", "").rstrip()
