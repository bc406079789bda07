"""The llm generator, a stage that asks a model for contradictions, in one question per sentence.

It asks about all sentences of a shard at once, and each answer is on disk before it is used.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from factor_gen.generate.llm.edits import (
    REFUSED,
    REPEATED,
    Contradictions,
    candidates_of_reply,
)
from factor_gen.language import ENGLISH
from factor_gen.records import (
    ERROR_TYPES,
    Candidate,
    Example,
    ModelUse,
    add_model_use,
    last_words,
)
from factor_gen.settings import GenerateSettings
from judges.answers import Answer, Prices
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, Plan, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts
from judges.typed import ParsedReply
from lm_factuality.ground.errors import BackendDownError, ConfigError

_PROMPT = "edits"
PROMPTS_FOLDER = Path(__file__).resolve().parent / "prompts"
# The version of the code that makes the edits. Raise it if it makes others of the same answers.
_VERSION = 5
# An answer has so many tokens beside its contradictions, and so many for each of them.
_ANSWER_TOKENS = 100
_CONTRADICTION_TOKENS = 50
# Errors of requests that would be refused again begin like this. All others may pass.
_REFUSAL_STARTS = ("refused: ", "the prompt has ")
# A greater share of a shard's requests that are refused is an error.
_MAX_SHARE_REFUSED = 0.5


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
        """Read the judge's YAML and the prompt. The model is opened when it is first needed.

        Args:
            settings: The settings of the stage.
            folder: The folder from which relative paths of the settings start.
            store: Where the answers are kept. None: in the store that all judges share.
            language: The ISO 639-1 code of the texts' language.

        Raises:
            ConfigError: No judge is named, or its YAML or the prompt cannot be used.
        """
        self._settings = settings
        self._store = store
        self._config = load_judge_with_model(settings.judge, folder)
        # The judge's YAML may replace prompts of benchmarks too, which this stage does not ask.
        overrides = {name: path for name, path in self._config.prompts.items() if name == _PROMPT}
        self._prompts = Prompts(overrides, PROMPTS_FOLDER)
        # The prompt is in English. It names any other language that it asks about.
        self._named_language = "" if language == ENGLISH else language

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
            "rules": _VERSION,
            "judge": self._judge.identity,
            "decoding": self._config.decoding.to_dict(),
            "schema": self._config.schema,
            "samples": self._config.samples,
            "system": self._config.system,
            "prompts": self._prompts.hashes([_PROMPT]),
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
        used_examples = [example for example in examples if not example.unused]
        # A question to the judge loads its model, which takes long, so none is asked in vain.
        if not used_examples:
            return list(examples)

        replies = self._ask(self._judge, used_examples)
        # A shard with failed requests must not count as finished.
        check_answers([reply.answer for samples in replies for reply in samples])
        replies_in_order = iter(replies)
        return [
            example if example.unused else self._add_candidates(example, next(replies_in_order))
            for example in examples
        ]

    @property
    def prices(self) -> Prices | None:
        """The prices of the model. None if the judge's YAML has none."""
        return self._config.prices

    def plan(self, examples: Sequence[Example]) -> Plan:
        """Estimate what would be asked about examples that are in use; nothing is sent."""
        return self._judge.plan(lambda judge: self._ask(judge, examples))

    def _ask(
        self, judge: Judge, examples: Sequence[Example]
    ) -> list[list[ParsedReply[Contradictions]]]:
        """Ask a model for contradictions of each example.

        Args:
            judge: The judge whose model is asked.
            examples: Examples that are in use.

        Returns:
            For each example the replies, one for each sample.
        """
        num_contradictions = len(ERROR_TYPES) * self._settings.per_type
        # A reply holds the edits alone, so that its length does not depend on the sentence.
        max_tokens = _ANSWER_TOKENS + _CONTRADICTION_TOKENS * num_contradictions
        return judge.ask_typed(
            _PROMPT,
            Contradictions,
            [self._template_variables(example) for example in examples],
            "contradictions",
            max_tokens=max(max_tokens, self._config.decoding.max_tokens),
        )

    def _template_variables(self, example: Example) -> dict[str, object]:
        """Return the variables that the prompt about an example is rendered with."""
        return {
            "context": last_words(example.prefix, self._settings.context).strip(),
            "completion": example.completion,
            "types": example.types,
            "count": self._settings.per_type,
            "language": self._named_language,
        }

    def _add_candidates(
        self, example: Example, replies: Sequence[ParsedReply[Contradictions]]
    ) -> Example:
        """Return an example with the candidates of all its replies.

        Args:
            example: An example that is in use.
            replies: The replies about it, one for each sample.

        Returns:
            A copy of the example, which is dropped if no candidate could be read.
        """
        lost: Counter[str] = Counter(example.lost)
        candidates: dict[str, Candidate] = {}
        for reply in replies:
            parsed = candidates_of_reply(reply, example, self._settings.per_type)
            lost.update(parsed.lost)
            for candidate in parsed.candidates:
                if candidate.text in candidates:
                    lost[REPEATED] += 1
                else:
                    candidates[candidate.text] = candidate

        # An example without candidates gives no row of the benchmark.
        if not candidates:
            reason = "the model made no contradiction that can be used"
            # All contradictions were lost for the same reason.
            if set(lost) == {REFUSED}:
                reason = "the server refused all requests"
            example = example.drop(self.name, reason)
        return replace(
            example,
            lost=dict(sorted(lost.items())),
            candidates=tuple(candidates.values()),
            model_use=add_model_use(example.model_use, {self.name: model_use_of(replies)}),
        )

    def close(self) -> None:
        """Close the model and the store of its answers, if they were opened."""
        # A cached property is in this dictionary once it was used.
        if "_judge" in self.__dict__:
            self._judge.close()
            del self._judge


def model_use_of(replies: Sequence[ParsedReply[Any]]) -> ModelUse:
    """Count the requests and tokens of replies, with those of questions that were asked once more.

    Answers that come from the store count as if they had been asked for now, so that a build that
    was interrupted has the same counts.
    """
    use = ModelUse()
    for reply in replies:
        for answer in (reply.earlier_answer, reply.answer):
            if answer is None:
                continue
            is_counted = answer.prompt_tokens is not None
            use = use.plus(
                ModelUse(
                    requests=1,
                    prompt_tokens=answer.prompt_tokens or 0,
                    answer_tokens=answer.completion_tokens or 0,
                    uncounted=0 if is_counted else 1,
                )
            )
    return use


def load_judge_with_model(name: str | None, folder: Path) -> JudgeConfig:
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


def check_answers(answers: Sequence[Answer]) -> None:
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
