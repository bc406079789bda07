"""The verdicts in a judge's outputs: which segments of a response it says contain errors.

FELM's tasks and certificates read verdicts here, and ``lm-factuality score felm`` reads whole
files of saved outputs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, Field

from judges.answers import Answer
from lm_factuality.benchmarks.felm.grammar import UnitsOrReason, find_flagged_units
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.thinking import UNFINISHED, plain_answer, without_thinking

EMPTY = "empty output"
_EXPECTED = "expected lm_eval's samples or lines with index and output"

# Python refuses to convert longer numbers. The authors' script fails on them.
_SCRIPT_DIGITS = 4000


@dataclass(frozen=True)
class JudgedResponse:
    """A response of FELM with its labels and a judge's verdict on it."""

    domain: str
    """The domain of FELM."""

    errors: tuple[bool, ...]
    """Whether each segment contains an error, by the annotators."""

    flagged: tuple[bool, ...] | None
    """Whether the judge says that each segment contains an error. None without a verdict."""

    reason: str | None = None
    """Why there is no verdict, or None if there is one."""


def read_judged_response(
    domain: str,
    labels: Sequence[bool],
    answers: Iterable[Answer] = (),
    segment_of_claim: Sequence[int] = (),
    problem: str = "",
    protocol: str = "paper",
) -> JudgedResponse:
    """Read a judge's verdict on one response from the judge's answers.

    Args:
        domain: The domain of the response.
        labels: Whether each segment is factual, by the annotators.
        answers: The outputs of the judge. If there are several, the majority decides.
        segment_of_claim: The 1-based segment of each claim if claims were judged, otherwise
            empty.
        problem: Why the judge was not asked. Empty if it was.
        protocol: ``paper``, or ``code`` to read the outputs as the authors' script does.

    Returns:
        The response with a flag for each segment, or with the reason why there is no verdict.
    """
    errors = tuple(not label for label in labels)
    if problem:
        return JudgedResponse(domain, errors, None, problem)

    # The numbers in an answer are those of claims if the judge was shown claims.
    num_units = len(segment_of_claim or labels)
    units = combine_answers(list(answers), num_units, protocol)
    # A text is the reason why the answers give no verdict.
    if isinstance(units, str):
        return JudgedResponse(domain, errors, None, units)

    flagged_segments = units
    if segment_of_claim:
        # A segment is wrong if any of its claims is.
        flagged_segments = frozenset(segment_of_claim[claim - 1] for claim in units)
    flagged = tuple(segment in flagged_segments for segment in range(1, len(errors) + 1))
    return JudgedResponse(domain, errors, flagged)


def combine_answers(answers: Sequence[Answer], num_units: int, protocol: str) -> UnitsOrReason:
    """Combine a judge's answers to one question into a single verdict by majority vote.

    Args:
        answers: The answers. Those without a text, such as failed requests, do not vote.
        num_units: The number of segments or claims that the judge was shown.
        protocol: ``paper``, or ``code`` to read the outputs as the authors' script does.

    Returns:
        The 1-based numbers of the wrong units, or the reason why there is no verdict.
    """
    verdicts = [
        read_verdict(answer.text, num_units, protocol, answer.is_cut_off)
        for answer in answers
        if answer.text is not None
    ]
    # Every request failed, so the first failure is the reason.
    if answers and not verdicts:
        return answers[0].error or "no answer"
    # A vote would replace the reason why a single output is unscored.
    if len(verdicts) == 1:
        return verdicts[0]
    return majority_vote(verdicts)


def read_verdict(
    output: str, num_units: int, protocol: str = "paper", is_cut_off: bool = False
) -> UnitsOrReason:
    """Read from one output of a judge which units (segments or claims) contain errors.

    Example:
        ``<think>...</think> Answer: 1, 3`` → ``{1, 3}``

    Args:
        output: The text that the judge wrote, which may begin with its thinking.
        num_units: The number of units that the judge was shown.
        protocol: ``paper``, or ``code`` to read the outputs as the authors' script does.
        is_cut_off: Whether the judge reached its token limit. A complete answer still counts.

    Returns:
        The 1-based numbers of the wrong units, or the reason why the output cannot be read.
    """
    answer = without_thinking(output)
    if answer is None:
        return UNFINISHED
    if protocol == "code":
        return _read_like_authors_script(answer, num_units)

    # Bold print, code marks and unusual quotes would hide the answer from the grammar.
    text = plain_answer(answer)
    if not text:
        return EMPTY
    return find_flagged_units(text, num_units, is_cut_off)


def _read_like_authors_script(output: str, num_units: int) -> frozenset[int]:
    """Read an output exactly as the authors' script does, its peculiarities included.

    An output without an answer means "no errors". Numbers above ``num_units`` are dropped. The
    number 0 flags the last unit, because the script uses it as the Python index -1.

    Example:
        Of 3 units, ``Answer: 2, 7`` → ``{2}`` and ``Answer: 0`` → ``{3}``

    Args:
        output: The text that the judge wrote.
        num_units: The number of units that the judge was shown.

    Returns:
        The 1-based numbers of the units that the script would count as wrong.
    """
    if "ALL_CORRECT" in output or "Answer: " not in output:
        return frozenset()

    # The script takes every number behind the first answer, also those of explanations.
    answer = output.split("Answer: ", 1)[1]
    numbers = [
        int(digits) for digits in re.findall(r"\d+", answer) if len(digits) <= _SCRIPT_DIGITS
    ]
    return frozenset(number or num_units for number in numbers if number <= num_units)


def majority_vote(verdicts: Sequence[UnitsOrReason]) -> UnitsOrReason:
    """Combine the verdicts of several outputs (self-consistency, appendix G of the paper).

    A unit is flagged if more than half of the readable outputs flag it. A tie does not flag it.

    Args:
        verdicts: The flagged units of each output, or the reason why it cannot be read.

    Returns:
        The flagged units, or a reason if no output can be read.
    """
    if not verdicts:
        return "no output"
    # Outputs that cannot be read do not vote.
    ballots = [verdict for verdict in verdicts if not isinstance(verdict, str)]
    if not ballots:
        return f"none of {len(verdicts)} outputs can be read, the first: {verdicts[0]}"

    # Each ballot has one vote for each unit that it flags.
    votes = Counter(chain.from_iterable(ballots))
    return frozenset(unit for unit, count in votes.items() if 2 * count > len(ballots))


def _flatten_outputs(output: object) -> list[object]:
    """Flatten the outputs of one line of a file into a list.

    lm_eval's samples hold a list of texts for each request. Null counts as an empty output.

    Example:
        ``"Answer: 1"`` → ``["Answer: 1"]``; ``[["Answer: 1", "Answer: 2"]]`` → both texts
    """
    if output is None:
        return [""]
    # A plain line may hold one text instead of a list.
    if not isinstance(output, list):
        return [output]

    outputs: list[object] = []
    for item in output:
        outputs += item if isinstance(item, list) else [item]
    return outputs


class JudgeOutput(BaseModel):
    """The outputs of a judge on one row.

    They are read from a line of lm_eval's samples, whose fields are inside ``doc``, or from a plain
    line such as ``{"index": "0", "output": "Answer: 1"}``.
    """

    index: str = Field(
        validation_alias=AliasChoices("index", AliasPath("doc", "index")),
        coerce_numbers_to_str=True,
    )
    """The index of the row."""

    domain: str | None = Field(
        None, validation_alias=AliasChoices("domain", AliasPath("doc", "domain"))
    )
    """The domain of the row. None if the line does not say."""

    outputs: Annotated[list[str], BeforeValidator(_flatten_outputs)] = Field(
        validation_alias=AliasChoices("output", "resps")
    )
    """The texts that the judge wrote."""

    segment_of_claim: list[int] = Field([], validation_alias=AliasPath("doc", "owners"))
    """The 1-based segment of each claim if claims were judged."""

    problem: str = Field("", validation_alias=AliasPath("doc", "problem"))
    """Why the judge was not asked. Empty if it was."""


def read_saved_outputs(path: Path, rows: Sequence[FelmRow], protocol: str) -> list[JudgedResponse]:
    """Read a judge's verdicts on all rows from a file of saved outputs.

    Args:
        path: lm_eval's samples, or lines such as ``{"index": "0", "output": "Answer: 1"}``.
        rows: All rows of FELM that the outputs are about.
        protocol: ``paper``, or ``code`` to read the outputs as the authors' script does.

    Returns:
        The verdict on each row, in the order of ``rows``. Rows without an output are unscored.

    Raises:
        DataError: The file has no outputs, or some lines are invalid, name a row that does not
            exist or that has another domain, or repeat a row. The message lists all such lines.
    """
    row_by_index = {row.index: row for row in rows}
    responses: dict[str, JudgedResponse] = {}

    def add_response(record: object) -> None:
        """Check one line and add its verdict to ``responses``."""
        line = to_model(JudgeOutput, record)
        row = row_by_index.get(line.index)
        if row is None:
            raise ValueError(f"no row has the index {line.index!r}; the data has {len(rows)} rows")
        # Other data may use the same indices. A wrong domain shows that these are not its outputs.
        if line.domain not in (None, row.domain):
            raise ValueError(
                f"row {line.index} is of domain {row.domain!r}, found {line.domain!r}; are these"
                " outputs about other data?"
            )
        if line.index in responses:
            raise ValueError(f"row {line.index!r} appears twice; keep one output per row")
        # Saved outputs do not say whether they were cut off.
        answers = [Answer(output) for output in line.outputs]
        responses[line.index] = read_judged_response(
            row.domain, row.labels, answers, line.segment_of_claim, line.problem, protocol
        )

    read_lines(path, add_response, _EXPECTED)
    if not responses:
        raise DataError(f"{path}: no outputs; {_EXPECTED}")

    # A row that the file lacks must not count as "no errors".
    for row in rows:
        if row.index not in responses:
            responses[row.index] = read_judged_response(
                row.domain, row.labels, problem="no output for this row"
            )
    return [responses[row.index] for row in rows]
