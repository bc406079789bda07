"""The rows of FELM and the claims in them (sections 3 and 4.1 of the paper).

The tasks, the judges and the commands on FELM read rows and claims through this module.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool

from judges.typed import ParsedReply, Reply, numbering_problem
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.sentences import split_sentences, words_in

DOMAINS = ("wk", "science", "writing_rec", "math", "reasoning")
"""The domains of FELM: ``wk`` is world knowledge, ``writing_rec`` writing and recommendation."""

WITHOUT_REFERENCES = frozenset({"math", "reasoning"})
"""The domains whose rows have neither reference links nor claims (section 4.1 of the paper)."""

MODES_WITH_REFERENCES = ("link", "doc")
"""The modes in which a judge sees the reference links, or passages of the linked documents."""

PUBLISHED = "published"
"""The setting that takes reference documents from FELM's own file."""

RULES = "rules"
"""The setting, and the recorded source, of claims that rules cut without a judge."""

_EXPECTED = "expected FELM's all.jsonl, one JSON object per line"

# FELM's file holds an empty text instead of an empty list.
_Texts = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]


@dataclass(frozen=True)
class FelmRow:
    """One line of FELM's file: a question and a model's answer to it, cut into segments."""

    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    """The id of the row."""

    domain: str
    """One of `DOMAINS`."""

    prompt: str
    """The question."""

    segments: Annotated[tuple[str, ...], Field(validation_alias="segmented_response")]
    """The answer, usually one sentence per segment."""

    labels: tuple[StrictBool, ...]
    """Whether each segment is factual, as the annotators decided."""

    references: Annotated[_Texts, Field(validation_alias="ref")] = ()
    """The links that the annotators used."""

    reference_texts: Annotated[_Texts, Field(validation_alias="ref_contents")] = ()
    """The texts of the linked pages, as far as the published file holds them."""


FELM = Source(
    name="felm",
    repository="hkust-nlp/felm",
    commit="5d0791d41256d2c0531a2da2e6230fc3904e3f13",
    path="eval/all.jsonl",
    blob="108ad4e2e9ffaf97e3afe9fec46350a2c2e9cfdd",
    license="CC-BY-NC-SA-4.0",
    rows=847,
)


def read_felm_rows(path: Path) -> list[FelmRow]:
    """Read all rows of FELM's ``all.jsonl``, or of another file with the same columns.

    Args:
        path: The file, with one JSON object per line.

    Returns:
        The rows in the order of the file.

    Raises:
        DataError: The file has no rows, or some lines are invalid. The message lists all of them.
    """
    indices: set[str] = set()

    def parse_row(record: object) -> FelmRow:
        """Check one line. Remember its index, so that no later line has the same."""
        row = to_model(FelmRow, record)
        # Every later step takes segments and labels in pairs.
        if not row.segments or len(row.segments) != len(row.labels):
            raise ValueError(
                f"found {len(row.segments)} segments and {len(row.labels)} labels; expected one"
                " label for each segment, and at least one segment"
            )
        # Claims, answers and verdicts are found by the index.
        if row.index in indices:
            raise ValueError(f"index {row.index!r} appears twice; give every row its own index")
        indices.add(row.index)
        return row

    rows = read_lines(path, parse_row, _EXPECTED)
    if not rows:
        raise DataError(f"{path}: no rows; {_EXPECTED}")
    return rows


def load_reference_texts(references: str, rows: Sequence[FelmRow]) -> dict[str, tuple[str, ...]]:
    """Load the texts of the web pages that each row cites.

    Args:
        references: ``published`` to take the texts from the rows themselves, or the folder into
            which ``lm-factuality data fetch-references`` has downloaded the pages.
        rows: The rows of FELM.

    Returns:
        The texts of each row by its index. Links without a text are left out.

    Raises:
        DataError: The folder does not exist, or it holds no page that these rows cite.
    """
    if references == PUBLISHED:
        return {row.index: row.reference_texts for row in rows}

    # The reader of fetched pages has optional dependencies, so it is imported only when needed.
    from lm_factuality.retrieval.references.cache import ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    command = f"lm-factuality data fetch-references --cache {references}"
    if not Path(references).is_dir():
        raise DataError(f"references: {references}: no such folder; make it with: {command}")

    cache = ReferenceCache(Path(references))
    texts = {}
    for row in rows:
        pages = [cache.get(url) for url in collect_links(row.references).urls]
        # Pages that were dead or held no text are in the cache too.
        texts[row.index] = tuple(page.text for page in pages if page and page.text)

    if not any(texts.values()):
        raise DataError(
            f"references: {references}: the folder holds no page that these rows cite; fetch the"
            f" pages with '{command}', or leave the setting out"
        )
    return texts


@dataclass(frozen=True)
class RowClaims:
    """The claims that one row's answer makes, grouped by segment."""

    index: str
    """The index of the row."""

    claims: tuple[tuple[str, ...], ...]
    """The claims of each segment, in the order of the segments."""

    source: str
    """The name of the judge that extracted the claims, or ``rules``."""

    problem: str | None = None
    """Why there are no claims, or None if there are some."""

    def all_claims(self) -> list[str]:
        """List the claims of all segments in the order in which a judge sees them."""
        return list(chain.from_iterable(self.claims))

    def segment_numbers(self) -> list[int]:
        """List the 1-based number of the segment that each of `all_claims` belongs to.

        Example:
            If the first segment makes two claims and the second makes one: ``[1, 1, 2]``.
        """
        numbers = []
        for number, segment_claims in enumerate(self.claims, start=1):
            numbers += [number] * len(segment_claims)
        return numbers


# A clause ends at a semicolon or a line break. Some published segments write the line break as a
# backslash followed by an "n".
_CLAUSE_END = re.compile(r";\s+|(?:\n|\\n)+")


def split_claims(row: FelmRow) -> RowClaims:
    """Cut the segments of a row into clauses, and take each clause as a claim.

    This replaces a judge that extracts claims. A clause is a sentence, a line or the text between
    two semicolons. Clauses of a single word are dropped.

    Example:
        ``Mars is red; it has two moons. Sure!`` → ``Mars is red``, ``it has two moons.``

    Args:
        row: The row whose segments are cut.

    Returns:
        The claims of each segment, with the source ``rules``.
    """
    claims = []
    for segment in row.segments:
        clauses: list[str] = []
        # A line break or a semicolon ends a clause also in the middle of a sentence.
        for line in _CLAUSE_END.split(segment):
            clauses += split_sentences(line)
        segment_claims = [
            " ".join(clause.split()) for clause in clauses if len(words_in(clause)) > 1
        ]
        claims.append(tuple(segment_claims))
    return RowClaims(row.index, tuple(claims), RULES)


# Servers are sent the docstrings of replies as part of their schema, so these must not change.
class SegmentClaims(Reply):
    """The claims of a segment, numbered from 1; none if it states no facts."""

    segment: int
    """The 1-based number of the segment."""

    claims: list[str]
    """The claims. The list is empty if the segment states no facts."""


class ClaimsReply(Reply):
    """The claims of every segment."""

    segments: list[SegmentClaims]
    """One entry for every segment, in any order."""


def find_claims_problem(reply: ClaimsReply, subject: Mapping[str, Any]) -> str:
    """Check that a judge's reply lists the claims of every segment exactly once.

    Without this check, a segment that the judge forgot would count as one without errors.

    Args:
        reply: The claims that the judge extracted.
        subject: The variables of the prompt. ``units`` are the segments.

    Returns:
        The problem, such as ``no segment 2``, or an empty text if there is none.
    """
    numbers = [segment.segment for segment in reply.segments]
    problem = numbering_problem(numbers, len(subject["units"]), "segment")
    if problem:
        return problem

    # A judge that finds no claim at all has not understood the question.
    has_claims = any(segment.claims for segment in reply.segments)
    return "" if has_claims else "no claims"


def claims_from_reply(row: FelmRow, reply: ParsedReply[ClaimsReply], source: str) -> RowClaims:
    """Convert a judge's reply into the claims of a row.

    Args:
        row: The row that the judge was asked about.
        reply: The reply, or the problem why it cannot be used.
        source: The name of the judge.

    Returns:
        The claims in the order of the segments, or no claims and the problem.
    """
    if reply.value is None:
        return RowClaims(row.index, (), source, reply.problem)

    # The judge may list the segments in any order.
    segments = sorted(reply.value.segments, key=lambda segment: segment.segment)
    claims = tuple(tuple(segment.claims) for segment in segments)
    return RowClaims(row.index, claims, source)


def read_claims(path: Path, rows: Iterable[FelmRow]) -> dict[str, RowClaims]:
    """Read the file of claims that ``lm-factuality claims extract`` has written.

    Args:
        path: The file, with the claims of one row per line.
        rows: The rows that the claims should belong to.

    Returns:
        The claims of each row in the file, by the index of the row.

    Raises:
        DataError: The file cannot be read, or the claims were extracted from other segments.
    """
    # Claims of the same row in other data would be assigned to the wrong segments.
    segment_counts = {row.index: len(row.segments) for row in rows}

    def parse_claims(record: object) -> RowClaims:
        """Check the claims of one row against the number of its segments."""
        row_claims = to_model(RowClaims, record)
        count = len(row_claims.claims)
        # The file may hold rows that are not scored. Nothing is expected of these.
        expected_count = segment_counts.get(row_claims.index, count)
        if row_claims.problem is None and count != expected_count:
            raise ValueError(
                f"claims of {count} segments, but row {row_claims.index} has {expected_count};"
                " extract them again from the data that you score"
            )
        return row_claims

    advice = f"make it with: lm-factuality claims extract --out {path}"
    claims = read_lines(path, parse_claims, advice, advice)
    return {row_claims.index: row_claims for row_claims in claims}


def claims_to_line(claims: RowClaims) -> str:
    """Format the claims of a row as the line of JSON that `read_claims` reads.

    Example:
        ``{"index": "0", "claims": [["Mars is red."], []], "source": "rules", "problem": null}``
    """
    return json.dumps(vars(claims), ensure_ascii=False)


def count_claim_sources(claims: Iterable[RowClaims]) -> dict[str, int]:
    """Count the rows whose claims come from each source.

    Returns:
        The number of rows by the name of the judge, or by ``rules``, sorted by that name.
    """
    return dict(sorted(Counter(row_claims.source for row_claims in claims).items()))
