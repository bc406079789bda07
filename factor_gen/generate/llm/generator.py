"""The ``llm`` generator: one prompt an error type, all sentences of a shard at once, every answer
on disk before it is used."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from factor_gen.generate.llm.parse import LOSSES, Contradictions, Parsed, parse, read_numbered
from factor_gen.language import ENGLISH
from factor_gen.records import ERROR_TYPES, LINK, Candidate, Example, last_words
from factor_gen.settings import GenerateSettings
from judges.answers import Answer
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts, prompt_names
from judges.typed import Typed
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.suite import read_config

_RULES = 4  # raised when what is read in the same answers can change
_ITS_OWN_FAULT = (
    "refused: ",
    "the prompt has ",
)  # how errors of judges.backends begin that lie in the request itself
_MOST_REFUSED = 0.5  # of a shard's requests
PROMPTS_FOLDER = Path(__file__).resolve().parent.parent / "prompts"


class LLMGenerator:
    """The stage ``generate`` with a judge's model. Close it when done.

    A model that is killed in the middle repeats no finished answer: they are in the answer store of
    all judges, or in ``store``. The seed of the build changes nothing that is asked: what the
    judge's YAML says of decoding does."""

    name = "generate"

    def __init__(
        self,
        settings: GenerateSettings,
        folder: Path,
        store: Path | None = None,
        language: str = ENGLISH,
    ) -> None:
        """``folder`` is where relative paths of ``settings`` start. Raises ConfigError: no judge is
        named, its YAML or a prompt cannot be used."""
        if settings.judge is None:
            raise ConfigError(
                "generate: the llm generator needs a judge; name one, or set generator to rules"
            )
        self._settings, self._store = settings, store
        self._config = _judge_config(settings.judge, folder)
        if not self._config.capabilities.reads_prompts:
            raise ConfigError(
                f"generate: judge {settings.judge}: the {self._config.backend} judge writes no"
                " text; name a judge with a model, or set generator to rules"
            )
        overrides = _overrides(settings.prompts, folder)
        self._numbered = {name for name, each in overrides.items() if isinstance(each, str)}
        own = PROMPTS_FOLDER / language
        self._prompts = Prompts(overrides, own if own.is_dir() else PROMPTS_FOLDER / ENGLISH)
        self._language = "" if own.is_dir() else language
        self._opened: Judge | None = None

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
        """The examples with the contradictions that could be read, and counts of those that could
        not. Raises BackendDown: the model cannot be reached, or gave no answer to some requests;
        what it answered is kept; ConfigError: a prompt of the user's own cannot be rendered."""
        replies: dict[tuple[int, str], list[Typed[Contradictions]]] = {}
        for error_type in ERROR_TYPES:
            places = [
                place
                for place, each in enumerate(examples)
                if not each.unused and error_type in each.types
            ]
            if places:
                subjects = [self._subject(examples[place], error_type) for place in places]
                found = self._ask(error_type, subjects)
                replies.update(zip([(place, error_type) for place in places], found, strict=True))
        _require_answers([each.answer for samples in replies.values() for each in samples])
        parsed = {
            (place, kind): [
                parse(each, examples[place].completion, kind, self._settings.per_type)
                for each in samples
            ]
            for (place, kind), samples in replies.items()
        }
        return [
            (
                each
                if each.unused
                else _with(
                    each, [one for kind in each.types for one in parsed.get((place, kind), ())]
                )
            )
            for place, each in enumerate(examples)
        ]

    def _ask(
        self, error_type: str, subjects: Sequence[Mapping[str, Any]]
    ) -> list[list[Typed[Contradictions]]]:
        what = f"contradictions: {error_type}"
        if error_type in self._numbered:
            return [
                [read_numbered(each) for each in answers]
                for answers in self._judge.ask(error_type, subjects, what)
            ]
        return self._judge.ask_typed(error_type, Contradictions, subjects, what)

    def close(self) -> None:
        """Closes the model and the store of its answers."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _judge(self) -> Judge:
        if self._opened is None:
            self._opened = Judge(
                self._config, open_backend(self._config), AnswerStore(self._store), self._prompts
            )
        return self._opened

    def _subject(self, example: Example, error_type: str) -> dict[str, Any]:
        subject = {
            "completion": example.completion,
            "count": self._settings.per_type,
            "language": self._language,
        }
        if error_type == LINK:  # with a context, models repeat it (appendix D)
            return subject
        return {
            **subject,
            "context": " ".join(last_words(example.prefix, self._settings.context).split()),
        }


def _require_answers(answers: Sequence[Answer]) -> None:
    """Sees that no request failed: in a finished shard, it would never be asked again.

    One that is refused for what it holds would be refused again. It is counted as lost, unless that
    befalls most of them. Raises BackendDown: says how many failed, and why the first did."""
    failed = [
        each.error or "an answer without a text"
        for each in answers
        if each.error or each.text is None
    ]
    passing = [error for error in failed if not error.startswith(_ITS_OWN_FAULT)]
    if not passing and len(failed) <= _MOST_REFUSED * len(answers):
        return
    first, advice = (
        (passing or failed)[0],
        "" if passing else "; change the judge's YAML, or leave these documents out",
    )
    raise BackendDown(
        f"{len(failed)} of {len(answers)} requests failed, the first because: {first}{advice}; what"
        " was answered is kept"
    )


def _with(example: Example, answers: Sequence[Parsed]) -> Example:
    """The example with the candidates of all its types; a text that two types came to counts for
    the first."""
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
    if found:
        return counted
    is_refused = set(lost) == {LOSSES["error"]}
    return counted.drop(
        "generate",
        "the server refused all requests" if is_refused else "no contradiction could be read",
    )


def _judge_config(judge: str, folder: Path) -> JudgeConfig:
    beside = folder / judge
    is_path = Path(judge).suffix in (".yaml", ".yml") or len(Path(judge).parts) > 1
    return load_judge_config(beside if is_path and beside.is_file() else judge)


def _overrides(prompts: str | None, folder: Path) -> dict[str, Path | str]:
    """The user's own templates: ``entity.jinja`` and so on in the folder ``prompts``; or, from a
    YAML file, prompts by error type in the form of the paper's, with ``{context}`` and
    ``{completion}`` where these go. Raises ConfigError: the folder or the file is not there, or
    holds none."""
    if prompts is None:
        return {}
    if Path(prompts).suffix in (".yaml", ".yml"):
        texts = read_config(folder / prompts)
        for name, text in texts.items() if isinstance(texts, dict) else [(prompts, "")]:
            if name not in ERROR_TYPES or "{completion}" not in str(text):
                wanted = f"one of {', '.join(ERROR_TYPES)} with a prompt that holds {{completion}}"
                raise ConfigError(
                    f"generate: prompts: {folder / prompts}: found {name!r}: {text!r:.80}; expected"
                    f" {wanted}"
                )
        return {
            name: re.sub(r"\{(context|completion)\}", r"{{ \1 }}", text)
            for name, text in texts.items()
        }
    found: dict[str, Path | str] = {
        path.stem: path for path in sorted((folder / prompts).glob("*.jinja"))
    }
    if not found:
        known = ", ".join(f"{name}.jinja" for name in prompt_names(PROMPTS_FOLDER / ENGLISH))
        raise ConfigError(
            f"generate: prompts: {folder / prompts}: no template there; expected some of {known}"
        )
    return found
