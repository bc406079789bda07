"""The lm_eval tasks of AmbigBio: a model writes biographies from passages, and a judge marks them.

lm_eval makes the tasks from the YAML files under ``tasks/ambigbio``. The authors' own prompts are
not part of this repository. They can be read from a checkout of theirs.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
from lm_factuality.benchmarks.biographies.method import DOCUMENTS_CAUTION, method_from_metadata
from lm_factuality.benchmarks.biographies.types import RetrievedPassage
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_model
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.generation import Doc, JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data_file
from lm_factuality.harness.suite_task import TaskSettings

Render = Callable[[Doc], str]
"""Writes the prompt for a document of lm_eval."""

AUTHORS_PROMPT_BY_KIND = {"ambiguous": "with_ambig", "unambiguous": "no_ambig"}
"""The authors' prompt with each kind of demonstrations."""

# The settings of the authors' configurations.
_NUM_DEMONSTRATIONS = 2
_NUM_PASSAGES = 5
_SEED = 42


class AmbigBioTask(JudgedTask):
    """A task whose YAML includes ``tasks/ambigbio/_ambigbio.yaml``.

    Its metrics are `scores.SCORES`. Samples have the judge's record in ``filtered_resps``.
    ``docs/configuration.md`` explains the keys of ``metadata``.

    Raises:
        ConfigError: On construction, if a setting is wrong.
        DataError: On construction, if the data, the pages or the judge's store cannot be used.
    """

    declared = BENCHMARK
    metadata_keys = (
        *("generations", "demonstrations", "prompts", "prompt"),
        *("method", "knowledge", "linking", "facts", "protocol"),
    )
    instructs = True

    _own_data: Path | None
    """The user's file of questions, or None for the published one."""

    _prompt: "TaskPrompt"
    """The prompt of the task."""

    def finish_construction(self) -> None:
        """Remove from the metadata what results must not contain, after the task is built."""
        super().finish_construction()
        # The path is one of this machine.
        self.config.metadata.pop("generations", None)

    def configure_judging(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        """Store the user's data file and the prompt for `read_documents`, and make the method.

        Args:
            config: The YAML of the task.
            metadata: Its ``metadata``, with what the command line adds. ``generations`` is the path
                of a data file.

        Returns:
            The method by which a judge verifies biographies, and the settings: those for lm_eval,
            and those that results record.

        Raises:
            ConfigError: A setting is wrong, the data file does not exist, or there is no prompt
                with this name.
            DataError: The file of pages cannot be used.
        """
        # The command line can replace the data file that the YAML names.
        generations = metadata.get("generations")
        if generations:
            self._own_data = Path(str(generations)).expanduser()
        else:
            self._own_data = own_data_file(config, expected_file="JSON as ALCE has it")
        self._prompt = make_prompt(metadata)

        method = method_from_metadata(metadata)
        recorded_settings = {**self._prompt.recorded, **method.recorded_settings}
        if method.pages is None:
            recorded_settings["caution"] = DOCUMENTS_CAUTION
        # A document has its prompt under "text". lm_eval needs a target, but no score uses it.
        lm_eval_settings = {"doc_to_text": "text", "doc_to_target": "name"}
        return method, TaskSettings(lm_eval_settings, recorded_settings)

    def read_documents(self) -> list[dict[str, Any]]:
        """Read the questions with their passages, and describe the data in the task's metadata.

        Returns:
            The documents of lm_eval, each with its prompt under ``text``.

        Raises:
            DataError: The file cannot be read, or has rows that cannot be used.
        """
        path, data_description = find_data(self._own_data, AMBIGBIO_SOURCE, self._data_dir)
        # Results state which file was read.
        self.config.metadata["data"] = data_description
        docs = []
        for generation in read_generations([path], with_outputs=False):
            doc = generation_to_doc(generation)
            docs.append({**doc, "text": self._prompt.render(doc)})
        return docs


class TaskPrompt(NamedTuple):
    """The prompt of a task."""

    render: Render
    """Writes the prompt for a document."""

    recorded: JsonObject
    """What results say of the prompt, by the names of metadata."""


class _PromptSettings(BaseModel):
    """The metadata that choose the prompt."""

    demonstrations: Literal["ambiguous", "unambiguous"] = "ambiguous"
    prompts: Path | None = None
    prompt: str | None = None


def make_prompt(metadata: Mapping[str, Any]) -> TaskPrompt:
    """Read the prompt that the metadata of a task ask for: this project's, or one of the authors'.

    Args:
        metadata: It can have three keys. ``prompts`` is the folder of a checkout with the authors'
            prompts; without it, this project's prompt is taken. ``prompt`` is the name of one of
            the authors' prompts. ``demonstrations`` is the kind of demonstrations, "ambiguous" by
            default.

    Raises:
        ConfigError: A setting is wrong, or there is no such prompt.
    """
    settings = read_settings(_PromptSettings, dict(metadata), "metadata")
    kind = settings.demonstrations
    if settings.prompts is not None:
        prompt_name = settings.prompt or AUTHORS_PROMPT_BY_KIND[kind]
        return authors_prompt(settings.prompts.expanduser(), prompt_name)
    # This project has one prompt without a name.
    if settings.prompt:
        raise ConfigError(
            f"prompt: found {settings.prompt!r} without prompts; add prompts=DIR, a checkout of the"
            " authors' repository"
        )
    return _project_prompt(kind)


def _project_prompt(demonstrations_kind: str) -> TaskPrompt:
    """Read this project's prompt with one kind of demonstrations, such as "ambiguous"."""
    folder = tasks_folder() / "ambigbio"
    content = (folder / "demonstrations.json").read_text(encoding="utf-8")
    demonstrations = parse_json(content)[demonstrations_kind]
    # StrictUndefined makes it an error if the template names a variable that a document lacks.
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "prompt.jinja").read_text(encoding="utf-8"))

    def render_document(doc: Doc) -> str:
        """Write this project's prompt for a document."""
        return template.render(demonstrations=demonstrations, subject=doc).strip()

    return TaskPrompt(render_document, {"demonstrations": demonstrations_kind})


class _AlceDemonstration(BaseModel):
    """A demonstration in a prompt file of ALCE."""

    question: str
    answer: str
    docs: list[RetrievedPassage]


class _AlcePrompt(BaseModel):
    """A prompt file of ALCE: templates with placeholders such as {INST}, and demonstrations."""

    instruction: str
    demo_sep: str
    demo_prompt: str
    doc_prompt: str
    demos: list[_AlceDemonstration] = Field(min_length=_NUM_DEMONSTRATIONS)

    def render_question(self, question: str, passages: Sequence[RetrievedPassage]) -> str:
        """Write the instruction, a question and its passages, up to where the answer begins.

        Example:
            The template "{INST} Question: {Q} {D} Answer: {A}" and the passage template "[{ID}]
            {T}: {P}" give "Write. Question: Ada? [1] Ada: She sang. Answer:".

        Args:
            question: The question, which replaces {Q}.
            passages: The passages, of which the first five replace {D}.
        """
        documents = []
        for number, passage in enumerate(passages[:_NUM_PASSAGES], start=1):
            replacements = {"{T}": passage.title, "{P}": passage.text, "{ID}": str(number)}
            documents.append(_replace_all(self.doc_prompt, replacements))
        prompt_replacements = {
            "{INST}": self.instruction,
            "{Q}": question,
            "{D}": "".join(documents),
            "{A}": "",
        }
        return _replace_all(self.demo_prompt, prompt_replacements).rstrip()

    def demonstrations_text(self) -> str:
        """Return the two demonstrations that the authors' script draws, with their answers."""
        # The authors draw with RandomState. numpy's default_rng would draw other demonstrations.
        generator = np.random.RandomState(_SEED)
        indices = generator.choice(len(self.demos), _NUM_DEMONSTRATIONS, replace=False)
        texts = []
        for index in indices:
            demonstration = self.demos[index]
            prompt = self.render_question(demonstration.question, demonstration.docs)
            texts.append(prompt + demonstration.answer + self.demo_sep)
        return "".join(texts)


def _replace_all(template: str, replacements: Mapping[str, str]) -> str:
    """Replace the placeholders of a template one after the other, as the authors' script does.

    A placeholder in an inserted text is replaced as well if it comes later in the order.

    Args:
        template: A text with placeholders such as {Q}.
        replacements: The text for each placeholder.
    """
    for placeholder, replacement in replacements.items():
        template = template.replace(placeholder, replacement)
    return template


def authors_prompt(checkout: Path, name: str) -> TaskPrompt:
    """Read one of the authors' prompts.

    The prompt for a document is byte for byte the one that the authors' script writes.

    Args:
        checkout: The folder of a checkout of d223302/Merging-Facts-Crafting-Fallacies.
        name: The name of the prompt: ``with_ambig``, ``no_ambig`` or ``careful``.

    Raises:
        ConfigError: There is no such prompt, or it is not in ALCE's format.
    """
    path = checkout / "ALCE" / "AmbigBio_prompts" / f"AmbigBio_default_{name}.json"
    expected = (
        "expected a checkout of d223302/Merging-Facts-Crafting-Fallacies with the prompts"
        " with_ambig, no_ambig and careful"
    )
    try:
        prompt = read_model(path, _AlcePrompt, expected)
    except DataError as error:
        raise ConfigError(f"prompts: {error}") from error
    # Every document has the same demonstrations.
    demonstrations = prompt.demonstrations_text()

    def render_document(doc: Doc) -> str:
        """Write the authors' prompt for a document."""
        passages = [RetrievedPassage(**passage) for passage in doc["passages"]]
        # The authors' script puts the whole question where the template has the name.
        return demonstrations + prompt.render_question(doc["question"], passages)

    # Results do not name the folder of the checkout, which differs between machines. The hash shows
    # whether two runs had the same prompt.
    recorded = {
        "demonstrations": "authors",
        "prompts": "authors",
        "prompt": name,
        "prompt_hashes": {"authors": hashlib.sha256(path.read_bytes()).hexdigest()[:16]},
    }
    return TaskPrompt(render_document, recorded)
