"""The long-form benchmark: how a judge verifies answers to any prompt, and its declaration.

The method takes the steps of D-FActScore (``lm_factuality.benchmarks.biographies``). If entities
share a name it takes all of them. Otherwise each fact is verified on its own.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from lm_factuality.benchmarks.biographies.benchmark import ROW_SCRIPT, report_detail
from lm_factuality.benchmarks.biographies.generations import (
    DOCUMENTS,
    MAX_PASSAGES,
    generation_to_doc,
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
    Comparing,
    Data,
    JudgeRole,
    Page,
    Sample,
    SampleDisplay,
    count_answered_rows,
    first_k,
)
from lm_factuality.benchmarks.judged import count_reasons, judged_benchmark
from lm_factuality.benchmarks.longform.metrics import (
    SCORES,
    FactTally,
    long_form_metrics,
    missing_scores_reason,
)
from lm_factuality.benchmarks.longform.rows import DEFAULT_K, INDEX, SOURCES, LongFormMetadata
from lm_factuality.benchmarks.rows import SampleRow, mean_counts_by_score, row_key, snippet
from lm_factuality.ground.sentences import LIST_MARKER
from lm_factuality.ground.settings import read_settings
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Verdict
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.harness.samples import verdict_of
from lm_factuality.retrieval.build import open_index
from lm_factuality.retrieval.index import Index

_LIST_OR_QUOTATION = re.compile(rf"^\s*(?:>\s*|{LIST_MARKER}\s+)+")
"""The start of a line of a list or a quotation, such as ``- ``, ``2. `` or ``> ``."""

_TITLE_OR_LEAD_IN = re.compile(r"\s*#|\s*(?:\*\*|__)[^*_]*(?:\*\*|__):?\s*$|.*:\s*$|\W*$")
"""A line without a statement: a heading, a bold title, an end in a colon, or no words."""

_EMPHASIS = re.compile(r"\*\*|__|`")

_NO_EVIDENCE = "no evidence"
_NO_INDEX = "its passages have to be found; name documents or an index: --knowledge DIR"
_NO_PAGES = (
    "its document has no pages of entities; let lm_eval run the task, which finds them, or leave"
    " out the setting 'entities'"
)


class FoundPassages(NamedTuple):
    """What was found about a fact."""

    texts: tuple[str, ...]
    """The passages with their titles, the nearest first."""

    problem: str = ""
    """Why nothing was found, such as a search that failed. Empty if nothing is about the fact."""


class PassageFinder(Protocol):
    """Finds passages about facts: an index, people's documents, or a search service."""

    @property
    def identity(self) -> str | None:
        """Digits that identify the content in results. None if it may change, as the web does."""

    def find_passages(self, queries: Sequence[str], count: int) -> list[FoundPassages]:
        """Find at most ``count`` passages for each query."""
        ...


@dataclass(frozen=True)
class IndexFinder:
    """Finds passages in an index."""

    index: Index
    """The index."""

    @property
    def identity(self) -> str:
        """The identity of the index, since its name says nothing about its content."""
        return self.index.identity

    def find_passages(self, queries: Sequence[str], count: int) -> list[FoundPassages]:
        """Find passages. One call for all queries, because an index searches batches faster."""
        hits_by_query = self.index.retrieve(queries, count)
        return [
            FoundPassages(tuple(hit.passage.contents for hit in hits)) for hits in hits_by_query
        ]


@dataclass(frozen=True)
class LongForm(AmbigBio):
    """The method that verifies the facts of long answers to any prompts.

    It takes the steps of D-FActScore. Without ``kind``, a response is about one subject, so facts
    are neither grouped nor linked, and each is verified against the passages nearest to it.
    """

    facts: Literal["standalone", "as_written"] = "standalone"

    finder: PassageFinder | None = None
    """What finds the passages for each fact, if documents have none."""

    num_passages: int = MAX_PASSAGES
    """The number of passages that the judge sees with a fact."""

    kind: str = ""
    """The word for entities that share a name, such as ``town``, or empty for one subject."""

    k: tuple[int, ...] = DEFAULT_K
    """The numbers K of facts that are enough. The first one is that of the main score."""

    name = "longform"
    scores = SCORES
    folder: ClassVar[str] = "longform"
    noun: ClassVar[str] = "entity"

    @property
    def recorded_settings(self) -> JsonObject:
        """The settings that can change a score, by their keys in a task's metadata."""
        return {
            "method": self.method,
            "knowledge": self.knowledge,
            "knowledge_identity": self.finder.identity if self.finder else None,
            "k": list(self.k),
            "passages": self.num_passages,
            "linking": self.linking,
            "entities": bool(self.kind),
            "entity_kind": self.kind or "entity",
        }

    def document_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Say what is wrong with a document or its responses, or return None.

        Args:
            doc: A document from a samples file.
            responses: The responses to it.
        """
        problem = super().document_problem(doc, responses)
        if problem:
            return problem
        # The document has no passages of its own, since an index is to find them. Without an index,
        # there is nothing to verify facts against.
        if doc.get("evidence") == INDEX and self.finder is None:
            return _NO_PAGES if self.has_namesakes else _NO_INDEX
        return None

    @property
    def has_namesakes(self) -> bool:
        """Whether entities share a name, so that facts are grouped and linked."""
        return bool(self.kind)

    def joint_variables(self, text: GeneratedText) -> JsonObject:
        """Return the variables of the joint question that do not depend on the response's text."""
        return {**super().joint_variables(text), "noun": self.kind}

    def prompt_variables(self, text: GeneratedText) -> JsonObject:
        """Return the variables that all of the judge's prompts about a response have.

        They are the ``question`` and, if entities share a name, ``entity_kind``.
        """
        variables = {"question": text.question}
        if self.kind:
            variables["entity_kind"] = self.kind
        return variables

    def evidence_kind(self, text: GeneratedText) -> str:
        """Say what the facts of a response are held against."""
        return "knowledge source" if self.finder else "retrieved passages"

    def prepare(self, text: GeneratedText) -> JudgedBiography:
        """Split a response without its Markdown into sentences."""
        prepared = super().prepare(replace(text, output=strip_markdown(text.output)))
        if self.kind:
            return prepared
        # All facts are about one subject, so there are no candidates to tell apart.
        return replace(prepared, entities=SINGLE_SUBJECT)

    def fact_pairs(self, judged: JudgedBiography) -> list[FactPair]:
        """Return each distinct fact of a response with the passages that it is verified against.

        If entities share a name, a fact has a pair for the page of each entity, otherwise a single
        pair. The judge is not asked about a pair without passages.

        Args:
            judged: The response with its facts.
        """
        if self.has_namesakes:
            return super().fact_pairs(judged)
        return self._pairs_about_one_subject(judged)

    def _pairs_about_one_subject(self, judged: JudgedBiography) -> list[FactPair]:
        """Pair each distinct fact of a response about one subject with the passages nearest to it.

        Args:
            judged: The response with its facts.

        Returns:
            One pair for each distinct fact. The fact that the response states last comes first,
            and the judge is asked in this order.
        """
        response = judged.generation
        # A repeated fact keeps the place of its last mention, and the sentence of its first.
        sentence_by_fact = {fact.text: fact.sentence for fact in reversed(judged.facts)}
        search_results = self._find_passages(response, list(sentence_by_fact))

        pairs = []
        for (fact_text, sentence), result in zip(
            sentence_by_fact.items(), search_results, strict=True
        ):
            no_evidence = Judgement("unscored", None, result.problem or _NO_EVIDENCE)
            pair = FactPair(
                fact=fact_text,
                entity="",
                evidence=result.texts,
                preset_judgement=None if result.texts else no_evidence,
                prompt_variables=self.prompt_variables(response),
                # Facts of one sentence are verified together if their passages were searched for.
                sentence=sentence if self.finder else None,
            )
            pairs.append(pair)
        return pairs

    def _find_passages(self, response: GeneratedText, facts: Sequence[str]) -> list[FoundPassages]:
        """Find the passages nearest to each fact.

        An index or a search service finds them. Without one, they are chosen from the passages that
        the prompt's document holds.

        Args:
            response: The response that states the facts.
            facts: The texts of the facts.

        Returns:
            The passages for each fact, the nearest first.
        """
        # With the subject, "It was founded in 1780" finds its page.
        subject = response.name or response.question
        queries = [f"{subject} {fact}" for fact in facts]

        if self.finder is not None:
            return self.finder.find_passages(queries, self.num_passages)
        document_passages = _format_passages(response)
        return [
            FoundPassages(nearest_passages(document_passages, query, self.num_passages))
            for query in queries
        ]

    def row_metrics(self, doc: Doc, record: Verdict) -> JsonObject:
        """Return what the record of a response adds to each score."""
        return long_form_metrics(biography_from_record(record), self.has_namesakes, self.k)

    def summary_counts(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Count the responses, those that declined, and the facts by verdict, over all prompts.

        Example:
            The counts of two responses, of which one declined, may be ``{"responses": 2,
            "unscored": {}, "k": [64], "abstained": 1, "facts": {"supported": 12, ...}}``.

        Args:
            docs: The documents of the run.
            records: The record of each document.
        """
        responses = [biography_from_record(record) for record in records]
        facts_by_verdict: Counter[str] = Counter()
        for response in responses:
            # A tally is a mapping of counts, such as {"supported": 12, "irrelevant": 1}.
            facts_by_verdict.update(asdict(FactTally.from_judged(response)))
        return {
            "responses": len(records),
            "unscored": count_reasons(record["unscored"] for record in records),
            "k": list(self.k),
            "abstained": sum(response.abstained for response in responses),
            "facts": dict(facts_by_verdict),
        }

    def make_record(self, judged: JudgedBiography) -> Verdict:
        """Return the record of a judged response, which samples hold as JSON."""
        return {
            "index": judged.generation.index,
            "unscored": missing_scores_reason(judged),
            **biography_to_record(judged),
        }


def answer_to_doc(answer_id: str, question: str) -> JsonObject:
    """Make the document of an answer that was written outside of lm_eval.

    Args:
        answer_id: The id of the answer.
        question: The question, or an empty text.

    Returns:
        A document whose passages an index finds for each fact.
    """
    text = GeneratedText(index=answer_id, question=question, name="", output="", passages=())
    return {**generation_to_doc(text), "text": question, "topic": "", "evidence": INDEX}


def _format_passages(response: GeneratedText) -> tuple[str, ...]:
    """Return the passages of a response's document in the form in which the judge reads them.

    Example:
        A passage with a title becomes ``Title: Grayport`` and its text on the next line. A passage
        from a column of a table may have no title.
    """
    texts = []
    for passage in response.passages:
        title = f"Title: {passage.title}\n" if passage.title else ""
        texts.append(f"{title}{passage.text}")
    return tuple(texts)


def long_form_method(metadata: Mapping[str, Any]) -> LongForm:
    """Make the method from the settings in a task's metadata, and open the index that they name.

    Args:
        metadata: The metadata. A ``knowledge`` that is no folder is not opened, since the documents
            hold the pages from it.

    Raises:
        ConfigError: A setting is wrong.
        DataError: The index cannot be used.
    """
    settings = read_settings(LongFormMetadata, dict(metadata), "metadata")
    path = Path(settings.knowledge or DOCUMENTS)
    # If entities share a name, the index has been searched when the prompts were read.
    has_index = bool(settings.knowledge) and path.is_dir() and not settings.kind
    return LongForm(
        method=settings.method,
        linking=settings.linking,
        # Only the name, so that results do not depend on this machine's folders.
        knowledge=path.name,
        finder=IndexFinder(open_index(path)) if has_index else None,
        num_passages=settings.passages,
        kind=settings.kind,
        k=settings.k,
    )


def strip_markdown(response: str) -> str:
    """Remove Markdown from a response, so that judges see plain sentences.

    Marks of lists, quotations and emphasis are removed. Headings, and other lines that only
    introduce what follows, are left out.

    Example:
        The lines ``# Life`` and ``- **Born** in 1702.`` give ``Born in 1702.``
    """
    lines = []
    for line in response.splitlines():
        text = _LIST_OR_QUOTATION.sub("", line)
        # The list marker is off by now, so that "- **Life**" counts as a title as well.
        if _TITLE_OR_LEAD_IN.match(text):
            continue
        lines.append(_EMPHASIS.sub("", text).strip())
    return "\n".join(lines)


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a judged response as a row of the report.

    Args:
        result: The results of the run. Every benchmark gets them, and this one does not use them.
        sample: The line of the samples file about the response.

    Returns:
        The row. Its ``detail`` has the facts, each with the judge's reason. Its ``margin``, by
        which the report sorts rows, is F1@K.
    """
    doc = sample["doc"]
    record = verdict_of(sample)
    judged = biography_from_record(record)
    # A sample lacks metrics that the response has no value for.
    f1 = sample.get("f1_at_k")
    # A response can have an F1@K and lack another score, for which the record has a reason.
    is_unscored = f1 is None or bool(record["unscored"])

    detail = report_detail(judged, record["unscored"])
    detail["reasons"] = [_first_reason(judgements) for judgements in judged.matrix]
    return SampleRow(
        key=row_key(sample, doc["index"], doc["question"]),
        # Prompts are independent, so each is a cluster of its own in standard errors.
        cluster=str(doc["index"]),
        title=snippet(doc["question"]),
        doc={"id": doc["index"], "question": doc["question"], "passages": doc["passages"]},
        outcome=_report_outcome(judged, is_unscored),
        margin=f1,
        # Readers can filter the rows by topic.
        facets=[doc["topic"]] if doc["topic"] else [],
        detail=detail,
        score_counts=mean_counts_by_score(sample, SCORES),
    )


def _first_reason(judgements: Sequence[Judgement]) -> str:
    """Return the first reason that the judge gave for a fact, or an empty text."""
    for judgement in judgements:
        if judgement.reason:
            return judgement.reason
    return ""


def note_k(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Say how many facts are enough in F1@K of a run.

    Args:
        file: The results file of the run. Every benchmark gets it, and this one does not use it.
        task: The results of the task in it.

    Yields:
        A note, such as ``F1@K and recall@K with K = 64``.
    """
    # The main score has the first K.
    k = first_k(task.metadata)
    if k is not None:
        yield f"F1@K and recall@K with K = {k}"


def _report_outcome(judged: JudgedBiography, is_unscored: bool) -> str:
    """Decide how the report counts a response.

    Args:
        judged: The response with its judged facts.
        is_unscored: Whether scores of the response are missing.
    """
    if judged.abstained:
        return "none"
    if is_unscored:
        return "unscored"
    has_unsupported_fact = FactTally.from_judged(judged).not_supported > 0
    return "wrong" if has_unsupported_fact else "right"


BENCHMARK = judged_benchmark(
    JudgeRole(
        long_form_method,
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
        lead=(
            "How much of a long answer is supported by what is known, and how many facts does it"
            " give?"
        ),
        samples=SampleDisplay(
            sample_row,
            ("all supported", "unsupported facts", "unscored", "declined"),
            margin_label="F1@K",
            facet_label="Topic",
            right_count_label="Responses without an unsupported fact",
            script=ROW_SCRIPT,
        ),
    ),
    comparing=Comparing(notes=note_k),
    order=35,
)
