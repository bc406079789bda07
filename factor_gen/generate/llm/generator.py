"""The llm generator, a stage that asks a model for contradictions, with one prompt per error type.

It asks about all sentences of a shard at once, and each answer is on disk before it is used.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from factor_gen.generate.llm.parse import (
    REFUSED,
    REPEATED,
    Contradictions,
    candidates_of_reply,
    parse_numbered_answer,
)
from factor_gen.language import ENGLISH
from factor_gen.records import ERROR_TYPES, LINK, Candidate, Example, last_words
from factor_gen.settings import GenerateSettings
from judges.answers import Answer
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts, prompt_names
from judges.typed import ParsedReply
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.suite import read_config

Replies = Mapping[str, Mapping[str, Sequence[ParsedReply[Contradictions]]]]
"""The replies of a model by error type, and then by the document's id, one for each sample."""

PROMPTS_FOLDER = Path(__file__).resolve().parent.parent / "prompts"
# The version of the parser. Raise it if other contradictions are read in the same answers.
_PARSER_VERSION = 4
# Errors of requests that would be refused again begin like this. All others may pass.
_REFUSAL_STARTS = ("refused: ", "the prompt has ")
# A greater share of a shard's requests that are refused is an error.
_MAX_SHARE_REFUSED = 0.5
_PLACEHOLDER = re.compile(r"\{(context|completion)\}")


class LLMGenerator:
    """The stage that sets the candidates of each example with the model of a judge.

    Answers are kept in the answer store, so that a killed build does not ask for them again. The
    judge's YAML alone decides how the model draws its answers; the seed of the build does not.
    """

    name = "generate"

    def __init__(
        self,
        settings: GenerateSettings,
        folder: Path,
        store: Path | None = None,
        language: str = ENGLISH,
    ) -> None:
        """Read the judge's YAML and the prompts. The model is opened when it is first needed.

        Args:
            settings: The settings of the stage.
            folder: The folder from which relative paths of the settings start.
            store: Where the answers are kept. None: in the store that all judges share.
            language: The ISO 639-1 code of the texts' language.

        Raises:
            ConfigError: No judge is named, or its YAML or a prompt cannot be used.
        """
        self._settings = settings
        self._store = store
        self._config = _load_judge_with_model(settings.judge, folder)
        user_prompts = _read_user_prompts(folder / settings.prompts) if settings.prompts else {}
        # Prompts of a YAML file are texts, and those of a folder are paths of templates. Only the
        # former have the form of the paper's prompts, which ask for numbered answers, not JSON.
        self._numbered_types = {
            error_type for error_type, prompt in user_prompts.items() if isinstance(prompt, str)
        }

        translated_prompts = PROMPTS_FOLDER / language
        is_translated = translated_prompts.is_dir()
        default_prompts = translated_prompts if is_translated else PROMPTS_FOLDER / ENGLISH
        self._prompts = Prompts(user_prompts, default_prompts)
        # The English prompts name the language that they ask for.
        self._named_language = "" if is_translated else language

    @cached_property
    def _judge(self) -> Judge:
        """The judge whose model is asked."""
        backend = open_backend(self._config)
        return Judge(self._config, backend, AnswerStore(self._store), self._prompts)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Everything that the candidates depend on, apart from the documents."""
        return {
            "generator": "llm",
            "rules": _PARSER_VERSION,
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
        """Return the examples with candidates, i.e. the contradictions in the model's replies.

        Args:
            examples: The examples of a shard. Unused ones are returned as they are.

        Returns:
            One example for each of ``examples``, in the same order. Contradictions that cannot be
            used are counted by reason.

        Raises:
            BackendDownError: The model cannot be reached, or gave no answer to some requests.
                Answers received so far stay in the store.
            ConfigError: A prompt of the user cannot be rendered.
        """
        replies: Replies = {
            error_type: self._ask(error_type, examples) for error_type in ERROR_TYPES
        }
        # A shard with failed requests must not count as finished.
        _check_answers(_answers_of(replies))
        return [
            example if example.unused else self._add_candidates(example, replies)
            for example in examples
        ]

    def _ask(
        self, error_type: str, examples: Sequence[Example]
    ) -> dict[str, list[ParsedReply[Contradictions]]]:
        """Ask the model for contradictions of one error type, such as wrong entities.

        Args:
            error_type: The error type.
            examples: The examples of a shard. Those that allow no error of this type are skipped.

        Returns:
            The replies by the document's id, one for each sample.
        """
        variables_by_doc_id = {
            example.doc_id: self._template_variables(example, error_type)
            for example in examples
            if not example.unused and error_type in example.types
        }
        # A question to the judge loads its model, which takes long, so none is asked in vain.
        if not variables_by_doc_id:
            return {}

        variables = list(variables_by_doc_id.values())
        label = f"contradictions: {error_type}"
        if error_type in self._numbered_types:
            answers = self._judge.ask(error_type, variables, label)
            replies = [list(map(parse_numbered_answer, samples)) for samples in answers]
        else:
            replies = self._judge.ask_typed(error_type, Contradictions, variables, label)
        return dict(zip(variables_by_doc_id, replies, strict=True))

    def _template_variables(self, example: Example, error_type: str) -> dict[str, object]:
        """Return the variables that the template of an error type is rendered with.

        Args:
            example: The example with the completion and the text before it.
            error_type: The error type that the model is asked for, such as ``entity``.
        """
        variables: dict[str, object] = {
            "completion": example.completion,
            "count": self._settings.per_type,
            "language": self._named_language,
        }
        # Asked for link errors, models would repeat the context (appendix D of the paper).
        if error_type != LINK:
            context = last_words(example.prefix, self._settings.context)
            # The context becomes one line of the prompt.
            variables["context"] = " ".join(context.split())
        return variables

    def _add_candidates(self, example: Example, replies: Replies) -> Example:
        """Return an example with the candidates of all error types.

        Args:
            example: An example that is in use.
            replies: The replies about all examples of the shard.

        Returns:
            A copy of the example, which is dropped if no candidate could be read. A text that the
            model wrote for two error types is a candidate of the first, and counts as lost for the
            second.
        """
        lost: Counter[str] = Counter(example.lost)
        candidates: dict[str, Candidate] = {}
        for error_type in example.types:
            for reply in replies[error_type].get(example.doc_id, ()):
                parsed = candidates_of_reply(
                    reply, example.completion, error_type, self._settings.per_type
                )
                lost.update(parsed.lost)
                for candidate in parsed.candidates:
                    if candidate.text in candidates:
                        lost[REPEATED] += 1
                    else:
                        candidates[candidate.text] = candidate

        # An example without candidates gives no row of the benchmark.
        if not candidates:
            reason = "no contradiction could be read"
            # All contradictions were lost for the same reason.
            if set(lost) == {REFUSED}:
                reason = "the server refused all requests"
            example = example.drop(self.name, reason)
        return replace(
            example, lost=dict(sorted(lost.items())), candidates=tuple(candidates.values())
        )

    def close(self) -> None:
        """Close the model and the store of its answers, if they were opened."""
        # A cached property is in this dictionary once it was used.
        if "_judge" in self.__dict__:
            self._judge.close()
            del self._judge


def _answers_of(replies: Replies) -> list[Answer]:
    """Return the model's answers to all requests of a shard, from which the replies were read."""
    answers: list[Answer] = []
    for replies_of_type in replies.values():
        for samples in replies_of_type.values():
            answers += [reply.answer for reply in samples]
    return answers


def _load_judge_with_model(name: str | None, folder: Path) -> JudgeConfig:
    """Load the configuration of a judge, and check that the judge has a model that writes text.

    Args:
        name: The name of the judge, or its YAML file. None if the settings name no judge.
        folder: The folder from which the path of the file starts.

    Raises:
        ConfigError: No judge is named, its YAML cannot be used, or it has no model.
    """
    if name is None:
        raise ConfigError(
            "generate: the llm generator needs a judge; name one, or set generator to rules"
        )
    # The name may be that of a judge which comes with the package, such as "openai-server".
    path = folder / name
    config = load_judge_config(path if path.is_file() else name)
    # A model that reads prompts writes answers to them. The lexical judge only compares words.
    if not config.capabilities.reads_prompts:
        raise ConfigError(
            f"generate: judge {name}: the {config.backend} judge writes no text; name a judge"
            " with a model, or set generator to rules"
        )
    return config


def _check_answers(answers: Sequence[Answer]) -> None:
    """Check that no request failed for a reason that may pass, and that most were not refused.

    A request that failed because the server was overloaded has to be sent again, so that its shard
    must not count as finished. A request that the server refuses for its content would be refused
    again, so that it only counts as lost.

    Args:
        answers: The answers to all requests of a shard.

    Raises:
        BackendDownError: A request failed for a reason that may pass, or more than half were
            refused. The message has the number of failures and the first error.
    """
    errors = []
    for answer in answers:
        if answer.error or answer.text is None:
            errors.append(answer.error or "an answer without a text")
    temporary_errors = [error for error in errors if not error.startswith(_REFUSAL_STARTS)]

    if temporary_errors:
        problem = temporary_errors[0]
    # All errors are refusals. A few do not matter.
    elif len(errors) > _MAX_SHARE_REFUSED * len(answers):
        problem = f"{errors[0]}; change the judge's YAML, or leave these documents out"
    else:
        return
    raise BackendDownError(
        f"{len(errors)} of {len(answers)} requests failed, the first because: {problem}; what was"
        " answered is kept"
    )


def _read_user_prompts(path: Path) -> Mapping[str, Path | str]:
    """Read the prompts of the user by error type.

    Args:
        path: A folder with templates such as ``entity.jinja``, or a YAML file with prompts in the
            form of the paper.

    Returns:
        The path of each template in the folder, or the text of each prompt in the YAML file, as a
        template too.

    Raises:
        ConfigError: The folder or the file is not there, or has no prompt that can be used.
    """
    if path.suffix in (".yaml", ".yml"):
        return _read_paper_prompts(path)
    # The name of a template is its error type.
    templates = {template.stem: template for template in sorted(path.glob("*.jinja"))}
    if not templates:
        names = ", ".join(f"{name}.jinja" for name in prompt_names(PROMPTS_FOLDER / ENGLISH))
        raise ConfigError(f"generate: prompts: {path}: no template there; expected some of {names}")
    return templates


def _read_paper_prompts(path: Path) -> Mapping[str, str]:
    """Read prompts that are written like those of the paper (tables 7 to 12) as Jinja templates.

    Example:
        ``Completion: {completion}`` becomes ``Completion: {{ completion }}``.

    Args:
        path: A YAML file with a prompt for each error type.

    Raises:
        ConfigError: The file holds no mapping, a key is no error type, or a prompt does not have
            ``{completion}``.
    """
    types = ", ".join(ERROR_TYPES)
    # The end of both error messages.
    expectation = f"expected one of {types} with a prompt that holds {{completion}}"
    prompts: object = read_config(path)
    if not isinstance(prompts, dict):
        raise ConfigError(f"generate: prompts: {path}: holds no mapping; {expectation}")

    templates = {}
    for error_type, prompt in prompts.items():
        # Without the sentence, the model would not know what to edit.
        if error_type not in ERROR_TYPES or "{completion}" not in str(prompt):
            raise ConfigError(
                f"generate: prompts: {path}: found {error_type!r}: {prompt!r:.80}; {expectation}"
            )
        # Jinja has double braces: {{ completion }}.
        templates[error_type] = _PLACEHOLDER.sub(r"{{ \1 }}", prompt)
    return templates
