"""The claims in a row's segments (section 4.1 of the paper): what a claim-based judge checks instead of segments.

A judge extracts them once, in the format of the paper's table 5, and they are kept in a file that all judges share. Without a
judge, ``split_claims`` is the stated fallback: each clause of a segment is a claim.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking

_SEGMENT = re.compile(r"^[\s>#*_-]*segment\s*(\d+)\b[\s:.*_]*(.*)$", re.IGNORECASE)
_CLAIM = re.compile(r"^[\s>*_-]*(?:claim\s*\d+\s*[.:)]*|\d+\s*[.)]|[-*•])[\s*_]*(.+?)[\s*_]*$", re.IGNORECASE)
_NO_CLAIM = re.compile(r"\W*(?:none|no (?:factual )?claims?|n/?a)\b.*", re.IGNORECASE)
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
            if len(re.findall(r"\w+", clause)) > 1
        )
        for segment in row.segments
    )
    return RowClaims(row.index, claims, "rules")


def parse_claims(row: FelmRow, output: str, source: str, is_cut_off: bool = False) -> RowClaims:
    """The claims in a judge's output. An output that names segments which do not exist, leaves one out, or says of one something
    that is neither a claim nor "No claims" is a problem: claims that nobody extracted would pass for claims without errors."""
    found: dict[int, list[str]] = {}
    current: list[str] | None = None
    stray = ""
    for line in (without_thinking(output) or "").splitlines():
        if heading := _SEGMENT.match(line):
            current = found.setdefault(int(heading[1]), [])
            line = heading[2]
        if current is None or not line.strip(" \t*_-#>:.`"):
            continue
        claim = _CLAIM.match(line)
        text = claim[1] if claim else line.strip()
        if claim and not _NO_CLAIM.fullmatch(text):
            current.append(text)
        elif not claim and not _NO_CLAIM.fullmatch(text):
            stray = stray or text
    missing = [number for number in range(1, len(row.segments) + 1) if number not in found]
    problem = None
    if not found:
        problem = "no line 'Segment N:' in the output"
    elif outside := [number for number in found if not 1 <= number <= len(row.segments)]:
        problem = f"segment {outside[0]} of {len(row.segments)}"
    elif is_cut_off:
        problem = f"cut off in segment {max(found)} of {len(row.segments)}"
    elif missing:
        problem = f"nothing about segment {missing[0]} of {len(row.segments)}"
    elif stray:
        problem = f"neither a claim nor 'No claims': {stray[:60]!r}"
    elif not any(found.values()):
        problem = "no claims in the output"
    claims = tuple(tuple(found.get(number, ())) for number in range(1, len(row.segments) + 1))
    return RowClaims(row.index, () if problem else claims, source, problem)


def read_claims(path: Path, rows: Iterable[FelmRow]) -> dict[str, RowClaims]:
    """Claims by the index of their row.

    Raises:
        DataError: the file cannot be read, or is not about these rows.
    """
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
    record = {"index": claims.index, "source": claims.source, "claims": claims.claims, "problem": claims.problem}
    return json.dumps(record, ensure_ascii=False)


def provenance(claims: Sequence[RowClaims]) -> dict[str, int]:
    """How many rows have their claims from where."""
    sources = [each.source for each in claims]
    return {source: sources.count(source) for source in sorted(set(sources))}
