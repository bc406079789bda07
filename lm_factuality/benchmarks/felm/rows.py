"""The rows of FELM (section 3 of the paper), an answer in segments and whether each is factual; and
the claims in the segments (section 4.1), which a claim-based judge checks instead.

A judge extracts claims once, and they are kept in a file that all judges share. Without a judge,
``split_claims`` is the stated fallback: each clause of a segment is a claim."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, StrictBool

from judges.typed import Reply, Typed, misnumbered
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.sentences import split_sentences, words_in

DOMAINS = ("wk", "science", "writing_rec", "math", "reasoning")
WITHOUT_REFERENCES = frozenset({"math", "reasoning"})  # nor claims: section 4.1 of the paper
MODES_WITH_REFERENCES = ("link", "doc")  # which show the model what a reference says
_EXPECTED = "expected FELM's all.jsonl, one JSON object per line"


@dataclass(frozen=True)
class FelmRow:
    """``labels`` say of each segment whether it is factual; ``references`` are links and
    ``reference_texts`` what the published file holds of their contents."""

    index: str
    domain: str
    prompt: str
    segments: tuple[str, ...]
    labels: tuple[bool, ...]
    references: tuple[str, ...]
    reference_texts: tuple[str, ...]


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

_Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: value or ())
]  # the file has an empty text for none


class _Line(BaseModel):
    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    domain: str
    prompt: str
    segmented_response: tuple[str, ...]
    labels: tuple[StrictBool, ...]
    ref: _Texts = ()
    ref_contents: _Texts = ()


def read_rows(path: Path) -> list[FelmRow]:
    """Read all rows of FELM's ``all.jsonl``, or of a file of the same form.

    Raises:
        DataError: Lines are wrong, each of which is named, or there are none.
    """
    seen: set[str] = set()

    def parse(record: Any) -> FelmRow:
        line = to_model(_Line, record)
        segments, labels = line.segmented_response, line.labels
        if not segments or len(segments) != len(labels):
            raise ValueError(
                f"{len(segments)} segments and {len(labels)} labels, expected as many of both and"
                " at least one"
            )
        if line.index in seen:
            raise ValueError(f"index {line.index!r} was there before; every row needs its own")
        seen.add(line.index)
        texts = line.prompt, segments, labels, line.ref, line.ref_contents
        return FelmRow(line.index, line.domain, *texts)

    rows = read_lines(path, parse, _EXPECTED)
    if not rows:
        raise DataError(f"{path}: no rows; {_EXPECTED}")
    return rows


def reference_texts(
    references: str, rows: Sequence[FelmRow]
) -> Callable[[FelmRow], tuple[str, ...]]:
    """Return what gives the contents of a row's references.

    Args:
        references: ``published`` for what the file of rows holds, or the folder in which
            ``lm-factuality data fetch-references`` left the pages.
        rows: The rows.

    Raises:
        DataError: There is no such folder, or it has none of these rows' references.
    """
    if references == PUBLISHED:
        return lambda row: row.reference_texts
    from lm_factuality.retrieval.references.cache import ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    fetch = f"lm-factuality data fetch-references --cache {references}"
    if not Path(references).is_dir():
        raise DataError(f"references: {references}: no such folder; make it with: {fetch}")
    cache = ReferenceCache(Path(references))
    texts: dict[str, tuple[str, ...]] = {}
    for row in rows:
        pages = map(cache.get, collect_links(row.references).urls)
        texts[row.index] = tuple(page.text for page in pages if page and page.text)
    if not any(texts.values()):
        raise DataError(
            f"references: {references}: holds the text of no page that these rows cite; run"
            f" '{fetch}' for them, or leave the setting out"
        )
    return lambda row: texts[row.index]


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
    return RowClaims(row.index, tuple(claims), "rules")


class SegmentClaims(Reply):
    """The claims of a segment, numbered from 1; none if it states no facts."""

    segment: int
    claims: list[str]


class ClaimsReply(Reply):
    """The claims of every segment."""

    segments: list[SegmentClaims]


def check_claims(reply: ClaimsReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every segment is there once. One that is missing would pass for
    one without errors."""
    problem = misnumbered(
        [each.segment for each in reply.segments], len(subject["units"]), "segment"
    )
    return problem or ("" if any(each.claims for each in reply.segments) else "no claims")


def to_claims(row: FelmRow, read: Typed[ClaimsReply], source: str) -> RowClaims:
    if read.value is None:
        return RowClaims(row.index, (), source, read.problem)
    found = {each.segment: tuple(each.claims) for each in read.value.segments}
    return RowClaims(row.index, tuple(found[number] for number in sorted(found)), source)


def read_claims(path: Path, rows: Iterable[FelmRow]) -> dict[str, RowClaims]:
    """Claims by the index of their row. Raises DataError: the file cannot be read, or is not about
    these rows."""
    wanted = {row.index: row for row in rows}

    def parse(record: Any) -> RowClaims:
        try:
            claims = to_model(RowClaims, record)
        except ValueError as error:
            raise ValueError(f"not a line of 'lm-factuality claims extract': {error}") from error
        row = wanted.get(claims.index)
        if row is not None and claims.problem is None and len(claims.claims) != len(row.segments):
            raise ValueError(
                f"claims of {len(claims.claims)} segments, but row {row.index} has"
                f" {len(row.segments)}; extract them again from the data that you score"
            )
        return claims

    found = read_lines(path, parse, f"make it with: lm-factuality claims extract --out {path}")
    return {claims.index: claims for claims in found}


def to_line(claims: RowClaims) -> str:
    return json.dumps(vars(claims), ensure_ascii=False)


def provenance(claims: Iterable[RowClaims]) -> dict[str, int]:
    return dict(sorted(Counter(each.source for each in claims).items()))
