"""``lm-factuality verify``: whether passages support claims, as a judge sees it."""

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judges.config import load_judge_config
from judges.judge import Judge
from judges.verify import NOT_SUPPORTED, PROMPT, SUPPORTED, UNSCORED, Pair, Verification, plan
from judges.verify import verify as verify_pairs
from lm_factuality.benchmarks.biographies.matrix import CHOICES, TOP_LOGPROBS, read_by_logprobs
from lm_factuality.benchmarks.rows import snippet
from lm_factuality.cli.judge import print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown, ConfigError, DataError, reasons_of
from lm_factuality.ground.files import check_writable, write_lines
from lm_factuality.ground.records import read_lines

_WRITTEN = ("verdict", "score", "reason", "said")
_SHOWN = 3  # pairs of which the screen tells what the judge said


def verify(parsed: argparse.Namespace) -> None:
    config = load_judge_config(parsed.judge)
    if parsed.max_cost is not None:
        config = dataclasses.replace(config, max_cost=parsed.max_cost)
    expected = "expected JSONL of claim and passages"
    lines = read_lines(
        parsed.pairs, _parse, expected, "Nothing was asked; fix these lines and try again."
    )
    if not lines:
        raise DataError(f"{parsed.pairs}: no lines; {expected}")
    pairs = [pair for _, pair in lines]
    by_logprobs = config.verdicts == "logprobs"
    with Judge.open(config, store=parsed.store) as judge:
        if parsed.dry_run:
            planned = (
                judge.rehearse(lambda asked: _by_logprobs(asked, pairs))
                if by_logprobs
                else plan(judge, pairs)
            )
            print_plans(parsed.pairs.name, config.name, [(PROMPT, planned)])
            return
        if parsed.out.is_dir():
            raise ConfigError(f"--out {parsed.out}: is a folder, expected a file")
        check_writable(parsed.out.parent, "verdicts")
        found = _by_logprobs(judge, pairs) if by_logprobs else verify_pairs(judge, pairs)
        errors = judge.usage.errors
    rows = (
        {**content, **dataclasses.asdict(each)}
        for (content, _), each in zip(lines, found, strict=True)
    )
    write_lines(parsed.out, (json.dumps(row, ensure_ascii=False) for row in rows))
    _print_summary(found, parsed.out, config.name)
    if errors and all(each.verdict == UNSCORED for each in found):
        raise BackendDown(
            f"judge {config.name}: nothing has a verdict, the first: {found[0].reason}"
        )


def _by_logprobs(judge: Judge, pairs: Sequence[Pair]) -> list[Verification]:
    """Verdicts by how probable True and False are as the first word of an answer, for judges with
    ``verdicts: logprobs``."""
    subjects = [{**pair.subject, "choices": CHOICES} for pair in pairs if not pair.problem]
    answers = iter(
        judge.ask("verify_true_false", subjects, "verifying", samples=1, top_logprobs=TOP_LOGPROBS)
    )
    found = []
    for pair in pairs:
        if pair.problem:
            found.append(Verification(UNSCORED, None, pair.problem))
            continue
        (answer,) = next(answers)
        read = read_by_logprobs(answer)
        verdict = UNSCORED if read.outcome == "irrelevant" else read.outcome
        found.append(
            Verification(
                verdict, read.score, read.reason, () if answer.text is None else (answer.text,)
            )
        )
    return found


def _parse(content: Any) -> tuple[dict[str, Any], Pair]:
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004
            f"found {type(content).__name__}, expected an object with claim and passages"
        )
    for key, kind, what in (
        ("claim", str, "a text"),
        ("passages", list, "a list of texts, or of objects with text and title"),
    ):
        if not isinstance(content.get(key), kind):
            shown = f"found {type(content[key]).__name__}" if key in content else "missing"
            raise ValueError(f"{key}: {shown}, expected {what}")  # noqa: TRY004
    if taken := [key for key in _WRITTEN if key in content]:
        raise ValueError(
            f"has {', '.join(taken)} already, which the output would replace; rename or drop it"
        )
    passages = [_passage(each) for each in content["passages"]]
    if None in passages:
        raise ValueError(
            f"passages[{passages.index(None)}]: expected a text, or an object with text (and title)"
        )
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half a surrogate pair, which is not valid text") from error
    return content, Pair(content["claim"], tuple(each for each in passages if each is not None))


def _passage(value: object) -> str | None:
    match value:
        case str():
            return value
        case {"text": str(text), "title": str(title)} if title.strip():
            return f"Title: {' '.join(title.split())}\n{text}"
        case {"text": str(text), **rest} if not rest.get("title"):
            return text
    return None


def _print_summary(found: Sequence[Verification], path: Path, judge: str) -> None:
    counts = Counter(each.verdict for each in found)
    named = [(verdict, counts[verdict]) for verdict in (SUPPORTED, NOT_SUPPORTED, UNSCORED)]
    notes = [
        f"verdicts: {path}",
        *map(str, reasons_of(each.reason for each in found if each.verdict == UNSCORED)),
    ]
    if counts[UNSCORED]:
        low, high = (
            counts[SUPPORTED] / len(found),
            (counts[SUPPORTED] + counts[UNSCORED]) / len(found),
        )
        notes.insert(
            0, f"supported: {low:.1%} if none of the unscored pairs is, {high:.1%} if all are"
        )
    for number, each in enumerate(found[:_SHOWN], 1):
        score = "" if each.score is None else f" ({each.score:.2f})"
        wrote = f"; the judge wrote: {snippet(each.said[0])}" if each.said else ""
        notes.append(f"pair {number}: {each.verdict}{score}: {each.reason}{wrote}")
    rows = [(name, str(count), f"{count / len(found):.1%}") for name, count in named]
    print_table(
        f"{len(found):,} pairs judged by {judge}", ("verdict", "#pairs", "#share"), rows, notes
    )
