"""The lm_eval task of FACTOR in open generation (section 6 of the FACTOR paper).

lm_eval makes a `FactorGenerationTask` for each task of a run. The model continues where a true and
a false completion begin to differ, and a judge marks what it writes.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.benchmarks.factor.corpus import METADATA_KEYS, parse_corpus
from lm_factuality.benchmarks.factor.joining import describe_first_join, log_join
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row, named_error_types, row_document
from lm_factuality.benchmarks.factor.scoring import score_row
from lm_factuality.benchmarks.factor.task import choice_requests
from lm_factuality.benchmarks.factor_generation.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor_generation.facts import (
    CAUTION,
    FIRST,
    NEUTRAL,
    find_minimal_fact,
)
from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION, reads_prompt
from lm_factuality.benchmarks.factor_generation.tally import (
    ACCURACY,
    RowTally,
    sum_tallies,
    why_undefined,
)
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.harness import requests
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.internals import row_arguments
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.suite_task import TaskSettings
from lm_factuality.scores.statistics import Aggregation

logger = logging.getLogger(__name__)

_GENERATION_KEYS = ("output_type", "generation_kwargs", "repeats", "metric_list")
"""The keys of the YAML that a FACTOR task does not have."""


class FactorGenerationTask(JudgedTask):
    """A task that scores the choices of FACTOR's rows, and generates where they begin to differ.

    Its YAML includes ``tasks/factor/_factor_generation.yaml``. The choices are scored as in the
    FACTOR tasks, which tells whether the model is right on pairs of a true and a false completion.
    The model then generates ``repeats`` times from the prefix and the words common to one pair, and
    the judge marks the generations. The documents in samples hold the scores (``mean_logprob`` of
    each choice), so that ``lm-factuality judge`` needs nothing else.

    Its ``metadata`` are those of a FACTOR task, ``contradiction`` (which false completion is taken:
    ``first``, or the first of an error type), ``judge`` and ``judge_store``.

    Raises:
        ConfigError: The YAML or the judge cannot be used.
        DataError: The data or the judge's store cannot be used.
    """

    # lm_eval's requests of this process.
    _instances: list[Instance]

    declared = BENCHMARK
    problem_key = "problem"
    scores_texts = True
    metadata_keys = (*METADATA_KEYS, "contradiction")

    passed_keys = ("generation_kwargs", "repeats")
    # In the YAML of a corpus, doc_to_text and its like are templates over the table's columns.
    restated_keys = ()

    def finish_construction(self) -> None:
        """Set the attributes that lm_eval's constructor would overwrite.

        Also begins to collect the scores of rows and the reasons of unscored generations.
        """
        super().finish_construction()
        # When several processes share the work, lm_eval pads with requests of this type, and not
        # with generations.
        self.OUTPUT_TYPE = requests.REQUEST_TYPE
        self._scores_by_row: dict[int, JsonObject] = {}
        self._reasons: list[str] = []

    def configure_judging(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        """Check the YAML, and remember its settings in ``_corpus`` and ``_contradiction_type``.

        The base class calls this while lm_eval makes the task.

        Args:
            config: The YAML of the task.
            metadata: Its metadata with those of the command line.

        Returns:
            Two parts: the method that asks the judge, and the task's settings. The settings are the
            keys that lm_eval needs, and what results files record.

        Raises:
            ConfigError: The YAML cannot be used.
        """
        factor_config = {key: value for key, value in config.items() if key not in _GENERATION_KEYS}
        corpus = parse_corpus(factor_config)
        if corpus.metadata.protocol == "dola":
            raise ConfigError(
                f"{corpus.where}: the protocol dola only scores choices; open generation has the"
                " protocols paper and code"
            )
        self._corpus = corpus
        self._contradiction_type = str(metadata.get("contradiction", FIRST))

        # Results name every setting that changes a score.
        recorded_metadata = {
            **corpus.recorded_metadata,
            "contradiction": self._contradiction_type,
        }
        # A judge without prompts, such as a classifier, sees a fact only in the row's own words.
        if not reads_prompt(self._judge_config):
            recorded_metadata["caution"] = CAUTION
        lm_eval_settings = {"doc_to_text": "prompt", "doc_to_target": "true"}
        return FACTOR_GENERATION, TaskSettings(lm_eval_settings, recorded_metadata)

    def aggregation(self) -> dict[str, Aggregation]:
        """Return how the rows' values of each metric become one number, by the metric's name.

        The accuracy is not defined, for example, if all generations are neutral. Its function also
        records the reason, since neither samples nor results would show it.
        """
        aggregations = super().aggregation()
        accuracy = aggregations[ACCURACY]

        def compute_accuracy(rows: Sequence[RowTally]) -> float:
            """Return the accuracy, NaN if it is not defined."""
            self._record_why_undefined(rows)
            return accuracy.value(rows)

        return {**aggregations, ACCURACY: replace(accuracy, value=compute_accuracy)}

    def _record_why_undefined(self, rows: Sequence[RowTally]) -> None:
        """If the accuracy is not defined, log the reason and add it to the task's caution.

        Args:
            rows: The tally of each row.
        """
        reason = why_undefined(sum_tallies(rows))
        if reason:
            logger.warning("%s: no accuracy: %s", self.config.task, reason)
            caution = f"{self.config.metadata.get('caution', '')} No accuracy: {reason}."
            self.config.metadata["caution"] = caution.strip()

    def read_documents(self) -> list[JsonObject]:
        """Load the rows of the corpus with their minimal facts, as documents for lm_eval.

        Also records in the task's metadata where the data is from.

        Returns:
            The documents, in the order of the file. Each has the fields of its row and of its
            minimal fact.

        Raises:
            ConfigError: The data has no contradiction of the error type that the YAML names.
            DataError: The data cannot be read, or nothing can be generated for any row.
        """
        corpus = self._corpus
        loaded = load_corpus(corpus, self._data_dir)
        rows = loaded.checked_rows(corpus.task, "rows")
        self._check_contradiction_type(rows)
        log_join(corpus.task, describe_first_join(rows, corpus.join))

        facts = [find_minimal_fact(row, self._contradiction_type, corpus.join) for row in rows]
        # Fail early: the run would generate nothing, and end without any score.
        if all(fact.no_fact for fact in facts):
            raise DataError(
                f"{corpus.task}: no row has a minimal fact, the first because: {facts[0].no_fact}"
            )
        self.config.metadata["data"] = dict(loaded.provenance)
        return [row_document(row) | vars(fact) for row, fact in zip(rows, facts, strict=True)]

    def _check_contradiction_type(self, rows: Sequence[Row]) -> None:
        """Check that the data has the error type that ``metadata.contradiction`` names.

        Raises:
            ConfigError: No row has this error type. The message lists the error types of the data.
        """
        types_of_data = named_error_types(row.error_types for row in rows)
        possible_types = [FIRST, *types_of_data]
        # A misspelt type would leave all rows without a fact.
        if self._contradiction_type not in possible_types:
            listed_types = ", ".join(types_of_data) or "the data names none"
            raise ConfigError(
                f"{self._corpus.where}: metadata.contradiction: found"
                f" {self._contradiction_type!r}, expected {FIRST} or an error type"
                f" ({listed_types}){did_you_mean(self._contradiction_type, possible_types)}"
            )

    def construct_requests(self, doc: JsonObject, ctx: str, **kwargs: Any) -> list[Instance]:
        """Return the requests of a row: a score for each choice, and the generations.

        The scores come first, so that a model that gives none fails before it generates.

        Args:
            doc: The document of the row. Nothing is generated if it has no minimal fact.
            ctx: The prompt of the generations, in the chat template if the run applies one.
            **kwargs: The other arguments of lm_eval's requests.

        Returns:
            The requests. The last one is for all generations.
        """
        corpus = self._corpus
        row_kwargs = row_arguments(self, doc, **kwargs)
        task, doc_id, repeats = row_kwargs["metadata"]
        # Only generations are repeated. A score is the same every time.
        scoring_kwargs = {**row_kwargs, "metadata": (task, doc_id, 1)}
        window = corpus.metadata.window
        instances = choice_requests(doc, doc["prefix"], corpus.join, window, **scoring_kwargs)

        # Without a minimal fact there is nothing to generate.
        num_generations = 0 if doc["no_fact"] else repeats
        generation_kwargs = {**row_kwargs, "metadata": (task, doc_id, num_generations)}
        instances.append(self.generation(doc, ctx, len(instances), **generation_kwargs))
        return instances

    def apply_filters(self) -> None:
        """Score the choices of all rows, and let the judge mark the generations.

        lm_eval calls this when the model has answered all requests. Afterwards ``_instances`` holds
        the generations alone, because samples show no other requests.
        """
        logprobs_by_row = _choice_logprobs_by_row(self._instances)
        self._instances = [
            instance
            for instance in self._instances
            if instance.request_type != requests.REQUEST_TYPE
        ]
        for generation in self._instances:
            logprobs = logprobs_by_row.get(generation.doc_id, ())
            self._add_scores(generation, self._score_choices(generation.doc, logprobs))

        if not self.only_predicts:
            super().apply_filters()
            return
        # Nothing is judged in a run with --predict_only.
        for generation in self._instances:
            generation.filtered_resps["none"] = generation.resps

    def _add_scores(self, generation: Instance, scores: JsonObject) -> None:
        """Keep the scores of a row's choices, and add them to the document that the judge sees.

        Args:
            generation: The request for the generations of the row, which gets a new document. The
                document of the data stays the same for every model.
            scores: The fields to add, as `_score_choices` returns them.
        """
        self._scores_by_row[generation.doc_id] = scores
        generation.doc = generation.doc | scores

    def _score_choices(self, doc: JsonObject, scores: Sequence[ScoredContinuation]) -> JsonObject:
        """Return the scores of a row's choices that its document holds.

        Args:
            doc: The document of the row.
            scores: The log-probability and the number of tokens of each choice.
        """
        protocol = self._corpus.metadata.protocol
        # Choices are scored as in the FACTOR tasks.
        row_score = score_row(scores, doc["choices"], doc["gold"], doc["problem"], protocol)
        return {
            "mean_logprob": list(row_score.mean_logprob),
            "factor_acc": row_score.correct.get("factor_acc"),
        }

    def doc_iterator(self, **kwargs: Any) -> Iterator[tuple[int, JsonObject]]:
        """Iterate over the documents as lm_eval does, with the scores of their choices if known.

        Yields:
            The number and the document of each row.
        """
        for doc_id, doc in super().doc_iterator(**kwargs):
            yield doc_id, doc | self._scores_by_row.get(doc_id, {})

    def note_results(self, results: Sequence[Any]) -> None:
        """Collect the reasons why generations of a row are unscored, for `why_unscored`.

        Args:
            results: The judge's record on the row, alone in a list.
        """
        (record,) = results
        self._reasons += [reason for reason in record["reasons"] if reason]

    def why_unscored(self, values: Sequence[Any]) -> Sequence[str]:
        """Return why generations are unscored, with one reason for each of them.

        Args:
            values: The number of unscored generations of each row, which do not name the reasons.
        """
        return self._reasons

    def higher_is_better(self) -> dict[str, bool]:
        """Return for each metric whether more of it is better.

        A neutral generation is neither good nor bad, but lm_eval knows no third value, so fewer of
        them count as better.
        """
        directions = super().higher_is_better()
        neutral_metrics = [name for name in self.aggregation() if name.startswith(NEUTRAL)]
        return directions | dict.fromkeys(neutral_metrics, False)


def _choice_logprobs_by_row(
    instances: Sequence[Instance],
) -> Mapping[int, Sequence[ScoredContinuation]]:
    """Return the log-probabilities of each row's choices, by the number of the row.

    Args:
        instances: The answered requests of all rows. Those for generations are left out.
    """
    logprobs_by_row: dict[int, list[ScoredContinuation]] = defaultdict(list)
    for instance in instances:
        if instance.request_type == requests.REQUEST_TYPE:
            # Only generations are repeated, so there is one response.
            logprobs_by_row[instance.doc_id].append(ScoredContinuation(*instance.resps[0]))
    return logprobs_by_row
