"""The lm_eval task behind every FACTOR YAML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.errors import refuse
from lm_factuality.factor.corpus import parse_corpus
from lm_factuality.factor.load import load_corpus
from lm_factuality.factor.rows import Row
from lm_factuality.factor.scoring import NORMALISATIONS, RowScore, ScoredContinuation, join, score_row
from lm_factuality.harness import requests
from lm_factuality.harness.stderr import Aggregation
from lm_factuality.harness.suite_task import SuiteTask, warn_of_unusable, without_chat
from lm_factuality.statistics import Outcome, clustered_stderr, mean

requests.install()

_VERSUS = "factor_acc_vs_"


class ChoiceValues(list[float | None]):
    """A value for each choice, as the samples show them; ``of_gold`` is that of the true completion, which the mean is over."""

    def __init__(self, values: Sequence[float | None] = (), gold: int = -1) -> None:
        super().__init__(values)
        self.of_gold = self[gold] if 0 <= gold < len(self) else None


class FactorTask(SuiteTask):
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
        self._data_dir = (config.get("metadata") or {}).get("data_dir") or data_dir
        own = {
            "output_type": "multiple_choice", "doc_to_text": "prefix", "doc_to_target": "gold",
        }  # fmt: skip
        super().__init__(config, own, {"window": self._corpus.window, "protocol": self._corpus.protocol})
        # Not before: the base class tries the choices of the first row, which may be one that cannot be scored.
        self.config.doc_to_choice = "choices"
        self.OUTPUT_TYPE = requests.REQUEST_TYPE  # what lm_eval pads by when several processes share the work

    def read_documents(self) -> list[dict[str, Any]]:
        loaded = load_corpus(self._corpus, self._data_dir)
        refuse(loaded.problems)
        warn_of_unusable(self._corpus.task, "rows", [row for row in loaded.rows if row.problem], len(loaded.rows))
        self._error_types = tuple(sorted({kind for row in loaded.rows for kind in row.error_types if kind}))
        self.config.metadata["data"] = dict(loaded.provenance)
        return [_document(row) for row in loaded.rows]

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """One request a choice, joined to the prefix as the authors' script does."""
        return [
            Instance(
                requests.REQUEST_TYPE, doc, (*join(ctx, choice), self._corpus.window), index, **without_chat(kwargs)
            )
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


def _document(row: Row) -> dict[str, Any]:
    """A row as lm_eval's samples show it: the same on every machine, so without the folder its file lies in."""
    in_range = 0 <= row.gold < len(row.choices)
    return vars(row) | {
        "location": Path(row.location).name, "choices": list(row.choices), "error_types": list(row.error_types),
        "gold": row.gold if in_range else -1,
    }  # fmt: skip


def _plain_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
