"""Capitals: does a model go on with the capital of a country?

A benchmark in one file, as another package would bring it; ``docs/add_a_benchmark.md`` goes through
it step by step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    Benchmark,
    Recount,
    Row,
    Rows,
    Sample,
    Score,
    Scoring,
    bounds_of,
)
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import blob_id
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.own_data import own_data
from lm_factuality.harness.samples import texts
from lm_factuality.harness.suite_task import Settings, SuiteTask
from lm_factuality.scores.statistics import MEAN, Aggregation, Outcome, how_many

# 1. Scores: how each becomes one number, what kind of number it is, what tables call it.
CAPITAL_ACC = Score(
    "capital_acc", MEAN, ACCURACY, "Accuracy", note="the answer begins with the capital"
)
SCORES = (
    CAPITAL_ACC,
    *CAPITAL_ACC.bounds(),
    Score("unscored", Aggregation(how_many), higher=False),
)


def row_metrics(doc: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """What a row adds to each score. An empty answer is unscored: neither right nor wrong."""
    said = answer.strip()
    worst = Outcome(said.startswith(doc["capital"]), doc["country"])
    best = worst if said else Outcome(1, doc["country"])
    return {
        "capital_acc": worst if said else None,
        **bounds_of("capital_acc", worst, best),
        "unscored": None if said else "empty answer",
    }


# 2. Scores found again out of lm_eval's samples: what to keep of a sample, and how its row is
# scored.
def keep(sample: Sample) -> Row:
    """The row and the answer."""
    (answer,) = texts(sample["filtered_resps"])
    return {"doc": {key: sample["doc"][key] for key in ("country", "capital")}, "answer": answer}


def recount(task: TaskResult, rows: Rows) -> Recount:
    """The same for all tasks."""
    return Recount(lambda row: row_metrics(row["doc"], row["answer"]))


# 3. The declaration.
BENCHMARK = Benchmark(
    kind="capitals",
    title="Capitals",
    scoring=Scoring(
        headlines=("capital_acc",),
        scores=SCORES,
        keep=keep,
        recount=recount,
    ),
)


# 4. The task of lm_eval that a YAML names.
class CapitalsTask(SuiteTask):
    """Generates from ``The capital of COUNTRY is`` and reads the answer."""

    declared = BENCHMARK

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
        self._path = own_data(config, "JSONL with country and capital")
        return Settings(
            {"output_type": "generate_until", "doc_to_text": "text", "doc_to_target": "capital"}, {}
        )

    def read_documents(self) -> list[dict[str, Any]]:
        if self._path is None:
            raise DataError(
                f"{self.config.task}: dataset_path is missing; name a JSONL file with country and capital"
            )
        self.config.metadata["data"] = {"file": self._path.name, "git_blob": blob_id(self._path)}
        rows = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
        return [{**row, "text": f"The capital of {row['country']} is"} for row in rows]

    def row_metrics(self, doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
        return row_metrics(doc, results[0])
