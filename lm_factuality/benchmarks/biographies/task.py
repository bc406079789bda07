"""The lm_eval tasks of AmbigBio: biographies from retrieved passages, marked by a judge.

The authors' own prompts are read from a checkout of their repository. None of them is in this one.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, Field

from lm_factuality.benchmarks.biographies.benchmark import BENCHMARK
from lm_factuality.benchmarks.biographies.generations import (
    AMBIGBIO_SOURCE,
    generation_to_doc,
    read_generations,
)
from lm_factuality.benchmarks.biographies.method import method_from_metadata
from lm_factuality.benchmarks.biographies.types import RetrievedPassage
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_model
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.suite_task import TaskSettings

Render = Callable[[Doc], str]
"""Makes the prompt of a document of lm_eval."""

PROMPTS = {"ambiguous": "with_ambig", "unambiguous": "no_ambig"}
"""The authors' prompts by the demonstrations that the suite has for the same setting."""

_SHOTS, _DOCUMENTS, _SEED = 2, 5, 42  # of the authors' configurations


class AmbigBioTask(JudgedTask):
    """A task by a YAML that includes ``tasks/ambigbio/_ambigbio.yaml``.

    Its metrics are ``scores.SCORES``. Samples hold in ``filtered_resps`` the judge's record (see
    ``judging``). ``docs/configuration.md`` explains the keys of ``metadata``.

    Raises:
        ConfigError, DataError: On construction, if the data, the knowledge or the judge cannot be
            used.
    """

    declared = BENCHMARK
    reads = (
        *("generations", "demonstrations", "prompts", "prompt"),
        *("knowledge", "linking", "facts", "protocol"),
    )
    instructs = True

    def built(self) -> None:
        super().built()
        # A path of this machine is no part of the results.
        self.config.metadata.pop("generations", None)

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        generations = metadata.get("generations")
        self._own_data = (
            Path(str(generations)).expanduser()
            if generations
            else own_data(config, "JSON as ALCE has it")
        )
        about, self._render = _renderer(metadata)
        method = method_from_metadata(metadata)
        texts = {"doc_to_text": "text", "doc_to_target": "name"}
        return method, TaskSettings(texts, {**about, **method.recorded_settings})

    def read_documents(self) -> list[dict[str, Any]]:
        path, self.config.metadata["data"] = find_data(
            self._own_data, AMBIGBIO_SOURCE, self._data_dir
        )
        docs = [
            generation_to_doc(generation) for generation in read_generations([path], outputs=False)
        ]
        return [{**doc, "text": self._render(doc)} for doc in docs]


class _PromptSettings(BaseModel):
    """The metadata that say what the model is asked."""

    demonstrations: Literal["ambiguous", "unambiguous"] = "ambiguous"
    prompts: Path | None = None
    prompt: str | None = None


def _renderer(metadata: Mapping[str, Any]) -> tuple[JsonObject, Render]:
    """Return what results say of the prompt, and how it is made from a document.

    Raises:
        ConfigError: There are no such demonstrations or prompts.
    """
    settings = read_settings(_PromptSettings, dict(metadata), "metadata")
    kind = settings.demonstrations
    if settings.prompts:
        name = settings.prompt or PROMPTS[kind]
        render, digest = authors_prompt(settings.prompts.expanduser(), name)
        about = {"demonstrations": "authors", "prompts": "authors", "prompt": name}
        return {**about, "prompt_hashes": {"authors": digest}}, render
    if settings.prompt:
        raise ConfigError(
            f"prompt: found {settings.prompt!r} without prompts; add prompts=DIR, a checkout of the"
            " authors' repository"
        )
    folder = tasks_folder() / "ambigbio"
    demonstrations = parse_json((folder / "demonstrations.json").read_text(encoding="utf-8"))
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "prompt.jinja").read_text(encoding="utf-8"))

    def render_document(doc: Doc) -> str:
        return template.render(demonstrations=demonstrations[kind], subject=doc).strip()

    return {"demonstrations": kind}, render_document


class _Demonstration(BaseModel):
    question: str
    answer: str
    docs: list[RetrievedPassage]


class _Prompt(BaseModel):
    """A prompt in ALCE's format, with places such as {INST} to fill in."""

    instruction: str
    demo_sep: str
    demo_prompt: str
    doc_prompt: str
    demos: list[_Demonstration] = Field(min_length=_SHOTS)

    def write(self, question: str, documents: Sequence[RetrievedPassage]) -> str:
        """Return the prompt up to where the answer begins."""
        listed = ""
        for number, document in enumerate(documents[:_DOCUMENTS], start=1):
            text = self.doc_prompt.replace("{T}", document.title).replace("{P}", document.text)
            listed += text.replace("{ID}", str(number))
        text = self.demo_prompt.replace("{INST}", self.instruction).replace("{Q}", question)
        return text.replace("{D}", listed).replace("{A}", "").rstrip()


def authors_prompt(checkout: Path, name: str) -> tuple[Render, str]:
    """Read one of the authors' prompts.

    Args:
        checkout: Of d223302/Merging-Facts-Crafting-Fallacies.
        name: The prompt: ``with_ambig``, ``no_ambig`` or ``careful``.

    Returns:
        What writes the prompt of a document byte for byte as their script does (in place of the
        name it has the whole question, "Tell me a bio of ..."), and a hash of the file.

    Raises:
        ConfigError: There is no such prompt, or it is not in ALCE's format.
    """
    path = checkout / "ALCE" / "AmbigBio_prompts" / f"AmbigBio_default_{name}.json"
    expected = (
        "expected a checkout of d223302/Merging-Facts-Crafting-Fallacies with the prompts"
        " with_ambig, no_ambig and careful"
    )
    try:
        prompt = read_model(path, _Prompt, expected)
    except DataError as error:
        raise ConfigError(f"prompts: {error}") from error
    # As their script draws them.
    drawn = np.random.RandomState(_SEED).choice(len(prompt.demos), _SHOTS, replace=False)
    head = ""
    for demo in [prompt.demos[number] for number in drawn]:
        head += prompt.write(demo.question, demo.docs) + demo.answer + prompt.demo_sep

    def render(doc: Doc) -> str:
        passages = [RetrievedPassage(**passage) for passage in doc["passages"]]
        return head + prompt.write(doc["question"], passages)

    return render, hashlib.sha256(path.read_bytes()).hexdigest()[:16]
