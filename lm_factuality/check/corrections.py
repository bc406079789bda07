"""Verdicts of a check that people corrected on its page, read back from the file they saved."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from judges.claims import Verdict
from lm_factuality.ground.errors import refuse
from lm_factuality.ground.records import to_model
from lm_factuality.ground.tables import read_table

CORRECTION_COLUMNS = ("answer", "start", "end", "claim", "verdict", "person", "note")
"""The columns of a file of corrections. Those of people's labels have the same names."""

_ADVICE = "correct them and read the file again; no correction is used"


@dataclass(frozen=True)
class Correction:
    """What a person says about a claim, in place of the judge's verdict."""

    answer: Annotated[str, Field(min_length=1, description="the id of an answer")]
    """The id of the answer."""

    start: Annotated[int, Field(ge=0, description="where the claim begins in the answer")]
    """Where the claim begins in the answer's text."""

    end: Annotated[int, Field(ge=0, description="where the claim ends in the answer")]
    """Where it ends."""

    claim: str
    """The claim."""

    verdict: Verdict
    """The verdict of the person. It may be that of the judge, which the person then confirms."""

    person: Annotated[
        str,
        StringConstraints(strip_whitespace=True),
        Field(min_length=1, description="the name of who corrected the verdict"),
    ]
    """The name of the person."""

    note: str = ""
    """What the person noted, or an empty text."""


@dataclass(frozen=True)
class _ClaimOfPerson:
    """What may have only one correction."""

    answer: str
    start: int
    end: int
    claim: str
    person: str


def read_corrections(path: Path) -> list[Correction]:
    """Read the corrections that a person saved on the page of a check.

    Example:
        The row ``q7,0,24,The bridge opened in 1870.,contradicted,Ana,it was 1871`` says that Ana
        calls this claim contradicted.

    Args:
        path: The CSV file that the page saved, or a JSONL or Parquet file with the same columns.
            Other columns are ignored.

    Returns:
        The corrections in the order of the file.

    Raises:
        DataError: The file cannot be read, or has rows that are no corrections, or a person
            corrects a claim twice. The error lists these rows.
    """
    table = read_table(path)
    problems = list(table.problems)
    corrections = []
    locations: dict[_ClaimOfPerson, str] = {}
    for record in table.records:
        try:
            correction = _to_correction(record.values)
        except ValueError as error:
            problems.append(f"{record.location}: {error}")
            continue
        claim = _ClaimOfPerson(
            answer=correction.answer,
            start=correction.start,
            end=correction.end,
            claim=correction.claim,
            person=correction.person,
        )
        if claim in locations:
            problems.append(
                f"{record.location}: {correction.person!r} corrects this claim again, as in"
                f" {locations[claim]}; expected one correction of a claim from each person"
            )
            continue
        locations[claim] = record.location
        corrections.append(correction)
    refuse(problems, "problems", _ADVICE)
    return corrections


def _to_correction(values: object) -> Correction:
    """Check a row of the file.

    Raises:
        ValueError: A value is missing or wrong.
    """
    correction = to_model(Correction, values)
    if correction.end < correction.start:
        raise ValueError(
            f"the claim ends at {correction.end}, before its start at {correction.start};"
            " expected 'end' to be 'start' or more"
        )
    return correction
