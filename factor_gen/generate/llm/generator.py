"""The ``llm`` generator: one prompt per error type, all sentences of a shard at once.

Every answer is on disk before it is used.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from factor_gen.generate.llm.parse import (
    REFUSED,
    REPEATED,
    Contradictions,
    parse,
    read_numbered,
)
from factor_gen.language import ENGLISH
from factor_gen.records import ERROR_TYPES, LINK, Candidate, Example, last_words
from factor_gen.settings import GenerateSettings
from judges.answers import Answer
from judges.config import load_judge_config
from judges.judge import Judge, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts, prompt_names
from judges.typed import ParsedReply
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.suite import read_config

_RULES = 4  # raised when what is read in the same answers can change
_ITS_OWN_FAULT = ("refused: ", "the prompt has ")
"""How errors of judges.backends begin that lie in the request itself."""
_NOTHING_READ = "no contradiction could be read"
_MOST_REFUSED = 0.5  # of a shard's requests
PROMPTS_FOLDER = Path(__file__).resolve().parent.parent / "prompts"


class LLMGenerator:
    """The stage ``generate`` with a judge's model. Close it when done.

    A model that is killed in the middle repeats no finished answer: they are in the answer store of
    all judges, or in ``store``. The seed of the build changes nothing that is asked: what the
    judge's YAML says of decoding does.
    """

    name = "generate"

    def __init__(
        self,
        settings: GenerateSettings,
        folder: Path,
        store: Path | None = None,
        language: str = ENGLISH,
    ) -> None:
        """Read the judge's YAML and the prompts.

        Args:
            folder: Where relative paths of the settings start.

        Raises:
            ConfigError: No judge is named, or its YAML or a prompt cannot be used.
        """
        if settings.judge is None:
            raise ConfigError(
                "generate: the llm generator needs a judge; name one, or set generator to rules"
            )
        self._settings = settings
        self._store = store
        path = folder / settings.judge
        self._config = load_judge_config(path if path.is_file() else settings.judge)
        if not self._config.capabilities.reads_prompts:
            raise ConfigError(
                f"generate: judge {settings.judge}: the {self._config.backend} judge writes no"
                " text; name a judge with a model, or set generator to rules"
            )
        prompts = _user_prompts(folder / settings.prompts) if settings.prompts else {}
        self._numbered = {name for name, prompt in prompts.items() if isinstance(prompt, str)}
        of_language = PROMPTS_FOLDER / language
        is_translated = of_language.is_dir()
        self._prompts = Prompts(prompts, of_language if is_translated else PROMPTS_FOLDER / ENGLISH)
        self._language = "" if is_translated else language

    @cached_property
    def _judge(self) -> Judge:
        return Judge(
            self._config, open_backend(self._config), AnswerStore(self._store), self._prompts
        )

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The model's identity, how it is asked, and the prompts by hash."""
        return {
            "generator": "llm",
            "rules": _RULES,
            "judge": self._judge.identity,
            "decoding": self._config.decoding.to_dict(),
            "schema": self._config.schema,
            "samples": self._config.samples,
            "system": self._config.system,
            "prompts": self._prompts.hashes(ERROR_TYPES),
            "per_type": self._settings.per_type,
            "context": self._settings.context,
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Set the contradictions that could be read, and count those that could not.

        Raises:
            BackendDownError: The model cannot be reached, or gave no answer to some requests.
                What it answered is kept.
            ConfigError: A prompt of the user's own cannot be rendered.
        """
        replies: dict[tuple[str, str], list[ParsedReply[Contradictions]]] = {}
        for error_type in ERROR_TYPES:
            asked = [
                example
                for example in examples
                if not example.unused and error_type in example.types
            ]
            if asked:
                subjects = [self._subject(example, error_type) for example in asked]
                for example, samples in zip(asked, self._ask(error_type, subjects), strict=True):
                    replies[example.doc_id, error_type] = samples
        _require_answers([reply.answer for samples in replies.values() for reply in samples])
        return [example if example.unused else self._read(example, replies) for example in examples]

    def _ask(
        self, error_type: str, subjects: Sequence[Mapping[str, Any]]
    ) -> list[list[ParsedReply[Contradictions]]]:
        label = f"contradictions: {error_type}"
        if error_type not in self._numbered:
            return self._judge.ask_typed(error_type, Contradictions, subjects, label)
        answers = self._judge.ask(error_type, subjects, label)
        return [[read_numbered(answer) for answer in samples] for samples in answers]

    def _subject(self, example: Example, error_type: str) -> dict[str, Any]:
        subject = {
            "completion": example.completion,
            "count": self._settings.per_type,
            "language": self._language,
        }
        if error_type != LINK:  # with a context, models repeat it (appendix D)
            context = last_words(example.prefix, self._settings.context)
            subject["context"] = " ".join(context.split())
        return subject

    def _read(
        self,
        example: Example,
        replies: Mapping[tuple[str, str], Sequence[ParsedReply[Contradictions]]],
    ) -> Example:
        """Set the candidates of all types; a text that two types came to counts for the first."""
        lost: Counter[str] = Counter(example.lost)
        candidates: dict[str, Candidate] = {}
        for error_type in example.types:
            for reply in replies.get((example.doc_id, error_type), ()):
                parsed = parse(reply, example.completion, error_type, self._settings.per_type)
                lost.update(parsed.lost)
                for candidate in parsed.candidates:
                    if candidates.setdefault(candidate.text, candidate) is not candidate:
                        lost[REPEATED] += 1
        if not candidates:
            is_refused = set(lost) == {REFUSED}
            reason = "the server refused all requests" if is_refused else _NOTHING_READ
            example = example.drop(self.name, reason)
        return replace(
            example, lost=dict(sorted(lost.items())), candidates=tuple(candidates.values())
        )

    def close(self) -> None:
        """Close the model and the store of its answers."""
        if "_judge" in self.__dict__:
            self._judge.close()
            del self._judge


def _require_answers(answers: Sequence[Answer]) -> None:
    """Check that no request failed: in a finished shard, it would never be asked again.

    One that is refused for what it holds would be refused again. It is counted as lost, unless that
    befalls most of them.

    Raises:
        BackendDownError: Some failed. The text says how many, and why the first did.
    """
    failed = [
        answer.error or "an answer without a text"
        for answer in answers
        if answer.error or answer.text is None
    ]
    passing = [error for error in failed if not error.startswith(_ITS_OWN_FAULT)]
    if not passing and len(failed) <= _MOST_REFUSED * len(answers):
        return
    advice = "" if passing else "; change the judge's YAML, or leave these documents out"
    first = (passing or failed)[0]
    raise BackendDownError(
        f"{len(failed)} of {len(answers)} requests failed, the first because: {first}{advice}; what"
        " was answered is kept"
    )


def _user_prompts(path: Path) -> Mapping[str, Path | str]:
    """The user's own templates by error type.

    They are ``entity.jinja`` and so on in a folder, or the texts of a YAML file in the form of the
    paper's prompts, with ``{context}`` and ``{completion}`` where these go.

    Raises:
        ConfigError: The folder or the file is not there, or holds none.
    """
    if path.suffix not in (".yaml", ".yml"):
        templates = {template.stem: template for template in sorted(path.glob("*.jinja"))}
        if not templates:
            names = ", ".join(f"{name}.jinja" for name in prompt_names(PROMPTS_FOLDER / ENGLISH))
            raise ConfigError(
                f"generate: prompts: {path}: no template there; expected some of {names}"
            )
        return templates
    texts = read_config(path)
    prompts = {}
    for name, text in texts.items() if isinstance(texts, dict) else [(path.name, "")]:
        if name not in ERROR_TYPES or "{completion}" not in str(text):
            raise ConfigError(
                f"generate: prompts: {path}: found {name!r}: {text!r:.80}; expected one of"
                f" {', '.join(ERROR_TYPES)} with a prompt that holds {{completion}}"
            )
        prompts[name] = re.sub(r"\{(context|completion)\}", r"{{ \1 }}", text)
    return prompts
