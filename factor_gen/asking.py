"""What the writer and the check by a judge have in common: they ask the model of a judge."""

from __future__ import annotations

import abc
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from factor_gen.records import Example, ModelUse
from judges.answers import Answer, Prices
from judges.budget import SpendingLimit, shared_spending_limit
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, Plan, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts
from judges.typed import ParsedReply
from lm_factuality.ground.errors import BackendDownError, ConfigError

# Errors of requests that would be refused again begin like this. All others may pass.
_REFUSAL_STARTS = ("refused: ", "the prompt has ")
# A greater share of a shard's requests that are refused is an error.
_MAX_SHARE_REFUSED = 0.5
# What a section of the settings can have instead of a judge.
_WITHOUT_JUDGE = {"generate": "generator: rules", "contradiction": "kind: offline"}


class AskingStage(abc.ABC):
    """A part of a build that asks the model of a judge. The model is opened when it is needed."""

    def __init__(self, config: JudgeConfig, prompts: Prompts, store: Path | None) -> None:
        """Keep what the judge is opened with.

        Args:
            config: The configuration of the judge.
            prompts: The templates of the questions.
            store: Where the answers are kept. None: in the store that all judges share.
        """
        self._config = config
        self._prompts = prompts
        self._store = store
        self._spending_limit: SpendingLimit | None = None

    def share_spending_limit(self, limits: MutableMapping[str, SpendingLimit]) -> None:
        """Let the stages of a build that ask the same judge spend its ``max_cost`` together.

        Args:
            limits: The limits of the judges that other stages ask, to which that of this one is
                added.
        """
        self._spending_limit = shared_spending_limit(limits, self._config)

    @cached_property
    def _judge(self) -> Judge:
        """The judge whose model is asked."""
        backend = open_backend(self._config, self._spending_limit)
        return Judge(self._config, backend, AnswerStore(self._store), self._prompts)

    def _fingerprint_of_judge(self, prompt: str) -> dict[str, Any]:
        """Return everything of the judge and of a prompt that its answers depend on."""
        return {
            "judge": self._judge.identity,
            "decoding": self._config.decoding.to_dict(),
            "schema": self._config.schema,
            "system": self._config.system,
            "prompts": self._prompts.hashes([prompt]),
        }

    @property
    def prices(self) -> Prices | None:
        """The prices of the model. None if the judge's YAML has none."""
        return self._config.prices

    def plan(self, examples: Sequence[Example]) -> Plan:
        """Estimate what would be asked about some examples that are in use; nothing is sent."""
        return self._judge.plan(lambda judge: self._ask(judge, examples))

    def _replies_by_document(
        self, examples: Sequence[Example]
    ) -> Mapping[str, Sequence[ParsedReply[Any]]]:
        """Ask the judge about each of some examples.

        Returns:
            The replies about each example, by the id of its document.

        Raises:
            BackendDownError: The model cannot be reached, or gave no answer to some questions.
                Answers received so far stay in the store.
        """
        # A question to the judge loads its model, which takes long, so none is asked in vain.
        if not examples:
            return {}
        replies = self._ask(self._judge, examples)
        # A shard with failed requests must not count as finished.
        _check_answers([reply.answer for reply in chain.from_iterable(replies)])
        doc_ids = [example.doc_id for example in examples]
        return dict(zip(doc_ids, replies, strict=True))

    @abc.abstractmethod
    def _ask(
        self, judge: Judge, examples: Sequence[Example]
    ) -> Sequence[Sequence[ParsedReply[Any]]]:
        """Ask a judge about each of some examples, and return the replies about each."""

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
    answers = []
    for reply in replies:
        answers += [answer for answer in (reply.earlier_answer, reply.answer) if answer is not None]
    return ModelUse(
        requests=len(answers),
        prompt_tokens=sum(answer.prompt_tokens or 0 for answer in answers),
        answer_tokens=sum(answer.completion_tokens or 0 for answer in answers),
        uncounted=sum(answer.prompt_tokens is None for answer in answers),
    )


def load_judge_with_model(name: str | None, folder: Path, section: str) -> JudgeConfig:
    """Load the configuration of a judge, and check that the judge has a model that writes text.

    Args:
        name: The name of the judge, or its YAML file. None if the settings name no judge.
        folder: The folder from which the path of the file starts.
        section: The section of the settings that names the judge, for messages.

    Raises:
        ConfigError: No judge is named, its YAML cannot be used, or it has no model.
    """
    if name is None:
        raise ConfigError(
            f"{section}: needs a judge; name one, such as judge: my_judge.yaml, or choose"
            f" {_WITHOUT_JUDGE[section]}"
        )
    # The name may be that of a judge which comes with the package, such as "openai-server".
    path = folder / name
    config = load_judge_config(path if path.is_file() else name)
    # A model that reads prompts writes answers to them. The lexical judge only compares words.
    if not config.capabilities.reads_prompts:
        raise ConfigError(
            f"{section}: judge {name}: the {config.backend} judge writes no text; name a judge"
            f" with a model, or choose {_WITHOUT_JUDGE[section]}"
        )
    return config


def _check_answers(answers: Sequence[Answer]) -> None:
    """Check that the requests of a shard were answered, or else refused for their content.

    The server would refuse such a request again, so it only counts as lost. A request that failed
    because the server was overloaded has to be sent again, so its shard is not finished.

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
    elif len(errors) > _MAX_SHARE_REFUSED * len(answers):
        # The server would refuse the same requests again if the command were repeated.
        problem = f"{errors[0]}; change the judge's YAML, or leave these documents out"
    else:
        return
    raise BackendDownError(
        f"{len(errors)} of {len(answers)} requests failed, the first because: {problem}; what was"
        " answered is kept"
    )
