"""The lm_eval tasks of AmbigBio: biographies from retrieved passages, marked by a judge.

The authors' own prompts are read from a checkout of their repository. None of them is in this one.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, Field

from lm_factuality.benchmarks.biographies.benchmark import BENCHMARK
from lm_factuality.benchmarks.biographies.generations import AMBIGBIO, read_generations, to_doc
from lm_factuality.benchmarks.biographies.method import generation
from lm_factuality.benchmarks.biographies.types import RetrievedPassage
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.suite_task import TaskSettings

Render = Callable[[Mapping[str, Any]], str]
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
        method = generation(metadata)
        texts = {"doc_to_text": "text", "doc_to_target": "name"}
        return method, TaskSettings(texts, {**about, **method.about})

    def read_documents(self) -> list[dict[str, Any]]:
        path, self.config.metadata["data"] = find_data(self._own_data, AMBIGBIO, self._data_dir)
        docs = [to_doc(generation) for generation in read_generations([path], outputs=False)]
        return [{**doc, "text": self._render(doc)} for doc in docs]


def _renderer(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], Render]:
    """Return what results say of the prompt, and how it is made from a document.

    Raises:
        ConfigError: There are no such demonstrations or prompts.
    """
    folder = tasks_folder() / "ambigbio"
    demonstrations = parse_json((folder / "demonstrations.json").read_text(encoding="utf-8"))
    kind = str(metadata.get("demonstrations", "ambiguous"))
    prompts = metadata.get("prompts")
    prompt = metadata.get("prompt")
    if kind not in demonstrations:
        raise ConfigError(
            f"demonstrations: found {kind!r}, expected"
            f" {' or '.join(demonstrations)}{did_you_mean(kind, demonstrations)}"
        )
    if prompts:
        name = str(prompt or PROMPTS[kind])
        render, digest = authors_prompt(Path(str(prompts)).expanduser(), name)
        about = {"demonstrations": "authors", "prompts": "authors", "prompt": name}
        return {**about, "prompt_hashes": {"authors": digest}}, render
    if prompt:
        raise ConfigError(
            f"prompt: found {prompt!r} without prompts; add prompts=DIR, a checkout of the authors'"
            " repository"
        )
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "prompt.jinja").read_text(encoding="utf-8"))
    shown = demonstrations[kind]
    return {"demonstrations": kind}, lambda doc: template.render(
        demonstrations=shown, subject=doc
    ).strip()


class _Demonstration(BaseModel):
    question: str
    answer: str | list[str]
    docs: list[RetrievedPassage]


class _Prompt(BaseModel):
    instruction: str
    demo_sep: str
    demo_prompt: str
    doc_prompt: str
    demos: list[_Demonstration] = Field(min_length=_SHOTS)

    def write(self, question: str, documents: Sequence[RetrievedPassage]) -> str:
        """Return the prompt up to where the answer begins."""
        shown = ""
        for number, document in enumerate(documents[:_DOCUMENTS], start=1):
            text = self.doc_prompt.replace("{T}", document.title).replace("{P}", document.text)
            shown += text.replace("{ID}", str(number))
        text = self.demo_prompt.replace("{INST}", self.instruction).replace("{Q}", question)
        return text.replace("{D}", shown).replace("{A}", "").rstrip()


def authors_prompt(place: Path, name: str) -> tuple[Render, str]:
    """Read one of the authors' prompts.

    Args:
        place: A checkout of d223302/Merging-Facts-Crafting-Fallacies, or a prompt in ALCE's format.
        name: The prompt of the checkout: ``with_ambig``, ``no_ambig`` or ``careful``.

    Returns:
        What writes the prompt of a document byte for byte as their script does (in place of the
        name it has the whole question, "Tell me a bio of ..."), and a hash of the file.

    Raises:
        ConfigError: There is no such prompt, or it is not in ALCE's format.
    """
    file = f"AmbigBio_default_{name}.json"
    path = place if place.is_file() else place / "ALCE" / "AmbigBio_prompts" / file
    expected = (
        "expected a checkout of d223302/Merging-Facts-Crafting-Fallacies with the prompts"
        " with_ambig, no_ambig and careful, or a prompt in ALCE's format"
    )
    try:
        prompt = to_model(_Prompt, parse_json(read_text(path, expected), is_shared=False))
    except DataError as error:
        raise ConfigError(f"prompts: {error}") from error
    except ValueError as error:
        raise ConfigError(f"prompts: {path}: {error}; {expected}") from error
    # As their script draws them.
    chosen = np.random.RandomState(_SEED).choice(len(prompt.demos), _SHOTS, replace=False)
    head = ""
    for number in chosen:
        demo = prompt.demos[number]
        answer = demo.answer if isinstance(demo.answer, str) else "\n" + "\n".join(demo.answer)
        head += prompt.write(demo.question, demo.docs) + answer + prompt.demo_sep

    def render(doc: Mapping[str, Any]) -> str:
        passages = [RetrievedPassage(**passage) for passage in doc["passages"]]
        return head + prompt.write(doc["question"], passages)

    return render, hashlib.sha256(path.read_bytes()).hexdigest()[:16]
