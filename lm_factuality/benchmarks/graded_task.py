"""The lm_eval task of benchmarks in which a judge grades each answer by a reference.

The package of a benchmark derives its task from `GradedTask`, and declares the benchmark with
`lm_factuality.benchmarks.graded`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.grading import GradedAnswers
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import read_records, require_text
from lm_factuality.harness.suite_task import TaskSettings


class GradedTask(JudgedTask):
    """The lm_eval task of a graded benchmark, which a subclass names in ``declared``.

    The YAML names the data under ``dataset_path``: a table relative to the YAML, or a dataset of
    the Hub with ``dataset_kwargs`` for its options. ``metadata`` holds ``judge``, ``judge_store``
    and ``protocol``, and under ``rows`` the number of rows that the published data has.
    """

    metadata_keys = ("protocol", "rows")
    instructs = True

    def configure_judging(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        """Store the grading method and the YAML, and return what lm_eval is configured with.

        Args:
            config: The YAML.
            metadata: Its metadata, with those of the command line.
        """
        # lm_eval calls read_documents later, without these arguments.
        self._grading: GradedAnswers = self.declared.judging.make_method(metadata)
        self._data_config = dict(config)
        lm_eval_config = {"doc_to_text": "text", "doc_to_target": "reference"}
        return self._grading, TaskSettings(lm_eval_config, self._grading.recorded_settings)

    def read_documents(self) -> list[JsonObject]:
        """Read the questions and references, and describe the data in the task's metadata.

        Returns:
            A document per row, with the prompt under ``text``.

        Raises:
            DataError: The data cannot be read, a row lacks a text, or rows are missing.
        """
        records, description = read_records(
            self._data_config, "a table with a column of questions and one of answers"
        )
        # Results show the metadata, so that readers see which data was used.
        self.config.metadata["data"] = description
        self._check_row_count(len(records))

        documents = []
        for number, record in enumerate(records):
            # Raises an error that names the row if the cell is empty.
            question = require_text(record, self._grading.question)
            document = {
                "index": str(number),
                "question": question,
                "reference": require_text(record, self._grading.reference),
                "topic": str(record.values.get("topic") or ""),
                "text": question,
            }
            documents.append(document)
        return documents

    def _check_row_count(self, num_rows: int) -> None:
        """Check that the data has as many rows as ``rows`` in the task's metadata says.

        Raises:
            DataError: Rows are missing, or there are too many.
        """
        num_expected = int(self.config.metadata.get("rows") or 0)
        # An incomplete copy of published data would give figures that look published.
        if num_expected and num_rows != num_expected:
            raise DataError(
                f"{self.config.task}: found {num_rows:,} rows, expected {num_expected:,} as"
                " published; name the published data, or leave out metadata.rows for data of your"
                " own"
            )
