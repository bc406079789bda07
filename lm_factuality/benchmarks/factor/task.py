"""The lm_eval task behind every FACTOR YAML.

lm_eval makes a `FactorTask` for each task of a run. It asks the task for requests and gives it the
model's log-probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.factor import metrics
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor.corpus import METADATA_KEYS, parse_corpus
from lm_factuality.benchmarks.factor.joining import DOLA, Join, describe_first_join, log_join
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import named_error_types, row_document
from lm_factuality.harness import requests
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.internals import row_arguments
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings


class FactorTask(SuiteTask):
    """A multiple-choice task scored by mean log-probability per token (equation 1).

    Its YAML includes ``tasks/factor/_factor.yaml``. Its metrics are ``metrics.SCORES``, with
    standard errors clustered by ``doc_id``.

    Raises:
        ConfigError: The YAML cannot be used.
        DataError: Its data cannot be used.
    """

    declared = BENCHMARK
    problem_key = "problem"
    scores_texts = True
    metadata_keys = METADATA_KEYS
    # Whether the model is shown prefix and completion as one text.
    joins: ClassVar[bool] = True
    # In the YAML of a corpus, doc_to_text and its like are templates over the table's columns.
    restated_keys = ()

    def finish_construction(self) -> None:
        """Set the attributes that lm_eval's constructor would overwrite."""
        # Set any earlier, it would make lm_eval try the choices of the first row, which may be
        # one that cannot be scored.
        self.config.doc_to_choice = "choices"
        # When several processes share the work, lm_eval pads with requests of this type.
        self.OUTPUT_TYPE = requests.REQUEST_TYPE

    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Check the YAML, and set ``_corpus`` to its settings.

        Args:
            config: The YAML of the task.
            metadata: Its metadata with those of the command line, which ``config`` also has.

        Returns:
            The settings for lm_eval, and the metadata that results files record.

        Raises:
            ConfigError: The YAML cannot be used.
        """
        self._corpus = parse_corpus(config)
        lm_eval_settings = {
            "output_type": "multiple_choice",
            "doc_to_text": "prefix",
            "doc_to_target": "gold",
        }
        return TaskSettings(lm_eval_settings, self._corpus.recorded_metadata)

    def read_documents(self) -> list[JsonObject]:
        """Load the rows of the corpus as documents for lm_eval.

        Also keeps what the task needs later: the error types of the data, an example of how prefix
        and completion are joined (``first_join``), and in the metadata where the data is from.

        Returns:
            The documents, in the order of the file.

        Raises:
            ConfigError: Columns or templates do not fit the table.
            DataError: The data cannot be read.
        """
        corpus = self._corpus
        loaded = load_corpus(corpus, self._data_dir)
        rows = loaded.checked_rows(corpus.task, "rows", corpus.validate_target)

        self._error_types = named_error_types(row.error_types for row in rows)
        self.config.metadata["data"] = dict(loaded.provenance)
        # Chat models are shown prefix and completion as two texts.
        if self.joins:
            self.first_join = describe_first_join(rows, corpus.join)
            log_join(corpus.task, self.first_join)

        documents = [row_document(row) for row in rows]
        if corpus.metadata.protocol == DOLA:
            # The report sees only samples, and must know that sums of log-probabilities decided.
            for document in documents:
                document["protocol"] = DOLA
        return documents

    def construct_requests(self, doc: JsonObject, ctx: str, **kwargs: Any) -> list[Instance]:
        """Return one request for each choice, joined to the prefix by the rule of the corpus.

        Args:
            doc: The document of a row.
            ctx: Its prefix, in the chat template if the run applies one.
            **kwargs: The other arguments of lm_eval's requests.

        Returns:
            The requests, each for the log-probability of a continuation.
        """
        join = self._corpus.join
        if kwargs.get("apply_chat_template"):
            # A chat template ends as its model expects it, so no delimiter is put after it.
            join = replace(join, delimiter="")
        request_fields = row_arguments(self, doc, **kwargs)
        return choice_requests(doc, ctx, join, self._corpus.metadata.window, **request_fields)

    def note_results(self, results: Sequence[Sequence[Any]]) -> None:
        """Record in the task's metadata whether the model could apply a window.

        A window is a number of tokens. If the model's backend cannot count tokens, no window was
        applied, and ``window`` becomes None.

        Args:
            results: The model's response to each choice, with the fields of a `ScoredContinuation`.
        """
        scores = [ScoredContinuation(*result) for result in results]
        if not metrics.has_tokens(scores):
            self.config.metadata["window"] = None

    def row_metrics(self, doc: JsonObject, results: Sequence[Sequence[Any]]) -> JsonObject:
        """Return the metrics of one row, by name.

        Args:
            doc: The document of the row.
            results: The model's response to each choice, with the fields of a `ScoredContinuation`.
        """
        scores = [ScoredContinuation(*result) for result in results]
        protocol = self._corpus.metadata.protocol
        return metrics.row_metrics(doc, scores, protocol, self._error_types)

    def families(self) -> dict[str, Sequence[str]]:
        """Return the error types that the metrics by error type are reported for."""
        prefixes = (metrics.ACCURACY_BY_TYPE, metrics.MARGIN_BY_TYPE)
        return dict.fromkeys(prefixes, self._error_types)


def choice_requests(
    doc: JsonObject, prefix: str, join: Join, window: int | None, **request_fields: Any
) -> list[Instance]:
    """Return one request for each choice of a row, for its log-probability after the prefix.

    Args:
        doc: The document of the row.
        prefix: The text before the choices.
        join: The rule by which the prefix and a choice are joined.
        window: The number of tokens that the model may see at most. None for no limit.
        **request_fields: The fields by which lm_eval's requests name their row.
    """
    instances = []
    for index, choice in enumerate(doc["choices"]):
        context, continuation = join(prefix, choice)
        arguments = (context, continuation, window)
        instances.append(
            Instance(requests.REQUEST_TYPE, doc, arguments, idx=index, **request_fields)
        )
    return instances
