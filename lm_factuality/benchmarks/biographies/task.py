"""The lm_eval tasks of AmbigBio: biographies from retrieved passages, marked by a judge; and the
authors' own prompts, read from a checkout of their repository, none of which is in this one."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, Field

from lm_factuality.benchmarks.biographies.benchmark import BENCHMARK
from lm_factuality.benchmarks.biographies.generations import AMBIGBIO, read_generations, to_doc
from lm_factuality.benchmarks.biographies.judging import generation
from lm_factuality.benchmarks.biographies.summary import Row, row_metrics
from lm_factuality.benchmarks.biographies.types import Passage
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.generation import Generation
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.suite_task import Settings

PROMPTS = {
    "ambiguous": "with_ambig",
    "unambiguous": "no_ambig",
}  # by the demonstrations that the suite has for the same setting
NAMES = (*PROMPTS.values(), "careful")
_SHOTS, _DOCUMENTS, _SEED = 2, 5, 42  # of their configurations


class _Demonstration(BaseModel):
    question: str
    answer: str | list[str]
    docs: list[Passage]


class _Prompt(BaseModel):
    instruction: str
    demo_sep: str
    demo_prompt: str
    doc_prompt: str
    demos: list[_Demonstration] = Field(min_length=_SHOTS)


class AuthorsPrompt:
    """One prompt: of ``place``, a checkout of d223302/Merging-Facts-Crafting-Fallacies, the one
    called ``name`` (one of ``NAMES``), or the file ``place``. Raises ConfigError: there is no such
    prompt, or it is not in ALCE's format."""

    def __init__(self, place: Path, name: str) -> None:
        if name not in NAMES:
            raise ConfigError(f"prompt: found {name!r}, expected one of {', '.join(NAMES)}")
        path = (
            place
            if place.is_file()
            else place / "ALCE" / "AmbigBio_prompts" / f"AmbigBio_default_{name}.json"
        )
        expected = (
            "expected a checkout of d223302/Merging-Facts-Crafting-Fallacies, or a prompt in ALCE's"
            " format"
        )
        try:
            self._prompt = to_model(_Prompt, parse_json(read_text(path, expected), is_shared=False))
        except DataError as error:
            raise ConfigError(f"prompts: {error}") from error
        except ValueError as error:
            raise ConfigError(f"prompts: {path}: {error}; {expected}") from error
        self.hash = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        demos = self._prompt.demos
        chosen = np.random.RandomState(_SEED).choice(
            len(demos), _SHOTS, replace=False
        )  # as their script draws them
        self._head = "".join(
            self._written(each.question, each.docs)
            + (each.answer if isinstance(each.answer, str) else "\n" + "\n".join(each.answer))
            + self._prompt.demo_sep
            for each in (demos[number] for number in chosen)
        )

    def render(self, doc: Mapping[str, Any]) -> str:
        """The prompt about a document of lm_eval, byte for byte as their script writes it: in place
        of the name it has the whole question ("Tell me a bio of ...")."""
        return self._head + self._written(
            doc["question"], [Passage(**passage) for passage in doc["passages"]]
        )

    def _written(self, question: str, documents: list[Passage]) -> str:
        form = self._prompt.doc_prompt
        shown = "".join(
            form.replace("{T}", each.title).replace("{P}", each.text).replace("{ID}", str(number))
            for number, each in enumerate(documents[:_DOCUMENTS], 1)
        )
        text = self._prompt.demo_prompt.replace("{INST}", self._prompt.instruction).replace(
            "{Q}", question
        )
        return text.replace("{D}", shown).replace("{A}", "").rstrip()


class AmbigBioTask(JudgedTask):
    """By a YAML that includes ``tasks/ambigbio/_ambigbio.yaml``. Its metrics are
    ``summary.SCORES``; samples hold in ``filtered_resps`` the judge's record (see ``judging``).

    ``metadata``: ``demonstrations`` (``ambiguous``, ``unambiguous``), ``prompts`` (a checkout of
    the authors' repository, or a prompt in ALCE's format), ``prompt`` (of the checkout:
    ``with_ambig``, ``no_ambig``, ``careful``; default: that of ``demonstrations``), ``judge``,
    ``judge_store``, ``generations`` (a file of ALCE's JSON with questions and passages, such as
    ``lm-factuality retrieve`` writes; default: the published one; ``dataset_path`` names one
    relative to the YAML), ``knowledge`` (an SQLite file of pages; default: the passages),
    ``linking`` (``greedy``, ``hungarian``), ``facts`` (``standalone``, ``as_written``),
    ``protocol`` (``paper``, ``code``), ``data_dir``. Raises ConfigError, DataError: on
    construction, if the data, the knowledge or the judge cannot be used."""

    declared = BENCHMARK
    reads = (
        "generations",
        "demonstrations",
        "prompts",
        "prompt",
        "knowledge",
        "linking",
        "facts",
        "protocol",
    )
    instructs = True

    def built(self) -> None:
        super().built()
        self.config.metadata.pop(
            "generations", None
        )  # a path of this machine, which is no part of the results

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[Generation, Settings]:
        generations = metadata.get("generations")
        self._own_data = (
            Path(str(generations)).expanduser()
            if generations
            else own_data(config, "JSON as ALCE has it")
        )
        kind = str(metadata.get("demonstrations", "ambiguous"))
        about, self._render = _renderer(kind, metadata.get("prompts"), metadata.get("prompt"))
        asked = generation(metadata)
        return asked, Settings(
            {"doc_to_text": "text", "doc_to_target": "name"}, {**about, **asked.about}
        )

    def read_documents(self) -> list[dict[str, Any]]:
        path, self.config.metadata["data"] = find_data(self._own_data, AMBIGBIO, self._data_dir)
        generations = read_generations([path], outputs=False)
        docs = [to_doc(each) for each in generations]
        return [{**doc, "text": self._render(doc)} for doc in docs]

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        return row_metrics(Row.from_record(results[0]))


def _renderer(
    kind: str, prompts: Any, prompt: Any
) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], str]]:
    """What results say of the prompt, and how it is made from a document: with the suite's
    demonstrations called ``kind``, or as the authors' own ``prompt`` out of the checkout or file
    ``prompts``. Raises ConfigError: there are none."""
    folder = tasks_folder() / "ambigbio"
    demonstrations: dict[str, Any] = json.loads(
        (folder / "demonstrations.json").read_text(encoding="utf-8")
    )
    if kind not in demonstrations:
        known = " or ".join(demonstrations)
        raise ConfigError(
            f"demonstrations: found {kind!r}, expected {known}{did_you_mean(kind, demonstrations)}"
        )
    if prompts:
        name = str(prompt or PROMPTS[kind])
        authors = AuthorsPrompt(Path(str(prompts)).expanduser(), name)
        about = {
            "demonstrations": "authors",
            "prompts": "authors",
            "prompt": name,
            "prompt_hashes": {"authors": authors.hash},
        }
        return about, authors.render
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
