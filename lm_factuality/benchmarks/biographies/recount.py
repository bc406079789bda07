"""Scores of AmbigBio out of its samples, and whether a record follows from the response.

A record holds what was read of the judge, not its outputs: what follows from the response (sentences, abstentions, evidence,
links) is found again, and what only the judge can know is believed.
"""

from dataclasses import asdict
from typing import Any

from lm_factuality.benchmarks.biographies.generations import from_doc
from lm_factuality.benchmarks.biographies.matrix import unasked
from lm_factuality.benchmarks.biographies.method import Settings, link_entities
from lm_factuality.benchmarks.biographies.pages import DOCUMENTS
from lm_factuality.benchmarks.biographies.summary import Row, row_metrics
from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, from_record
from lm_factuality.benchmarks.declaration import Recount, Rows
from lm_factuality.benchmarks.declaration import Row as Kept
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs

_CONTRADICTED = 0.1  # a score so near to the other end is not that of the outcome


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the judgements by the task's protocol; what does not follow from the judge's texts is unfounded."""
    protocol = str(task.metadata.get("protocol", "paper"))
    by_passages = task.metadata.get("knowledge", DOCUMENTS) == DOCUMENTS
    settings = Settings(None, str(task.metadata.get("linking", "greedy")), protocol)

    def again(row: Kept) -> dict[str, Any]:
        """From the judgements in the record, not from the scores beside them."""
        judged = from_record(row["verdict"])
        given = judged.generation
        belongs(given.index == row["doc"]["index"] and given.name == row["doc"]["name"] and [given.output] == row["responses"])
        found = Row.of(judged, protocol)
        scores = None if found.scores is None else asdict(found.scores)
        for key, value in (("scores", scores), ("unscored", found.unscored)):
            if value != row["verdict"].get(key):
                raise ValueError(f"{key!r} of its record does not follow from the judgements there")
        return row_metrics(found)

    return Recount(again, lambda row: unfounded(row, settings, by_passages))


def unfounded(row: Kept, settings: Settings, by_passages: bool) -> str | None:
    """What of a record does not follow, if anything; ``by_passages`` says that facts were verified by the passages of the
    document."""
    judged, (response,) = from_record(row["verdict"]), row["responses"]
    expected = settings.begin(from_doc(row["doc"], response))
    for part in ("generation", "sentences", "entities", "abstained"):
        if getattr(judged, part) != getattr(expected, part):
            return f"its {part} {'are' if part.endswith('s') else 'is'} not what the response says"
    if expected.abstained or expected.problem:
        is_empty = not judged.facts and judged.problem == expected.problem
        return None if is_empty else "it has facts, but the response says nothing"
    if not judged.facts:
        return None if judged.problem else "it has no facts, and no reason why"
    if judged.problem:
        return "it has facts and a reason why it has none"
    if wrong := _wrong_groups(judged, settings.protocol) or _wrong_matrix(judged, settings if by_passages else None):
        return wrong
    links = link_entities(judged, settings).links
    return None if judged.links == links else "its links do not follow from the judgements"


def _wrong_groups(judged: JudgedBiography, protocol: str) -> str | None:
    """Each fact is in one group, under ``protocol: code`` the first in none; or it is said why there are no groups."""
    sentences = [fact.sentence for fact in judged.facts]
    if sentences != sorted(sentences) or len(set(judged.facts)) < len(judged.facts):
        return "its facts are not in the order of the sentences, or twice"
    if judged.ungrouped is not None:
        return "it has groups and a reason why it has none" if judged.groups or len(judged.facts) < 2 else None
    grouped = sorted(fact for group in judged.groups for fact in group)
    first = 1 if protocol == "code" else 0
    is_sound = grouped == list(range(first, len(judged.facts))) and (first or all(judged.groups))
    return None if is_sound else "its groups do not hold each fact once"


def _wrong_matrix(judged: JudgedBiography, settings: Settings | None) -> str | None:
    """Facts of the same text share their judgements; a judgement has its own evidence and a score that fits its outcome."""
    pairs = settings.pairs(judged) if settings else {}
    known: dict[tuple[str, str], Judgement] = {}
    for fact, cells in zip(judged.facts, judged.matrix, strict=True):
        for entity, found in zip(judged.entities, cells, strict=True):
            key = fact.text, entity
            if known.setdefault(key, found) != found:
                return "facts of the same text have different judgements"
            pair = pairs.get(key)
            if pair is not None and (found != unasked(pair) if pair.problem else not set(pair.evidence) <= set(found.evidence)):
                return "a judgement is not on the passages of its entity"
            if not _fits(found):
                return f"a fact is {found.outcome}, but its score is {found.score}"
    return None


def _fits(judgement: Judgement) -> bool:
    if judgement.outcome == "unscored":
        return judgement.score is None
    if judgement.score is None:
        return False
    if judgement.outcome == "supported":
        return judgement.score >= _CONTRADICTED
    return judgement.score <= 1 - _CONTRADICTED
