"""The lm_eval tasks of FELM, in which the evaluated model is the judge.

lm_eval creates a `FelmTask` from each YAML in ``tasks/felm``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from judges.templates import Prompts
from lm_factuality.benchmarks.felm.benchmark import BENCHMARK
from lm_factuality.benchmarks.felm.metrics import response_metrics
from lm_factuality.benchmarks.felm.questions import (
    FelmSettings,
    RowQuestion,
    hash_authors_prompts,
    render_authors_prompt,
)
from lm_factuality.benchmarks.felm.rows import (
    FELM,
    MODES_WITH_REFERENCES,
    RULES,
    WITHOUT_REFERENCES,
    FelmRow,
    RowClaims,
    count_claim_sources,
    load_reference_texts,
    read_felm_rows,
)
from lm_factuality.ground.settings import read_settings
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.own_data import find_data, own_data_file
from lm_factuality.harness.samples import flatten_responses
from lm_factuality.harness.schema import RESPONSE_FORMAT, ask_for_json, response_format
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings


class FelmTask(SuiteTask):
    """A task that asks the evaluated model which segments or claims of an answer contain errors.

    Its YAML includes ``tasks/felm/_felm.yaml``. ``dataset_path`` may name a file with FELM's
    columns, and ``metadata`` holds the fields of `FelmSettings` and ``data_dir``.
    """

    declared = BENCHMARK
    metadata_keys = tuple(field.name for field in fields(FelmSettings))
    passed_keys = ("generation_kwargs", "repeats", "filter_list")
    instructs = True
    problem_key = "problem"

    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Read FELM's settings from the YAML, and remember them for `read_documents`.

        Sets ``_settings``, and ``_own_data`` to the user's data file or None.

        Args:
            config: The YAML as lm_eval read it.
            metadata: The metadata of the YAML, together with ``--metadata`` of the command line.

        Returns:
            The config for lm_eval, and the settings of FELM that results files record.

        Raises:
            ConfigError: A setting is wrong, or the file in ``dataset_path`` does not exist.
        """
        # The metadata also have keys of lm_eval and of the base class.
        settings_in_yaml = {name: metadata[name] for name in self.metadata_keys if name in metadata}
        self._settings = read_settings(
            FelmSettings, settings_in_yaml, f"{config.get('task')}: metadata"
        )
        self._own_data = own_data_file(config, "JSONL in FELM's columns")

        lm_eval_config = {
            "output_type": "generate_until",
            "doc_to_text": "text",
            "doc_to_target": "index",
        }
        recorded_settings: dict[str, str] = {"protocol": self._settings.protocol}
        if self._settings.answers == "schema":
            recorded_settings["answers"] = "schema"
        if self._settings.mode == "doc":
            # The tokenizer may be a folder. Only its last part is the same on every machine.
            recorded_settings["chunk_tokenizer"] = Path(self._settings.chunk_tokenizer).name
        return TaskSettings(lm_eval_config, recorded_settings)

    def read_documents(self) -> list[JsonObject]:
        """Make the documents of the task, and record in its metadata how they were made.

        The metadata get ``data``, ``prompt_hashes`` and, where they apply, ``claims_from``,
        ``prompts`` and ``caution``. lm_eval writes them into the results file.

        Returns:
            One document per row of FELM, each with the prompt that the model sees.

        Raises:
            DataError: The rows, the claims or the references cannot be read.
        """
        metadata = self.config.metadata
        path, description = find_data(self._own_data, FELM, self._data_dir)
        metadata["data"] = description
        rows = read_felm_rows(path)

        claims = self._settings.load_claims(rows)
        # Scores depend on who made the claims (rules or a judge), so results name the source.
        if claims:
            metadata["claims_from"] = count_claim_sources(claims.values())

        # The templates are read once, so the recorded hashes are those of the prompts below.
        self._prompts = Prompts()
        self._record_prompt_hashes()

        reference_texts = load_reference_texts(self._settings.references, rows)
        docs = [
            self._make_document(row, claims.get(row.index), reference_texts[row.index])
            for row in rows
        ]

        warnings = (
            self._clause_claims_warning(list(claims.values())),
            self._missing_references_warning(docs),
        )
        caution = " ".join(filter(None, warnings))
        # The base class prints the caution, and reports show it.
        if caution:
            metadata["caution"] = caution
        return docs

    def _record_prompt_hashes(self) -> None:
        """Add the hashes of the prompts to the metadata, so that runs can be compared."""
        metadata = self.config.metadata
        settings = self._settings
        if settings.prompts:
            # The setting is the folder of the authors' prompts, whose path differs from machine to
            # machine. The results say "authors" instead.
            metadata["prompts"] = "authors"
            metadata["prompt_hashes"] = {"authors": hash_authors_prompts(settings.prompts)}
        else:
            # A task by claims asks about math and reasoning by segments. So it has two prompts.
            names = {f"felm/{settings.unit}_{settings.mode}", f"felm/segment_{settings.mode}"}
            metadata["prompt_hashes"] = self._prompts.hashes(names)

    def _make_document(
        self, row: FelmRow, claims: RowClaims | None, reference_texts: tuple[str, ...]
    ) -> JsonObject:
        """Make the document of a row, as lm_eval's samples show it.

        Args:
            row: The row.
            claims: The claims of the row, or None if it has none.
            reference_texts: The documents that the row cites.

        Returns:
            The document. ``text`` is the prompt. If there are no claims to judge, ``problem`` says
            why, and ``text`` is the bare question, since lm_eval sends a request for every row.
        """
        question = self._settings.make_question(row, claims, reference_texts)
        text = row.prompt
        problem = ""
        if question is None:
            problem = f"no claims: {_why_no_claims(claims)}"
        else:
            text = self._render(row, question)
            if self._settings.answers == "schema":
                text = ask_for_json(text, [{"answer": [2, 3]}, {"answer": []}])

        # Samples hold labels and claims, so that a saved run can be scored again. The "owners" are
        # the numbers of the segments that the claims belong to.
        return {
            "index": row.index,
            "domain": row.domain,
            "prompt": row.prompt,
            "segments": list(row.segments),
            "labels": list(row.labels),
            # What the model sees, while "prompt" is the question that was answered.
            "text": text,
            "problem": problem,
            "mode": question.mode if question else "",
            "claims": claims.all_claims() if claims else [],
            "owners": claims.segment_numbers() if claims else [],
        }

    def _render(self, row: FelmRow, question: RowQuestion) -> str:
        """Render the prompt of a question, with the authors' templates or with the suite's."""
        checkout = self._settings.prompts
        if checkout:
            return render_authors_prompt(checkout, row, question, self._settings)
        return self._prompts.render(question.prompt, question.subject)

    def _clause_claims_warning(self, claims_of_rows: Sequence[RowClaims]) -> str:
        """Return a warning if rules cut the claims, and an empty text otherwise.

        Args:
            claims_of_rows: The claims of the rows that are judged by claims.
        """
        if not claims_of_rows or self._settings.claims != RULES:
            return ""
        claims_of_segments = list(
            chain.from_iterable(row_claims.claims for row_claims in claims_of_rows)
        )
        # A segment with one clause is judged as a whole, as in the task by segments.
        num_single = sum(len(claims) == 1 for claims in claims_of_segments)
        share = num_single / max(1, len(claims_of_segments))
        return (
            "The claims are clauses cut by rules, not claims:"
            f" {share:.1%} of the segments are one clause."
            " Extract claims with a judge: lm-factuality claims extract, then --metadata"
            " claims=FILE."
        )

    def _missing_references_warning(self, docs: Sequence[Mapping[str, Any]]) -> str:
        """Return a warning if rows lack the references that prompts should show, or an empty text.

        Args:
            docs: The documents of the task.
        """
        if self._settings.mode not in MODES_WITH_REFERENCES:
            return ""
        # Math and reasoning have no references in any mode, so they are not counted.
        modes = [doc["mode"] for doc in docs if doc["domain"] not in WITHOUT_REFERENCES]
        # A row without references was asked in another mode.
        num_without = sum(mode not in MODES_WITH_REFERENCES for mode in modes)
        if not num_without:
            return ""
        return (
            f"{num_without} of {len(modes)} rows that should show references show none and are"
            " asked as vanilla (without_references). Fetch the pages: lm-factuality data"
            " fetch-references, then --metadata references=DIR."
        )

    def generation(self, doc: JsonObject, ctx: str, number: int, **arguments: Any) -> Instance:
        """Build a request as the base class does, with a JSON schema if answers are to be JSON.

        Args:
            doc: The document of the row.
            ctx: The prompt.
            number: The position of the request among those of the row, from 0.
            **arguments: Further fields of the request.
        """
        request = super().generation(doc, ctx, number, **arguments)
        if self._settings.answers == "schema":
            num_units = len(doc["claims"] or doc["segments"])
            unit = {"type": "integer", "enum": list(range(1, num_units + 1))}
            answer = {"type": "array", "items": unit}
            fields_before_answer = ("thought",) if doc["mode"] == "cot" else ()
            generation_kwargs = request.args[1]
            generation_kwargs[RESPONSE_FORMAT] = response_format(answer, fields_before_answer)
        return request

    def row_metrics(self, doc: JsonObject, results: Sequence[Any]) -> JsonObject:
        """Return what one row adds to each score (see `response_metrics`).

        Args:
            doc: The document of the row.
            results: The model's outputs, nested in lists as lm_eval's filters leave them.
        """
        settings = self._settings
        return response_metrics(doc, flatten_responses(results), settings.protocol, settings.mode)


def _why_no_claims(claims: RowClaims | None) -> str:
    """Say why the answer of a row has no claims to judge.

    Args:
        claims: The claims of the row, or None if the file of claims lacks the row.
    """
    # Rules make claims for every row, so only a file can lack it.
    if claims is None:
        return "not in the claims file"
    return claims.problem or "none in any segment"
