"""The rows of FELM (section 3 of the paper), an answer in segments and whether each is factual; and
the claims in the segments (section 4.1), which a claim-based judge checks instead.

A judge extracts claims once, and they are kept in a file that all judges share. Without a judge,
``split_claims`` is the stated fallback: each clause of a segment is a claim."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool

from judges.typed import ParsedReply, Reply, numbering_problem
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.sentences import split_sentences, words_in

DOMAINS = ("wk", "science", "writing_rec", "math", "reasoning")
WITHOUT_REFERENCES = frozenset({"math", "reasoning"})  # nor claims: section 4.1 of the paper
MODES_WITH_REFERENCES = ("link", "doc")  # which show the model what a reference says
_EXPECTED = "expected FELM's all.jsonl, one JSON object per line"


# The file has an empty text for none.
_Texts = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]


@dataclass(frozen=True)
class FelmRow:
    """An answer to a prompt, as a line of FELM's file has it."""

    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    domain: str
    prompt: str
    segments: Annotated[tuple[str, ...], Field(validation_alias="segmented_response")]

    labels: tuple[StrictBool, ...]
    """Whether each segment is factual."""

    references: Annotated[_Texts, Field(validation_alias="ref")] = ()
    """The links that the annotators used."""

    reference_texts: Annotated[_Texts, Field(validation_alias="ref_contents")] = ()
    """What the published file holds of the contents of the links."""


_FELM = ("hkust-nlp/felm", "5d0791d41256d2c0531a2da2e6230fc3904e3f13")
FELM = Source(
    "felm",
    *_FELM,
    "eval/all.jsonl",
    "108ad4e2e9ffaf97e3afe9fec46350a2c2e9cfdd",
    "CC-BY-NC-SA-4.0",
    847,
)
PUBLISHED = "published"  # the references that the file of rows holds
RULES = "rules"  # what makes claims where no judge does


def read_rows(path: Path) -> list[FelmRow]:
    """Read all rows of FELM's ``all.jsonl``, or of a file of the same form.

    Raises:
        DataError: Lines are wrong, each of which is named, or there are none.
    """
    seen: set[str] = set()

    def parse(record: Any) -> FelmRow:
        row = to_model(FelmRow, record)
        if not row.segments or len(row.segments) != len(row.labels):
            raise ValueError(
                f"{len(row.segments)} segments and {len(row.labels)} labels, expected as many of"
                " both and at least one"
            )
        if row.index in seen:
            raise ValueError(f"index {row.index!r} was there before; every row needs its own")
        seen.add(row.index)
        return row

    rows = read_lines(path, parse, _EXPECTED)
    if not rows:
        raise DataError(f"{path}: no rows; {_EXPECTED}")
    return rows


def reference_texts(references: str, rows: Sequence[FelmRow]) -> dict[str, tuple[str, ...]]:
    """Return the contents of the references of each row, by the row's index.

    Args:
        references: ``published`` for what the file of rows holds, or the folder in which
            ``lm-factuality data fetch-references`` left the pages.
        rows: The rows.

    Raises:
        DataError: There is no such folder, or it has none of these rows' references.
    """
    if references == PUBLISHED:
        return {row.index: row.reference_texts for row in rows}
    from lm_factuality.retrieval.references.cache import ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    fetch = f"lm-factuality data fetch-references --cache {references}"
    if not Path(references).is_dir():
        raise DataError(f"references: {references}: no such folder; make it with: {fetch}")
    cache = ReferenceCache(Path(references))
    texts = {}
    for row in rows:
        pages = map(cache.get, collect_links(row.references).urls)
        texts[row.index] = tuple(page.text for page in pages if page and page.text)
    if not any(texts.values()):
        raise DataError(
            f"references: {references}: holds the text of no page that these rows cite; run"
            f" '{fetch}' for them, or leave the setting out"
        )
    return texts


# Some published segments hold a backslash and an n for a line break.
_CLAUSE_END = re.compile(r";\s+|(?:\n|\\n)+")


@dataclass(frozen=True)
class RowClaims:
    """Of one row: the claims of each segment, or the ``problem`` why there are none. ``source`` is
    the judge, or ``rules``."""

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
    """Return the claims where no judge extracts any.

    Every sentence, line and part between semicolons is a claim, if it has two words or more.
    """
    claims = []
    for segment in row.segments:
        clauses: list[str] = []
        for line in _CLAUSE_END.split(segment):
            clauses += split_sentences(line)
        claims.append(tuple(" ".join(text.split()) for text in clauses if len(words_in(text)) > 1))
    return RowClaims(row.index, tuple(claims), RULES)


class SegmentClaims(Reply):
    """The claims of a segment, numbered from 1; none if it states no facts."""

    segment: int
    claims: list[str]


class ClaimsReply(Reply):
    """The claims of every segment."""

    segments: list[SegmentClaims]


def check_claims(reply: ClaimsReply, subject: Mapping[str, Any]) -> str:
    """Say what is wrong with a reply, which has to have every segment once.

    A missing segment would pass for one without errors.
    """
    numbers = [segment.segment for segment in reply.segments]
    has_claims = any(segment.claims for segment in reply.segments)
    problem = numbering_problem(numbers, len(subject["units"]), "segment")
    return problem or ("" if has_claims else "no claims")


def to_claims(row: FelmRow, reply: ParsedReply[ClaimsReply], source: str) -> RowClaims:
    """Return the claims of a judge's reply, in the order of segments, or the problem."""
    if reply.value is None:
        return RowClaims(row.index, (), source, reply.problem)
    segments = sorted(reply.value.segments, key=lambda segment: segment.segment)
    return RowClaims(row.index, tuple(tuple(segment.claims) for segment in segments), source)


def read_claims(path: Path, rows: Iterable[FelmRow]) -> dict[str, RowClaims]:
    """Read claims by the index of their row.

    Raises:
        DataError: The file cannot be read, or is not about these rows.
    """
    segments = {row.index: len(row.segments) for row in rows}

    def parse(record: Any) -> RowClaims:
        claims = to_model(RowClaims, record)
        expected = segments.get(claims.index, len(claims.claims))
        if claims.problem is None and len(claims.claims) != expected:
            raise ValueError(
                f"claims of {len(claims.claims)} segments, but row {claims.index} has"
                f" {expected}; extract them again from the data that you score"
            )
        return claims

    advice = f"make it with: lm-factuality claims extract --out {path}"
    lines = read_lines(path, parse, advice, advice)
    return {claims.index: claims for claims in lines}


def to_line(claims: RowClaims) -> str:
    return json.dumps(vars(claims), ensure_ascii=False)


def provenance(claims: Iterable[RowClaims]) -> dict[str, int]:
    """Return how many rows have claims of each source."""
    return dict(sorted(Counter(row.source for row in claims).items()))
