"""The lm_eval task of long-form factuality: a model answers, and a judge verifies its facts.

YAML files name the class `LongFormTask`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.factor.corpus import read_task_config
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.benchmarks.longform.benchmark import BENCHMARK, long_form_method
from lm_factuality.benchmarks.longform.rows import (
    LongFormMetadata,
    LongFormYaml,
    open_knowledge,
    read_prompts,
)
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.suite_task import TaskSettings


class LongFormTask(JudgedTask):
    """A task by a YAML that includes ``tasks/longform/_longform.yaml``.

    ``metadata`` holds the settings of `LongFormMetadata`, ``judge``, ``judge_store`` and
    ``data_dir``. Samples hold the judge's record under ``filtered_resps``.
    """

    declared = BENCHMARK
    metadata_keys = tuple(LongFormMetadata.model_fields)
    instructs = True

    # doc_to_text is a template over the columns of the user's table, so it is not checked.
    restated_keys = ()

    def configure_judging(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        """Store the settings and the knowledge source for `read_documents`, and make the method.

        Args:
            config: The YAML, whose ``metadata`` already include those of the command line.
            metadata: The same metadata. Every task gets them, and this one reads them from
                ``config``.

        Returns:
            The method by which a judge verifies answers, and the settings: those for lm_eval, such
            as the name of the field with the prompt, and those that results record, such as K.

        Raises:
            ConfigError: A setting is wrong.
            DataError: The knowledge source cannot be used.
        """
        self._task = read_task_config(LongFormYaml, config)
        path = self._task.knowledge_path
        self._knowledge = open_knowledge(path) if path else None

        method_settings = self._task.metadata.model_dump()
        # The YAML states the path relative to its folder, which the method does not know.
        method_settings["knowledge"] = str(path) if path else None
        method = long_form_method(method_settings)

        # The method identifies an index only, but facts may also be verified against pages.
        knowledge_identity = self._knowledge.identity if self._knowledge else None
        recorded_settings = {**method.recorded_settings, "knowledge_identity": knowledge_identity}
        # A document has its prompt under "text". lm_eval needs a target, but no score uses it.
        lm_eval_settings = {"doc_to_text": "text", "doc_to_target": "index"}
        return method, TaskSettings(lm_eval_settings, recorded_settings)

    def read_documents(self) -> list[JsonObject]:
        """Read the prompts, and describe the data in the task's metadata.

        Returns:
            The documents, with the prompt under ``text``.

        Raises:
            ConfigError: A column is missing, or a template fails.
            DataError: Rows cannot be used.
        """
        documents, description = read_prompts(self._task, self._knowledge, self._data_dir)
        self.config.metadata["data"] = description
        return documents

    def families(self) -> dict[str, Sequence[str]]:
        """Return the endings of the metrics ``f1_at_*``: every K but the first one."""
        # The F1 at the first K has the fixed name f1_at_k.
        return {"f1_at_": [str(k) for k in self._task.metadata.k[1:]]}
