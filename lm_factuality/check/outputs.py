"""Writes the files of a check: claims.jsonl, answers.csv and summary.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lm_factuality.check.results import VERDICTS, CheckedClaim, CheckResult
from lm_factuality.ground.console import format_interval, format_number, plural
from lm_factuality.ground.files import write_json, write_lines, write_text
from lm_factuality.ground.tables import csv_text
from lm_factuality.scores.statistics import none_if_nan


def write_files(result: CheckResult, folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``claims.jsonl``, ``answers.csv`` and ``summary.json``, which also has ``about``."""
    lines = (json.dumps(claim_object(claim), ensure_ascii=False) for claim in result.claims)
    write_lines(folder / "claims.jsonl", lines)
    write_text(folder / "answers.csv", _answers_table(result))
    write_json(folder / "summary.json", {**summarise(result), "about": dict(about)})


def summarise(result: CheckResult) -> dict[str, Any]:
    """Return the figures of a check as a JSON object.

    Returns:
        The ``supported`` share of the scored claims with its ``interval``, the share
        ``supported_as_judged`` without people's corrections, the numbers of claims by verdict, of
        ``corrected`` or confirmed ones, of ``answers``, of ``refusals`` and of ``unread_answers``,
        and the ``problems``. None stands for a figure that is not defined.
    """
    return {
        "supported": none_if_nan(result.share_supported),
        "supported_as_judged": none_if_nan(result.as_judged().share_supported),
        "corrected": result.num_corrected,
        "interval": result.interval,
        "claims": {verdict: result.count(verdict) for verdict in VERDICTS},
        "answers": len(result.answers),
        "refusals": result.num_refusals,
        "unread_answers": len(result.unread_answers),
        "problems": list(result.problems),
    }


class FigureRow(NamedTuple):
    """A row of the table of a check. Its cells are texts, and empty where there is nothing."""

    label: str
    """The verdict, or ``answers not read``."""

    number: str
    """The number of claims, or of answers that could not be read."""

    share: str = ""
    """The share of the scored claims."""

    interval: str = ""
    """The 95% interval of the share of supported claims."""


def figure_rows(result: CheckResult) -> list[FigureRow]:
    """Return the figures of a check: a row for each verdict, and one for answers not read."""
    rows = []
    for verdict in VERDICTS:
        count = result.count(verdict)
        share = ""
        interval = ""
        if verdict == "supported":
            share = format_number(result.share_supported)
            interval = format_interval(result.interval)
        elif verdict != "unscored" and result.num_scored > 0:
            share = format_number(count / result.num_scored)
        rows.append(FigureRow(verdict.replace("_", " "), f"{count:,}", share, interval))
    if result.unread_answers:
        rows.append(FigureRow("answers not read", f"{len(result.unread_answers):,}"))
    return rows


def figures_title(result: CheckResult) -> str:
    """Return what the figures are of, such as ``13 claims of 4 answers``."""
    num_answers = len(result.answers) + len(result.unread_answers)
    return f"{plural(len(result.claims), 'claim')} of {plural(num_answers, 'answer')}"


def figures_text(result: CheckResult) -> str:
    """Return the figures of a check as lines of text, such as ``supported  13  81.2%``."""
    lines = [figures_title(result)]
    for row in figure_rows(result):
        interval = f" (95% interval {row.interval})" if row.interval else ""
        lines.append(f"{row.label:<16}{row.number:>6}  {row.share}{interval}".rstrip())
    return "\n".join(lines)


def claim_object(claim: CheckedClaim) -> dict[str, Any]:
    """Return a claim as an object of ``claims.jsonl``."""
    return {
        "answer": claim.answer,
        "claim": claim.text,
        "start": claim.start,
        "end": claim.end,
        "verdict": claim.verdict,
        "probability": claim.probability,
        "reason": claim.reason,
        "evidence": [
            {"document": passage.document, "passage": passage.text, "score": score}
            for passage, score in zip(claim.evidence, claim.scores, strict=True)
        ],
        "deciding": claim.deciding,
        "judged": claim.judged or claim.verdict,
        "person": claim.person,
        "note": claim.note,
    }


def _answers_table(result: CheckResult) -> str:
    """Return ``answers.csv``: one row per answer with the numbers of its claims by verdict.

    An answer that could not be read has its place as its id, and the reason in the last column.
    """
    rows: list[list[object]] = []
    for answer in result.answers:
        num_by_verdict = answer.counts()
        numbers = [len(answer.claims), *(num_by_verdict[verdict] for verdict in VERDICTS)]
        rows.append([answer.id, answer.question, answer.is_refusal, *numbers, ""])
    for problem in result.unread_answers:
        numbers = [0] * (1 + len(VERDICTS))
        rows.append([problem.location, "", False, *numbers, problem.reason])
    return csv_text(["answer", "question", "refusal", "claims", *VERDICTS, "problem"], rows)
