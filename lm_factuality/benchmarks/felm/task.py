"""The lm_eval tasks of FELM: the evaluated model is the judge."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judges.templates import Prompts
from lm_factuality.benchmarks.felm import metrics
from lm_factuality.benchmarks.felm import rows as felm_rows
from lm_factuality.benchmarks.felm.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm.questions import WORDS, AuthorsPrompts, Questioner
from lm_factuality.benchmarks.felm.rows import (
    MODES_WITH_REFERENCES,
    PUBLISHED,
    WITHOUT_REFERENCES,
    FelmRow,
    RowClaims,
)
from lm_factuality.benchmarks.felm.verdicts import PROTOCOLS
from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.samples import texts
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings


class FelmTask(SuiteTask):
    """Asks the evaluated model which segments (or claims) of an answer hold errors, by a YAML that
    includes ``tasks/felm/_felm.yaml``.

    Samples hold the counts of their response: zeros under the names of other domains, and where it
    is unscored. ``dataset_path`` names a file in FELM's columns. ``metadata``: ``unit`` (segment,
    claim), ``mode`` (vanilla, cot, link, doc), ``protocol`` (paper, code), ``claims`` (``rules`` or
    a file of ``lm-factuality claims extract``), ``prompts`` (a checkout of the authors'
    repository), ``references`` (``published`` or a folder of fetched ones), ``chunk_tokenizer``
    (``words``, ``tiktoken:ENCODING``, a fast tokenizer), ``data_dir``.
    """

    declared = BENCHMARK
    reads = ("protocol", "unit", "mode", "chunk_tokenizer", "claims", "prompts", "references")

    passed = ("generation_kwargs", "repeats", "filter_list")
    instructs = True
    problem_key = "problem"

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        protocol = str(metadata.get("protocol", "paper"))
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"{config.get('task')}: protocol {protocol!r}, expected {' or '.join(PROTOCOLS)}"
            )
        self._questioner = Questioner(
            str(metadata.get("unit", "segment")),
            str(metadata.get("mode", "vanilla")),
            protocol,
            str(metadata.get("chunk_tokenizer", WORDS)),
        )
        self._claims = str(metadata.get("claims", "rules"))
        self._checkout = metadata.get("prompts")
        self._references = str(metadata.get("references", PUBLISHED))
        self._own_data = own_data(config, "JSONL in FELM's columns")
        own = {"output_type": "generate_until", "doc_to_text": "text", "doc_to_target": "index"}
        about = {"protocol": protocol}
        if self._questioner.mode == "doc":  # of a folder the last part of its path
            about["chunk_tokenizer"] = Path(self._questioner.chunk_tokenizer).name
        return TaskSettings(own, about)

    def read_documents(self) -> list[JsonObject]:
        """Read the rows, as samples show them, each with the prompt that the model sees."""
        path, self.config.metadata["data"] = find_data(
            self._own_data, felm_rows.FELM, self._data_dir
        )
        rows = felm_rows.read_rows(path)
        claims = self._read_claims(rows)
        if claims:
            self.config.metadata["claims_from"] = felm_rows.provenance(claims.values())
        reference_texts = felm_rows.reference_texts(self._references, rows)
        self._open_prompts()
        docs = [self._document(row, claims.get(row.index), reference_texts(row)) for row in rows]
        if cautions := " ".join(self._cautions(docs, claims)):
            self.config.metadata["caution"] = cautions
        return docs

    def _read_claims(self, rows: Sequence[FelmRow]) -> dict[str, RowClaims]:
        """Return the claims of the rows that are judged by claims, as far as there are any."""
        judged = [row for row in rows if self._questioner.unit_of(row) == "claim"]
        if self._claims == "rules":
            return {row.index: felm_rows.split_claims(row) for row in judged}
        if not judged:
            return {}
        claims = felm_rows.read_claims(Path(self._claims), rows)
        return {row.index: claims[row.index] for row in judged if row.index in claims}

    def _open_prompts(self) -> None:
        """Find the prompts, and state their hashes."""
        self._authors = AuthorsPrompts(Path(str(self._checkout))) if self._checkout else None
        if self._authors:
            self.config.metadata["prompts"] = "authors"
            self.config.metadata["prompt_hashes"] = {"authors": self._authors.hash()}
            return
        self._prompts = Prompts()
        used = {
            f"felm/{unit}_{self._questioner.mode}" for unit in (self._questioner.unit, "segment")
        }
        self.config.metadata["prompt_hashes"] = self._prompts.hashes(used)

    def _document(
        self, row: FelmRow, claims: RowClaims | None, reference_texts: tuple[str, ...]
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
        is_claim = self._questioner.unit_of(row) == "claim"
        if is_claim and (claims is None or claims.problem or not doc["claims"]):
            problem = (
                claims.problem or "none in any segment" if claims else "not in the claims file"
            )
            return doc | {"problem": f"no claims: {problem}"}
        question = self._questioner.ask(row, claims, reference_texts)
        if self._authors:
            text = self._authors.render(row, question)
        else:
            text = self._prompts.render(question.prompt, question.subject)
        return doc | {"text": text, "mode": question.mode}

    def _cautions(
        self, docs: Sequence[Mapping[str, Any]], claims: Mapping[str, RowClaims]
    ) -> Iterator[str]:
        if claims and self._claims == "rules":
            segments = [texts for row_claims in claims.values() for texts in row_claims.claims]
            share = sum(len(texts) == 1 for texts in segments) / max(1, len(segments))
            yield (
                "The claims are clauses cut by rules, not claims:"
                f" {share:.1%} of the segments are one clause."
                " Extract claims with a judge: lm-factuality claims extract, then --metadata"
                " claims=FILE."
            )
        due = [doc["mode"] for doc in docs if doc["domain"] not in WITHOUT_REFERENCES]
        lacking = sum(mode not in MODES_WITH_REFERENCES for mode in due)
        if lacking and self._questioner.mode in MODES_WITH_REFERENCES:
            yield (
                f"{lacking} of {len(due)} rows that should show references show none and are asked"
                " as vanilla (without_references). Fetch the pages: lm-factuality data"
                " fetch-references, then --metadata references=DIR."
            )

    def row_metrics(self, doc: JsonObject, results: Sequence[Any]) -> JsonObject:
        protocol, mode = self._questioner.protocol, self._questioner.mode
        return metrics.row_metrics(doc, texts(results), protocol, mode)
