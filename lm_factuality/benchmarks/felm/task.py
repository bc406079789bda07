"""The lm_eval tasks of FELM: the evaluated model is the judge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from judges.templates import Prompts
from lm_factuality.benchmarks.felm import metrics
from lm_factuality.benchmarks.felm.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm.questions import FelmSettings, authors_hash, authors_prompt
from lm_factuality.benchmarks.felm.rows import (
    FELM,
    MODES_WITH_REFERENCES,
    RULES,
    WITHOUT_REFERENCES,
    FelmRow,
    RowClaims,
    provenance,
    read_rows,
    reference_texts,
)
from lm_factuality.ground.settings import read_settings
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.samples import texts
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings


class FelmTask(SuiteTask):
    """Asks the evaluated model which segments (or claims) of an answer hold errors, by a YAML that
    includes ``tasks/felm/_felm.yaml``.

    Samples hold the counts of their response: zeros under the names of other domains, and where it
    is unscored. ``dataset_path`` names a file in FELM's columns. ``metadata`` holds the fields of
    `FelmSettings` and ``data_dir``.
    """

    declared = BENCHMARK
    reads = tuple(field.name for field in fields(FelmSettings))
    passed = ("generation_kwargs", "repeats", "filter_list")
    instructs = True
    problem_key = "problem"

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        stated = {name: metadata[name] for name in self.reads if name in metadata}
        self._settings = read_settings(FelmSettings, stated, f"{config.get('task')}: metadata")
        self._own_data = own_data(config, "JSONL in FELM's columns")
        own = {"output_type": "generate_until", "doc_to_text": "text", "doc_to_target": "index"}
        about: dict[str, str] = {"protocol": self._settings.protocol}
        if self._settings.mode == "doc":  # of a folder the last part of its path
            about["chunk_tokenizer"] = Path(self._settings.chunk_tokenizer).name
        return TaskSettings(own, about)

    def read_documents(self) -> list[JsonObject]:
        """Read the rows, as samples show them, each with the prompt that the model sees."""
        settings, metadata = self._settings, self.config.metadata
        path, metadata["data"] = find_data(self._own_data, FELM, self._data_dir)
        rows = read_rows(path)
        claims = settings.claims_of(rows)
        if claims:
            metadata["claims_from"] = provenance(claims.values())
        texts_of_rows = reference_texts(settings.references, rows)
        self._prompts = Prompts()
        if settings.prompts:
            metadata["prompts"] = "authors"
            metadata["prompt_hashes"] = {"authors": authors_hash(settings.prompts)}
        else:
            used = {f"felm/{unit}_{settings.mode}" for unit in (settings.unit, "segment")}
            metadata["prompt_hashes"] = self._prompts.hashes(used)
        docs = [
            self._document(row, claims.get(row.index), texts_of_rows[row.index]) for row in rows
        ]
        cautions = " ".join(self._cautions(docs, claims))
        if cautions:
            metadata["caution"] = cautions
        return docs

    def _document(
        self, row: FelmRow, claims: RowClaims | None, texts_of_references: tuple[str, ...]
    ) -> JsonObject:
        """Return a row as samples show it.

        Where nothing can be judged, the prompt is the bare question, since lm_eval wants a request
        for every row.
        """
        doc = {
            "index": row.index,
            "domain": row.domain,
            "prompt": row.prompt,
            "segments": list(row.segments),
            "labels": list(row.labels),
            "text": row.prompt,
            "problem": "",
            "mode": "",
            "claims": claims.numbered() if claims else [],
            "owners": claims.owners() if claims else [],
        }
        settings = self._settings
        question = settings.ask(row, claims, texts_of_references)
        if question is None:
            problem = "not in the claims file"
            if claims:
                problem = claims.problem or "none in any segment"
            return doc | {"problem": f"no claims: {problem}"}
        if settings.prompts:
            text = authors_prompt(settings.prompts, row, question, settings)
        else:
            text = self._prompts.render(question.prompt, question.subject)
        return doc | {"text": text, "mode": question.mode}

    def _cautions(
        self, docs: Sequence[Mapping[str, Any]], claims: Mapping[str, RowClaims]
    ) -> Iterator[str]:
        if claims and self._settings.claims == RULES:
            segments = list(chain.from_iterable(row.claims for row in claims.values()))
            share = sum(len(segment) == 1 for segment in segments) / max(1, len(segments))
            yield (
                "The claims are clauses cut by rules, not claims:"
                f" {share:.1%} of the segments are one clause."
                " Extract claims with a judge: lm-factuality claims extract, then --metadata"
                " claims=FILE."
            )
        modes = [doc["mode"] for doc in docs if doc["domain"] not in WITHOUT_REFERENCES]
        lacking = sum(mode not in MODES_WITH_REFERENCES for mode in modes)
        if lacking and self._settings.mode in MODES_WITH_REFERENCES:
            yield (
                f"{lacking} of {len(modes)} rows that should show references show none and are"
                " asked as vanilla (without_references). Fetch the pages: lm-factuality data"
                " fetch-references, then --metadata references=DIR."
            )

    def row_metrics(self, doc: JsonObject, results: Sequence[Any]) -> JsonObject:
        return metrics.row_metrics(
            doc, texts(results), self._settings.protocol, self._settings.mode
        )
