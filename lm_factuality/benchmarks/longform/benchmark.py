"""Long-form factuality as the rest of the suite knows it: the steps of D-FActScore in the words of
any prompt, its scores out of samples, and its rows in the report. Where entities may be confused
all steps are taken; else a response is about one subject, and a fact is held against the passages
of its document, or those that an index finds."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from lm_factuality.benchmarks.biographies.benchmark import report_detail
from lm_factuality.benchmarks.biographies.generations import (
    DOCUMENTS,
    MAX_PASSAGES,
    nearest_passages,
)
from lm_factuality.benchmarks.biographies.matrix import FactPair
from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.people import OPTIONAL_QUESTION, people_questions
from lm_factuality.benchmarks.biographies.types import (
    SINGLE_SUBJECT,
    GeneratedText,
    JudgedBiography,
    Judgement,
    biography_from_record,
    biography_to_record,
)
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import (
    Data,
    JudgeRole,
    Page,
    Sample,
    SampleDisplay,
    count_answered_rows,
)
from lm_factuality.benchmarks.judged import JudgedMethod, judged_benchmark
from lm_factuality.benchmarks.longform.metrics import SCORES, FactTally, row_metrics, unscored
from lm_factuality.benchmarks.longform.rows import INDEX, SOURCES, K, LongFormMetadata
from lm_factuality.benchmarks.rows import SampleRow, mean_counts_of_scores, row_key, snippet
from lm_factuality.ground.settings import read_settings
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Verdict
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of
from lm_factuality.retrieval.build import open_index
from lm_factuality.retrieval.index import Index

_MARKER = re.compile(r"\s*(?:>\s*|[-*•+]\s+|\d{1,3}[.)]\s+)+")
_LEADS = re.compile(r"\s*#|\s*(?:\*\*|__)[^*_]*(?:\*\*|__):?\s*$|.*:\s*$|\W*$")


_NO_INDEX = "its passages are found by an index; name it: --metadata knowledge=DIR"


@dataclass(frozen=True)
class LongForm(AmbigBio):
    """The method for any prompts.

    A document is that of ``rows``, with one response. A record is that of ``biographies.types``
    with ``index`` and ``unscored``. Where entities are not told apart it has one, without name.
    """

    index: Index | None = None
    """Finds the passages of a fact where documents have none."""

    passages: int = MAX_PASSAGES
    """How many passages a judge sees of a fact."""

    kind: str = ""
    """What the entities are that may be confused. Empty where there is one subject."""

    k: tuple[int, ...] = K

    name = "longform"
    scores = SCORES
    folder: ClassVar[str] = "longform"
    noun: ClassVar[str] = "entity"

    @property
    def recorded_settings(self) -> JsonObject:
        """The settings that can change a score, as a task's metadata have them."""
        return {
            "knowledge": self.knowledge,
            "knowledge_identity": self.index.identity if self.index else None,
            "k": list(self.k),
            "passages": self.passages,
            "linking": self.linking,
            "entities": bool(self.kind),
            "entity_kind": self.kind or "entity",
        }

    def document_problem(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        lacks_index = doc.get("evidence") == INDEX and self.index is None
        return super().document_problem(doc, responses) or (_NO_INDEX if lacks_index else None)

    def prompt_variables(self, text: GeneratedText) -> JsonObject:
        return {
            "question": text.question,
            **({"entity_kind": self.kind} if self.kind else {}),
        }

    def prepare(self, text: GeneratedText) -> JudgedBiography:
        begun = super().prepare(replace(text, output=prose(text.output)))
        return begun if self.kind else replace(begun, entities=SINGLE_SUBJECT)

    def fact_pairs(self, judged: JudgedBiography) -> list[FactPair]:
        """Return what to verify of a response.

        The passages are those nearest to a fact and to what the response is about, so that "It was
        founded in 1780" finds its page.
        """
        response = judged.generation
        about = self.prompt_variables(response)
        if self.kind:
            return [replace(pair, prompt_variables=about) for pair in super().fact_pairs(judged)]
        sentences = {fact.text: fact.sentence for fact in reversed(judged.facts)}
        queries = [f"{response.name or response.question} {fact}" for fact in sentences]
        if self.index is not None:
            passages = [
                tuple(hit.passage.contents for hit in hits)
                for hits in self.index.retrieve(queries, self.passages)
            ]
        else:
            passages = [
                nearest_passages(_known(response), query, self.passages) for query in queries
            ]
        pairs = []
        for (fact, sentence), evidence in zip(sentences.items(), passages, strict=True):
            unasked = None if evidence else Judgement("unscored", None, "no evidence")
            asked_with = sentence if self.index else None
            pairs.append(FactPair(fact, "", evidence, unasked, about, asked_with))
        return pairs

    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        return row_metrics(biography_from_record(verdict), self.kind, self.k)

    def summary_counts(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        judged = [biography_from_record(verdict) for verdict in verdicts]
        facts: Counter[str] = Counter()
        for response in judged:
            facts.update(vars(FactTally.of(response)))
        return {
            **JudgedMethod.summary_counts(self, docs, verdicts),
            "k": list(self.k),
            "abstained": sum(response.abstained for response in judged),
            "facts": dict(facts),
        }

    def make_record(self, judged: JudgedBiography) -> Verdict:
        return {
            "index": judged.generation.index,
            "unscored": unscored(judged),
            **biography_to_record(judged),
        }


def generation(metadata: Mapping[str, Any]) -> LongForm:
    """Make the judged method from the settings of a run.

    Of ``knowledge`` the folder of an index counts, for documents hold the pages themselves.

    Raises:
        ConfigError: A setting is wrong.
        DataError: The index cannot be used.
    """
    read = read_settings(LongFormMetadata, dict(metadata), "metadata")
    path = Path(read.knowledge or DOCUMENTS)
    has_index = bool(read.knowledge) and path.is_dir() and not read.kind
    return LongForm(
        linking=read.linking,
        knowledge=path.name,
        index=open_index(path) if has_index else None,
        passages=read.passages,
        kind=read.kind,
        k=read.k,
    )


def _known(generation: GeneratedText) -> tuple[str, ...]:
    """Return the passages of a document as a judge reads them."""
    return tuple(
        f"Title: {passage.title}\n{passage.text}" if passage.title else passage.text
        for passage in generation.passages
    )


def prose(response: str) -> str:
    """Return a response without Markdown.

    Marks of lists and emphasis, headings, and other lines that lead into what follows are left out.
    """
    lines = []
    for line in response.splitlines():
        text = _MARKER.sub("", line, count=1) if _MARKER.match(line) else line
        if not _LEADS.match(text):
            lines.append(re.sub(r"\*\*|__|`", "", text).strip())
    return "\n".join(lines)


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a response with its judged facts, and why the judge says so of each."""
    doc, record, f1 = sample["doc"], verdict_of(sample), sample.get("f1_at_k")
    judged = biography_from_record(record)
    outcome = "wrong" if FactTally.of(judged).not_supported else "right"
    if judged.abstained:
        outcome = "none"
    elif f1 is None or record["unscored"]:
        outcome = "unscored"
    reasons = [next((cell.reason for cell in cells if cell.reason), "") for cells in judged.matrix]
    return SampleRow(
        key=row_key(sample, doc["index"], doc["question"]),
        cluster=str(doc["index"]),
        title=snippet(doc["question"]),
        doc={"id": doc["index"], "question": doc["question"], "passages": doc["passages"]},
        outcome=outcome,
        margin=f1,
        facets=[doc["topic"]] if doc["topic"] else [],
        detail=report_detail(judged, record["unscored"]) | {"reasons": reasons},
        score_counts=mean_counts_of_scores(sample, SCORES),
    )


BENCHMARK = judged_benchmark(
    JudgeRole(
        generation,
        steps=(
            JudgedStep("decomposition", (), "all scores"),
            JudgedStep("grouping", (), "D-FActScore, where entities may be confused"),
            JudgedStep("verification", (), "all scores"),
        ),
    ),
    questions=people_questions(LongForm.noun),
    headline="f1_at_k",
    scoring={"count_rows": count_answered_rows},
    optional_question=OPTIONAL_QUESTION,
    unaffected_scores=("respond_ratio",),
    title="Long-form factuality",
    data=Data(
        sources=SOURCES,
        settings=tuple(LongForm().recorded_settings),
    ),
    page=Page(
        lead="How much of a long answer is supported by what is known, and how much does it say?",
        samples=SampleDisplay(
            sample_row,
            ("all supported", "unsupported facts", "unscored", "declined"),
            margin_label="F1@K",
            facet_label="Topic",
            right_count_label="Responses without an unsupported fact",
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    order=35,
)
