"""The claims in a row's segments (section 4.1 of the paper): what a claim-based judge checks instead of segments.

A judge extracts them once, and they are kept in a file that all judges share. Without a judge, ``split_claims`` is the stated
fallback: each clause of a segment is a claim.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.answers import Answer
from judges.typed import Reply, Typed, misnumbered, read_reply
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.sentences import split_sentences, words_in
from lm_factuality.ground.thinking import without_thinking

_SEGMENT = re.compile(r"^\W*segment\s*(\d{1,9})\b", re.IGNORECASE | re.MULTILINE)
_LABEL = re.compile(r"[\s>#*•.:-]*(?:claim\s*\d+[\s.:)*]*|\d+[.)]\s+)?", re.IGNORECASE)
_NO_CLAIM = re.compile(r"\W*(?:(?:none|n/?a|no (?:factual )?claims?)\W*)?", re.IGNORECASE)
_CLAUSE_END = re.compile(r";\s+|(?:\n|\\n)+")  # some published segments hold a backslash and an n for a line break


@dataclass(frozen=True)
class RowClaims:
    """Of one row: the claims of each segment, or the ``problem`` why there are none. ``source`` is the judge, or ``rules``."""

    index: str
    claims: tuple[tuple[str, ...], ...]
    source: str
    problem: str | None = None

    def numbered(self) -> list[str]:
        """All claims in the order in which a judge sees them."""
        return [claim for claims in self.claims for claim in claims]

    def owners(self) -> list[int]:
        """The 1-based segment of each of ``numbered``."""
        return [segment for segment, claims in enumerate(self.claims, 1) for _ in claims]


def split_claims(row: FelmRow) -> RowClaims:
    """The fallback without a judge: every sentence, line and part between semicolons is a claim as it stands, if it has two
    words or more."""
    claims = tuple(
        tuple(
            " ".join(clause.split())
            for line in _CLAUSE_END.split(segment)
            for clause in split_sentences(line)
            if len(words_in(clause)) > 1
        )
        for segment in row.segments
    )
    return RowClaims(row.index, claims, "rules")


class SegmentClaims(Reply):
    """The claims of a segment, numbered from 1; none if it states no facts."""

    segment: int
    claims: list[str]


class ClaimsReply(Reply):
    """The claims of every segment."""

    segments: list[SegmentClaims]


def check_claims(reply: ClaimsReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every segment is there once. Claims that nobody extracted would pass for claims without
    errors."""
    problem = misnumbered([each.segment for each in reply.segments], len(subject["units"]), "segment")
    return problem or ("" if any(each.claims for each in reply.segments) else "no claims")


def to_claims(row: FelmRow, read: Typed[ClaimsReply], source: str) -> RowClaims:
    """The claims of a judge's reply, or its problem."""
    if read.value is None:
        return RowClaims(row.index, (), source, read.problem)
    found = {each.segment: tuple(each.claims) for each in read.value.segments}
    return RowClaims(row.index, tuple(found[number] for number in sorted(found)), source)


def read_text(answer: Answer, subject: Mapping[str, Any]) -> Typed[ClaimsReply]:
    """The claims in an answer to the authors' prompt (table 5): ``Segment N:`` and below it ``Claim N. ...`` or ``No claims``."""
    if answer.text is None or answer.is_cut_off or not (text := without_thinking(answer.text)):
        return read_reply(answer, ClaimsReply, subject, check_claims)  # which says why
    _, *parts = _SEGMENT.split(text)
    found = [
        SegmentClaims(segment=int(number), claims=_lines(below)) for number, below in zip(parts[::2], parts[1::2], strict=True)
    ]
    reply = ClaimsReply(segments=found)
    problem = check_claims(reply, subject) if found else "no line 'Segment N:'"
    return Typed(None if problem else reply, problem, answer)


def _lines(below: str) -> list[str]:
    """Every line below the heading of a segment is a claim, unless it says that there is none."""
    texts = [_LABEL.sub("", line, count=1).strip(" *") for line in below.splitlines()]
    return [text for text in texts if not _NO_CLAIM.fullmatch(text)]


def read_claims(path: Path, rows: Iterable[FelmRow]) -> dict[str, RowClaims]:
    """Claims by the index of their row. Raises DataError: the file cannot be read, or is not about these rows."""
    wanted = {row.index: row for row in rows}

    def parse(record: Any) -> RowClaims:
        try:
            claims = to_model(RowClaims, record)
        except ValueError as error:
            raise ValueError(f"not a line of 'lm-factuality claims extract': {error}") from error
        row = wanted.get(claims.index)
        if row is not None and claims.problem is None and len(claims.claims) != len(row.segments):
            raise ValueError(
                f"claims of {len(claims.claims)} segments, but row {row.index} has {len(row.segments)}; extract them again from "
                "the data that you score"
            )
        return claims

    found = read_lines(path, parse, f"make it with: lm-factuality claims extract --out {path}")
    return {claims.index: claims for claims in found}


def to_line(claims: RowClaims) -> str:
    """A line of the file that ``read_claims`` reads."""
    return json.dumps(vars(claims), ensure_ascii=False)


def provenance(claims: Iterable[RowClaims]) -> dict[str, int]:
    """How many rows have their claims from where."""
    return dict(sorted(Counter(each.source for each in claims).items()))
