"""A judge works through FELM: every row asked in one setting, every answer read; and claims extracted (appendix D, table 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from judges.answers import Answer
from judges.judge import Judge
from lm_factuality.benchmarks.felm.authors import AuthorsPrompts
from lm_factuality.benchmarks.felm.claims import ClaimsReply, RowClaims, check_claims, read_text, to_claims
from lm_factuality.benchmarks.felm.questions import CLAIM_PROMPT, Question, Questioner, extraction_subject
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response

AS_GIVEN = "felm/as_given"


def judge_rows(
    judge: Judge,
    rows: Sequence[FelmRow],
    questioner: Questioner,
    claims: Mapping[str, RowClaims],
    authors: AuthorsPrompts | None = None,
) -> list[JudgedResponse]:
    """Every row with the judge's verdict; several samples of a judge are voted on. ``authors`` are prompts to use instead of the
    suite's."""
    questions: dict[str, Question] = {}
    for row in rows:
        own = claims.get(row.index)
        if questioner.unit_of(row) == "segment" or (own and own.problem is None and own.numbered()):
            asked = questioner.ask(row, own)
            as_given = authors and replace(asked, prompt=AS_GIVEN, subject={**asked.subject, "text": authors.render(row, asked)})
            questions[row.index] = as_given or asked
    answers: dict[str, Sequence[Answer]] = {}
    for prompt in dict.fromkeys(question.prompt for question in questions.values()):
        subjects = {index: question.subject for index, question in questions.items() if question.prompt == prompt}
        answers |= zip(subjects, judge.ask(prompt, list(subjects.values()), f"FELM, {prompt}"), strict=True)
    return [_read(row, questioner, claims.get(row.index), answers.get(row.index)) for row in rows]


def extract_claims(
    judge: Judge, rows: Sequence[FelmRow], max_tokens: int, authors: AuthorsPrompts | None = None
) -> list[RowClaims]:
    """The claims of every row; a row whose answer cannot be used has a problem instead. ``authors`` are prompts to use instead of
    the suite's."""
    subjects = [extraction_subject(row) for row in rows]
    if authors is None:
        read = judge.ask_typed(CLAIM_PROMPT, ClaimsReply, subjects, "claims", check_claims, samples=1, max_tokens=max_tokens)
    else:
        pairs = zip(rows, subjects, strict=True)
        subjects = [{**subject, "text": authors.render_extraction(row, subject)} for row, subject in pairs]
        answers = judge.ask(AS_GIVEN, subjects, "claims", samples=1, max_tokens=max_tokens)
        read = [[read_text(answer, subject)] for subject, (answer,) in zip(subjects, answers, strict=True)]
    return [to_claims(row, reply, judge.name) for row, (reply,) in zip(rows, read, strict=True)]


def _read(row: FelmRow, questioner: Questioner, claims: RowClaims | None, answers: Sequence[Answer] | None) -> JudgedResponse:
    if answers is None:
        return judge_response(row.index, row.domain, row.labels, (), problem="no claims for this row")
    texts = [answer for answer in answers if answer.text is not None]
    return judge_response(
        row.index,
        row.domain,
        row.labels,
        [answer.text or "" for answer in texts],
        owners=claims.owners() if claims and questioner.unit_of(row) == "claim" else None,
        protocol=questioner.protocol,
        problem=None if texts else answers[0].error or "no answer",
        cut_off=[answer.is_cut_off for answer in texts],
    )
