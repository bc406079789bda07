"""The lm_eval task behind every YAML of FACTOR for chat models."""

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance

from judges.templates import Prompts
from lm_factuality.benchmarks.factor.corpus import Corpus, parse_corpus
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.benchmarks.factor_chat.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor_chat.metrics import (
    CENTRE,
    LETTERS,
    POSITION,
    PROTOCOLS,
    row_metrics,
)
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness import answers
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.harness.suite_task import Settings, without_chat


class FactorChatTask(FactorTask):
    """FACTOR's rows for models that answer: is this sentence true? Its YAML includes
    ``tasks/factor/_factor_chat.yaml`` and names data as those of FACTOR do. ``metadata`` besides:
    ``protocol`` (``statements``: each choice by itself; ``letters``: all, once a rotation) and
    ``answers`` (``logprobs``, ``words``, or ``auto``: log-probabilities where there are some)."""

    declared = BENCHMARK
    reads = ("answers",)
    joins = False

    def built(self) -> None:
        self.OUTPUT_TYPE = (
            answers.REQUEST_TYPE
        )  # what lm_eval pads by when several processes share the work

    @staticmethod
    def corpus_of(config: Mapping[str, Any]) -> Corpus:
        metadata = {
            key: value for key, value in (config.get("metadata") or {}).items() if key != "protocol"
        }
        foreign = ("output_type", "generation_kwargs", "metric_list")
        return parse_corpus(
            {
                **{key: value for key, value in config.items() if key not in foreign},
                "metadata": metadata,
            }
        )

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
        given = {
            "protocol": str(metadata.get("protocol", "statements")),
            "answers": str(metadata.get("answers", "auto")),
        }
        for key, known in (("protocol", tuple(PROTOCOLS)), ("answers", answers.WAYS)):
            if given[key] not in known:
                expected = f"expected one of {', '.join(known)}"
                raise ConfigError(
                    f"{config.get('task')}: metadata.{key}: found {given[key]!r}, {expected}"
                )
        self._protocol_name, self._way = given["protocol"], given["answers"]
        self._protocol, self._prompts, self._corpus = (
            PROTOCOLS[self._protocol_name],
            Prompts(),
            self.corpus_of(config),
        )
        about: dict[str, Any] = {
            **given,
            "prompt_hashes": self._prompts.hashes([self._protocol.prompt]),
        }
        if self._protocol_name == "letters":
            about["caution"] = " ".join([*filter(None, [metadata.get("caution")]), CENTRE])
        return Settings(
            {"output_type": "generate_until", "doc_to_text": "prefix", "doc_to_target": "gold"},
            about,
        )

    def read_documents(self) -> list[dict[str, Any]]:
        documents = super().read_documents()
        self._most = max(len(each["choices"]) for each in documents)
        if self._most > len(LETTERS):
            raise DataError(
                f"{self.config.task}: a row has {self._most} choices, expected at most"
                f" {len(LETTERS)}"
            )
        return documents

    def fewshot_context(
        self, doc: dict[str, Any], num_fewshot: int = 0, **kwargs: Any
    ) -> list[Any]:
        """The prompts of a row, each in the chat template if there is one."""
        subjects = self._protocol.subjects(doc["prefix"], doc["choices"])
        texts = (self._prompts.render(self._protocol.prompt, subject) for subject in subjects)
        return [
            super(FactorTask, self).fewshot_context({**doc, "prefix": text}, num_fewshot, **kwargs)
            for text in texts
        ]

    def construct_requests(
        self, doc: dict[str, Any], ctx: Sequence[Any], **kwargs: Any
    ) -> list[Instance]:
        words = self._protocol.words(len(doc["choices"]))
        rest = (words, self._way, dict(self.config.generation_kwargs or {}), *self.room_to_think())
        others = without_chat(kwargs)
        return [
            Instance(answers.REQUEST_TYPE, doc, (prompt, *rest), place, **others)
            for place, prompt in enumerate(ctx)
        ]

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
        given = [WordAnswer(*result) for result in results]
        if any(not each.problem for each in given):
            self.config.metadata["answers_read"] = (
                "words" if all(each.logprobs is None for each in given) else "logprobs"
            )
        return row_metrics(doc, given, self._protocol_name)

    def families(self) -> dict[str, Sequence[str]]:
        return {POSITION: LETTERS[: self._most] if self._protocol_name == "letters" else ()}
