"""The lm_eval task behind every YAML of FACTOR for chat models.

lm_eval makes a `FactorChatTask` for each task of a run. It asks the task for requests and gives it
the model's answers.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from lm_eval.api.instance import Instance

from judges.templates import Prompts
from lm_factuality.benchmarks.factor.corpus import Corpus, FactorMetadata, read_task_config
from lm_factuality.benchmarks.factor.task import FactorTask
from lm_factuality.benchmarks.factor_chat import metrics
from lm_factuality.benchmarks.factor_chat.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor_chat.metrics import (
    LETTERS,
    LETTERS_CAUTION,
    POSITION,
    PROTOCOLS,
    Protocol,
)
from lm_factuality.ground.errors import DataError
from lm_factuality.harness import answers
from lm_factuality.harness.answers import AnswerMethod
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.internals import row_arguments
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.harness.schema import (
    MIN_TOKENS,
    RESPONSE_FORMAT,
    ask_for_json,
    response_format,
)
from lm_factuality.harness.suite_task import TaskSettings


class ChatMetadata(FactorMetadata):
    """The settings of a task that lm_eval has no keys for."""

    protocol: Literal["statements", "letters"] = "statements"  # type: ignore[assignment]
    """Whether each choice is asked about by itself, or all are shown with letters."""

    answers: AnswerMethod = "auto"
    """Whether answers are read from log-probabilities, from words or from JSON objects."""

    caution: str = ""


class ChatCorpus(Corpus):
    """The YAML of a task."""

    output_type: Literal["generate_until"] = "generate_until"  # type: ignore[assignment]
    generation_kwargs: Any = None
    metadata: ChatMetadata = ChatMetadata()


class FactorChatTask(FactorTask):
    """FACTOR's rows for models that answer the question whether a sentence is true.

    Its YAML includes ``tasks/factor/_factor_chat.yaml`` and names its data as FACTOR's YAMLs do.
    Its ``metadata`` may also have ``protocol`` (see `PROTOCOLS`) and ``answers`` (see
    `answers.AnswerMethod`).
    """

    _corpus: ChatCorpus

    declared = BENCHMARK
    metadata_keys = ("answers",)
    joins = False
    # Questions are answered by words, where a model gives no log-likelihoods.
    scores_texts = False

    def finish_construction(self) -> None:
        """Set the attribute that lm_eval's constructor would overwrite."""
        # When several processes share the work, lm_eval pads with requests of this type.
        self.OUTPUT_TYPE = answers.REQUEST_TYPE

    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Check the YAML, and remember it in ``_corpus``, by which `FactorTask` reads the rows.

        Args:
            config: The YAML of the task.
            metadata: Its metadata with those of the command line, which ``config`` also has.

        Returns:
            The keys of the YAML that lm_eval needs, and the settings that results files record.

        Raises:
            ConfigError: The YAML cannot be used.
        """
        self._corpus = read_task_config(ChatCorpus, config)
        lm_eval_settings = {
            "output_type": "generate_until",
            "doc_to_text": "prefix",
            "doc_to_target": "gold",
        }

        recorded_metadata: JsonObject = {
            "protocol": self._metadata.protocol,
            "answers": self._metadata.answers,
            # A changed prompt gives other scores, so results name its hash.
            "prompt_hashes": self._prompts.hashes([self._protocol.prompt]),
        }
        # Results warn of scores that need no knowledge.
        if self._metadata.protocol == "letters":
            caution = f"{self._metadata.caution} {LETTERS_CAUTION}"
            recorded_metadata["caution"] = caution.strip()
        return TaskSettings(lm_eval_settings, recorded_metadata)

    @property
    def _metadata(self) -> ChatMetadata:
        """The settings of the task that lm_eval has no keys for."""
        return self._corpus.metadata

    @property
    def _protocol(self) -> Protocol:
        """The questions about a row and the words that answer them."""
        return PROTOCOLS[self._metadata.protocol]

    @cached_property
    def _prompts(self) -> Prompts:
        """The templates of the questions."""
        return Prompts()

    def read_documents(self) -> list[JsonObject]:
        """Load the rows of the corpus as documents for lm_eval, as `FactorTask` does.

        Returns:
            The documents, in the order of the file.

        Raises:
            DataError: The data cannot be read, or a row has more choices than there are letters.
        """
        documents = super().read_documents()
        if self._metadata.protocol != "letters":
            return documents

        # A prompt shows one choice under each letter from A to Z.
        for document in documents:
            num_choices = len(document["choices"])
            if num_choices > len(LETTERS):
                raise DataError(
                    f"{document['location']}: {num_choices} choices, expected at most"
                    f" {len(LETTERS)} for protocol=letters; ask with protocol=statements"
                )
        return documents

    def fewshot_context(self, doc: JsonObject, num_fewshot: int = 0, **kwargs: Any) -> list[Any]:
        """Return the prompts of a row, each in the chat template if there is one.

        Args:
            doc: The document of the row.
            num_fewshot: The number of demonstrations. It is always 0, since FACTOR has none.
            **kwargs: The other arguments of lm_eval, such as the chat template.

        Returns:
            The prompts, one for each question about the row. Each is a text, or whatever the chat
            template makes of it.
        """
        prompts = []
        for subject in self._protocol.subjects(doc["prefix"], doc["choices"]):
            question = self._prompts.render(self._protocol.prompt, subject)
            if self._metadata.answers == "schema":
                words = self._protocol.answer_words(len(doc["choices"]))
                question = ask_for_json(question, [{"answer": word} for word in words])
            # In this task, lm_eval takes the text of a prompt from the field "prefix" of a document
            # (`doc_to_text`). So a copy of the document gets the question there.
            prompt_document = {**doc, "prefix": question}
            prompts.append(super().fewshot_context(prompt_document, num_fewshot, **kwargs))
        return prompts

    def construct_requests(
        self, doc: JsonObject, ctx: Sequence[Any], **kwargs: Any
    ) -> list[Instance]:
        """Return one request for each prompt of a row.

        Args:
            doc: The document of the row.
            ctx: The prompts, as `fewshot_context` returns them.
            **kwargs: The other arguments of lm_eval's requests.
        """
        words = self._protocol.answer_words(len(doc["choices"]))
        generation_kwargs = self._generation_kwargs(words)
        request_fields = row_arguments(self, doc, **kwargs)
        instances = []
        for index, prompt in enumerate(ctx):
            # The last argument, the number of tokens to think, is only there for thinking models.
            arguments = (
                prompt,
                words,
                self._metadata.answers,
                generation_kwargs,
                *self.room_to_think(),
            )
            instances.append(
                Instance(answers.REQUEST_TYPE, doc, arguments, idx=index, **request_fields)
            )
        return instances

    def _generation_kwargs(self, words: Sequence[str]) -> JsonObject:
        """Return lm_eval's generation arguments of a question.

        Args:
            words: The words that may answer it. With ``answers: schema``, the model has to write a
                JSON object with one of them.
        """
        generation_kwargs = dict(self.config.generation_kwargs or {})
        if self._metadata.answers == "schema":
            # A JSON object takes more tokens than its word.
            max_tokens = max(MIN_TOKENS, generation_kwargs.get("max_gen_toks", 0))
            generation_kwargs["max_gen_toks"] = max_tokens
            word_schema = {"type": "string", "enum": list(words)}
            generation_kwargs[RESPONSE_FORMAT] = response_format(word_schema)
        return generation_kwargs

    def note_results(self, results: Sequence[Sequence[Any]]) -> None:
        """Record in the task's metadata how answers are read, as ``answers_read``.

        The value is ``words`` (from the model's text), ``schema`` (from a JSON object) or
        ``logprobs``.

        Args:
            results: The model's answer to each question, with the fields of a `WordAnswer`.
        """
        answers_to_row = [WordAnswer(*result) for result in results]
        # A row with problems alone does not show how answers are read.
        if all(answer.problem for answer in answers_to_row):
            return

        if any(answer.logprobs is not None for answer in answers_to_row):
            answers_read = "logprobs"
        elif self._metadata.answers == "schema":
            answers_read = "schema"
        else:
            answers_read = "words"
        self.config.metadata["answers_read"] = answers_read

    def row_metrics(self, doc: JsonObject, results: Sequence[Sequence[Any]]) -> JsonObject:
        """Return the metrics of one row, by name.

        Args:
            doc: The document of the row.
            results: The model's answer to each question, with the fields of a `WordAnswer`.
        """
        answers_to_row = [WordAnswer(*result) for result in results]
        return metrics.row_metrics(doc, answers_to_row, self._metadata.protocol)

    def families(self) -> dict[str, Sequence[str]]:
        """Return the letters that the metric of picked letters is reported for."""
        if self._metadata.protocol != "letters":
            return {POSITION: ()}
        # Rows may have different numbers of choices.
        most_choices = max(len(doc["choices"]) for doc in self.eval_docs)
        return {POSITION: LETTERS[:most_choices]}
