"""The lm_eval task of FELM-gen: the evaluated model answers FELM's prompts, and a judge marks them.

lm_eval creates a `FelmGenTask` from each YAML that includes ``tasks/felm/_felm_gen.yaml``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.felm.rows import (
    FELM,
    PUBLISHED,
    load_reference_texts,
    read_felm_rows,
)
from lm_factuality.benchmarks.felm_gen.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data_file
from lm_factuality.harness.suite_task import TaskSettings


class FelmGenTask(JudgedTask):
    """A task in which the evaluated model answers FELM's prompts and a judge marks the answers.

    ``dataset_path`` may name a file with FELM's columns. ``metadata`` holds ``judge``,
    ``judge_store``, ``data_dir`` and ``references`` (``published``, or a folder of fetched pages).
    """

    declared = BENCHMARK
    metadata_keys = ("references",)
    instructs = True

    def configure_judging(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        """Return the method, and store the data file and the references that the YAML names.

        `read_documents` uses what is stored.

        Args:
            config: The YAML as lm_eval read it.
            metadata: The metadata of the YAML, together with ``--metadata`` of the command line.

        Returns:
            How the judge marks answers, and the config for lm_eval.

        Raises:
            ConfigError: The file in ``dataset_path`` does not exist.
        """
        self._references = str(metadata.get("references", PUBLISHED))
        self._own_data = own_data_file(config, "JSONL in FELM's columns")
        # The base class adds what results say about the judge.
        lm_eval_config = {"doc_to_text": "text", "doc_to_target": "index"}
        return FELM_GEN, TaskSettings(lm_eval_config, {})

    def read_documents(self) -> list[JsonObject]:
        """Read FELM's prompts and the texts of their references, and record which file was read.

        The metadata of the task get ``data`` and, if the judge lacks references, a ``caution``.

        Returns:
            One document per row. The references are in it so that a judge finds them in samples.

        Raises:
            DataError: The rows or the references cannot be read.
        """
        path, description = find_data(self._own_data, FELM, self._data_dir)
        self.config.metadata["data"] = description
        rows = read_felm_rows(path)
        reference_texts = load_reference_texts(self._references, rows)

        docs = []
        for row in rows:
            # Blank pages would leave the judge without evidence, so they count as missing.
            texts = [text for text in reference_texts[row.index] if text.strip()]
            docs.append(
                {
                    "index": row.index,
                    "domain": row.domain,
                    # What FELM's annotators saw, and what the model is asked.
                    "prompt": row.prompt,
                    "text": row.prompt.strip(),
                    "reference_texts": texts,
                }
            )
        self._add_caution_about_references(docs)
        return docs

    def _add_caution_about_references(self, docs: Sequence[JsonObject]) -> None:
        """Add a caution to the metadata if the judge needs references that rows do not have.

        Judges such as classifiers compare answers with references. A language model as the judge
        also marks answers without any.

        Args:
            docs: The documents of the task.
        """
        num_without = sum(not doc["reference_texts"] for doc in docs)
        # A run with --predict_only need not name a judge.
        if not num_without or not self._judge_name:
            return
        judge = self._judge_config
        if not judge.capabilities.needs_evidence:
            return
        caution = (
            f"{num_without} of {len(docs)} rows have no references, so judge"
            f" {judge.name} has no verdict on their answers; a model needs none."
        )
        # The base class may have added a caution about the judge itself.
        metadata = self.config.metadata
        metadata["caution"] = f"{metadata.get('caution') or ''} {caution}".strip()
