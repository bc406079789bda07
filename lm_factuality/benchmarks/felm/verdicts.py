"""What a judge's output says: which segments (or claims) hold errors, or why it is unscored; and
saved outputs of a judge, lm_eval's samples or JSONL of ``index, output``.

``paper`` reads by the grammar that the prompts state (``grammar.py``) and leaves all else unscored,
with the reason. ``code`` reads as the authors' script: what it cannot find is "no errors", ids
above the number of units are dropped, and the id 0 flags the last unit."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, Field

from judges.answers import Answer
from lm_factuality.benchmarks.felm import grammar
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.thinking import UNFINISHED, plain, without_thinking

PROTOCOLS = ("paper", "code")
EMPTY = "empty output"
_EXPECTED = "expected lm_eval's samples or lines with index and output"
# The most that Python reads into one number. The script itself fails on longer ones.
_SCRIPT_DIGITS = 4000


@dataclass(frozen=True)
class JudgedResponse:
    """A response as its judge sees it."""

    domain: str

    errors: tuple[bool, ...]
    """Whether each segment holds an error."""

    flagged: tuple[bool, ...] | None
    """Whether the judge says so of each, or None without a verdict."""

    reason: str | None = None
    """Why there is no verdict."""


def judge_response(
    domain: str,
    labels: Sequence[bool],
    answers: Iterable[Answer] = (),
    owners: Sequence[int] = (),
    problem: str = "",
    protocol: str = "paper",
) -> JudgedResponse:
    """Read what a judge says of a response.

    Args:
        domain: The response's.
        labels: Whether each segment is factual.
        answers: What the judge wrote: one output, or several to vote on.
        owners: The 1-based segment of each claim, where claims were judged.
        problem: Why the judge was not asked, if it was not.
        protocol: ``paper`` or ``code``.
    """
    errors = tuple(not label for label in labels)
    units = problem or read_answers(list(answers), len(owners or labels), protocol)
    if isinstance(units, str):
        return JudgedResponse(domain, errors, None, units)
    if owners:  # a segment is wrong if any claim of it is
        units = frozenset(owners[claim - 1] for claim in units)
    return JudgedResponse(
        domain, errors, tuple(place in units for place, _ in enumerate(errors, 1))
    )


def read_answers(answers: Sequence[Answer], num_units: int, protocol: str) -> grammar.Reading:
    """Read one verdict from all answers that have a text."""
    verdicts = [
        read_verdict(answer.text, num_units, protocol, answer.is_cut_off)
        for answer in answers
        if answer.text is not None
    ]
    if answers and not verdicts:
        return answers[0].error or "no answer"
    return verdicts[0] if len(verdicts) == 1 else vote(verdicts)


def read_verdict(
    output: str, num_units: int, protocol: str = "paper", is_cut_off: bool = False
) -> grammar.Reading:
    """Read which of the units 1 to ``num_units`` hold errors by an output, or why it does not say.

    If the model stopped for want of tokens (``is_cut_off``), an answer before that still counts.
    """
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


def _to_texts(output: Any) -> Any:
    """Return the outputs of a line as one list; of lm_eval's samples each request has a list."""
    if not isinstance(output, list):
        return ["" if output is None else output]
    texts = []
    for item in output:
        texts += item if isinstance(item, list) else [item]
    return texts


class JudgeOutput(BaseModel):
    """What a judge wrote about a row: a line of lm_eval's samples, or a line of bare outputs.

    A server may send null, which is read as an empty output.
    """

    index: str = Field(
        validation_alias=AliasChoices("index", AliasPath("doc", "index")),
        coerce_numbers_to_str=True,
    )
    domain: str | None = Field(
        None, validation_alias=AliasChoices("domain", AliasPath("doc", "domain"))
    )
    outputs: Annotated[list[str], BeforeValidator(_to_texts)] = Field(
        validation_alias=AliasChoices("output", "resps")
    )
    owners: list[int] = Field([], validation_alias=AliasPath("doc", "owners"))
    problem: str = Field("", validation_alias=AliasPath("doc", "problem"))


def judge_outputs(path: Path, rows: Sequence[FelmRow], protocol: str) -> list[JudgedResponse]:
    """Read what saved outputs say of every row.

    Raises:
        DataError: The file cannot be read, or has lines that are neither form, or about rows that
            do not exist, are of another domain, or come twice. All of them are named.
    """
    row_by_index = {row.index: row for row in rows}
    judged: dict[str, JudgedResponse] = {}

    def parse(record: Any) -> None:
        line = to_model(JudgeOutput, record)
        row = row_by_index.get(line.index)
        if row is None:
            raise ValueError(f"no row has the index {line.index!r}; the data has {len(rows)} rows")
        if line.domain not in (None, row.domain):
            raise ValueError(
                f"row {line.index} is of domain {row.domain!r}, found {line.domain!r}; are these"
                " outputs about other data?"
            )
        if line.index in judged:
            raise ValueError(f"row {line.index!r} appears twice; keep one output per row")
        answers = map(Answer, line.outputs)
        judged[line.index] = judge_response(
            row.domain, row.labels, answers, line.owners, line.problem, protocol
        )

    read_lines(path, parse, _EXPECTED)
    if not judged:
        raise DataError(f"{path}: no outputs; {_EXPECTED}")
    for row in rows:
        absent = judge_response(row.domain, row.labels, problem="no output for this row")
        judged.setdefault(row.index, absent)
    return [judged[row.index] for row in rows]
