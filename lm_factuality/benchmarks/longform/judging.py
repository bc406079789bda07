"""Long-form factuality as ``lm-factuality judge`` and an lm_eval run use it, and its scores out of samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.benchmarks.biographies.generations import from_doc
from lm_factuality.benchmarks.biographies.judging import AmbigBio
from lm_factuality.benchmarks.biographies.pages import DOCUMENTS, EVIDENCE
from lm_factuality.benchmarks.biographies.recount import unfounded
from lm_factuality.benchmarks.biographies.summary import means_of
from lm_factuality.benchmarks.biographies.types import JudgedBiography, from_record, to_record
from lm_factuality.benchmarks.declaration import Recount, Row, Rows
from lm_factuality.benchmarks.longform.method import Settings
from lm_factuality.benchmarks.longform.metrics import Tally, row_metrics, unscored
from lm_factuality.benchmarks.longform.rows import INDEX, K, is_true, listed, open_knowledge
from lm_factuality.ground.console import counted
from lm_factuality.ground.errors import DataError
from lm_factuality.harness.generation import Docs, Verdict
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs
from lm_factuality.retrieval.index import Index

if TYPE_CHECKING:
    from judges.judge import Judge

_NO_INDEX = "its passages are found by an index; name it: --metadata knowledge=DIR"


@dataclass(frozen=True)
class LongForm(AmbigBio):
    """``Generation`` for any prompts. A document is that of ``rows``, with one response. A record is that of
    ``biographies.types`` with ``index`` and ``unscored``; where entities are not told apart it has one, without a name. ``k``
    has every K of F1@K."""

    settings: Settings = field(default_factory=Settings)
    k: tuple[int, ...] = K

    name = "longform"

    @property
    def about(self) -> dict[str, Any]:
        known, kind = self.settings.index, self.settings.kind
        own = {"k": list(self.k), "passages": self.settings.passages, "linking": self.settings.linking}
        told_apart = {"entities": bool(kind), "entity_kind": kind or "entity"}
        return {"knowledge": self.knowledge, "knowledge_identity": known.identity if known else None, **own, **told_apart}

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        lacks_index = doc.get("evidence") == INDEX and self.settings.index is None
        return super().check(doc, responses) or (_NO_INDEX if lacks_index else None)

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        """Raises DataError: the index is not there that finds the passages."""
        if self.settings.index is None and any(doc["evidence"] == INDEX for doc in docs):
            raise DataError(f"{self.name}: {_NO_INDEX}")
        return super().judge(judge, docs, responses)

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Each mean as ``biographies.summary`` has it, its interval clustered by prompt; K; responses and facts by outcome."""
        judged = [from_record(verdict) for verdict in verdicts]
        rows = [row_metrics(each, self.settings.kind, self.k) for each in judged]
        tallies = [Tally.of(each) for each in judged]
        return {
            **means_of(rows, [name for name in rows[0] if not name.endswith(("_worst", "_best", "unscored"))]),
            "k": list(self.k),
            "responses": len(rows),
            "abstained": sum(each.abstained for each in judged),
            "unscored": dict(Counter(row["unscored"] for row in rows if row["unscored"]).most_common()),
            "facts": {name: sum(getattr(each, name) for each in tallies) for name in Tally.__dataclass_fields__},
        }

    def notes(self, summary: Mapping[str, Any]) -> list[str]:
        return [
            f"{summary['responses']} responses, {summary['abstained']} abstain; facts: {counted(summary['facts'])}.",
            *([f"Without all scores: {counted(summary['unscored'])}."] if summary["unscored"] else []),
            f"K: {', '.join(map(str, summary['k']))}. Intervals: bootstrap over prompts.",
        ]

    def record(self, judged: JudgedBiography) -> Verdict:
        return {"index": judged.generation.index, "unscored": unscored(judged), **to_record(judged)}


def generation(metadata: Mapping[str, Any]) -> LongForm:
    """With the settings of a run; of ``knowledge`` the folder of an index counts, for documents hold the pages themselves. Raises
    DataError: the index cannot be used."""
    path = Path(str(metadata.get("knowledge") or DOCUMENTS))
    knowledge = open_knowledge(path) if metadata.get("knowledge") and path.is_dir() else None
    kind = str(metadata.get("entity_kind") or "entity") if is_true(metadata.get("entities")) is True else ""
    index = knowledge if isinstance(knowledge, Index) and not kind else None
    linking, passages = str(metadata.get("linking") or "greedy"), int(metadata.get("passages") or EVIDENCE)
    return LongForm(
        Settings(None, linking, index=index, passages=passages, kind=kind), path.name, tuple(listed(metadata.get("k") or K))
    )


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the judgements; what does not follow from the response is unfounded."""
    run = generation({**task.metadata, "knowledge": None})

    def again(row: Row) -> dict[str, Any]:
        judged = from_record(row["verdict"])
        belongs(judged.generation == run.settings.begin(from_doc(row["doc"], row["responses"][0])).generation)
        if row["verdict"]["unscored"] != unscored(judged):
            raise ValueError("'unscored' of its record does not follow from the judgements there")
        return row_metrics(judged, run.settings.kind, run.k)

    return Recount(again, lambda row: unfounded(row, run.settings, row["doc"]["evidence"] != INDEX))
