"""The lm_eval task of FELM-gen: the evaluated model answers FELM's prompts, and a judge marks its
answers."""

from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks.felm.rows import FELM, PUBLISHED, read_rows, reference_texts
from lm_factuality.benchmarks.felm_gen.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.suite_task import TaskSettings


class FelmGenTask(JudgedTask):
    """A task by a YAML that includes ``tasks/felm/_felm_gen.yaml``.

    ``dataset_path`` names a file of one's own in FELM's columns. ``metadata`` holds ``judge``,
    ``judge_store``, ``data_dir`` and ``references`` (``published``, or a folder of fetched pages).
    """

    declared = BENCHMARK
    reads = ("references",)
    instructs = True

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        self._references = str(metadata.get("references", PUBLISHED))
        self._own_data = own_data(config, "JSONL in FELM's columns")
        return FELM_GEN, TaskSettings({"doc_to_text": "text", "doc_to_target": "index"}, {})

    def read_documents(self) -> list[JsonObject]:
        """Read the prompts, with the texts of their references for whoever judges the samples."""
        path, self.config.metadata["data"] = find_data(self._own_data, FELM, self._data_dir)
        rows = read_rows(path)
        texts = reference_texts(self._references, rows)
        docs = [
            {
                "index": row.index,
                "domain": row.domain,
                "prompt": row.prompt,
                "text": row.prompt.strip(),
                "reference_texts": list(filter(str.strip, texts[row.index])),
            }
            for row in rows
        ]
        without = sum(not doc["reference_texts"] for doc in docs)
        if without and self._judge and self._judge_config.capabilities.needs_evidence:
            caution = (
                f"{without} of {len(docs)} rows have no references, so judge"
                f" {self._judge_config.name} has no verdict on their answers; a model needs none."
            )
            earlier = self.config.metadata.get("caution")
            self.config.metadata["caution"] = f"{earlier} {caution}" if earlier else caution
        return docs
