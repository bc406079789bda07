"""Long-form factuality as the rest of the suite knows it: the steps of D-FActScore in the words of
any prompt, its scores out of samples, and its rows in the report. Where entities may be confused
all steps are taken; else a response is about one subject, and a fact is held against the passages
of its document, or those that an index finds."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from judges.judge import Judge
from lm_factuality.benchmarks.biographies import matrix, method
from lm_factuality.benchmarks.biographies.benchmark import shown_of
from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, EVIDENCE, nearest
from lm_factuality.benchmarks.biographies.judging import AmbigBio
from lm_factuality.benchmarks.biographies.recount import people_of, recount_by
from lm_factuality.benchmarks.biographies.scores import means_of
from lm_factuality.benchmarks.biographies.types import (
    Generation,
    JudgedBiography,
    from_record,
    to_record,
)
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.chosen import scores_section
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Data,
    Judging,
    Page,
    Sample,
    Samples,
    Scoring,
    answered,
    is_bound,
)
from lm_factuality.benchmarks.longform.metrics import SCORES, Tally, row_metrics, unscored
from lm_factuality.benchmarks.longform.rows import (
    INDEX,
    SOURCES,
    K,
    is_true,
    listed,
    open_knowledge,
)
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.console import counted
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.generation import Docs, Verdict
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import keep_verdict, verdict_of
from lm_factuality.retrieval.index import Index

_MARKER = re.compile(r"\s*(?:>\s*|[-*•+]\s+|\d{1,3}[.)]\s+)+")
_LEADS = re.compile(r"\s*#|\s*(?:\*\*|__)[^*_]*(?:\*\*|__):?\s*$|.*:\s*$|\W*$")


@dataclass(frozen=True)
class Settings(method.Settings):
    """``index`` is asked about each fact where documents have no passages; a judge sees so many
    ``passages``. ``kind`` is of the entities that may be confused, empty where there is one
    subject."""

    folder: ClassVar[str] = "longform"

    index: Index | None = None
    passages: int = EVIDENCE
    kind: str = ""

    def about(self, generation: Generation) -> dict[str, Any]:
        return {
            "question": generation.question,
            **({"entity_kind": self.kind} if self.kind else {}),
        }

    def begin(self, generation: Generation) -> JudgedBiography:
        started = method.begin(replace(generation, output=prose(generation.output)))
        return started if self.kind else replace(started, entities=method.ALONE)

    def pairs(self, judged: JudgedBiography) -> list[matrix.Pair]:
        """The passages nearest to a fact and to what the response is about, so that "It was founded
        in 1780" finds its page."""
        given = judged.generation
        about = self.about(given)
        if self.kind:
            return [replace(pair, about=about) for pair in super().pairs(judged)]
        sentences = {fact.text: fact.sentence for fact in reversed(judged.facts)}
        queries = [f"{given.name or given.question} {fact}" for fact in sentences]
        if self.index is not None:
            passages = [
                tuple(hit.passage.contents for hit in hits)
                for hits in self.index.retrieve(queries, self.passages)
            ]
        else:
            passages = [nearest(_known(given), query, self.passages) for query in queries]
        pairs = []
        for (fact, sentence), shown in zip(sentences.items(), passages, strict=True):
            problem = None if shown else "no evidence"
            asked_with = sentence if self.index else None
            pairs.append(matrix.Pair(fact, "", shown, problem, about, asked_with))
        return pairs


def _known(given: Generation) -> tuple[str, ...]:
    return tuple(
        f"Title: {each.title}\n{each.text}" if each.title else each.text for each in given.passages
    )


def prose(response: str) -> str:
    """A response without Markdown: no marks of lists and emphasis, no headings and other lines that
    lead into what follows."""
    lines = (
        _MARKER.sub("", line, count=1) if _MARKER.match(line) else line
        for line in response.splitlines()
    )
    return "\n".join(
        re.sub(r"\*\*|__|`", "", line).strip() for line in lines if not _LEADS.match(line)
    )


_NO_INDEX = "its passages are found by an index; name it: --metadata knowledge=DIR"


@dataclass(frozen=True)
class LongForm(AmbigBio):
    """``Generation`` for any prompts. A document is that of ``rows``, with one response. A record
    is that of ``biographies.types`` with ``index`` and ``unscored``; where entities are not told
    apart it has one, without name. ``k``: every K."""

    settings: Settings = field(default_factory=Settings)
    k: tuple[int, ...] = K

    name = "longform"

    @property
    def about(self) -> dict[str, Any]:
        known, kind = self.settings.index, self.settings.kind
        own = {
            "k": list(self.k),
            "passages": self.settings.passages,
            "linking": self.settings.linking,
        }
        told_apart = {"entities": bool(kind), "entity_kind": kind or "entity"}
        return {
            "knowledge": self.knowledge,
            "knowledge_identity": known.identity if known else None,
            **own,
            **told_apart,
        }

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        lacks_index = doc.get("evidence") == INDEX and self.settings.index is None
        return super().check(doc, responses) or (_NO_INDEX if lacks_index else None)

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        """Raises DataError: the index is not there that finds the passages."""
        if self.settings.index is None and any(doc["evidence"] == INDEX for doc in docs):
            raise DataError(f"{self.name}: {_NO_INDEX}")
        return super().judge(judge, docs, responses)

    def row_metrics(self, judged: JudgedBiography) -> dict[str, Any]:
        return row_metrics(judged, self.settings.kind, self.k)

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Each mean as ``biographies.scores`` has it, its interval clustered by prompt; K;
        responses and facts by outcome."""
        judged = [from_record(verdict) for verdict in verdicts]
        rows = [self.row_metrics(each) for each in judged]
        tallies = [Tally.of(each) for each in judged]
        return {
            **means_of(
                rows,
                [name for name in rows[0] if not is_bound(name) and name != "unscored"],
                SCORES,
            ),
            "k": list(self.k),
            "responses": len(rows),
            "abstained": sum(each.abstained for each in judged),
            "unscored": dict(
                Counter(row["unscored"] for row in rows if row["unscored"]).most_common()
            ),
            "facts": {
                name: sum(getattr(each, name) for each in tallies)
                for name in Tally.__dataclass_fields__
            },
        }

    def notes(self, summary: Mapping[str, Any]) -> list[str]:
        return [
            (
                f"{summary['responses']} responses, {summary['abstained']} abstain; facts:"
                f" {counted(summary['facts'])}."
            ),
            *(
                [f"Without all scores: {counted(summary['unscored'])}."]
                if summary["unscored"]
                else []
            ),
            f"K: {', '.join(map(str, summary['k']))}. Intervals: bootstrap over prompts.",
        ]

    def record(self, judged: JudgedBiography) -> Verdict:
        return {"index": judged.generation.index, "unscored": unscored(judged), **to_record(judged)}


def generation(metadata: Mapping[str, Any]) -> LongForm:
    """With the settings of a run; of ``knowledge`` the folder of an index counts, for documents
    hold the pages themselves. Raises DataError: the index cannot be used."""
    path = Path(str(metadata.get("knowledge") or DOCUMENTS))
    knowledge = open_knowledge(path) if metadata.get("knowledge") and path.is_dir() else None
    kind = (
        str(metadata.get("entity_kind") or "entity")
        if is_true(metadata.get("entities")) is True
        else ""
    )
    index = knowledge if isinstance(knowledge, Index) and not kind else None
    linking, passages = (
        str(metadata.get("linking") or "greedy"),
        int(metadata.get("passages") or EVIDENCE),
    )
    settings = Settings(None, linking, index=index, passages=passages, kind=kind)
    return LongForm(settings, path.name, tuple(listed(metadata.get("k") or K)))


_NOTE = (
    "F1@K balances the share of supported facts with their number. Compare models at one K, one"
    " knowledge source and one judge."
)


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """A response with its judged facts, and why the judge says so of each."""
    doc, record, f1 = sample["doc"], verdict_of(sample), sample.get("f1_at_k")
    judged = from_record(record)
    is_scored, is_wrong = (
        f1 is not None and not record["unscored"],
        bool(Tally.of(judged).not_supported),
    )
    reasons = [next((cell.reason for cell in cells if cell.reason), "") for cells in judged.matrix]
    return SampleRow(
        key_of(sample, doc["index"], doc["question"]),
        str(doc["index"]),
        snippet(doc["question"]),
        {"id": doc["index"], "question": doc["question"], "passages": doc["passages"]},
        (
            "none"
            if judged.abstained
            else "unscored"
            if not is_scored
            else "wrong"
            if is_wrong
            else "right"
        ),
        f1,
        [doc["topic"]] if doc["topic"] else [],
        shown_of(judged, record["unscored"]) | {"reasons": reasons},
        {
            score.name: mean_part(sample[score.name])
            for score in SCORES
            if score.label and sample.get(score.name) is not None
        },
    )


SAMPLES = Samples(
    row,
    ("all supported", "unsupported facts", "unscored", "declined"),
    margin="F1@K",
    facet="Topic",
    is_partition=True,
    right="Responses without an unsupported fact",
    script=Path(__file__).with_name("page.js"),
)


BENCHMARK = Benchmark(
    kind=LongForm.name,
    title="Long-form factuality",
    scoring=Scoring(
        headlines=("f1_at_k",),
        scores=SCORES,
        keep=keep_verdict,
        recount=recount_by(generation),
        counted=answered,
    ),
    data=Data(
        sources=SOURCES,
        settings=(
            "k",
            "knowledge",
            "knowledge_identity",
            "passages",
            "entities",
            "entity_kind",
            "linking",
        ),
    ),
    judging=Judging(
        generation=generation,
        steps=(
            JudgedStep("decomposition", (), "all scores"),
            JudgedStep("grouping", (), "D-FActScore, where entities may be confused"),
            JudgedStep("verification", (), "all scores"),
        ),
    ),
    page=Page(
        lead="How much of a long answer is supported by what is known, and how much does it say?",
        sections=lambda chosen: [scores_section(chosen, LongForm.name, note=_NOTE)],
        samples=SAMPLES,
    ),
    order=35,
    people=people_of(generation, "entity"),
)
