"""The lm_eval task of long-form factuality: the evaluated model answers at length, and a judge
verifies its facts."""

from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.factor.corpus import read_yaml
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.benchmarks.longform.benchmark import BENCHMARK, generation
from lm_factuality.benchmarks.longform.rows import (
    Known,
    LongFormMetadata,
    LongFormYaml,
    open_knowledge,
    read_rows,
)
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.suite_task import TaskSettings


class LongFormTask(JudgedTask):
    """By a YAML that includes ``tasks/longform/_longform.yaml``. Its metrics are
    ``metrics.SCORES``; samples hold in ``filtered_resps`` the judge's record. ``metadata``:
    ``judge``, ``judge_store``, ``data_dir``, and those of `LongFormMetadata`. Raises ConfigError,
    DataError: on construction, if the YAML, its data, the knowledge or the judge cannot be used."""

    declared = BENCHMARK
    reads = tuple(LongFormMetadata.model_fields)
    instructs = True
    states = ()  # doc_to_text is a template over the columns of the table

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        task = self._task = read_yaml(LongFormYaml, config)
        self._known: Known = open_knowledge(task.knowledge) if task.knowledge else None
        knowledge = str(task.knowledge) if task.knowledge else None
        long_form = generation({**task.metadata.model_dump(), "knowledge": knowledge})
        about = {
            **long_form.recorded_settings,
            "knowledge_identity": self._known.identity if self._known else None,
        }
        return long_form, TaskSettings({"doc_to_text": "text", "doc_to_target": "index"}, about)

    def read_documents(self) -> list[JsonObject]:
        docs, self.config.metadata["data"] = read_rows(self._task, self._known, self._data_dir)
        return docs

    def families(self) -> dict[str, Sequence[str]]:
        return {"f1_at_": [str(k) for k in self._task.metadata.k[1:]]}
