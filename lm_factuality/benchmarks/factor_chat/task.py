"""The lm_eval task behind every YAML of FACTOR for chat models."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from lm_eval.api.instance import Instance

from judges.templates import Prompts
from lm_factuality.benchmarks.factor.corpus import Corpus, FactorMetadata, read_yaml
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.benchmarks.factor_chat.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor_chat.metrics import (
    LETTERS,
    LETTERS_CAUTION,
    POSITION,
    PROTOCOLS,
    row_metrics,
)
from lm_factuality.ground.errors import DataError
from lm_factuality.harness import answers
from lm_factuality.harness.answers import Way
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.harness.suite_task import TaskSettings, without_chat


class ChatMetadata(FactorMetadata):
    """The settings of a task."""

    protocol: Literal["statements", "letters"] = "statements"  # type: ignore[assignment]
    answers: Way = "auto"
    caution: str = ""


class ChatCorpus(Corpus):
    """The YAML of a task."""

    output_type: Literal["generate_until"] = "generate_until"  # type: ignore[assignment]
    generation_kwargs: Any = None
    metadata: ChatMetadata = ChatMetadata()


class FactorChatTask(FactorTask):
    """FACTOR's rows for models that answer: is this sentence true?

    Its YAML includes ``tasks/factor/_factor_chat.yaml`` and names data as those of FACTOR do. Its
    ``metadata`` also has ``protocol`` (`PROTOCOLS`) and ``answers`` (`answers.Way`).
    """

    declared = BENCHMARK
    reads = ("answers",)
    joins = False

    def built(self) -> None:
        """Set what lm_eval's constructor would undo."""
        # What lm_eval pads by when several processes share the work.
        self.OUTPUT_TYPE = answers.REQUEST_TYPE

    @staticmethod
    def corpus_of(config: Mapping[str, Any]) -> ChatCorpus:
        """Return what the YAML says, checked."""
        return read_yaml(ChatCorpus, config)

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Return what the YAML says, checked."""
        self._corpus = self.corpus_of(config)
        self._asked = self._corpus.metadata
        self._protocol = PROTOCOLS[self._asked.protocol]
        self._prompts = Prompts()
        about: JsonObject = {
            "protocol": self._asked.protocol,
            "answers": self._asked.answers,
            "prompt_hashes": self._prompts.hashes([self._protocol.prompt]),
        }
        if self._asked.protocol == "letters":
            about["caution"] = f"{self._asked.caution} {LETTERS_CAUTION}".strip()
        return TaskSettings(
            {"output_type": "generate_until", "doc_to_text": "prefix", "doc_to_target": "gold"},
            about,
        )

    def read_documents(self) -> list[JsonObject]:
        """Return the rows as samples show them.

        Raises:
            DataError: A row has more choices than there are letters for them.
        """
        documents = super().read_documents()
        for document in documents:
            count = len(document["choices"])
            if self._asked.protocol == "letters" and count > len(LETTERS):
                raise DataError(
                    f"{document['location']}: {count} choices, expected at most {len(LETTERS)} for"
                    " protocol=letters; ask with protocol=statements"
                )
        return documents

    def fewshot_context(self, doc: JsonObject, num_fewshot: int = 0, **kwargs: Any) -> list[Any]:
        """Return the prompts of a row, each in the chat template if there is one."""
        prompts = []
        for subject in self._protocol.subjects(doc["prefix"], doc["choices"]):
            text = self._prompts.render(self._protocol.prompt, subject)
            document = {**doc, "prefix": text}
            prompts.append(super().fewshot_context(document, num_fewshot, **kwargs))
        return prompts

    def construct_requests(
        self, doc: JsonObject, ctx: Sequence[Any], **kwargs: Any
    ) -> list[Instance]:
        """Return a request for each prompt."""
        words = self._protocol.words(len(doc["choices"]))
        rest = (
            words,
            self._asked.answers,
            dict(self.config.generation_kwargs or {}),
            *self.room_to_think(),
        )
        arguments = without_chat(kwargs)
        return [
            Instance(answers.REQUEST_TYPE, doc, (prompt, *rest), place, **arguments)
            for place, prompt in enumerate(ctx)
        ]

    def row_metrics(self, doc: JsonObject, results: Sequence[Sequence[Any]]) -> JsonObject:
        """Return the metrics of a row."""
        responses = [WordAnswer(*result) for result in results]
        if not all(response.problem for response in responses):
            by_words = all(response.logprobs is None for response in responses)
            self.config.metadata["answers_read"] = "words" if by_words else "logprobs"
        return row_metrics(doc, responses, self._asked.protocol)

    def families(self) -> dict[str, Sequence[str]]:
        """Return the letters that scores are by."""
        if self._asked.protocol != "letters":
            return {POSITION: ()}
        return {POSITION: LETTERS[: max(len(doc["choices"]) for doc in self.eval_docs)]}
