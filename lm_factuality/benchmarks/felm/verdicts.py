"""What a judge's output says: which segments (or claims) hold errors, or why it is unscored; and
saved outputs of a judge, lm_eval's samples or JSONL of ``index, domain, output``.

``paper`` reads by the grammar that the prompts state (``grammar.py``) and leaves all else unscored,
with the reason. ``code`` reads as the authors' script: what it cannot find is "no errors", ids
above the number of units are dropped, and the id 0 flags the last unit."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from lm_factuality.benchmarks.felm import grammar
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.thinking import UNFINISHED, plain, without_thinking

PROTOCOLS = ("paper", "code")
EMPTY = "empty output"
_EXPECTED = "expected lm_eval's samples or lines with index, domain and output"
# The most that Python reads into one number. The script itself fails on longer ones.
_SCRIPT_DIGITS = 4000


@dataclass(frozen=True)
class JudgedResponse:
    """A response as its judge sees it."""

    index: str
    domain: str

    errors: tuple[bool, ...]
    """Whether each segment holds an error."""

    flagged: tuple[bool, ...] | None
    """Whether the judge says so of each, or None without a verdict."""

    reason: str | None = None
    """Why there is no verdict."""


@dataclass(frozen=True)
class Outputs:
    """What a judge wrote about one response."""

    texts: Sequence[str] = ()
    """One output, or several to vote on."""

    owners: Sequence[int] | None = None
    """The 1-based segment of each claim, where claims were judged."""

    problem: str | None = None
    """Why the judge was not asked."""

    cut_off: Sequence[bool] = ()
    """Whether each text ended for want of tokens. None did by default."""


def judge_response(
    index: str, domain: str, labels: Sequence[bool], outputs: Outputs, protocol: str = "paper"
) -> JudgedResponse:
    """Read what a judge says of a response.

    Args:
        index: The response's.
        domain: The response's.
        labels: Whether each segment is factual.
        outputs: What the judge wrote.
        protocol: ``paper`` or ``code``.
    """
    unscored = JudgedResponse(index, domain, tuple(not label for label in labels), None)
    if outputs.problem:
        return replace(unscored, reason=outputs.problem)
    owners = outputs.owners
    num_units = len(labels) if owners is None else len(owners)
    cut_off = outputs.cut_off or [False] * len(outputs.texts)
    verdicts = [
        read_verdict(text, num_units, protocol, is_cut_off)
        for text, is_cut_off in zip(outputs.texts, cut_off, strict=True)
    ]
    units = verdicts[0] if len(verdicts) == 1 else vote(verdicts)
    if isinstance(units, str):
        return replace(unscored, reason=units)
    if owners is not None:  # a segment is wrong if any claim of it is
        units = frozenset(owners[claim - 1] for claim in units)
    return replace(unscored, flagged=tuple(place + 1 in units for place in range(len(labels))))


def read_verdict(
    output: str, num_units: int, protocol: str = "paper", is_cut_off: bool = False
) -> grammar.Reading:
    """Which of the units 1 to ``num_units`` hold errors by ``output``, or why it does not say.
    ``is_cut_off``: the model stopped for want of tokens; an answer before that still counts."""
    answer = without_thinking(output)
    if answer is None:
        return UNFINISHED
    if protocol == "code":
        return _as_the_script(answer, num_units)
    text = plain(answer)
    return grammar.read(text, num_units, is_cut_off) if text else EMPTY


def vote(verdicts: Sequence[grammar.Reading]) -> grammar.Reading:
    """Return the verdicts on several outputs as one (self-consistency, appendix G of the paper).

    A unit is flagged if more than half of the readable outputs flag it, so a tie does not flag.

    Returns:
        The flagged units, or the reason why no output can be read.
    """
    if not verdicts:
        return "no output"
    ballots = [verdict for verdict in verdicts if not isinstance(verdict, str)]
    if not ballots:
        return f"none of {len(verdicts)} outputs can be read, the first: {verdicts[0]}"
    votes = Counter(chain.from_iterable(ballots))
    return frozenset(unit for unit, count in votes.items() if 2 * count > len(ballots))


def _as_the_script(output: str, num_units: int) -> frozenset[int]:
    if "ALL_CORRECT" in output or "Answer: " not in output:
        return frozenset()
    digits = re.findall(r"\d+", output.split("Answer: ", 1)[1])
    listed = [int(number) for number in digits if len(number) <= _SCRIPT_DIGITS]
    return frozenset(number or num_units for number in listed if number <= num_units)


class _Line(BaseModel):
    """A line of bare outputs. A server may send null, which is read as an empty output."""

    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    domain: str
    output: str | list[str] | None


class _Doc(BaseModel):
    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    domain: str
    owners: list[int] = []
    problem: str = ""


class _Sample(BaseModel):
    """A line of lm_eval's samples, which hold the responses by request."""

    doc: _Doc
    resps: list[list[str]]


def read_outputs(path: Path, rows: Sequence[FelmRow]) -> dict[str, Outputs]:
    """Read outputs by the index of their row.

    Raises:
        DataError: The file cannot be read, or has lines that are neither form, or about rows that
            do not exist, are of another domain, or come twice. All of them are named.
    """
    domains = {row.index: row.domain for row in rows}
    outputs: dict[str, Outputs] = {}

    def parse(record: Any) -> None:
        row: _Doc | _Line
        if isinstance(record, Mapping) and isinstance(record.get("doc"), Mapping):
            sample = to_model(_Sample, record)
            row = sample.doc
            texts = [] if row.problem else list(chain.from_iterable(sample.resps))
            read = Outputs(texts, row.owners or None, row.problem or None)
        else:
            row = to_model(_Line, record)
            read = Outputs(row.output if isinstance(row.output, list) else [row.output or ""])
        index = row.index
        if index not in domains:
            raise ValueError(f"no row has the index {index!r}; the data has {len(domains)} rows")
        if row.domain != domains[index]:
            raise ValueError(f"row {index} is of domain {domains[index]!r}, found {row.domain!r}")
        if index in outputs:
            raise ValueError(f"row {index!r} appears twice; keep one output per row")
        outputs[index] = read

    read_lines(path, parse, _EXPECTED)
    if not outputs:
        raise DataError(f"{path}: no outputs; {_EXPECTED}")
    return outputs


def judge_outputs(
    rows: Sequence[FelmRow], outputs: Mapping[str, Outputs], protocol: str
) -> list[JudgedResponse]:
    """Read what the outputs say of every row."""
    absent = Outputs(problem="no output for this row")
    return [
        judge_response(row.index, row.domain, row.labels, outputs.get(row.index, absent), protocol)
        for row in rows
    ]
