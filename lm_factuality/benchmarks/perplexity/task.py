"""The lm_eval task of perplexity: how likely a model finds whole documents.

lm_eval creates a `PerplexityTask` from each YAML that includes ``tasks/factor/_perplexity.yaml``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.factor.corpus import read_task_config
from lm_factuality.benchmarks.perplexity.benchmark import BENCHMARK, document_metrics
from lm_factuality.benchmarks.perplexity.documents import TextsYaml, load_documents
from lm_factuality.harness import rolling
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.internals import row_arguments
from lm_factuality.harness.outputs import ScoredText
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings


class PerplexityTask(SuiteTask):
    """A task that scores whole documents in sliding windows (section 5.3 of the FACTOR paper).

    Perplexities are e to the mean negative log-probability of a token, or of a UTF-8 byte, over
    all documents. ``logprob`` is in nats. Totals are over the documents that have a score.

    Raises:
        ConfigError: The YAML cannot be used.
        DataError: Its data cannot be used.
    """

    declared = BENCHMARK
    problem_key = "problem"
    scores_texts = True
    metadata_keys = ("columns", "documents_of", "join", "delimiter", "stride", "window")

    def finish_construction(self) -> None:
        """Set the type of the requests, which lm_eval's constructor would overwrite."""
        # Several processes that share the work pad their requests to this type.
        self.OUTPUT_TYPE = rolling.REQUEST_TYPE

    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Check the YAML of the task, and remember its settings in ``_settings``.

        Args:
            config: The YAML as lm_eval read it.
            metadata: Its metadata with those of the command line, which ``config`` also has.

        Returns:
            The config for lm_eval, and the window and the stride in tokens for the results.

        Raises:
            ConfigError: A setting is wrong.
        """
        self._settings = read_task_config(TextsYaml, config)
        window = self._settings.metadata.window
        stride = self._settings.metadata.stride
        # By default every window repeats half of the one before it as context.
        if stride is None and window is not None:
            stride = window // 2
        lm_eval_config = {
            "output_type": "loglikelihood_rolling",
            "doc_to_text": "",
            "doc_to_target": "doc_id",
        }
        return TaskSettings(lm_eval_config, {"window": window, "stride": stride})

    def read_documents(self) -> list[JsonObject]:
        """Load the documents, and record in the metadata of the task where they came from.

        Returns:
            The documents as lm_eval's samples show them.

        Raises:
            DataError: The data cannot be read.
        """
        loaded = load_documents(self._settings, self._data_dir)
        self.config.metadata["data"] = dict(loaded.provenance)

        docs = []
        for document in loaded.checked_rows(self.config.task, "documents"):
            # The folder is left out, so that samples are the same on every machine.
            location = Path(document.location).name
            docs.append({**vars(document), "location": location})
        return docs

    def fewshot_context(self, doc: JsonObject, num_fewshot: int = 0, **kwargs: Any) -> str:
        """Return an empty context: no demonstration, instruction or chat template comes first."""
        return ""

    def construct_requests(self, doc: JsonObject, ctx: str, **kwargs: Any) -> list[Instance]:
        """Make the only request of a document, which asks for the log-probability of its text.

        Args:
            doc: The document.
            ctx: The context, which is always empty.
            **kwargs: Further arguments of lm_eval for the request.
        """
        metadata = self._settings.metadata
        # Without a stride of its own, a model that holds less than the window advances by half of
        # what it holds. So the stride is not computed before the model is known.
        arguments = (doc["text"], metadata.window, metadata.stride)
        request_fields = row_arguments(self, doc, **kwargs)
        return [Instance(rolling.REQUEST_TYPE, doc, arguments, idx=0, **request_fields)]

    def note_results(self, results: Sequence[Sequence[Any]]) -> None:
        """Record in the task's metadata the window that the model used, as ``window_used``.

        If the model's tokens cannot be counted, neither the ``window`` nor the ``stride`` was
        applied, and both become None.

        Args:
            results: The result of the document's only request: the fields of a `ScoredText`.
        """
        metadata = self.config.metadata
        (scored_text_fields,) = results
        window = ScoredText(*scored_text_fields).window
        if window is None:
            metadata["window"] = None
            metadata["stride"] = None
        else:
            # The window that was asked for is in the metadata already.
            metadata["window_used"] = window

    def row_metrics(self, doc: JsonObject, results: Sequence[Sequence[Any]]) -> JsonObject:
        """Compute the metrics of a document.

        Args:
            doc: The document.
            results: The result of the document's only request: the fields of a `ScoredText`.
        """
        (scored_text_fields,) = results
        return document_metrics(doc, ScoredText(*scored_text_fields))
