"""A judge works through FELM: every row asked in one setting, every answer read; and claims extracted (appendix D, table 5)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judges.answers import Answer
from judges.judge import Judge
from lm_factuality.benchmarks.felm.authors import AuthorsPrompts
from lm_factuality.benchmarks.felm.claims import ClaimsReply, RowClaims, check_claims, read_text, to_claims
from lm_factuality.benchmarks.felm.counts import JudgedResponse
from lm_factuality.benchmarks.felm.questions import CLAIM_PROMPT, Question, Questioner, extraction_subject
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.benchmarks.felm.verdicts import judge_response

AS_GIVEN = "felm/as_given"
_NO_CLAIMS = "no claims for this row"


def judge_rows(
    judge: Judge,
    rows: Sequence[FelmRow],
    questioner: Questioner,
    claims: Mapping[str, RowClaims],
    authors: AuthorsPrompts | None = None,
) -> list[JudgedResponse]:
    """Every row with the judge's verdict; several samples of a judge are voted on. ``authors`` are prompts to use instead of the
    suite's."""
    questions = _questions(rows, questioner, claims, authors)
    answers: dict[str, list[Answer]] = {}
    for prompt, indices in _by_prompt(questions).items():
        subjects = [questions[index].subject for index in indices]
        answers |= zip(indices, judge.ask(prompt, subjects, f"FELM, {prompt}"), strict=True)
    return [_read(row, questioner, claims.get(row.index), answers.get(row.index)) for row in rows]


def extract_claims(
    judge: Judge, rows: Sequence[FelmRow], max_tokens: int, authors: AuthorsPrompts | None = None
) -> list[RowClaims]:
    """The claims of every row; a row whose answer cannot be used has a problem instead. ``authors`` are prompts to use instead of
    the suite's."""
    prompt, subjects = _extractions(rows, authors)
    if authors is None:
        read = judge.ask_typed(prompt, ClaimsReply, subjects, "claims", check_claims, samples=1, max_tokens=max_tokens)
    else:
        answers = judge.ask(prompt, subjects, "claims", samples=1, max_tokens=max_tokens)
        read = [[read_text(answer, subject)] for subject, (answer,) in zip(subjects, answers, strict=True)]
    return [to_claims(row, reply, judge.name) for row, (reply,) in zip(rows, read, strict=True)]


def _questions(
    rows: Sequence[FelmRow], questioner: Questioner, claims: Mapping[str, RowClaims], authors: AuthorsPrompts | None
) -> dict[str, Question]:
    usable = [row for row in rows if questioner.unit_of(row) == "segment" or _has_claims(claims.get(row.index))]
    questions = {row.index: questioner.ask(row, claims.get(row.index)) for row in usable}
    if authors is None:
        return questions
    return {row.index: _as_given(questions[row.index], authors.render(row, questions[row.index])) for row in usable}


def _as_given(question: Question, text: str) -> Question:
    return replace(question, prompt=AS_GIVEN, subject={**question.subject, "text": text})


def _has_claims(claims: RowClaims | None) -> bool:
    return claims is not None and claims.problem is None and bool(claims.numbered())


def _by_prompt(questions: Mapping[str, Question]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for index, question in questions.items():
        grouped[question.prompt].append(index)
    return grouped


def _read(row: FelmRow, questioner: Questioner, claims: RowClaims | None, answers: Sequence[Answer] | None) -> JudgedResponse:
    if answers is None:
        return judge_response(row.index, row.domain, row.labels, (), problem=_NO_CLAIMS)
    texts = [answer for answer in answers if answer.text is not None]
    by_claims = questioner.unit_of(row) == "claim" and claims is not None
    return judge_response(
        row.index,
        row.domain,
        row.labels,
        [answer.text or "" for answer in texts],
        owners=claims.owners() if by_claims and claims else None,
        protocol=questioner.protocol,
        problem=None if texts else answers[0].error or "no answer",
        cut_off=[answer.is_cut_off for answer in texts],
    )


def _extractions(rows: Sequence[FelmRow], authors: AuthorsPrompts | None) -> tuple[str, list[dict[str, Any]]]:
    subjects = [extraction_subject(row) for row in rows]
    if authors is None:
        return CLAIM_PROMPT, subjects
    return AS_GIVEN, [
        {**subject, "text": authors.render_extraction(row, subject)} for row, subject in zip(rows, subjects, strict=True)
    ]
