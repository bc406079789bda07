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
from lm_factuality.harness.suite_task import TaskSettings, without_chat

# Keys of the YAML that a FACTOR task does not have.
_FOREIGN = ("output_type", "generation_kwargs", "metric_list")


class FactorChatTask(FactorTask):
    """FACTOR's rows for models that answer: is this sentence true?

    Its YAML includes ``tasks/factor/_factor_chat.yaml`` and names data as those of FACTOR do. Its
    ``metadata`` also has ``protocol`` (`PROTOCOLS`) and ``answers`` (`answers.WAYS`).
    """

    declared = BENCHMARK
    reads = ("answers",)
    joins = False

    def built(self) -> None:
        """Set what lm_eval's constructor would undo."""
        # What lm_eval pads by when several processes share the work.
        self.OUTPUT_TYPE = answers.REQUEST_TYPE

    @staticmethod
    def corpus_of(config: Mapping[str, Any]) -> Corpus:
        """Return the corpus without what is no part of a FACTOR task."""
        own = {key: value for key, value in config.items() if key not in _FOREIGN}
        own["metadata"] = dict(config.get("metadata") or {})
        own["metadata"].pop("protocol", None)
        return parse_corpus(own)

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Return what the YAML says, checked."""
        self._protocol_name = str(metadata.get("protocol", "statements"))
        self._way = str(metadata.get("answers", "auto"))
        about: dict[str, Any] = {"protocol": self._protocol_name, "answers": self._way}
        for key, names in (("protocol", tuple(PROTOCOLS)), ("answers", answers.WAYS)):
            if about[key] not in names:
                raise ConfigError(
                    f"{config.get('task')}: metadata.{key}: found {about[key]!r}, expected one of"
                    f" {', '.join(names)}"
                )
        self._protocol = PROTOCOLS[self._protocol_name]
        self._prompts = Prompts()
        self._corpus = self.corpus_of(config)
        about["prompt_hashes"] = self._prompts.hashes([self._protocol.prompt])
        if self._protocol_name == "letters":
            about["caution"] = f"{metadata.get('caution') or ''} {CENTRE}".strip()
        return TaskSettings(
            {"output_type": "generate_until", "doc_to_text": "prefix", "doc_to_target": "gold"},
            about,
        )

    def read_documents(self) -> list[dict[str, Any]]:
        """Return the rows as samples show them."""
        documents = super().read_documents()
        self._most = max(len(document["choices"]) for document in documents)
        if self._most > len(LETTERS):
            raise DataError(
                f"{self.config.task}: a row has {self._most} choices, expected at most"
                f" {len(LETTERS)}"
            )
        return documents

    def fewshot_context(
        self, doc: dict[str, Any], num_fewshot: int = 0, **kwargs: Any
    ) -> list[Any]:
        """Return the prompts of a row, each in the chat template if there is one."""
        prompts = []
        for subject in self._protocol.subjects(doc["prefix"], doc["choices"]):
            text = self._prompts.render(self._protocol.prompt, subject)
            document = {**doc, "prefix": text}
            prompts.append(super().fewshot_context(document, num_fewshot, **kwargs))
        return prompts

    def construct_requests(
        self, doc: dict[str, Any], ctx: Sequence[Any], **kwargs: Any
    ) -> list[Instance]:
        """Return a request for each prompt."""
        words = self._protocol.words(len(doc["choices"]))
        rest = (words, self._way, dict(self.config.generation_kwargs or {}), *self.room_to_think())
        arguments = without_chat(kwargs)
        return [
            Instance(answers.REQUEST_TYPE, doc, (prompt, *rest), place, **arguments)
            for place, prompt in enumerate(ctx)
        ]

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the metrics of a row."""
        responses = [WordAnswer(*result) for result in results]
        if not all(response.problem for response in responses):
            by_words = all(response.logprobs is None for response in responses)
            self.config.metadata["answers_read"] = "words" if by_words else "logprobs"
        return row_metrics(doc, responses, self._protocol_name)

    def families(self) -> dict[str, Sequence[str]]:
        """Return the letters that scores are by."""
        return {POSITION: LETTERS[: self._most] if self._protocol_name == "letters" else ()}
