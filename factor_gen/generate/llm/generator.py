"""The ``llm`` generator: one prompt an error type, all sentences of a shard at once, every answer on disk before it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from factor_gen.context import last_words
from factor_gen.generate.llm.parse import LOSSES, Parsed, parse
from factor_gen.records import ERROR_TYPES, LINK, Candidate, Example
from factor_gen.settings import GenerateSettings
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts, prompt_names
from judges.usage import Usage
from lm_factuality.errors import ConfigError

PROMPTS_FOLDER = Path(__file__).resolve().parent.parent / "prompts"


class LLMGenerator:
    """The stage ``generate`` with a judge's model. Close it when done.

    A model that is killed in the middle repeats no finished answer: they are in the answer store of all judges, or in ``store``.
    ``seed`` changes nothing that is asked: what can differ between two builds is what the judge's YAML says of decoding.
    """

    name = "generate"

    def __init__(self, settings: GenerateSettings, folder: Path, seed: int, store: Path | None = None) -> None:
        """``folder`` is where relative paths of ``settings`` start.

        Raises:
            ConfigError: no judge is named, its YAML or a prompt cannot be used.
        """
        if settings.judge is None:
            raise ConfigError(
                "generate: the llm generator needs a model: set judge to the YAML of a judge or the name of one, or set "
                "generator to rules, which needs none"
            )
        self._settings, self._seed, self._store = settings, seed, store
        self._config = _judge_config(settings.judge, folder)
        if self._config.backend == "lexical":
            raise ConfigError(
                f"generate: judge {settings.judge}: the lexical judge writes no text; name a judge with a model, or set "
                "generator to rules"
            )
        self._prompts = Prompts(_overrides(settings.prompts, folder), PROMPTS_FOLDER)
        self._opened: Judge | None = None

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The model's identity, how it is asked, and the prompts by hash."""
        return {
            "generator": "llm",
            "judge": self._judge.identity,
            "decoding": self._config.decoding.to_dict(),
            "samples": self._config.samples,
            "system": self._config.system,
            "prompts": self._prompts.hashes(ERROR_TYPES),
            "per_type": self._settings.per_type,
            "context": self._settings.context,
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """The examples with the contradictions that could be read, and counts of those that could not.

        Raises:
            BackendDown: the model cannot be reached; what it answered before is kept.
            ConfigError: a prompt of the user's own cannot be rendered.
        """
        parsed: dict[tuple[int, str], list[Parsed]] = {}
        for error_type in ERROR_TYPES:
            places = [place for place, each in enumerate(examples) if not each.unused and error_type in each.types]
            if places:
                subjects = [self._subject(examples[place], error_type) for place in places]
                answers = self._judge.ask(error_type, subjects, f"contradictions: {error_type}")
                for place, samples in zip(places, answers, strict=True):
                    completion = examples[place].completion
                    parsed[place, error_type] = [parse(each, completion, error_type) for each in samples]
        return [
            each if each.unused else _with(each, [one for kind in each.types for one in parsed.get((place, kind), ())])
            for place, each in enumerate(examples)
        ]

    @property
    def usage(self) -> Usage:
        """What was sent since the judge was opened, and how many answers were on disk already."""
        return self._judge.usage

    def close(self) -> None:
        """Closes the model and the store of its answers."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _judge(self) -> Judge:
        if self._opened is None:
            self._opened = Judge(self._config, open_backend(self._config), AnswerStore(self._store), self._prompts)
        return self._opened

    def _subject(self, example: Example, error_type: str) -> dict[str, Any]:
        subject = {"completion": example.completion, "count": self._settings.per_type}
        if error_type == LINK:  # with a context, models repeat it (appendix D)
            return subject
        return {**subject, "context": " ".join(last_words(example.prefix, self._settings.context).split())}


def _with(example: Example, answers: Sequence[Parsed]) -> Example:
    """The example with the candidates of all its types; a text that two types came to counts for the first."""
    lost: Counter[str] = Counter(example.lost)
    found: dict[str, Candidate] = {}
    for answer in answers:
        lost.update(answer.lost)
        for candidate in answer.candidates:
            if candidate.text in found:
                lost[LOSSES["repeated"]] += 1
            else:
                found[candidate.text] = candidate
    counted = replace(example, lost=dict(sorted(lost.items())), candidates=tuple(found.values()))
    return counted if found else counted.drop("generate", "no contradiction could be read")


def _judge_config(judge: str, folder: Path) -> JudgeConfig:
    beside = folder / judge
    is_path = Path(judge).suffix in (".yaml", ".yml") or len(Path(judge).parts) > 1
    return load_judge_config(beside if is_path and beside.is_file() else judge)


def _overrides(prompts: str | None, folder: Path) -> dict[str, Path]:
    """The user's own templates: ``entity.jinja`` and so on in the folder ``prompts``.

    Raises:
        ConfigError: the folder is not there, or holds none.
    """
    if prompts is None:
        return {}
    found = {path.stem: path for path in sorted((folder / prompts).glob("*.jinja"))}
    if not found:
        known = ", ".join(f"{name}.jinja" for name in prompt_names(PROMPTS_FOLDER))
        raise ConfigError(f"generate: prompts: {folder / prompts}: no template there; expected some of {known}")
    return found
