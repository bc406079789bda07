"""The lm_eval task behind every perplexity YAML: how likely a model finds the documents a FACTOR benchmark was made from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.errors import refuse
from lm_factuality.factor.documents import load_texts
from lm_factuality.factor.texts import parse_texts
from lm_factuality.harness import rolling
from lm_factuality.harness.stderr import Aggregation
from lm_factuality.harness.suite_task import SuiteTask, warn_of_unusable, without_chat
from lm_factuality.statistics import Outcome, clustered_stderr, mean

rolling.install()


class PerplexityTask(SuiteTask):
    """Perplexity of whole documents, in sliding windows (section 5.3 of the FACTOR paper).

    Built by lm_eval from a YAML that includes ``tasks/factor/_perplexity.yaml``. Metrics: ``perplexity`` (e to the mean
    negative log-probability of a token, over all tokens of all documents), ``byte_perplexity`` and ``bits_per_byte`` (the same
    per UTF-8 byte, which do not depend on the tokenizer), each with a standard error clustered by ``doc_id``; the totals
    ``logprob`` (in nats), ``num_tokens``, ``num_bytes`` and ``num_windows``, over the documents that have a score; ``unscored``
    (number of documents without). The samples hold all of them for each document.

    Raises:
        ConfigError, DataError: on construction, if the YAML or its data cannot be used.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        config = dict(config or {})
        self._corpus = parse_texts(config)
        self._data_dir = (config.get("metadata") or {}).get("data_dir") or data_dir
        window = self._corpus.window
        half = window // 2 if window else None
        own = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "doc_id"}
        super().__init__(config, own, {"window": window, "stride": self._corpus.stride or half})
        self.OUTPUT_TYPE = rolling.REQUEST_TYPE  # what lm_eval pads by when several processes share the work

    def read_documents(self) -> list[dict[str, Any]]:
        loaded = load_texts(self._corpus, self._data_dir)
        refuse(loaded.problems)
        bad = [document for document in loaded.documents if document.problem]
        warn_of_unusable(self.config.task, "documents", bad, len(loaded.documents))
        self.config.metadata["data"] = dict(loaded.provenance)
        return [vars(each) | {"location": Path(each.location).name} for each in loaded.documents]

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int = 0, **kwargs: Any) -> str:
        """Nothing stands before a document: no demonstrations, no system instruction, no chat template."""
        return ""

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """One request a document."""
        # The stride as the YAML gives it: half of a window is half of a smaller one too, where the model has less.
        arguments = (doc["text"], self._corpus.window, self._corpus.stride)
        return [Instance(rolling.REQUEST_TYPE, doc, arguments, 0, **without_chat(kwargs))]

    def process_results(self, doc: dict[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The metrics of one document; nothing stands for what could not be scored."""
        if "bypass" in self._metric_fn_list:  # lm_eval's --predict_only
            return {}
        scored = rolling.ScoredText(*results[0])
        problem = doc["problem"] or scored.problem
        logprob = None if problem else scored.logprob
        size = len(doc["text"].encode("utf-8"))
        metrics: dict[str, Any] = {
            "byte_perplexity": _perplexity(logprob, size, doc["doc_id"]),
            "bits_per_byte": None if logprob is None else Outcome(-logprob / size / math.log(2), doc["doc_id"], size),
            "logprob": logprob,
            "num_bytes": None if logprob is None else size,
            "unscored": problem or None,
        }
        if scored.window is None:
            self.config.metadata["window"] = self.config.metadata["stride"] = None  # they count tokens: not applied
            return metrics
        self.config.metadata["window_used"] = scored.window
        return metrics | {
            "perplexity": _perplexity(logprob, scored.num_tokens, doc["doc_id"]),
            "num_tokens": None if logprob is None else scored.num_tokens,
            "num_windows": None if logprob is None else scored.num_windows,
        }

    def aggregation(self) -> dict[str, Aggregation]:
        """How each metric becomes one number."""
        totals = ("logprob", "num_tokens", "num_bytes", "num_windows")
        return {
            "perplexity": Aggregation(geometric_mean, geometric_stderr),
            "byte_perplexity": Aggregation(geometric_mean, geometric_stderr),
            "bits_per_byte": Aggregation(mean, clustered_stderr),
            **dict.fromkeys(totals, Aggregation(_total)),
            "unscored": Aggregation(lambda reasons: float(sum(reason is not None for reason in reasons))),
        }

    def higher_is_better(self) -> dict[str, bool]:
        return dict.fromkeys(("perplexity", "byte_perplexity", "bits_per_byte", "unscored"), False) | {"logprob": True}


def geometric_mean(perplexities: Sequence[Outcome | None]) -> float:
    """The perplexity of all documents together: e to the weighted mean of the logarithms of theirs."""
    return _exp(mean(_logarithms(perplexities)))


def geometric_stderr(perplexities: Sequence[Outcome | None]) -> float:
    """The standard error of ``geometric_mean`` by the delta method: its value times the clustered standard error of its
    logarithm, a ratio of two sums over documents (total negative log-probability over total tokens or bytes)."""
    logarithms = _logarithms(perplexities)
    return _exp(mean(logarithms)) * clustered_stderr(logarithms)


def _logarithms(perplexities: Sequence[Outcome | None]) -> list[Outcome]:
    return [Outcome(math.log(each), each.cluster, each.weight) for each in perplexities if each is not None]


def _perplexity(logprob: float | None, count: int | None, cluster: str) -> Outcome | None:
    """Of one document, weighing as much as it has tokens or bytes."""
    return None if logprob is None or not count else Outcome(_exp(-logprob / count), cluster, count)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _total(values: Sequence[float | None]) -> float:
    return float(sum(value for value in values if value is not None))
