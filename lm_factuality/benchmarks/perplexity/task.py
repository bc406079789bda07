"""The lm_eval task behind every perplexity YAML: how likely a model finds the documents a FACTOR
benchmark was made from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.perplexity.benchmark import BENCHMARK, row_metrics
from lm_factuality.benchmarks.perplexity.documents import load_texts, parse_texts, text_suspicions
from lm_factuality.harness import rolling
from lm_factuality.harness.outputs import ScoredText
from lm_factuality.harness.suite_task import Report, Settings, SuiteTask, shortened, without_chat


class PerplexityTask(SuiteTask):
    """Perplexity of whole documents, in sliding windows (section 5.3 of the FACTOR paper), by a
    YAML that includes ``tasks/factor/_perplexity.yaml``. Perplexities are e to the mean negative
    log-probability of a token, or of a UTF-8 byte, over all documents; ``logprob`` is in nats, and
    totals are over the documents that have a score. Raises ConfigError, DataError: on construction,
    if the YAML or its data cannot be used."""

    declared = BENCHMARK
    reads = ("columns", "documents_of", "join", "delimiter", "stride", "window")

    def built(self) -> None:
        self.OUTPUT_TYPE = (
            rolling.REQUEST_TYPE
        )  # what lm_eval pads by when several processes share the work

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
        self._corpus = parse_texts(config)
        window = self._corpus.table.window
        half = window // 2 if window else None
        own = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "doc_id"}
        return Settings(own, {"window": window, "stride": self._corpus.stride or half})

    @classmethod
    def check(cls, target: str, config: Mapping[str, Any], data_dir: str | None) -> Report:
        """Every document that cannot be scored or should not be trusted; the example is the
        beginning of the first."""
        loaded = load_texts(parse_texts(config), data_dir)
        problems = loaded.all_problems(target, text_suspicions(loaded.rows))
        count = len(loaded.rows)
        return Report(target, problems, count, count, (("", shortened(loaded.rows[0].text)),))

    def read_documents(self) -> list[dict[str, Any]]:
        loaded = load_texts(self._corpus, self._data_dir)
        self.config.metadata["data"] = dict(loaded.provenance)
        documents = loaded.usable(self.config.task, "documents")
        return [vars(each) | {"location": Path(each.location).name} for each in documents]

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int = 0, **kwargs: Any) -> str:
        """Nothing stands before a document: no demonstrations, no system instruction, no chat
        template."""
        return ""

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        # The stride as the YAML gives it: half of a window is half of a smaller one too, where the
        # model has less.
        arguments = (doc["text"], self._corpus.table.window, self._corpus.stride)
        return [Instance(rolling.REQUEST_TYPE, doc, arguments, 0, **without_chat(kwargs))]

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
        scored = ScoredText(*results[0])
        if scored.window is None:
            self.config.metadata["window"] = self.config.metadata["stride"] = (
                None  # they count tokens: not applied
            )
        else:
            self.config.metadata["window_used"] = scored.window
        return row_metrics(doc, scored)
