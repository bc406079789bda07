"""The lm_eval task behind every perplexity YAML: how likely a model finds the documents a FACTOR
benchmark was made from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.perplexity.benchmark import BENCHMARK, row_metrics
from lm_factuality.benchmarks.perplexity.documents import load_texts, parse_texts
from lm_factuality.harness import rolling
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ScoredText
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings, without_chat


class PerplexityTask(SuiteTask):
    """Perplexity of whole documents, in sliding windows (section 5.3 of the FACTOR paper).

    Its YAML includes ``tasks/factor/_perplexity.yaml``. Perplexities are e to the mean negative
    log-probability of a token, or of a UTF-8 byte, over all documents. ``logprob`` is in nats, and
    totals are over the documents that have a score.

    Raises:
        ConfigError: The YAML cannot be used.
        DataError: Its data cannot be used.
    """

    declared = BENCHMARK
    problem_key = "problem"
    reads = ("columns", "documents_of", "join", "delimiter", "stride", "window")

    def built(self) -> None:
        """Set what lm_eval's constructor would undo."""
        # What lm_eval pads by when several processes share the work.
        self.OUTPUT_TYPE = rolling.REQUEST_TYPE

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Return what the YAML says, checked."""
        self._yaml = parse_texts(config)
        window = self._yaml.metadata.window
        stride = self._yaml.metadata.stride or (window // 2 if window else None)
        return TaskSettings(
            {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "doc_id"},
            {"window": window, "stride": stride},
        )

    def read_documents(self) -> list[JsonObject]:
        """Return the documents as samples show them."""
        loaded = load_texts(self._yaml, self._data_dir)
        self.config.metadata["data"] = dict(loaded.provenance)
        return [
            vars(document) | {"location": Path(document.location).name}
            for document in loaded.rows_after_warning(self.config.task, "documents")
        ]

    def fewshot_context(self, doc: JsonObject, num_fewshot: int = 0, **kwargs: Any) -> str:
        """Return nothing: no demonstrations, system instruction or chat template comes first."""
        return ""

    def construct_requests(self, doc: JsonObject, ctx: str, **kwargs: Any) -> list[Instance]:
        """Return the request for a document."""
        # The stride as the YAML gives it: half of a window is half of a smaller one too, where the
        # model has less.
        metadata = self._yaml.metadata
        arguments = (doc["text"], metadata.window, metadata.stride)
        return [Instance(rolling.REQUEST_TYPE, doc, arguments, 0, **without_chat(kwargs))]

    def row_metrics(self, doc: JsonObject, results: Sequence[Sequence[Any]]) -> JsonObject:
        """Return the metrics of a document."""
        scored = ScoredText(*results[0])
        if scored.window is None:
            # They count tokens, so they were not applied.
            self.config.metadata["window"] = None
            self.config.metadata["stride"] = None
        else:
            self.config.metadata["window_used"] = scored.window
        return row_metrics(doc, scored)
