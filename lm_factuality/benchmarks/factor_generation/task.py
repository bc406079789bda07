"""The lm_eval task of FACTOR in open generation: the evaluated model goes on where a true and a
false completion part."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.factor.corpus import METADATA_KEYS, parse_corpus
from lm_factuality.benchmarks.factor.joining import log_first_join
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import row_document
from lm_factuality.benchmarks.factor.scoring import score_row
from lm_factuality.benchmarks.factor_generation.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor_generation.facts import (
    CAUTION,
    FIRST,
    find_minimal_fact,
)
from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION, reads_prompt
from lm_factuality.benchmarks.factor_generation.tally import ACCURACY, RowTally, add, why_undefined
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.harness import requests
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.suite_task import TaskSettings, without_chat
from lm_factuality.scores.statistics import Aggregation

logger = logging.getLogger(__name__)

_OWN_KEYS = (
    "output_type",
    "generation_kwargs",
    "repeats",
    "metric_list",
)  # which a FACTOR task does not have


class FactorGenerationTask(JudgedTask):
    """Section 6 of the FACTOR paper, by a YAML that includes
    ``tasks/factor/_factor_generation.yaml``.

    A row's choices are scored as in the FACTOR tasks, which tells whether the model is right on its
    pairs of a true and a false completion; and the model generates ``repeats`` times from the
    prefix and the words common to one pair, which the judge marks. Samples hold what the scores say
    in their ``doc`` (``mean_logprob`` of each choice), all that ``lm-factuality judge`` needs.
    ``metadata``: those of a FACTOR task; ``contradiction`` (``first``, or an error type: which
    false completion is taken); ``judge``, ``judge_store``. Raises ConfigError, DataError: the YAML,
    its data or the judge cannot be used."""

    _instances: list[Instance]  # lm_eval's requests of this process

    declared = BENCHMARK
    problem_key = "problem"
    reads = (*METADATA_KEYS, "contradiction")

    passed = ("generation_kwargs", "repeats")
    states = ()  # of a corpus, doc_to_text and its like are templates over the columns of its table

    def built(self) -> None:
        super().built()
        self.OUTPUT_TYPE = (
            requests.REQUEST_TYPE
        )  # what lm_eval pads by when several processes share the work: no generations

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        self._corpus = parse_corpus(
            {key: value for key, value in config.items() if key not in _OWN_KEYS}
        )
        if self._corpus.metadata.protocol == "dola":
            raise ConfigError(
                f"{self._corpus.where}: protocol dola scores choices; open generation knows paper"
                " and code"
            )
        self._scores: dict[int, JsonObject] = {}
        self._reasons: list[str] = []
        self._choice = str(metadata.get("contradiction", FIRST))
        corpus = self._corpus
        about = {
            "window": corpus.metadata.window,
            "protocol": corpus.metadata.protocol,
            **corpus.join.metadata,
            "contradiction": self._choice,
        }
        if not reads_prompt(self._judge_config):
            about["caution"] = CAUTION
        return FACTOR_GENERATION, TaskSettings(
            {"doc_to_text": "prompt", "doc_to_target": "true"}, about
        )

    def aggregation(self) -> dict[str, Aggregation]:
        """As declared; where there is no accuracy, the task's caution says why."""
        declared = super().aggregation()

        def accuracy(rows: Sequence[RowTally]) -> float:
            reason = why_undefined(add(rows))
            if reason:
                logger.warning("%s: no accuracy: %s", self.config.task, reason)
                self.config.metadata["caution"] = (
                    f"{self.config.metadata.get('caution', '')} No accuracy: {reason}.".strip()
                )
            return declared[ACCURACY].value(rows)

        return {**declared, ACCURACY: replace(declared[ACCURACY], value=accuracy)}

    def read_documents(self) -> list[JsonObject]:
        loaded = load_corpus(self._corpus, self._data_dir)
        rows = loaded.rows_after_warning(self._corpus.task, "rows")
        types = sorted({kind for row in rows for kind in row.error_types if kind})
        if self._choice not in (FIRST, *types):
            known = ", ".join(types) or "the data names none"
            raise ConfigError(
                f"{self._corpus.where}: metadata.contradiction: found {self._choice!r}, expected"
                f" {FIRST} or an error type ({known}){did_you_mean(self._choice, [FIRST, *types])}"
            )
        log_first_join(self._corpus.task, rows, self._corpus.join)
        facts = [find_minimal_fact(row, self._choice, self._corpus.join) for row in rows]
        if all(fact.no_fact for fact in facts):
            raise DataError(
                f"{self._corpus.task}: no row has a minimal fact, the first because:"
                f" {facts[0].no_fact}"
            )
        self.config.metadata["data"] = dict(loaded.provenance)
        return [row_document(row) | vars(fact) for row, fact in zip(rows, facts, strict=True)]

    def construct_requests(self, doc: JsonObject, ctx: str, **kwargs: Any) -> list[Instance]:
        """Build the requests of a row; nothing is generated without a fact.

        The scores come first, so that a model that has none says so before it generates.
        """
        task, doc_id, repeats = kwargs.pop("metadata")
        arguments = without_chat(kwargs)
        built = []
        for place, choice in enumerate(doc["choices"]):
            asked = (*self._corpus.join(doc["prefix"], choice), self._corpus.metadata.window)
            about = (task, doc_id, 1)
            built.append(Instance(requests.REQUEST_TYPE, doc, asked, place, about, **arguments))
        times = 0 if doc["no_fact"] else repeats
        metadata = (task, doc_id, times)
        built.append(self.generation(doc, ctx, len(built), metadata=metadata, **arguments))
        return built

    def apply_filters(self) -> None:
        """Put what the scores say into the documents, and hand the generations to the judge.

        Samples show the generations alone.
        """
        scored: dict[int, list[ScoredContinuation]] = defaultdict(list)
        generations = []
        for instance in self._instances:
            if instance.request_type == requests.REQUEST_TYPE:
                scored[instance.doc_id].append(ScoredContinuation(*instance.resps[0]))
            else:
                generations.append(instance)
        copies = []
        for instance in generations:
            doc = instance.doc
            row = score_row(
                scored[instance.doc_id],
                doc["choices"],
                doc["gold"],
                doc["problem"],
                self._corpus.metadata.protocol,
            )
            scores = {
                "mean_logprob": list(row.mean_logprob),
                "factor_acc": row.correct.get("factor_acc"),
            }
            self._scores[instance.doc_id] = scores
            # The copies share the dictionary of filtered responses; the documents themselves stay
            # the same for every model.
            copies.append(replace(instance, doc=doc | scores))
        self._instances = copies
        if self.only_predicts:
            for instance in self._instances:
                instance.filtered_resps["none"] = instance.resps
        else:
            super().apply_filters()
        self._instances = generations

    def doc_iterator(self, **kwargs: Any) -> Iterator[tuple[int, JsonObject]]:
        """lm_eval's, with the scores once there are any."""
        for doc_id, doc in super().doc_iterator(**kwargs):
            yield doc_id, {**doc, **self._scores.get(doc_id, {})}

    def row_metrics(self, doc: JsonObject, results: Sequence[Any]) -> JsonObject:
        self._reasons += filter(None, results[0]["reasons"])
        return super().row_metrics(doc, results)

    def why_unscored(self, values: Sequence[Any]) -> Sequence[str]:
        """Of generations, of which a row has several and counts those without a mark."""
        return self._reasons

    def higher_is_better(self) -> dict[str, bool]:
        """As declared; that fewer are neither true nor false counts as better in a list that knows
        no third way."""
        return super().higher_is_better() | {
            name: False for name in self.aggregation() if name.startswith("neutral")
        }
