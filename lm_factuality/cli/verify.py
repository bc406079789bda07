"""What ``lm-factuality verify`` does: a judge says whether passages support claims."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from judges.config import JudgeConfig
from judges.judge import Judge
from judges.verify import (
    NOT_SUPPORTED,
    PROMPT,
    SUPPORTED,
    UNSCORED,
    Pair,
    Verification,
    verify,
)
from lm_factuality.benchmarks.biographies.matrix import (
    TOP_LOGPROBS,
    TRUE_FALSE,
    judgement_from_logprobs,
)
from lm_factuality.cli.judge import print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError, reasons_of
from lm_factuality.ground.files import check_writable, write_lines
from lm_factuality.ground.records import read_lines, to_model


class VerifyPassage(BaseModel, strict=True):
    """A passage of a line, if it is no text alone."""

    text: str
    title: str | None = None

    def __str__(self) -> str:
        title = " ".join((self.title or "").split())
        return f"Title: {title}\n{self.text}" if title else self.text


class VerifyLine(BaseModel, strict=True):
    """A line of the file. Other keys are copied to the output."""

    claim: str
    passages: list[str | VerifyPassage]


def verify_file(
    path: Path, config: JudgeConfig, out: Path, store: Path | None, dry_run: bool
) -> None:
    """Have a judge verify the pairs of a file, write its verdicts and print a summary.

    Args:
        path: JSONL of claims and passages.
        out: JSONL to write.
        dry_run: Whether to print only what the judge would be asked.

    Raises:
        DataError: A line cannot be read. Nothing is asked then.
        BackendDownError: The judge has no verdict at all.
    """
    expected = "expected JSONL of claim and passages"
    advice = "Nothing was asked; fix these lines and try again."
    lines = read_lines(path, _parse, expected, advice)
    if not lines:
        raise DataError(f"{path}: no lines; {expected}")
    pairs = [pair for _, pair in lines]
    decide = _by_logprobs if config.verdicts == "logprobs" else verify
    with Judge.open(config, store=store) as judge:
        if dry_run:
            planned = judge.plan(lambda asked: decide(asked, pairs))
            print_plans(path.name, config.name, [(PROMPT, planned)])
            return
        if out.is_dir():
            raise ConfigError(f"--out {out}: is a folder, expected a file")
        check_writable(out.parent, "verdicts")
        verdicts = decide(judge, pairs)
        errors = judge.usage.errors
    rows = []
    for (content, _), verdict in zip(lines, verdicts, strict=True):
        rows.append(json.dumps({**content, **asdict(verdict)}, ensure_ascii=False))
    write_lines(out, rows)
    _print_summary(verdicts, out, config.name)
    if errors and all(verdict.verdict == UNSCORED for verdict in verdicts):
        raise BackendDownError(
            f"judge {config.name}: nothing has a verdict, the first: {verdicts[0].reason}"
        )


def _by_logprobs(judge: Judge, pairs: Sequence[Pair]) -> list[Verification]:
    """Verify pairs by how probable True and False are as the first word of an answer.

    This is for judges with ``verdicts: logprobs``.
    """
    subjects = [{**pair.subject, "choices": TRUE_FALSE} for pair in pairs if not pair.problem]
    answers = iter(
        judge.ask("verify_true_false", subjects, "verifying", samples=1, top_logprobs=TOP_LOGPROBS)
    )
    verdicts = []
    for pair in pairs:
        if pair.problem:
            verdicts.append(Verification(UNSCORED, None, pair.problem))
            continue
        (answer,) = next(answers)
        reading = judgement_from_logprobs(answer)
        outcome = UNSCORED if reading.outcome == "irrelevant" else reading.outcome
        said = () if answer.text is None else (answer.text,)
        verdicts.append(Verification(outcome, reading.score, reading.reason, said))
    return verdicts


def _parse(content: Any) -> tuple[dict[str, Any], Pair]:
    """Check a line of the file, and return it as it is and as a pair for the judge."""
    line = to_model(VerifyLine, content)
    taken = [field.name for field in fields(Verification) if field.name in content]
    if taken:
        raise ValueError(
            f"has {', '.join(taken)} already, which the output would replace; rename or drop it"
        )
    # Half a surrogate pair, which no file can hold, is an error before anybody is asked.
    json.dumps(content, ensure_ascii=False).encode()
    return content, Pair(line.claim, tuple(map(str, line.passages)))


def _print_summary(verdicts: Sequence[Verification], path: Path, judge: str) -> None:
    total = len(verdicts)
    counts = Counter(verdict.verdict for verdict in verdicts)
    notes = []
    if counts[UNSCORED]:
        low = counts[SUPPORTED] / total
        high = (counts[SUPPORTED] + counts[UNSCORED]) / total
        notes.append(
            f"supported: {low:.1%} if none of the unscored pairs is, {high:.1%} if all are"
        )
    notes.append(f"verdicts: {path}")
    unscored = [verdict.reason for verdict in verdicts if verdict.verdict == UNSCORED]
    notes += map(str, reasons_of(unscored))
    rows = []
    for name in (SUPPORTED, NOT_SUPPORTED, UNSCORED):
        rows.append((name, str(counts[name]), f"{counts[name] / total:.1%}"))
    print_table(f"{total:,} pairs judged by {judge}", ("verdict", "#pairs", "#share"), rows, notes)
