"""The lm_eval task behind every FACTOR YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.factor import metrics
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor.corpus import METADATA_KEYS, parse_corpus
from lm_factuality.benchmarks.factor.joining import DOLA, log_first_join
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import document
from lm_factuality.harness import requests
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings, without_chat


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
    reads = METADATA_KEYS
    # Whether the model is shown prefix and completion as one text.
    joins: ClassVar[bool] = True
    # Of a corpus, doc_to_text and its like are templates over the columns of its table.
    states = ()

    def built(self) -> None:
        """Set what lm_eval's constructor would undo."""
        # Not before: the base class tries the choices of the first row, which may be one that
        # cannot be scored.
        self.config.doc_to_choice = "choices"
        # What lm_eval pads by when several processes share the work.
        self.OUTPUT_TYPE = requests.REQUEST_TYPE

    corpus_of = staticmethod(parse_corpus)

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Return what the YAML says, checked."""
        self._corpus = corpus = self.corpus_of(config)
        return TaskSettings(
            {"output_type": "multiple_choice", "doc_to_text": "prefix", "doc_to_target": "gold"},
            {
                "window": corpus.metadata.window,
                "protocol": corpus.metadata.protocol,
                **corpus.join.about,
            },
        )

    def read_documents(self) -> list[JsonObject]:
        """Return the rows as samples show them."""
        corpus = self._corpus
        loaded = load_corpus(corpus, self._data_dir)
        rows = loaded.usable(corpus.task, "rows")
        if self.joins:
            self.seam = log_first_join(corpus.task, rows, corpus.join)
        self._error_types = sorted({kind for row in rows for kind in row.error_types if kind})
        self.config.metadata["data"] = dict(loaded.provenance)
        # Samples are read by what decided.
        is_dola = corpus.metadata.protocol == DOLA
        return [document(row) | ({"protocol": DOLA} if is_dola else {}) for row in rows]

    def construct_requests(self, doc: JsonObject, ctx: str, **kwargs: Any) -> list[Instance]:
        """Return one request a choice, joined to the prefix by the corpus's rule."""
        join = self._corpus.join
        if kwargs.get("apply_chat_template"):
            # A chat template ends as its model wants it.
            join = replace(join, delimiter="")
        arguments = without_chat(kwargs)
        window = self._corpus.metadata.window
        return [
            Instance(requests.REQUEST_TYPE, doc, (*join(ctx, choice), window), place, **arguments)
            for place, choice in enumerate(doc["choices"])
        ]

    def row_metrics(self, doc: JsonObject, results: Sequence[Sequence[Any]]) -> JsonObject:
        """Return the metrics of a row."""
        scores = [ScoredContinuation(*result) for result in results]
        if not metrics.has_tokens(scores):
            # It counts tokens, so it was not applied.
            self.config.metadata["window"] = None
        protocol = self._corpus.metadata.protocol
        return metrics.row_metrics(doc, scores, protocol, self._error_types)

    def families(self) -> dict[str, Sequence[str]]:
        """Return the error types that scores are by."""
        return dict.fromkeys((metrics.VERSUS, metrics.MARGIN_VERSUS), self._error_types)
