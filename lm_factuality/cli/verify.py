"""Have a judge say whether the passages of a file support its claims.

``lm-factuality verify`` calls `verify_file`.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from judges.answers import Answer
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
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError, count_reasons
from lm_factuality.ground.files import check_writable, write_lines
from lm_factuality.ground.records import read_lines, to_model


class VerifyPassage(BaseModel, strict=True):
    """A passage with a title. A passage without one can be a plain text in the file."""

    text: str
    """The text that may support the claim."""

    title: str | None = None
    """The title of the page, which the judge reads above the text."""

    def __str__(self) -> str:
        """Format the passage for the judge, for example "Title: Bridge\\nIt is of iron."."""
        title = " ".join((self.title or "").split())
        return f"Title: {title}\n{self.text}" if title else self.text


class VerifyLine(BaseModel, strict=True):
    """A line of the input file. Keys that are not listed here are copied to the output."""

    claim: str
    """The sentence to verify."""

    passages: list[str | VerifyPassage]
    """The passages that may support the claim, best first."""


def verify_file(
    path: Path, config: JudgeConfig, out: Path | None, store: Path | None, dry_run: bool
) -> None:
    """Have a judge verify the claims of a file, write its verdicts and print a summary.

    Args:
        path: The JSONL file with a claim and its passages per line.
        config: The judge.
        out: The JSONL file to write, with a verdict per line; None for a dry run.
        store: The SQLite file that keeps the judge's answers. None means the shared store.
        dry_run: Whether to only print how many requests the judge would get.

    Raises:
        DataError: A line cannot be read. The judge is not asked then.
        ConfigError: ``out`` is a folder.
        BackendDownError: The judge gave no verdict at all.
    """
    expected = "expected JSONL of claim and passages"
    advice = "Nothing was asked; fix these lines and try again."
    lines = read_lines(path, _parse_line, expected, advice)
    if not lines:
        raise DataError(f"{path}: no lines; {expected}")
    pairs = [line.pair for line in lines]
    verify_pairs = _verify_by_logprobs if config.verdicts == "logprobs" else verify

    with Judge.open(config, store=store) as judge:
        if dry_run:
            planned = judge.plan(lambda planning_judge: verify_pairs(planning_judge, pairs))
            print_plans(path.name, config, [(PROMPT, planned)])
            return
        assert out is not None, "the command requires it"
        if out.is_dir():
            raise ConfigError(f"--out {out}: is a folder, expected a file")
        check_writable(out.parent, "verdicts")
        verdicts = verify_pairs(judge, pairs)
        errors = judge.usage.errors

    _write_verdicts(out, lines, verdicts)
    _print_summary(verdicts, out, config.name)
    # Some verdicts are better than none: only a judge that gave none is an error.
    if errors and all(verdict.verdict == UNSCORED for verdict in verdicts):
        raise BackendDownError(
            f"judge {config.name}: no pair got a verdict; the first error is: {verdicts[0].reason}"
        )


class _ParsedLine(NamedTuple):
    """A line of the input file and the question that it asks the judge."""

    content: Mapping[str, Any]
    """The line as it is in the file, with all its keys."""

    pair: Pair
    """The claim and its passages, as the judge reads them."""


def _parse_line(content: dict[str, Any]) -> _ParsedLine:
    """Check a line of the input file and turn it into a question for the judge.

    Example:
        ``{"claim": "It is iron.", "passages": ["It is of iron."]}`` becomes
        ``Pair("It is iron.", ("It is of iron.",))``.

    Raises:
        ValueError: The line lacks a key, or has a key of the output.
    """
    line = to_model(VerifyLine, content)
    output_keys = [field.name for field in fields(Verification) if field.name in content]
    if output_keys:
        raise ValueError(
            f"has {', '.join(output_keys)} already, which the output would replace; rename or"
            " drop it"
        )
    # A lone surrogate such as "\ud83d" cannot be written: this line fails before the judge is paid.
    json.dumps(content, ensure_ascii=False).encode()
    return _ParsedLine(content, Pair(line.claim, tuple(map(str, line.passages))))


def _write_verdicts(
    out: Path, lines: Sequence[_ParsedLine], verdicts: Sequence[Verification]
) -> None:
    """Write each line of the input file again, with the keys of its verdict added."""
    output_lines = []
    for line, verdict in zip(lines, verdicts, strict=True):
        content = {**line.content, **asdict(verdict)}
        output_lines.append(json.dumps(content, ensure_ascii=False))
    write_lines(out, output_lines)


def _verify_by_logprobs(judge: Judge, pairs: Sequence[Pair]) -> list[Verification]:
    """Verify claims by the probabilities of "True" and "False" as the first word of an answer.

    A pair that has a ``problem``, such as one without passages, is unscored and not sent.
    """
    # Pairs with a problem keep this verdict.
    verdicts = [Verification(UNSCORED, None, pair.problem) for pair in pairs]
    askable = [number for number, pair in enumerate(pairs) if not pair.problem]
    subjects = [{**pairs[number].subject, "choices": TRUE_FALSE} for number in askable]
    answers_by_pair = judge.ask(
        "verify_true_false", subjects, "verifying", samples=1, top_logprobs=TOP_LOGPROBS
    )
    for number, answers in zip(askable, answers_by_pair, strict=True):
        # One sample was requested, so there is one answer.
        verdicts[number] = _verdict_of_answer(answers[0])
    return verdicts


def _verdict_of_answer(answer: Answer) -> Verification:
    """Read the probability of "True" as the first word of an answer."""
    judgement = judgement_from_logprobs(answer)
    # An answer with neither "True" nor "False" says nothing about the claim.
    verdict = UNSCORED if judgement.outcome == "irrelevant" else judgement.outcome
    texts = () if answer.text is None else (answer.text,)
    return Verification(verdict, judgement.score, judgement.reason, texts)


def _print_summary(verifications: Sequence[Verification], path: Path, judge: str) -> None:
    """Print how many claims are supported, unsupported and unscored, and why they are unscored.

    Args:
        verifications: The judged pairs, at least one. A pair is unscored if the judge gave no
            usable reply.
        path: The file that holds the verdicts.
        judge: The name of the judge.
    """
    total = len(verifications)
    counts = Counter(verification.verdict for verification in verifications)
    rows = []
    for verdict in (SUPPORTED, NOT_SUPPORTED, UNSCORED):
        rows.append((verdict, str(counts[verdict]), f"{counts[verdict] / total:.1%}"))

    notes = []
    if counts[UNSCORED]:
        # The unscored pairs could all be unsupported, or all be supported.
        lowest_share = counts[SUPPORTED] / total
        highest_share = (counts[SUPPORTED] + counts[UNSCORED]) / total
        notes.append(
            f"supported: {lowest_share:.1%} if none of the unscored pairs is,"
            f" {highest_share:.1%} if all are"
        )
    notes.append(f"verdicts: {path}")
    unscored = [pair.reason for pair in verifications if pair.verdict == UNSCORED]
    for reason in count_reasons(unscored):
        notes.append(str(reason))
    print_table(f"{total:,} pairs judged by {judge}", ("verdict", "#pairs", "#share"), rows, notes)
