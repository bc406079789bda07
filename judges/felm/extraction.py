"""A judge takes the claims out of FELM's segments (appendix D, table 5 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

from judges.answers import Answer
from judges.asking import Plan
from judges.felm.claims import RowClaims, parse_claims
from judges.felm.questions import CLAIM_PROMPT, extraction_subject
from judges.felm.rows import FelmRow
from judges.judge import Judge


def extract_claims(judge: Judge, rows: Sequence[FelmRow], max_tokens: int) -> list[RowClaims]:
    """The claims of every row; a row whose answer cannot be used has a problem instead."""
    answers = judge.ask(
        CLAIM_PROMPT, [extraction_subject(row) for row in rows], "claims", samples=1, max_tokens=max_tokens
    )
    return [_read(row, answer, judge.name) for row, (answer,) in zip(rows, answers, strict=True)]


def plan_claims(judge: Judge, rows: Sequence[FelmRow], max_tokens: int) -> Plan:
    """What ``extract_claims`` would send."""
    return judge.plan(CLAIM_PROMPT, [extraction_subject(row) for row in rows], samples=1, max_tokens=max_tokens)


def _read(row: FelmRow, answer: Answer, source: str) -> RowClaims:
    if answer.text is None:
        return RowClaims(row.index, (), source, answer.error or "no answer")
    return parse_claims(row, answer.text, source, answer.is_cut_off)
