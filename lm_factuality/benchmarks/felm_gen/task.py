"""The lm_eval task of FELM-gen: the evaluated model answers FELM's prompts, and a judge marks its
answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.felm.rows import FELM, PUBLISHED, read_rows, reference_texts
from lm_factuality.benchmarks.felm_gen.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN, row_metrics
from lm_factuality.harness.generation import Generation
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.suite_task import Settings


class FelmGenTask(JudgedTask):
    """By a YAML that includes ``tasks/felm/_felm_gen.yaml``. Samples hold the counts of their
    response, and in ``filtered_resps`` the judge's record (see ``judging``). ``metadata``:
    ``judge``, ``judge_store``, ``references`` (``published``, or a folder of fetched ones),
    ``data_dir``. ``dataset_path`` names a file of one's own in FELM's columns. Raises ConfigError,
    DataError: on construction, if the data or the judge cannot be used."""

    declared = BENCHMARK
    reads = ("references",)
    instructs = True

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[Generation, Settings]:
        self._references = str(metadata.get("references", PUBLISHED))
        self._own_data = own_data(config, "JSONL in FELM's columns")
        return FELM_GEN, Settings({"doc_to_text": "text", "doc_to_target": "index"}, {})

    def read_documents(self) -> list[dict[str, Any]]:
        path, self.config.metadata["data"] = find_data(self._own_data, FELM, self._data_dir)
        rows = read_rows(path)
        texts = reference_texts(self._references, rows)
        docs: list[dict[str, Any]] = []
        for row in rows:
            about = {
                "index": row.index,
                "domain": row.domain,
                "prompt": row.prompt,
                "text": row.prompt.strip(),
            }
            docs.append(
                {**about, "reference_texts": list(filter(str.strip, texts(row)))}
            )  # so that samples can be judged alone
        without = sum(not doc["reference_texts"] for doc in docs)
        if without and self._judge and self._judge_config.capabilities.needs_evidence:
            what = (
                f"{without} of {len(docs)} rows have no references, so judge"
                f" {self._judge_config.name} has no verdict on their"
            )
            caution = self.config.metadata.get("caution")
            self.config.metadata["caution"] = " ".join(
                filter(None, [caution, f"{what} answers; a model needs none."])
            )
        return docs

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        (verdict,) = results
        return row_metrics(verdict)
