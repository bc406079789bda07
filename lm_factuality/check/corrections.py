"""Verdicts of a check that people corrected on its page, read back from the file they saved."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from judges.claims import Verdict
from lm_factuality.check.results import CheckedAnswer, CheckedClaim, CheckResult
from lm_factuality.ground.errors import refuse, short
from lm_factuality.ground.records import to_model
from lm_factuality.ground.tables import read_table

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
    """The verdict of the person. The same verdict as the judge's confirms it."""

    person: Annotated[
        str,
        StringConstraints(strip_whitespace=True),
        Field(min_length=1, description="the name of who corrected the verdict"),
    ]
    """The name of the person."""

    note: str = ""
    """What the person noted, or an empty text."""

    @property
    def person_and_claim(self) -> tuple[object, ...]:
        """Who corrects which claim, at which place of which answer."""
        return (self.person, self.answer, self.start, self.end, self.claim)


def read_corrections(path: Path) -> list[Correction]:
    """Read the corrections that a person saved on the page of a check.

    Example:
        The line ``{"answer": "q7", "start": 0, "end": 26, "claim": "The bridge opened in 1870.",
        "verdict": "contradicted", "person": "Ana", "note": "it was 1871"}`` says that Ana calls
        this claim contradicted.

    Args:
        path: The JSON Lines file that the page saved, or a CSV or Parquet file with the same
            columns. Other columns are ignored.

    Returns:
        The corrections in the order of the file.

    Raises:
        DataError: The file cannot be read, or has rows that are no corrections, or a person
            corrects a claim twice. The error lists these rows.
    """
    table = read_table(path)
    problems = list(table.problems)
    corrections = []
    # Where each person corrects a claim for the first time.
    first_locations: dict[tuple[object, ...], str] = {}
    for record in table.records:
        try:
            correction = _to_correction(record.values)
        except ValueError as error:
            problems.append(f"{record.location}: {error}")
            continue
        person_and_claim = correction.person_and_claim
        if person_and_claim in first_locations:
            problems.append(
                f"{record.location}: {correction.person!r} corrects this claim again, as in"
                f" {first_locations[person_and_claim]}; expected one correction of a claim from"
                " each person"
            )
            continue
        first_locations[person_and_claim] = record.location
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


def apply_corrections(result: CheckResult, corrections: Iterable[Correction]) -> CheckResult:
    """Put the verdicts of people in the place of the judge's.

    A correction belongs to the claims of its answer that have the same text. If several have, it
    belongs to the one at the same place.

    Returns:
        The result with the corrected claims. Its problems name each correction that belongs to no
        claim, and each claim about which people disagree, which keeps the judge's verdict.
    """
    # The keys are the id of an answer and the text of a claim.
    corrections_by_claim: defaultdict[tuple[str, str], list[Correction]] = defaultdict(list)
    for correction in corrections:
        corrections_by_claim[correction.answer, correction.claim].append(correction)

    problems = list(result.problems)
    answers = []
    for answer in result.answers:
        claims = []
        for claim in answer.claims:
            same_text = corrections_by_claim.get((answer.id, claim.text), ())
            corrections_of_claim = _corrections_at(claim, answer, same_text)
            num_verdicts = len({correction.verdict for correction in corrections_of_claim})
            if num_verdicts == 1:
                claim = _correct(claim, corrections_of_claim)
            elif num_verdicts > 1:
                problems.append(
                    f"answer {claim.answer!r}: {_people(corrections_of_claim)} disagree about"
                    f" {short(claim.text)}, which keeps the judge's verdict"
                )
            claims.append(claim)
        answers.append(replace(answer, claims=tuple(claims)))

    problems += _unmatched_corrections(answers, corrections_by_claim)
    return replace(result, answers=tuple(answers), problems=tuple(problems))


def _unmatched_corrections(
    answers: Iterable[CheckedAnswer],
    corrections_by_claim: Mapping[tuple[str, str], Sequence[Correction]],
) -> Iterator[str]:
    """Yield a sentence about each corrected claim that no answer has.

    Args:
        answers: The answers of the check.
        corrections_by_claim: The corrections by the id of an answer and the text of a claim.
    """
    texts_in_answers = {(answer.id, claim.text) for answer in answers for claim in answer.claims}
    for (answer_id, text), corrections in corrections_by_claim.items():
        if (answer_id, text) not in texts_in_answers:
            yield (
                f"answer {answer_id!r} has no claim {short(text)}, which {corrections[0].person}"
                " corrects; use the corrections of the same answers"
            )


def _corrections_at(
    claim: CheckedClaim, answer: CheckedAnswer, corrections: Sequence[Correction]
) -> list[Correction]:
    """Return the corrections that belong to a claim at its place in the answer.

    Example:
        An answer says "It is old." at 0 and again at 40. A correction of this claim at 40 belongs
        only to the second one. A correction at 7, where no such claim begins, belongs to both.

    Args:
        claim: The claim.
        answer: The answer that it is from.
        corrections: All corrections of this answer's claims with the same text.
    """
    # Most claims have no corrections, so the answer need not be searched for equal claims.
    if not corrections:
        return []
    starts = {other.start for other in answer.claims if other.text == claim.text}
    starts_elsewhere = starts - {claim.start}
    return [correction for correction in corrections if correction.start not in starts_elsewhere]


def _correct(claim: CheckedClaim, corrections: Sequence[Correction]) -> CheckedClaim:
    """Return a claim with the verdict of the people who correct it, all of whom agree."""
    return replace(
        claim,
        verdict=corrections[0].verdict,
        judged=claim.verdict,
        person=_people(corrections),
        note="; ".join(correction.note for correction in corrections if correction.note),
    )


def _people(corrections: Sequence[Correction]) -> str:
    """Return the names of the people who made some corrections, such as ``Ana, Ben``."""
    return ", ".join(correction.person for correction in corrections)
