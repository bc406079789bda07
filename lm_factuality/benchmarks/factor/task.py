"""The lm_eval task behind every FACTOR YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.factor import metrics
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor.corpus import METADATA_KEYS, parse_corpus
from lm_factuality.benchmarks.factor.joining import first_seam, odd_seams, tell_seam, tokenizer_of
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import document, spacing_leak, suspicions
from lm_factuality.harness import requests
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.suite_task import Report, Settings, SuiteTask, build, without_chat


class FactorTask(SuiteTask):
    """A multiple-choice task scored by mean log-probability per token (equation 1), by a YAML that
    includes ``tasks/factor/_factor.yaml``. Its metrics are ``metrics.SCORES``, with standard errors
    clustered by ``doc_id``; the samples hold ``factor_mean_logprob`` and ``factor_num_tokens`` of
    each choice. Raises ConfigError, DataError: on construction, if the YAML or its data cannot be
    used."""

    declared = BENCHMARK
    reads = METADATA_KEYS

    joins: ClassVar[bool] = True  # whether the model is shown prefix and completion as one text
    states = ()  # of a corpus, doc_to_text and its like are templates over the columns of its table

    def built(self) -> None:
        # Not before: the base class tries the choices of the first row, which may be one that
        # cannot be scored.
        self.config.doc_to_choice = "choices"
        self.OUTPUT_TYPE = (
            requests.REQUEST_TYPE
        )  # what lm_eval pads by when several processes share the work

    corpus_of = staticmethod(parse_corpus)

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
        self._corpus = self.corpus_of(config)
        own = {"output_type": "multiple_choice", "doc_to_text": "prefix", "doc_to_target": "gold"}
        corpus = self._corpus
        return Settings(
            own, {"window": corpus.window, "protocol": corpus.protocol, **corpus.join.about}
        )

    @classmethod
    def check(cls, target: str, config: Mapping[str, Any], data_dir: str | None) -> Report:
        """Every row that cannot be scored or should not be trusted; the example has a request for
        each choice of the first."""
        corpus = cls.corpus_of(config)
        loaded = load_corpus(corpus, data_dir)
        rows = loaded.rows
        encode = tokenizer_of((config.get("metadata") or {}).get("tokenizer"))
        leaks = ((target, what) for what in spacing_leak(rows))
        odd = odd_seams(rows, corpus.join, encode) if cls.joins else ()
        problems = loaded.all_problems(target, [*suspicions(rows), *odd, *leaks])
        first = [] if loaded.problems else build(cls, config, data_dir, limit=1).instances
        example = tuple(
            (each.args[0], each.args[1] if isinstance(each.args[1], str) else "") for each in first
        )
        seam = first_seam(rows, corpus.join) if cls.joins else ""
        return Report(
            target, problems, len(rows), sum(len(row.choices) for row in rows), example, seam
        )

    def read_documents(self) -> list[dict[str, Any]]:
        loaded = load_corpus(self._corpus, self._data_dir)
        rows = loaded.usable(self._corpus.task, "rows")
        if self.joins:
            tell_seam(self._corpus.task, rows, self._corpus.join)
        self._error_types = tuple(
            sorted({kind for row in rows for kind in row.error_types if kind})
        )
        self.config.metadata["data"] = dict(loaded.provenance)
        protocol = (
            {"protocol": "dola"} if self._corpus.protocol == "dola" else {}
        )  # samples are read by what decided
        return [document(row) | protocol for row in rows]

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """One request a choice, joined to the prefix by the corpus's rule; a chat template ends as
        its model wants it."""
        join, window = self._corpus.join, self._corpus.window
        if kwargs.get("apply_chat_template"):
            join = replace(join, delimiter="")
        texts, others = (
            enumerate((*join(ctx, choice), window) for choice in doc["choices"]),
            without_chat(kwargs),
        )
        return [
            Instance(requests.REQUEST_TYPE, doc, each, place, **others) for place, each in texts
        ]

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
        scores = [ScoredContinuation(*result) for result in results]
        if not metrics.has_tokens(scores):
            self.config.metadata["window"] = None  # it counts tokens, so it was not applied
        return metrics.row_metrics(doc, scores, self._corpus.protocol, self._error_types)

    def families(self) -> dict[str, Sequence[str]]:
        return dict.fromkeys((metrics.VERSUS, metrics.MARGIN_VERSUS), self._error_types)
