"""Measures whether a judge says the same about eight claims at once and about one at a time.

``python -m bench.check together --judge JUDGE`` calls `measure_together`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.timing import Record
from judges.claims import (
    MAX_CLAIMS,
    ClaimQuestion,
    ClaimVerdict,
    group_by_evidence,
    judge_claims,
)
from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks.certifiable import CertifyOptions
from lm_factuality.benchmarks.claim_trial import ClaimTrial
from lm_factuality.benchmarks.factor.mutations import SETTING
from lm_factuality.check.answers import read_answers
from lm_factuality.check.check import check_answers
from lm_factuality.check.knowledge import open_knowledge
from lm_factuality.ground.console import format_interval, format_number
from lm_factuality.ground.records import lines_of
from lm_factuality.ground.sentences import words_in
from lm_factuality.scores.agreement import cohen_kappa
from lm_factuality.scores.intervals import mean_interval
from lm_factuality.scores.statistics import ratio

_FLAGS = ("contradicted", "not_found")


@dataclass(frozen=True)
class Papers:
    """Answers about documents, some of whose statements are known to be wrong."""

    answers: Path
    """The answers."""

    knowledge: Path
    """The documents."""

    key: Path
    """JSON Lines with the ``id`` of an answer and a wrong ``statement`` in it."""


@dataclass(frozen=True)
class _Item:
    """A claim, and whether it is known to be wrong."""

    question: ClaimQuestion
    """The claim and its evidence."""

    cluster: str
    """The document or answer that the claim is from."""

    wrong_statement: str = ""
    """The wrong statement that the claim is a part of. Empty for all other claims."""


@dataclass(frozen=True)
class _Way:
    """The verdicts of a judge on all claims, asked in one way."""

    name: str
    verdicts: Sequence[ClaimVerdict]
    num_questions: int

    num_answers: int
    """The answers of the judge, also those that were stored or had to be asked for once more."""


def measure_together(
    judge_file: str, rows: int, papers: Papers | None, prints_differences: bool
) -> Iterator[Record]:
    """Ask a judge about up to eight claims at once, and about the same claims one at a time.

    Args:
        judge_file: The YAML file of the judge.
        rows: The number of documents of the mutated sentences, each with about six claims.
        papers: Answers to ask about as well.
        prints_differences: Whether to print the claims on which the verdicts differ.

    Yields:
        Two rows for each source of claims.
    """
    with Judge.open(load_judge_config(judge_file)) as judge:
        sources = {"mutated sentences": _mutated_items(rows)}
        if papers is not None:
            sources["answers"] = _items_of_answers(papers, judge)
        for source, items in sources.items():
            together = _ask(f"up to {MAX_CLAIMS}", items, judge, MAX_CLAIMS)
            alone = _ask("1", items, judge, 1)
            yield _record(source, items, together, None)
            yield _record(source, items, alone, together)
            if prints_differences:
                _print_differences(items, together, alone)


def _mutated_items(rows: int) -> list[_Item]:
    """Return the claims that certificates are made of."""
    trial = SETTING.open_trial(CertifyOptions(rows=rows))
    assert isinstance(trial, ClaimTrial)
    items = []
    for claim in trial.claims:
        wrong_statement = "" if claim.truth == "supported" else claim.question.claim
        items.append(_Item(claim.question, claim.cluster, wrong_statement))
    return items


def _items_of_answers(papers: Papers, judge: Judge) -> list[_Item]:
    """Return the claims of answers with the evidence that ``check`` finds for them."""
    wrong_statements = defaultdict(list)
    for _, line in lines_of(papers.key, "expected JSON Lines with id and statement"):
        entry = json.loads(line)
        wrong_statements[entry["id"]].append(_plain(entry["statement"]))

    knowledge = open_knowledge(papers.knowledge)
    result = check_answers(read_answers(papers.answers), knowledge, judge)
    knowledge.close()
    items = []
    for answer in result.answers:
        for claim in answer.claims:
            sentence = _plain(answer.text[claim.start : claim.end])
            wrong_statement = ""
            for statement in wrong_statements[answer.id]:
                # The claim of a table's cell has the words of its row and column.
                is_cell = set(words_in(claim.text)) <= set(words_in(statement))
                if statement in sentence or sentence in statement or is_cell:
                    wrong_statement = statement
            question = ClaimQuestion(claim.text, claim.evidence)
            items.append(_Item(question, answer.id, wrong_statement))
    return items


def _plain(text: str) -> str:
    """Return a text without marks of emphasis, and with single spaces."""
    return " ".join(text.replace("*", "").split()).rstrip(".")


def _ask(name: str, items: Sequence[_Item], judge: Judge, max_claims: int) -> _Way:
    """Ask a judge about all claims."""
    questions = [item.question for item in items]
    before = judge.usage
    verdicts = judge_claims(judge, questions, f"{name} per call", max_claims)
    after = judge.usage
    num_answers = after.calls + after.stored - before.calls - before.stored
    return _Way(name, verdicts, len(group_by_evidence(questions, max_claims)), num_answers)


def _record(source: str, items: Sequence[_Item], way: _Way, other: _Way | None) -> Record:
    """Make the row about one way, with its agreement with the other one."""
    flagged: dict[str, bool] = {}
    true_flags = []
    for item, verdict in zip(items, way.verdicts, strict=True):
        is_flagged = verdict.verdict in _FLAGS
        if item.wrong_statement:
            # A wrong statement is flagged if one of its claims is.
            key = f"{item.cluster} {item.wrong_statement}"
            flagged[key] = flagged.get(key, False) or is_flagged
        else:
            true_flags.append(is_flagged)
    record: Record = {
        "source": source,
        "way": way.name,
        "claims": len(items),
        "questions": way.num_questions,
        "answers": way.num_answers,
        "per_question": ratio(len(items), way.num_questions),
        "unscored": sum(verdict.verdict == "unscored" for verdict in way.verdicts),
        "wrong": f"{sum(flagged.values())} of {len(flagged)}",
        "true": f"{sum(true_flags)} of {len(true_flags)}",
        "agreement": "",
        "interval": "",
        "kappa": "",
    }
    if other is None:
        return record

    equal: list[float] = []
    pairs = []
    clusters = []
    for item, first, second in zip(items, way.verdicts, other.verdicts, strict=True):
        if "unscored" in (first.verdict, second.verdict):
            continue
        equal.append(float(first.verdict == second.verdict))
        pairs.append((first.verdict, second.verdict))
        clusters.append(item.cluster)
    record["agreement"] = f"{format_number(ratio(sum(equal), len(equal)))} of {len(equal)}"
    record["interval"] = format_interval(mean_interval(equal, clusters))
    record["kappa"] = format_number(cohen_kappa(pairs) if pairs else None, ".2f")
    return record


def _print_differences(items: Sequence[_Item], together: _Way, alone: _Way) -> None:
    """Print the claims on which the verdicts differ to stderr."""
    for item, first, second in zip(items, together.verdicts, alone.verdicts, strict=True):
        if first.verdict != second.verdict:
            sys.stderr.write(
                f"{item.cluster}{' (wrong)' if item.wrong_statement else ''}:"
                f" {item.question.claim}\n"
                f"  {together.name}: {first.verdict}: {first.reason}\n"
                f"  {alone.name}: {second.verdict}: {second.reason}\n"
            )
