"""The verdicts in a judge's outputs: which segments of a response it says contain errors.

FELM's tasks and certificates read verdicts here, and ``lm-factuality score felm`` reads whole
files of saved outputs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, Field

from judges.answers import Answer
from lm_factuality.benchmarks.felm.grammar import (
    CONTRADICTORY,
    CUT_OFF_WITHIN,
    EMPTY_ANSWER,
    MORE_THAN_IDS,
    NO_ANSWER,
    UnreadableAnswerError,
    check_units_exist,
    find_flagged_units,
)
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.thinking import UNFINISHED, plain_answer, without_thinking

EMPTY = "empty output"
_EXPECTED = "expected lm_eval's samples or lines with index and output"

# The digits of a number that is read as the authors' script does. Python refuses to convert
# numbers of more than 4,300 digits, on which that script would fail.
_SCRIPT_DIGITS = 4000

# Ids as the paper's prompts ask for them.
_IDS = re.compile(r"\d{1,9}(?:, ?\d{1,9})*")


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

    @property
    def is_misjudged_by_segment(self) -> list[bool] | None:
        """Whether the judge is wrong about each segment, None if there is no verdict."""
        if self.flagged is None:
            return None
        return [
            has_error != is_flagged
            for has_error, is_flagged in zip(self.errors, self.flagged, strict=True)
        ]


def read_judged_response(
    domain: str,
    labels: Sequence[bool],
    answers: Iterable[Answer] = (),
    segment_of_claim: Sequence[int] = (),
    problem: str = "",
    protocol: str = "chat",
) -> JudgedResponse:
    """Read a judge's verdict on one response from the judge's answers.

    Args:
        domain: The domain of the response.
        labels: Whether each segment is factual, by the annotators.
        answers: The outputs of the judge. If there are several, the majority decides.
        segment_of_claim: The 1-based number of the segment that each claim is from, such as ``[1,
            1, 2]``, if claims were judged. Otherwise empty.
        problem: Why the judge was not asked. Empty if it was.
        protocol: How to read the outputs (see `read_verdict`).

    Returns:
        The response with a flag for each segment, or with the reason why there is no verdict.
    """
    errors = tuple(not label for label in labels)
    if problem:
        return JudgedResponse(domain, errors, flagged=None, reason=problem)

    segment_numbers = range(1, len(labels) + 1)
    # The units of an answer are claims if the judge was shown claims, and segments otherwise.
    segment_of_unit = segment_of_claim or segment_numbers
    try:
        flagged_units = combine_answers(list(answers), len(segment_of_unit), protocol)
    except UnreadableAnswerError as error:
        return JudgedResponse(domain, errors, flagged=None, reason=str(error))

    # A segment is wrong if any of its claims is. Numbers of units begin at 1.
    flagged_segments = {segment_of_unit[unit - 1] for unit in flagged_units}
    flagged = tuple(number in flagged_segments for number in segment_numbers)
    return JudgedResponse(domain, errors, flagged)


def combine_answers(answers: Sequence[Answer], num_units: int, protocol: str) -> frozenset[int]:
    """Combine a judge's answers to one question into a single verdict by majority vote.

    Args:
        answers: The answers. Those without a text, such as failed requests, do not vote.
        num_units: The number of segments or claims that the judge was shown.
        protocol: How to read the outputs (see `read_verdict`).

    Returns:
        The 1-based numbers of the wrong units.

    Raises:
        UnreadableAnswerError: No answer can be read.
    """
    ballots = []
    reasons = []
    for answer in answers:
        # A request that failed has no text.
        if answer.text is None:
            continue
        try:
            ballots.append(read_verdict(answer.text, num_units, protocol, answer.is_cut_off))
        except UnreadableAnswerError as error:
            reasons.append(str(error))

    have_all_failed = not ballots and not reasons
    if answers and have_all_failed:
        raise UnreadableAnswerError(answers[0].error or "no answer")
    return majority_vote(ballots, reasons)


def read_verdict(
    output: str, num_units: int, protocol: str = "chat", is_cut_off: bool = False
) -> frozenset[int]:
    """Read from one output of a judge which units (segments or claims) contain errors.

    Example:
        ``<think>...</think> Answer: 1, 3`` → ``{1, 3}``

    Args:
        output: The text that the judge wrote, which may begin with its thinking.
        num_units: The number of segments (or claims) that the judge was shown.
        protocol: ``chat`` to read any form that a careful person understands, ``paper`` to read
            only the form that the paper's prompts ask for, or ``code`` to read the output as the
            authors' script does.
        is_cut_off: Whether the judge reached its token limit. A complete answer still counts.

    Returns:
        The 1-based numbers of the wrong units.

    Raises:
        UnreadableAnswerError: The output gives no verdict. The message is the reason.
    """
    answer = without_thinking(output)
    if answer is None:
        raise UnreadableAnswerError(UNFINISHED)
    if protocol == "code":
        return _read_like_authors_script(answer, num_units)
    if protocol == "paper":
        return _read_form_of_paper(answer.strip(), num_units, is_cut_off)

    # Bold print, code marks and unusual quotes would hide the answer from the grammar.
    plain_text = plain_answer(answer)
    if not plain_text:
        raise UnreadableAnswerError(EMPTY)
    return find_flagged_units(plain_text, num_units, is_cut_off)


def _read_form_of_paper(output: str, num_units: int, is_cut_off: bool) -> frozenset[int]:
    """Read an output that keeps to the form that the paper's prompts ask for.

    This form is a line ``Answer:`` with nothing but ids, separated by commas, or ALL_CORRECT. All
    answer lines of an output have to agree.

    Example:
        ``Answer: 1,3`` → ``{1, 3}``; ``Answer: segments 1 and 3`` cannot be read

    Args:
        output: The text that the judge wrote.
        num_units: The number of segments (or claims) that the judge was shown.
        is_cut_off: Whether the judge reached its token limit.

    Raises:
        UnreadableAnswerError: The output has another form, or names a unit that does not exist.
    """
    if not output:
        raise UnreadableAnswerError(EMPTY)
    lines = [line.strip() for line in output.split("\n")]
    answers = [line.removeprefix("Answer:").strip() for line in lines if line.startswith("Answer:")]
    if not answers:
        raise UnreadableAnswerError(NO_ANSWER)
    # The last number of the output may have been cut off.
    if is_cut_off and lines[-1].startswith("Answer:"):
        raise UnreadableAnswerError(CUT_OFF_WITHIN)
    answer = answers[-1]
    if any(earlier_answer != answer for earlier_answer in answers):
        raise UnreadableAnswerError(CONTRADICTORY)
    return _read_ids(answer, num_units)


def _read_ids(answer: str, num_units: int) -> frozenset[int]:
    """Read an answer such as ``1, 3`` or ``ALL_CORRECT``.

    Raises:
        UnreadableAnswerError: The answer has another form, or names a unit that does not exist.
    """
    if not answer:
        raise UnreadableAnswerError(EMPTY_ANSWER)
    if answer == "ALL_CORRECT":
        return frozenset()
    if not _IDS.fullmatch(answer):
        raise UnreadableAnswerError(MORE_THAN_IDS)
    ids = frozenset(map(int, answer.split(",")))
    check_units_exist(ids, num_units)
    return ids


def _read_like_authors_script(output: str, num_units: int) -> frozenset[int]:
    """Read an output exactly as the authors' script does, its peculiarities included.

    An output without an answer means "no errors". Numbers above ``num_units`` are dropped. The
    number 0 flags the last unit, because the script uses it as the Python index -1.

    Example:
        Of 3 units, ``Answer: 2, 7`` → ``{2}`` and ``Answer: 0`` → ``{3}``
    """
    if "ALL_CORRECT" in output or "Answer: " not in output:
        return frozenset()

    # The script takes every number behind the first answer, also those of explanations.
    _, _, answer = output.partition("Answer: ")
    units = set()
    for digits in re.findall(r"\d+", answer):
        if len(digits) > _SCRIPT_DIGITS:
            continue
        number = int(digits)
        if number == 0:
            units.add(num_units)
        elif number <= num_units:
            units.add(number)
    return frozenset(units)


def majority_vote(ballots: Sequence[frozenset[int]], reasons: Sequence[str]) -> frozenset[int]:
    """Combine the verdicts of several outputs (self-consistency, appendix G of the paper).

    A unit is flagged if more than half of the readable outputs flag it. A tie does not flag it.

    Example:
        Of the ballots ``{1}``, ``{1, 2}`` and ``{3}``, two of three flag 1 → ``{1}``

    Args:
        ballots: The units that each readable output flags.
        reasons: Why each of the other outputs cannot be read. These do not vote.

    Returns:
        The flagged units.

    Raises:
        UnreadableAnswerError: No output can be read.
    """
    if ballots:
        # Each ballot has one vote for each unit that it flags.
        votes = Counter(chain.from_iterable(ballots))
        return frozenset(unit for unit, count in votes.items() if 2 * count > len(ballots))

    # No ballot means no verdict.
    if not reasons:
        raise UnreadableAnswerError("no output")
    # Reports count responses by their reason, so the reason of a single output stays as it is.
    if len(reasons) == 1:
        raise UnreadableAnswerError(reasons[0])
    raise UnreadableAnswerError(
        f"none of {len(reasons)} outputs can be read, the first: {reasons[0]}"
    )


def _flatten_outputs(field: object) -> list[object]:
    """Return the outputs in a field of a line as one flat list.

    The field of a plain line is a single text. The field of lm_eval's samples has a list of texts
    for each request. A field that is null counts as one empty output.

    Example:
        ``"Answer: 1"`` → ``["Answer: 1"]``; ``[["Answer: 1", "Answer: 2"]]`` →
        ``["Answer: 1", "Answer: 2"]``; ``None`` → ``[""]``
    """
    if field is None:
        return [""]
    if not isinstance(field, list):
        return [field]
    outputs: list[object] = []
    for response in field:
        outputs += response if isinstance(response, list) else [response]
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
        protocol: How to read the outputs (see `read_verdict`).

    Returns:
        The verdict on each row, in the order of ``rows``. Rows without an output are unscored.

    Raises:
        DataError: The file has no outputs, or some lines are invalid, name a row that does not
            exist or that has another domain, or repeat a row. The message lists all such lines.
    """
    row_by_index = {row.index: row for row in rows}
    line_by_index: dict[str, JudgeOutput] = {}

    # `read_lines` calls this for each line, and reports all lines for which it raises ValueError.
    def add_line(record: object) -> None:
        """Check one line of the file and add it to ``line_by_index``."""
        line = to_model(JudgeOutput, record)
        _check_row(line, row_by_index)
        if line.index in line_by_index:
            raise ValueError(f"row {line.index!r} appears twice; keep one output per row")
        line_by_index[line.index] = line

    read_lines(path, add_line, _EXPECTED)
    if not line_by_index:
        raise DataError(f"{path}: no outputs; {_EXPECTED}")
    return [_read_saved_line(row, line_by_index.get(row.index), protocol) for row in rows]


def _check_row(line: JudgeOutput, row_by_index: Mapping[str, FelmRow]) -> None:
    """Check that a line of saved outputs is about one of the rows.

    Raises:
        ValueError: There is no such row, or it has another domain.
    """
    row = row_by_index.get(line.index)
    if row is None:
        raise ValueError(
            f"no row has the index {line.index!r}; the data has {len(row_by_index)} rows"
        )
    # Outputs about other data may have the same indices, but often other domains.
    if line.domain not in (None, row.domain):
        raise ValueError(
            f"row {line.index} is of domain {row.domain!r}, found {line.domain!r}; are these"
            " outputs about other data?"
        )


def _read_saved_line(row: FelmRow, line: JudgeOutput | None, protocol: str) -> JudgedResponse:
    """Read the verdict on one row from its line in a file of saved outputs.

    Args:
        row: The row.
        line: The line, or None if the file lacks the row.
        protocol: How to read the outputs (see `read_verdict`).
    """
    if line is None:
        # Without this, the row would count as one without errors.
        return read_judged_response(row.domain, row.labels, problem="no output for this row")
    # Saved outputs do not say whether they were cut off.
    answers = list(map(Answer, line.outputs))
    return read_judged_response(
        row.domain, row.labels, answers, line.segment_of_claim, line.problem, protocol
    )
