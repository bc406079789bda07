"""The lm_eval tasks of FELM: the evaluated model is the judge."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judges.templates import Prompts
from lm_factuality.benchmarks.felm import metrics
from lm_factuality.benchmarks.felm import rows as felm_rows
from lm_factuality.benchmarks.felm.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm.questions import WORDS, AuthorsPrompts, Question, Questioner
from lm_factuality.benchmarks.felm.rows import (
    MODES_WITH_REFERENCES,
    PUBLISHED,
    WITHOUT_REFERENCES,
    FelmRow,
    RowClaims,
)
from lm_factuality.benchmarks.felm.verdicts import PROTOCOLS
from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness.own_data import find_data, own_data
from lm_factuality.harness.suite_task import Settings, SuiteTask


class FelmTask(SuiteTask):
    """Asks the evaluated model which segments (or claims) of an answer hold errors, by a YAML that
    includes ``tasks/felm/_felm.yaml``. Samples hold the counts of their response: zeros under the
    names of other domains, and where it is unscored.

    ``metadata``: ``unit`` (segment, claim), ``mode`` (vanilla, cot, link, doc), ``protocol``
    (paper, code), ``claims`` (``rules`` or a file of ``lm-factuality claims extract``), ``prompts``
    (a checkout of the authors' repository), ``references`` (``published`` or a folder of fetched
    ones), ``chunk_tokenizer`` (``words``, ``tiktoken:ENCODING``, a fast tokenizer), ``data_dir``.
    ``dataset_path`` names a file in FELM's columns. Raises ConfigError, DataError: on construction,
    if the YAML or its data cannot be used."""

    declared = BENCHMARK
    reads = ("protocol", "unit", "mode", "chunk_tokenizer", "claims", "prompts", "references")

    passed = ("generation_kwargs", "repeats", "filter_list")
    instructs = True
    problem_key = "problem"

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
        self._protocol = str(metadata.get("protocol", "paper"))
        if self._protocol not in PROTOCOLS:
            raise ConfigError(
                f"{config.get('task')}: protocol {self._protocol!r}, expected"
                f" {' or '.join(PROTOCOLS)}"
            )
        unit, mode = str(metadata.get("unit", "segment")), str(metadata.get("mode", "vanilla"))
        tokenizer = str(metadata.get("chunk_tokenizer", WORDS))
        self._questioner = Questioner(unit, mode, self._protocol, tokenizer)
        self._claims, self._checkout = str(metadata.get("claims", "rules")), metadata.get("prompts")
        self._references = str(metadata.get("references", PUBLISHED))
        self._own_data = own_data(config, "JSONL in FELM's columns")
        own = {"output_type": "generate_until", "doc_to_text": "text", "doc_to_target": "index"}
        about = (
            {"chunk_tokenizer": Path(tokenizer).name} if mode == "doc" else {}
        )  # of a folder the last part of its path
        return Settings(own, {"protocol": self._protocol, **about})

    def read_documents(self) -> list[dict[str, Any]]:
        path, self.config.metadata["data"] = find_data(
            self._own_data, felm_rows.FELM, self._data_dir
        )
        rows = felm_rows.read_rows(path)
        judged = [row for row in rows if self._questioner.unit_of(row) == "claim"]
        if self._claims == "rules":
            claims = {row.index: felm_rows.split_claims(row) for row in judged}
        else:
            found = (
                felm_rows.read_claims(Path(self._claims), rows)
                if self._questioner.unit == "claim"
                else {}
            )
            claims = {row.index: found[row.index] for row in judged if row.index in found}
        if claims:
            self.config.metadata["claims_from"] = felm_rows.provenance(claims.values())
        render, texts = self._renderer(), felm_rows.reference_texts(self._references, rows)
        docs = [self._document(row, claims.get(row.index), render, texts(row)) for row in rows]
        if caution := " ".join(self._cautions(docs, claims)):
            self.config.metadata["caution"] = caution
        return docs

    def _cautions(
        self, docs: Sequence[Mapping[str, Any]], claims: Mapping[str, RowClaims]
    ) -> Iterator[str]:
        mode = self._questioner.mode
        if claims and self._claims == "rules":
            numbers = [len(segment) for each in claims.values() for segment in each.claims]
            yield (
                "The claims are clauses cut by rules, not claims:"
                f" {numbers.count(1) / max(1, len(numbers)):.1%} of the segments are one clause."
                " Extract claims with a judge: lm-factuality claims extract, then --metadata"
                " claims=FILE."
            )
        due = [doc for doc in docs if doc["domain"] not in WITHOUT_REFERENCES]
        if mode in MODES_WITH_REFERENCES and (
            lacking := sum(doc["mode"] not in MODES_WITH_REFERENCES for doc in due)
        ):
            yield (
                f"{lacking} of {len(due)} rows that should show references show none and are asked"
                " as vanilla (without_references). Fetch the pages: lm-factuality data"
                " fetch-references, then --metadata references=DIR."
            )

    def _document(
        self,
        row: FelmRow,
        claims: RowClaims | None,
        render: Callable[[FelmRow, Question], str],
        texts: tuple[str, ...],
    ) -> dict[str, Any]:
        """A row as the samples show it, with the prompt that the model sees: the bare question
        where nothing can be judged, since lm_eval wants a request for every row. ``claims`` are
        none of rows that are judged by segments."""
        problem = ""
        if self._questioner.unit_of(row) == "claim" and (
            claims is None or claims.problem or not claims.numbered()
        ):
            problem = (
                "no claims:"
                f" {claims.problem or 'none in any segment' if claims else 'not in the claims file'}"  # noqa: E501
            )
        question = None if problem else self._questioner.ask(row, claims, texts)
        return {
            **{"index": row.index, "domain": row.domain, "prompt": row.prompt},
            "segments": list(row.segments),
            "labels": list(row.labels),
            "text": render(row, question) if question else row.prompt,
            "problem": problem,
            "mode": question.mode if question else "",
            "claims": claims.numbered() if claims else [],
            "owners": claims.owners() if claims else [],
        }

    def _renderer(self) -> Callable[[FelmRow, Question], str]:
        if self._checkout:
            authors = AuthorsPrompts(Path(str(self._checkout)))
            self.config.metadata["prompts"] = "authors"
            self.config.metadata["prompt_hashes"] = {"authors": authors.hash()}
            return authors.render
        prompts = Prompts()
        used = f"felm/{self._questioner.unit}_{self._questioner.mode}"
        self.config.metadata["prompt_hashes"] = prompts.hashes(
            {used, used.replace("claim_", "segment_")}
        )
        return lambda row, question: prompts.render(question.prompt, question.subject)

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        return metrics.row_metrics(doc, results, self._protocol, self._questioner.mode)
