"""The lm_eval task behind every FACTOR YAML."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from lm_factuality import __version__
from lm_factuality.errors import DataError
from lm_factuality.factor.corpus import YAML_FOLDER, parse_corpus
from lm_factuality.factor.load import load_corpus
from lm_factuality.factor.rows import Row
from lm_factuality.factor.scoring import NORMALISATIONS, RowScore, ScoredContinuation, join, score_row
from lm_factuality.factor.statistics import Outcome, clustered_stderr, mean
from lm_factuality.harness import requests, stderr
from lm_factuality.harness.secrets import without_secrets
from lm_factuality.harness.stderr import Aggregation

logger = logging.getLogger(__name__)

requests.install()
stderr.install()

_VERSUS = "factor_acc_vs_"
_SPLIT = "test"
_SHOWN = 10  # problems of a data file that an error lists


class ChoiceValues(list[float | None]):
    """A value for each choice, as the samples show them; ``of_gold`` is that of the true completion, which the mean is over."""

    def __init__(self, values: Sequence[float | None] = (), gold: int = -1) -> None:
        super().__init__(values)
        self.of_gold = self[gold] if 0 <= gold < len(self) else None


class FactorTask(ConfigurableTask):  # type: ignore[misc]
    """A multiple-choice task scored by mean log-probability per token.

    Built by lm_eval from a YAML that includes ``tasks/factor/_factor.yaml``. Metrics: ``factor_acc`` (equation 1), ``acc``
    (sums), ``acc_bytes`` (per byte), ``factor_acc_vs_TYPE`` (how often the true completion beats a contradiction of that
    error type; chance is a half), each with a standard error clustered by ``doc_id``; ``unscored`` and ``truncated`` (numbers
    of rows); ``factor_acc_worst`` and ``factor_acc_best`` (``factor_acc`` if every unscored row were wrong, or right);
    ``factor_mean_logprob`` (of true completions, in nats a token) and ``factor_num_tokens`` (of all choices), which the
    samples hold for each choice.

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
        self._corpus = parse_corpus(config)
        given: dict[str, Any] = config.get("metadata") or {}
        self._data_dir = given.get("data_dir") or data_dir
        metadata: dict[str, Any] = {"version": 1.0, **given}
        metadata["suite_version"] = __version__
        metadata["window"] = self._corpus.window
        metadata["protocol"] = self._corpus.protocol
        own: dict[str, Any] = {
            "metadata": metadata, "output_type": "multiple_choice", "test_split": _SPLIT, "num_fewshot": 0,
            "doc_to_text": "prefix", "doc_to_target": "gold", "target_delimiter": "", "metric_list": [],
        }  # fmt: skip
        own.update((key, config[key]) for key in ("task", "task_alias", "tag") if key in config)
        super().__init__(config=own)
        # Not before: the base class tries the choices of the first row, which may be one that cannot be scored.
        self.config.doc_to_choice = "choices"
        self.OUTPUT_TYPE = requests.REQUEST_TYPE  # what lm_eval pads by when several processes share the work
        if caution := metadata.get("caution"):
            logger.warning("%s: %s", self.config.task, " ".join(str(caution).split()))

    def download(self, dataset_kwargs: Any = None, **kwargs: Any) -> None:
        """Reads the rows; called by the constructor of the base class."""
        loaded = load_corpus(self._corpus, self._data_dir)
        if loaded.problems:
            shown = [
                *loaded.problems[:_SHOWN],
                *([f"... {len(loaded.problems)} in all"] if loaded.problems[_SHOWN:] else []),
            ]
            raise DataError("\n".join(shown))
        bad = [row for row in loaded.rows if row.problem]
        if bad:
            logger.warning(
                "%s: %d of %d rows cannot be scored, the first at %s: %s; 'lm-factuality validate %s' lists them all",
                self._corpus.task, len(bad), len(loaded.rows), bad[0].location, bad[0].problem, self._corpus.task,
            )  # fmt: skip
        self._error_types = tuple(sorted({kind for row in loaded.rows for kind in row.error_types if kind}))
        self.config.metadata["data"] = dict(loaded.provenance)
        documents = [_document(row) for row in loaded.rows]
        self.dataset = {_SPLIT: datasets.Dataset.from_list(documents)}

    def build_all_requests(self, *, cache_requests: bool = False, **kwargs: Any) -> None:
        """As lm_eval does, but never from its request cache, which does not notice that the data has changed."""
        if cache_requests:
            logger.info("%s: building requests anew, the request cache does not know the data", self.config.task)
        super().build_all_requests(cache_requests=False, **kwargs)

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """One request a choice, joined to the prefix as the authors' script does."""
        for key in ("apply_chat_template", "chat_template"):
            kwargs.pop(key, None)
        return [
            Instance(requests.REQUEST_TYPE, doc, (*join(ctx, choice), self._corpus.window), index, **kwargs)
            for index, choice in enumerate(doc["choices"])
        ]

    def process_results(self, doc: dict[str, Any], results: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The metrics of one row; nothing stands for what could not be scored."""
        if "bypass" in self._metric_fn_list:  # lm_eval's --predict_only
            return {}
        scores = [ScoredContinuation(*result) for result in results]
        row = score_row(scores, doc["choices"], doc["gold"], doc["problem"], self._corpus.protocol)
        has_tokens = all(score.num_tokens is not None for score in scores)
        names = NORMALISATIONS if has_tokens else NORMALISATIONS[1:]
        metrics: dict[str, Any] = {
            name: Outcome(row.correct[name], doc["doc_id"]) if name in row.correct else None for name in names
        }
        if has_tokens:
            metrics |= self._by_error_type(doc, row)
            metrics |= {
                "factor_acc_worst": float(row.correct.get("factor_acc", False)),
                "factor_acc_best": float(row.correct.get("factor_acc", True)),
                "factor_mean_logprob": ChoiceValues(row.mean_logprob, doc["gold"]),
                "factor_num_tokens": list(row.num_tokens),
                "truncated": float(row.truncated),
            }
        else:
            self.config.metadata["window"] = None  # it counts tokens, so it was not applied
        return metrics | {"unscored": row.unscored or None}

    def _by_error_type(self, doc: dict[str, Any], row: RowScore) -> dict[str, Outcome | None]:
        found: dict[str, Outcome | None] = {}
        for kind in self._error_types:
            beaten = [
                won
                for won, each in zip(row.beaten, doc["error_types"], strict=True)
                if each == kind and won is not None
            ]
            share = Outcome(sum(beaten) / len(beaten), doc["doc_id"], len(beaten)) if beaten else None
            found[f"{_VERSUS}{kind}"] = share
        return found

    def aggregation(self) -> dict[str, Aggregation]:
        """How each metric becomes one number."""
        clustered = Aggregation(mean, clustered_stderr)
        return {
            **dict.fromkeys((*NORMALISATIONS, *(f"{_VERSUS}{kind}" for kind in self._error_types)), clustered),
            "factor_acc_worst": Aggregation(_plain_mean),
            "factor_acc_best": Aggregation(_plain_mean),
            "factor_mean_logprob": Aggregation(
                lambda rows: _plain_mean([row.of_gold for row in rows if row.of_gold is not None])
            ),
            "factor_num_tokens": Aggregation(lambda rows: _plain_mean([count for row in rows for count in row])),
            "truncated": Aggregation(lambda rows: float(sum(rows))),
            "unscored": Aggregation(lambda reasons: float(sum(reason is not None for reason in reasons))),
        }

    def higher_is_better(self) -> dict[str, bool]:
        return {
            name: name not in ("truncated", "unscored") for name in self.aggregation() if name != "factor_num_tokens"
        }

    def dump_config(self) -> dict[str, Any]:
        """The config for the results file, without keys and tokens that came with the model's arguments."""
        config: dict[str, Any] = super().dump_config()
        config["metadata"] = without_secrets(config.get("metadata") or {})
        config["metadata"].pop(YAML_FOLDER, None)
        return config


def _document(row: Row) -> dict[str, Any]:
    """A row as lm_eval's samples show it: the same on every machine, so without the folder its file lies in."""
    in_range = 0 <= row.gold < len(row.choices)
    return vars(row) | {
        "location": Path(row.location).name, "choices": list(row.choices), "error_types": list(row.error_types),
        "gold": row.gold if in_range else -1,
    }  # fmt: skip


def _plain_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
